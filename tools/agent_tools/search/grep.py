"""The Grep tool: search the content of files by regular expression, with ripgrep."""

from __future__ import annotations

import os
import re
import stat
import time
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from agent_tools.base import Effect, Tool, ToolContext, ToolError, ToolResult
from agent_tools.fs import read_state
from agent_tools.fs.encoding import decode_text, split_lines
from agent_tools.fs.files import not_a_file_error
from agent_tools.fs.paths import as_names, as_text, compile_glob, matches_hidden, stat_or_error
from agent_tools.fs.workspace import ResolvedPath
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.results import Listing
from agent_tools.schema import DIRECTORY_NAMES
from agent_tools.text import counted, cut_line, fit, sanitize_output, shorten

if TYPE_CHECKING:
    from agent_tools.search.ripgrep import Hit, UnchangedFiles

with lazy_imports():
    from agent_tools.search import ripgrep

DEFAULT_MAX_RESULTS = 250
MAX_LINE_CHARS = 500
# Long lines in which a match is located.
_MAX_LONG_LINES = 20
# Files open at a time.
_MAX_OPEN_FILES = 100
# Files that are named if their names match, and no line does.
_MAX_NAMED = 5


class GrepArgs(Value):
    """The arguments of Grep."""

    # Claude Code's names: the options of grep itself.
    SCHEMA_NAMES: ClassVar = {
        "ignore_case": "-i",
        "line_numbers": "-n",
        "after": "-A",
        "before": "-B",
        "context": "-C",
    }
    UNLISTED: ClassVar = ("line_numbers",)
    ALIASES: ClassVar = {
        "pattern": ("query", "regex"),
        "path": (*DIRECTORY_NAMES, "file", "file_path"),
        "glob": ("include", "include_pattern", "file_pattern"),
    }

    pattern: Annotated[str, "Regular expression (Rust syntax)"]
    path: Annotated[str | None, "File or directory (default: working directory)"] = None
    glob: Annotated[str | None, "Names of files, e.g. *.{ts,tsx}"] = None
    type: Annotated[str | None, "Kind of file: py, js, rust ..."] = None
    output_mode: Annotated[Literal["files_with_matches", "content", "count"], "Default files_with_matches"] = (
        "files_with_matches"
    )
    ignore_case: Annotated[bool, "Ignore case"] = False
    line_numbers: Annotated[bool, "Line numbers with content (default true)"] = True
    after: Annotated[int | None, "Lines after each match"] = None
    before: Annotated[int | None, "Lines before each match"] = None
    context: Annotated[int | None, "Lines before and after"] = None
    multiline: Annotated[bool, "The pattern may span lines"] = False
    head_limit: Annotated[int | None, "At most this many lines or files (default 250, 0: all)"] = None
    offset: Annotated[int | None, "Leave out this many first"] = None


class Grep(Tool[GrepArgs]):
    """Searches file contents; skips ignored and hidden files."""

    name = "Grep"
    Args = GrepArgs
    small_arguments = ("pattern", "path")
    repeatable = True
    searches_content = True
    rule_names = "path"
    explores = "search"
    parallel_safe = True

    def resolve_paths(self, args: GrepArgs, ctx: ToolContext) -> GrepArgs:
        return args.replace(path=ResolvedPath(args.path or "", _start(args, ctx)))

    def effects(self, args: GrepArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("read", str(_start(args, ctx))),)

    def summary(self, args: GrepArgs, ctx: ToolContext) -> str:
        where = " ".join(f"in {shorten(part, 60)}" for part in (args.glob or args.type, args.path) if part)
        return f"Search '{shorten(args.pattern, 60)}' {where}".rstrip()

    def run(self, args: GrepArgs, ctx: ToolContext) -> ToolResult:
        if ctx.small_model and args.output_mode == "files_with_matches":
            args = args.replace(output_mode="content")  # it is offered no other argument than the pattern and a path
        _validate(args, ctx)
        began, start = time.time(), _start(args, ctx)
        result = self._search(args, start, began, ctx)
        if args.output_mode == "content":
            read_state.note_shown(result.text, str(start), began, ctx)
        return result

    def _search(self, args: GrepArgs, start: Path, began: float, ctx: ToolContext) -> ToolResult:
        mode = stat_or_error(start, ctx).st_mode
        if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
            raise ctx.workspace.advised(not_a_file_error(start, mode))
        rg = ripgrep.find_rg(ctx)
        top = start if stat.S_ISDIR(mode) else start.parent
        args = args.replace(glob=_below(args.glob, top))
        if rg is None:
            hits, notes = _search_without_rg(args, start, ctx), list(filter(None, [ctx.once(ripgrep.RG_MISSING)]))
            hits = _drop_unreadable(args, hits, notes, top, ctx)
            return _result(args, hits, _long_lines_without_rg(args, hits), notes, top, began, ctx)
        with ripgrep.search_root(top) as directory:
            verifier = ripgrep.UnchangedFiles(directory)
            hits, notes = _search(rg, args, "." if start == top else f"./{start.name}", directory, ctx)
            hits = _drop_unreadable(args, hits, notes, top, ctx)
            hits = _verify(rg, args, hits, notes, verifier, ctx)
            long_lines = _long_lines(rg, args, hits, verifier, ctx)
            return _result(args, hits, long_lines, notes, top, began, ctx)


def _start(args: GrepArgs, ctx: ToolContext) -> Path:
    return args.path.path if isinstance(args.path, ResolvedPath) else ctx.workspace.resolve(args.path or ".")


def _below(glob: str | None, top: Path) -> str | None:
    """Return a glob relative to the searched directory, if it names it."""
    if glob is None:
        return None
    return glob.removeprefix(f"{top}/".replace("//", "/")).removeprefix("./")


def _drop_unreadable(args: GrepArgs, hits: list[Hit], notes: list[str], top: Path, ctx: ToolContext) -> list[Hit]:
    """Return the hits in files that may be shown, in order; add a note with the number of files skipped."""
    if ctx.readable is not None:
        start_of = f"{top}/".replace("//", "/")
        unreadable = {raw for raw, path in ripgrep.paths_of(hits).items() if not ctx.readable(start_of + path)}
        if unreadable:
            hits = [hit for hit in hits if hit[0] not in unreadable]
            files = counted(len(unreadable), "file")
            notes.append(f"[{files} not searched: reading needs the user's approval, or a rule denies it]")
    return ripgrep.sort_hits(hits, args.output_mode, top)


def _verify(
    rg: str, args: GrepArgs, hits: list[Hit], notes: list[str], verifier: UnchangedFiles, ctx: ToolContext
) -> list[Hit]:
    """Return the hits after verifying that those shown are in files of the tree; see `ripgrep.py`.

    If a folder on the path of a file changed, the file is opened without following links and searched again.
    """
    verified: set[bytes] = set()
    changed = 0
    while names := ripgrep.paths_of([hit for hit in _page(args, hits) if hit[0] not in verified]):
        verified |= names.keys()
        unchanged = verifier.files(names.values())
        doubtful = {raw: name for raw, name in names.items() if name not in unchanged}
        if not doubtful:
            continue
        again = _search_opened(rg, args, doubtful, verifier, ctx)
        found_again = {hit[0] for hit in again}
        changed += len(doubtful.keys() - found_again)
        if args.output_mode == "files_with_matches":
            hits = [hit for hit in hits if hit[0] not in doubtful or hit[0] in found_again]
        else:
            hits = sorted([*(hit for hit in hits if hit[0] not in doubtful), *again], key=itemgetter(0))
    if changed:
        notes.append(f"[{counted(changed, 'file')} skipped: changed during the search]")
    return hits


def _search_opened(
    rg: str, args: GrepArgs, names: dict[bytes, str], verifier: UnchangedFiles, ctx: ToolContext
) -> list[Hit]:
    """Search files by their descriptors."""
    found: list[Hit] = []
    every = list(names.items())
    for at in range(0, len(every), _MAX_OPEN_FILES):
        with verifier.opened(dict(every[at : at + _MAX_OPEN_FILES])) as files:
            places = [f"/dev/fd/{descriptor}" for descriptor in files]
            words = [*_options(args), f"--regexp={args.pattern}", "--", *places]
            ran = ripgrep.run_rg(rg, words, verifier.top, ctx, files=tuple(files)) if files else None
            names_of = {os.fsencode(path): raw for path, raw in zip(places, files.values(), strict=True)}
            hits = ripgrep.parse_hits(ran.out, args.output_mode) if ran else []
            found += [(names_of[path], rest) for path, rest in hits if path in names_of]
    return found


def _long_lines(rg: str, args: GrepArgs, hits: list[Hit], verifier: UnchangedFiles, ctx: ToolContext) -> dict[Hit, Hit]:
    """Return the shown lines that are too long, each with what is shown of it: of a match, the text around it."""
    cut = [hit for hit in _page(args, hits) if ripgrep.is_cut(hit)] if args.output_mode == "content" else []
    found = {hit: ripgrep.without_cut(hit) for hit in cut}
    wanted = [hit for hit in cut if ripgrep.is_match(hit)][:_MAX_LONG_LINES]
    if not wanted or args.multiline:
        return found
    with verifier.opened(ripgrep.paths_of(wanted)) as files:
        words = ["--only-matching", "--replace=", "--column", "--byte-offset", "--no-heading", "--line-number"]
        words += ["--no-require-git", "--null", "--with-filename", *(["--ignore-case"] if args.ignore_case else [])]
        for descriptor, raw in files.items():
            here = [hit for hit in wanted if hit[0] == raw]
            search = [*words, f"--regexp={args.pattern}", "--", f"/dev/fd/{descriptor}"]
            ran = ripgrep.run_rg(rg, search, verifier.top, ctx, files=(descriptor,))
            places: dict[bytes, tuple[int, int]] = {}
            for _, rest in ripgrep.parse_hits(ran.out, args.output_mode):
                number, column, offset, *_ = (*rest.split(b":"), b"", b"", b"")
                if column.isdigit() and offset.isdigit():
                    places.setdefault(number, (int(column), int(offset)))
            for hit in here:
                number = hit[1].partition(b":")[0]
                if number in places and (text := ripgrep.line_around(descriptor, *places[number])):
                    found[hit] = raw, number + b":" + text.encode("utf-8", "replace")
    return found


def _long_lines_without_rg(args: GrepArgs, hits: list[Hit]) -> dict[Hit, Hit]:
    """Do the same for lines that are there in full."""
    found: dict[Hit, Hit] = {}
    pattern = re.compile(args.pattern, re.IGNORECASE if args.ignore_case else 0)
    for hit in _page(args, hits) if args.output_mode == "content" else ():
        number, _, text = hit[1].decode("utf-8", "replace").partition(":")
        if ripgrep.is_match(hit) and len(text) > MAX_LINE_CHARS and (match := pattern.search(text)):
            found[hit] = hit[0], f"{number}:{ripgrep.around_match(text, *match.span())}".encode("utf-8", "replace")
    return found


def _validate(args: GrepArgs, ctx: ToolContext) -> None:
    if not args.pattern:
        raise ToolError(f"The pattern is empty.{ctx.workspace.advice('Glob LS', 'To list files, use {}.')}")
    counts = (args.after, args.before, args.context, args.head_limit, args.offset)
    if any(count is not None and count < 0 for count in counts):
        raise ToolError("-A, -B, -C, head_limit and offset cannot be negative.")


def _options(args: GrepArgs) -> list[str]:
    """Return the options of ripgrep for matching and output."""
    # With a NUL after each name, names with ":" or "-" are unambiguous.
    options = ["--no-require-git", "--null", "--with-filename"]
    if args.output_mode == "files_with_matches":
        options.append("--files-with-matches")
    elif args.output_mode == "count":
        options.append("--count-matches" if args.multiline else "--count")
    else:
        options += ["--no-heading", "--line-number", f"--max-columns={MAX_LINE_CHARS}", "--max-columns-preview"]
        for flag, count in (("-A", args.after), ("-B", args.before), ("-C", args.context)):
            if count:
                options.append(f"{flag}{count}")
    if args.ignore_case:
        options.append("--ignore-case")
    if args.multiline:
        options += ["--multiline", "--multiline-dotall"]
    return options


def _search(rg: str, args: GrepArgs, where: str, directory: int, ctx: ToolContext) -> tuple[list[Hit], list[str]]:
    """Search the open directory, or its file `where`; return hits and notes."""
    options = _options(args)
    # A glob overrides .gitignore for what it matches; **/ before a name would match every directory.
    glob = re.sub(r"^(?:\*\*/)+(?=[^/]*$)", "", args.glob or "")
    forms = dict.fromkeys((glob, as_names(glob), as_text(glob)))
    globs = [f"--glob={form}" for form in forms if form and form not in ("*", "**")]
    if glob and matches_hidden(glob):
        options += ["--hidden", "--glob=!.git"]
    if args.type:
        options.append(f"--type={args.type}")
    search = [f"--regexp={args.pattern}", "--", where]
    ran = ripgrep.run_rg(rg, [*options, *globs, *search], directory, ctx)
    if len(globs) > 1 and ran.code > 1 and glob.count("{") == glob.count("}") and "parsing glob" in ran.errors:
        # It can be read as a name only, such as [user-id].
        ran = ripgrep.run_rg(rg, [*options, *globs[1:], *search], directory, ctx)
    hits = ripgrep.parse_hits(ran.out, args.output_mode)
    if hits and as_names(glob):
        hits = _of_names(glob, hits)
    if ran.code > 1 and not hits and not ran.cut and (where != "." or not _only_below_top(ran.errors)):
        raise _search_error(args, ran.errors)
    notes = ["[too many matches to check all of them; narrow the pattern, glob or path]"] if ran.cut else []
    if ran.code > 1 and ran.errors:
        notes.append(f"[some files could not be searched: {ripgrep.clean_errors(ran.errors, directory)}]")
    return hits, notes


def _of_names(glob: str, hits: list[Hit]) -> list[Hit]:
    """Return the hits in files whose names have the brackets of the glob, if there are such."""
    fits = compile_glob(as_names(glob)).match
    found = {raw for raw, name in ripgrep.paths_of(hits).items() if fits(name)}
    return [hit for hit in hits if hit[0] in found] or hits


def _only_below_top(errors: str) -> bool:
    """Return True if the errors are only about files or directories below the searched one."""
    return all(re.fullmatch(r"rg: \./.*\(os error \d+\)", line) for line in errors.splitlines())


def _search_error(args: GrepArgs, errors: str) -> ToolError:
    message = sanitize_output(errors).strip().removeprefix("rg: ")[:1_000]
    if "parsing glob" in message:
        return ToolError(f"Invalid glob: {message}. Use *, ?, [abc], ** and {{a,b}}.")
    if "unrecognized file type" in message:
        return ToolError(f"There is no file type {args.type!r}. Use glob instead, such as glob='*.{args.type}'.")
    if "No such file" in message or "Permission denied" in message:
        return ToolError(f"The search failed: {ripgrep.clean_errors(message)}.")
    if "\\n" in message and not args.multiline:
        return ToolError(f"{message}\nSet multiline to true to match across lines.")
    return ToolError(f"Invalid pattern: {message}\nEscape literal ( ) [ ] {{ }} . * + ? | with a backslash.")


def _page(args: GrepArgs, hits: list[Hit]) -> list[Hit]:
    """Return the requested part of the hits."""
    skipped = args.offset or 0
    limit = DEFAULT_MAX_RESULTS if args.head_limit is None else args.head_limit or len(hits)
    return hits[skipped : skipped + limit]


def _result(
    args: GrepArgs,
    hits: list[Hit],
    long_lines: dict[Hit, Hit],
    notes: list[str],
    top: Path,
    began: float,
    ctx: ToolContext,
) -> ToolResult:
    if not hits:
        hint = " Hidden and ignored files are left out." if not args.path else ""
        if "/" in (args.glob or "").strip("/"):
            hint += f" The glob is relative to {ctx.workspace.spell(top)}."
        text = f"No matches for '{args.pattern}'.{hint}"
        # Small models look for files this way.
        named = ripgrep.files_matching(args.pattern, top, ctx) if _start(args, ctx) == top else []
        if fits := [name for name in named if not args.glob or compile_glob(args.glob).match(name)]:
            listed = ", ".join(ctx.workspace.spell(top / name) for name in fits[:_MAX_NAMED])
            rest = f", and {len(fits) - _MAX_NAMED:,} more" if len(fits) > _MAX_NAMED else ""
            text += f" Files with such a name: {listed}{rest}"
        return ToolResult("\n".join([text, *notes]), Listing(args.pattern))
    skipped = args.offset or 0
    alone = _start(args, ctx) != top
    shown = []
    for hit in _page(args, hits):
        name = ctx.workspace.spell(top / ripgrep.path_of(hit[0]))
        line = ripgrep.hit_line(long_lines.get(hit, hit), name, args.output_mode, args.line_numbers, alone)
        shown.append(cut_line(line, MAX_LINE_CHARS + len(name) + 80))
    shown = shown[: fit(shown, ctx.result_limits.most("short"))]
    if args.output_mode == "content":
        _note_lines(_page(args, hits)[: len(shown)], top, began, ctx)
    more = len(hits) - skipped - len(shown)
    what, matches = "line" if args.output_mode == "content" else "file", len(hits)
    if args.output_mode == "count":
        matches = sum(int(count) for _, count in hits)
        notes.insert(0, f"[{matches:,} {'match' if matches == 1 else 'matches'} in {counted(len(hits), 'file')}]")
    elif args.output_mode == "content":
        matches = sum(map(ripgrep.is_match, hits))
    if not shown:
        notes.insert(0, f"[offset {skipped} is past the last of {counted(len(hits), what)}]")
    elif more > 0:
        left = counted(more, f"more {what}")
        notes.insert(0, f"[{left}; continue with offset={skipped + len(shown)}, or narrow the search]")
    return ToolResult("\n".join([*shown, *notes]), Listing(args.pattern, tuple(shown), max(more, 0), matches))


def _note_lines(hits: list[Hit], top: Path, began: float, ctx: ToolContext) -> None:
    """Note the lines that are shown in full."""
    found: dict[bytes, list[int]] = {}
    for raw, rest in hits:
        number = re.match(rb"(\d+)[:-]", rest)
        # ripgrep leaves out the end of longer lines.
        if number is not None and len(rest) - number.end() < MAX_LINE_CHARS:
            found.setdefault(raw, []).append(int(number[1]))
    for raw, lines in found.items():
        read_state.note_searched(top / ripgrep.path_of(raw), lines, began, ctx)


# Without ripgrep: the same results, slower, with Python's regular expressions.

_TYPES = {
    "py": "*.{py,pyi}",
    "js": "*.{js,jsx,mjs,cjs}",
    "ts": "*.{ts,tsx,mts,cts}",
    "rust": "*.rs",
    "md": "*.{md,markdown}",
}
_TYPES |= {
    "markdown": _TYPES["md"],
    "cpp": "*.{cpp,cc,cxx,hpp,hh,h}",
    "yaml": "*.{yaml,yml}",
    "ruby": "*.rb",
    "sh": "*.{sh,bash}",
}
_MAX_FILE_BYTES = 10_000_000


def _search_without_rg(args: GrepArgs, start: Path, ctx: ToolContext) -> list[Hit]:
    """Search a file or directory. Raises CancelledError, and ToolError for a pattern that Python rejects or a single
    file that cannot be searched."""
    flags = (re.IGNORECASE if args.ignore_case else 0) | re.MULTILINE | (re.DOTALL if args.multiline else 0)
    try:
        pattern = re.compile(args.pattern, flags)
    except re.error as error:
        raise ToolError(f"Invalid pattern: {error}. Escape literal ( ) [ ] {{ }} with a backslash.") from None
    filters = [
        compile_glob(glob) for glob in (args.glob, args.type and _TYPES.get(args.type, f"*.{args.type}")) if glob
    ]
    if stat.S_ISREG(stat_or_error(start, ctx).st_mode):
        return _search_file(args, pattern, start, start.name, ctx)
    hits: list[Hit] = []
    for name in ripgrep.walk_files(start, matches_hidden(args.glob or ""), ctx):
        ctx.cancel.check()
        if all(f.match(name) for f in filters):
            with suppress(ToolError):
                hits += _search_file(args, pattern, start / name, name, ctx)
    return _of_names(args.glob, hits) if args.glob and as_names(args.glob) else hits


def _search_file(args: GrepArgs, pattern: re.Pattern[str], path: Path, name: str, ctx: ToolContext) -> list[Hit]:
    text = decode_text(ctx.workspace.read(path, _MAX_FILE_BYTES))
    if text is None:
        return []
    lines = [line.rstrip("\r\n") for line in split_lines(text.content)]
    if args.multiline:
        found = {n for m in pattern.finditer(text.content) for n in _line_span(text.content, m)}
    else:
        found = {n for n, line in enumerate(lines) if pattern.search(line)}
    if not found:
        return []
    raw = os.fsencode(name)
    if args.output_mode == "files_with_matches":
        return [(raw, b"")]
    if args.output_mode == "count":
        return [(raw, str(len(found)).encode())]
    before, after = args.before or args.context or 0, args.after or args.context or 0
    wanted = sorted({w for n in found for w in range(max(0, n - before), min(len(lines), n + after + 1))})
    hits: list[Hit] = []
    for last, n in zip([-1, *wanted], wanted, strict=False):
        if (before or after) and hits and n > last + 1:
            hits.append((raw, ripgrep.GAP))
        hits.append((raw, f"{n + 1}{':' if n in found else '-'}{lines[n]}".encode("utf-8", "replace")))
    return hits


def _line_span(content: str, match: re.Match[str]) -> range:
    first = content.count("\n", 0, match.start())
    return range(first, first + content.count("\n", match.start(), max(match.start(), match.end() - 1)) + 1)
