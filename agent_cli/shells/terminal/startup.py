"""Questions at the start of a session.

At the first start: the model, if there are several; how commands run; hints. At every start: trust in a project that is
new or has changed, how to connect a model if none can be used, and the summary of a resumed session.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from rich.console import Console
from rich.text import Text

from agent_cli import (
    Config,
    Layers,
    Mode,
    Restored,
    RunEnvironment,
    Session,
    UsageError,
    UserMessage,
    UserTrust,
    Warned,
    __version__,
    read_settings,
)
from agent_cli.config.parsing import SettingsError
from agent_cli.kernel.runtime import addresses
from agent_cli.kernel.runtime.configured_servers import ConfiguredServers
from agent_cli.kernel.runtime.models import NoAccessError, ReachableModels
from agent_cli.kernel.runtime.saved_settings import SettingsFile
from agent_cli.kernel.session.history import Exchange
from agent_cli.kernel.session.store import schedules_folder, state_folder
from agent_cli.shells.terminal.dialogs.approval import NO, YES
from agent_cli.shells.terminal.dialogs.model import Choice, Dialog, GiveAnswer, Prose
from agent_cli.shells.terminal.dialogs.questions import Dialogs, confirm_dialog, pick_dialog
from agent_cli.shells.terminal.line_input import run_interruptible, terminal_echo
from agent_cli.shells.terminal.login import ModelLogin
from agent_cli.shells.terminal.render.ansi import cells, truncate_cells
from agent_cli.shells.terminal.render.console import styled
from agent_cli.shells.terminal.render.events import EventRenderer
from agent_cli.shells.terminal.render.writer import Writer
from agent_cli.shells.terminal.slash import SlashContext
from agent_tools.lazy import lazy_imports
from agent_tools.lookalikes import escape_lookalikes
from agent_tools.results import TodoView
from agent_tools.shell.jobs import Jobs
from agent_tools.text import counted, dollars, one_line, short_count, shorten

with lazy_imports():
    from agent_cli.kernel.session import schedules  # few have any
    from agent_cli.knowledge.plugins import store  # few have plugins
    from agent_tools.sandbox import sandbox  # only at few starts

# The answers about the sandbox, each with the value of `sandbox.auto_allow`.
_SANDBOX_VALUES = (True, "read-only", False)
_SANDBOX_OPTIONS = (
    (
        "In the sandbox, without asking",
        "tests, builds and linters just run; deleting files, leaving the workspace and the network still ask",
    ),
    ("Ask before commands that write", "others run at once, in a read-only sandbox"),
    ("Ask before every command", "allowed commands also run in the sandbox"),
)


def greeting_lines(model: str, mode: str, folder: str, width: int) -> list[str]:
    """Return the first lines of a session, each in one row: version, model, mode, folder."""
    first = f"agent {__version__} · {model}"
    if cells(f"{first} · {mode}") <= width:
        first = f"{first} · {mode}"
    room = max(width - 2, 1)
    return [truncate_cells(first, width), f"  {folder if cells(folder) <= room else f'…{folder[1 - room :]}'}"]


# One of them is shown at the start of a session, each in its turn; {key} changes the permission mode.
TIPS = (
    "/help lists the commands",
    "@ names a file, whose text goes along with the message",
    "! runs a shell command, and the model sees its output",
    "Esc twice in the empty line goes back to an earlier message",
    "Ctrl-R searches what you wrote in this project",
    "{key} changes what is done without asking",
    "/undo reverts the changes of the last turn",
    "# keeps a note for later sessions",
    "Ctrl-O shows the latest call whole",
    "a message that you send during a turn reaches the model at its next step",
)


def tip(agent: Session, mode_key: str) -> str:
    """Return the tip for a session: another one for each session of the project."""
    sessions = agent.store.folder.glob("*.jsonl")
    return TIPS[sum(1 for _ in sessions) % len(TIPS)].format(key=mode_key)


def loaded_words(agent: Session) -> str:
    """Return what a session has loaded: memory files, MCP servers, rules; "" for nothing."""
    files = [one_line(file.shown) for file in agent.memory.files if file.text]
    shown = f"{', '.join(files[:2])} and {len(files) - 2} more" if len(files) > 3 else ", ".join(files)
    servers = len(agent.mcp.servers.all) if agent.mcp is not None else 0
    given = agent.settings.permissions
    rules = sum(map(len, (given.allow, given.ask, given.deny, given.rules)))
    counts = [counted(servers, "MCP server")] * bool(servers) + [counted(rules, "permission rule")] * bool(rules)
    return " · ".join(filter(None, (shown, *counts)))


def first_rows(agent: Session, folder: str, width: int) -> Iterator[Text]:
    """Yield the first rows of a session in the application: name and version, folder, model, what was loaded."""
    yield styled("agent", "name").append_text(styled(f" {__version__}", "dim"))
    room = max(width - 2, 1)
    yield styled(f"  {folder if cells(folder) <= room else f'…{folder[1 - room :]}'}")
    yield styled(f"  {truncate_cells(agent.model.name, room)}")
    if loaded := loaded_words(agent):
        yield styled(f"  {truncate_cells(f'loaded {loaded}', room)}", "dim")


def farewell(agent: Session, worktree: str) -> Iterator[str]:
    """Yield the last lines of a session: the background jobs that end with it, and how to resume it."""
    jobs = agent.tool_context.state(Jobs)
    for found, state in ((jobs.unfinished(), "ended"), (jobs.outliving(), "still running, as it has detached itself")):
        if found:
            names = ", ".join(shorten(one_line(name), 60) for name in found.values())
            yield f"{counted(len(found), 'background job')} {state}: {names}"
    for left in agent.background.open if agent.background is not None else ():
        yield f"{left.name} stopped: {one_line(left.task)} (it continues when you resume the session)"
    if agent.unsaved:
        yield f"warning: {agent.unsaved}"
    elif agent.history and agent.settings.save_sessions:
        where = f" --worktree {worktree}" if worktree else ""
        yield f"To resume this session: agent{where} --resume {agent.session_id[:8]}"


def beginner_hint(mode_key: str, width: int, *, unasked: bool) -> str:
    """Return a hint for beginners in one row.

    mode_key: changes the permission mode. unasked: commands run in the sandbox.
    """
    asked = "commands run in the sandbox" if unasked else "changes need your approval"
    keys = f"  {asked} ({mode_key})"
    least = f"  {asked} · /help"
    forms = [f"{keys} · @ file · ! command · /help{more}" for more in (" lists the commands", "")]
    return next((form for form in (*forms, f"{keys} · /help") if cells(form) <= width), least)


def first_approval_hint(*, sandboxed: bool, trusts: bool) -> str:
    """Return what the first question of a beginner takes for granted.

    sandboxed: what is approved runs in a sandbox. trusts: one of its answers trusts the project.
    """
    where = (
        "Commands that you allow run in a sandbox, which can change files only in this folder."
        if sandboxed
        else "There is no sandbox here: commands that you allow can do what you can do."
    )
    trust = " Trusting a project means using its own settings, hooks and commands."
    return f"  {where}{trust if trusts else ''}"


def ask_before_start(
    config: Config, run_env: RunEnvironment, layers: Layers, dialogs: Dialogs, *, first: bool
) -> Layers:
    """Ask the necessary questions before a session begins, if a user is present; return the updated settings.

    first: it is the user's first session. Raises UsageError.
    """
    if os.isatty(0):
        layers = ask_for_trust(config, run_env, layers, dialogs)
        ask_about_addresses(run_env, layers, dialogs)
        ask_about_servers(config, run_env, layers, dialogs)
        layers = _ask_about_plugins(config, run_env, layers, dialogs)
    if first and not (config.resume or config.latest):
        choose_first_model(dialogs, config, layers, run_env)
        # Without a model there is nothing more to ask.
        layers, _ = connect_model(dialogs, config, layers, run_env)
        choose_sandbox(dialogs, layers, run_env)
    return layers


def ask_for_trust(config: Config, run_env: RunEnvironment, layers: Layers, dialogs: Dialogs) -> Layers:
    """Ask for trust in the project if it has anything that would take effect."""
    if layers.trust.state not in ("untrusted", "changed"):
        return layers
    # Files are read before and after the settings, so that the user agrees to exactly what was shown.
    project = UserTrust(run_env)
    if project.declined:
        return layers
    layers = read_settings(config, run_env)
    if not dialogs.put(trust_dialog(layers)):
        if not project.decline():
            dialogs.say("Not trusted; you are asked again when it changes. To trust it later: agent trust")
        # The question has just named what is ignored.
        layers.ignored.remove(layers.untrusted_notice())
        return layers
    if why := project.remember():
        dialogs.say(f"warning: your answer was not saved, because {why}; --trust trusts for one session")
    return read_settings(config, run_env)


def ask_about_addresses(run_env: RunEnvironment, layers: Layers, dialogs: Dialogs) -> None:
    """Use the addresses of a trusted project that the user has agreed to, and ask about the others."""
    for address in addresses.use_answered(layers, run_env):
        title, lines, question = addresses.describe_question(address, run_env)
        use = bool(dialogs.put(_before_start(title, [f"  {line}" for line in lines], question)))
        if use:
            addresses.use_address(layers, address, run_env)
        try:
            addresses.AddressStore(state_folder(run_env.env)).remember(run_env.root, address, use)
        except OSError as error:
            dialogs.say(f"warning: your answer was not saved, because it cannot be saved: {error.strerror or error}")


def ask_about_servers(config: Config, run_env: RunEnvironment, layers: Layers, dialogs: Dialogs) -> None:
    """Ask about project MCP servers that are not approved as declared: about several at once, or one by one."""
    servers = ConfiguredServers(run_env, layers, config)
    waiting = servers.unapproved()
    all_or_some = dialogs.put(servers_dialog(waiting)) if len(waiting) > 1 else "some"
    for found, why in waiting if all_or_some in ("all", "some") else ():
        allowed = all_or_some == "all" or dialogs.put(server_dialog(found, why))
        if allowed and (problem := servers.approve(found)):
            dialogs.say(f"warning: your answer was not saved, because {problem}")


def _ask_about_plugins(config: Config, run_env: RunEnvironment, layers: Layers, dialogs: Dialogs) -> Layers:
    """Ask about plugins that changed since the user trusted them."""
    if config.bare or run_env.home is None or not any("agent plugin trust" in text for text in layers.ignored):
        return layers
    plugins = store.PluginStore(run_env.home)
    for plugin, digest in plugins.changed():
        title = f"The plugin {plugin.name} has changed since you trusted it. It contains:"
        lines = [f"  {phrase}" for phrase in plugin.describe_contents()]
        if not dialogs.put(_before_start(title, lines, "Trust this version?")):
            continue
        try:
            plugins.trust(plugin.name, digest)
        except (UsageError, OSError) as error:
            dialogs.say(f"warning: your answer was not saved, because {error}")
        layers = read_settings(config, run_env)
    return layers


def choose_first_model(dialogs: Dialogs, config: Config, layers: Layers, run_env: RunEnvironment) -> None:
    """Ask which model to use if none is configured and several are available; save the answer for the user."""
    if config.model or layers.settings().model or not os.isatty(0):
        return
    found = ReachableModels(run_env, layers.settings()).offers.discovered()
    if len(found) < 2:
        return
    chosen = dialogs.put(pick_dialog("Which model? (/model changes it at any time)", found, "decide later"))
    if chosen is None:
        return
    name = found[chosen][0]
    _save(dialogs, run_env, layers, "model", name)


# The origin of a setting that the user chose at the start.
CHOSEN = "your choice"
_NOTHING_FOUND = "No model can be used yet: there is no API key, and no model server on this machine."
_IMPORTED_FROM = {"Claude Code": ".claude", "Codex": ".codex", "Gemini CLI": ".gemini", "OpenCode": ".config/opencode"}


def connect_model(
    dialogs: Dialogs, config: Config, layers: Layers, run_env: RunEnvironment, problem: NoAccessError | None = None
) -> tuple[Layers, str]:
    """Let the user connect a model if none can be used; return the updated settings, and the model if one was chosen.

    problem: why the model of a session cannot be used, if that is known.
    Raises UsageError if there is still none, or if nobody can be asked.
    """
    chosen = ""
    while True:
        settings = layers.settings()
        try:
            if problem is None:
                ReachableModels(run_env.replace(env={**run_env.env, **layers.env}), settings).choose(settings.model)
                return layers, chosen
        except NoAccessError as error:
            problem = error
        # A model whose name is unknown is a mistake, which no login mends.
        named = settings.model and not problem.provider
        if named or run_env.env.get("CI") or not (os.isatty(0) and os.isatty(1)):
            raise problem
        others = [name for name, folder in _IMPORTED_FROM.items() if run_env.home and (run_env.home / folder).is_dir()]
        more = [("Watch the demo", "half a minute, without a key", "demo")]
        if others:
            more.insert(0, ("Import settings of another agent", f"of {', '.join(others)}; never its login", "import"))
        reason = str(problem) if problem.provider or "none was found" not in str(problem) else _NOTHING_FOUND
        setup = ModelLogin(dialogs, run_interruptible, run_env, config)
        ways = tuple((label, text) for label, text, _ in more)
        name = setup.connect(f"{reason} How do you want to connect a model?", problem.provider, ways)
        if name is None:
            raise problem
        if isinstance(name, int):
            layers = _run_first(more[name][2], dialogs, config, layers, run_env)
        else:
            chosen = _use_model(name, setup, layers, run_env)
        problem = None


def _run_first(command: str, dialogs: Dialogs, config: Config, layers: Layers, run_env: RunEnvironment) -> Layers:
    """Run a command of this program before the session; return the settings, which it may have changed."""
    program = [sys.executable, "-P", "-m", "agent_cli", command]
    with terminal_echo(on=True):
        run_interruptible(lambda: subprocess.call(program))
    if command != "import" or not dialogs.put(confirm_dialog("Import these?", grave=False)):
        return layers
    run_interruptible(lambda: subprocess.call([*program, "--apply"]))
    layers = read_settings(config, run_env)
    ask_about_addresses(run_env, layers, dialogs)
    return layers


def _use_model(name: str, setup: ModelLogin, layers: Layers, run_env: RunEnvironment) -> str:
    """Begin with a model, unless the configured one can be used now; return it, "" for the configured one."""
    settings = layers.settings()
    try:
        if settings.model:
            ReachableModels(run_env.replace(env={**run_env.env, **layers.env}), settings).choose(settings.model)
            return ""
    except NoAccessError:
        pass
    setup.keep_model(name, layers)
    if layers.settings().model != name:
        layers.add({"model": name}, CHOSEN, run_env.root)
    return name


def choose_sandbox(dialogs: Dialogs, layers: Layers, run_env: RunEnvironment) -> None:
    """Ask whether commands run in the sandbox without approval, if there is one and no setting says so."""
    asked = layers.settings().sandbox
    if asked.mode == "off" or "sandbox.auto_allow" in layers.origins or not os.isatty(0):
        return
    if not sandbox.select_sandbox(asked.mode, sandbox.trial_profile(), run_env.env).is_boundary:
        return
    question = "How should commands run? (/config sandbox.auto_allow changes it later)"
    chosen = dialogs.put(pick_dialog(question, _SANDBOX_OPTIONS, "decide later"))
    if chosen is not None:
        _save(dialogs, run_env, layers, "sandbox.auto_allow", _SANDBOX_VALUES[chosen])


def _save(dialogs: Dialogs, run_env: RunEnvironment, layers: Layers, key: str, value: Any) -> None:
    """Save an answer for the user; without a home folder or a file that can be changed, it is used for this session."""
    try:
        if run_env.home is None:
            raise SettingsError("there is no home folder")
        SettingsFile(run_env.home / ".agentrc").set(key, value, layers)
    except (SettingsError, OSError):
        layers.set(key, value, CHOSEN, run_env.root)
        dialogs.say("  this applies to this session only; ~/.agentrc could not be changed")
    else:
        dialogs.say(f"  saved as `{key}` in ~/.agentrc")


_CONTAINS = "It contains settings or files that change how the agent works:"


def trust_dialog(layers: Layers) -> Dialog:
    """Build the question about trusting the project, which shows everything in it that would take effect."""
    trust = layers.trust
    if trust.state == "changed":
        title, *lines = f"{trust.root} has changed since you trusted it: {', '.join(trust.changed)}", f"  {_CONTAINS}"
    else:
        title, lines = f"You have not trusted {trust.root} yet. {_CONTAINS}", []
    for held in layers.held:
        lines.append(f"  - {os.path.relpath(held.source, trust.root)} sets {held.key}: {held.shown}")
    lines += [
        *(f"  - {phrase}" for phrase in trust.needs_trust),
        "  y: all of this takes effect until it changes, and git runs here without approval",
        "  n: it is ignored, except for what makes the agent stricter",
    ]
    return _before_start(title, lines, "Trust this folder?")


class ProjectServer(Protocol):
    """An MCP server that the project declares."""

    @property
    def name(self) -> str: ...

    @property
    def line(self) -> str: ...

    @property
    def described_inputs(self) -> dict[str, str]: ...


def servers_dialog(waiting: Sequence[tuple[ProjectServer, str]]) -> Dialog:
    """Build the question about starting several MCP servers of the project; the answer is "all", "some" or "none"."""
    lines = []
    for found, why in waiting:
        lines += [f"  - {found.name} {why}: {found.line}", *(f"  {line}" for line in _inputs_of(found))]
    asked = _before_start(f"{len(waiting)} MCP servers of this project need approval:", lines, "Let all of them start?")
    return asked.replace(
        choices=(
            Choice("y", "Yes, until they change", GiveAnswer("all"), YES, "yes"),
            Choice("o", "One by one", GiveAnswer("some"), ("o", "one by one"), "one by one"),
            Choice("n", "No", GiveAnswer("none"), NO, "no"),
        )
    )


def server_dialog(found: ProjectServer, why: str) -> Dialog:
    """Build the question about starting an MCP server of the project."""
    title = f"The MCP server {found.name} of this project {why}. It is {found.line}"
    return _before_start(title, _inputs_of(found), "Let it start, until it changes?")


def _inputs_of(found: ProjectServer) -> list[str]:
    return [f"  {what}: {given}" for what, given in found.described_inputs.items()]


def _before_start(title: str, lines: list[str], question: str) -> Dialog:
    """Build a yes-or-no question whose continuation lines are indented, so that they cannot be mistaken for ours."""
    body = [Prose(escape_lookalikes(one_line(line)), more="    ") for line in lines]
    # What the project starts runs outside the sandbox.
    return confirm_dialog(escape_lookalikes(one_line(title)), body, question, grave=True)


_RESTORED_MODES: tuple[Mode, ...] = ("acceptEdits", "plan", "dontAsk")
BROKE_OFF_WARNING = "the last turn broke off here; write continue to resume it"
# Turns of a resumed session that are loaded.
_MAX_TURNS = 60
# Turns shown in the plain front end.
_MAX_LINE_TURNS = 3


class ResumeContext(SlashContext, Protocol):
    """A context that can show a resumed session."""

    def show_earlier(self, exchanges: Sequence[Exchange], earlier: int) -> None:
        """Show turns, folded. earlier: how many there were before them."""


def waiting_schedules(env: Mapping[str, str]) -> list[str]:
    """Return a line for each schedule with a run that waits for the user."""
    state = state_folder(env)
    if not schedules_folder(state).is_dir():
        return []
    return [
        f"Schedule {schedule.id} ({one_line(schedule.spec)}) waits for you. See: agent pending --all"
        for schedule, _ in schedules.waiting_sessions(state)
    ]


def greet_resumed(ctx: ResumeContext) -> None:
    """Report what was restored; show the conversation and the open steps of the plan."""
    restored = ctx.agent.restored
    if restored is None:
        return
    ctx.say(f"  {_restored_words(restored)}")
    exchanges = ctx.agent.exchanges(_MAX_TURNS)
    turns = sum(isinstance(m, UserMessage) and m.from_user for m in restored.history)
    ctx.show_earlier(exchanges, max(turns - len(exchanges), 0))
    if exchanges and restored.last is None and restored.waiting is None:
        ctx.show_event(Warned(BROKE_OFF_WARNING))
    for agent in ctx.agent.background.open if ctx.agent.background is not None else ():
        if agent.state == "stopped":
            ctx.say(f"  {agent.name} was at work when the program ended: it continues with your next message")
    if any(step.status in ("pending", "in_progress") for step in restored.plan):
        ctx.say("  open steps of the plan:")
        ctx.show_display(TodoView(restored.plan))


def show_turns(say: Callable[[str], None], console: Console, exchanges: Sequence[Exchange], earlier: int) -> None:
    """Write turns of a resumed session line by line, folded. earlier: how many there were before them."""
    if earlier := earlier + len(exchanges[:-_MAX_LINE_TURNS]):
        say(f"  … {counted(earlier, 'earlier turn')}")
    for exchange in exchanges[-_MAX_LINE_TURNS:]:
        writer = Writer(console)
        renderer = EventRenderer(console, writer=writer, folded=True)
        for part in exchange.parts():
            if isinstance(part, str):
                writer.release_all()
                for number, line in enumerate(part.splitlines()):
                    say(f"{'  ' if number else '> '}{line}")
            else:
                renderer(part)
        writer.release_all()


def restore_mode(agent: Session, config: Config) -> Session:
    """Set the mode in which the user left a resumed session, unless a flag or a setting names one; return the agent.

    Never bypassPermissions, which only a flag sets, nor the mode of a run without a user.
    """
    restored = agent.restored
    if restored is None or not restored.header.answered or config.mode:
        return agent
    mode = next((mode for mode in _RESTORED_MODES if mode == restored.mode), None)
    if mode is not None and agent.settings.permissions.mode == "default":
        agent.policy.mode = mode
    return agent


def _restored_words(restored: Restored) -> str:
    """Summarize a restored session on one line."""
    cost = f", {dollars(restored.usage.cost)} so far" if restored.usage.cost else ""
    tokens = f", {short_count(restored.tokens)} tokens" if restored.tokens else ""
    name = f": {shorten(restored.name, 60)}" if restored.name else ""
    messages = counted(len(restored.history), "message")
    return f"restored {messages}{tokens}{cost} of session {restored.header.session_id[:8]}{name}"
