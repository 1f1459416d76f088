"""Any value in the place of any other in an answer: it is read as far as it can be, or refused with a sentence.

By default a sixth of the values is tried in each place, all with EXAMPLES=all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from agent_cli.models.base import ModelError
from tests.support.hypothesis_examples import cases
from tests.support.model_replies import Call, Protocol, Reply, events, whole
from tests.support.model_server import ModelServer
from tests.support.wires import WIRES, Wire, ask

STRICT = [wire for wire in WIRES if wire.strict]
ODD: tuple[Any, ...] = (
    None, [], {}, "x", "", 7, -1, 1.5, True, False, [None], [[]], [{}], {"x": None}, [1, "x", None], {"text": []},
    float("nan"), float("inf"), 10**400, "\ud800", [[[[[]]]]],
)  # fmt: skip
REPLY = Reply(
    text="fine", thinking="hm", signature="s", calls=(Call("Read", {"path": "a"}, "c1"), Call("Read", {}, "c2"))
)


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The way to each value inside a value, itself first."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in inner:
        yield from places(below, (*path, key))


def changed(value: Any, path: tuple[str | int, ...], odd: Any) -> Any:
    """The same value with another one at a place."""
    if not path:
        return odd
    copy = list(value) if isinstance(value, list) else dict(value)
    copy[path[0]] = changed(value[path[0]], path[1:], odd)  # type: ignore[call-overload]
    return copy


def streams(protocol: Protocol) -> Iterator[tuple[str, Reply]]:
    """Streams in which one value of one event is another."""
    lines = b"".join(events(REPLY, protocol, "m")).decode().splitlines(keepends=True)
    for n, line in enumerate(lines):
        text = line.removeprefix("data: ")
        if not text.startswith("{"):
            continue
        event = json.loads(text)
        for number, path in enumerate(places(event)):
            for odd in cases(ODD, ODD[number % 6 :: 6]):
                other = f"{'data: ' if text != line else ''}{json.dumps(changed(event, path, odd))}\n"
                raw = "".join([*lines[:n], other, *lines[n + 1 :]]).encode("utf-8", "surrogatepass")
                yield f"{n} {path} {str(odd)[:20]!r}", Reply(raw=raw, content_type="text/event-stream")


def answers(protocol: Protocol) -> Iterator[tuple[str, Reply]]:
    """Whole answers in which one value is another."""
    answer = json.loads(whole(REPLY, protocol, "m"))
    for number, path in enumerate(places(answer)):
        for odd in cases(ODD, ODD[number % 6 :: 6]):
            yield f"{path} {str(odd)[:20]!r}", Reply(raw=json.dumps(changed(answer, path, odd)).encode())


def problems(wire: Wire, cases: Iterator[tuple[str, Reply]], **changes: Any) -> list[str]:
    named, replies = zip(*cases, strict=True)
    found = []
    with ModelServer(list(replies)) as server:
        for name in named:
            try:
                ask(wire, server, **changes)
            except ModelError as error:
                if len(error.failure.message) < 5:
                    found.append(f"{name}: said nothing")
            except json.JSONDecodeError:
                continue  # of the arguments of a call, which the engine answers
            except Exception as error:
                found.append(f"{name}: {error!r}")
    return found


@pytest.mark.parametrize("wire", STRICT, ids=lambda wire: wire.name)
def test_in_a_stream(wire: Wire) -> None:
    found = problems(wire, streams(wire.protocol))
    assert not found, "\n".join(found[:40])


@pytest.mark.parametrize("wire", STRICT, ids=lambda wire: wire.name)
def test_in_a_whole_answer(wire: Wire) -> None:
    found = problems(wire, answers(wire.protocol), stream=False)
    assert not found, "\n".join(found[:40])
