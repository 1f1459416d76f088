"""Hooks: commands of the user's, or functions of who embeds the engine, at named steps of a session.

`HookTable` is what a kit is given; it knows which hooks there are and loads the rest of this package when the first of
them runs.

What users add to the program: each kind in a room of its own.
"""

from agent_cli.hooks.registry import Function, HookTable

__all__ = ["Function", "HookTable"]
