"""A state folder that takes nothing: the work goes on in memory, one warning says so, and the exit code is the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_cli.kernel.session.store import SessionStore
from tests.support.file_faults import fill, make_read_only, mount_small, own_mounts
from tests.support.program import agent
from tests.support.scripts import call, script

ROUNDS = [
    {"calls": [call("Read", file_path="a.txt")]},
    {"calls": [call("Edit", file_path="a.txt", old_string="hello", new_string="bye")]},
    {"text": "Done."},
]


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """A state folder on a small file system of its own."""
    with own_mounts():
        mount_small(tmp_path / "state", "1m")
        yield tmp_path / "state"


def warnings(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if "cannot be saved" in line]


def run(work: Path, state: Path, *flags: str) -> str:
    """A job of three rounds with this state folder, which must be done; what it says on standard error."""
    (work / "a.txt").write_text("hello world\n")
    # A session that goes on goes on in its script, too.
    model = script(work.parent / "s.toml", ROUNDS * 3)
    args = ["-p", "--model", model, *flags, "--allowedTools", "Edit", "--", "go"]
    done = agent(args, work, {"AGENT_STATE_DIR": str(state)})
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert (work / "a.txt").read_text() == "bye world\n" and "Traceback" not in done.stderr
    return done.stderr


def test_a_full_disk(work: Path, state: Path) -> None:
    fill(state)
    [found] = warnings(run(work, state))
    assert "No space left on device" in found


def test_a_disk_that_fills_up_meanwhile(work: Path, state: Path) -> None:
    run(work, state)
    rest = fill(state)
    # Room for the header of the session, and not for all of its records.
    rest.write_bytes(rest.read_bytes()[:-12_288])
    [found] = warnings(run(work, state))
    assert "No space left on device" in found
    # What was saved can be gone on with: no record is torn.
    rest.unlink()
    # How many of the script's answers were saved depends on their size.
    model = f"scripted:{work.parent / 's.toml'}"
    done = agent(["-p", "--model", model, "-c", "--", "go"], work, {"AGENT_STATE_DIR": str(state)})
    assert done.returncode == 0 and not warnings(done.stderr)
    store = SessionStore(state, work)
    assert [store.session(i).load().bad for i in store.ids()] == [0, 0]


def test_a_read_only_state_folder(work: Path, state: Path) -> None:
    run(work, state)
    make_read_only(state)
    for flags in ((), ("--continue",)):
        [found] = warnings(run(work, state, *flags))
        assert "Read-only file system" in found


def test_a_session_goes_on_from_a_full_disk(work: Path, state: Path) -> None:
    run(work, state)
    fill(state)
    assert len(warnings(run(work, state, "--continue"))) == 1


def test_the_exit_code_of_a_failure_is_the_same(work: Path, state: Path) -> None:
    plain = agent_code(work, work.parent / "elsewhere")
    fill(state)
    assert agent_code(work, state) == plain != 0


def agent_code(work: Path, state: Path) -> int:
    """The exit code of a run whose model has nothing to say any more."""
    model = script(work.parent / "empty.toml", [])
    done = agent(["-p", "--model", model, "go"], work, {"AGENT_STATE_DIR": str(state)})
    assert "Traceback" not in done.stderr
    return done.returncode


@pytest.mark.parametrize("what", ["a file", "below a file", "a device"])
def test_a_state_folder_that_is_none(work: Path, what: str) -> None:
    (work.parent / "file").write_text("")
    place = {"a file": work.parent / "file", "below a file": work.parent / "file/state", "a device": Path("/dev/null")}
    assert len(warnings(run(work, place[what]))) == 1
    assert (work.parent / "file").read_text() == ""


def test_a_command_of_a_home_that_takes_nothing_says_what_it_cannot_write(work: Path) -> None:
    (work / ".claude-plugin").mkdir()
    (work / ".claude-plugin" / "marketplace.json").write_text('{"name": "m", "owner": {"name": "x"}, "plugins": []}')
    # Nothing can be created below /proc.
    env = {"HOME": "/proc", "AGENT_STATE_DIR": "/proc/state"}

    def said(*words: str) -> str:
        return agent(list(words), work, env).stderr

    assert "There is no token named X; there are: none." in said("serve", "token", "revoke", "X")
    assert "/proc/state/serve/tokens.json cannot be written: " in said("serve", "token", "add", "phone")
    assert "/proc/.agent: " in said("plugin", "marketplace", "add", str(work))
