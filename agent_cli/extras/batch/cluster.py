"""Run tasks on a Dask cluster. If a worker is lost, the scheduler has its tasks run by another one.

A worker receives tasks as plain data, and runs them with the `TaskHost` of its machine. It cannot see whether the
program that sent a task is still running. So that program renews a lease; when the lease expires, the tasks are
interrupted, so that no task runs twice at the same time when the batch is resumed.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from contextlib import suppress
from typing import Any

import dask
import dask.utils
import distributed

from agent_cli import UsageError, __version__
from agent_cli.extras.batch.host import TaskHost, TaskResult, WorkOrder
from agent_cli.extras.batch.results import BatchProgress
from agent_tools.record import DecodeError, from_json, to_json
from agent_tools.text import one_line, shorten

LEASE_SECONDS = 120.0
POLL_SECONDS = 2.0

_lock = threading.Lock()
_hosts: dict[str, LeasedHost] = {}
_stopped_batches: set[str] = set()


class LeasedHost:
    """The host of one batch in this process."""

    def __init__(self, batch: str) -> None:
        self._batch, self.host = batch, TaskHost(os.environ)
        self._deadline = 0.0
        self._running, self._ended = 0, threading.Condition()
        self.renew()
        threading.Thread(target=self._watch, daemon=True).start()

    def run(self, order: WorkOrder) -> TaskResult:
        """Run a task."""
        with self._ended:
            self._running += 1
        try:
            return self.host.run(order)
        finally:
            with self._ended:
                self._running -= 1
                self._ended.notify_all()

    def renew(self) -> None:
        """Record that the program of the batch is still running."""
        self._deadline = time.monotonic() + LEASE_SECONDS

    def _watch(self) -> None:
        while time.monotonic() < self._deadline:
            time.sleep(POLL_SECONDS)
        self.host.stop()
        self.host.stop()
        with self._ended:
            self._ended.wait_for(lambda: not self._running)
        with _lock:
            mine = _hosts.get(self._batch) is self
            if mine:
                del _hosts[self._batch]
        if mine:
            self.host.close()


def run_order(batch: str, order: dict[str, Any]) -> dict[str, Any]:
    """Run a task and return its result, both as plain data."""
    worker = distributed.get_worker()
    worker.log_event(event_topic(batch), {"started": order["id"], "host": worker.address})
    with _lock:
        leased = _hosts.get(batch) or _hosts.setdefault(batch, LeasedHost(batch))
    leased.renew()
    if batch in _stopped_batches:
        leased.host.stop()
    plain = to_json(leased.run(from_json(WorkOrder, order)))
    return {**plain, "host": f"{plain['host']} ({worker.address})"}


async def renew_lease(batch: str) -> None:
    """Report that the program of the batch is still running."""
    if (leased := _hosts.get(batch)) is not None:
        leased.renew()


async def stop_batch(batch: str) -> None:
    """Interrupt the tasks of a batch; if called again, kill them."""
    _stopped_batches.add(batch)
    if (leased := _hosts.get(batch)) is not None:
        leased.host.stop()


def remove_batch(batch: str) -> None:
    """Remove the files of a batch from this machine."""
    with _lock:
        leased = _hosts.pop(batch, None)
    if leased is not None:
        leased.host.stop()
        leased.host.close()


def agent_version() -> str:
    """Return the version of this program."""
    return __version__


def event_topic(batch: str) -> str:
    """Return the event_topic under which workers report the tasks that they have started."""
    return f"agent-batch-{batch}"


# An upper limit; Dask's own setting may be lower.
_CONNECT_SECONDS = 10.0
_RENEW_SECONDS = LEASE_SECONDS / 8
_STOP_SECONDS = 15.0


class ClusterRunner:
    """A `BatchRunner` on a cluster."""

    def __init__(self, address: str, jobs: int | None, progress: BatchProgress) -> None:
        """Connect. Raises UsageError. jobs: None for as many as the cluster has threads."""
        self._jobs, self._progress = jobs, progress
        self._name = os.urandom(6).hex()
        self._events: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._futures: dict[str, Any] = {}
        self._orders = 0
        self._stops = self._stopped = 0
        self._renewed = time.monotonic()
        # It reports each lost connection on standard error, at length.
        logging.disable(logging.CRITICAL)
        configured = dask.utils.parse_timedelta(dask.config.get("distributed.comm.timeouts.connect"))
        try:
            self._client = distributed.Client(address, timeout=min(configured, _CONNECT_SECONDS), set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise UsageError(f"There is no Dask scheduler at {address}: {shorten(one_line(str(error)), 200)}") from None
        try:
            self._check_workers(address)
            self._client.subscribe_topic(event_topic(self._name), self._on_event)
        except BaseException:
            self._client.close()
            raise

    def _check_workers(self, address: str) -> None:
        """Raise UsageError if there are no workers, or if they have another version of the program."""
        try:
            self._client.wait_for_workers(1, timeout=_CONNECT_SECONDS)
        except TimeoutError:
            raise UsageError(f"The scheduler {address} has no workers: start some with `dask worker`.") from None
        versions = self._client.run(agent_version, on_error="return")
        for worker, version in versions.items():
            if isinstance(version, BaseException):
                why = shorten(one_line(str(version)), 200)
                raise UsageError(
                    f"The worker {worker} cannot run tasks; it needs agent {__version__}, with the package "
                    f"distributed beside it: {why}"
                )
            if version != __version__:
                raise UsageError(f"The worker {worker} has agent {version}, and this is {__version__}.")

    @property
    def running(self) -> int:
        return len(self._futures)

    def slots(self) -> int:
        try:
            threads = sum(self._client.nthreads().values())
        except Exception:  # noqa: BLE001 - a lost cluster must not end the batch; each task's line says so
            return 0
        return self._jobs or max(1, threads)

    def start(self, order: WorkOrder) -> None:
        self._orders += 1
        future = self._client.submit(
            run_order, self._name, to_json(order), pure=False, priority=-self._orders,
            key=f"{event_topic(self._name)}-{order.id}-{self._orders}",
        )  # fmt: skip
        self._futures[order.id] = future
        future.add_done_callback(lambda _: self._events.put(("ended", order.id)))

    def next(self, seconds: float) -> TaskResult | None:
        until = time.monotonic() + seconds
        while True:
            self._stay_connected()
            try:
                what, about = self._events.get(timeout=max(until - time.monotonic(), 0.01))
            except queue.Empty:
                return None
            if what == "started":
                self._progress.report_start(about["started"], about["host"])
            elif (future := self._futures.pop(about, None)) is not None:
                return self._result(about, future)

    def stop(self) -> None:
        # Nothing can be sent in a signal handler; `next` does.
        self._stops += 1

    def close(self) -> None:
        """Remove the batch's files from the cluster, and disconnect."""
        with suppress(Exception):
            if self._client.status == "running":
                self._client.run(remove_batch, self._name, on_error="ignore")
        with suppress(Exception):
            self._client.close(timeout=_STOP_SECONDS)

    def _on_event(self, event: tuple[float, Any]) -> None:
        if isinstance(event[1], dict) and "started" in event[1]:
            self._events.put(("started", event[1]))

    def _stay_connected(self) -> None:
        now = time.monotonic()
        if self._stopped < self._stops:
            self._stopped += 1
            self._broadcast(stop_batch)
            if self._stopped == 1:
                # Those that no worker has begun.
                started = self._started_keys()
                for future in list(self._futures.values()):
                    if future.status == "pending" and future.key not in started:
                        future.cancel()
        if now >= self._renewed + _RENEW_SECONDS:
            self._renewed = now
            self._broadcast(renew_lease)
        if self._client.status != "running" and not self._client.status.startswith("connect"):
            for name in self._futures:
                self._events.put(("ended", name))

    def _started_keys(self) -> set[str]:
        """Return the keys of tasks that workers have begun; of all tasks if the scheduler does not answer."""
        try:
            return {key for keys in self._client.processing().values() for key in keys}
        except Exception:  # noqa: BLE001 - a lost cluster must not end the batch; each task's line says so
            return {future.key for future in self._futures.values()}

    def _broadcast(self, function: Any) -> None:
        """Have all workers call a function of `remote`, an async one, as no result is waited for."""
        with suppress(Exception):  # one that is lost at this moment
            self._client.run(function, self._name, wait=False, on_error="ignore")

    def _result(self, name: str, future: Any) -> TaskResult:
        if future.status in ("cancelled", "lost", "pending"):
            why = "interrupted" if self._stops else "the scheduler was lost"
            return TaskResult(id=name, status="interrupted", error=why)
        try:
            result: TaskResult = from_json(TaskResult, future.result(timeout=_STOP_SECONDS))
            return result
        except distributed.KilledWorker as error:
            tried = f"{error.allowed_failures + 1} hosts were lost while they ran it"
            return TaskResult(id=name, status="error", error=tried)
        except DecodeError as error:
            return TaskResult(id=name, status="error", error=f"the host answered something else: {error}")
        except (distributed.CancelledError, TimeoutError, OSError):
            return TaskResult(id=name, status="interrupted", error="the scheduler was lost")
        except Exception as error:  # noqa: BLE001 - one host's failure costs its task; shown in the task's result
            return TaskResult(id=name, status="error", error=shorten(one_line(str(error) or repr(error)), 200))
