"""Hooks: the user's commands, or functions of an embedding program, at named steps of a session.

`HookRegistry` is what a turn uses; it knows which hooks exist and loads the rest of this package when the first of them
runs.
"""

from agent_cli.hooks.matching import PythonHook
from agent_cli.hooks.registry import HookRegistry

__all__ = ["HookRegistry", "PythonHook"]
