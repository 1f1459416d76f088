"""Slash commands, by topic. Importing a file registers its commands."""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules


@cache
def load_all() -> None:
    """Import every file."""
    for file in iter_modules(__path__):
        import_module(f"{__name__}.{file.name}")
