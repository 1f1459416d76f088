"""agent: an interactive terminal coding agent, and a Python API to it (docs/embedding.md).

Importing this package loads nothing: each name of the API is loaded when it is first used.
"""

from agent_cli.core.version import __version__ as __version__

# The stable names, each with its module.
_PLACES = {
    "AgentSession": "agent_cli.sdk", "open_agent": "agent_cli.sdk",
    "Config": "agent_cli.config.config", "Result": "agent_cli.embedding",
    "SessionInUseError": "agent_cli.runtime.session", "UsageError": "agent_cli.core.run_environment",
    "Approve": "agent_cli.core.decisions", "Defer": "agent_cli.core.decisions",
    "EditedCall": "agent_cli.core.decisions",
    "QuestionReply": "agent_cli.core.decisions",
    "Reject": "agent_cli.core.decisions",
    "AnswerRestarted": "agent_cli.core.events", "ApprovalRequested": "agent_cli.core.events",
    "ApprovalResolved": "agent_cli.core.events", "Compacted": "agent_cli.core.events",
    "Event": "agent_cli.core.events", "MessageAdded": "agent_cli.core.events", "PlanChanged": "agent_cli.core.events",
    "QuestionAnswered": "agent_cli.core.events", "QuestionAsked": "agent_cli.core.events",
    "SubagentEvent": "agent_cli.core.events", "TextDelta": "agent_cli.core.events",
    "ThinkingDelta": "agent_cli.core.events", "ToolFinished": "agent_cli.core.events",
    "ToolProgress": "agent_cli.core.events", "ToolRequested": "agent_cli.core.events",
    "ToolStarted": "agent_cli.core.events", "TurnFinished": "agent_cli.core.events",
    "TurnStarted": "agent_cli.core.events", "UsageAdded": "agent_cli.core.events", "Warned": "agent_cli.core.events",
    "Denial": "agent_cli.core.results", "Diagnostics": "agent_cli.core.results", "Usage": "agent_cli.core.results",
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
    from agent_cli.core.decisions import Approve, Defer, EditedCall, QuestionReply, Reject
    from agent_cli.core.events import (
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
    from agent_cli.core.results import Denial, Diagnostics, Usage
    from agent_cli.core.run_environment import UsageError
    from agent_cli.embedding import Result
    from agent_cli.runtime.session import SessionInUseError
    from agent_cli.sdk import AgentSession, open_agent
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
