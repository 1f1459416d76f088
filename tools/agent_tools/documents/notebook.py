"""The NotebookRead tool and its parser: notebooks (nbformat 4), their cells, sources and outputs.

Images in outputs become attachments.
"""

from __future__ import annotations

import json
import re
from binascii import Error as NotBase64
from binascii import a2b_base64
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

from agent_tools.base import Effect, Tool, ToolContext, ToolError, ToolResult
from agent_tools.fs import read_state
from agent_tools.fs.encoding import decode_text
from agent_tools.fs.paths import display_path, not_found_error
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.results import FileView, Media
from agent_tools.schema import FILE_NAMES
from agent_tools.text import counted, cut_line, fit, one_line, sanitize_output, shorten

with lazy_imports():
    from agent_tools.documents import images

KINDS = ("code", "markdown", "raw")


class Notebook(Value):
    """The cells of a notebook as in the file. minor: minor version of the format, 5 for 4.5."""

    cells: list[dict[str, Any]]
    minor: int
    language: str

    @property
    def has_ids(self) -> bool:
        """True if cells have IDs, which nbformat has from 4.5 on."""
        return self.minor >= 5

    def label(self, index: int) -> str:
        """Return the label of a cell: its ID, else "cell-3" by its index from 0."""
        own = self.cells[index].get("id")
        return one_line(own) if isinstance(own, str) and own else f"cell-{index}"

    def find(self, word: str) -> int:
        """Return the index of the cell with the ID or number `word` ("cell-3", "3"). Raises ToolError."""
        found = [n for n, cell in enumerate(self.cells) if word and cell.get("id") == word]
        if len(found) > 1:
            places = ", ".join(f"cell-{n}" for n in found)
            raise ToolError(f"Several cells have the id {shorten(word)}. Use the index of one: {places}.")
        if found:
            return found[0]
        number = re.fullmatch(r"(?:cell-)?([0-9]{1,9})", word)
        if number is not None and int(number[1]) < len(self.cells):
            return int(number[1])
        labels = [self.label(n) for n in range(len(self.cells))]
        more = f" and {len(labels) - 30} more" if len(labels) > 30 else ""
        have = f"The cells are: {', '.join(labels[:30])}{more}." if labels else "It has no cells."
        raise ToolError(f"There is no cell {shorten(word) or '(empty)'}. {have}")


def parse_notebook(content: str, name: str) -> Notebook:
    """Parse a notebook. Raises ToolError, which starts with `name`, if it is not a notebook of version 4."""
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ToolError(f"{name} is not a notebook: its JSON is broken ({shorten(str(error))}).") from None
    version = data.get("nbformat") if isinstance(data, dict) else None
    if version in (1, 2, 3):
        raise ToolError(
            f"{name} is a notebook of version {version}, which is too old. Convert it with a command: "
            "jupyter nbconvert --to notebook --nbformat 4 --inplace FILE"
        )
    cells = data.get("cells") if version == 4 else None
    if not isinstance(cells, list):
        raise ToolError(f"{name} is not a notebook: it has no nbformat 4 or no list of cells.")
    for n, cell in enumerate(cells):
        if not isinstance(cell, dict) or cell.get("cell_type") not in KINDS or joined_text(cell.get("source")) is None:
            raise ToolError(f"{name} is not a valid notebook: cell-{n} has no known cell_type or no source.")
    minor = data.get("nbformat_minor")
    return Notebook(cells, minor if isinstance(minor, int) else 0, _language(data.get("metadata")))


def joined_text(text: Any) -> str | None:
    """Return a text of the format, which may be a list of lines; None for anything else."""
    if isinstance(text, str):
        return text
    if isinstance(text, list) and all(isinstance(line, str) for line in text):
        return "".join(text)
    return None


def source_of(cell: dict[str, Any]) -> str:
    """Return the source of a cell of a parsed notebook."""
    return joined_text(cell["source"]) or ""


def _language(metadata: Any) -> str:
    for key, field in (("language_info", "name"), ("kernelspec", "language")):
        part = metadata.get(key) if isinstance(metadata, dict) else None
        if isinstance(part, dict) and isinstance(part.get(field), str):
            return shorten(part[field], 40)
    return ""


# Characters shown of one output: in the view of a notebook, and of a single cell.
BRIEF_OUTPUT_CHARS = 4_000
FULL_OUTPUT_CHARS = 50_000
MAX_IMAGES = 4
_IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
# Text types of an output, the most readable first.
_TEXT_TYPES = ("text/markdown", "text/plain", "text/latex", "application/json", "image/svg+xml", "text/html")


class _Picture(Value):
    """An image among the outputs. line: the line that represents it. data: base64."""

    line: int
    data: str
    name: str


def show_notebook(
    notebook: Notebook, name: str, shown: str, ctx: ToolContext, first: int, limit: int, only: int | None = None
) -> ToolResult:
    """Return at most `limit` lines of the view from line `first`, which counts from 1.

    name, shown: the file for the model and for the user.
    only: index of the only cell to show, at greater length.
    Raises ToolError for a line past the end.
    """
    more = ctx.workspace.advice("NotebookRead", "; {} with its cell_id shows more").strip()
    view = _View(BRIEF_OUTPUT_CHARS, more) if only is None else _View(FULL_OUTPUT_CHARS)
    if only is None:
        language = f", {notebook.language}" if notebook.language else ""
        view.lines.append(f"[notebook, {counted(len(notebook.cells), 'cell')}{language}]")
    for n in range(len(notebook.cells)) if only is None else (only,):
        view.add_cell(notebook, n)
    total = len(view.lines)
    if first > total:
        raise ToolError(f"{name} has only {counted(total, 'line')} as shown; offset {first} is past its end.")
    part = [cut_line(line) for line in view.lines[first - 1 : first - 1 + limit]]
    last = first - 1 + fit(part, ctx.result_limits.most("page"))
    media, notes = _attach([p for p in view.pictures if first <= p.line <= last], ctx)
    if last < total:
        rest = ctx.workspace.advice("Read", f"continue with {{}} and offset={last + 1}").strip() or "the rest is cut"
        how = rest if only is None else "the command jq shows the rest"
        notes.insert(0, f"lines {first}-{last} of {total:,} as shown here; {how}")
    note = f"\n[{'; '.join(notes)}]" if notes else ""
    text = "\n".join(part[: last - first + 1]) + note
    return ToolResult(text, FileView(shown, first, last - first + 1, total), media=media)


class _View:
    """The lines of a view, and the images that some of them represent.

    limit: characters shown of one output. more: how to see more of it.
    """

    def __init__(self, limit: int, more: str = "") -> None:
        self._more = more
        self.lines: list[str] = []
        self.pictures: list[_Picture] = []
        self._limit = limit

    def add_cell(self, notebook: Notebook, n: int) -> None:
        """Add a cell with its attachments and outputs."""
        cell, label = notebook.cells[n], notebook.label(n)
        count = cell.get("execution_count")
        run = f" run {count}" if isinstance(count, int) else ""
        self.lines.append(f"--- cell {n} [{cell['cell_type']}] id={label}{run} ---")
        self._add_text(source_of(cell))
        attachments = cell.get("attachments")
        for name, bundle in attachments.items() if isinstance(attachments, dict) else ():
            self.lines.append(f"--- attachment {one_line(name)} of {label} ---")
            self._add_bundle(bundle, label)
        outputs = cell.get("outputs")
        for output in outputs if isinstance(outputs, list) else ():
            if isinstance(output, dict):
                self._add_output(output, label)

    def _add_output(self, output: dict[str, Any], label: str) -> None:
        kind = output.get("output_type")
        what = one_line(str(output.get("name", "stream"))) if kind == "stream" else "error" if kind == "error" else ""
        self.lines.append(f"--- output of {label}{f' ({what})' if what else ''} ---")
        if kind == "stream":
            self._add_clipped(joined_text(output.get("text")) or "")
        elif kind == "error":
            lines = output.get("traceback")
            trace = "\n".join(map(str, lines)) if isinstance(lines, list) else ""
            self._add_clipped(trace or f"{output.get('ename', 'error')}: {output.get('evalue', '')}")
        else:
            self._add_bundle(output.get("data"), label)

    def _add_bundle(self, bundle: Any, label: str) -> None:
        """Add an output with several forms: the image, and the most readable text."""
        forms = bundle if isinstance(bundle, dict) else {}
        images = [mime for mime in _IMAGE_TYPES if joined_text(forms.get(mime)) is not None]
        for mime in images[:1]:
            data = joined_text(forms[mime]) or ""
            self.lines.append(f"[{mime}, {len(data) * 3 // 4:,} bytes]")
            self.pictures.append(_Picture(len(self.lines), data, f"{label}-{len(self.pictures) + 1}"))
        for mime in [mime for mime in _TEXT_TYPES if mime in forms][:1]:
            text = joined_text(forms[mime])
            if mime not in ("text/plain", "text/markdown"):
                self.lines.append(f"[{mime}]")
            self._add_clipped(text if text is not None else json.dumps(forms[mime], ensure_ascii=False, indent=1))
        if not images and not any(mime in forms for mime in _TEXT_TYPES):
            self.lines.append(f"[{', '.join(map(one_line, forms)) or 'nothing'}]")

    def _add_clipped(self, text: str) -> None:
        cut = len(text) - self._limit
        if cut <= 0:
            return self._add_text(sanitize_output(text))
        head = self._limit * 3 // 4
        self._add_text(sanitize_output(text[:head]))
        self.lines.append(f"[… {cut:,} of {len(text):,} characters cut here{self._more} …]")
        return self._add_text(sanitize_output(text[head + cut :]))

    def _add_text(self, text: str) -> None:
        if text:
            self.lines += [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def _attach(pictures: list[_Picture], ctx: ToolContext) -> tuple[tuple[Media, ...], list[str]]:
    """Return the images, if the model accepts them, and notes about images."""
    if not pictures:
        return (), []
    if "image" not in ctx.input_modalities:
        return (), ["images are not shown: this model accepts none"]
    media: list[Media] = []
    notes: list[str] = []
    for caption, item in _images(pictures[:MAX_IMAGES]):
        notes.append(caption)
        media += [item] if item is not None else []
    if len(pictures) > MAX_IMAGES:
        more = ctx.workspace.advice("NotebookRead", ", {} with a cell_id shows a cell's").replace(" ,", ",")
        notes.append(f"{len(pictures) - MAX_IMAGES} more images not shown{more}")
    return tuple(media), notes


def _images(pictures: list[_Picture]) -> Iterator[tuple[str, Media | None]]:
    for picture in pictures:
        try:
            data = a2b_base64(picture.data)
        except (NotBase64, ValueError):
            data = b""
        image = images.sniff(data)
        if image is None:
            yield f"{picture.name}: a damaged image", None
            continue
        try:
            item, caption = images.show_image(data, image, picture.name)
        except ToolError as error:
            yield str(error).rstrip("."), None
        else:
            yield caption, item


_MAX_LINES = 10_000


class NotebookReadArgs(Value):
    """The arguments of NotebookRead."""

    ALIASES: ClassVar = {"notebook_path": ("file_path", *FILE_NAMES)}

    notebook_path: Annotated[str, "Absolute path, or relative to the working directory"]
    cell_id: Annotated[str | None, "Only this cell"] = None


class NotebookRead(Tool[NotebookReadArgs]):
    """Reads a Jupyter notebook as cells."""

    name = "NotebookRead"
    rare = True
    Args = NotebookReadArgs
    explores = "read"
    paths = ("notebook_path",)
    result_size = "page"
    file_argument = "notebook_path"
    shows_file = True
    rule_names = "path"
    parallel_safe = True
    needs = "notebooks"

    def effects(self, args: NotebookReadArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("read", str(ctx.workspace.resolve(args.notebook_path))),)

    def summary(self, args: NotebookReadArgs, ctx: ToolContext) -> str:
        return f"Read {display_path(args.notebook_path, ctx)}{cell_suffix(args.cell_id)}"

    def run(self, args: NotebookReadArgs, ctx: ToolContext) -> ToolResult:
        path = ctx.workspace.resolve(args.notebook_path)
        data = ctx.workspace.read_if_there(path)
        if data is None:
            raise not_found_error(path, ctx)
        name = ctx.workspace.spell(path)
        text = decode_text(data)
        if text is None:
            raise ToolError(f"{name} is not a notebook but a binary file.{ctx.workspace.advice('Read', 'Use {}.')}")
        notebook = parse_notebook(text.content, name)
        only = None if args.cell_id is None else notebook.find(args.cell_id)
        result = show_notebook(notebook, name, ctx.workspace.show(path), ctx, 1, _MAX_LINES, only)
        if isinstance(view := result.display, FileView):
            shown = (view.first, view.lines) if only is None else (1, 0)
            total = view.total if only is None else max(view.total, 1)
            read_state.note_view(path, data, ctx, *shown, total)
        return result


def cell_suffix(cell_id: str | None) -> str:
    """Format the cell of a call for its summary."""
    return f", cell {shorten(cell_id, 40)}" if cell_id else ""
