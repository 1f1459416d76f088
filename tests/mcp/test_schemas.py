"""The schema of a tool is normalised: every provider takes it, and what it said is kept."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent_cli.mcp.schemas import normalize_schema, restore_names
from tests.support.hypothesis_examples import examples
from tests.support.tool_schema_rules import refusals, schemas_in

KEYWORDS = (
    "type", "properties", "required", "items", "prefixItems", "anyOf", "oneOf", "allOf", "not", "if", "then", "else",
    "$ref", "$defs", "enum", "const", "additionalProperties", "patternProperties", "exclusiveMinimum", "minimum",
    "pattern", "default", "description", "minLength", "title", "format", "multipleOf", "definitions", "$schema",
)  # fmt: skip
REFERENCES = st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#/properties/a", "#/anyOf/0", "http://x/y", "#/a~1b", ""])
TYPES = st.sampled_from(["object", "array", "string", "integer", "null", "any", "STRING", "file"])
NAMES = st.sampled_from([*KEYWORDS, "a", "b", "a b", "$filter", "a_b", "", "x" * 80, "ü", "a/b"])


def values(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    tables = st.dictionaries(NAMES | st.sampled_from(KEYWORDS), inner, max_size=5)
    typed = st.builds(lambda kind, rest: {**rest, "type": kind}, TYPES, tables)
    references = st.builds(lambda to, rest: {**rest, "$ref": to}, REFERENCES, tables)
    return st.lists(inner, max_size=4) | tables | typed | references


SCALARS = (
    st.none() | st.booleans() | st.integers(-5, 99) | st.floats(width=16) | st.text(max_size=5) | TYPES | REFERENCES
)
ANYTHING = st.recursive(SCALARS, values, max_leaves=30)
A, B = {"properties": {"a": {"type": "string"}}}, {"properties": {"b": {"type": "integer"}}}


@given(ANYTHING)
@example(None)
@example({})
@example(True)
@example({"type": "string"})
@example({"type": ["object", "null"]})
@example({"$ref": "#"})
@example({"anyOf": [{"$ref": "#"}, {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}]})
@example({"type": "object", "properties": None, "required": None})
@example({"type": "object", "properties": {"l": {"type": "array"}, "t": {"type": ["array", "null"]}}})
@example({"properties": {"n": {"type": "integer", "minimum": 0, "exclusiveMinimum": True}}})
@example({"type": "object", "properties": {"a": {"pattern": "("}, "b": {"enum": [], "default": float("inf")}}})
@example({"type": "object", "enum": [1], "not": {}, "const": 1, "if": {}, "then": {"required": ["z"]}})
@settings(max_examples=examples(1500))
def test_every_provider_takes_whatever_schema_a_server_gives(raw: Any) -> None:
    found = normalize_schema(raw)
    assert refusals(found.schema) == []
    assert normalize_schema(raw) == found
    assert isinstance(found.note, str)


@given(ANYTHING, ANYTHING)
@settings(max_examples=examples(600))
def test_names_of_properties_are_restored_once_however_often_that_is_done(raw: Any, arguments: Any) -> None:
    renamed = normalize_schema(raw).renamed
    once = restore_names(arguments, renamed)
    assert json.dumps(restore_names(once, renamed)) == json.dumps(once)
    assert json.loads(json.dumps(renamed)) == renamed


@pytest.mark.parametrize(
    ("raw", "properties", "required"),
    [
        ({"anyOf": [{**A, "required": ["a"]}, {**B, "required": ["b"]}]}, "ab", []),
        ({"oneOf": [{**A, "required": ["a"]}, {**A, **B, "required": ["a", "b"]}]}, "ab", ["a"]),
        ({"type": "object", **A, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, "ab", []),
        ({"type": "object", **A, "required": ["a"], "anyOf": [B]}, "ab", ["a"]),
        ({"allOf": [{**A, "required": ["a"]}, {**B, "required": ["b"]}]}, "ab", ["a", "b"]),
        ({"$ref": "#/$defs/X", "$defs": {"X": {"type": "object", **A, "required": ["a"]}}}, "a", ["a"]),
        ({"anyOf": [{"$ref": "#/$defs/X"}], "$defs": {"X": {"anyOf": [A, {"allOf": [B]}]}}}, "ab", []),
        ({"type": "object", "properties": {"a": {"type": "string", "required": True}}}, "a", ["a"]),
        ({"type": ["null", "object"], **A}, "a", []),
        ({"type": "object", "required": ["a"]}, "a", ["a"]),
    ],
)
def test_branches_and_references_at_the_top_become_properties(raw: Any, properties: str, required: list[str]) -> None:
    schema = normalize_schema(raw).schema
    assert "".join(sorted(schema["properties"])) == properties
    assert schema.get("required", []) == required


def test_what_is_lost_is_said_in_the_description() -> None:
    either = {"type": "object", **A, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}
    assert '"oneOf": [{"required": ["a"]}, {"required": ["b"]}]' in normalize_schema(either).note
    condition = {"if": {"properties": {"a": {"const": "x"}}}, "then": {"required": ["b"]}}
    assert '"then": {"required": ["b"]}' in normalize_schema({"type": "object", "allOf": [condition]}).note
    nested = normalize_schema({"type": "object", "properties": {"o": {"type": "object", "not": {"required": ["q"]}}}})
    assert '"not": {"required": ["q"]}' in nested.schema["properties"]["o"]["description"]
    assert normalize_schema({"type": "string"}).note == '(also: {"type": "string"})'
    kinds = [{"properties": {"kind": {"const": kind}, name: {}}} for kind, name in (("file", "path"), ("web", "url"))]
    found = normalize_schema({"oneOf": kinds})
    assert '{"properties": ["kind", "path"], "const": {"kind": "file"}}' in found.note
    assert found.schema["properties"]["kind"] == {"anyOf": [{"enum": ["file"]}, {"enum": ["web"]}]}
    assert normalize_schema({"type": "object", **A}).note == ""


def test_a_schema_that_every_provider_takes_stays_as_it_is() -> None:
    schema = {
        "type": "object",
        "description": "A search.",
        "properties": {
            "query": {"type": "string", "description": "Words", "minLength": 1, "pattern": "^\\p{L}+$"},
            "limit": {"type": "integer", "default": 5, "minimum": 1, "exclusiveMaximum": 100},
            "tags": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}, "uniqueItems": True},
            "where": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
            "more": {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}},
        },
        "required": ["query"],
        "additionalProperties": False,
    }
    found = normalize_schema(schema)
    assert (found.schema, found.note, found.renamed) == (schema, "", {})


def test_odd_names_of_properties_are_mapped_and_mapped_back_at_every_level() -> None:
    row = {"type": "object", "properties": {"user id": {"type": "string"}, "user_id": {}, "$": {}}}
    raw = {
        "type": "object",
        "properties": {
            "$filter": {"type": "string", "description": "OData"},
            "rows": {"type": "array", "items": row},
            "one": {"anyOf": [{"type": "null"}, row]},
            "x" * 70: {},
        },
        "required": ["$filter"],
        "additionalProperties": row,
    }
    found = normalize_schema(raw)
    properties = found.schema["properties"]
    assert list(properties) == ["_filter", "rows", "one", "x" * 60]
    assert properties["_filter"]["description"] == '("$filter") OData'
    assert found.schema["required"] == ["_filter"]
    given = {"user_id_2": 1, "user_id": 2, "_": 3}
    sent = restore_names(
        {"_filter": "f", "rows": [given], "one": given, "free": given, "x" * 60: given, "user_id_2": 4}, found.renamed
    )
    own = {"user id": 1, "user_id": 2, "$": 3}
    assert sent == {
        "$filter": "f", "rows": [own], "one": own, "free": own, "x" * 70: given, "user_id_2": 4,
    }  # fmt: skip


def test_schemas_that_explode_are_bounded() -> None:
    started = time.process_time()
    doubled = {f"d{n}": {"properties": {c: {"$ref": f"#/$defs/d{n + 1}"} for c in "abcdef"}} for n in range(30)}
    found = normalize_schema({"$ref": "#/$defs/d0", "$defs": doubled})
    assert sum(1 for _ in schemas_in(found.schema)) < 4_000
    merged = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 6} for n in range(30)}
    assert refusals(normalize_schema({"$ref": "#/$defs/d0", "$defs": merged}).schema) == []
    branches: dict[str, Any] = {}
    for _ in range(30):
        branches = {"anyOf": [branches] * 6}
    assert refusals(normalize_schema(branches).schema) == []
    tree = {"properties": {"child": {"allOf": [{"$ref": "#/$defs/tree"}]}, "name": {"type": "string"}}}
    once = normalize_schema({"$ref": "#/$defs/tree", "$defs": {"tree": tree}}).schema
    assert sum(1 for _ in schemas_in(once)) < 10
    assert time.process_time() - started < 5
