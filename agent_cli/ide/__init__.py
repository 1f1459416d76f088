"""Editors that run beside a session and serve the IDE protocol of Claude Code's extensions."""
