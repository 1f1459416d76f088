"""The first hour of a new user: install, first start, first task, leaving and coming back, an upgrade and the end."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fork_server import ROOT
from tests.support.key_provider import KeyProvider
from tests.support.model_replies import Call, Reply
from tests.support.program import clean_env
from tests.support.pty_screen import GRAVE_REST, Drawn
from tests.support.pty_session import Terminal

GOOD, WRONG = "sk-good-0123456789abcdef", "sk-wrong-fedcba9876543210"
TASK = (
    Reply(text="I look first.", calls=(Call("Bash", {"command": "touch seen.txt"}),)),
    Reply(text="Once more.", calls=(Call("Bash", {"command": "touch again.txt"}),)),
    Reply(text="Both files are there."),
)
HINT = "commands that you allow"


@pytest.fixture
def provider() -> Iterator[KeyProvider]:
    with KeyProvider(GOOD, replies=TASK) as made:
        yield made


def test_the_first_hour_on_a_small_screen(work: Path, provider: KeyProvider) -> None:
    env = {"OPENAI_BASE_URL": provider.openai_url, "PAGER": "cat"}
    with Drawn([], work, columns=80, rows=24, **env) as screen:
        screen.wait("How do you want to connect a model?")
        screen.wait("type to filter")
        screen.line("paste")
        screen.wait("Which provider is the key for?")
        screen.line("openai")
        screen.wait("(it is not shown):")
        screen.line(WRONG)
        screen.wait("refused the API key")
        screen.until(lambda: screen.text().count("(it is not shown):") == 2)
        screen.line(GOOD)
        screen.wait("The key works.")
        screen.ready()
        screen.line("make two files")
        for name in ("seen.txt", "again.txt"):
            screen.wait(f"touch {name}")
            screen.rest()
            screen.type("y")
        screen.wait("Both files are there.")
        assert " ".join(screen.text().split()).lower().count(HINT) == 1
        for command, wanted in (("/status", "openai/m-1"), ("/doctor", "settings"), ("/help", "basics")):
            screen.line(command)
            screen.wait(wanted)
            screen.rest(GRAVE_REST)
            shown = screen.text()
            if command != "/help":
                checked = shown
                screen.type("q" if command == "/doctor" else "")
                screen.rest(GRAVE_REST)
        assert "problem" not in checked and "your choice" not in checked and "sets nothing" not in checked
        assert len(screen.visible().splitlines()) <= 24 and "basics" in screen.visible()
        screen.type("q")
        screen.rest()
        screen.leave()
    assert GOOD not in shown and WRONG not in shown
    assert (work / "seen.txt").exists() and (work / "again.txt").exists()
    with Drawn(["-c"], work, columns=80, rows=24, **env) as screen:
        screen.wait("Both files are there.")
        screen.ready()
        assert "connect a model?" not in screen.text()
        screen.line("thanks")
        screen.wait("Answer of m-1.")
        screen.leave()


def test_the_first_hour_line_by_line(work: Path, provider: KeyProvider) -> None:
    env = {"OPENAI_BASE_URL": provider.openai_url, "PAGER": "cat"}
    terminal = Terminal(["--plain"], work, **env)
    terminal.expect("How do you want to connect a model?")
    terminal.expect("Enter to cancel] ")
    terminal.type("paste")
    terminal.expect("Enter to cancel] ")
    terminal.type("openai")
    for key, end in ((WRONG, "refused the API key"), (GOOD, "The key works.")):
        terminal.expect("(it is not shown): ")
        terminal.type(key)
        terminal.expect(end)
    terminal.ready()
    terminal.type("make two files")
    shown = ""
    for name in ("seen.txt", "again.txt"):
        shown += terminal.expect(f"touch {name}")
        shown += terminal.expect("Allow?")
        terminal.type("y")
    shown += terminal.expect("Both files are there.")
    assert " ".join(shown.split()).lower().count(HINT) == 1
    terminal.ready()
    terminal.type("/status")
    terminal.expect("openai/m-1")
    terminal.ready()
    terminal.type("/doctor")
    terminal.expect("settings")
    terminal.ready()
    terminal.type("/help")
    terminal.expect("TOPIC")
    terminal.leave()
    again = Terminal(["--plain", "-c"], work, **env)
    assert "connect a model?" not in again.expect("Both files are there.")
    again.leave()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_install_upgrade_and_removal(work: Path) -> None:
    """As pipx does it: an environment of its own. The dependencies are those of the tests, so no index is needed."""
    home, source = work.parent / "home", work.parent / "source"
    source.mkdir()
    for name in ("agent_cli", "tools", "prompts"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    venv = work.parent / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    (site,) = venv.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text("\n".join(p for p in sys.path if p.endswith("site-packages")))
    env = clean_env(home)
    del env["PYTHONPATH"]

    def pip(*words: str) -> None:
        python = str(venv / "bin" / "python")
        subprocess.run([sys.executable, "-m", "pip", "-q", "--python", python, *words], check=True, capture_output=True)

    def install() -> None:
        out = work.parent / "wheels"
        shutil.rmtree(out, ignore_errors=True)
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
        subprocess.run(build, cwd=source, check=True, capture_output=True)
        pip("install", "--no-deps", "--no-index", "--upgrade", *map(str, out.glob("*.whl")))

    def run(*words: str, name: str = "agent") -> subprocess.CompletedProcess[str]:
        program = [str(venv / "bin" / name), *words]
        return subprocess.run(program, cwd=work, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)

    install()
    version = run("--version").stdout
    assert version == run("--version", name="agent-at-hand").stdout and version.startswith("agent ")
    assert run("doctor").returncode == 1 and "agent login" in run("-p", "hi").stderr
    (home / ".agentrc").write_text('effort = "low"\n')

    number = source / "agent_cli" / "kernel" / "version.py"
    text = number.read_text()
    number.write_text(re.sub(r'"\d+\.\d+\.\d+"', '"9.8.7"', text, count=1))
    assert number.read_text() != text
    install()
    assert run("--version").stdout.startswith("agent 9.8.7")
    assert "~/.agentrc" in run("doctor").stdout.replace(str(home), "~")

    pip("uninstall", "-y", "agent-at-hand")
    assert not (venv / "bin" / "agent").exists() and not (venv / "bin" / "agent-at-hand").exists()
    assert not any(site.glob("agent_*")) and (home / ".agentrc").exists()
