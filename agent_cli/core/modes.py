"""Words that several rooms share."""

from __future__ import annotations

from typing import Literal, get_args

Mode = Literal["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"]
MODES: tuple[Mode, ...] = get_args(Mode)
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
