"""Apply what prompts and the permission mode override for a turn: rules, a model, a workflow.

Also runs the commands in a user's prompt, under the same permissions and hooks as calls of the shell tool.
"""

from __future__ import annotations

from collections.abc import Generator

from agent_cli.hooks import hooks_from_plain
from agent_cli.kernel.decisions import Approve, EditedCall, Level, Reject
from agent_cli.kernel.engine.turn import Turn, TurnDeps, report_failure
from agent_cli.kernel.events import ApprovalRequested, Event, Noted, ToolFinished, ToolRequested, Warned
from agent_cli.models.base import ModelError
from agent_tools.base import Effect, Steps, ToolError
from agent_tools.cancel import CancelledError
from agent_tools.lazy import lazy_imports
from agent_tools.record import from_json
from agent_tools.registry import SHELL
from agent_tools.results import ExpandedPrompt, Note, TurnOverrides
from agent_tools.text import shorten

with lazy_imports():
    from agent_cli.kernel.engine import (
        hook_points,
        review,  # only for reviews and workflows
    )
    from agent_tools.shell import bash


def apply_initial_overrides(turn: Turn) -> Generator[Event, None, None]:
    """Apply the overrides of the turn's message, or those stored when it was suspended."""
    options = turn.options
    if not (options.overrides or options.suspended_state or options.review != "off"):
        return
    stored = (from_json(TurnOverrides, plain) for plain in options.suspended_state.get("lent", ()))
    every = [options.overrides, *stored]
    flow = next((each.flow for each in every if each.flow), "")
    if options.review != "off" or flow:
        turn.gates = review.ReviewGates(turn, flow, options.suspended_state)
    for each in every:
        yield from apply_overrides(turn, each)


def apply_overrides(turn: Turn, overrides: TurnOverrides) -> Generator[Event, None, None]:
    """Apply a prompt's overrides until the turn ends. A model that is not available is reported and skipped."""
    if not overrides:
        return
    turn.overrides.append(overrides)
    if overrides.hooks:
        turn.deps.hooks.add(hooks_from_plain(overrides.hooks))
    turn.temporary_rules += turn.deps.policy.add_temporary(
        overrides.rules, overrides.source, from_user=overrides.from_user
    )
    if not overrides.model or turn.deps.open_model is None:
        return
    try:
        other = turn.deps.open_model(overrides.model)
    except ModelError as error:
        asks_for = f"{overrides.source} asks for the model {overrides.model}"
        yield Warned(f"{asks_for}: {error.failure.message} Continuing without it.")
        return
    turn.switch(other)


def follow_mode(turn: Turn) -> Generator[Event, None, None]:
    """Switch to the model of the permission mode, if it has one of its own. Raises ModelError.

    A model that a prompt asks for stays.
    """
    planning = turn.deps.policy.mode == "plan"
    if turn.deps.planner is None or planning == turn.planning or any(each.model for each in turn.overrides):
        return
    turn.planning = planning
    turn.switch(turn.deps.planner(planning))
    yield Noted(f"{'Planning' if planning else 'Continuing'} with {turn.options.label}.")


def restore_overrides(turn: Turn) -> None:
    """Remove the overrides at the end of the turn, however it ends."""
    turn.deps.policy.remove_temporary(turn.temporary_rules)
    for overrides in turn.overrides:
        if overrides.hooks and not overrides.for_session:
            turn.deps.hooks.remove(hooks_from_plain(overrides.hooks))


def run_prompt_commands(deps: TurnDeps, prompt: ExpandedPrompt) -> Generator[Event, None, str]:
    """Return the prompt with the output of its commands, which run under its overrides. Raises ToolError."""
    if SHELL.name not in deps.tools:
        raise ToolError(f"/{prompt.name} was not sent: it runs commands, and {SHELL.name} is not offered here.")
    overrides = prompt.overrides
    rules = deps.policy.add_temporary(overrides.rules, overrides.source, from_user=overrides.from_user)
    if overrides.hooks:
        deps.hooks.add(hooks_from_plain(overrides.hooks))
    pieces = list(prompt.pieces)
    try:
        for index in range(1, len(pieces), 2):
            pieces[index] = yield from _permitted(deps, prompt.name, pieces[index], f"inline-{index}")
        text = Steps(bash.expand_prompt(prompt.replace(pieces=tuple(pieces)), deps.context)).finish()
    except CancelledError:
        raise ToolError(f"Interrupted: /{prompt.name} was not sent.") from None
    except ToolError:
        raise
    except Exception as error:  # noqa: BLE001 - it must cost this message, not the session
        failure = yield from report_failure(deps, f"running the commands of /{prompt.name}", error)
        raise ToolError(f"/{prompt.name} was not sent. {failure}") from None
    finally:
        deps.policy.remove_temporary(rules)
        if overrides.hooks and not overrides.for_session:
            deps.hooks.remove(hooks_from_plain(overrides.hooks))
    return text


def _permitted(deps: TurnDeps, name: str, command: str, call_id: str) -> Generator[Event, None, str]:
    """Ask whether a command may run; return it, perhaps edited by the user. Raises ToolError if it may not."""
    yield ToolRequested(call_id, SHELL.name, {"command": command}, f"Run: {shorten(command, 200)}")
    decision = deps.policy.decide(SHELL.name, (Effect("run", command),))
    if deps.hooks.wants("PreSkillShellCommand", SHELL.name):
        yield from hook_points.before_skill_command(deps, name, command, call_id)
    if deps.hooks.wants("PreToolUse", SHELL.name):
        decision, command = yield from hook_points.before_command(deps, command, call_id, decision)
    why = f"it {decision.reason}"
    if decision.level is Level.ASK:
        effects = (Effect("run", command),)
        found = deps.policy.facts(SHELL.name, effects, decision)
        # It runs before the turn, so there is no snapshot.
        uncovered = (
            (f"undo cannot restore anything of this: /{name} runs it before its turn",) if found.destroys else ()
        )
        request = ApprovalRequested(
            call_id,
            SHELL.name,
            f"Run: {shorten(command, 200)}",
            f"{decision.reason}, and /{name} begins with it",
            effects,
            str(deps.context.workspace.cwd),
            facts=(*found.lines, *uncovered),
            arguments={"command": command},
            warnings=(*found.warnings, *uncovered),
        )
        answer = deps.approver(request)
        if isinstance(answer, EditedCall):
            return (yield from _permitted(deps, name, str(answer.arguments.get("command", command)), call_id))
        if isinstance(answer, Approve):
            yield ToolFinished(call_id, SHELL.name, False, 0, Note(f"for /{name}"))
            return command
        why = answer.reason or "you refused it" if isinstance(answer, Reject) else "it needs the user to allow it"
    elif decision.level is Level.ALLOW:
        yield ToolFinished(call_id, SHELL.name, False, 0, Note(f"for /{name}"))
        return command
    yield ToolFinished(call_id, SHELL.name, True, 0, Note("not run"))
    raise ToolError(f"/{name} was not sent, because its command `{shorten(command)}` may not run: {why}.")
