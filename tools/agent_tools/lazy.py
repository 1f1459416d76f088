"""Imports at the top of a file that load a module only when it is used, and patterns that are compiled only then.

    with lazy_imports():
        from agent_cli.kernel.engine import hook_points

binds `hook_points` to a proxy for that module, which is imported when an attribute is first used. Only whole modules
can be imported in this way. It is for modules that are slow to import and not needed by most one-shot runs; a test
compares the imports of such a run with a list.

    _LINK = lazy_pattern(r"...")

is for a module that a start or a first command loads, and a pattern that few of them use.
"""

from __future__ import annotations

import _thread
import builtins
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, AnyStr

if TYPE_CHECKING:
    import re

_one_at_a_time = _thread.allocate_lock()


class LazyModule(ModuleType):
    """A proxy for a module that is imported when an attribute of it is first used."""

    def __getattr__(self, name: str) -> Any:
        # Not from `sys.modules`: another thread may be in the middle of importing it, and this waits for that.
        return getattr(import_module(self.__name__), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(import_module(self.__name__), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(import_module(self.__name__), name)


_METHODS = ("match", "fullmatch", "search", "sub", "split", "findall", "finditer", "pattern")


class LazyPattern:
    """Has the methods of a pattern, which is compiled when one is first used."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self._text: Any = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        import re

        pattern = re.compile(self._text, self._flags)
        # Found as quickly as those of the pattern from now on.
        vars(self).update((method, getattr(pattern, method)) for method in _METHODS)
        return getattr(pattern, name)


def lazy_pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern as `re.compile` does."""
    return LazyPattern(text, flags)  # type: ignore[return-value]


class _LazyPackage:
    """A package in which `from package import module` finds lazy modules."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> LazyModule:
        return LazyModule(f"{self._name}.{name}")


class lazy_imports:  # noqa: N801 - used as a statement
    """Make the imports of this block lazy, but no others in this or another thread."""

    def __enter__(self) -> None:
        _one_at_a_time.acquire()
        self._import = real = builtins.__import__
        here = sys._getframe(1).f_globals

        def imported(
            name: str,
            globals: Mapping[str, object] | None = None,  # noqa: A002 - the interpreter's own names
            locals: Mapping[str, object] | None = None,  # noqa: A002
            fromlist: Sequence[str] | None = (),
            level: int = 0,
        ) -> Any:
            if globals is not here:
                return real(name, globals, locals, fromlist or (), level)
            if level or not fromlist:
                raise ImportError("write lazy imports as: from package import module")
            return _LazyPackage(name)

        builtins.__import__ = imported

    def __exit__(self, *raised: object) -> None:
        builtins.__import__ = self._import
        _one_at_a_time.release()
