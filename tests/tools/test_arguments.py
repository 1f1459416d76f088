"""The names of arguments: which are accepted for which, what is said of any other, and that both readers agree."""

from __future__ import annotations

import json
from typing import Annotated, Any, ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from agent_tools import schema
from agent_tools.base import Effect, Tool, ToolContext, ToolResult
from agent_tools.record import DecodeError, Value, from_json, hints_of
from agent_tools.registry import BUILTIN
from agent_tools.results import TodoItem
from agent_tools.schema import ToolError, canonical, read_arguments
from tests.support.tool_bench import TOOLS, Bench

EDIT = {"file_path": "a", "old_string": "b", "new_string": "c"}
ACCEPTED = [
    ("Read", {"path": "a"}, {"file_path": "a"}),
    ("Read", {"filePath": "a", "Limit": 3}, {"file_path": "a", "limit": 3}),
    ("Read", {"absolute_path": "/a", "offset": None}, {"file_path": "/a", "offset": None}),
    ("Read", {"file_path": "a", "path": "a"}, {"file_path": "a"}),
    ("Read", {"path": None, "file_path": "a", "pages": None}, {"file_path": "a"}),
    ("Write", {"filename": "a", "contents": "x"}, {"file_path": "a", "content": "x"}),
    ("Edit", {"path": "a", "old_str": "b", "new_str": "c"}, EDIT),
    ("Edit", {"filePath": "a", "oldString": "b", "newString": "c", "replaceAll": True}, {**EDIT, "replace_all": True}),
    ("MultiEdit", {"path": "a", "edits": [{"old_text": "b", "newText": "c"}]},
     {"file_path": "a", "edits": [{"old_string": "b", "new_string": "c"}]}),
    ("Bash", {"cmd": "ls", "is_background": True}, {"command": "ls", "run_in_background": True}),
    ("Bash", {"command": "ls", "background": True}, {"command": "ls", "run_in_background": True}),
    ("Bash", {"command": "ls", "timeout_ms": 5, "dangerously-disable-sandbox": False},
     {"command": "ls", "timeout": 5, "dangerouslyDisableSandbox": False}),
    ("Grep", {"query": "x", "include": "*.py", "-i": True, "A": 1}, None),
    ("Grep", {"query": "x", "include": "*.py", "-i": True, "after": 1},
     {"pattern": "x", "glob": "*.py", "-i": True, "-A": 1}),
    ("Glob", {"pattern": "*", "dir_path": "src"}, {"pattern": "*", "path": "src"}),
    ("LS", {"directory": "."}, {"path": "."}),
    ("KillShell", {"bash_id": "b1"}, {"shell_id": "b1"}),
    ("NotebookRead", {"file_path": "a.ipynb"}, {"notebook_path": "a.ipynb"}),
    ("TodoWrite", {"plan": [{"step": "Look", "status": "pending", "active_form": "Looking"}]},
     {"todos": [{"content": "Look", "status": "pending", "activeForm": "Looking"}]}),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "sent", "meant"), ACCEPTED)
def test_what_other_programs_call_an_argument_is_accepted(
    tool: str, sent: dict[str, Any], meant: dict[str, Any] | None
) -> None:
    if meant is None:
        with pytest.raises(ToolError, match="Unknown argument"):
            TOOLS[tool].read(sent)
        return
    assert TOOLS[tool].read(sent) == TOOLS[tool].read(meant)
    assert TOOLS[tool].canonical(sent) == {k: v for k, v in meant.items() if v is not None or k in sent}
    assert TOOLS[tool].canonical(meant) == meant


@pytest.mark.parametrize(
    ("tool", "sent", "message"),
    [
        ("Bash", {"command": "ls", "in_background": True}, "'in_background'; did you mean 'run_in_background'?"),
        ("Bash", {"comand": "ls"}, "'comand'; did you mean 'command'? command: Field required."),
        ("Bash", {"command": "ls", "workdir": "/"}, "Unknown argument 'workdir'. The arguments are: command, desc"),
        ("Read", {"file_pth": "a"}, "'file_pth'; did you mean 'file_path'?"),
        ("Read", {"file_path": "a", "path": "b"}, "'file_path' and 'path' are the same argument with different values"),
        ("Grep", {"pattern": "a", "-B": "x"}, "-B: Input should be a valid integer"),
        ("Grep", {"pattern": "a", "ignorecas": True}, "did you mean '-i'?"),
        ("TodoRead", {"todos": []}, "Unknown argument 'todos'. The arguments are: none."),
        ("TodoWrite", {"todos": [{"content": "a", "prio": "low"}]}, "'todos.0.prio'; did you mean 'priority'?"),
        ("MultiEdit", {"file_path": "a", "edits": [{"old_string": "a", "new_string": "b", "regex": True}]},
         "Unknown argument 'edits.0.regex'"),
        ("Edit", {**EDIT, **dict.fromkeys("abcdefg", 1)}, "There are 2 more mistakes."),
    ],
)  # fmt: skip
def test_any_other_name_is_a_mistake_that_names_the_nearest(
    bench: Bench, tool: str, sent: dict[str, Any], message: str
) -> None:
    text = bench.fails(tool, **sent)
    assert text.startswith("Invalid arguments. ")
    assert message in text


def test_no_two_arguments_of_a_tool_answer_to_one_name() -> None:
    def check(cls: type[Value]) -> None:
        names = schema.ArgumentNames(cls)
        every = [*names.schema_names, *(a for aliases in getattr(cls, "ALIASES", {}).values() for a in aliases)]
        folded = [n.replace("_", "").replace("-", "").lower() for n in every]
        assert len(set(folded)) == len(folded), cls
        assert set(getattr(cls, "ALIASES", {})) <= set(cls._fields)
        for inner in names.nested.values():
            check(inner)

    for tool in BUILTIN:
        check(tool.Args)
        properties = tool.schema()["properties"]
        assert tool.canonical(dict.fromkeys(properties, 1)).keys() == properties.keys()


def test_aliases_are_not_in_the_schemas() -> None:
    for tool in BUILTIN:
        names = schema.ArgumentNames(tool.Args).schema_names
        own = {shown for name, shown in names.items() if name not in getattr(tool.Args, "UNLISTED", ())}
        assert set(tool.schema()["properties"]) == own


class Inner(Value):
    """An object in a list."""

    ALIASES: ClassVar = {"name": ("title",)}

    name: str
    count: int = 0


class Outer(Value):
    """One field of every kind that tools have."""

    ALIASES: ClassVar = {"text": ("words",)}
    SCHEMA_NAMES: ClassVar = {"number": "-n"}

    text: str
    number: int | None = None
    flag: bool = False
    mode: Annotated[Literal["a", "b"], "One of two"] = "a"
    items: tuple[Inner, ...] = ()
    inner: Inner | None = None


INNER = st.fixed_dictionaries({"name": st.text(max_size=3)}, optional={"count": st.integers()})
OUTER = st.fixed_dictionaries(
    {"text": st.text(max_size=3)},
    optional={
        "number": st.none() | st.integers(),
        "flag": st.booleans(),
        "mode": st.sampled_from("ab"),
        "items": st.lists(INNER, max_size=3),
        "inner": st.none() | INNER,
    },
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(OUTER)
def test_what_fits_is_read_alike_with_and_without_pydantic(data: dict[str, Any]) -> None:
    quick = from_json(Outer, data)
    model: type[BaseModel] = schema._model(Outer)
    assert from_json(Outer, model.model_validate(data).model_dump(exclude_unset=True)) == quick
    sent = {{"text": "words", "number": "-n"}.get(k, k): v for k, v in data.items()}
    sent |= (
        {"items": [{"title": i["name"], **{k: v for k, v in i.items() if k != "name"}} for i in data["items"]]}
        if ("items" in data)
        else {}
    )
    assert read_arguments(Outer, sent) == quick
    assert from_json(Outer, {k if k != "-n" else "number": v for k, v in canonical(Outer, sent).items()}) == quick


@given(st.dictionaries(st.sampled_from([*hints_of(Outer), "words", "Text", "-n", "other"]), ANYTHING, max_size=5))
def test_whatever_comes_is_read_or_answered_in_words_and_never_in_part(data: dict[str, Any]) -> None:
    before = json.dumps(data)
    try:
        read = read_arguments(Outer, data)
    except ToolError as error:
        assert str(error).startswith("Invalid arguments. ")
    else:
        assert data.get("other") is None
        assert read_arguments(Outer, canonical(Outer, data)) == read
    assert json.dumps(data) == before
    try:
        quick = from_json(Outer, data)
    except DecodeError:
        return
    assert read_arguments(Outer, data) == quick


def test_numbers_where_a_text_is_wanted_are_taken_as_they_are_written(bench: Bench) -> None:
    args = bench.args("TodoWrite", {"todos": [{"content": "a", "id": 1}, {"content": "b", "id": "2"}]})
    assert args.todos == (TodoItem("a", id="1"), TodoItem("b", id="2"))
    assert "valid string" in bench.fails("Read", file_path=True)


def test_a_tool_with_a_schema_of_its_own_knows_no_other_names() -> None:
    class Foreign(Tool[Outer]):
        """A tool of a server."""

        name, Args = "Foreign", Outer

        def schema(self) -> dict[str, Any]:
            return {"type": "object"}

        def effects(self, args: Outer, ctx: ToolContext) -> tuple[Effect, ...]:
            return ()

        def summary(self, args: Outer, ctx: ToolContext) -> str:
            return "Foreign"

        def run(self, args: Outer, ctx: ToolContext) -> ToolResult:
            return ToolResult("")

    sent = {"words": "a", "Text": "b", "other": None}
    assert Foreign().canonical(sent) is sent
