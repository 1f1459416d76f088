"""How many examples Hypothesis tries."""

from __future__ import annotations

import os

from tests.support.fork_server import ROOT as ROOT


def examples(count: int) -> int:
    """How many examples of many Hypothesis tries: a third, and all with EXAMPLES=all, as `make fuzz` does."""
    return count if os.environ.get("EXAMPLES") == "all" else count // 3
