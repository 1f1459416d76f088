"""Pipes, devices and files of some GB where the program, git or ripgrep reads: every command ends, and in time.

Each run has a limit that is far below what waiting for one of git's or ripgrep's own clocks would take.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_tools.sandbox.mounts import Placeholders
from tests.support.hypothesis_examples import cases
from tests.support.program import agent, clean_env
from tests.support.scripts import call, script

SECONDS = 45.0


def fifo(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(3 << 30)


KINDS = (fifo, device, huge)
OWN = (
    "CLAUDE.md", "AGENTS.md", "CLAUDE.local.md", "sub/AGENTS.md", "sub/CLAUDE.md", ".agentrc", ".agentrc.local",
    ".mcp.json", ".claude/settings.json", ".claude/settings.local.json", ".claude/CLAUDE.md", ".claude/commands/x.md",
    ".claude/agents/x.md", ".claude/skills/x/SKILL.md", ".claude/rules/x.md", ".agent/commands/x.md",
    ".agent/agents/x.md", ".agent/skills/x/SKILL.md", ".agent/hooks.json",
)  # fmt: skip
USERS = (".claude/CLAUDE.md", ".config/agent/AGENTS.md", ".agent/commands/x.md")
GIT = (
    ".git", ".git/HEAD", ".git/config", ".git/index", ".git/packed-refs", ".git/refs/heads/main", ".git/commondir",
    ".git/shallow", ".git/config.worktree", ".git/objects/info/alternates", ".git/info/attributes", ".gitmodules",
)  # fmt: skip
IGNORES = (".gitignore", "sub/.gitignore", ".ignore", ".rgignore", ".git/info/exclude")
ATTRIBUTES = (".gitattributes", "sub/.gitattributes")
# A device and a large file make git and ripgrep read until their time is over, which takes two cores: by default each
# is tried in one place, a pipe in all of them.
OF_GIT = cases(
    [(name, *case) for name in GIT for case in ((fifo, False), (fifo, True), (device, True), (huge, True))],
    [*((name, fifo, True) for name in GIT), (".git/HEAD", fifo, False), (".git/config", fifo, False),
     (".git/commondir", device, True), (".git/packed-refs", huge, True)],
)  # fmt: skip
OF_SEARCHES = cases(
    [(name, make) for name in IGNORES for make in KINDS],
    [*((name, fifo) for name in IGNORES), (".gitignore", device), (".ignore", huge)],
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("needle\n")
    (folder / "sub/b.txt").write_text("x\n")
    env = clean_env(tmp_path / "home")
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "first"]):
        named = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
        subprocess.run(["git", *named, *words], cwd=folder, env=env, check=True)
    return folder


def put(make: Callable[[Path], None], path: Path) -> None:
    """Put one in the place of whatever is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        path.rename(path.with_name("moved"))
    path.unlink(missing_ok=True)
    make(path)


def work(tmp_path: Path) -> list[str]:
    """A prompt for which the model searches and writes."""
    model = script(
        tmp_path / "script.toml",
        [
            {"text": "a", "calls": [call("Grep", pattern="needle"), call("Glob", pattern="**/*.txt")]},
            {"text": "b", "calls": [call("Write", file_path="sub/new.txt", content="new\n")]},
            {"text": "All done."},
        ],
    )
    return ["-p", "hi", "--model", model, "--permission-mode", "acceptEdits", "--output-format", "stream-json"]


def run(args: list[str], root: Path, code: int | None = 0) -> str:
    done = agent(args, root, timeout=SECONDS)
    found = done.stdout + done.stderr
    assert "Traceback" not in found and "internal error" not in found, found
    assert code is None or done.returncode == code, found
    return found


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("trust", [False, True])
def test_files_of_agents(root: Path, make: Callable[[Path], None], trust: bool) -> None:
    for name in OWN:
        put(make, root / name)
    for name in USERS:
        put(make, root.parent / "home" / name)
    given = ["--trust"] if trust else []
    found = run([*work(root.parent), *given], root)
    assert "All done." in found
    assert (root / "sub/new.txt").read_text() == "new\n"
    # What is wrong with them is named: a file that does not count must not look as if it did.
    assert run(["doctor"], root, None).count("is not a regular file" if make is not huge else "more than") >= 3
    for command in (["sessions", "list"], ["trust", "--show"], ["memory", "show"], ["hooks", "list"], ["mcp", "list"]):
        run(command, root, None)


@pytest.mark.parametrize("make", KINDS)
def test_the_users_own_settings(root: Path, make: Callable[[Path], None]) -> None:
    """Nothing runs with other settings than the user believes."""
    put(make, root.parent / "home/.agentrc")
    assert ".agentrc: cannot be read: " in run(work(root.parent), root, 2)
    run(["doctor"], root, None)


@pytest.mark.parametrize(("name", "make", "trust"), OF_GIT)
def test_files_of_git(root: Path, name: str, make: Callable[[Path], None], trust: bool) -> None:
    put(make, root / name)
    assert "All done." in run([*work(root.parent), *(["--trust"] if trust else [])], root)


@pytest.mark.parametrize(("name", "make"), OF_SEARCHES)
def test_ignore_files(root: Path, name: str, make: Callable[[Path], None]) -> None:
    """The search fails in a sentence that names the file; the turn goes on."""
    put(make, root / name)
    found = run(work(root.parent), root)
    assert "All done." in found and (root / "sub/new.txt").read_text() == "new\n"
    what = {fifo: "is a named pipe", device: "is a device", huge: "has 3,221,225,472 bytes"}[make]
    assert f"Cannot search here: {root / name} {what}" in found


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attribute_files(root: Path, name: str, make: Callable[[Path], None]) -> None:
    """Neither searches nor the snapshot of a written file read them."""
    put(make, root / name)
    found = run(work(root.parent), root)
    assert "All done." in found and "a.txt" in found
    assert (root / "sub/new.txt").read_text() == "new\n"


@pytest.mark.parametrize("make", KINDS)
def test_files_of_our_own_state(root: Path, make: Callable[[Path], None]) -> None:
    run(work(root.parent), root)
    state = root.parent / "home/state"
    (log,) = state.glob("sessions/*/*.jsonl")
    store = next(path.parent for path in state.glob("snapshots/*/*") if path.name == "lock")
    beside = [path for path in store.iterdir() if path.is_file()]
    own = [log, log.with_suffix(".draft"), log.with_suffix(".owner"), log.parent / "plan.json", *beside]
    for path in own:
        put(make, path)
    assert "All done." in run(work(root.parent), root)
    for command in (["sessions", "list"], ["sessions", "list", "--json"], ["permissions", "learn"], ["pending"]):
        run(command, root)
    for command in (["undo"], ["show", log.stem], ["-p", "more", "--resume", log.stem], ["doctor"]):
        run(command, root, None)


def test_what_the_sandbox_puts_there_for_a_command_that_runs_is_not_reported(root: Path, tmp_path: Path) -> None:
    """A server of one session runs; the user starts another session beside it."""
    (root / "CLAUDE.md").write_text("Be brief.\n")
    (root / ".agent").mkdir()
    (root / ".agent/hooks.json").write_text("{}")
    assert agent(["trust"], root).returncode == 0
    model = script(tmp_path / "s.toml", [{"text": "Hello."}])
    names = (".agentrc", ".agentrc.local", ".mcp.json", ".claude", ".git/commondir", ".git/config.worktree")
    placeholders = Placeholders([root / name for name in names])
    try:
        done = agent(["-p", "--model", model, "hi"], root)
        assert (done.returncode, done.stdout, done.stderr) == (0, "Hello.\n", "")
        assert "trusted" in agent(["trust", "--show"], root).stdout
    finally:
        placeholders.release()
    assert not (root / ".mcp.json").exists()
