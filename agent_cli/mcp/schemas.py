"""Normalise the schema that a server gives for a tool's arguments, so that every provider takes it.

A provider that does not take one schema refuses the whole request, so a schema is never passed on as a server wrote it.
The result is an object schema without references, with keywords of JSON Schema draft 2020-12 only. What cannot be
expressed in it goes into descriptions.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from agent_tools.record import Value
from agent_tools.text import shorten

# Nesting, and number of schemas within a schema, beyond which the rest takes any value.
MAX_DEPTH, MAX_NODES = 16, 2_000
_MAX_NOTE_CHARS = 600
# What Anthropic takes as the name of a property.
_NAME = r"[A-Za-z0-9_.-]{1,64}"
_TYPES = {
    "object": "object", "dict": "object", "array": "array", "list": "array", "string": "string", "str": "string",
    "number": "number", "float": "number", "integer": "integer", "int": "integer", "boolean": "boolean",
    "bool": "boolean", "null": "null",
}  # fmt: skip
_TEXTS = ("title", "description", "format")
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_SIZES = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
# What is described in words.
_CONDITIONS = (
    "if", "then", "else", "not", "patternProperties", "propertyNames", "dependentRequired", "dependentSchemas",
    "dependencies", "contains",
)  # fmt: skip

_Json = dict[str, Any]


class ToolSchema(Value):
    """A normalised schema.

    schema: of type object, as every provider takes it.
    note: what the original also says, for the tool's description; "" for nothing.
    renamed: the names of the server for renamed properties, for `restore_names`.
    """

    schema: dict[str, Any]
    note: str
    renamed: dict[str, Any]


def normalize_schema(raw: Any) -> ToolSchema:
    """Return a schema of any form as one of type object that every provider takes.

    Raises RecursionError for data that is nested too deeply.
    """
    work = _Normalizer(raw)
    top, lost = work.folded(raw, 0)
    kind = top.get("type")
    types = kind if isinstance(kind, list) else [kind]
    if kind is not None and not any(_type_name(name) == "object" for name in types):
        lost["type"] = kind
        top = {name: value for name, value in top.items() if name in (*_TEXTS, "properties")}
    for name in ("enum", "const"):
        if name in top:
            lost[name] = top.pop(name)
    lost |= {name: top.pop(name) for name in _CONDITIONS if name in top}
    # Its own limit: the top itself is never left out.
    schema, renamed = _Normalizer(raw).node({**top, "type": "object"}, (), 0)
    return ToolSchema(schema, _note(lost), renamed)


def restore_names(arguments: Any, renamed: Mapping[str, Any]) -> Any:
    """Return the arguments of a call with the property names of the server. Applying it again changes nothing."""
    if not renamed:
        return arguments
    if isinstance(arguments, list):
        return [restore_names(value, renamed.get("items", {})) for value in arguments]
    if not isinstance(arguments, dict):
        return arguments
    names, inner, rest = renamed.get("names", {}), renamed.get("properties", {}), renamed.get("rest", {})
    return {names.get(key, key): restore_names(value, inner.get(key, rest)) for key, value in arguments.items()}


class _Normalizer:
    """One schema while it is normalised. Every method returns new data."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._nodes = 0

    def folded(self, raw: Any, depth: int) -> tuple[_Json, _Json]:
        """Return a schema with its alternatives merged into it, and an outline of each of them."""
        top, lost = self.merged(raw, ()), {}
        for name in ("anyOf", "oneOf"):
            given = _list(top.pop(name, None)) if depth <= MAX_DEPTH else []
            branches = [self.folded(branch, depth + 1)[0] for branch in given if isinstance(branch, dict)]
            if branches:
                lost[name] = [_outline(branch) for branch in branches]
                _add_branches(top, branches)
        return top, lost

    def merged(self, raw: Any, seen: tuple[str, ...], followed: list[str] | None = None) -> _Json:
        """Return a schema with its reference and its `allOf` merged into it.

        seen: references that lead here, which are not followed again.
        followed: receives those that are followed.
        """
        self._nodes += 1
        if not isinstance(raw, dict) or len(seen) > MAX_DEPTH or self._nodes > MAX_NODES:
            return {}
        own = {k: v for k, v in raw.items() if k not in ("$ref", "$dynamicRef", "$recursiveRef", "allOf")}
        reference = raw.get("$ref")
        parts: list[_Json] = []
        if isinstance(reference, str) and reference not in seen:
            if followed is not None:
                followed.append(reference)
            parts.append(self.merged(self._target(reference), (*seen, reference), followed))
        members = raw.get("allOf")
        if isinstance(members, list):
            # "" is no reference; it limits the nesting.
            parts += [self.merged(member, (*seen, ""), followed) for member in members]
        for part in parts:
            own = _both(own, part)
        return own

    def _target(self, reference: str) -> Any:
        """Return what a reference within the schema points to; None for any other."""
        if not reference.startswith("#"):
            return None
        found = self._root
        for part in filter(None, reference[1:].split("/")):
            part = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict):
                found = found.get(part)
            elif isinstance(found, list) and part.isdecimal() and len(part) < 6 and int(part) < len(found):
                found = found[int(part)]
            else:
                return None
        return found

    def node(self, raw: Any, seen: tuple[str, ...], depth: int) -> tuple[_Json, _Json]:
        """Return a schema, and the renamed properties in it. seen: references that lead here."""
        self._nodes += 1
        if not isinstance(raw, dict) or depth > MAX_DEPTH or self._nodes > MAX_NODES:
            return {}, {}
        followed: list[str] = []
        source = self.merged(raw, seen, followed)
        if (reference := raw.get("$ref")) in seen and reference:
            return _described({}, {"description": source.get("description") or f"like {reference}"}, {}), {}
        seen = (*seen, *followed)
        made, lost = _plain_keywords(source)
        renamed: _Json = {}
        branches = [b for name in ("anyOf", "oneOf") for b in _list(source.get(name)) if isinstance(b, dict)]
        if branches and depth:
            options = [self.node(branch, seen, depth + 1) for branch in branches]
            made["anyOf"] = [option for option, _ in options]
            for _, inner in options:
                renamed = _combined(renamed, inner)
        types = made.get("type", ())
        implied = "object" if "properties" in source else "array" if "items" in source else ""
        if not types and implied:
            types = made["type"] = implied
        if "object" in types:
            renamed = _combined(renamed, self._add_properties(made, source, seen, depth))
        if "array" in types:
            renamed = _combined(renamed, self._add_items(made, source, lost, seen, depth))
        return _described(made, source, lost), renamed

    def _add_properties(self, made: _Json, source: _Json, seen: tuple[str, ...], depth: int) -> _Json:
        """Add the properties of an object to a schema; return the renamed ones."""
        given = source.get("properties")
        properties: _Json = dict(given) if isinstance(given, dict) else {}
        required = [name for name in _list(source.get("required")) if isinstance(name, str)]
        # Draft 3 says so at the property.
        required += [name for name, raw in properties.items() if isinstance(raw, dict) and raw.get("required") is True]
        properties |= {name: {} for name in required if name not in properties}
        safe = _safe_names(properties)
        names = {short: name for name, short in safe.items() if short != name}
        inner: _Json = {}
        made["properties"] = {}
        for name, raw in properties.items():
            if raw is False:
                continue
            schema, below = self.node(raw, seen, depth + 1)
            if safe[name] in names:
                about = f"({shorten(json.dumps(name), 100)}) {schema.get('description', '')}"
                schema["description"] = about.rstrip()
            made["properties"][safe[name]] = schema
            if below:
                inner[safe[name]] = below
        wanted = [safe[name] for name in dict.fromkeys(required) if safe[name] in made["properties"]]
        if wanted:
            made["required"] = wanted
        more = source.get("additionalProperties")
        rest: _Json = {}
        if isinstance(more, bool):
            made["additionalProperties"] = more
        elif isinstance(more, dict):
            made["additionalProperties"], rest = self.node(more, seen, depth + 1)
        if rest:
            inner = {short: inner.get(short, {}) for short in made["properties"]}
        return {key: value for key, value in (("names", names), ("properties", inner), ("rest", rest)) if value}

    def _add_items(self, made: _Json, source: _Json, lost: _Json, seen: tuple[str, ...], depth: int) -> _Json:
        """Add the items of an array to a schema; return the renamed properties in them."""
        items = source.get("items")
        places = [entry for entry in (source.get("prefixItems"), items) if isinstance(entry, list)]
        if places:
            # One schema for each place: any of them at every place.
            forms = [form for form in places[0] if isinstance(form, dict)]
            lost["prefixItems"] = [_outline(self.merged(form, seen)) for form in forms]
            items = forms[0] if len(forms) == 1 else {"anyOf": forms} if forms else {}
        made["items"], inner = self.node(items, seen, depth + 1)
        return {"items": inner} if inner else {}


def _both(first: _Json, second: _Json) -> _Json:
    """Return two schemas that hold together as one; of contradicting keywords the first one's."""
    made = {**second, **first}
    one, two = first.get("properties"), second.get("properties")
    if isinstance(one, dict) and isinstance(two, dict):
        made["properties"] = {**two, **one}
    if isinstance(first.get("required"), list) and isinstance(second.get("required"), list):
        made["required"] = [*first["required"], *second["required"]]
    for name in ("anyOf", "oneOf"):
        if isinstance(first.get(name), list) and isinstance(second.get(name), list):
            made[name] = [*first[name], *second[name]]
    return made


def _add_branches(top: _Json, branches: list[_Json]) -> None:
    """Merge alternatives into a schema: all their properties, and what all of them require."""
    merged: dict[str, list[Any]] = {}
    for branch in branches:
        properties = branch.get("properties")
        named: _Json = properties if isinstance(properties, dict) else {}
        for name in dict.fromkeys([*named, *_required(branch)]):
            forms = merged.setdefault(name, [])
            if name in named and named[name] not in forms:
                forms.append(named[name])
    own = top.get("properties")
    found = {name: {"anyOf": forms} if len(forms) > 1 else forms[0] if forms else {} for name, forms in merged.items()}
    top["properties"] = {**found, **(own if isinstance(own, dict) else {})}
    common = (
        [name for name in _required(branches[0]) if all(name in _required(b) for b in branches)] if branches else []
    )
    top["required"] = [*_required(top), *common]
    for name in ("description", "title"):
        top.setdefault(name, next((branch[name] for branch in branches if isinstance(branch.get(name), str)), ""))
    if "type" not in top and (types := [branch["type"] for branch in branches if "type" in branch]):
        top["type"] = "object" if "object" in types or top["properties"] else types[0]


def _required(schema: _Json) -> list[str]:
    return [name for name in _list(schema.get("required")) if isinstance(name, str)]


def _plain_keywords(source: _Json) -> tuple[_Json, _Json]:
    """Return the keywords without schemas in them, each in a valid form; and what is described instead."""
    made: _Json = {}
    given = source.get("type")
    kinds = [_type_name(kind) for kind in (given if isinstance(given, list) else [given])]
    types = list(dict.fromkeys(kind for kind in kinds if kind))
    if types:
        made["type"] = types if len(types) > 1 else types[0]
    made |= {name: source[name] for name in _TEXTS if isinstance(source.get(name), str) and source[name]}
    for name in ("minimum", "maximum"):
        # Draft 4 has a flag beside the bound.
        exclusive = f"exclusive{name.capitalize()}"
        bound = exclusive if source.get(exclusive) is True else name
        if _is_number(source.get(name)):
            made[bound] = source[name]
    for name in _NUMBERS[2:]:
        if _is_number(source.get(name)) and (name != "multipleOf" or source[name] > 0):
            made[name] = source[name]
    for name in _SIZES:
        if _is_number(source.get(name)) and source[name] >= 0 and int(source[name]) == source[name]:
            made[name] = int(source[name])
    if isinstance(source.get("uniqueItems"), bool):
        made["uniqueItems"] = source["uniqueItems"]
    if "default" in source:
        made["default"] = _finite(source["default"])
    values = [source["const"]] if "const" in source else _list(source.get("enum"))
    distinct = {json.dumps(value, sort_keys=True): _finite(value) for value in values}
    if distinct:
        made["enum"] = list(distinct.values())
    lost = {name: source[name] for name in _CONDITIONS if name in source}
    pattern = source.get("pattern")
    if isinstance(pattern, str):
        if _is_pattern(pattern):
            made["pattern"] = pattern
        else:
            lost["pattern"] = pattern
    return made, lost


def _type_name(kind: Any) -> str:
    """Return the name of a type as JSON Schema spells it; "" for none."""
    return _TYPES.get(kind.lower(), "") if isinstance(kind, str) else ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_pattern(text: str) -> bool:
    try:
        # Classes of Unicode, which Python does not have, are valid elsewhere.
        re.compile(re.sub(r"\\[pP]\{[^}]*\}", "x", text))
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def _finite(value: Any) -> Any:
    """Return JSON data without numbers that JSON does not have."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list):
        return [_finite(entry) for entry in value]
    return {name: _finite(entry) for name, entry in value.items()} if isinstance(value, dict) else value


def _list(data: Any) -> list[Any]:
    return data if isinstance(data, list) else []


def _safe_names(properties: _Json) -> dict[str, str]:
    """Return a name that every provider takes for each property; no new name is a name of another one."""
    used = {name for name in properties if re.fullmatch(_NAME, name)}
    safe: dict[str, str] = {}
    for name in properties:
        short = name
        if name not in used:
            stem = re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:60] or "_"
            short, number = stem, 2
            while short in used or short in properties:
                short, number = f"{stem[: 64 - len(str(number)) - 1]}_{number}", number + 1
            used.add(short)
        safe[name] = short
    return safe


def _combined(first: _Json, second: _Json) -> _Json:
    """Return the renamed properties of two schemas for the same value."""
    made = dict(first)
    for key, value in second.items():
        known = made.get(key)
        made[key] = _combined(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return made


def _outline(schema: _Json) -> Any:
    """Return what tells an alternative from others: its required properties, fixed values and names."""
    properties = schema.get("properties")
    named: _Json = properties if isinstance(properties, dict) else {}
    fixed = {name: raw["const"] for name, raw in named.items() if isinstance(raw, dict) and "const" in raw}
    outline = {"properties": list(named), "required": _required(schema), "const": fixed}
    short = {key: value for key, value in outline.items() if value}
    return short or {
        key: value for key, value in schema.items() if key in ("type", "enum", "const", "title", *_CONDITIONS)
    }


def _described(made: _Json, source: _Json, lost: _Json) -> _Json:
    """Return the schema with what it lost in its description."""
    text = source.get("description")
    parts = [text if isinstance(text, str) else "", _note(lost)]
    if words := " ".join(filter(None, parts)):
        made["description"] = words
    return made


def _note(lost: _Json) -> str:
    """Describe keywords that are not part of the normalised schema; "" for none."""
    return f"(also: {shorten(json.dumps(lost, ensure_ascii=False), _MAX_NOTE_CHARS)})" if lost else ""
