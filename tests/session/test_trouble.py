"""Disks that refuse, and other processes: the log keeps what it could not write, says so, and writes it when it can."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_cli.kernel.events import MessageAdded, TextDelta
from agent_cli.kernel.messages import UserMessage
from agent_cli.kernel.session.files import MAX_COPIES, damaged_copies, owner_file
from agent_cli.kernel.session.log import SessionBusyError, SessionLog
from agent_cli.kernel.session.restore import restore
from tests.support.file_faults import unprivileged
from tests.support.fork_server import ROOT
from tests.support.program import agent, clean_env
from tests.support.scripts import script
from tests.support.session_logs import HEADER, write_log

SAID = [UserMessage(f"Message {number}.") for number in range(6)]


def say(log: SessionLog, *messages: UserMessage) -> None:
    for message in messages:
        log.record(MessageAdded(message))


def no_permission(*args: object, **named: object) -> int:
    raise PermissionError(13, "Permission denied")


def test_a_folder_that_can_be_made_later(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file is in the way")
    lines: list[str] = []
    log = SessionLog(tmp_path / "state/sessions/s.jsonl", lines.append)
    log.create(HEADER)
    say(log, *SAID[:3])
    assert len(lines) == 1 and log.warning == lines[0] and "cannot be saved" in log.warning
    (tmp_path / "state").unlink()
    say(log, *SAID[3:])
    log.close()
    assert not log.warning and len(lines) == 2 and "saved again" in lines[1]
    assert list(restore((tmp_path / "state/sessions/s.jsonl").read_bytes(), "s").history) == SAID
    for folder in (tmp_path / "state", tmp_path / "state/sessions"):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_a_file_that_may_be_written_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.jsonl"
    write_log(path)
    before = restore(path.read_bytes(), "s")
    lines: list[str] = []
    log = SessionLog(path, lines.append)
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", no_permission)
        log.acquire()
        log.continue_from(before.seq, before.parent)
        say(log, *SAID[:2])
        assert len(lines) == 1 and "Permission denied" in log.warning
    say(log, *SAID[2:])
    log.close()
    after = restore(path.read_bytes(), "s")
    assert (after.history, after.bad) == ((*before.history, *SAID), 0)


def test_what_another_process_said_meanwhile_is_not_mixed_with_this(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    write_log(path)
    before = restore(path.read_bytes(), "s")
    lines: list[str] = []
    log = SessionLog(path, lines.append)
    with unprivileged():
        log.acquire()
    log.continue_from(before.seq, before.parent)
    other = SessionLog(path, lines.append)
    other.acquire()
    other.continue_from(before.seq, before.parent)
    say(other, SAID[0])
    other.close()
    say(log, SAID[1])
    say(log, SAID[2])
    assert "continued by another process" in log.warning and "--fork-session" in log.warning
    log.close()
    assert lines[-1] == "2 records of this session were not saved."
    assert restore(path.read_bytes(), "s").history == (*before.history, SAID[0])


@pytest.mark.parametrize("name", ["write", "fsync"])
def test_errors_of_the_disk(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[..., int] = getattr(os, name)
    refuses = [True]

    def refuse(*args: object) -> int:
        if refuses:
            raise OSError(28, "No space left on device")
        return real(*args)

    lines: list[str] = []
    log = SessionLog(tmp_path / "s.jsonl", lines.append)
    log.create(HEADER)
    say(log, SAID[0])
    monkeypatch.setattr(os, name, refuse)
    say(log, *SAID[1:3])
    assert log.warning and len(lines) == 1
    refuses.clear()
    say(log, *SAID[3:])
    # What a sync lost, no later one brings back: that warning stays.
    assert bool(log.warning) is (name == "fsync")
    log.close()
    found = restore((tmp_path / "s.jsonl").read_bytes(), "s")
    assert (list(found.history), found.bad) == (SAID, 0)


def test_a_limit_on_the_size_of_files(work: Path) -> None:
    """Over a limit of the shell's, the run works, says so at the beginning, and how much is missing at the end."""
    model = script(work.parent / "s.toml", [{"text": "Fine. " + " ".join(map(str, range(4_000)))}])
    done = subprocess.run(
        [
            "bash",
            "-c",
            'ulimit -f 20; exec "$@"',
            "sh",
            sys.executable,
            "-m",
            "agent_cli",
            "-p",
            "--model",
            model,
            "go",
        ],
        cwd=work,
        # The limit would cut the bytecode that Python saves, and every later process would fail to read it.
        env=clean_env(work.parent / "home", PYTHONDONTWRITEBYTECODE="1"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and done.stdout.startswith("Fine. ")
    assert "cannot be saved" in done.stderr and "were not saved" in done.stderr and "Traceback" not in done.stderr


def test_a_removed_file_is_reported(tmp_path: Path) -> None:
    lines: list[str] = []
    log = SessionLog(tmp_path / "s.jsonl", lines.append)
    log.create(HEADER)
    say(log, SAID[0])
    (tmp_path / "s.jsonl").unlink()
    say(log, SAID[1])
    assert "was removed" in log.warning and lines == [log.warning]
    log.close()


HOLD = """
import sys
from pathlib import Path
from agent_cli.kernel.session.log import SessionLog
log = SessionLog(Path(sys.argv[1]), print)
log.acquire()
print("held", flush=True)
sys.stdin.read()
"""


def test_who_has_a_session_open_is_named(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"text": "One."}, {"text": "Two."}])
    assert agent(["-p", "--model", model, "first"], work).returncode == 0
    [path] = (work.parent / "home/state/sessions").rglob("*.jsonl")
    assert not owner_file(path).exists()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        env={"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tools'}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert holder.stdout is not None and holder.stdin is not None
    assert holder.stdout.readline() == b"held\n"
    done = agent(["-p", "-c", "--model", model, "second"], work)
    assert done.returncode == 2
    assert (
        f"is open in another process (process {holder.pid} without a terminal)" in done.stderr
        and "--fork-session" in done.stderr
    )
    copy = agent(["-p", "-c", "--fork-session", "--model", model, "second"], work)
    assert (copy.returncode, copy.stdout) == (0, "Two.\n"), copy.stderr
    holder.kill()
    holder.communicate()
    # The word that a killed process left behind is no lock.
    assert owner_file(path).exists()
    SessionLog(path, print).acquire()


def test_a_file_written_anew_meanwhile_is_opened_again(tmp_path: Path) -> None:
    """Who waited for the lock on the old file must not write into it."""
    path = tmp_path / "s.jsonl"
    write_log(path)
    path.write_bytes(path.read_bytes()[:-30])
    for number in range(MAX_COPIES + 2):
        log = SessionLog(path, print)
        log.acquire()
        found = restore(path.read_bytes(), "s")
        log.continue_from(found.seq, found.parent)
        assert log.mend(found).startswith("is saved as")
        with pytest.raises(SessionBusyError):
            SessionLog(path, print).acquire()
        say(log, SAID[number])
        log.close()
        with path.open("ab") as file:
            file.write(b"torn")
    assert all(copy.stat().st_mode & 0o777 == 0o600 for copy in damaged_copies(path))
    assert len(list(tmp_path.iterdir())) == 1 + MAX_COPIES


def test_text_of_a_closed_log_is_nobodys_loss(tmp_path: Path) -> None:
    log = SessionLog(tmp_path / "s.jsonl", print)
    log.create(HEADER)
    log.record(TextDelta("words"))
    log.close()
    assert not list(tmp_path.iterdir())
