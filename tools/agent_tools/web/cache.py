"""Convert web documents to text, and cache recent pages.

The encoding is determined as in browsers: byte order mark, header, declaration in the page, else a guess.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import sys
from pathlib import Path
from time import monotonic

from agent_tools.base import ToolState
from agent_tools.cancel import CancelToken
from agent_tools.fs.encoding import BYTE_ORDER_MARKS, decode_text, describe_binary
from agent_tools.lazy import lazy_imports
from agent_tools.net.web_client import WebResponse
from agent_tools.record import Value
from agent_tools.results import ToolError
from agent_tools.text import ESCAPES, UNSAFE, shorten

with lazy_imports():
    from agent_tools.documents import pdf
    from agent_tools.process import reaper

# Names that the WHATWG Encoding Standard maps to a larger encoding.
_CHARSET_ALIASES = {
    "ascii": "cp1252", "us-ascii": "cp1252", "iso-8859-1": "cp1252", "latin1": "cp1252", "latin-1": "cp1252",
    "iso-8859-9": "cp1254", "iso-8859-11": "cp874", "tis-620": "cp874", "gb2312": "gb18030", "gbk": "gb18030",
    "shift_jis": "cp932", "shift-jis": "cp932", "sjis": "cp932", "x-sjis": "cp932", "euc-kr": "cp949",
    "ks_c_5601-1987": "cp949", "big5": "big5hkscs", "macintosh": "mac_roman", "utf-16": "utf-16-le",
}  # fmt: skip
# The encodings of the standard. Python has more codecs, some of which an untrusted page must not choose.
_CHARSETS = (
    r"utf-?8|utf-16[bl]e|(?:windows-|cp)(?:125[0-8]|874)|iso-8859-\d{1,2}|koi8-[ru]|ibm866|gb18030|big5-hkscs|euc-jp"
    r"|iso-2022-jp"
)
_META = rb"""<meta[^>]{0,300}?charset\s*=\s*["']?\s*([\w:.-]{1,40})"""
_XML = rb"""^<\?xml[^>]{0,100}?encoding\s*=\s*["']([\w:.-]{1,40})"""
_SNIFF_BYTES = 1024


def decode_page(data: bytes, declared: str, *, is_markup: bool) -> str:
    """Decode a page. declared: charset of the Content-Type header, or "". is_markup: HTML or XML."""
    for mark, encoding in BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    own = re.search(_META, data[:_SNIFF_BYTES], re.IGNORECASE) or re.search(_XML, data[:_SNIFF_BYTES])
    text = own[1].decode("ascii") if own is not None and is_markup else ""
    # A page whose declaration can be read as ASCII is not in UTF-16, whatever it declares.
    names = (_codec(declared), "utf-8" if text.lower().startswith("utf-16") else _codec(text))
    for name in filter(None, names):
        try:
            return data.decode(name)
        except UnicodeDecodeError:
            continue
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        # A truncated or damaged character among valid ones; if there are none, an undeclared encoding.
        kept = data.decode("utf-8", "ignore").encode()
        good = len(kept) - sum(byte < 128 for byte in kept)
        fallback = "utf-8" if good > len(data) - len(kept) else "cp1252"
        # A wrong "utf-8" is the most common mistake; other names are trusted.
        return data.decode(next((n for n in names if n not in ("", "utf-8")), fallback), "replace")


def _codec(name: str) -> str:
    """Return the Python codec for a charset name; "" for one that web pages do not use."""
    lowered = name.strip("\"' ").lower()
    codec = _CHARSET_ALIASES.get(lowered) or (
        lowered.replace("windows-", "cp") if re.fullmatch(_CHARSETS, lowered) else ""
    )
    try:
        return codecs.lookup(codec).name if codec else ""
    except LookupError:
        return ""


MAX_AGE_SECONDS = 15 * 60.0
MAX_PAGES = 20
MAX_TEXT_CHARS = 20_000_000
MAX_PDF_PAGES = 100
# A little more than the worker's own limit, so that its exit code shows what went wrong.
WORKER_SECONDS = 25.0
_HTML = ("text/html", "application/xhtml+xml")
_TEXT = r"text/.*|.*[+/](?:x-)?(?:xml|yaml|toml|javascript|ecmascript|sh|ndjson|jsonl|sql|graphql|www-form-urlencoded)"
_GENERIC_TYPES = ("", "application/octet-stream", "binary/octet-stream", "application/unknown")
_LOOKS_HTML = rb"\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b"


class Page(Value):
    """A document as text. url: after redirects. at: time of reading. note: what is missing."""

    url: str
    status: int
    title: str
    text: str
    note: str
    at: float


def read_page(response: WebResponse, cancel: CancelToken) -> Page:
    """Convert a response to text. Raises ToolError for a document that cannot be read, or CancelledError."""
    declared_type, _, rest = response.headers.get("content-type", "").partition(";")
    kind = _kind(declared_type.strip().lower(), response.body)
    title, note = "", response.cut
    if kind == "application/pdf":
        text, note = _pdf(response, cancel)
    elif kind in _HTML:
        title, text = _html(decode_page(response.body, _charset(rest), is_markup=True), response.url.text, cancel)
        text = text or "(The page has no text without its scripts.)"
    elif re.fullmatch(r".*[+/]json", kind):
        text = _json(decode_page(response.body, _charset(rest), is_markup=False))
    elif re.fullmatch(_TEXT, kind):
        text = decode_page(response.body, _charset(rest), is_markup="xml" in kind)
    else:
        what = describe_binary(response.body) if kind in _GENERIC_TYPES else f"a file of the type {shorten(kind, 60)}"
        text = f"({what[0].upper()}{what[1:]}, {len(response.body):,} bytes: no text to show.)"
    return Page(response.url.text, response.status, _clean(title), _clean(text), note, monotonic())


def _charset(parameters: str) -> str:
    found = re.search(r"charset\s*=\s*([^;]+)", parameters, re.IGNORECASE)
    return found[1] if found else ""


def _kind(declared_type: str, body: bytes) -> str:
    """Return the media type: as declared, or detected from the bytes."""
    if body.startswith(b"%PDF-"):
        return "application/pdf"
    if declared_type not in _GENERIC_TYPES:
        return declared_type
    if re.match(_LOOKS_HTML, body[:2000], re.IGNORECASE | re.DOTALL):
        return "text/html"
    return "text/plain" if decode_text(body) is not None else "application/octet-stream"


def _pdf(response: WebResponse, cancel: CancelToken) -> tuple[str, str]:
    """Return the text of a PDF, and a note on missing pages."""
    if response.cut:
        raise ToolError(f"The PDF at {response.url.text} is incomplete ({response.cut}) and cannot be read.")
    pages = pdf.read_pages(response.body, response.url.text, cancel, most=MAX_PDF_PAGES)
    if pages.empty:
        return "(The PDF has no text; it may be a scan.)", ""
    text, shown = pdf.join_pages(pages, MAX_TEXT_CHARS)
    return text, f"pages 1 to {shown} of {pages.total}" if shown < pages.total else ""


def _json(text: str) -> str:
    """Indent JSON that is on one line."""
    if text.strip().count("\n") > 2:
        return text
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=1)
    except (ValueError, RecursionError):
        return text


def _clean(text: str) -> str:
    """Remove control and invisible characters; convert line ends to "\\n"."""
    plain = re.sub(r"\r\n?|[\u2028\u2029]", "\n", text)
    return re.sub(UNSAFE, "", re.sub(ESCAPES, "", plain)).strip("\n")


def _html(html: str, url: str, cancel: CancelToken) -> tuple[str, str]:
    """Return title and text of a page, converted in a separate process. Raises ToolError or CancelledError."""
    import subprocess  # only needed to start the process

    with reaper.REAPER.popen(
        [sys.executable, "-P", "-m", "agent_tools.web.html_worker", url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=_environment(),
    ) as process:
        forget = cancel.on_cancel(process.kill)
        try:
            out, _ = process.communicate(html.encode("utf-8", "replace"), WORKER_SECONDS)
        except subprocess.TimeoutExpired:
            out = b""
        finally:
            forget()
            process.kill()
    cancel.check()
    if process.returncode != 0:
        raise ToolError(f"{url} could not be converted to text: it takes too much time or memory. Use another source.")
    title, _, text = out.decode("utf-8", "replace").partition("\n")
    return title, text


def _environment() -> dict[str, str]:
    """Return the environment of the worker: only what it needs to find its modules, as its input is untrusted."""
    ours = str(Path(__file__).parents[2])
    path = [p for p in sys.path if os.path.isabs(p) and p != ours]  # noqa: PTH117 - compared as text
    needed = ("LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE")
    found = {name: os.environ[name] for name in needed if name in os.environ}
    return {**found, "PYTHONPATH": os.pathsep.join([ours, *path])}


class PageCache(ToolState):
    """Recent pages by requested address. The oldest are dropped first."""

    def __init__(self) -> None:
        self.pages: dict[str, Page] = {}

    def put(self, url: str, page: Page) -> None:
        """Store a page under the requested address."""
        pages = self.pages
        pages.pop(url, None)
        pages[url] = page
        while len(pages) > MAX_PAGES or (len(pages) > 1 and sum(len(p.text) for p in pages.values()) > MAX_TEXT_CHARS):
            pages.pop(next(iter(pages)), None)

    def get(self, url: str, now: float) -> Page | None:
        """Return the page if it was read from this address in the last 15 minutes, else None."""
        page = self.pages.get(url)
        return page if page is not None and now - page.at < MAX_AGE_SECONDS else None
