"""A host program of the tests: it starts the real program and speaks the control protocol."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.support.fork_server import start
from tests.support.program import clean_env

Line = dict[str, Any]
Answer = Callable[[Line], Line]


class HostClient:
    """One session of the program with a host.

    answers: what the host answers to the program's requests, by subtype; a function of the request's fields. It may
    raise ValueError, which is answered as an error. lines: all lines that the program wrote so far.
    """

    def __init__(self, args: list[str], cwd: Path, answers: dict[str, Answer] | None = None, **env: str) -> None:
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        formats = ["--output-format", "stream-json", "--verbose", "--input-format", "stream-json"]
        self.process = start([*formats, *args], cwd, clean_env(cwd.parent / "home", **env), **pipes)
        self.answers = answers or {}
        self.lines: list[Line] = []
        self._number = 0

    def __enter__(self) -> HostClient:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(20)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()

    def write(self, line: Line) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(line).encode() + b"\n")
        self.process.stdin.flush()

    def read(self) -> Iterator[Line]:
        """Yield the lines that come, after the program's requests among them are answered."""
        assert self.process.stdout is not None
        for raw in self.process.stdout:
            line = json.loads(raw)
            self.lines.append(line)
            if line["type"] == "control_request":
                self._answer(line["request_id"], line["request"])
            yield line

    def _answer(self, request_id: str, fields: Line) -> None:
        response: Line = {"request_id": request_id}
        try:
            answer = self.answers[fields["subtype"]](fields)
        except ValueError as error:
            response |= {"subtype": "error", "error": str(error)}
        else:
            response |= {"subtype": "success", "response": answer}
        self.write({"type": "control_response", "response": response})

    def post(self, subtype: str, **fields: Any) -> str:
        """Send a control request; return its ID."""
        self._number += 1
        request_id = f"req-{self._number}"
        self.write({"type": "control_request", "request_id": request_id, "request": {"subtype": subtype, **fields}})
        return request_id

    def request(self, subtype: str, **fields: Any) -> Line:
        """Send a control request and return the whole response."""
        request_id = self.post(subtype, **fields)
        for line in self.read():
            if line["type"] == "control_response" and line["response"]["request_id"] == request_id:
                found: Line = line["response"]
                return found
        raise AssertionError(f"no answer to {subtype}; standard error: {self.errors()}")

    def ask(self, subtype: str, **fields: Any) -> Line:
        """Send a control request and return what it answers."""
        response = self.request(subtype, **fields)
        assert response["subtype"] == "success", response
        found: Line = response["response"]
        return found

    def send(self, text: str, **more: Any) -> None:
        self.write({"type": "user", "message": {"role": "user", "content": text}, **more})

    def result(self) -> Line:
        """Read to the end of the turn and return its result."""
        for line in self.read():
            if line["type"] == "result":
                return line
        raise AssertionError(f"no result; standard error: {self.errors()}")

    def say(self, text: str, **more: Any) -> Line:
        """Send a message and return the result of its turn."""
        self.send(text, **more)
        return self.result()

    def of_type(self, kind: str, subtype: str = "") -> list[Line]:
        """The lines of a type so far."""
        return [line for line in self.lines if line["type"] == kind and subtype in ("", line.get("subtype"))]

    def requests(self, subtype: str) -> list[Line]:
        """The fields of the requests that the program made so far."""
        return [r["request"] for r in self.of_type("control_request") if r["request"]["subtype"] == subtype]

    def close(self) -> int:
        """Close the program's input and return its exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        for _ in self.read():
            pass
        return self.process.wait(30)

    def errors(self) -> str:
        """What the program wrote to standard error, once it has ended."""
        assert self.process.stderr is not None
        return self.process.stderr.read().decode("utf-8", "replace")
