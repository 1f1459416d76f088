"""Frozen records, and their conversion to and from JSON data.

A `Value` is declared like a dataclass. A dataclass costs about 1.5 ms to define (it compiles source), and
about ninety records are defined on the path to the first request; a `Value` costs microseconds. `to_json` and
`from_json` are the only way between values and JSON, for tool arguments, settings and the session log alike. They
accept exactly what the annotations declare; `schema.py` uses pydantic to repair input or to word errors for the model.
"""

from __future__ import annotations

import sys
import types
from functools import partial
from itertools import filterfalse, repeat
from operator import eq
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

if TYPE_CHECKING:
    from typing import Annotated as Annotated
    from typing import Protocol as Protocol
else:

    class Protocol:
        """A plain base instead of `typing.Protocol`: its classes take 50 µs each, and every start defines a dozen."""

    class Annotated:
        """A fast `typing.Annotated`, which takes 8 µs for each of the two hundred fields that every start evaluates."""

        __slots__ = ("__metadata__", "__origin__")

        def __class_getitem__(cls, given):
            made = object.__new__(cls)
            made.__origin__, *notes = given
            made.__metadata__ = tuple(notes)
            return made


T = TypeVar("T")
_resolved_hints: dict[type, dict[str, Any]] = {}
_classes_by_tag: dict[Any, dict[str, type]] = {}
_required: dict[type, frozenset[str]] = {}
# How many fields that are given in order are enough.
_enough: dict[type, int] = {}
_SCALARS = frozenset((str, int, float, bool, type(None)))


class DecodeError(ValueError):
    """JSON data does not have the expected shape. The message names the place."""


@dataclass_transform(frozen_default=True)
class Value:
    """A frozen record: fields are the annotations in order, equality is by type and field."""

    _fields: ClassVar[tuple[str, ...]] = ()
    _tag: ClassVar[str] = "Value"
    # Fields of stored data that were renamed.
    _former: ClassVar[dict[str, str]] = {}

    # Every start defines a hundred and seventy of these: this is kept short.
    def __init_subclass__(cls, *, tag: str = "", kw_only: bool = False) -> None:
        """tag: name of the record in stored data, which stays when the class is renamed; by default the class name.
        kw_only: for type checkers: a subclass may add fields without a default.
        """
        cls._tag = tag or cls.__name__
        own: dict[str, Any] | None
        own = cls.__annotations__ if sys.version_info >= (3, 14) else cls.__dict__.get("__annotations__")  # noqa: RUF063
        if own:
            # Do not convert other annotations to text, which is slow.
            names = [
                n
                for n, hint in own.items()
                if not (hint.startswith("ClassVar") if isinstance(hint, str) else get_origin(hint) is ClassVar)
            ]
            inherited = cls._fields
            cls._fields = (*inherited, *(n for n in names if n not in inherited)) if inherited else tuple(names)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        slots = self.__dict__
        fields = self._fields
        if len(args) > len(fields):
            raise TypeError(f"{type(self).__name__} takes at most {len(fields)} values")
        slots.update(zip(fields, args))  # noqa: B905 - there are tens of thousands in one answer
        for name, value in kwargs.items():
            if name not in fields or name in slots:
                raise TypeError(f"{type(self).__name__}: unexpected or repeated {name!r}")
            slots[name] = value
        if len(args) < _enough.get(type(self), len(fields)):
            required = _required.get(type(self))
            if required is None:
                required = required_fields(type(self))
            if not required <= slots.keys():
                missing = ", ".join(sorted(required - slots.keys()))
                raise TypeError(f"{type(self).__name__} needs {missing}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(map(eq, map(getattr, repeat(self), self._fields), map(getattr, repeat(other), self._fields)))

    def __hash__(self) -> int:
        return hash((type(self), *map(getattr, repeat(self), self._fields)))

    def __repr__(self) -> str:
        shown = ", ".join(f"{n}={v!r}" for n, v in self.__dict__.items())
        return f"{type(self).__name__}({shown})"

    def replace(self: T, **changes: Any) -> T:
        """Return a copy with some fields replaced, and without what a cached property has worked out."""
        cls: Any = type(self)
        copied: T = cls(**{**{n: v for n, v in self.__dict__.items() if n in cls._fields}, **changes})
        return copied


def required_fields(cls: type[Value]) -> frozenset[str]:
    """Return the fields without a default."""
    found = _required.get(cls)
    if found is None:
        found = _required[cls] = frozenset(filterfalse(partial(hasattr, cls), cls._fields))
        _enough[cls] = max([place + 1 for place, name in enumerate(cls._fields) if name in found], default=0)
    return found


def hints_of(cls: type) -> dict[str, Any]:
    """Return the resolved annotations of a value class by field name, with their `Annotated` wrappers."""
    if cls not in _resolved_hints:
        fields = cls._fields  # type: ignore[attr-defined]
        every = {n: hint for base in reversed(cls.__mro__) for n, hint in vars(base).get("__annotations__", {}).items()}
        if str in {type(every.get(n, "")) for n in fields}:
            every = get_type_hints(cls, include_extras=True)  # five times as slow
        _resolved_hints[cls] = {n: every[n] for n in fields}
    return _resolved_hints[cls]


def to_json(value: Any) -> Any:
    """Convert to JSON data: a `Value` becomes an object with `type` and the fields that were set."""
    if isinstance(value, Value):
        plain: dict[str, Any] = {"type": value._tag}
        for name, field in value.__dict__.items():
            plain[name] = field if type(field) in _SCALARS else to_json(field)
        return plain
    if isinstance(value, (list, tuple)):
        return [v if type(v) in _SCALARS else to_json(v) for v in value]
    if isinstance(value, dict):
        return {k: v if type(v) in _SCALARS else to_json(v) for k, v in value.items()}
    return value


def from_json(hint: Any, data: Any, location: str = "") -> Any:
    """Convert JSON data to a value of type `hint`. Raises DecodeError for unknown keys and any other mismatch."""
    origin = get_origin(hint)
    if hasattr(hint, "__metadata__"):
        return from_json(hint.__origin__, data, location)
    if hint is Any:
        return data
    if origin is Literal:
        if data in get_args(hint) and not isinstance(data, bool):
            return data
        if isinstance(data, str):
            raise DecodeError(f"{location.lstrip('.') or 'value'}: expected {describe_type(hint)}, got {data[:80]!r}")
    elif origin in (Union, types.UnionType):
        return _from_union(hint, data, location)
    elif origin in (list, tuple):
        if isinstance(data, (list, tuple)):
            each = get_args(hint)
            if origin is list or each[-1] is Ellipsis:
                each = each[:1] * len(data)
            if len(each) == len(data):
                items = [
                    from_json(inner, v, f"{location}[{i}]") for i, (inner, v) in enumerate(zip(each, data, strict=True))
                ]
                return items if origin is list else tuple(items)
    elif origin is dict or hint is dict:
        if isinstance(data, dict):
            inner = get_args(hint)[1] if get_args(hint) else Any
            return {k: from_json(inner, v, f"{location}.{k}") for k, v in data.items()}
    elif isinstance(hint, type) and issubclass(hint, Value):
        return _from_object(hint, data, location)
    elif hint is float:
        if isinstance(data, (int, float)) and not isinstance(data, bool) and data - data == 0:  # finite
            return float(data)
    elif hint is None or hint is type(None):
        if data is None:
            return None
    elif isinstance(hint, type) and type(data) is hint:
        return data
    raise DecodeError(f"{location.lstrip('.') or 'value'}: expected {describe_type(hint)}, got {type(data).__name__}")


def _from_object(cls: type, data: Any, location: str) -> Any:
    if not isinstance(data, dict):
        raise DecodeError(f"{location.lstrip('.') or cls.__name__}: expected an object, got {type(data).__name__}")
    hints = hints_of(cls)
    fields: dict[str, Any] = {}
    for name, item in data.items():
        key = name if name in hints else cls._former.get(name, name)  # type: ignore[attr-defined]
        if key in hints:
            fields[key] = from_json(hints[key], item, f"{location}.{key}")
        elif not (key == "type" and item == cls._tag):  # type: ignore[attr-defined]
            raise DecodeError(f"{location.lstrip('.') or cls.__name__}: unknown key {key!r}")
    missing = required_fields(cls) - fields.keys()
    if missing:
        raise DecodeError(f"{location.lstrip('.') or cls.__name__}: {', '.join(sorted(missing))} missing")
    return cls(**fields)


def _from_union(hint: Any, data: Any, location: str) -> Any:
    """Decode a tagged object as the class it names, anything else as the first member that accepts it."""
    members = get_args(hint)
    if isinstance(data, dict) and isinstance(data.get("type"), str):
        if hint not in _classes_by_tag:
            _classes_by_tag[hint] = {m._tag: m for m in members if isinstance(m, type) and issubclass(m, Value)}
        if (cls := _classes_by_tag[hint].get(data["type"])) is not None:
            return _from_object(cls, data, location)
    for member in members:
        try:
            return from_json(member, data, location)
        except DecodeError:
            continue
    raise DecodeError(f"{location.lstrip('.') or 'value'}: expected {describe_type(hint)}, got {type(data).__name__}")


def describe_type(hint: Any) -> str:
    """Describe a type in plain words: "text", "a whole number", "one of a, b"."""
    if hasattr(hint, "__metadata__"):
        return describe_type(hint.__origin__)
    words = {
        str: "text",
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        type(None): "nothing",
    }
    if hint in words:
        return words[hint]
    origin = get_origin(hint)
    if origin is Literal:
        choices = [str(a) for a in get_args(hint)]
        return "one of " + ", ".join(choices) if len(choices) > 1 else f'"{choices[0]}"'
    if origin in (Union, types.UnionType):
        return " or ".join(describe_type(a) for a in get_args(hint))
    if origin in (list, tuple):
        return f"a list of {', '.join(describe_type(inner) for inner in get_args(hint) if inner is not Ellipsis)}"
    if origin is dict or hint is dict or (isinstance(hint, type) and issubclass(hint, Value)):
        return "a table"
    return str(getattr(hint, "__name__", hint))
