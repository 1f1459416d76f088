"""JSON Schema as the Gemini API takes it in function declarations: a subset, in which unknown words are refused."""

from __future__ import annotations

from typing import Any

# As the API's reference lists them.
_TAKEN = {
    "type", "description", "enum", "items", "prefixItems", "minItems", "maxItems", "minimum", "maximum", "anyOf",
    "properties", "additionalProperties", "required", "default", "pattern", "minLength", "maxLength", "nullable",
    "$ref", "$defs",
}  # fmt: skip
_LISTS = ("anyOf", "prefixItems")
_MAPS = ("properties", "$defs")
_TYPES = ((bool, "boolean"), (str, "string"), (int, "integer"), (float, "number"))


def gemini_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a tool's schema in that subset; what has no word there is left out or put into the description."""
    return {"type": "object", **_subset(schema)}


def _subset(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, dict):
        return {}  # `true`: anything goes
    schema = _merged(schema)
    if isinstance(reference := schema.get("$ref"), str):
        # Beside a reference nothing else may stand.
        kept: dict[str, Any] = {"$ref": reference.replace("#/definitions/", "#/$defs/")}
        schema = {name: value for name, value in schema.items() if name in ("$defs", "definitions")}
    else:
        kept = {}
    for name, value in schema.items():
        name = {"oneOf": "anyOf", "definitions": "$defs"}.get(name, name)
        if name in _MAPS and isinstance(value, dict):
            kept[name] = {key: _subset(inner) for key, inner in value.items() if inner is not False}
        elif name in _LISTS and isinstance(value, list):
            kept[name] = [*kept.get(name, ()), *(_subset(inner) for inner in value if inner is not False)]
        elif name == "items" or (name == "additionalProperties" and isinstance(value, dict)):
            kept[name] = _subset(value)
        elif name in _TAKEN:
            kept[name] = value
    return _valued(kept, schema)


def _merged(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with its `allOf` merged into it."""
    members = schema.get("allOf")
    if not isinstance(members, list):
        return schema
    merged: dict[str, Any] = {}
    for member in [*(m for m in members if isinstance(m, dict)), {k: v for k, v in schema.items() if k != "allOf"}]:
        for name, value in _merged(member).items():
            if name == "properties" and isinstance(value, dict):
                value = {**merged.get(name, {}), **value}
            elif name == "required" and isinstance(value, list):
                value = [*dict.fromkeys([*merged.get(name, ()), *value])]
            merged[name] = value
    return merged


def _valued(kept: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Return `kept` with its values, format and required properties in words that the API takes."""
    values = [schema["const"]] if "const" in schema else kept.pop("enum", None)
    if isinstance(values, list):
        kept.pop("enum", None)
        plain = [value for value in values if isinstance(value, (str, int, float)) and not isinstance(value, bool)]
        if plain:
            kept["enum"] = plain
        kind = next((word for form, word in _TYPES if values and isinstance(values[0], form)), None)
        if kind and "type" not in kept and "anyOf" not in kept:
            kept["type"] = kind
    if (form := schema.get("format")) and schema.get("type") == "string":
        said = kept.get("description")
        kept["description"] = f"{said} (format: {form})" if said else f"Format: {form}"
    if isinstance(required := kept.get("required"), list):
        named = [name for name in required if name in kept.get("properties", {})]
        if named:
            kept["required"] = named
        else:
            del kept["required"]
    return kept
