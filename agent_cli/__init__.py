"""agent: an interactive terminal coding agent, and a Python API to it (docs/embedding.md).

Importing this package loads nothing: each name of the API is loaded when it is first used.
"""

from agent_cli.kernel.version import __version__ as __version__

TYPE_CHECKING = False  # importing typing takes longer than this whole module
# The stable names. The front ends import them from here.
__all__ = (
    "MODES", "AgentSession", "Answer", "AnswerRestarted", "ApprovalQuestion", "ApprovalRequested", "ApprovalResolved",
    "Approve", "Approver", "Asker", "AssistantMessage", "CallView", "Compacted", "Complete", "Config", "Defer",
    "Denial", "Diagnostics", "EditedCall", "Effect", "Event", "Failed", "Failure", "Layers", "LimitReached",
    "LiveSession", "MessageAdded", "Mode", "PlanChanged", "Progress", "QuestionAnswered", "QuestionAsked",
    "QuestionReply", "Reject", "Restored", "Result", "RunEnvironment", "Session", "SessionInUseError",
    "SessionNotFoundError", "SessionStore", "SessionSummary", "SessionView", "StoredSession", "SubagentEvent",
    "Suspended", "TextDelta", "ThinkingDelta", "Tool", "ToolCall", "ToolContext", "ToolError", "ToolFinished",
    "ToolMessage", "ToolProgress", "ToolRequested", "ToolResult", "ToolStarted", "TurnFinished", "TurnResult",
    "TurnStarted", "Usage", "UsageAdded", "UsageError", "UserDecision", "UserMessage", "UserTrust", "Value",
    "ViewChange", "Warned", "find_environment", "open_agent", "read_settings", "to_json", "tool",
)  # fmt: skip
_MODULES = {
    "agent_cli.library.session": "AgentSession open_agent",
    "agent_cli.library.callbacks": "Result",
    "agent_cli.config.config": "Config",
    "agent_cli.config.layers": "Layers",
    "agent_cli.kernel.runtime.session": "Session",
    "agent_cli.kernel.runtime.session_log": "SessionInUseError",
    "agent_cli.kernel.runtime.approval_words": "ApprovalQuestion",
    "agent_cli.kernel.runtime.environment": "UserTrust find_environment read_settings",
    "agent_cli.kernel.runtime.user_decision": "UserDecision",
    "agent_cli.kernel.run_environment": "RunEnvironment UsageError",
    "agent_cli.kernel.decisions": "Answer Approve Approver Asker Defer EditedCall QuestionReply Reject",
    "agent_cli.kernel.events":
        "AnswerRestarted ApprovalRequested ApprovalResolved Compacted Event MessageAdded PlanChanged "
        "QuestionAnswered QuestionAsked SubagentEvent TextDelta ThinkingDelta ToolFinished ToolProgress "
        "ToolRequested ToolStarted TurnFinished TurnStarted UsageAdded Warned",
    "agent_cli.kernel.messages": "AssistantMessage ToolCall ToolMessage UserMessage",
    "agent_cli.kernel.modes": "MODES Mode",
    "agent_cli.kernel.results": "Complete Denial Diagnostics Failed Failure LimitReached Suspended TurnResult Usage",
    "agent_cli.kernel.session.live": "LiveSession ViewChange",
    "agent_cli.kernel.session.records": "Restored SessionNotFoundError",
    "agent_cli.kernel.session.store": "SessionStore StoredSession",
    "agent_cli.kernel.session.summary": "SessionSummary",
    "agent_cli.kernel.session.view": "SessionView",
    "agent_cli.kernel.session.view_entries": "CallView",
    "agent_tools.base": "Effect Progress Tool ToolContext ToolError ToolResult",
    "agent_tools.function_tool": "tool",
    "agent_tools.record": "Value to_json",
}  # fmt: skip

if TYPE_CHECKING:
    from agent_cli.config.config import Config
    from agent_cli.config.layers import Layers
    from agent_cli.kernel.decisions import Answer, Approve, Approver, Asker, Defer, EditedCall, QuestionReply, Reject
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
    from agent_cli.kernel.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
    from agent_cli.kernel.modes import MODES, Mode
    from agent_cli.kernel.results import (
        Complete,
        Denial,
        Diagnostics,
        Failed,
        Failure,
        LimitReached,
        Suspended,
        TurnResult,
        Usage,
    )
    from agent_cli.kernel.run_environment import RunEnvironment, UsageError
    from agent_cli.kernel.runtime.approval_words import ApprovalQuestion
    from agent_cli.kernel.runtime.environment import UserTrust, find_environment, read_settings
    from agent_cli.kernel.runtime.session import Session
    from agent_cli.kernel.runtime.session_log import SessionInUseError
    from agent_cli.kernel.runtime.user_decision import UserDecision
    from agent_cli.kernel.session.live import LiveSession, ViewChange
    from agent_cli.kernel.session.records import Restored, SessionNotFoundError
    from agent_cli.kernel.session.store import SessionStore, StoredSession
    from agent_cli.kernel.session.summary import SessionSummary
    from agent_cli.kernel.session.view import SessionView
    from agent_cli.kernel.session.view_entries import CallView
    from agent_cli.library.callbacks import Result
    from agent_cli.library.session import AgentSession, open_agent
    from agent_tools.base import Effect, Progress, Tool, ToolContext, ToolError, ToolResult
    from agent_tools.function_tool import tool
    from agent_tools.record import Value, to_json
else:
    _HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *_HOMES})
