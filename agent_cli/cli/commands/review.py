"""Review a change: uncommitted work, a branch against its base, a commit or a range; findings by severity."""

from __future__ import annotations

import json
import os
from typing import Annotated

import typer

from agent_cli import Complete, Event, LiveSession, Session, find_environment, read_settings
from agent_cli.cli import completion
from agent_cli.cli.app import check_choice, with_run_options
from agent_cli.cli.help import examples, one_of
from agent_cli.cli.run_options import RunOptions, session_config
from agent_cli.config.prompts import prompt
from agent_cli.console import print_line, print_notice, print_text, print_warning
from agent_cli.extras.reports.files import RunReports, check_target, write_text
from agent_cli.extras.reports.findings import SCHEMA, SEVERITIES
from agent_cli.extras.reports.review import NOTHING_TO_REVIEW, Review
from agent_cli.git.review_target import ReviewTarget
from agent_cli.shells.headless.output import FAILED, ProgressPrinter, RunListener, exit_code, failure_hint, outcome_of
from agent_cli.shells.headless.result_object import result_object
from agent_tools.process.child import StopSignals
from agent_tools.text import one_line

app = typer.Typer(add_completion=False)
_FORMATS = ("text", "json")
FINDINGS_EXIT_CODE = 7
_READ_TOOLS = ("Read", "Grep", "Glob", "LS")
# Limits of the diff in the prompt: in all, for one file, and for each token of a small window.
_MAX_DIFF_CHARS, _MAX_FILE_CHARS, _CHARS_PER_WINDOW_TOKEN = 240_000, 60_000, 1.2


@app.command(
    epilog="Exit codes:\n0 reviewed, 1 failed, 2 usage, 4 stopped by a limit, "
    "7 a finding at least as severe as --fail-on, 75 worth trying again, 130 interrupted.\n\n"
    + examples(
        "agent review                        what is not committed",
        "agent review --base main            this branch, as a pull request",
        "agent review --commit HEAD~1",
        "agent review --base main --fail-on high --report sarif:review.sarif",
        'agent review --base main "Look at error handling only"',
    )
)
@with_run_options(
    "model", "effort", "fallback_model", "max_turns", "max_budget_usd", "allow_unknown_cost", "settings", "bare",
    "trust", "no_session_persistence", "append_system_prompt", "report", "record", "debug", "verbose",
    print=True, tools=_READ_TOOLS, json_schema=json.dumps(SCHEMA),
)  # fmt: skip
def review(
    options: RunOptions,
    words: Annotated[list[str] | None, typer.Argument(metavar="[REQUEST]...", help="What to look for.")] = None,
    base: Annotated[
        str, typer.Option("--base", metavar="REF", help="Review the changes of this branch since it diverged from REF.")
    ] = "",
    commit: Annotated[str, typer.Option("--commit", metavar="REF", help="Review one commit.")] = "",
    range_: Annotated[str, typer.Option("--range", metavar="A..B", help="Review a range of commits.")] = "",
    uncommitted: Annotated[bool, typer.Option("--uncommitted", help="Review what is not committed.")] = False,
    comments: Annotated[
        str, typer.Option("--comments", metavar="FILE", help="Write the findings as comments for GitHub's API.")
    ] = "",
    fail_on: Annotated[
        str, typer.Option("--fail-on", metavar="SEVERITY", callback=check_choice(("", *SEVERITIES)), show_default=False,
                          help=f"Exit with 7 if a finding is at least this severe: {one_of(SEVERITIES)}.",
                          autocompletion=completion.one_of_choices(SEVERITIES))
    ] = "",
    output_format: Annotated[
        str, typer.Option("--output-format", metavar="FORMAT", help=f"Format of the findings: {one_of(_FORMATS)}.",
                          autocompletion=completion.one_of_choices(_FORMATS), callback=check_choice(_FORMATS))
    ] = "text",
) -> int:  # fmt: skip
    run_env, config = find_environment(os.environ), session_config(options)
    layers = read_settings(config, run_env)
    if comments:
        check_target("--comments", comments)
    reports = RunReports(options.report, run_env.env, str(run_env.root))
    target = ReviewTarget.find(
        run_env.root, layers.trust.git_use, run_env.env, base=base, commit=commit, span=range_, uncommitted=uncommitted
    )
    for text in (*layers.ignored, *target.notes):
        print_warning(f"{one_line(text).rstrip('.')}.")
    code = 0
    if target.diff.strip():
        agent = Session.open(config, run_env, lambda on_ask: Session.unattended(), print_warning, layers=layers)
        try:
            code = _ask(agent, target, " ".join(words or ()), reports, verbose=options.verbose)
        finally:
            agent.close()
    else:
        reports.finish(
            {"outcome": "done", "result": "", "structured_output": {"summary": NOTHING_TO_REVIEW, "findings": []}}
        )
    made = Review(reports.record(), target.diff, target.title, target.commit)
    if output_format == "json":
        print_line(made.data())
    elif not code:
        print_text(made.text())
    for note in made.record.notes:
        print_notice(note)
    good = reports.write(print_notice, made.record)
    if comments and not code:
        try:
            write_text(comments, made.comments())
        except OSError as error:
            print_notice(f"The comments were not written: {comments}: {error.strerror or error}")
            good = False
    if code or not good:
        return code or FAILED
    return FINDINGS_EXIT_CODE if fail_on and made.has(fail_on) else 0


def _ask(agent: Session, target: ReviewTarget, request: str, reports: RunReports, *, verbose: bool) -> int:
    """Let the model review the change; return the exit code. Its answer is the result that the reports have."""
    view = LiveSession()
    progress = RunListener(ProgressPrinter(print_notice, verbose).show, view=view, pieces=verbose)

    watch = StopSignals(agent.interrupt)

    def show(event: Event) -> None:
        if watch.caught:
            agent.interrupt()  # a signal before the turn began
        progress(event)
        reports(event)

    with watch:
        result = agent.send(_prompt(target, request, agent.chosen.window.tokens), show)
    outcome = outcome_of(result)
    if outcome == "degraded":
        outcome = (
            "retryable" if isinstance(result, Complete) and result.failure and result.failure.retryable else "failed"
        )
    if outcome == "done" and (not isinstance(result, Complete) or result.return_value is None):
        outcome = "failed"
        print_notice("The model gave no findings in the form that was asked for; try again, or another model.")
    elif outcome != "done":
        why = getattr(result, "text", "") or f"The review ended: {outcome}."
        print_notice(f"{why} {failure_hint(getattr(result, 'failure', None))}".rstrip())
    windows = (agent.chosen.window.tokens, agent.info.max_output if agent.info else None)
    fields = result_object(result, outcome, agent.session_id, view, windows, structured=True)
    if outcome != "done":
        fields.pop("structured_output", None)
    reports.finish(fields)
    return exit_code(outcome, fail_on_degraded=True, signal_number=watch.caught)


def _prompt(target: ReviewTarget, request: str, window: int | None) -> str:
    where = "Read only what the diff has: the files here are of another version." if target.elsewhere else ""
    limit = min(_MAX_DIFF_CHARS, int(window * _CHARS_PER_WINDOW_TOKEN)) if window else _MAX_DIFF_CHARS
    shown = _fit_diff(target.diff, limit)
    words = f"\nThe user also asks: {request}\n" if request else ""
    text = prompt("review_change")
    for name, value in (("title", target.title), ("where", where), ("request", words)):
        text = text.replace(f"{{{name}}}", value)
    return text.replace("{diff}", shown.replace("</diff>", "<\\/diff>")).replace(" \n", "\n")


def _fit_diff(diff: str, limit: int) -> str:
    """Return the diff with long files truncated; files that do not fit are only named."""
    parts = [f"diff --git {part}" for part in ("\n" + diff).split("\ndiff --git ")[1:]]
    shown: list[str] = []
    named: list[str] = []
    left = limit
    for part in sorted(parts, key=len):
        text = (
            part
            if len(part) <= _MAX_FILE_CHARS
            else part[:_MAX_FILE_CHARS].rpartition("\n")[0] + "\n(cut here: read the file itself)"
        )
        if len(text) > left:
            named.append(part.partition("\n")[0].removeprefix("diff --git "))
            continue
        left -= len(text)
        shown.append(text)
    if named:
        shown.append("Too long to show; read these files themselves:\n" + "\n".join(sorted(named)))
    return "\n".join(shown)
