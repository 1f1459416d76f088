"""Displays of a tool call for the user: plain data, rendered by the front end."""

from __future__ import annotations

from typing import ClassVar, Literal

from agent_tools.record import Value


class Diff(Value, tag="Diff"):
    """A change to one file. patch: a unified diff with three context lines and no file header."""

    path: str
    patch: str
    added: int = 0
    removed: int = 0
    created: bool = False
    deleted: bool = False


class Diffs(Value, tag="Diffs"):
    """Changes to several files."""

    files: tuple[Diff, ...]


class Listing(Value, tag="Listing"):
    """Names found: files, matches, directory entries. more: number of lines not listed."""

    title: str
    lines: tuple[str, ...] = ()
    more: int = 0


class FileView(Value, tag="FileView"):
    """Part of a file that was read. first: first line, from 1. lines: how many. total: lines of the file."""

    path: str
    first: int
    lines: int
    total: int


class CommandOutput(Value, tag="CommandOutput"):
    """A command that ran.

    exit_code: None if a signal or the time-out ended it.
    pipe: exit codes of the parts of the last pipe that it ran; () if unknown.
    """

    command: str
    output: str
    exit_code: int | None
    seconds: float
    note: str = ""
    pipe: tuple[int, ...] = ()


class TodoItem(Value, tag="TodoItem"):
    """One step of the plan."""

    ALIASES: ClassVar = {"content": ("step", "title", "description", "task", "text")}

    content: str
    status: Literal["pending", "in_progress", "completed", "cancelled"] = "pending"
    activeForm: str = ""  # noqa: N815 - the argument name that models know
    id: str = ""
    priority: Literal["", "high", "medium", "low"] = ""

    @property
    def label(self) -> str:
        """Return the content with ID and priority, for the model."""
        parts = [f"id {self.id}" if self.id else "", f"{self.priority} priority" if self.priority else ""]
        shown = ", ".join(filter(None, parts))
        return f"{self.content} ({shown})" if shown else self.content


class TodoView(Value, tag="TodoView"):
    """The whole current plan."""

    items: tuple[TodoItem, ...]


class Note(Value, tag="Note"):
    """A line of text for the user.

    ended: the background command whose end it reports, and its exit code; None if it was stopped.
    """

    text: str
    ended: tuple[str, int | None] | None = None


Display = Diff | Diffs | Listing | FileView | CommandOutput | TodoView | Note
