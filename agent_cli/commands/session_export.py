"""`agent sessions export`: a session as markdown, as an HTML page or as JSON, to standard output or into a file."""

from __future__ import annotations

from pathlib import Path

from agent_cli.commands.output import echo
from agent_cli.commands.which import log_of
from agent_cli.headless.printing import print_notice
from agent_cli.place import UsageError
from agent_cli.session.export.write import FORMATS, document, format_of, write_document
from agent_cli.session.records import SessionNotFoundError


def export_session(text: str, kind: str, output: str, *, every: bool, force: bool) -> int:
    """Write the session that is meant; the exit code. kind: empty for what the file's name says. Raises UsageError."""
    if kind and kind not in FORMATS:
        raise UsageError(f"--format: {kind} is none of {', '.join(FORMATS)}.")
    log = log_of(text, every)
    try:
        made = document(log, kind or format_of(output) or "markdown")
    except SessionNotFoundError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"Cannot read session {log.stem}: {error.strerror or error}.") from None
    if output in ("", "-"):
        echo(made)
        return 0
    try:
        write_document(Path(output), made, replace=force)
    except FileExistsError:
        raise UsageError(f"{output} exists already; --force replaces it.") from None
    except OSError as error:
        raise UsageError(f"Cannot write {output}: {error.strerror or error}.") from None
    print_notice(f"Session {log.stem[:8]} is in {output}.")
    return 0
