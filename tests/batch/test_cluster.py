"""`agent batch --scheduler` on a real Dask cluster: three workers, each a process of its own."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_cli.cli.commands import batch as command
from agent_cli.cli.run_options import RunOptions
from agent_cli.extras.batch.host import WorkOrder
from agent_cli.kernel.run_environment import UsageError
from tests.support.batches import ANSWER, WRITE, Batches
from tests.support.imported_modules import loaded
from tests.support.program import clean_env
from tests.support.repositories import git
from tests.support.scripts import script
from tests.support.waiting import gone, soon

distributed = pytest.importorskip(
    "distributed", reason="agent batch --scheduler is NOT tested: pip install distributed"
)
cluster: Any = importlib.import_module("agent_cli.extras.batch.cluster")


@pytest.fixture
def address(batches: Batches) -> Iterator[str]:
    """A cluster of three workers with one thread each, whose home is that of the test."""
    env = clean_env(batches.base / "home", IS_SANDBOX="1")
    with distributed.LocalCluster(
        n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None, env=env, memory_limit=0
    ) as cluster:
        yield cluster.scheduler_address


def worker_of(batches: Batches, name: str) -> int:
    """The process of the worker that runs a task: the parent of the agent in its work tree."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            cwd = os.readlink(entry / "cwd")  # noqa: PTH115 - of a process that may be gone
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            words = (Path("/proc") / str(parent) / "cmdline").read_bytes()
        except OSError:
            continue
        if cwd.startswith(f"{batches.state}/batches/") and f"-{name}/work" in cwd and b"multiprocessing" in words:
            return parent
    return 0


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_worker_that_is_killed_has_its_task_run_by_another(batches: Batches, address: str) -> None:
    """And Ctrl-C, the version, and plain data: one cluster for all, as it takes seconds to start."""
    batches.commit("second")
    slow = batches.base / "slow.toml"
    script(slow, [WRITE, {"text": "never", "pause": 600}])
    head = git(batches.repo, "rev-parse", "HEAD").strip()
    git(batches.base, "clone", "-q", "--depth", "1", f"file://{batches.repo}", "shallow")
    edits = {"mode": "acceptEdits", "check": "grep -qx made b.txt"}
    batches.write(
        {"id": "cut", "model": f"scripted:{slow}", **edits},
        *({"id": f"quick-{n}", "model": batches.writer, **edits} for n in range(2)),
        {"id": "wrong", "repository": "../shallow", "check": "exit 3"},
        {"id": "url", "repository": f"file://{batches.repo}"},
    )
    process = batches.start("--scheduler", address, "--json")
    assert soon(lambda: batches.has_begun("cut"), 60)
    assert soon(lambda: worker_of(batches, "cut") != 0, 60)
    worker = worker_of(batches, "cut")
    script(slow, [WRITE, ANSWER])
    os.kill(worker, signal.SIGKILL)
    out, err = process.communicate(timeout=100)
    assert process.returncode == 1, err
    assert gone(worker)
    result = json.loads(out)
    lines: dict[str, dict[str, Any]] = {line["id"]: line for line in result["results"]}
    passed = ["cut", "quick-0", "quick-1", "wrong", "url"]
    assert list(lines) == passed
    passed.remove("wrong")
    assert {name: lines[name]["status"] for name in passed} == dict.fromkeys(passed, "passed"), lines
    assert (lines["wrong"]["status"], lines["wrong"]["check_exit_code"]) == ("failed", 3)
    assert {line["commit"] for line in lines.values()} == {head}
    assert b"cut runs again on tcp://" in err and b"was lost" in err
    assert "+made" in batches.patch("cut") and "+made" in batches.patch("quick-1")
    assert all("tcp://" in line["host"] for line in lines.values())
    # Each task once in the file; the run was not begun twice in its result.
    assert [line["id"] for line in batches.lines()] == list(lines)

    script(slow, [{"text": "never", "pause": 600}])
    batches.write({"id": "again", "model": f"scripted:{slow}"}, {"id": "later"})
    process = batches.start("--scheduler", address, "-j", "1", "-o", "second.jsonl")
    assert soon(lambda: batches.has_begun("again"), 60)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    statuses = {line["id"]: line["status"] for line in batches.lines("second.jsonl")}
    assert statuses == {"again": "interrupted", "later": "skipped"}
    assert soon(lambda: batches.left() == [], 20), batches.left()


def test_a_cluster_that_is_not_there_is_exit_code_2(batches: Batches, monkeypatch: pytest.MonkeyPatch) -> None:
    batches.write({})
    done = batches.run("--scheduler", "tcp://127.0.0.1:9", DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT="1s")
    assert (done.returncode, done.stdout) == (2, "")
    assert "There is no Dask scheduler at tcp://127.0.0.1:9" in done.stderr
    assert batches.left() == []


def test_tasks_end_when_their_batch_is_gone(batches: Batches, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program that sent them was killed, and renews its lease no more."""
    for name, value in clean_env(batches.base / "home").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(cluster, "LEASE_SECONDS", 1.0)
    monkeypatch.setattr(cluster, "POLL_SECONDS", 0.1)
    model = script(batches.base / "slow.toml", [{"text": "never", "pause": 600}])
    leased = cluster._hosts["gone"] = cluster.LeasedHost("gone")
    order = WorkOrder("x", "Go.", f"file://{batches.repo}", "", (f"--model={model}",), fetched=True)
    started = time.monotonic()
    assert leased.run(order).status == "interrupted"
    assert time.monotonic() - started < 60
    assert soon(lambda: "gone" not in cluster._hosts and batches.left() == [])


def test_without_the_extra_it_is_named(batches: Batches, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="pip install distributed"):
        inspect.unwrap(command.batch)(RunOptions(), "tasks.jsonl", scheduler="tcp://127.0.0.1:9")


def test_dask_is_imported_for_a_cluster_only(batches: Batches) -> None:
    batches.write({})
    modules = loaded(batches.work, "batch", "tasks.jsonl")
    assert "agent_cli.extras.batch.schedule" in modules
    assert not modules & {"dask", "distributed", "agent_cli.extras.batch.cluster"}
