"""A tool made of a Python function: its name, its arguments from the annotations, its docstring for the model."""

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
_SHOWN = 120


class FunctionTool(Tool[Value]):
    """Calls a function with the arguments that the model gives.

    A parameter annotated `ToolContext` is given the context of the call and is no argument of the model's. What the
    function returns is a `ToolResult`, a text, or anything that JSON can spell; a generator may yield `Progress`
    before.
    """

    def __init__(self, function: F, *, name: str = "", read_only: bool = False) -> None:
        self.function = function
        self.name = name or function.__name__
        self.told = inspect.cleandoc(function.__doc__ or "") or self.name
        self.read_only = read_only
        self._context, self.Args = _arguments(function)

    def effects(self, args: Value, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("state") if self.read_only else Effect("call", self.name),)

    def summary(self, args: Value, ctx: ToolContext) -> str:
        given = ", ".join(f"{name}={getattr(args, name)!r}" for name in args._fields if name in args.__dict__)
        return shorten(one_line(f"{self.name}({given})"), _SHOWN)

    def run(self, args: Value, ctx: ToolContext) -> ToolResult | Generator[Any, Any, ToolResult]:
        given = {name: getattr(args, name) for name in args._fields}
        found = self.function(**given, **({self._context: ctx} if self._context else {}))
        return _stepwise(found) if inspect.isgenerator(found) else _result(found)


@overload
def tool(function: F, /) -> FunctionTool: ...


@overload
def tool(*, name: str = "", read_only: bool = False) -> Callable[[F], FunctionTool]: ...


def tool(
    function: F | None = None, /, *, name: str = "", read_only: bool = False
) -> FunctionTool | Callable[[F], FunctionTool]:
    """Make a tool of a function, as a decorator with or without arguments.

    name: by default the function's own. read_only: it changes nothing, so that nobody is asked before it runs; else
    each call needs approval, or a rule that allows the tool by its name. Raises TypeError for a function whose
    parameters cannot be read from its annotations.
    """
    if function is not None:
        return FunctionTool(function)
    return lambda found: FunctionTool(found, name=name, read_only=read_only)


def _arguments(function: F) -> tuple[str, type[Value]]:
    """The name of the parameter that takes the context ("" for none), and a class of the others. Raises TypeError."""
    label = getattr(function, "__qualname__", repr(function))
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{label}: a tool is a plain function; call asyncio.run in it where it needs to await.")
    hints = get_type_hints(function, include_extras=True)
    context, annotations, defaults = "", {}, {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{label}: {parameter} cannot be an argument of a tool; name each one.")
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


def _stepwise(steps: Generator[Any, Any, Any]) -> Generator[Any, Any, ToolResult]:
    return _result((yield from steps))


def _result(found: Any) -> ToolResult:
    if isinstance(found, ToolResult):
        return found
    return ToolResult(found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, default=str))
