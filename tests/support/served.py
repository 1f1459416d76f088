"""A real `agent serve` in a process of its own, and a client for its API."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.support.fork_server import start
from tests.support.program import clean_env
from tests.support.scripts import script

SECONDS = 40.0


class Answer:
    """An answer: its status, headers and body, as JSON where it is."""

    def __init__(self, status: int, headers: dict[str, str], raw: bytes) -> None:
        self.status, self.headers, self.raw = status, headers, raw

    @property
    def data(self) -> Any:
        return json.loads(self.raw)

    @property
    def code(self) -> str:
        """The code of an error."""
        return str(self.data["error"]["code"])


class Served:
    """A running server. work: the project. token: that of the owner."""

    def __init__(self, work: Path, *args: str, **env: str) -> None:
        self.work, self.env = work, clean_env(work.parent / "home", **env)
        self.args = args
        self.token = ""
        self.port = 0
        self.process: subprocess.Popen[bytes]
        self.start()

    def start(self) -> None:
        """Start it, again on the port it had."""
        port = ["--port", str(self.port)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
        self.process = start(["serve", *port, *self.args], self.work, self.env, **pipes)
        assert self.process.stdout is not None
        first = self.process.stdout.readline().decode()
        assert first.startswith("agent serve: http"), (first, self.process.stderr and self.process.stderr.read())
        self.port = int(first.rpartition(":")[2].strip().strip("/"))
        while line := self.process.stdout.readline().decode():
            if "#token=" in line:
                self.token = line.strip().partition("#token=")[2]
            if "#token=" in line or "tokens" in line:
                break

    def kill(self) -> None:
        """Kill the server as a crash would; its workers go on."""
        self.process.kill()
        self._ended()

    def stop(self) -> int:
        """End the server as Ctrl-C does; return its exit code."""
        self.process.send_signal(signal.SIGINT)
        return self._ended()

    def _ended(self) -> int:
        code = self.process.wait(SECONDS)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        return code

    @property
    def tasks(self) -> Path:
        return Path(self.env["AGENT_STATE_DIR"]) / "serve/tasks"

    def workers(self) -> list[int]:
        """The processes of the workers of this server's tasks."""
        return workers_of(self.tasks)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        raw: bytes | None = None,
        **headers: str,
    ) -> Answer:
        """Send one request. headers: with _ for -; token: None for the owner's, "" for none."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        secret = self.token if token is None else token
        if secret:
            given.setdefault("Authorization", f"Bearer {secret}")
        data = raw if raw is not None else json.dumps(body).encode() if body is not None else None
        if data is not None:
            given.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        try:
            connection.request(method, path, data, given)
            reply = connection.getresponse()
            return Answer(reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read())
        finally:
            connection.close()

    def get(self, path: str, **more: Any) -> Any:
        """Return the data of a request that must succeed."""
        answer = self.request("GET", path, **more)
        assert answer.status == 200, answer.raw
        return answer.data

    def post(self, path: str, body: Any, status: int = 200, **more: Any) -> Any:
        """Return the data of a request that must be answered so."""
        answer = self.request("POST", path, body, **more)
        assert answer.status == status, (answer.status, answer.raw)
        return answer.data

    def change(self, session: str, **changes: Any) -> Any:
        """Change something of a session."""
        answer = self.request("PATCH", f"/v1/sessions/{session}", changes)
        assert answer.status == 200, answer.raw
        return answer.data

    @property
    def project(self) -> str:
        return str(self.get("/v1/projects")["projects"][0]["id"])

    def begin(self, prompt: str, script: Path | str, **more: Any) -> str:
        """Start a task with a scripted model; return the session's ID."""
        body = {"prompt": prompt, "project": self.project, "model": f"scripted:{script}", **more}
        return str(self.post("/v1/sessions", body, 201)["id"])

    def until(self, session: str, ready: str | Callable[[dict[str, Any]], bool], seconds: float = SECONDS) -> Any:
        """Return a session once it is in a state, or as a function wants it."""
        fits = ready if callable(ready) else lambda found: found["state"] == ready
        end = time.monotonic() + seconds
        while True:
            found = self.get(f"/v1/sessions/{session}")
            if fits(found):
                return found
            assert time.monotonic() < end, found
            time.sleep(0.05)

    def decide(
        self, session: str, verdict: str, status: int = 200, *, at: int = 0, token: str | None = None, **more: Any
    ) -> Any:
        """Decide about what waits in a session: the item at a place."""
        item = self.get(f"/v1/sessions/{session}/pending")["items"][at]
        body = {"call_id": item["call_id"], "binding": item["binding"], "verdict": verdict, **more}
        return self.post(f"/v1/sessions/{session}/decisions", body, status, token=token)

    @contextmanager
    def stream(self, path: str, **headers: str) -> Iterator[EventStream]:
        """Follow server-sent events."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        given = {"Authorization": f"Bearer {self.token}", **{k.replace("_", "-"): v for k, v in headers.items()}}
        try:
            connection.request("GET", path, headers=given)
            reply = connection.getresponse()
            assert reply.status == 200, reply.read()
            yield EventStream(reply)
        finally:
            connection.close()


def workers_of(tasks: Path) -> list[int]:
    """The processes of workers: their errors go to the folders of their tasks."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (folder / "fd/2").readlink().is_relative_to(tasks):
                found.append(int(folder.name))
    return found


class EventStream:
    """The events of a stream, one after the other."""

    def __init__(self, reply: http.client.HTTPResponse) -> None:
        self._reply = reply

    def __iter__(self) -> Iterator[tuple[str, Any, Any]]:
        """Yield kind, number and data of each event."""
        kind, seq, data = "", None, ""  # type: str, Any, str
        for raw in self._reply:
            line = raw.decode().rstrip("\n")
            if not line and kind:
                yield kind, seq, json.loads(data)
                kind, seq, data = "", None, ""
            name, _, value = line.partition(": ")
            if name == "event":
                kind = value
            elif name == "id":
                seq = int(value) if value.isdecimal() else value
            elif name == "data":
                data += value

    def until(self, ready: Callable[[str, Any], bool]) -> list[tuple[str, int | None, Any]]:
        """Return the events up to the first that fits."""
        found = []
        for event in self:
            found.append(event)
            if ready(event[0], event[2]):
                return found
        raise AssertionError(f"the stream ended after {found[-3:]}")


@contextmanager
def served(work: Path, *args: str, **env: str) -> Iterator[Served]:
    """Run a server for a test, and stop it at its end."""
    server = Served(work, *args, **env)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.stop()
        for pid in server.workers():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def write_script(work: Path, *replies: dict[str, Any], name: str = "s.toml") -> Path:
    script(work.parent / name, list(replies))
    return work.parent / name


NOBODY = "00000000-0000-4000-a000-000000000000"


def path_of(template: str, session: str = NOBODY, project: str = "none", schedule: str = "none") -> str:
    """Return the path of a route for a session."""
    return template.format(id=session, session_id=session, project=project, message=NOBODY, schedule=schedule)
