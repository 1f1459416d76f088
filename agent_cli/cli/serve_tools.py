"""`agent mcp serve`: our tools for another program, each call under the same permissions as in a one-shot run.

Importing it imports the MCP SDK and the engine.
"""

from __future__ import annotations

import threading
from typing import Any

from agent_cli.cli.run_call import ToolRun, alone, run_call
from agent_cli.config.run_options import RunOptions
from agent_cli.core.messages import ToolCall
from agent_cli.mcp.serve import serve
from agent_cli.runtime.tools import choose_tools, tool_specs
from agent_tools.cancel import CancelToken


def serve_tools(options: RunOptions) -> int:
    """Serve until the other side closes; the exit code. Raises UsageError."""
    here = alone(options)
    context = here.context
    offered = choose_tools(here.settings, here.layers.rules, context, None)
    tools = [t for t in offered if not t.of_conversation]
    specs = [(s.name, s.description, s.schema) for s in tool_specs(tools, context)]
    one_at_a_time = threading.Lock()

    def call(name: str, arguments: dict[str, Any], cancel: CancelToken) -> ToolRun:
        if name not in {t.name for t in tools}:
            return ToolRun(f"There is no tool named {name!r}.", True)
        with one_at_a_time:
            context.cancel = cancel
            return run_call(ToolCall("call", name, arguments), here)

    try:
        serve(specs, call)
    finally:
        here.hooks.close()
        context.close()
    return 0
