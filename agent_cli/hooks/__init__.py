"""Hooks: commands of the user's, or functions of who embeds the engine, at named steps of a session.

`HookRegistry` is what a turn is given; it knows which hooks there are and loads the rest of this package when the
first of them runs.
"""

from agent_cli.hooks.matching import PythonHook
from agent_cli.hooks.registry import HookRegistry

__all__ = ["HookRegistry", "PythonHook"]
