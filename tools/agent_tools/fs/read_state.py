"""What the model has seen of each file: which lines of which version, by which call.

Every tool that shows or changes a file notes it here, and every tool that changes one asks here. `ToolContext.seen` has
a mark for each file that was read or written, which the session log stores; the rest is known in this process only.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Literal

from agent_tools.base import ToolContext, ToolState
from agent_tools.fs.encoding import count_lines, decode_text, fingerprint, split_lines
from agent_tools.fs.safe_files import read_regular
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.text import MAX_LINE_CHARS, sanitize_output

with lazy_imports():
    from agent_tools.edit import diff

_MAX_RESULTS = 30
_MAX_SEARCHED_FILES = 300
# Of larger files, and of all but the latest ones, it is not known how they changed.
_MAX_COMPARED_CHARS = 2_000_000
_MAX_KEPT_CHARS = 64_000_000
_MAX_CHECKED_FILES, _MAX_CHECKED_BYTES = 300, 10_000_000
# Seconds by which the clock of a file system may lag.
CLOCK_TOLERANCE_SECONDS = 0.02

_PART = r"(\d+)-(\d+)(?:@([^\s,/@]*))?"
_MARK = rf"(\S+) ((?:{_PART},?)*)/(\d+)"

# Pairs of first and last line, counted from 1, in order.
Ranges = tuple[tuple[int, int], ...]
# The same, each with the source of what the model has of it, as of `call_source`; "" if that is not known.
Lines = tuple[tuple[int, int, str], ...]
# Sources that are not calls: a user message with the text of a file, and the head of a compacted conversation.
MENTION, HEAD = ":message", ":summary"


def call_source(tool: str, call_id: str) -> str:
    """Return the source of what a call shows or writes."""
    return f"{tool}:{call_id}".translate(_UNMARKED)


def is_visible(source: str, visible: Collection[str]) -> bool:
    """Return True if a source is one of these; the names of tools are not compared."""
    return source.partition(":")[2] in visible


_UNMARKED = {ord(char): "_" for char in " \t\r\n,/@"}
# What is left of the source of lines that the model no longer has: "Read gone".
_GONE = "!"


class KnownVersion(Value):
    """What the model has seen of one version of a file.

    version: the `fingerprint` of its bytes.
    lines: the lines seen; None for all of them.
    total: number of its lines; 0 if unknown.
    """

    version: str
    lines: Lines | None = None
    total: int = 0

    @classmethod
    def from_mark(cls, mark: str) -> KnownVersion:
        """Read a mark of the session log: "HASH", or "HASH 1-20@Read:call_1,30-40/5000" if only these were seen."""
        found = re.fullmatch(_MARK, mark)
        if found is None:
            return cls(mark)
        parts = re.findall(_PART, found[2])
        return cls(found[1], tuple((int(first), int(last), source) for first, last, source in parts), int(found[6]))

    @property
    def held(self) -> Ranges:
        """The lines that the model still has; all of them if `lines` is None."""
        return _merge((a, b) for a, b, source in self.seen(self.total) if not source.startswith(_GONE))

    def mark(self) -> str:
        """Return the form for the session log."""
        if self.lines is None:
            return self.version
        parts = (f"{first}-{last}{source and f'@{source}'}" for first, last, source in self.lines)
        return f"{self.version} {','.join(parts)}/{self.total}"

    def seen(self, total: int) -> Lines:
        """Return the lines seen of a version with this number of lines, and those that the model no longer has."""
        return ((1, total, ""),) if self.lines is None else self.lines

    def without_hidden(self, visible: Collection[str]) -> KnownVersion:
        """Return what the model still has if it is shown only these sources."""
        lines = (
            (a, b, s if is_visible(s, visible) else _GONE + s.strip(_GONE).partition(":")[0])
            for a, b, s in self.lines or ()
        )
        return KnownVersion(self.version, _joined(lines), self.total)


class Sight(Value):
    """What the model knows of a file as it is now.

    read: it has read or written the file, perhaps in an earlier version.
    current: the version it knows is the current one.
    unseen: the lines of the current version that it has not seen, or no longer has.
    total: number of lines.
    known: the text of the version it knows, if that is another one and is kept here.
    by: the tools by which it has seen the file.
    never: those of `unseen` that were never shown.
    gone_by: the tools that showed the others, which are no longer in the conversation.
    """

    read: bool
    current: bool
    unseen: Ranges
    total: int
    known: str | None = None
    by: tuple[str, ...] = ()
    never: Ranges = ()
    gone_by: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Return True if the model has seen every line of the current version."""
        return (self.current or not self.read) and not self.unseen


class ShownResult(Value):
    """A result as the model read it.

    about: the command or path that it is of.
    began: when the files were as shown.
    source: the call that it is of.
    """

    text: str
    about: str
    began: float
    source: str


class ReadState(ToolState):
    """What the model was shown in this process.

    results: the latest results of searches and commands.
    searched: lines that searches showed of a file, each with the time at which the search began, and its source.
    before: the marks of files that calls of the current answer showed, as they were before it; "" for none. None if
        calls do not come in answers.
    answered: when that answer's calls began.
    told: the marks of files that results of this answer describe: the model has read them when it answers again.
    """

    def __init__(self) -> None:
        self.results: deque[ShownResult] = deque(maxlen=_MAX_RESULTS)
        self.searched: dict[str, list[tuple[float, Ranges, str]]] = {}
        self.before: dict[str, str] | None = None
        self.answered = math.inf
        self.told: dict[str, str] = {}
        self._texts: dict[str, dict[str, str]] = {}
        self._kept = 0
        self._hashed: deque[tuple[bytes, str]] = deque(maxlen=2)

    def nested(self) -> ReadState:
        return ReadState()

    def version_of(self, data: bytes) -> str:
        """Return the fingerprint of a file's bytes; one call asks several times for the same."""
        known = next((version for there, version in self._hashed if there is data), None)
        if known is None:
            known = fingerprint(data)
            self._hashed.append((data, known))
        return known

    def remember(self, path: str, version: str, text: str) -> None:
        """Keep the text of a version, to tell how a later one differs."""
        if len(text) > _MAX_COMPARED_CHARS:
            return
        versions = self._texts.pop(path, {})
        kept = [(v, there) for v, there in versions.items() if v != version][-1:]
        self._texts[path] = dict([*kept, (version, text)])
        self._kept += sum(map(len, self._texts[path].values())) - sum(map(len, versions.values()))
        while self._kept > _MAX_KEPT_CHARS:
            self._kept -= sum(map(len, self._texts.pop(next(iter(self._texts))).values()))

    def text_of(self, path: str, known: KnownVersion | None, version: str) -> str | None:
        """Return the text of the version that the model knows, if it is another one than this and is kept."""
        return None if known is None or known.version == version else self._texts.get(path, {}).get(known.version)


def begin_answer(ctx: ToolContext) -> dict[str, str]:
    """Note that the calls of an answer begin: the model has not seen their results when it writes the arguments.

    Returns the marks of the files that results of the answer before have told it about.
    """
    state = ctx.owner.state(ReadState)
    state.before, state.answered = {}, time.time()
    told, state.told = state.told, {}
    ctx.seen |= told
    return told


def note_read(path: Path, data: bytes, ctx: ToolContext, lines: Ranges | None = None) -> None:
    """Note that the model was shown a file, or only some of its lines. Lines seen before stay seen."""
    _keep_mark(path, ctx)
    ctx.owner.state(ReadState).told.pop(str(path), None)
    if lines is None and len(data) > _MAX_COMPARED_CHARS:
        ctx.seen[str(path)] = fingerprint(data)
        return
    text = decode_text(data)
    ctx.seen[str(path)] = mark_of(path, data, text.content if text is not None else "", ctx, lines)


def mark_of(
    path: Path,
    data: bytes,
    content: str,
    ctx: ToolContext,
    lines: Ranges | None,
    mark: str | None = None,
    source: str = "",
) -> str:
    """Return the mark of a file of which the model will have seen these lines, or all, beside those seen before.

    mark: its mark before; by default the one that it has.
    source: what shows it; by default the call that runs.
    """
    state = ctx.owner.state(ReadState)
    version = state.version_of(data)
    known = _known_version(path, ctx) if mark is None else KnownVersion.from_mark(mark)
    before = _carried(path, version, content, known, state)
    state.remember(str(path), version, content)
    total = count_lines(content)
    return _known(version, _add(before, ((1, total),) if lines is None else lines, source or ctx.source), total).mark()


def note_told(path: Path, data: bytes, content: str, ctx: ToolContext, *, at_once: bool = False) -> str:
    """Note that the model gets the difference of a file that it knows, and so has the new lines.

    at_once: now, as by a call that changes the file; by a call that fails, with the next answer. Returns its mark.
    """
    state, known = ctx.owner.state(ReadState), _known_version(path, ctx)
    version = state.version_of(data)
    there = state.text_of(str(path), known, version)
    if known is None or there is None:
        return ""
    changes, new = diff.Difference(there, content).changed_lines()
    total = count_lines(there)
    lines = _add(_moved(known.seen(total), changes, total), [(n + 1, n + 1) for n in new], ctx.source)
    state.remember(str(path), version, content)
    mark = _known(version, lines, count_lines(content)).mark()
    if at_once or state.before is None:
        ctx.seen[str(path)] = mark
    else:
        state.told[str(path)] = mark
    return mark


def is_told(path: Path, data: bytes, ctx: ToolContext) -> bool:
    """Return True if a result of this answer shows how the model's version differs from this content."""
    state = ctx.owner.state(ReadState)
    mark = state.told.get(str(path))
    return mark is not None and KnownVersion.from_mark(mark).version == state.version_of(data)


def recall(path: Path, text: str, ctx: ToolContext) -> None:
    """Keep the text of the version that the model knew when the session was left."""
    if (known := _known_version(path, ctx)) is not None:
        ctx.owner.state(ReadState).remember(str(path), known.version, text)


def note_view(path: Path, data: bytes, ctx: ToolContext, first: int, count: int, total: int) -> None:
    """Note that the model was shown some lines of another form of a file, such as the cells of a notebook."""
    _keep_mark(path, ctx)
    state, known = ctx.owner.state(ReadState), _known_version(path, ctx)
    version = state.version_of(data)
    if (text := decode_text(data)) is not None:
        state.remember(str(path), version, text.content)
    before = known.lines if known is not None and known.version == version else ()
    lines = None if before is None else _add(before, [(first, first + count - 1)], ctx.source)
    ctx.seen[str(path)] = _known(version, lines, total).mark()


Written = Literal["all", "changes", "nothing", "cell"]


def note_change(
    path: Path,
    before: bytes | None,
    after: bytes,
    difference: diff.Difference,
    ctx: ToolContext,
    written: Written = "changes",
) -> None:
    """Note that a file was changed.

    difference: between its text before and after; of a notebook, that of the cell.
    written: what the model wrote of the new text, or was told of it.
    """
    state, known = ctx.owner.state(ReadState), _known_version(path, ctx)
    version = state.version_of(after)
    state.told.pop(str(path), None)
    text = decode_text(after) if written == "cell" else None
    state.remember(str(path), version, text.content if text else difference.new)
    if known is None or before is None or known.version != state.version_of(before):
        known = KnownVersion("", (), count_lines(difference.old))
    total, now = count_lines(difference.old), count_lines(difference.new)
    if before is None or written == "all":
        known = _known(version, ((1, now, ctx.source),), now)
    elif written == "cell" or (known.lines is not None and known.total != total):
        # The lines of another form of the file.
        known = known.replace(version=version)
    else:
        changes, new = difference.changed_lines()
        # Of a long line, an edit has only a part.
        whole = not _missing(_held(known.seen(total)), total)
        own = [(n + 1, n + 1) for n, line in new.items() if whole or len(line) <= MAX_LINE_CHARS]
        kept = _moved(known.seen(total), changes, total)
        known = _known(version, _add(kept, own if written == "changes" else (), ctx.source), now)
    ctx.seen[str(path)] = known.mark()


def add_learned(ctx: ToolContext, before: dict[str, str], call: ToolContext) -> None:
    """Add what a call has shown that ran in another thread, beside others. before: the marks when it began."""
    for path, mark in call.seen.items():
        there = ctx.seen.get(path, mark)
        if before.get(path) == mark:
            continue
        known, meanwhile = KnownVersion.from_mark(mark), KnownVersion.from_mark(there)
        if meanwhile.version == known.version and meanwhile.lines is not None and known.lines is not None:
            own = [(first, last) for first, last, source in known.lines if source == call.source]
            known = known.replace(lines=_add(meanwhile.lines, own, call.source))
        ctx.seen[path] = known.mark()


def forget(path: Path, ctx: ToolContext) -> None:
    """Note that the model knows nothing of a file."""
    ctx.seen.pop(str(path), None)


def forget_lines(path: str, total: int, ctx: ToolContext) -> None:
    """Note that the model knows the version of a file, but has none of its lines. total: their number; 0 if unknown."""
    if (mark := ctx.seen.get(path)) is not None:
        ctx.seen[path] = KnownVersion(KnownVersion.from_mark(mark).version, (), total).mark()


def forget_hidden(ctx: ToolContext, visible: Collection[str], keep: Collection[str] = ()) -> dict[str, str]:
    """Note that the model has only what these sources have shown it; return the marks that changed.

    keep: files of which it has all that it has seen.
    """
    state, before = ctx.owner.state(ReadState), dict(ctx.seen)
    for marks in (state.told, ctx.seen):
        for path in marks.keys() - keep:
            marks[path] = KnownVersion.from_mark(marks[path]).without_hidden(visible).mark()
    for path, found in list(state.searched.items()):
        state.searched[path] = [search for search in found if is_visible(search[-1], visible)]
    kept = [result for result in state.results if is_visible(result.source, visible)]
    state.results.clear()
    state.results.extend(kept)
    return {path: mark for path, mark in ctx.seen.items() if mark != before[path]}


def look_up(path: Path, data: bytes, content: str, ctx: ToolContext, *, earlier: bool = False) -> Sight:
    """Return what the model knows of a file that has this content now.

    earlier: what it knew when it wrote its answer.
    """
    state, total = ctx.owner.state(ReadState), count_lines(content)
    version = state.version_of(data)
    mark = (state.before or {}).get(str(path)) if earlier else None
    known = _known_version(path, ctx) if mark is None else KnownVersion.from_mark(mark) if mark else None
    searched = _searched(path, state, state.answered if earlier else None)
    if known is None:
        unseen = _missing(searched, total)
        return Sight(False, False, unseen, total, never=unseen)
    current = known.version == version
    lines = _carried(path, version, content, known, state)
    total = (known.total if current else 0) or total
    unseen = _missing((*_held(lines), *searched), total)
    never = _missing((*((first, last) for first, last, _ in lines), *searched), total)
    gone = _tools(line for line in lines if line[2].startswith(_GONE))
    return Sight(
        True, current, unseen, total, state.text_of(str(path), known, version), _tools(known.lines or ()), never, gone
    )


def note_searched(path: Path, lines: Iterable[int], began: float, ctx: ToolContext) -> None:
    """Note the lines of a file that a search showed in full. began: when it began, in seconds since the epoch."""
    searched = ctx.owner.state(ReadState).searched
    searched.setdefault(str(path), []).append((began, _merge((n, n) for n in lines), ctx.source))
    while len(searched) > _MAX_SEARCHED_FILES:
        del searched[next(iter(searched))]


def note_shown(text: str, about: str, began: float, ctx: ToolContext) -> None:
    """Note what a result showed. began: seconds since the epoch at which the call began."""
    if text:
        ctx.owner.state(ReadState).results.append(ShownResult(text, about, began, ctx.source))


def note_printed(path: Path, data: bytes, output: str, ctx: ToolContext) -> None:
    """Note that a command printed lines of a file unchanged; those in its output, as far as it was shown, are seen."""
    text = decode_text(data)
    if text is None or len(data) > _MAX_COMPARED_CHARS:
        note_read(path, data, ctx, ())
        return
    lines = [sanitize_output(line).rstrip("\r\n") for line in split_lines(text.content)]
    printed = output.split("\n")
    bare = [line.lstrip(" ").partition("\t") for line in printed]
    numbered = [
        rest if number.isdigit() and tab else line for line, (number, tab, rest) in zip(printed, bare, strict=True)
    ]
    shown = max((_common_lines(form, lines) for form in (printed, numbered)), key=_count)
    note_read(path, data, ctx, None if _count(shown) == len(lines) else shown)


def shown_by(path: Path, texts: Sequence[str], ctx: ToolContext, own: str = "") -> tuple[str, bool] | None:
    """Return the tool whose latest result about a file showed every line of these texts; None if there is none.

    The flag is True if the file has not changed since.

    own: text that the model has just written, whose lines it knows anyway.
    """
    state = ctx.owner.supplied(ReadState)
    lines = [line for text in texts for line in map(str.strip, text.splitlines()) if line and line not in own]
    if own and not lines:
        return "", True
    for result in reversed(state.results if state is not None and lines else ()):
        if (path.name in result.text or path.name in result.about) and all(line in result.text for line in lines):
            return result.source.partition(":")[0], is_older(path, result.began)
    return None


def is_known(path: Path, ctx: ToolContext) -> bool:
    """Return True if the model has read or written a file, or a search showed lines of it."""
    return str(path) in ctx.seen or str(path) in ctx.owner.state(ReadState).searched


def is_another_version(data: bytes, mark: str) -> bool:
    """Return True if a file is not the version that a mark of the session log is of."""
    return fingerprint(data) != KnownVersion.from_mark(mark).version


def changed_files(ctx: ToolContext) -> list[str]:
    """Return the names of files that the model has seen in another version than they have now, the latest first."""
    found = []
    for path, mark in list(ctx.seen.items())[: -_MAX_CHECKED_FILES - 1 : -1]:
        try:
            changed = is_another_version(read_regular(path, _MAX_CHECKED_BYTES), mark)
        except (OSError, ValueError):
            changed = not os.path.lexists(path)
        if changed:
            found.append(ctx.workspace.spell(Path(path)))
    return found


def is_older(path: Path, began: float) -> bool:
    """Return True if a file has not been changed since a time, in seconds since the epoch."""
    changed = _modified(path)
    return changed is not None and changed <= began - CLOCK_TOLERANCE_SECONDS


def _modified(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def _known_version(path: Path, ctx: ToolContext) -> KnownVersion | None:
    mark = ctx.seen.get(str(path))
    return None if mark is None else KnownVersion.from_mark(mark)


def _known(version: str, lines: Lines | None, total: int) -> KnownVersion:
    return KnownVersion(version) if lines is None else KnownVersion(version, lines, total)


def _keep_mark(path: Path, ctx: ToolContext) -> None:
    """Keep what the model knew of a file before this answer, of which a call shows it the file."""
    if (before := ctx.owner.state(ReadState).before) is not None:
        before.setdefault(str(path), ctx.seen.get(str(path), ""))


def _carried(path: Path, version: str, content: str, known: KnownVersion | None, state: ReadState) -> Lines:
    """Return the lines of the current version that the model has seen, in it or in the one it knows."""
    if known is None:
        return ()
    if known.version == version:
        return known.seen(count_lines(content))
    there = state.text_of(str(path), known, version)
    if there is None:
        return ()
    total = count_lines(there)
    return _moved(known.seen(total), diff.Difference(there, content).changed_lines()[0], total)


def _searched(path: Path, state: ReadState, until: float | None) -> Ranges:
    """Return the lines that searches showed of a file which has not changed since. until: only earlier searches."""
    found = state.searched.get(str(path), [])
    shown = [(began, lines) for began, lines, _ in found if until is None or began < until]
    return tuple(pair for began, lines in shown if is_older(path, began) for pair in lines)


def _moved(seen: Lines, changes: Sequence[tuple[int, int, int, int]], total: int) -> Lines:
    """Return where the seen lines of an old text are in a new one. changes: as of `Difference.changed_lines`."""
    ends = [*changes, (total, total, -1, -1)]
    found, at, shift = [], 0, 0
    for i1, i2, _, j2 in ends:
        # Lines at+1 to i1 are the same in both.
        found += [
            (max(first, at + 1) + shift, min(last, i1) + shift, source)
            for first, last, source in seen
            if max(first, at + 1) <= min(last, i1)
        ]
        at, shift = i2, j2 - i2
    return _joined(found)


def _add(seen: Lines, new: Iterable[tuple[int, int]], source: str) -> Lines:
    """Return the lines seen before and those that a source has shown now, each with the latest source."""
    merged = _merge(new)
    kept = [
        (max(first, a), min(last, b), there)
        for a, b in _missing(merged, max((last for _, last, _ in seen), default=0))
        for first, last, there in seen
        if max(first, a) <= min(last, b)
    ]
    return _joined([*kept, *((first, last, source) for first, last in merged)])


def _joined(lines: Iterable[tuple[int, int, str]]) -> Lines:
    """Return lines in order, those that follow each other and are of the same source as one."""
    found: list[tuple[int, int, str]] = []
    for first, last, source in sorted(lines):
        if found and first == found[-1][1] + 1 and source == found[-1][2]:
            found[-1] = (found[-1][0], last, source)
        else:
            found.append((first, last, source))
    return tuple(found)


def _held(lines: Lines) -> Ranges:
    """Return the lines that the model still has."""
    return _merge((first, last) for first, last, source in lines if not source.startswith(_GONE))


def _tools(lines: Iterable[tuple[int, int, str]]) -> tuple[str, ...]:
    """Return the names of the tools that showed these lines."""
    names = (source.removeprefix(_GONE).partition(":")[0] for *_, source in lines)
    return tuple(dict.fromkeys(filter(None, names)))


def _common_lines(printed: list[str], lines: list[str]) -> Ranges:
    """Return the lines of a file that a text has in the same order."""
    changes = diff.changed_ranges(printed, lines)
    return _merge((first, last) for first, last, _ in _moved(((1, len(printed), ""),), changes, len(printed)))


def _merge(lines: Iterable[tuple[int, int]]) -> Ranges:
    found: list[tuple[int, int]] = []
    for first, last in sorted(lines):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        elif first <= last:
            found.append((first, last))
    return tuple(found)


def _missing(lines: Ranges, total: int) -> Ranges:
    found, at = [], 1
    for first, last in _merge(lines):
        if first > at:
            found.append((at, min(first - 1, total)))
        at = max(at, last + 1)
    return tuple((first, last) for first, last in [*found, (at, total)] if first <= last)


def _count(lines: Ranges) -> int:
    return sum(last - first + 1 for first, last in lines)
