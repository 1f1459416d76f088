"""What the tests with clients of others share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.model_server import ModelServer
from tests.support.obedient_model import answer_request


@pytest.fixture
def model() -> Iterator[str]:
    """The address of a model that does what the prompts of these clients say."""
    with ModelServer([answer_request], repeat=True) as server:
        yield server.anthropic_url
