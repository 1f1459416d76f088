"""Dispatch a run to its front end: one-shot, or a session in the terminal, drawn or line by line."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from agent_cli import (
    Approver,
    Asker,
    Config,
    Event,
    Layers,
    QuestionReply,
    Restored,
    RunEnvironment,
    Session,
    SessionStore,
    Usage,
    UsageError,
    find_environment,
    read_settings,
)
from agent_cli.cli import command_names
from agent_cli.cli.run_options import PICK_SESSION, TAKES_OVER, RunOptions, session_config
from agent_cli.config.schema import Settings
from agent_cli.console import print_ignored, print_line, print_notice, print_warning
from agent_cli.kernel.runtime.models import NoAccessError
from agent_cli.kernel.session.store import state_folder
from agent_cli.knowledge.commands import split_call
from agent_cli.knowledge.loader import Embedded
from agent_cli.shells.headless.output import FAILED
from agent_cli.shells.headless.run import (
    FailOnQuestion,
    HeadlessOptions,
    HeadlessUsageError,
    RunReport,
    run_headless,
)
from agent_tools.base import ToolError
from agent_tools.lazy import lazy_imports

with lazy_imports():
    from agent_cli.cli import (
        choose_session,  # only for runs with a session or worktree to choose
        hints,  # only for mistakes
        patch_run,  # only with --patch
        questions,  # only for mistakes
        staged_run,  # only with --stage
    )
    from agent_cli.extras.reports import files as reports  # only with --report
    from agent_cli.kernel.engine import progress  # only for a plan of another session
    from agent_cli.kernel.runtime import session_commands, session_log
    from agent_cli.shells.headless import pending
    from agent_cli.shells.host import callbacks, control_table
    from agent_cli.shells.host import session as host_session
    from agent_cli.shells.terminal import line_input, repl, slash, startup
    from agent_cli.shells.terminal.app import before
    from agent_cli.shells.terminal.app import session as app_session
    from agent_cli.shells.terminal.dialogs import lines


def start(options: RunOptions, typed: list[str]) -> int:
    """Run as requested and return the exit code. typed: the command line as typed. Raises UsageError."""
    if options.cd is not None:
        try:
            os.chdir(os.path.expanduser(options.cd))
        except OSError as error:
            raise UsageError(f"--cd: {options.cd}: {error.strerror}.") from None
    hosted = "stream-json" in (options.input_format, options.output_format)
    if options.output_last_message and not options.print and not hosted:
        raise UsageError("--output-last-message needs -p.")
    if not options.print and not hosted:
        _warn_command_typo(options, typed)
    if (options.report or options.patch) and not options.print:
        raise UsageError(f"{'--report' if options.report else '--patch'} is for runs without a terminal: add -p.")
    if options.resume is not None and options.resume.startswith(TAKES_OVER):
        options = choose_session.with_taken_over(options)
    if options.stage and find_environment(os.environ).stage is None:
        return staged_run.run_staged(options, _dispatch)
    if options.patch is not None:
        return patch_run.run_in_copy(options, _dispatch)
    if options.worktree is not None or (options.resume is not None and not options.print and not hosted):
        return choose_session.run_in_worktree(options, _dispatch)
    if options.resume == PICK_SESSION:
        raise UsageError("--resume needs a session's ID, name or text here. See: agent sessions list")
    return _dispatch(options)


def _dispatch(options: RunOptions) -> int:
    if options.input_format == "stream-json":
        return run_host_session(options)
    if options.output_format == "stream-json" and not options.print:
        # Frames are for a program: never a session in the terminal.
        return run_one_shot(options) if options.prompt or options.print else run_host_session(options)
    if not options.print:
        return run_repl(options)
    return run_one_shot(options)


def run_repl(options: RunOptions) -> int:
    """Run a session until the user leaves; return the exit code. Raises UsageError before it begins."""
    run_env, config = find_environment(os.environ), session_config(options)
    layers = read_settings(config, run_env)
    if not line_input.is_drawable(os.environ, plain=options.plain or layers.settings().terminal.plain):
        code, ended = _run_repl(options, config, run_env, layers, drawn=False)
    else:
        # What is typed before the application reads is shown there.
        with line_input.terminal_echo(on=False):
            code, ended = _run_repl(options, config, run_env, layers, drawn=True)
    return _change_stage(options, ended.agent) if ended.changes_stage else code


def _change_stage(options: RunOptions, agent: Session) -> int:
    """Go on with a session in a stage, or outside it if this is one; return the exit code."""
    saved = agent.stored.path.exists()
    if agent.run_env.stage is not None:
        agent.run_env.stage.request("leave", session=agent.session_id if saved else "-")
        return 0
    resumed = agent.session_id if saved else None
    return staged_run.run_staged(
        options.replace(stage=True, resume=resumed, continue_=False, prompt=(), session_id=None), _dispatch
    )


def _run_repl(
    options: RunOptions, config: Config, run_env: RunEnvironment, layers: Layers, *, drawn: bool
) -> tuple[int, repl.Repl]:
    front_end = app_session.AppRepl if drawn else repl.Repl
    screen = repl.LineScreen(
        layers.settings(), run_env.home, plain=options.plain, verbose=options.verbose, worktree=options.worktree or ""
    )
    first = not state_folder(run_env.env).is_dir()
    dialogs = (
        before.PanelDialogs(screen, layers.settings().color)
        if drawn
        else lines.LineDialogs(screen.console, line_input.read_line, keep=screen.keep_draft)
    )
    layers = startup.ask_before_start(config, run_env, layers, dialogs, first=first)
    while True:
        try:
            session = front_end(config, run_env, layers, screen, first=first)
            break
        except NoAccessError as problem:
            layers, chosen = startup.connect_model(dialogs, config, layers, run_env, problem)
            config = config.replace(model=chosen or config.model)
    try:
        return session.run(" ".join(options.prompt)), session
    finally:
        session.agent.close("prompt_input_exit")


def run_host_session(options: RunOptions) -> int:
    """Serve a host program on standard input and output; return the exit code. Raises UsageError."""
    run_env = find_environment(os.environ)
    options = _in_stage(options, run_env)
    session_log.require_stage(session_config(options), run_env)
    approver, asker, fails = headless_approver(options.on_ask)

    def on_open(agent: Session) -> None:
        _answer_pending_plan(agent)
        _claim_pending_plan(agent)
        _reject_session_commands(agent)

    setup = control_table.HostSetup(
        config=session_config(options),
        run_env=run_env,
        prompt=" ".join(options.prompt),
        frames=options.output_format == "stream-json",
        verbose=options.verbose,
        prompt_tool=options.permission_prompt_tool or "",
        headless=lambda agent: headless_options(options, agent.settings).replace(
            fails=fails, structured=agent.structured
        ),
        report=session_report,
        unattended=(approver, asker),
        on_open=on_open,
    )
    try:
        return host_session.HostSession(setup).run()
    except StillWaitingError as waiting:
        folder = SessionStore.of(run_env).folder
        known = waiting.session_id, waiting.items, folder, str(waiting)
        return pending.report_unsent(*known, as_json=True, structured=False)


def _in_stage(options: RunOptions, run_env: RunEnvironment) -> RunOptions:
    """Let the decision about a stage wait for the user, as its turns are of no use without one."""
    waits = run_env.stage is not None and options.on_ask == "deny"
    return options.replace(on_ask="suspend") if waits else options


def run_one_shot(options: RunOptions) -> int:
    """Run `agent -p` and return the exit code."""
    run_env = find_environment(os.environ)
    options = _in_stage(options, run_env)
    config = session_config(options)
    session_log.require_stage(config, run_env)
    layers = read_settings(config, run_env)
    print_ignored(layers.ignored)
    approver, asker, fails = headless_approver(options.on_ask)
    if options.on_ask == "suspend" and not layers.settings().save_sessions:
        raise UsageError(
            "--on-ask suspend needs a saved session to continue later: leave out --no-session-persistence "
            "(setting save_sessions), or use --on-ask deny."
        )
    # "stdio" needs a host session.
    name = options.permission_prompt_tool
    tool = callbacks.PromptTool(name) if name and name != "stdio" else None
    embedded = Embedded(approves=tool is not None, mirror=print_mirrored)
    run_reports = reports.RunReports(options.report, run_env.env, str(run_env.root)) if options.report else None
    asked = headless_options(options, layers.settings()).replace(fails=fails, reports=run_reports)
    built: list[Session] = []

    def begin() -> tuple[Session, RunReport]:
        agent = Session.open(
            config, run_env, lambda on_ask: (tool.approve if tool is not None else approver, asker), print_warning,
            layers=layers, check=_refuse_copy_if_waiting, embedded=embedded,
        )  # fmt: skip
        built.append(agent)
        if tool is not None:
            tool.attach(agent)
        _answer_pending_plan(agent)
        _claim_pending_plan(agent)
        _reject_session_commands(agent)
        return agent, session_report(agent)

    try:
        code = run_headless(asked, begin, _run_command, resumes=config.resumes)
        return code if run_reports is None or run_reports.write(print_notice) else code or FAILED
    except HeadlessUsageError as error:
        raise UsageError(str(error)) from None
    except StillWaitingError as waiting:
        as_json = asked.output_format != "text"
        folder = SessionStore.of(run_env).folder
        known = waiting.session_id, waiting.items, folder, str(waiting)
        return pending.report_unsent(*known, as_json=as_json, structured=asked.structured)
    finally:
        for agent in built:
            agent.close()


def print_mirrored(path: str, entries: list[dict[str, Any]]) -> None:
    """Print what was added to the transcript in this file, for a host that has a copy of its own."""
    print_line({"type": "transcript_mirror", "filePath": path, "entries": entries})


NOT_SENT = "The message was not sent: this session waits for your decision."


class StillWaitingError(Exception):
    """The session waits for the user, so the message was not sent; the text says so."""

    def __init__(self, session_id: str, items: list[dict[str, Any]], text: str) -> None:
        super().__init__(text)
        self.session_id = session_id
        self.items = items


def _answer_pending_plan(agent: Session) -> None:
    """Let the message answer a pending plan. Raises StillWaitingError if something else is pending."""
    waiting = agent.restored.waiting if agent.restored else None
    if agent.restored is None or waiting is None or not (waiting.undecided or waiting.decided):
        return
    if waiting.is_deferred:
        return
    session_id, conversation = agent.session_id, agent
    items = agent.restored.pending()
    if any(item["kind"] != "plan" or "decided" in item for item in items):
        raise StillWaitingError(session_id, items, NOT_SENT)
    expired = waiting.expired(agent.settings.plan_ttl)
    if expired:
        print_notice(expired)
    if expired:
        conversation.expect_reply(expired)
    else:
        why = "The user replied with a comment; see their next message."
        conversation.expect_reply(why, waiting.feedback)

    def claim(text: str) -> str:
        if conversation.suspended:
            if QuestionReply.is_assent(text):
                why = "There is nothing to approve any more." if expired else "A plan is approved with a command."
                raise StillWaitingError(session_id, items, f"The message was not sent: {why}")
            agent.store.claim_plan(agent.session_id)
        return text

    conversation.expanders.insert(0, claim)


def _refuse_copy_if_waiting(restored: Restored) -> None:
    """Refuse to copy a session that waits for the user. Raises StillWaitingError."""
    items = restored.pending()
    if any(item["kind"] != "plan" for item in items):
        raise StillWaitingError(restored.header.session_id, items, NOT_SENT)


def _claim_pending_plan(agent: Session) -> None:
    """With `plan_review_fresh`, let the first message of a new session answer the project's pending plan."""
    if agent.restored is not None or not agent.settings.plan_review_fresh:
        return
    store = agent.store
    plan = store.claim_plan()
    if plan is None:
        return
    text = f"The plan was claimed by session {agent.session_id}."
    store.session(plan.session_id).close_call(plan.call_id, text)
    if not plan.expired(agent.settings.plan_ttl):
        request = plan_request(store, plan.session_id)
        agent.expect_reply(text, lambda words: plan.feedback(words, request))


def plan_request(store: SessionStore, session_id: str) -> str:
    """Return the request that a plan of a session answers; "" if the session is gone."""
    restored = store.session(session_id).load_if_any()
    return progress.goal_of(restored.history) if restored is not None else ""


def headless_approver(on_ask: str) -> tuple[Approver, Asker, FailOnQuestion | None]:
    """Return approver and asker for a run without a user, by --on-ask: deny, suspend, or fail."""
    if on_ask == "fail":
        fails = FailOnQuestion()
        return fails, fails, fails
    return *Session.unattended(on_ask), None


def headless_options(options: RunOptions, settings: Settings) -> HeadlessOptions:
    """Return the options of a one-shot run."""
    return HeadlessOptions(
        prompt=options.prompt,
        output_format=options.output_format,
        input_format=options.input_format,
        partial=options.include_partial_messages,
        hook_events=options.include_hook_events,
        subagent_text=options.forward_subagent_text,
        replay=options.replay_user_messages,
        verbose=options.verbose,
        structured=options.json_schema is not None,
        last_message=os.path.expanduser(options.output_last_message or ""),
        fail_on_denied=options.fail_on_denied,
        fail_on_degraded=options.fail_on_degraded,
        fail_on_unfinished=options.fail_on_unfinished,
        in_copy=options.patch is not None,
        ide=options.ide,
    )


def session_report(agent: Session) -> RunReport:
    """Return the session facts for the result and the first line of stream-json."""
    settings, run_env = agent.settings, agent.run_env
    return RunReport(
        session_id=agent.session_id,
        model=agent.model.name,
        key_source=agent.model.key_source,
        cwd=str(run_env.cwd),
        tools=tuple(agent.tools),
        mode=agent.policy.mode,
        memory=tuple(str(f.path) for f in agent.memory.files),
        main_memory_files=agent.memory.main_files,
        agents=agent.agent_types,
        commands=agent.commands,
        skills=tuple(agent.added.skills),
        plugins=(
            *((name, name) for name in settings.tool_packages),
            *((p.name, str(p.folder)) for p in agent.layers.plugins),
        ),
        output_style=settings.output_style,
        servers=agent.mcp.states() if agent.mcp is not None else (),
        folder=SessionStore.of(run_env).folder if settings.save_sessions else None,
        plan_ttl=settings.plan_ttl,
        ids=agent.ids,
        windows=(agent.chosen.window.tokens, agent.info.max_output if agent.info else None),
    )


# Slash commands that also work with -p; the others need a user.
_HEADLESS_COMMANDS = ("context", "cost", "usage", "compact", "clear", "new", "reset")


class OneShotSession:
    """The session of a one-shot run, for these commands."""

    def __init__(self, agent: Session) -> None:
        self.agent = agent

    @property
    def conversation(self) -> Session:
        return self.agent

    def clear(self) -> None:
        """Explain that a run without -c or -r starts a new session."""
        print_notice("agent: A run without -c or -r starts a new session; nothing was sent.")

    def cost_words(self) -> str:
        """Describe the cost of the session in a sentence."""
        restored = self.agent.restored
        used = restored.usage if restored is not None else Usage()
        return f"{used.input:,} tokens in, {used.output:,} out; {used.cost_words}"


def _run_command(agent: Session, text: str, show: Callable[[Event], None]) -> str | None:
    """Run a message that is a command of the session; return what to print, None if it is none."""
    name, _ = split_call(text)
    if not text.startswith("/") or name not in _HEADLESS_COMMANDS or name in agent.commands:
        return None
    return session_commands.run_session_command(OneShotSession(agent), text, show)


def _reject_session_commands(agent: Session) -> None:
    """Refuse a message that names a slash command of sessions, or nearly an existing one, instead of sending it."""

    def check(text: str) -> str:
        name, _ = split_call(text)
        if text.startswith("/") and name not in agent.commands:
            known = [*agent.commands, *_HEADLESS_COMMANDS]
            interactive = [each for each in slash.builtin_commands() if each not in known]
            if name in interactive:
                raise ToolError(f"/{name} is a command for interactive sessions and does nothing with -p.")
            if near := hints.closest(name, [*known, *interactive], 0.75):
                only = " It is for interactive sessions." if near in interactive else ""
                raise ToolError(f"Unknown command /{name}. Did you mean /{near}?{only}")
        return text

    agent.expanders.insert(0, check)


def _warn_command_typo(options: RunOptions, typed: list[str]) -> None:
    """Ask before a prompt is sent that looks like a command, of this program or of another agent.

    Raises UsageError if nobody can be asked.
    """
    words = options.prompt
    if not words or "--" in typed or any(c.isspace() for c in words[0]):
        return
    names = command_names()
    hint = hints.command_hint(words, names)
    if not hint and len(words) == 1:
        near = words[0] if words[0] in names else hints.closest(words[0], names, 0.7)
        hint = near and f"`{words[0]}` looks like the command `agent {near}`"
    if not hint:
        return
    import shlex

    hint += f"; to send it as a prompt, write: agent -- {shlex.join(words)}"
    if not questions.can_ask():
        raise UsageError(hint)
    if not questions.confirm(f"{hint}\nSend it as a prompt now?"):
        raise UsageError("Nothing was sent.")
