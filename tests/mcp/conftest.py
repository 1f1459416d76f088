"""What the tests of MCP servers share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.mcp.login_server import Locked, locked


@pytest.fixture
def web() -> Iterator[Locked]:
    """A server behind a login."""
    with locked() as made:
        yield made
