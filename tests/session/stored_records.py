"""One line of a log for every kind of record, with every kind of value in it: what logs of users may hold.

`python -m tests.session.stored_records` adds lines for kinds that `stored.jsonl` does not have yet, and changes none.
"""

from __future__ import annotations

import json
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from agent_cli.kernel.events import UNLOGGED, Event, HookStarted
from agent_cli.kernel.session.records import Header, Mended, Partial
from agent_cli.shells.terminal.app.drafts import Draft
from agent_cli.undo import manifest as snapshots
from agent_tools.record import Value, hints_of, to_json

LINES = Path(__file__).with_name("stored.jsonl")
ROOTS: tuple[type[Value], ...] = (
    Header, Partial, Mended, Draft,
    snapshots.RecordedTurn, snapshots.Before, snapshots.After, snapshots.Undone,
    *(cls for cls in get_args(Event) if cls not in (*UNLOGGED, HookStarted)),
)  # fmt: skip


def variants(hint: Any, depth: int = 0) -> Iterator[Any]:
    """Values that together show every shape an annotation allows; one, deeper down."""
    if hasattr(hint, "__metadata__"):
        yield from variants(hint.__origin__, depth)
    elif hint is Any:
        yield {"any": [1, "x", None]}
    elif get_origin(hint) is Literal:
        yield from get_args(hint)
    elif get_origin(hint) in (Union, types.UnionType):
        for member in get_args(hint):
            yield from variants(member, depth)
    elif get_origin(hint) is tuple and ... not in get_args(hint):
        each = [list(variants(inner, depth)) for inner in get_args(hint)]
        for number in range(max(map(len, each))):
            yield tuple(found[number % len(found)] for found in each)
    elif get_origin(hint) in (list, tuple):
        inner = list(variants(get_args(hint)[0], depth))
        yield inner if get_origin(hint) is list else tuple(inner)
    elif get_origin(hint) is dict or hint is dict:
        yield {"key": next(variants(get_args(hint)[1] if get_args(hint) else Any, depth))}
    elif isinstance(hint, type) and issubclass(hint, Value):
        yield from examples(hint, depth)
    else:
        yield {str: "text", int: 3, float: 0.5, bool: True, type(None): None, None: None}[hint]


def examples(cls: type[Value], depth: int = 0) -> Iterator[Value]:
    """Records of a class: one with the first variant of every field, and one more for each further variant."""
    if depth > 4:
        return
    fields = {name: list(variants(hint, depth + 1)) for name, hint in hints_of(cls).items()}
    if any(not found for found in fields.values()):
        return
    base = {name: found[0] for name, found in fields.items()}
    yield cls(**base)
    if depth < 2:
        for name, found in fields.items():
            for other in found[1:]:
                yield cls(**base | {name: other})


def tags(data: Any) -> Iterator[str]:
    """The tags of all records in plain data."""
    if isinstance(data, dict):
        if isinstance(data.get("type"), str):
            yield data["type"]
        for item in data.values():
            yield from tags(item)
    elif isinstance(data, list):
        for item in data:
            yield from tags(item)


def main() -> None:
    known = set(LINES.read_text().splitlines()) if LINES.exists() else set()
    kinds = {tag for line in known for tag in tags(json.loads(line))}
    with LINES.open("a") as file:
        for cls in ROOTS:
            for made in examples(cls):
                line = json.dumps({"type": cls._tag, "data": json.loads(json.dumps(to_json(made)))})
                if line not in known and not set(tags(json.loads(line))) <= kinds:
                    known.add(line)
                    file.write(f"{line}\n")


if __name__ == "__main__":
    main()
