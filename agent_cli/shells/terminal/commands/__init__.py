"""Slash commands, by topic. Importing this package registers the commands of every file in it."""

from importlib import import_module
from pkgutil import iter_modules

from agent_cli.shells.terminal.slash import REGISTRY

__all__ = ["REGISTRY"]

for _file in iter_modules(__path__):
    import_module(f"{__name__}.{_file.name}")
