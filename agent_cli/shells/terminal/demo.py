"""`agent demo`: the agent repairs a small broken project, without a key or a network.

Only the model's words come from a script. The steps: copy the project into a temporary folder, build an agent there as
for any run (but without settings), run one turn, in the real interface if there is a terminal, run the tests again
without the agent, explain how to install it and connect a model, and clean up.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agent_cli import (
    Answer,
    ApprovalRequested,
    Approver,
    Complete,
    Config,
    Defer,
    Layers,
    Reject,
    RunEnvironment,
    Session,
    ToolMessage,
    TurnResult,
    UsageError,
)
from agent_cli.kernel.rules import rule_for
from agent_cli.models.base import Chunk, ModelError, Request, TextChunk
from agent_cli.models.scripted import ScriptedClient
from agent_cli.shells.terminal.app.playback import LOOK_SECONDS, WORD_SECONDS, Pace, PlayedSession
from agent_cli.shells.terminal.dialogs.approval import ask_approval
from agent_cli.shells.terminal.dialogs.lines import LineDialogs
from agent_cli.shells.terminal.line_input import is_drawable, read_line
from agent_cli.shells.terminal.render.console import make_console, prose, styled
from agent_cli.shells.terminal.render.events import EventRenderer
from agent_tools.cancel import CancelToken
from agent_tools.fs.workspace import Workspace
from agent_tools.process.child import StopSignals
from agent_tools.registry import SHELL

DEMO_FOLDER = Path(__file__).resolve().parents[2] / "demo"
TASK = "One test of this project fails. Find out why and repair it."
INTRO = "  This is a demo: the model's words come from a script, everything else is real."
CONNECT_HELP = """\
  A model, by a key or on this machine:
    agent login                     # or export ANTHROPIC_API_KEY=..., OPENAI_API_KEY=...
    ollama serve                    # then: agent --model ollama/NAME
  Then type `agent` in your repository. `agent doctor` checks your setup."""


def run_demo(yes: bool, keep: bool, slowness: float = 1) -> int:
    """Run the demo; return 0, or 1 if it failed and the user neither refused nor ended it.

    slowness: 1 for reading speed, 0 for all at once.
    Raises UsageError if it cannot begin.
    """
    install = how_to_install(os.environ)
    try:
        folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="agent-demo-")))
        # Leave a working directory that may be deleted: Python 3.13.0 fails to import from there.
        os.chdir(folder)
    except OSError as error:
        raise UsageError(f"There is no folder for temporary files: {error.strerror}.") from None
    try:
        interactive = not yes and os.isatty(0) and os.isatty(1)
        return _Demo(folder, interactive, install, slowness).run(keep)
    finally:
        os.chdir(folder.parent)
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def how_to_install(env: Mapping[str, str]) -> str:
    """Explain how to get `agent` onto the PATH; "" if it is there."""
    if shutil.which("agent", path=env.get("PATH")) is not None:
        return ""
    ways = ["pipx install .", "uv tool install ."] if (DEMO_FOLDER.parents[1] / "pyproject.toml").is_file() else []
    program = Path(sys.executable or "python3").with_name("agent")
    if program.is_file():
        near = program.is_relative_to(DEMO_FOLDER.parents[1]) and ways
        ways.append(shlex.quote(str(program.relative_to(DEMO_FOLDER.parents[1]) if near else program)))
    choices = "   or   ".join(ways)
    return f"  `agent` is not on your PATH yet:\n    {choices}" if ways else ""


class ScriptedActor:
    """A model that plays a script at reading pace, with other replies for a refusal or an unexpected result.

    script: the file with the replies.
    """

    def __init__(self, script: Path, pace: Pace) -> None:
        import tomllib

        self._script = ScriptedClient.load(script)
        self._others: dict[str, list[dict[str, Any]]] = tomllib.loads(script.read_text("utf-8"))
        self._pace = pace

    def note_answer(self, answer: Answer) -> None:
        """Switch the script if the user refused."""
        if isinstance(answer, Reject):
            self._switch_script("refused")

    def observe(self, approver: Approver) -> Approver:
        """Wrap the approver to note its answers."""

        def ask(request: ApprovalRequested) -> Answer:
            answer = approver(request)
            self.note_answer(answer)
            return answer

        return ask

    def _switch_script(self, name: str) -> None:
        if self._script.name != name:
            self._script = ScriptedClient(self._others[name], name)

    def stream(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        pace, words = self._pace, 0
        pace.begin()
        # Leave time to read the results of the last calls.
        seen = request.messages and isinstance(request.messages[-1], ToolMessage)
        pace.wait(LOOK_SECONDS if seen else LOOK_SECONDS / 2, cancel)
        for chunk in self._reply(request, cancel):
            if isinstance(chunk, TextChunk):
                words += 1
                pace.wait(WORD_SECONDS, cancel)
            elif words:
                pace.wait(words * WORD_SECONDS, cancel)
                words = 0
            yield chunk

    def _reply(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        chunks = self._script.stream(request, cancel)
        try:
            first = next(chunks)
        except ModelError:
            self._switch_script("unforeseen")
            chunks = self._script.stream(request, cancel)
            first = next(chunks)
        yield first
        yield from chunks


class _Demo:
    """One run of the demo in its directory. interactive: a user answers; otherwise the demo's own rules do."""

    def __init__(self, folder: Path, interactive: bool, install: str, slowness: float) -> None:
        self._folder = folder
        self._project = folder / "basket"
        self._interactive, self._install, self._slowness = interactive, install, slowness
        self._argv, self._env = test_command(os.environ)
        plain = self._env.get("TERM", "") in ("", "dumb", "unknown")
        self._console = make_console("auto", self._env, plain=plain)

    def run(self, keep: bool) -> int:
        try:
            copy_project(self._project)
        except OSError as error:
            raise UsageError(f"The demo's project cannot be written: {error.strerror}.") from None
        layers = self._settings()
        run_env = RunEnvironment(cwd=self._project, root=self._project, home=None, env=self._env)
        drawable = is_drawable(self._env, plain=layers.settings().terminal.plain)
        play = self._run_interface if drawable else self._run_lines
        result, stopped = play(run_env, layers)
        if keep:
            self._echo(f"The project stays in {self._project}")
        if stopped:
            return stopped
        self._echo("")
        code = self._report_result(result)
        self._echo("")
        self._echo("\n".join(filter(None, ["To use it on your own code:", self._install, CONNECT_HELP])))
        return code

    def _run_interface(self, run_env: RunEnvironment, layers: Layers) -> tuple[TurnResult | None, int]:
        """Run it in the interface; return the result, and the exit code if the user interrupted it."""
        pace = Pace(self._slowness)
        actor = ScriptedActor(self._script(), pace)
        session = PlayedSession(run_env, layers, TASK, intro=INTRO, model=actor, pace=pace, answered=actor.note_answer)
        self._check(session.agent.tools)
        try:
            session.run("")
            last = session.agent.last
        finally:
            session.agent.close("prompt_input_exit")
        return last, 128 + signal.SIGINT if session.stopped == "interrupted" else 0

    def _run_lines(self, run_env: RunEnvironment, layers: Layers) -> tuple[TurnResult | None, int]:
        """Run it line by line; return the result, and the exit code if it was interrupted."""
        self._introduce()
        actor = ScriptedActor(self._script(), Pace(self._slowness if os.isatty(1) else 0))
        lines = LineDialogs(self._console, read_line)
        files = Workspace(run_env.cwd)
        approver, _ = Session.unattended()
        if self._interactive:
            approver = lambda request: ask_approval(request, lines.put, files)  # noqa: E731
        answered = actor.observe(approver), lambda asked: Defer()
        agent = Session.open(Config(bare=True), run_env, lambda on_ask: answered, self._echo, layers=layers)
        agent.use_client(actor)
        self._check(agent.tools)
        watch = StopSignals(agent.interrupt)
        with watch:
            result = agent.send(TASK, EventRenderer(self._console))
        if watch.caught or result.end.diagnostics.terminal_reason == "interrupted":
            # A Ctrl-C at the question is handled there and never reaches `watch`.
            return result, 128 + (watch.caught or signal.SIGINT)
        return result, 0

    def _introduce(self) -> None:
        self._echo("This is a demo: the model's words come from a script; all else is real.")
        self._echo(f"It runs in a copy of a small broken project: {self._project}")
        if self._interactive:
            self._echo("Before a file changes you are asked: y approves, anything else refuses.")
        else:
            self._echo("Nobody is asked here: the demo's own rules allow its test command and edits in its folder.")
        self._echo("")
        self._console.print(styled(f"> {TASK}", "tool"))

    def _script(self) -> Path:
        """Write the script with the command of this machine."""
        path = self._folder / "demo"
        # A backslash or quote in a path must survive in a TOML string.
        spelled = shlex.join(self._argv).replace("\\", "\\\\").replace('"', '\\"')
        path.write_text((DEMO_FOLDER / "script.toml").read_text("utf-8").replace("$COMMAND", spelled), "utf-8")
        return path

    def _settings(self) -> Layers:
        """Return the demo's own settings: its test command is allowed, edits are if nobody is asked.

        The model is the script in the working directory.
        """
        allow = [rule_for("run", shlex.join(self._argv)), *([] if self._interactive else [rule_for("write", "/**")])]
        layers = Layers()
        # The demo runs its own code, possibly with an interpreter that the sandbox hides.
        settings = {"sandbox": "off", "model": "scripted:demo", "save_sessions": False}
        settings["permissions"] = {"allow": allow}
        layers.add(settings, "the demo", self._project)
        return layers

    def _check(self, tools: Mapping[str, object]) -> None:
        if SHELL.name not in tools:
            raise UsageError("The demo runs a command, and there is no bash on this machine.")

    def _report_result(self, result: TurnResult | None) -> int:
        """Run the tests independently of the agent, and report the result."""
        passed, count = run_tests(self._argv, self._project, self._env)
        finished = isinstance(result, Complete) and not result.degraded
        if passed and finished and result is not None and not result.end.denials:
            self._echo(f"Checked once more, without the agent: {count} tests ran and all pass.", "good")
            return 0
        state = "pass" if passed else "still fail"
        if result is None or result.end.denials or result.end.diagnostics.terminal_reason == "interrupted":
            why = "you ended it" if result is None or not result.end.denials else "a call was refused"
            self._echo(f"The demo stopped because {why}; the tests {state}. Try again: agent demo", "ask")
            return 0
        self._echo(f"The demo did not go as planned; the tests {state}.", "bad")
        return 1

    def _echo(self, text: str, style: str = "") -> None:
        for row in prose(text, self._console, style, "  "):
            self._console.print(row)


def copy_project(target: Path) -> None:
    """Copy the project. Its files have the suffix .txt, so that no tool takes them for part of this program."""
    target.mkdir()
    for source in sorted((DEMO_FOLDER / "project").glob("*.txt")):
        shutil.copyfile(source, target / source.name.removesuffix(".txt"))


def test_command(env: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return the command that runs the project's tests with the interpreter that runs us, and its environment.

    No compiled files are left behind; test output has no colours, and is the same from every Python.
    """
    made = {k: v for k, v in env.items() if k not in ("FORCE_COLOR", "PYTHON_COLORS", "PYTHONSAFEPATH")}
    made |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONNODEBUGRANGES": "1"}
    python = Path(sys.executable or "python3")
    if python.with_name("python3").is_file() and python.name.startswith("python"):
        made["PATH"] = f"{python.parent}{os.pathsep}{made.get('PATH', os.defpath)}"
        return ["python3", "-m", "unittest"], made
    return [str(python), "-m", "unittest"], made


def run_tests(argv: list[str], folder: Path, env: Mapping[str, str]) -> tuple[bool, int]:
    """Run the project's tests; return whether they pass, and how many there are."""
    try:
        done = subprocess.run(
            argv, cwd=folder, env=dict(env), stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False, 0
    words = done.stderr.decode("utf-8", "replace").split()
    count = int(words[words.index("Ran") + 1]) if "Ran" in words else 0
    return done.returncode == 0 and count > 0, count
