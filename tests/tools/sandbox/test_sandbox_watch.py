"""Protected names that do not exist: never created on the host, and what a command creates there is moved away."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_tools.fs import own_files, safe_files
from agent_tools.sandbox import appeared, watch
from agent_tools.sandbox.conditions import ChangingSettingsError, Wrapped
from agent_tools.sandbox.inotify import Inotify
from agent_tools.sandbox.steady import read_steadily
from tests.support.sandboxes import SandboxTester, tree
from tests.support.waiting import soon

HOOKS = ".agent/hooks.json"


@pytest.fixture(autouse=True)
def state(tmp_path: Path) -> Iterator[Path]:
    """A state folder that is shared as between the processes of a user."""
    before = own_files.shared_folder()
    own_files.share_in(tmp_path / "state/sandbox")
    yield tmp_path / "state"
    own_files._own.folder = before


@pytest.fixture(params=["inotify", "polling"])
def reported(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test with the kernel's reports, and without."""
    monkeypatch.setattr(watch, "WATCH", watch.Watch())
    monkeypatch.setattr("agent_tools.sandbox.bwrap.WATCH", watch.WATCH)
    if request.param == "polling":

        def refuse() -> None:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

        monkeypatch.setattr(watch, "Inotify", refuse)
    return str(request.param)


@pytest.fixture
def repository(bubblewrap: SandboxTester) -> SandboxTester:
    """A repository whose branch `feature` has settings, with the branch `main` checked out."""
    bubblewrap.git("init", "-q", ".")
    (bubblewrap.root / "a.txt").write_text("one\n")
    bubblewrap.git("add", ".")
    bubblewrap.git("commit", "-qm", "first")
    bubblewrap.git("checkout", "-qb", "feature")
    (bubblewrap.root / ".vscode").mkdir()
    (bubblewrap.root / ".vscode/settings.json").write_text("{}\n")
    (bubblewrap.root / ".mcp.json").write_text('{"mcpServers": {}}\n')
    bubblewrap.git("add", ".")
    bubblewrap.git("commit", "-qm", "settings")
    bubblewrap.git("checkout", "-q", "main")
    return bubblewrap


def files(root: Path) -> set[str]:
    """What is in a workspace, apart from git's own; it may change meanwhile."""
    found = {os.path.relpath(f"{top}/{name}", root) for top, below, here in os.walk(root) for name in (*below, *here)}
    return {name for name in found if not f"{name}/".startswith(".git/")}


def moved(state: Path) -> set[str]:
    """What was moved to the state folder."""
    return {
        "/".join(path.relative_to(state / "moved").parts[1:])
        for path in (state / "moved").rglob("*")
        if path.parent != state / "moved"
    }


class Running:
    """A command that waits for lines, each run by the same shell."""

    def __init__(self, tester: SandboxTester) -> None:
        self.tester = tester
        env = {"PATH": os.environ["PATH"], "HOME": str(tester.home), "GIT_CONFIG_NOSYSTEM": "1"}
        self.wrapped: Wrapped = tester.sandbox.prepare(["/bin/bash"], tester.root, env, tester.profile())
        self.process = subprocess.Popen(
            self.wrapped.argv,
            cwd=tester.root,
            env=self.wrapped.env,
            pass_fds=self.wrapped.pass_fds,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, line: str) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{{ {line}; }} 2>&1; echo END\n")
        self.process.stdin.flush()
        return "".join(iter(self.process.stdout.readline, "END\n"))

    def __enter__(self) -> Running:
        self("true")
        return self

    def __exit__(self, *error: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.wrapped.close()


def test_no_missing_name_is_created_while_a_command_runs(repository: SandboxTester) -> None:
    with Running(repository) as running:
        assert files(repository.root) == {"a.txt"}
        assert set(running("ls -A").split()) == {".git", "a.txt"}
        assert running("git status --porcelain --ignored") == ""
    assert files(repository.root) == {"a.txt"}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("echo evil > .mcp.json", {".mcp.json"}),
        ("mkdir .vscode", {".vscode"}),
        ("mkdir made && echo x > made/tasks.json && mv made .vscode", {".vscode", ".vscode/tasks.json"}),
        ("ln -s /etc .agent", {".agent"}),
        ("ln a.txt .agentrc", {".agentrc"}),
        ("mkfifo .agentrc.local", {".agentrc.local"}),
        ("mkdir -p .claude/hooks && chmod 500 .claude/hooks .claude", {".claude", ".claude/hooks"}),
        ("mkdir .cursor && chmod 0 .cursor", {".cursor"}),
        ("git show feature:.mcp.json > .mcp.json", {".mcp.json"}),
        ("cp a.txt .crush.json; cp a.txt .aider.conf.yml", {".crush.json", ".aider.conf.yml"}),
    ],
)
def test_what_a_command_creates_there_is_moved_away(
    repository: SandboxTester, state: Path, command: str, expected: set[str], reported: str
) -> None:
    before = files(repository.root)
    done = repository(command)
    assert files(repository.root) - {"made"} == before, done.out
    # A directory may be moved before the command has filled it.
    assert moved(state) <= expected and {name for name in expected if "/" not in name} <= moved(state)
    assert (repository.root / "a.txt").read_text() == "one\n"


def test_it_is_moved_while_the_command_runs(repository: SandboxTester, state: Path, reported: str) -> None:
    with Running(repository) as running:
        for number in range(3):
            running(f"mkdir -p .agent; echo {number} > {HOOKS}")
            assert soon(lambda: files(repository.root) == {"a.txt"})
        first = running.wrapped.moved()
        assert {each.path for each in first} == {repository.root / ".agent"} and len(first) == 3
        assert all(each.to.is_relative_to(state / "moved") and os.path.lexists(each.to) for each in first)
        assert running.wrapped.moved() == ()
        running("cd /; exec 3<&-; echo last > " + str(repository.root / ".agentrc"))
    assert [each.path.name for each in running.wrapped.moved()] == [".agentrc"]


def test_a_name_that_appears_and_vanishes_is_no_trouble(repository: SandboxTester) -> None:
    done = repository("for n in $(seq 200); do echo x > .mcp.json; rm -f .mcp.json; done; echo end")
    assert done.out.endswith("end\n") and files(repository.root) == {"a.txt"}


def test_a_file_of_a_checkout_stays(repository: SandboxTester, state: Path, reported: str) -> None:
    with Running(repository) as running:
        for _ in range(10):
            assert running("git checkout -q feature && git status --short") == ""
            running("sleep 0.01")
            assert running("git status --short; git checkout -q main; git status --short") == ""
        running("git checkout -q feature")
    assert {".mcp.json", ".vscode/settings.json"} <= files(repository.root)
    assert moved(state) == set()


@pytest.mark.parametrize("how", ["merge -q feature", "reset -q --hard feature", "rebase -q feature",
                                 "checkout -q feature -- .mcp.json .vscode", "cherry-pick feature"])  # fmt: skip
def test_a_file_that_git_brings_stays(repository: SandboxTester, state: Path, how: str) -> None:
    done = repository(f"git -c user.name=n -c user.email=n@example.org {how}")
    assert done.code == 0, done.out
    assert {".mcp.json", ".vscode/settings.json"} <= files(repository.root) and moved(state) == set()


def test_line_ends_that_git_converts_are_no_difference(repository: SandboxTester, state: Path) -> None:
    repository.git("config", "core.autocrlf", "true")
    assert repository("git checkout -q feature").code == 0
    assert b"\r\n" in (repository.root / ".mcp.json").read_bytes() and moved(state) == set()


def test_what_is_added_to_a_checkout_is_moved_and_the_rest_stays(
    repository: SandboxTester, state: Path, reported: str
) -> None:
    with Running(repository) as running:
        running("git checkout -q feature")
        running("echo evil > .vscode/tasks.json")
        assert soon(lambda: ".vscode/tasks.json" not in files(repository.root))
        assert ".vscode/settings.json" in files(repository.root)
        running("echo evil >> .vscode/settings.json")
        assert soon(lambda: ".vscode/settings.json" not in files(repository.root))
        running("ln .mcp.json other")
        assert soon(lambda: ".mcp.json" not in files(repository.root))
    assert {".vscode/tasks.json", ".vscode/settings.json", ".mcp.json"} <= moved(state)


def test_a_lock_of_git_delays_the_move_only_for_a_time(
    repository: SandboxTester, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Running(repository) as running:
        running("touch .git/index.lock; echo evil > .mcp.json")
        repository.git("log")
        assert (repository.root / ".mcp.json").exists()
        with pytest.raises(ChangingSettingsError, match=r"\.mcp\.json"):
            monkeypatch.setattr(watch, "_READER_SECONDS", 0.1)
            read_steadily(repository.root, lambda: pytest.fail("it was read"))
        monkeypatch.setattr(watch, "GIT_SECONDS", 0.0)
        assert soon(lambda: files(repository.root) == {"a.txt"})
    assert moved(state) == {".mcp.json"}


def test_a_lock_of_git_that_is_left_behind_delays_nothing(repository: SandboxTester, state: Path) -> None:
    repository("touch .git/index.lock; echo evil > .mcp.json")
    assert files(repository.root) == {"a.txt"} and moved(state) == {".mcp.json"}


def test_a_folder_of_a_repository_is_compared_with_the_repository(repository: SandboxTester, state: Path) -> None:
    repository.git("checkout", "-q", "feature")
    (repository.root / "sub/.claude").mkdir(parents=True)
    (repository.root / "sub/.claude/settings.json").write_text("{}\n")
    repository.git("add", ".")
    repository.git("commit", "-qm", "more")
    (repository.root / "sub/.claude/settings.json").unlink()
    (repository.root / "sub/.claude").rmdir()
    repository.root = repository.root / "sub"
    repository.roots = [repository.root]
    repository("mkdir .claude; echo '{}' > .claude/draft; mv .claude/draft .claude/settings.json; echo x > .claude/x")
    assert repository.root.joinpath(".claude/settings.json").exists() or ".claude" in moved(state)
    assert not repository.root.joinpath(".claude/x").exists()
    if ".claude" in moved(state):
        # The directory was moved before the file was complete.
        repository("mkdir t; echo '{}' > t/settings.json; mv t .claude")
    assert repository.root.joinpath(".claude/settings.json").read_text() == "{}\n"


def test_a_command_that_starts_meanwhile_watches_for_the_same_names(repository: SandboxTester, state: Path) -> None:
    with Running(repository) as first:
        first("git checkout -q feature")
        with Running(repository) as second:
            assert "Read-only" in second("echo evil > .mcp.json")
            first("rm .mcp.json")
            second("sleep 0.05; echo evil > .mcp.json; mkdir .idea")
            assert soon(lambda: not {".mcp.json", ".idea"} & files(repository.root))
            assert {each.path.name for each in second.wrapped.moved()} == {".mcp.json", ".idea"}
    assert {".mcp.json", ".idea"} <= moved(state)


def test_only_what_the_program_writes_itself_stays(repository: SandboxTester, state: Path, reported: str) -> None:
    root = repository.root
    with Running(repository) as running:
        own_files.write_own(root / ".agentrc.local", b"model = 'm'\n")
        own_files.write_own(root / ".agent/commands/x.md", b"Do x.\n")
        running("sleep 0.05; echo evil > .agent/commands/y.md")
        assert soon(lambda: ".agent/commands/y.md" not in files(root))
    assert {".agentrc.local", ".agent/commands/x.md"} <= files(root)
    assert moved(state) == {".agent", ".agent/commands", ".agent/commands/y.md"}
    assert (root / ".agentrc.local").stat().st_mode & 0o7777 == 0o600


_OTHER_PROCESS = """
import sys
from pathlib import Path
from agent_tools.fs import own_files
from agent_tools.sandbox.conditions import ChangingSettingsError
from agent_tools.sandbox.steady import read_steadily
own_files.share_in(Path(sys.argv[1]))
root = Path(sys.argv[2])
if sys.argv[3] == "write":
    own_files.write_own(root / ".agentrc.local", b"by another process")
else:
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(30):
        try:
            if read_steadily(root, lambda: (root / ".agentrc").exists()):
                sys.exit("it was obeyed")
        except ChangingSettingsError:
            pass  # on a busy machine it gives up, and obeys nothing
    print("done", flush=True)
"""


def _other(state: Path, root: Path, what: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _OTHER_PROCESS, str(state / "sandbox"), str(root), what],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_file_of_another_process_of_this_program_stays(repository: SandboxTester, state: Path) -> None:
    with Running(repository) as running:
        other = _other(state, repository.root, "write")
        other.communicate()
        running("sleep 0.1")
    assert (repository.root / ".agentrc.local").read_text() == "by another process" and moved(state) == set()


def test_another_process_reads_nothing_that_a_command_has_just_created(repository: SandboxTester, state: Path) -> None:
    with Running(repository) as running:
        other = _other(state, repository.root, "read")
        assert other.stdin is not None and other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        other.stdin.write("\n")
        other.stdin.flush()
        while other.poll() is None:
            running("for n in $(seq 50); do echo evil > .agentrc; done")
        out, _ = other.communicate()
    assert (out, other.returncode) == ("done\n", 0)
    assert not list((state / "sandbox/watching").glob(f"{other.pid}*"))


def _sees(root: Path) -> bool:
    """Return True if a file is read; on a busy machine the reader gives up, and reads nothing."""
    try:
        return read_steadily(root, (root / ".agentrc").exists)
    except ChangingSettingsError:
        return False


def test_nothing_that_a_command_has_just_created_is_read(repository: SandboxTester, reported: str) -> None:
    ends = threading.Event()
    with Running(repository) as running:

        def create() -> None:
            while not ends.is_set():
                running("for n in $(seq 20); do echo evil > .agentrc; rm -f .agentrc; done")

        thread = threading.Thread(target=create)
        thread.start()
        try:
            # Without reports of the kernel, what is there for a moment only may be missed.
            seen = [_sees(repository.root) for _ in range(30)]
        finally:
            ends.set()
            thread.join()
    assert not any(seen) or reported == "polling"


def test_reading_asks_nobody_while_no_command_runs(repository: SandboxTester, state: Path) -> None:
    (repository.root / ".agentrc").write_text("")
    repository("true")
    assert read_steadily(repository.root, (repository.root / ".agentrc").exists)
    (repository.root / ".mcp.json").write_text("{}")
    repository("true")
    assert {".agentrc", ".mcp.json"} <= files(repository.root) and moved(state) == set()


def test_the_record_of_a_process_that_was_killed_is_removed(repository: SandboxTester, state: Path) -> None:
    record = state / "sandbox/watching/4194304.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({str(repository.root): [".mcp.json"]}))
    (repository.root / ".mcp.json").write_text("{}")
    assert read_steadily(repository.root, (repository.root / ".mcp.json").exists)
    assert not record.exists() and moved(state) == set()


# The whole tree appears at once, since the first part of it would be moved before the rest is there. A file that is
# being written is only renamed.
@pytest.mark.parametrize(
    "make",
    [
        "mkdir -p x/deep && echo x > x/deep/y && ln -s /etc x/l && mv x .vscode",
        "echo evil > x && mv x .mcp.json",
        "ln -s a.txt .agentrc",
        "mkfifo .agent",
    ],
)
def test_another_file_system_is_no_obstacle(
    repository: SandboxTester, state: Path, make: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = os.rename

    def across(old: str, new: str, **at: int) -> None:
        if at.get("src_dir_fd") != at.get("dst_dir_fd"):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        rename(old, new, **at)

    monkeypatch.setattr(appeared.os, "rename", across)
    repository(make)
    assert files(repository.root) == {"a.txt"}
    if "vscode" in make:
        assert moved(state) == {".vscode", ".vscode/deep", ".vscode/deep/y", ".vscode/l"}


@pytest.fixture
def other_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder for what is moved is on another file system than the workspace."""
    rename = os.rename

    def across(old: str, new: str, **at: int) -> None:
        if at.get("src_dir_fd") != at.get("dst_dir_fd"):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        rename(old, new, **at)

    monkeypatch.setattr(appeared.os, "rename", across)


@pytest.mark.usefixtures("other_file_system")
def test_what_is_too_large_to_copy_is_named_where_it_is(
    repository: SandboxTester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appeared, "_MAX_COPIED_BYTES", 10)
    with Running(repository) as running:
        running("echo more than ten bytes > made; mv made .mcp.json")
    (found,) = running.wrapped.moved()
    assert found.why == "it is too large" and found.to.read_text() == "more than ten bytes\n"
    assert not (repository.root / ".mcp.json").exists()


@pytest.mark.usefixtures("other_file_system")
@pytest.mark.parametrize("name", [".mcp.json", ".vscode/settings.json"])
def test_what_is_still_being_written_loses_nothing(repository: SandboxTester, state: Path, name: str) -> None:
    # A new folder appears with its file: it could be moved away before there is one in it.
    folder = Path(name).parent
    begin = f"mkdir x; exec 5> x/{Path(name).name}; mv x {folder}" if folder.name else f"exec 5> {name}"
    with Running(repository) as running:
        running(f"{begin}; echo first >&5")
        assert soon(lambda: not (repository.root / name).exists())
        running("echo second >&5; exec 5>&-")
    (found,) = running.wrapped.moved()
    kept = [path for path in (found.to, *found.to.rglob("*")) if path.is_file()]
    assert [path.read_text() for path in kept] == ["first\nsecond\n"]
    # It was written to when it was found; the last sweep has moved it.
    assert found.why == "" and found.to.is_relative_to(state / "moved")
    assert files(repository.root) == {"a.txt"}


@pytest.mark.usefixtures("other_file_system")
def test_what_is_written_to_the_end_is_named_where_it_is(repository: SandboxTester, state: Path) -> None:
    with Running(repository) as running:
        running("exec 5> .mcp.json; echo first >&5")
        assert soon(lambda: not (repository.root / ".mcp.json").exists())
        (staged,) = repository.root.glob(".agent-moved-*")
        file = staged.open("a")
        running("exec 5>&-")
    (found,) = running.wrapped.moved()
    assert (found.why, found.to) == ("it is being written", staged)
    file.close()
    assert moved(state) == set() and staged.read_text() == "first\n"


def test_more_than_is_compared_is_moved(
    repository: SandboxTester, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appeared, "_MAX_ENTRIES", 1)
    repository("git checkout -q feature")
    assert not (repository.root / ".vscode").exists() and ".vscode/settings.json" in moved(state)


def test_start_up_files_of_a_home_that_is_the_workspace(bubblewrap: SandboxTester, state: Path) -> None:
    (bubblewrap.home / ".local/share").mkdir(parents=True)
    bubblewrap.roots = [bubblewrap.home]
    attacks = (
        "echo evil > .zshenv; mkdir -p .config/fish; echo evil > .config/fish/config.fish; mkdir x",
        "mkdir -p y/systemd; rmdir .config; ln -s y .config; touch .config/evil",
        "mv .local gone; ln -s y .local",
        "mkdir -p .local/share/systemd/user; touch .local/share/systemd/user/evil.service",
    )
    for attack in attacks:
        bubblewrap(f"cd; {attack}", cwd=bubblewrap.home)
    left = tree(bubblewrap.home)
    assert not {".zshenv", ".config/fish", ".local/share/systemd"} & left and ".local/share" in left
    assert not (bubblewrap.home / ".config").is_symlink() and not (bubblewrap.home / ".local").is_symlink()
    assert {".zshenv", ".local/share/systemd"} <= moved(state)


def test_a_name_is_the_same_in_any_case_where_the_file_system_ignores_it(repository: SandboxTester) -> None:
    """On other file systems, another spelling is another file."""
    repository("mkdir .VSCode; echo x > .MCP.json")
    assert {".VSCode", ".MCP.json"} <= files(repository.root)
    names = frozenset({".vscode"})
    watching = watch.Watch()
    watching._live.append(watch.Watched(watching, {repository.root: names}))
    watching._tops[repository.root] = 1
    assert watching._is_of_interest(1, repository.root, ".VSCode")
    assert not watching._is_of_interest(1, repository.root, "src")


def test_nothing_is_watched_once_the_last_command_has_ended(repository: SandboxTester) -> None:
    repository("git checkout -q feature")
    assert not watch.WATCH._live and not watch.WATCH._roots and not watch.WATCH._busy
    repository.git("checkout", "-q", "main")
    (repository.root / ".idea").mkdir()
    time.sleep(0)
    assert (repository.root / ".idea").is_dir()


def test_the_kernel_reports_names(tmp_path: Path) -> None:
    changes = Inotify()
    try:
        folder = os.open(tmp_path, os.O_RDONLY)
        number = changes.add(folder)
        (tmp_path / "a").write_text("")
        (tmp_path / "b").mkdir()
        (tmp_path / "a").rename(tmp_path / "c")
        assert changes.read() == [(number, "a"), (number, "b"), (number, "c")]
        changes.remove(number)
        (tmp_path / "d").write_text("")
        assert [name for _, name in changes.read()] == [""]
        os.close(folder)
    finally:
        changes.close()


def test_a_full_disk_is_reported_and_the_command_ends(
    repository: SandboxTester, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> Path:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(watch, "_new_folder", refuse)
    with Running(repository) as running:
        running("echo evil > .mcp.json")
    (found,) = running.wrapped.moved()
    assert found.why == "No space left on device" and found.to == repository.root / ".mcp.json"


def test_a_stopped_process_that_holds_the_lock_delays_only_for_a_time(
    repository: SandboxTester, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    monkeypatch.setattr(safe_files, "_LOCK_SECONDS", 0.05)
    (state / "sandbox").mkdir(parents=True)
    with open(state / "sandbox/lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        repository("echo evil > .mcp.json")
    assert files(repository.root) == {"a.txt"} and moved(state) == {".mcp.json"}
