"""Watch the agent repair a small broken project. No key and no network needed.

Only the model's words come from a script. In order: copy the project into a temporary folder, build an agent there as
for any run (without anyone's settings), let it take one turn, run the tests once more without it, say how to connect a
real model, and clean up.
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
from typing import Annotated, Any

import typer

from agent_cli.cli.help import examples
from agent_cli.config.layers import Layers
from agent_cli.config.run_options import RunOptions
from agent_cli.core.decisions import Answer, Approver, Reject
from agent_cli.core.events import ApprovalRequested
from agent_cli.core.place import RunEnvironment, UsageError
from agent_cli.core.results import Complete, TurnResult
from agent_cli.core.rules import rule_for
from agent_cli.headless.run import Signals, deny
from agent_cli.providers.base import Chunk, Request
from agent_cli.providers.scripted import Scripted
from agent_cli.runtime.builder import Agent, build_agent
from agent_cli.terminal.dialogs.approval import ask_approval
from agent_cli.terminal.dialogs.lines import LineDialogs
from agent_cli.terminal.editor import read_line
from agent_cli.terminal.render.console import make_console, prose, styled
from agent_cli.terminal.render.events import EventRenderer
from agent_tools.cancel import CancelToken
from agent_tools.registry import SHELL

app = typer.Typer(add_completion=False)


@app.command(epilog=examples("agent demo", "agent demo --yes --keep"))
def demo(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; the demo's own rules answer.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the demo's folder.")] = False,
) -> int:
    return run_demo(yes=yes, keep=keep)


HERE = Path(__file__).resolve().parents[2] / "demo"
TASK = "One test of this project fails. Find out why and repair it."
PAUSE = 0.04
CONNECT = """\
To use it on your own code, give it a model and type `agent` in your repository:
  a key:     export ANTHROPIC_API_KEY=...   (or OPENAI_API_KEY, GEMINI_API_KEY, OPENROUTER_API_KEY, ...)
  no key:    start a local server (ollama serve), then: agent --model ollama/NAME
  a check:   agent doctor says what was found and what is missing; agent models lists what there is"""


def run_demo(yes: bool, keep: bool) -> int:
    """Run the demo; return 0 only if the tests went from red to green. Raises UsageError if it cannot begin."""
    try:
        folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="agent-demo-")))
        # Leave a working directory that may be deleted: Python 3.13.0 fails to import from there.
        os.chdir(folder.parent)
    except OSError as error:
        raise UsageError(f"There is no folder for temporary files: {error.strerror}.") from None
    try:
        return _Demo(folder, asks=not yes and _is_terminal()).run(keep)
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


class Actor:
    """The script as a model, with one more reply for the case that the user has rejected a call."""

    def __init__(self, script: Path, pause: float) -> None:
        import tomllib

        self._script = Scripted.load(script)
        self._refused: dict[str, Any] = tomllib.loads(script.read_text("utf-8"))["refused"]
        self._pause = pause
        self._stopped = False

    def listening_to(self, approver: Approver) -> Approver:
        """Wrap the approver to notice rejections."""

        def ask(request: ApprovalRequested) -> Answer:
            answer = approver(request)
            self._stopped = self._stopped or isinstance(answer, Reject)
            return answer

        return ask

    def stream(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        script = Scripted([self._refused], f"{self._script.name}-refused") if self._stopped else self._script
        for chunk in script.stream(request, cancel):
            if self._pause:
                cancel.wait(self._pause)
                cancel.check()
            yield chunk


class _Demo:
    """One run of the demo in its directory. asks: a user answers; else the demo's own rules do."""

    def __init__(self, folder: Path, asks: bool) -> None:
        self._folder = folder
        self._project = folder / "basket"
        self._asks = asks
        self._argv = [sys.executable or "python3", "-m", "unittest"]
        self._env = demo_env(os.environ)
        plain = self._env.get("TERM", "") in ("", "dumb", "unknown")
        self._console = make_console("auto", self._env, plain=plain)

    def run(self, keep: bool) -> int:
        try:
            copy_project(self._project)
        except OSError as error:
            raise UsageError(f"The demo's project cannot be written: {error.strerror}.") from None
        self._introduce()
        agent = self._build()
        watch = Signals(agent.conversation.interrupt)
        with watch:
            result = agent.conversation.send(TASK, EventRenderer(self._console))
        if keep:
            self._say(f"The project is kept in {self._project}")
        if watch.caught or result.end.diagnostics.terminal_reason == "interrupted":
            # A Ctrl-C at the question is handled there and never reaches `watch`.
            return 128 + (watch.caught or signal.SIGINT)
        self._say("")
        code = self._judge(result)
        self._say("")
        self._say(CONNECT)
        if shutil.which("agent", path=self._env.get("PATH")) is None:
            self._say("  install:   pipx install .   (in the clone: `agent` is not on your PATH yet)")
        return code

    def _introduce(self) -> None:
        self._say("This is a demo: the model's words come from a script; all else is real.")
        self._say(f"It runs in a copy of a small broken project: {self._project}")
        if self._asks:
            self._say("Before a command runs or a file changes you are asked: y approves, anything else refuses.")
        else:
            self._say("Nobody is asked here: the demo's own rules allow its test command and edits in its folder.")
        self._say("")
        self._console.print(styled(f"> {TASK}", "tool"))

    def _build(self) -> Agent:
        """Build the agent as for any run. Raises UsageError."""
        command = shlex.join(self._argv)
        script = self._folder / "script.toml"
        # A backslash or quote in a path must survive in a TOML string.
        spelled = command.replace("\\", "\\\\").replace('"', '\\"')
        script.write_text((HERE / "script.toml").read_text("utf-8").replace("$COMMAND", spelled), "utf-8")
        allow = [] if self._asks else [rule_for("run", command), rule_for("write", "/**")]
        layers = Layers()
        # It runs its own code, possibly with an interpreter that the sandbox hides.
        settings = {"sandbox": "off", "model": f"scripted:{script}", "save_sessions": False}
        settings["permissions"] = {"allow": allow}
        layers.add(settings, "the demo", self._project)
        place = RunEnvironment(cwd=self._project, root=self._project, home=None, env=self._env)
        model = Actor(script, PAUSE if os.isatty(1) else 0.0)
        lines = LineDialogs(self._console, read_line)
        approver: Approver = (lambda request: ask_approval(request, lines.put)) if self._asks else deny
        agent = build_agent(RunOptions(bare=True), place, layers, model.listening_to(approver), self._say)
        agent.conversation.deps = agent.conversation.deps.replace(transport=model)
        if SHELL.name not in agent.conversation.deps.tools:
            raise UsageError("The demo runs a command, and there is no bash on this machine.")
        return agent

    def _judge(self, result: TurnResult) -> int:
        """Report the result, by running the tests independently of the agent."""
        passed, count = run_tests(self._argv, self._project, self._env)
        finished = isinstance(result, Complete) and not result.degraded
        if passed and finished and not result.end.denials:
            self._say(f"Checked once more, without the agent: {count} tests ran and all pass.", "good")
            return 0
        if result.end.denials:
            state = "pass" if passed else "still fail"
            self._say(f"The demo stopped because a call was refused; the tests {state}. Try again: agent demo", "ask")
        else:
            self._say(f"The demo did not go as planned; the tests {'pass' if passed else 'still fail'}.", "bad")
        return 1

    def _say(self, text: str, style: str = "") -> None:
        for row in prose(text, self._console, style, "  "):
            self._console.print(row)


def copy_project(target: Path) -> None:
    """Copy the project. Its files have the suffix .txt here, so that no tool takes them for part of this program."""
    target.mkdir()
    for source in sorted((HERE / "project").glob("*.txt")):
        shutil.copyfile(source, target / source.name.removesuffix(".txt"))


def demo_env(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for the demo's commands: no compiled files left behind, no colours in test output."""
    kept = {k: v for k, v in env.items() if k not in ("FORCE_COLOR", "PYTHON_COLORS", "PYTHONSAFEPATH")}
    return kept | {"PYTHONDONTWRITEBYTECODE": "1"}


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


def _is_terminal() -> bool:
    return os.isatty(0) and os.isatty(1)
