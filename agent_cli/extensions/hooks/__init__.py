"""Hooks: commands of the user's, or functions of who embeds the engine, at named steps of a session.

`HookTable` is what a kit is given; it knows which hooks there are and loads the rest of this package when the first of
them runs.
"""

from agent_cli.extensions.hooks.table import Function, HookTable

__all__ = ["Function", "HookTable"]
