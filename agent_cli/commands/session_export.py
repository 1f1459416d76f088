"""`agent sessions export`: a session as markdown, as an HTML page or as JSON, to standard output or into a file."""

from __future__ import annotations

from pathlib import Path

from agent_cli.commands.output import put
from agent_cli.commands.which import log_of
from agent_cli.headless.printing import say
from agent_cli.place import Mistake
from agent_cli.session.export.write import FORMATS, document, format_of, write_document
from agent_cli.session.records import NoSession


def export_session(text: str, kind: str, output: str, *, every: bool, force: bool) -> int:
    """Write the session that is meant; the exit code. kind: empty for what the file's name says. Raises Mistake."""
    if kind and kind not in FORMATS:
        raise Mistake(f"--format: {kind} is none of {', '.join(FORMATS)}.")
    log = log_of(text, every)
    try:
        made = document(log, kind or format_of(output) or "markdown")
    except NoSession as error:
        raise Mistake(str(error)) from None
    except OSError as error:
        raise Mistake(f"Cannot read session {log.stem}: {error.strerror or error}.") from None
    if output in ("", "-"):
        put(made)
        return 0
    try:
        write_document(Path(output), made, replace=force)
    except FileExistsError:
        raise Mistake(f"{output} exists already; --force replaces it.") from None
    except OSError as error:
        raise Mistake(f"Cannot write {output}: {error.strerror or error}.") from None
    say(f"Session {log.stem[:8]} is in {output}.")
    return 0
