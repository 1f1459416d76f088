"""`agent every`: the whole way from a schedule to a decision; the timer and the crontab line; what is missing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.session.schedules import ScheduleStore
from agent_cli.models.credentials import KeyStore, Secret
from agent_tools.text import utc_stamp
from tests.support.fake_wakers import FakeWakers
from tests.support.fork_server import start
from tests.support.program import agent, clean_env
from tests.support.pty_screen import Drawn
from tests.support.scripts import call, script
from tests.support.suspended_runs import as_printed, pending, printed
from tests.support.waiting import soon

MKDIR = {"calls": [call("Bash", command="mkdir made")]}


def schedules(work: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(agent(["every", "--json"], work).stdout)
    return found


def add(work: Path, *words: str, replies: list[dict[str, Any]] | None = None, env: dict[str, str] | None = None) -> str:
    model = script(work.parent / "s.toml", replies or [{"text": "Done."}])
    done = agent(["every", "* * * * *", "--model", model, *words, "do", "it"], work, env)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[1].rstrip(":")


def due(work: Path, minutes: int = 2) -> None:
    """Let the last minutes be due, as if the schedules were older."""
    store = ScheduleStore(work.parent / "home/state")
    for schedule in store.all():
        store.change(schedule.replace(since=utc_stamp(time.time() - 60 * minutes)))


def until(work: Path, state: str) -> dict[str, Any]:
    """Wait until the last run is in a state."""

    def there() -> bool:
        return bool((last := schedules(work)[0]["last"]) and last["state"] == state)

    if not soon(there, 60):
        outputs = (work.parent / "home/state/schedules").glob("*/output.log")
        raise AssertionError(f"{schedules(work)} {[path.read_text() for path in outputs]}")
    return schedules(work)[0]


def test_a_run_waits_and_a_rule_of_the_schedule_lets_the_next_ones_through(work: Path) -> None:
    which = add(work, replies=[MKDIR, {"text": "Done."}])
    due(work)
    assert "was started" in agent(["every", "tick"], work).stderr
    waiting = until(work, "waiting")
    assert [item["session_id"] for item in pending(work)] == [waiting["session_id"]]
    assert f"session {waiting['session_id'][:8]} waits for you" in agent(["every"], work).stdout
    refused = agent(["every", "run", which], work)
    assert (refused.returncode, "waits for you" in refused.stderr) == (2, True)
    offered = printed(agent(["pending"], work).stdout)[1]
    assert offered == f"agent approve {waiting['session_id'][:8]} --rule 'Bash(mkdir made)' --scope schedule"
    done = as_printed(offered, work)
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    (work / "made").rmdir()
    # It is the schedule's alone: another session asks.
    model = script(work.parent / "s.toml", [MKDIR, {"text": "Done."}])
    assert agent(["-p", "--model", model, "--on-ask", "suspend", "do it"], work).returncode == 3
    agent(["reject"], work)
    assert agent(["every", "run", which], work).returncode == 0
    until(work, "done")
    assert (work / "made").is_dir()
    found = schedules(work)[0]
    assert (found["rules"], found["session_id"]) == (["Bash(mkdir made)"], "")
    runs = json.loads(agent(["every", "log", which, "--json"], work).stdout)
    assert [(run["state"], run["by_hand"]) for run in runs] == [("done", False), ("done", True)]
    assert "Done." in agent(["every", "log", which[:3], "--output"], work).stdout
    assert agent(["sessions", "list"], work).stdout.count("do it (scheduled ") == 2


def test_a_start_tells_of_it_and_the_question_offers_the_rule(work: Path) -> None:
    which = add(work, replies=[MKDIR, {"text": "Done."}])
    agent(["every", "run", which], work)
    session = until(work, "waiting")["session_id"]
    hello = script(work.parent / "hello.toml", [{"text": "Hello."}])
    started = agent(["--plain", "--model", hello], work, stdin="/exit\n")
    assert f"Schedule {which} (* * * * *) waits for you. See: agent pending --all" in started.stderr + started.stdout
    done = agent(["--plain", "--resume", session], work, stdin="S\n")
    assert "always in this schedule: mkdir made" in done.stdout + done.stderr
    assert (work / "made").is_dir()
    assert schedules(work)[0]["rules"] == ["Bash(mkdir made)"]
    again = agent(["--plain", "--model", hello], work, stdin="/exit\n")
    assert "waits for you" not in again.stderr + again.stdout


def test_the_question_in_the_window_has_it_among_its_choices(work: Path) -> None:
    which = add(work, replies=[MKDIR, {"text": "Done."}])
    agent(["every", "run", which], work)
    with Drawn(["--resume", until(work, "waiting")["session_id"]], work) as screen:
        screen.wait("Yes, and allow it in every run of this schedule")
        screen.rest()
        screen.type("S")
        screen.wait("Done.")
        screen.leave()
    assert schedules(work)[0]["rules"] == ["Bash(mkdir made)"]


def test_a_scope_of_a_schedule_is_refused_elsewhere(work: Path) -> None:
    model = script(work / "s.toml", [MKDIR])
    agent(["-p", "--model", model, "--on-ask", "suspend", "do it"], work)
    done = agent(["approve", "--rule", "Bash(mkdir made)", "--scope", "schedule"], work)
    assert (done.returncode, "no schedule started this session" in done.stderr) == (2, True)


def test_two_ticks_at_once_start_one_run(work: Path) -> None:
    add(work)
    due(work)
    ticks = [start(["every", "tick"], work, clean_env(work.parent / "home")) for _ in range(4)]
    assert [tick.wait(60) for tick in ticks] == [0] * 4
    until(work, "done")
    store = ScheduleStore(work.parent / "home/state")
    assert [run.attempts for run in store.runs(store.all()[0].id) if run.step != "skipped"] == [1]


def test_pause_resume_and_remove(work: Path) -> None:
    which = add(work)
    assert f"agent every resume {which}" in agent(["every", "pause", which], work).stdout
    due(work)
    assert agent(["every", "tick"], work).stderr == ""
    assert "paused" in agent(["every"], work).stdout
    assert "next at" in agent(["every", "resume", which], work).stdout
    assert agent(["every", "rm", which], work).stdout == f"Schedule {which} is removed.\n"
    assert agent(["every", "log", which], work).returncode == 2
    assert "There are no schedules." in agent(["every"], work).stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["99 * * * *", "x"], "is not a time (bad minute)"), (["day 9:00", ""], "The prompt is empty"),
        (["day 9:00", "--in", "nowhere", "x"], "nowhere is not a folder"),
        (["day 9:00", "--zone", "Mars/Base", "x"], "There is no time zone Mars/Base"),
        (["log", "0123"], "No schedule begins with 0123"),
    ],
)  # fmt: skip
def test_mistakes_are_one_sentence_and_leave_nothing(work: Path, words: list[str], said: str) -> None:
    model = script(work.parent / "s.toml", [{"text": "x"}])
    more = [] if words[0] == "log" else ["--model", model]
    done = agent(["every", *words[:1], *more, *words[1:]], work)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert said in done.stderr
    assert schedules(work) == []


def test_the_zone_is_stored_and_shown(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"text": "x"}])
    agent(["every", "day 9:00", "--model", model, "x"], work, {"TZ": "Australia/Lord_Howe"})
    found = schedules(work)[0]
    assert found["zone"] == "Australia/Lord_Howe"
    assert found["next"].endswith(("09:00:00+11:00", "09:00:00+10:30"))
    assert "Australia/Lord_Howe" in agent(["every"], work).stdout


def test_a_key_of_the_shell_is_missed_and_never_stored(work: Path) -> None:
    env = {"OPENAI_API_KEY": "sk-of-the-shell", "HTTPS_PROXY": "http://me:secret@proxy"}
    done = agent(["every", "day 9:00", "--model", "openai/gpt-5", "x"], work, env)
    assert done.returncode == 0
    assert "Store it: agent login openai" in done.stderr
    stored = [path.read_text() for path in (work.parent / "home/state/schedules").rglob("*") if path.is_file()]
    assert not [text for text in stored if "sk-of-the-shell" in text or "secret" in text]
    KeyStore(work.parent / "home/state/keys", keyring=False).save("openai", Secret("sk-of-the-shell"))
    assert "Store it" not in agent(["every", "day 9:00", "--model", "openai/gpt-5", "x"], work, env).stderr
    assert agent(["every", "day 9:00", "--model", "openai/gpt-5", "x"], work).returncode == 0


def test_without_any_key_nothing_is_added(work: Path) -> None:
    done = agent(["every", "day 9:00", "--model", "openai/gpt-5", "x"], work)
    assert (done.returncode, schedules(work)) == (2, [])


def test_a_timer_is_shown_before_it_is_written(work: Path) -> None:
    wakers = FakeWakers(work.parent, systemd=True)
    which = add(work, env=wakers.env)
    units = work.parent / "home/.config/systemd/user"
    assert not units.exists()  # nobody could be asked
    shown = agent(["every", "install"], work, wakers.env)
    assert (shown.returncode, units.exists()) == (1, False)
    assert "ExecStart=" in shown.stderr and "OnCalendar" in shown.stderr
    written = agent(["every", "install", "--yes"], work, wakers.env)
    assert written.returncode == 0, written.stderr
    service = (units / "agent-every.service").read_text()
    assert "KillMode=process" in service and f'AGENT_STATE_DIR={work.parent}/home/state"' in service
    assert (wakers.folder / "enabled-agent-every.timer").exists()
    assert "installed already" in agent(["every", "install"], work, wakers.env).stdout
    assert "agent every uninstall" in agent(["every", "rm", which], work, wakers.env).stderr
    assert agent(["every", "uninstall"], work, wakers.env).stdout == "Taken out: the systemd timer.\n"
    assert not list(units.iterdir()) and not (wakers.folder / "enabled-agent-every.timer").exists()
    assert agent(["every", "uninstall"], work, wakers.env).stdout == "Nothing is installed.\n"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="NOT TESTED: systemd is missing")
def test_systemd_accepts_the_units(work: Path, tmp_path: Path) -> None:
    state = work.parent / "a 100% $state"
    wakers = FakeWakers(work.parent, systemd=True)
    agent(["every", "install", "--yes"], work, {**wakers.env, "AGENT_STATE_DIR": str(state)})
    units = sorted((work.parent / "home/.config/systemd/user").iterdir())
    env = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)}
    command = ["systemd-analyze", "verify", "--user", *map(str, units)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    assert f'"AGENT_STATE_DIR={work.parent}/a 100%% $state"' in units[0].read_text()


def test_a_line_of_the_crontab_leaves_the_others(work: Path) -> None:
    wakers = FakeWakers(work.parent, cron=True)
    (wakers.folder / "crontab").write_text("# mine\n0 4 * * * backup 100%\n")
    which = add(work, "--yes", env=wakers.env)
    lines = (wakers.crontab or "").splitlines()
    assert lines[:2] == ["# mine", "0 4 * * * backup 100%"]
    assert lines[2].startswith("* * * * * AGENT_STATE_DIR=") and lines[2].endswith(
        "every tick >/dev/null 2>&1 # agent-every"
    )
    add(work, "--yes", env=wakers.env)
    assert (wakers.crontab or "").splitlines() == lines
    agent(["every", "rm", which], work, wakers.env)
    agent(["every", "rm", schedules(work)[0]["id"], "--yes"], work, wakers.env)
    assert wakers.crontab == "# mine\n0 4 * * * backup 100%\n"


def test_an_empty_crontab_is_none_and_without_cron_it_says_what_else(work: Path) -> None:
    wakers = FakeWakers(work.parent, cron=True)
    assert agent(["every", "install", "--yes"], work, wakers.env).returncode == 0
    assert len((wakers.crontab or "").splitlines()) == 1
    (wakers.folder / "cron").unlink()
    done = agent(["every", "install"], work, wakers.env)
    assert (done.returncode, "agent serve" in done.stderr) == (2, True)


def test_lingering_is_asked_for_where_systemd_ends_timers(work: Path) -> None:
    wakers = FakeWakers(work.parent, systemd=True)
    model = script(work.parent / "s.toml", [{"text": "x"}])
    words = ["every", "day 9:00", "--model", model, "x"]
    assert "loginctl enable-linger" in agent(words, work, wakers.env).stderr
    (wakers.folder / "linger").touch()
    assert "enable-linger" not in agent(words, work, wakers.env).stderr


def test_a_key_of_the_user_manager_counts(work: Path) -> None:
    wakers = FakeWakers(work.parent, systemd=True, linger=True)
    (wakers.folder / "systemd").write_text("OPENAI_API_KEY=sk-there\n")
    done = agent(["every", "day 9:00", "--model", "openai/gpt-5", "x"], work, {**wakers.env, "OPENAI_API_KEY": "sk-x"})
    assert "Store it" not in done.stderr


def test_the_tick_runs_with_the_environment_of_the_schedule(work: Path) -> None:
    bash = {"calls": [call("Bash", command="echo $PATH > seen; pwd >> seen; echo $LANG$UNSEEN >> seen")]}
    add(work, "--allowedTools", "Bash", replies=[bash, {"text": "Done."}],
        env={"PATH": f"/of/the/shell@3:rel:{os.environ['PATH']}", "LANG": "C.UTF-8", "UNSEEN": "x"})  # fmt: skip
    due(work)
    agent(["every", "tick"], work, {"LANG": "C", "PATH": "/usr/bin:/bin"})
    until(work, "done")
    path, folder, rest = (work / "seen").read_text().splitlines()
    assert path.startswith("/of/the/shell@3:") and "rel" not in path.split(":")
    assert (folder, rest) == (str(work), "C.UTF-8")
