"""Client for all providers without their own client: LiteLLM, in a worker process.

Importing LiteLLM takes seconds of CPU and 200 MB, and each of its chunks half a millisecond, so it runs in its own
process, started on first use and reused by later requests. Cancelling kills the worker, which wakes its reader at
once; the next request starts another. The worker gets the key over standard input, never through its arguments or
environment.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from agent_cli.kernel.results import Failure
from agent_cli.models.base import Chunk, ModelError, Notice, Request
from agent_cli.models.pieces import join_surrogates
from agent_tools.cancel import CancelToken
from agent_tools.lazy import lazy_imports
from agent_tools.net.http import Timeouts
from agent_tools.process.child import MAX_MEMORY_BYTES, limit_memory
from agent_tools.record import from_json, to_json
from agent_tools.secret_patterns import without_secrets

if TYPE_CHECKING:
    from subprocess import Popen

with lazy_imports():
    from agent_tools.process import reaper

WORKER = "agent_cli.models.litellm_worker"
START_SECONDS = 120.0
CHUNK_BYTES = 65536


class LiteLLMClient:
    """A `ModelClient` over LiteLLM. Thread-safe: each concurrent request has its own worker.

    model: as LiteLLM spells it, such as `gemini/gemini-3-pro`; a request's own model replaces the part after the first
        slash.
    api_key, base_url: empty leaves them to LiteLLM and the environment.
    """

    def __init__(
        self,
        model: str,
        api_key: str,
        base_url: str = "",
        *,
        headers: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        self._provider = model.partition("/")[0]
        self._api_key = api_key
        self._base_url = base_url
        self._headers = dict(headers or {})
        self._timeouts = timeouts or Timeouts()
        self._notified: set[str] = set()

    def stream(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        """Yield the chunks of one response. Raises ModelError or CancelledError."""
        return join_surrogates(self._stream(request, cancel))

    def _stream(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        cancel.check()
        worker = _acquire_worker()
        forget = cancel.on_cancel(worker.kill)
        whole = False
        try:
            worker.send(
                {
                    "model": f"{self._provider}/{request.model}",
                    "api_key": self._api_key,
                    "base_url": self._base_url,
                    "headers": self._headers,
                    "timeouts": {name: getattr(self._timeouts, name) for name in Timeouts._fields},
                    "request": to_json(request),
                }
            )
            for message in worker.messages(self._timeouts, request.stream, cancel):
                if (chunk := message.get("chunk")) is not None:
                    if self._is_new(value := from_json(Chunk, chunk)):
                        yield value
                    continue
                whole = True
                if (failure := message.get("failure")) is not None:
                    raise ModelError(from_json(Failure, failure), message.get("retry_after"))
                return
        finally:
            forget()
            # A worker that is still sending cannot be used again.
            if whole and not cancel.cancelled:
                with _lock:
                    _idle.append(worker)
            else:
                worker.kill()

    def _is_new(self, chunk: Chunk) -> bool:
        """Return False for a notice that was given before."""
        if not isinstance(chunk, Notice):
            return True
        new = chunk.text not in self._notified
        self._notified.add(chunk.text)
        return new


class LiteLLMWorker:
    """The child process, and its lines."""

    def __init__(self) -> None:
        import subprocess  # only users of this client pay for it

        self._ready = False
        self._buffer = b""
        self._errors: deque[str] = deque(maxlen=20)
        # Cloud credentials are in variables; do not let every process of this user read them.
        plain = without_secrets(os.environ)
        self._process: Popen[bytes] = reaper.REAPER.popen(
            # -P: a `litellm.py` in the user's directory must not be imported instead of the library.
            [sys.executable, "-P", "-m", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**plain, "PYTHONPATH": os.pathsep.join(_import_path())},
            # Its own group: Ctrl-C is for us to pass on, and killing the group leaves nothing behind.
        )
        limit_memory(self._process.pid, MAX_MEMORY_BYTES)
        threading.Thread(target=self._drain, daemon=True).start()
        self.send({"environment": {name: value for name, value in os.environ.items() if name not in plain}})

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """End the process and all it started."""
        if self.alive:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                self._process.kill()

    def send(self, order: dict[str, Any]) -> None:
        """Send one line: the environment first, then requests."""
        assert self._process.stdin is not None
        # Half a surrogate pair, which JSON can spell and HTTP cannot send, becomes "?".
        line = json.dumps(order, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except OSError:
            pass  # it died; reading reports that with the end of its stderr

    def messages(self, limits: Timeouts, streaming: bool, cancel: CancelToken) -> Iterator[dict[str, Any]]:
        """Yield its messages until the pipe ends. Raises ModelError if it dies or is silent, or CancelledError."""
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        until = monotonic() + limits.total if limits.total else float("inf")
        if not self._ready:
            until += START_SECONDS
        # The worker has its own time-outs; this only catches one that hangs in another way.
        idle = limits.idle + 5 if limits.idle and streaming else float("inf")
        while True:
            wait = START_SECONDS if not self._ready else min(idle, until - monotonic())
            if wait <= 0 or not select.select([pipe], [], [], None if wait == float("inf") else wait)[0]:
                self.kill()
                raise ModelError(_timeout_failure(self._ready, limits, monotonic() >= until))
            data = os.read(pipe, CHUNK_BYTES)
            cancel.check()
            if not data:
                raise ModelError(Failure("network", f"LiteLLM ended: {self._stderr_tail()}", retryable=self._ready))
            *lines, self._buffer = (self._buffer + data).split(b"\n")
            for line in lines:
                message: dict[str, Any] = json.loads(line)
                if "ready" in message:
                    self._ready = True
                    until = monotonic() + limits.total if limits.total else float("inf")
                else:
                    cancel.check()
                    yield message

    def _drain(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if text := line.decode("utf-8", "replace").strip():
                self._errors.append(text)

    def _stderr_tail(self) -> str:
        self._process.wait(5)
        return self._errors[-1][:300] if self._errors else f"exit code {self._process.returncode}"


# Shared by all clients: a sub-agent's model is often of another provider, and workers are large.
_idle: list[LiteLLMWorker] = []
_lock = threading.Lock()


def _acquire_worker() -> LiteLLMWorker:
    with _lock:
        while _idle:
            worker = _idle.pop()
            if worker.alive:
                return worker
    return LiteLLMWorker()


def start_idle_worker(after: float) -> None:
    """Start a worker ahead of the first request, after so many seconds: it imports LiteLLM while the user types.

    Returns at once; an error is left to the request.
    """

    def start() -> None:
        with _lock, suppress(OSError):
            if not any(worker.alive for worker in _idle):
                _idle.append(LiteLLMWorker())

    timer = threading.Timer(after, start)
    timer.daemon = True
    timer.start()


def close_workers() -> None:
    """End the idle workers. They also end with this process."""
    with _lock:
        while _idle:
            _idle.pop().kill()


def _import_path() -> list[str]:
    """Return this process's import path without the current directory."""
    here = os.getcwd()  # noqa: PTH109 - compared as text with sys.path
    ours = [
        str(Path(__file__).parents[2]),
        str(Path(sys.modules["agent_tools"].__file__ or "").parents[1]),
    ]
    path = [p for p in sys.path if Path(p).is_absolute() and p != here]
    return path + [p for p in ours if p not in path]


def _timeout_failure(ready: bool, limits: Timeouts, total: bool) -> Failure:
    if not ready:
        return Failure("network", f"LiteLLM did not start within {START_SECONDS:g} s")
    if total:
        return Failure("network", f"the answer took longer than {limits.total:g} s")
    return Failure("network", f"the provider sent nothing for {limits.idle:g} s", retryable=True)
