"""Suspended turns: find them in a project's sessions, record decisions, and resume them.

A decision is recorded in the session like any other event, under the session's lock. The turn continues once the last
open call is decided, in another process and perhaps days later, with the settings, rules, folders and budget that it
was suspended with. An approval holds for what was shown; if that has changed since, the user is asked again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_cli.config.config import Config
from agent_cli.config.layers import Layers
from agent_cli.config.removed import without_removed
from agent_cli.config.schema import Settings
from agent_cli.kernel.decisions import (
    Answer,
    Approver,
    Asker,
    Defer,
    QuestionReply,
    approval_record,
    recorded_answer,
    recorded_reply,
)
from agent_cli.kernel.events import ApprovalRequested, ApprovalResolved, QuestionAsked
from agent_cli.kernel.rules import Rule
from agent_cli.kernel.run_environment import RunEnvironment, UsageError
from agent_cli.kernel.runtime.environment import add_overrides, check_mode, evaluate_project_trust, read_settings
from agent_cli.kernel.session.log import SessionBusyError, SessionLog
from agent_cli.kernel.session.records import Restored, SessionNotFoundError, WaitingTurn
from agent_cli.kernel.session.store import StoredSession
from agent_tools.record import Value, from_json

if TYPE_CHECKING:
    from agent_cli.kernel.runtime.user_decision import UserDecision

# How long the session of another program may be in use while its hook writes.
_HOOK_SECONDS = 10.0


def record_host_decisions(path: Path, decisions: Sequence[UserDecision], user: str = "") -> str:
    """Record decisions about calls of another program, whose hook carries them out; return the program's name.

    user: name of the user who decided. Raises UsageError.
    """
    log = SessionLog(path, lambda text: None, os.environ)
    try:
        log.acquire(_HOOK_SECONDS)
        restored = StoredSession(path).load()
        host, open_calls = restored.header.host, {item["call_id"] for item in restored.pending()}
        log.continue_from(restored.seq, restored.parent)
        records = []
        for decision in decisions:
            waiting = restored.waiting
            if waiting is None or decision.call_id not in open_calls & set(waiting.undecided):
                raise UsageError(f"{host} no longer waits for this decision.")
            if wrong := [name for name in decision.given if name not in _OF_HOSTS]:
                raise UsageError(f"{', '.join(wrong)}: {host} cannot run another call than this one.")
            request = waiting.requests[decision.call_id]
            if decision.verdict == "edit":
                raise UsageError(f"{host} cannot run another call than this one: approve or reject it.")
            records.append(approval_record(request, decision.answer_to(request, user=user)))
        for record in records:
            log.record(record)
        if log.warning:
            raise UsageError(log.warning)
        return host
    except (SessionBusyError, SessionNotFoundError) as error:
        raise UsageError(str(error)) from None
    finally:
        log.close()


# What can be decided about a call of another program, besides the verdict.
_OF_HOSTS = ("text", "comments", "rule", "scope")


class RecordedApprover:
    """Approver and asker of a resumed turn: recorded decisions first, then the given ones."""

    def __init__(self, waiting: WaitingTurn, approver: Approver, asker: Asker) -> None:
        self._waiting = waiting
        self._approver = approver
        self._asker = asker

    def recorded(self, asked: ApprovalRequested | QuestionAsked) -> bool:
        """Return True if the user has already decided this."""
        if isinstance(asked, ApprovalRequested):
            return self._decision(asked) is not None
        answer = self._waiting.answers.get(asked.call_id)
        return answer is not None and answer.verdict != "defer"

    def approve(self, request: ApprovalRequested) -> Answer:
        found = self._decision(request)
        return recorded_answer(found) if found is not None else self._approver(request)

    def _decision(self, request: ApprovalRequested) -> ApprovalResolved | None:
        """Return the recorded decision about what this request shows; None if there is none.

        The history has the model's arguments, so a resumed turn first asks about those again: an earlier edit answers
        that.
        """
        found = [kept.get(request.call_id) for kept in (self._waiting.decisions, self._waiting.edits)]
        return next((record for record in found if record is not None and record.binding == request.binding), None)

    def rejected(self, call_id: str) -> str:
        """Return the user's reason for rejecting a call; "" if they did not, or gave none."""
        found = self._waiting.decisions.get(call_id)
        return found.reason if found is not None and found.decision == "reject" else ""

    def answer(self, asked: QuestionAsked) -> QuestionReply | Defer:
        if not self.recorded(asked):
            return self._asker(asked)
        return recorded_reply(self._waiting.answers[asked.call_id])


class SavedTurn(Value):
    """What a turn is resumed with: as it was saved, except for rules that have become stricter since.

    turn: the one that waits or was interrupted; None if the session has none.
    """

    config: Config
    run_env: RunEnvironment
    layers: Layers
    turn: WaitingTurn | None


def read_saved_turn(restored: Restored, config: Config, run_env: RunEnvironment) -> SavedTurn:
    """Return what the open turn of a session is resumed with. Raises UsageError.

    config: of the caller; what it sets above all files counts for the rest of the turn.
    """
    if restored.waiting is not None:
        check_mode(restored.waiting.mode, run_env.env)
    turn = restored.waiting or restored.interrupted
    saved = turn.saved if turn is not None else {}
    chosen = config.replace(
        resume=restored.header.session_id,
        latest=False,
        bare=bool(saved.get("bare", False)),
        trust=bool(saved.get("trust", False)),
        schema=saved.get("json_schema"),
        on_ask=str(saved.get("on_ask", "deny")) if config.on_ask == Config.on_ask else config.on_ask,
        servers=tuple(saved.get("mcp_config", ())),
        only_these_servers=bool(saved.get("strict_mcp_config", False)),
    )
    run_env = saved_environment(saved, run_env)
    layers = saved_layers(saved, run_env)
    if saved:
        current = read_settings(chosen.replace(managed=config.managed), run_env)
        layers.managed, layers.plugins = current.managed, current.plugins
        # Server declarations and variables contain secrets, which are not saved with a turn.
        layers.servers, layers.env = current.servers, current.env
        # Of the rules added since then, only deny rules apply.
        layers.rules += [rule for rule in current.rules if rule.list == "deny" and rule not in layers.rules]
        # The turn keeps its mode: the user is asked under the mode in which the call was made.
        add_overrides(layers, config.replace(mode=None), run_env)
        layers.may_bypass = current.may_bypass
    return SavedTurn(chosen, run_env, layers, turn)


def refuse_copy(restored: Restored) -> None:
    """Raise UsageError for the copy of a suspended session: its question must be asked in one place only."""
    if restored.waiting is not None:
        short = restored.header.session_id[:8]
        raise UsageError(
            f"Session {short} waits for your decision and cannot be copied. To decide: agent --resume {short}"
        )


def saved_layers(saved: Mapping[str, Any], run_env: RunEnvironment) -> Layers:
    """Return the settings and rules saved with a turn, with the current trust of its project. Raises UsageError."""
    layers = Layers()
    if saved:
        settings = without_removed(saved["settings"])
        if "plugins" in settings:  # the name of `tool_packages` in older logs
            settings["tool_packages"] = settings.pop("plugins")
        layers.restore(from_json(Settings, settings), [from_json(Rule, r) for r in saved["rules"]])
        if not saved.get("bare"):
            evaluate_project_trust(layers, run_env, layers.settings().trusted, by_flag=bool(saved.get("trust")))
    return layers


def saved_environment(saved: Mapping[str, Any], run_env: RunEnvironment) -> RunEnvironment:
    """Return the environment that the turn ran in. Raises UsageError if its folder no longer exists."""
    if not saved:
        return run_env
    cwd = Path(saved["cwd"])
    if not os.path.isdir(cwd):  # noqa: PTH112 - the method raises if a parent is unreadable
        raise UsageError(f"The folder of this session no longer exists: {cwd}")
    return run_env.replace(cwd=cwd, root=Path(saved["root"]))
