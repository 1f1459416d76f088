"""What a worker of a Dask cluster runs: tasks as plain data, by a `TaskHost` of that machine.

A worker cannot see whether the program that sent a task is still there. So that program renews a lease; when it has run
out, the tasks are interrupted, and no task runs twice at the same time when the batch is resumed.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import distributed

from agent_cli.batch.host import TaskHost, WorkOrder
from agent_cli.core.version import __version__
from agent_tools.record import from_json, to_json

LEASE_SECONDS = 120.0
LOOK_SECONDS = 2.0

_lock = threading.Lock()
_hosts: dict[str, LeasedHost] = {}
_over: set[str] = set()


class LeasedHost:
    """The host of one batch in this process."""

    def __init__(self) -> None:
        self.host = TaskHost(os.environ)
        self._until = 0.0
        self.renew()
        threading.Thread(target=self._watch, daemon=True).start()

    def renew(self) -> None:
        """Note that the program of the batch is there."""
        self._until = time.monotonic() + LEASE_SECONDS

    def _watch(self) -> None:
        while time.monotonic() < self._until:
            time.sleep(LOOK_SECONDS)
        self.host.stop()
        self.host.stop()


def run_order(batch: str, order: dict[str, Any]) -> dict[str, Any]:
    """Run a task and return its result, both as plain data."""
    worker = distributed.get_worker()
    worker.log_event(topic(batch), {"started": order["id"], "host": worker.address})
    with _lock:
        leased = _hosts.get(batch) or _hosts.setdefault(batch, LeasedHost())
    leased.renew()
    if batch in _over:
        leased.host.stop()
    plain = to_json(leased.host.run(from_json(WorkOrder, order)))
    return {**plain, "host": f"{plain['host']} ({worker.address})"}


async def renew(batch: str) -> None:
    """Say that the program of the batch is there."""
    if (leased := _hosts.get(batch)) is not None:
        leased.renew()


async def stop(batch: str) -> None:
    """Interrupt the tasks of a batch; called again, kill them."""
    _over.add(batch)
    if (leased := _hosts.get(batch)) is not None:
        leased.host.stop()


def leave(batch: str) -> None:
    """Remove what a batch has left on this machine."""
    with _lock:
        leased = _hosts.pop(batch, None)
    if leased is not None:
        leased.host.stop()
        leased.host.close()


def agent_version() -> str:
    """Return the version of this program."""
    return __version__


def topic(batch: str) -> str:
    """Return the topic under which workers say what they have started."""
    return f"agent-batch-{batch}"
