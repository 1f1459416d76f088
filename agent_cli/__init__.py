"""agent: an interactive terminal coding agent, and a Python API to it (docs/embedding.md).

Importing this package loads nothing: each name of the API is loaded when it is first used.
"""

from agent_cli.kernel.version import __version__ as __version__

# The stable names, each with its module.
_PLACES = {
    "AgentSession": "agent_cli.shells.library.session", "open_agent": "agent_cli.shells.library.session",
    "Config": "agent_cli.config.config", "Result": "agent_cli.shells.library.callbacks",
    "SessionInUseError": "agent_cli.kernel.runtime.session", "UsageError": "agent_cli.kernel.run_environment",
    "Approve": "agent_cli.kernel.decisions", "Defer": "agent_cli.kernel.decisions",
    "EditedCall": "agent_cli.kernel.decisions",
    "QuestionReply": "agent_cli.kernel.decisions",
    "Reject": "agent_cli.kernel.decisions",
    "AnswerRestarted": "agent_cli.kernel.events", "ApprovalRequested": "agent_cli.kernel.events",
    "ApprovalResolved": "agent_cli.kernel.events", "Compacted": "agent_cli.kernel.events",
    "Event": "agent_cli.kernel.events", "MessageAdded": "agent_cli.kernel.events",
    "PlanChanged": "agent_cli.kernel.events",
    "QuestionAnswered": "agent_cli.kernel.events", "QuestionAsked": "agent_cli.kernel.events",
    "SubagentEvent": "agent_cli.kernel.events", "TextDelta": "agent_cli.kernel.events",
    "ThinkingDelta": "agent_cli.kernel.events", "ToolFinished": "agent_cli.kernel.events",
    "ToolProgress": "agent_cli.kernel.events", "ToolRequested": "agent_cli.kernel.events",
    "ToolStarted": "agent_cli.kernel.events", "TurnFinished": "agent_cli.kernel.events",
    "TurnStarted": "agent_cli.kernel.events", "UsageAdded": "agent_cli.kernel.events",
    "Warned": "agent_cli.kernel.events",
    "Denial": "agent_cli.kernel.results", "Diagnostics": "agent_cli.kernel.results",
    "Usage": "agent_cli.kernel.results",
    "Effect": "agent_tools.base", "Progress": "agent_tools.base", "Tool": "agent_tools.base",
    "ToolContext": "agent_tools.base", "ToolError": "agent_tools.base", "ToolResult": "agent_tools.base",
    "tool": "agent_tools.function_tool", "Value": "agent_tools.record", "to_json": "agent_tools.record",
}  # fmt: skip
TYPE_CHECKING = False  # importing typing takes longer than this whole module
__all__ = (
    "AgentSession", "AnswerRestarted", "ApprovalRequested", "ApprovalResolved", "Approve", "Compacted", "Config",
    "Defer", "Denial", "Diagnostics", "EditedCall", "Effect", "Event", "MessageAdded", "PlanChanged", "Progress",
    "QuestionAnswered", "QuestionAsked", "QuestionReply", "Reject", "Result", "SessionInUseError", "SubagentEvent",
    "TextDelta", "ThinkingDelta", "Tool", "ToolContext", "ToolError", "ToolFinished", "ToolProgress", "ToolRequested",
    "ToolResult", "ToolStarted", "TurnFinished", "TurnStarted", "Usage", "UsageAdded", "UsageError", "Value",
    "Warned", "open_agent", "to_json", "tool",
)  # fmt: skip

if TYPE_CHECKING:
    from agent_cli.config.config import Config
    from agent_cli.kernel.decisions import Approve, Defer, EditedCall, QuestionReply, Reject
    from agent_cli.kernel.events import (
        AnswerRestarted,
        ApprovalRequested,
        ApprovalResolved,
        Compacted,
        Event,
        MessageAdded,
        PlanChanged,
        QuestionAnswered,
        QuestionAsked,
        SubagentEvent,
        TextDelta,
        ThinkingDelta,
        ToolFinished,
        ToolProgress,
        ToolRequested,
        ToolStarted,
        TurnFinished,
        TurnStarted,
        UsageAdded,
        Warned,
    )
    from agent_cli.kernel.results import Denial, Diagnostics, Usage
    from agent_cli.kernel.run_environment import UsageError
    from agent_cli.kernel.runtime.session import SessionInUseError
    from agent_cli.shells.library.callbacks import Result
    from agent_cli.shells.library.session import AgentSession, open_agent
    from agent_tools.base import Effect, Progress, Tool, ToolContext, ToolError, ToolResult
    from agent_tools.function_tool import tool
    from agent_tools.record import Value, to_json
else:

    def __getattr__(name: str) -> object:
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import importlib

        return getattr(importlib.import_module(_PLACES[name]), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *_PLACES})
