"""The command `/stage`: let the following turns work in a copy of the project, or in the project again."""

from __future__ import annotations

import os
from typing import Any

from agent_cli import UsageError
from agent_cli.shells.terminal.slash import SlashContext, slash
from agent_tools.lazy import lazy_imports
from agent_tools.record import from_json
from agent_tools.results import Diff, Diffs, ToolError
from agent_tools.text import counted, one_line

with lazy_imports():
    from agent_cli.kernel.runtime import staged_project  # few sessions are staged


@slash(
    "stage", "work in a copy, and be asked once for all changes; again: leave it", "[apply|discard]",
    values=lambda ctx: (("apply", "bring its changes into the project now"), ("discard", "drop its changes")),
    strict=True,
)  # fmt: skip
def _stage(ctx: SlashContext, words: str) -> None:
    stage = ctx.run_env.stage
    if stage is None:
        if words:
            raise UsageError("There is no stage: /stage begins one.")
        if why := staged_project.StagedProject.why_not(ctx.run_env):
            raise UsageError(f"The project cannot be staged: {why}.")
        ctx.change_stage()
    try:
        found = stage.request("changes") if stage is not None else {"changes": []}
        if not words:
            if found["changes"]:
                raise UsageError(
                    f"The copy has {counted(len(found['changes']), 'change')}: /stage apply or /stage discard first."
                )
            ctx.change_stage()
        _settle(ctx, words, found["changes"], found["shown"])
    except ToolError as error:
        raise UsageError(str(error)) from None


def _settle(ctx: SlashContext, words: str, changes: list[dict[str, Any]], shown: str) -> None:
    """Apply or discard the changes of the copy, after a question. Raises ToolError."""
    if not changes:
        ctx.say("The copy has no changes.")
        return
    stage, turn = ctx.run_env.stage, {"text": f"/stage {words}", "at": 0, "model": "", "tool": "/stage"}
    assert stage is not None
    what = counted(len(changes), "change")
    ctx.show_display(Diffs(tuple(from_json(Diff, change["diff"]) for change in changes)))
    if not ctx.confirm(f"{words.capitalize()} {what}?", grave=words == "discard"):
        return
    if words == "discard":
        ctx.say(f"Discarded: the files stay in {stage.request('discard')} for 14 days.")
        return
    asked = {"left_out": {}, "call": f"apply_{os.urandom(8).hex()}", "summary": what, "shown": shown}
    done = stage.request("apply", turn=turn, **asked)
    ctx.say(f"Applied: {one_line(', '.join([*done['done'], *done['merged']])) or 'nothing'}.")
    if done["kept"]:
        ctx.say(f"Your version stays, as you changed the same lines: {one_line(', '.join(done['kept']))}.")
    for path, why in done["failed"].items():
        ctx.say(f"Not applied: {one_line(path)}: {why}.")
