"""A plugin of pytest for the tests of the Agent SDK: its transport starts the program named by AGENT_BIN."""

from __future__ import annotations

import os

from claude_agent_sdk._internal.transport.subprocess_cli import SubprocessCLITransport

SubprocessCLITransport._find_cli = lambda self: os.environ["AGENT_BIN"]
