"""Tools made from Python functions: arguments from the annotations, description from the docstring."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Generator
from typing import Any, TypeVar, get_type_hints, overload

from agent_tools.base import Effect, Tool, ToolContext, ToolResult
from agent_tools.record import Value
from agent_tools.text import one_line, shorten

F = Callable[..., Any]
R = TypeVar("R")
_MAX_SUMMARY_CHARS = 120


class FunctionTool(Tool[Value]):
    """A tool that calls a Python function.

    A parameter annotated `ToolContext` gets the context of the call and is hidden from the model. The function returns
    a `ToolResult`, a text, or anything that JSON can encode; a generator may yield `Progress` first.
    """

    def __init__(self, function: F, *, name: str = "", read_only: bool = False) -> None:
        self.function = function
        self.name = name or function.__name__
        self.description = inspect.cleandoc(function.__doc__ or "") or self.name
        self.read_only = read_only
        self._context, self.Args = _arguments(function)

    def effects(self, args: Value, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("state") if self.read_only else Effect("call", self.name),)

    def summary(self, args: Value, ctx: ToolContext) -> str:
        given = ", ".join(f"{name}={getattr(args, name)!r}" for name in args._fields if name in args.__dict__)
        return shorten(one_line(f"{self.name}({given})"), _MAX_SUMMARY_CHARS)

    def run(self, args: Value, ctx: ToolContext) -> ToolResult | Generator[Any, Any, ToolResult]:
        given = {name: getattr(args, name) for name in args._fields}
        found = self.function(**given, **({self._context: ctx} if self._context else {}))
        return _to_result((yield from found)) if inspect.isgenerator(found) else _to_result(found)


@overload
def tool(function: F, /) -> FunctionTool: ...


@overload
def tool(*, name: str = "", read_only: bool = False) -> Callable[[F], FunctionTool]: ...


def tool(
    function: F | None = None, /, *, name: str = "", read_only: bool = False
) -> FunctionTool | Callable[[F], FunctionTool]:
    """Make a tool from a function; a decorator with or without arguments.

    name: by default the name of the function.
    read_only: it changes nothing and runs without approval; otherwise each call needs approval, or a rule that allows
    the tool by name.
    Raises TypeError for a function whose parameters cannot be read from its annotations.
    """
    if function is not None:
        return FunctionTool(function)
    return lambda found: FunctionTool(found, name=name, read_only=read_only)


def _arguments(function: F) -> tuple[str, type[Value]]:
    """Return the name of the context parameter ("" for none) and an arguments class of the others. Raises TypeError."""
    label = getattr(function, "__qualname__", repr(function))
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{label}: a tool must be a plain function; call asyncio.run in it to await.")
    hints = get_type_hints(function, include_extras=True)
    context, annotations, defaults = "", {}, {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{label}: {parameter} cannot be an argument of a tool; name each argument.")
        if parameter.name not in hints:
            raise TypeError(f"{label}: {parameter.name} needs a type, such as {parameter.name}: str.")
        if hints[parameter.name] is ToolContext:
            context = parameter.name
            continue
        annotations[parameter.name] = hints[parameter.name]
        if parameter.default is not parameter.empty:
            defaults[parameter.name] = parameter.default
    namespace = {"__annotations__": annotations, "__module__": function.__module__, **defaults}
    return context, type(f"{function.__name__}_arguments", (Value,), namespace)


def _to_result(found: Any) -> ToolResult:
    if isinstance(found, ToolResult):
        return found
    return ToolResult(found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, default=str))
