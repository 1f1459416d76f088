"""PDF documents: attached for models that accept them, else converted to the text of their pages.

`pdf_worker.py` parses them, with limits on time and memory.
"""

from __future__ import annotations

import json
import sys
from binascii import b2a_base64
from contextlib import suppress
from pathlib import Path

from agent_tools.base import ToolContext, ToolError, ToolResult
from agent_tools.cancel import CancelToken
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.results import Media, Note
from agent_tools.text import counted, fit, sanitize_output

with lazy_imports():
    from agent_tools.process import reaper

# Size limit of providers for a document.
MAX_BYTES = 20_000_000
MAX_PAGES = 100
DEFAULT_PAGES = 20
TIMEOUT_SECONDS = 20.0
_MAX_OUTPUT_BYTES = 2_000_000


class Pages(Value):
    """Pages of a document. texts: of the pages from `first`, counted from 1. timed_out: the time limit was reached."""

    total: int
    first: int
    texts: tuple[str, ...]
    timed_out: bool = False

    @property
    def empty(self) -> bool:
        """True if there is no text at all, as in scans."""
        return not any(text.strip() for text in self.texts)


def show_pdf(data: bytes, name: str, offset: int | None, limit: int | None, ctx: ToolContext) -> ToolResult:
    """Return the result of Read for a PDF: the document itself, or the text of up to `limit` pages from page `offset`.

    Raises ToolError, which says what to do if it cannot be read; CancelledError when the turn is interrupted.
    """
    whole = offset is None and limit is None
    if whole and "pdf" in ctx.input_modalities and len(data) <= MAX_BYTES:
        total = read_pages(data, name, ctx.cancel, most=0).total
        if total <= MAX_PAGES:
            message = f"{name}: PDF, {counted(total, 'page')}, {len(data):,} bytes"
            document = Media("application/pdf", b2a_base64(data, newline=False).decode("ascii"), name)
            return ToolResult(message, Note(f"PDF, {counted(total, 'page')}"), media=(document,))
    first, most = max(1, offset or 1), limit or DEFAULT_PAGES
    pages = read_pages(data, name, ctx.cancel, first, most)
    if not pages.texts:
        raise ToolError(
            f"{name}: page {first} was not read within {TIMEOUT_SECONDS:.0f} seconds. Try the command `pdftotext`."
        )
    text, count = join_pages(pages, ctx.result_limits.most("page"))
    last = first + count - 1
    if pages.empty:
        raise ToolError(
            f"{name} has {counted(pages.total, 'page')}, and pages {first}-{last} have no text: they are probably "
            "scanned. The command `pdftoppm -r 80 -png` makes images of pages, and `ocrmypdf` adds the text."
        )
    notes = [f"text of pages {first}-{last} of {pages.total}; pictures and layout are not shown"]
    if pages.timed_out:
        notes.append(f"stopped after {TIMEOUT_SECONDS:.0f} seconds")
    if last < pages.total:
        notes.append(f"continue with offset={last + 1}; offset and limit count pages in a PDF")
    return ToolResult(f"{text}\n[{'; '.join(notes)}]", Note(f"PDF, pages {first}-{last} of {pages.total}"))


def read_pages(
    data: bytes,
    name: str,
    cancel: CancelToken,
    first: int = 1,
    most: int = DEFAULT_PAGES,
    seconds: float = TIMEOUT_SECONDS,
) -> Pages:
    """Return the text of at most `most` pages, and their number; with `most` 0 only the number.

    Raises ToolError, which starts with `name`, if the document is encrypted, damaged, or has no page `first`;
    CancelledError when the turn is interrupted.
    """
    total: int | None = None
    texts: list[str] = []
    error = ""
    answer, timed_out = _ask_worker(data, first, most, seconds, cancel)
    for line in answer:
        value = json.loads(line)
        if isinstance(value, dict):
            error = value["error"]
        elif total is None:
            total = value
        else:
            texts.append("[the text of this page cannot be read]" if value is None else _clean(value))
    if error == "encrypted":
        raise ToolError(
            f"{name} is a PDF protected with a password. Ask the user for a copy without one, or for the password "
            "(then the command `qpdf --password=… --decrypt` makes such a copy)."
        )
    if total is None:
        why = f"it takes more than {seconds:.0f} seconds" if timed_out else error or "it takes too much memory"
        raise ToolError(f"{name} is a PDF that cannot be read ({why}). It may be damaged: try the command `pdftotext`.")
    if not total:
        raise ToolError(f"{name} is a PDF without pages.")
    if first > total:
        raise ToolError(f"{name} has only {counted(total, 'page')}; offset counts pages of a PDF.")
    return Pages(total, first, tuple(texts), timed_out)


def join_pages(pages: Pages, most: int) -> tuple[str, int]:
    """Join the pages, with a heading each, up to about `most` bytes; also return how many pages are included."""
    shown = [f"--- page {n} of {pages.total} ---\n{t}" for n, t in enumerate(pages.texts, pages.first)]
    count = fit(shown, most)
    return "\n".join(shown[:count]), count


def _ask_worker(data: bytes, first: int, most: int, seconds: float, cancel: CancelToken) -> tuple[list[bytes], bool]:
    """Return the complete lines that the worker writes in time, and whether it was stopped. Raises CancelledError."""
    import subprocess
    from importlib.util import find_spec
    from threading import Timer

    cancel.check()
    library = find_spec("pypdf")
    if library is None or library.origin is None:
        raise ToolError("PDFs cannot be read here: the package pypdf is not installed. Try the command `pdftotext`.")
    process = reaper.REAPER.popen(
        # -P: modules next to the worker must not shadow modules of the same name in the library.
        [sys.executable, "-P", str(Path(__file__).with_name("pdf_worker.py")), str(first), str(most)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={"PYTHONPATH": str(Path(library.origin).parents[1])},
    )
    assert process.stdin is not None and process.stdout is not None
    lines: list[bytes] = []
    timed_out: list[bool] = []

    def stop() -> None:
        timed_out.append(True)
        process.kill()

    timer = Timer(seconds, stop)
    timer.start()
    forget = cancel.on_cancel(process.kill)
    try:
        # The worker reads all input before it writes, so that neither side blocks the other.
        with suppress(BrokenPipeError), process.stdin:
            process.stdin.write(data)
        size = 0
        for line in process.stdout:
            size += len(line)
            if not line.endswith(b"\n") or size > _MAX_OUTPUT_BYTES:
                break
            lines.append(line)
    finally:
        timer.cancel()
        forget()
        process.kill()
        process.stdout.close()
        process.wait()
    cancel.check()
    return lines, bool(timed_out)


def _clean(text: str) -> str:
    """Remove unsendable and invisible characters and repeated blank lines from a page's text."""
    sendable = text.encode("utf-8", "replace").decode().replace("\r\n", "\n").replace("\r", "\n")
    lines = sanitize_output(sendable).split("\n")
    kept = [line.rstrip() for line in lines]
    return "\n".join(line for n, line in enumerate(kept) if line or (n and kept[n - 1])).strip("\n")
