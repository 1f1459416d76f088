"""Decode a model's JSON into tool arguments, and generate the JSON schema of an arguments class.

Valid arguments, the common case, are read without any library. Anything else goes to pydantic, which repairs what is
unambiguous ("5" for 5) and words the mistake. An arguments class may declare these tables:

    ALIASES: ClassVar = {"command": ("cmd",)}       names that other programs have for an argument; accepted
    UNLISTED: ClassVar = ("priority",)              arguments that are accepted and not in the schema
    SCHEMA_NAMES: ClassVar = {"ignore_case": "-i"}  the model's name for an argument, where that is no Python name
    IGNORED: ClassVar = ("isolation",)              names that other programs have, without effect here

Case, "_" and "-" make no difference between names (`filePath`). Any other name is a mistake.

Schemas come from pydantic too. Those of the built-in tools are generated once into tools.json (`make schemas`), and a
test compares them with their classes: importing pydantic costs more than a whole one-shot run otherwise does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from agent_tools.fs.safe_files import read_text
from agent_tools.record import DecodeError, Value, from_json, hints_of, required_fields
from agent_tools.results import ToolError

# Names that Claude Code, Codex, Gemini CLI, OpenCode, Qwen Code, Cursor and the models trained on them use for a file,
FILE_NAMES = ("path", "file", "filename", "absolute_path", "target_file")
# a directory, and the two texts of an edit.
DIRECTORY_NAMES = ("directory", "dir", "dir_path", "target_directory")
OLD_NAMES = ("old", "old_str", "old_text", "search")
NEW_NAMES = ("new", "new_str", "new_text", "replace")
_MAX_MISTAKES = 5
_names: dict[type, ArgumentNames] = {}


class Freeform(Value):
    """Input in plain text instead of JSON. argument: the one argument of the tool that has the text elsewhere.

    syntax and grammar: what the text must look like, as an API with such tools takes it; without, it may be anything.
    plain: a regular expression of texts that are plainly such input, also where the arguments should be JSON.
    """

    argument: str
    syntax: Literal["", "lark", "regex"] = ""
    grammar: str = ""
    plain: str = ""


class ArgumentNames:
    """Names of the arguments of a class.

    schema_names: field to its name in the schema.
    nested: field to the arguments class in it.
    listed: all names, for error messages; optional ones with "?".
    """

    def __init__(self, cls: type[Value]) -> None:
        self.schema_names: dict[str, str] = {field: field for field in cls._fields} | getattr(cls, "SCHEMA_NAMES", {})
        self.nested = {field: inner for field, hint in hints_of(cls).items() if (inner := _class_in(hint)) is not None}
        self._exact = {name: field for field, name in self.schema_names.items()} | {
            field: field for field in self.schema_names
        }
        self._loose = {_folded(field): field for field in self.schema_names}
        self._aliases = {
            _folded(alias): field for field, aliases in getattr(cls, "ALIASES", {}).items() for alias in aliases
        }
        self.ignored = {_folded(name) for name in getattr(cls, "IGNORED", ())}
        self.listed = (
            ", ".join(n if f in required_fields(cls) else f"{n}?" for f, n in self.schema_names.items()) or "none"
        )

    def field(self, name: str) -> str | None:
        """Return the field that a name stands for, or None if the name is unknown."""
        folded = _folded(name)
        return self._exact.get(name) or self._loose.get(folded) or self._aliases.get(folded)

    def nearest(self, name: str) -> str:
        """Return the schema name that an unknown name resembles, or ""."""
        from difflib import get_close_matches

        for known, cutoff in ((self._loose, 0.6), (self._aliases, 0.75)):
            if near := get_close_matches(_folded(name), known, n=1, cutoff=cutoff):
                return self.schema_names[known[near[0]]]
        return ""


def read_arguments(cls: type[Value], data: dict[str, Any]) -> Any:
    """Make an instance of `cls` from a decoded JSON object.

    Raises ToolError with a sentence per mistake, for the model to read.
    """
    try:
        return from_json(cls, data)
    except DecodeError:
        return _repair(cls, data)


def canonical(cls: type[Value], data: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments under the schema's names; unchanged if `read_arguments` will reject the names."""
    mistakes: list[str] = []
    named = _renamed(cls, data, mistakes, schema=True)
    return data if mistakes else named


def _repair(cls: type[Value], data: dict[str, Any]) -> Any:
    mistakes: list[str] = []
    named = _renamed(cls, data, mistakes, schema=False)
    if not mistakes:
        try:
            return from_json(cls, named)
        except DecodeError:
            pass
    from pydantic import ValidationError

    names = _names_of(cls)
    try:
        kind = _model(cls).model_validate(named)
        if not mistakes:
            return from_json(cls, kind.model_dump(exclude_unset=True, exclude_none=True))
    except ValidationError as error:
        for e in error.errors():
            first, *rest = e["loc"]
            mistakes.append(f"{'.'.join(map(str, (names.schema_names.get(str(first), first), *rest)))}: {e['msg']}.")
    if len(mistakes) > _MAX_MISTAKES:
        mistakes[_MAX_MISTAKES:] = [f"There are {len(mistakes) - _MAX_MISTAKES} more mistakes."]
    raise ToolError(f"Invalid arguments. {' '.join(mistakes)} The arguments are: {names.listed}.") from None


def _renamed(
    cls: type[Value], data: dict[str, Any], mistakes: list[str], *, schema: bool, location: str = ""
) -> dict[str, Any]:
    """Return the arguments by field, or by schema name; append a message for each unusable name to `mistakes`."""
    names = _names_of(cls)
    found: dict[str, Any] = {}
    given: dict[str, str] = {}
    for key, value in data.items():
        field = names.field(key)
        if field is None:
            # Null counts as not given.
            if value is not None and _folded(key) not in names.ignored:
                mistakes.append(_unknown(names, key, location))
            continue
        if (inner := names.nested.get(field)) is not None:
            value = _renamed_within(inner, value, mistakes, schema, f"{location}{key}.")
        name = names.schema_names[field] if schema else field
        if found.get(name) is None:
            found[name], given[name] = value, key
        elif value is not None and value != found[name]:
            mistakes.append(f"{given[name]!r} and {key[:60]!r} are the same argument with different values: give one.")
    return found


def _renamed_within(cls: type[Value], value: Any, mistakes: list[str], schema: bool, location: str) -> Any:
    if isinstance(value, dict):
        return _renamed(cls, value, mistakes, schema=schema, location=location)
    if isinstance(value, list):
        return [_renamed_within(cls, v, mistakes, schema, f"{location}{n}.") for n, v in enumerate(value)]
    return value


def _unknown(names: ArgumentNames, key: str, location: str) -> str:
    near = names.nearest(key)
    return f"Unknown argument {location + key[:60]!r}{f'; did you mean {near!r}?' if near else '.'}"


def _names_of(cls: type[Value]) -> ArgumentNames:
    if cls not in _names:
        _names[cls] = ArgumentNames(cls)
    return _names[cls]


def _folded(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _class_in(hint: Any) -> type[Value] | None:
    """Return the arguments class that a field's type is or contains, or None."""
    bare = hint.__origin__ if hasattr(hint, "__metadata__") else hint
    inner = [a for a in (bare, *get_args(bare)) if isinstance(a, type) and issubclass(a, Value)]
    return inner[0] if inner else None


def _model(cls: type[Value]) -> Any:
    from pydantic import create_model

    fields: dict[str, Any] = {}
    for name, hint in hints_of(cls).items():
        fields[name] = (_model_hint(hint), getattr(cls, name) if hasattr(cls, name) else ...)
    return create_model(cls.__name__, __config__={"coerce_numbers_to_str": True}, **fields)


def _model_hint(hint: Any) -> Any:
    """Return the type with every nested `Value` class replaced by a pydantic model."""
    bare = hint.__origin__ if hasattr(hint, "__metadata__") else hint
    inner = _class_in(hint)
    if inner is None:
        return bare
    if inner is bare:
        return _model(inner)
    origin = get_origin(bare)
    if origin in (tuple, list):
        return tuple[_model(inner), ...] if origin is tuple else list[_model(inner)]  # type: ignore[misc]
    return _model(inner) | None


def build_schema(cls: type[Value]) -> dict[str, Any]:
    """Generate the JSON schema of an arguments class (draft 2020-12 subset that providers accept). Imports pydantic."""
    raw = _model(cls).model_json_schema()
    definitions = raw.pop("$defs", {})
    for name, unlisted in _unlisted_in_lists(cls):
        for field in unlisted:
            definitions.get(name, {}).get("properties", {}).pop(field, None)
    schema: dict[str, Any] = _plain_schema(raw, definitions)
    back = _names_of(cls).schema_names
    described = {}
    for name, hint in hints_of(cls).items():
        if name in getattr(cls, "UNLISTED", ()):
            continue
        entry = schema.get("properties", {})[name]
        notes = [m for m in getattr(hint, "__metadata__", ()) if isinstance(m, str)]
        described[back[name]] = {**entry, "description": notes[0]} if notes else entry
    schema["properties"] = described
    schema["additionalProperties"] = False
    return schema


def _unlisted_in_lists(cls: type[Value]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the classes of list items, by name, that have arguments which are not in the schema, with these."""
    for hint in hints_of(cls).values():
        for inner in (part for outer in (hint, *get_args(hint)) for part in (outer, *get_args(outer))):
            if isinstance(inner, type) and hasattr(inner, "UNLISTED"):
                yield inner.__name__, inner.UNLISTED


def _plain_schema(node: Any, definitions: dict[str, Any]) -> Any:
    """Drop titles, references and null alternatives: fewer tokens, and every provider accepts the rest."""
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


@cache
def generated_tools() -> dict[str, dict[str, Any]]:
    """Return what is generated of the built-in tools, by name (`make schemas`)."""
    found: dict[str, dict[str, Any]] = json.loads(read_text(Path(__file__).parent / "tools.json", 4 << 20))
    return found


def schema_of(name: str, cls: type[Value]) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments: pregenerated for built-in tools, generated now for others."""
    generated = generated_tools().get(name)
    return generated["schema"] if generated else build_schema(cls)
