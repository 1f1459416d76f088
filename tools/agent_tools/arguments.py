"""From a model's JSON to a tool's arguments, and from an arguments class to its JSON schema.

The common case, arguments that fit, is read without any library. Anything else goes to pydantic, which repairs what
is unambiguous ("5" for 5) and words the mistake. Schemas come from pydantic too; those of the built-in tools are
generated once into schemas.json (`make schemas`) and held to their classes by a test, because importing
pydantic costs more than a whole one-shot run otherwise does.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

from agent_tools.values import Mismatch, Value, from_plain, hints_of

# Claude Code's argument names that are no Python names.
ALIASES = {"-i": "ignore_case", "-n": "line_numbers", "-A": "after", "-B": "before", "-C": "context"}
_generated: dict[str, Any] = {}


class ToolError(Exception):
    """The call failed for a reason the model can act on; the message is what it reads."""


def read_arguments(cls: type[Value], data: dict[str, Any]) -> Any:
    """An instance of `cls` from a decoded JSON object.

    Raises ToolError with a sentence per mistake, for the model to read.
    """
    named = {ALIASES.get(k, k): v for k, v in data.items()}
    try:
        return from_plain(cls, named)
    except Mismatch:
        return _repair(cls, named)


def _repair(cls: type[Value], data: dict[str, Any]) -> Any:
    from pydantic import ValidationError

    known = {k: v for k, v in data.items() if k in cls._fields}
    try:
        kind = _model(cls).model_validate(known)
        return from_plain(cls, kind.model_dump(exclude_unset=True, exclude_none=True))
    except ValidationError as error:
        mistakes = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        wanted = ", ".join(n if n in cls._required else f"{n}?" for n in cls._fields)
        raise ToolError(f"Invalid arguments. {mistakes}. The arguments are: {wanted or 'none'}.") from None


def _model(cls: type[Value]) -> Any:
    from pydantic import create_model

    fields: dict[str, Any] = {}
    for name, hint in hints_of(cls).items():
        fields[name] = (_model_hint(hint), getattr(cls, name) if hasattr(cls, name) else ...)
    return create_model(cls.__name__, **fields)


def _model_hint(hint: Any) -> Any:
    """The same type with every nested `Value` class turned into a pydantic model."""
    bare = hint.__origin__ if hasattr(hint, "__metadata__") else hint
    inner = [a for a in get_args(bare) if isinstance(a, type) and issubclass(a, Value)]
    if isinstance(bare, type) and issubclass(bare, Value):
        return _model(bare)
    return bare.__origin__[_model(inner[0]), ...] if inner and bare.__origin__ is tuple else bare


def build_schema(cls: type[Value]) -> dict[str, Any]:
    """The JSON schema of an arguments class (draft 2020-12 subset that providers take). Imports pydantic."""
    raw = _model(cls).model_json_schema()
    definitions = raw.pop("$defs", {})
    schema: dict[str, Any] = _plain_schema(raw, definitions)
    back = {v: k for k, v in ALIASES.items()}
    described = {}
    for name, hint in hints_of(cls).items():
        entry = schema.get("properties", {})[name]
        notes = [m for m in getattr(hint, "__metadata__", ()) if isinstance(m, str)]
        described[back.get(name, name)] = {**entry, "description": notes[0]} if notes else entry
    schema["properties"] = described
    schema["additionalProperties"] = False
    return schema


def _plain_schema(node: Any, definitions: dict[str, Any]) -> Any:
    """Without titles, references and null alternatives: fewer tokens, and every provider takes it."""
    if isinstance(node, list):
        return [_plain_schema(n, definitions) for n in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _plain_schema(definitions[node["$ref"].rsplit("/", 1)[1]], definitions)
    choices = [c for c in node.get("anyOf", ()) if c != {"type": "null"}]
    if len(choices) == 1:
        rest = {k: v for k, v in node.items() if k not in ("anyOf", "default")}
        return _plain_schema({**rest, **choices[0]}, definitions)
    dropped = {"title", "default"} if not isinstance(node.get("title"), dict) else set()
    return {
        k: (
            {n: _plain_schema(s, definitions) for n, s in v.items()}
            if k == "properties"
            else _plain_schema(v, definitions)
        )
        for k, v in node.items()
        if k not in dropped
    }


def schema_of(name: str, cls: type[Value]) -> dict[str, Any]:
    """The JSON schema of a tool's arguments: generated ahead for built-in tools, made now for others."""
    if not _generated:
        _generated.update(json.loads((Path(__file__).parent / "schemas.json").read_text("utf-8")))
    ready: dict[str, Any] | None = _generated.get(name)
    return ready or build_schema(cls)
