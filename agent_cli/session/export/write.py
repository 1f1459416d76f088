"""Which kind of document is wanted, and where it goes."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from agent_cli.core.redact import Redactor
from agent_cli.session.export.told import Document, build_document
from agent_cli.session.lines import read_log
from agent_tools.private import write_whole

FORMATS = ("markdown", "html", "json")
_BY_ENDING = {".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html", ".json": "json"}
ENDINGS = {"markdown": ".md", "html": ".html", "json": ".json"}


def format_of(name: str) -> str:
    """The kind of document that a file's name asks for; empty where it does not say."""
    return _BY_ENDING.get(Path(name).suffix.lower(), "")


def document(log: Path, kind: str) -> str:
    """A session's log as a document, once more without secrets. Raises SessionNotFoundError, OSError."""
    return Redactor(os.environ)(_writer(kind)(build_document(read_log(log), log.stem)))


def _writer(kind: str) -> Callable[[Document], str]:
    # Each on its own: the parser of markdown is not needed for JSON.
    if kind == "html":
        from agent_cli.session.export.page import page

        return page
    if kind == "json":
        from agent_cli.session.export.data import data

        return data
    from agent_cli.session.export.markdown import markdown

    return markdown


def write_document(path: Path, text: str, *, replace: bool) -> None:
    """Write a document that only its owner can read, whole or not at all. Raises OSError; FileExistsError where there
    is a file and `replace` is not said."""
    if not replace:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        write_whole(path, text.encode("utf-8", "replace"))
    except OSError:
        if not replace:
            with suppress(OSError):
                path.unlink()
        raise
