"""What providers refuse in a tool's schema, as their documentation and their error messages say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator

from agent_cli.models.gemini import gemini_schema

_GEMINI_KEYWORDS = {
    "type", "description", "enum", "items", "prefixItems", "minItems", "maxItems", "minimum", "maximum", "anyOf",
    "properties", "additionalProperties", "required", "default", "pattern", "minLength", "maxLength", "nullable",
}  # fmt: skip


def refusals(schema: dict[str, Any]) -> list[str]:
    """Return the refusals of the three providers; none if each takes the schema."""
    return [*_anthropic(schema), *_openai(schema), *_gemini(gemini_schema(schema))]


def schemas_in(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema within one, and itself."""
    if not isinstance(schema, dict):
        return
    yield schema
    for inner in (*schema.get("properties", {}).values(), *schema.get("anyOf", ())):
        yield from schemas_in(inner)
    for name in ("items", "additionalProperties"):
        yield from schemas_in(schema.get(name))


def _anthropic(schema: dict[str, Any]) -> Iterator[str]:
    if schema.get("type") != "object":
        yield "input_schema.type: Input should be 'object'"
    if schema.keys() & {"oneOf", "anyOf", "allOf"}:
        yield "input_schema does not support oneOf, allOf, or anyOf at the top level"
    try:
        json.dumps(schema, allow_nan=False)
        Draft202012Validator.check_schema(schema)
    except Exception as error:
        yield f"JSON schema is invalid. It must match JSON Schema draft 2020-12: {error}"
    if "$ref" in json.dumps(schema.get("properties", {}).get("$ref", "")):
        yield "a reference"
    for inner in schemas_in(schema):
        yield from (
            f"Property keys should match pattern '^[a-zA-Z0-9_.-]{{1,64}}$': {name!r}"
            for name in inner.get("properties", {})
            if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name)
        )
        if "$ref" in inner:
            yield "an unresolved reference"


def _openai(schema: dict[str, Any]) -> Iterator[str]:
    if schema.keys() & {"oneOf", "anyOf", "allOf", "enum", "not"}:
        yield "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"
    for inner in schemas_in(schema):
        types = inner.get("type", [])
        if "array" in types and not isinstance(inner.get("items"), dict):
            yield "array schema missing items"
        if "object" in types and not isinstance(inner.get("properties"), dict):
            yield "object schema missing properties"


def _gemini(schema: dict[str, Any], depth: int = 0) -> Iterator[str]:
    if depth > 32:
        yield "A schema in GenerationConfig in the request exceeds the maximum allowed nesting depth."
    for inner in schemas_in(schema):
        if unknown := inner.keys() - _GEMINI_KEYWORDS:
            yield f"Unknown name {sorted(unknown)}"
        if "array" in inner.get("type", []) and "items" not in inner:
            yield "items: missing field"
        if missing := set(inner.get("required", [])) - inner.get("properties", {}).keys():
            yield f"required: property is not defined: {sorted(missing)}"
        if any(isinstance(value, bool) or not isinstance(value, str | int | float) for value in inner.get("enum", [])):
            yield "enum: only strings and numbers"
