"""The completion record as a git note of a commit, in `refs/notes/agent`: written, read and shared.

A note is text. Each of its lines says whose it is, so that `cat_sort_uniq`, with which git merges the notes of several
people, keeps it whole: lines for readers begin with `agent SESSION`, and lines for programs are JSON objects with the
version, the session and their number. Secrets are redacted, and files outside of the repository are not named.

A note that was fetched is text of somebody else. It is read within limits, and shown, never followed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from agent_cli.git.commit import NAMED_COMMIT
from agent_cli.kernel.redact import Redactor
from agent_cli.kernel.run_environment import UsageError
from agent_cli.kernel.session.completion_record import (
    STEP_MARKS,
    VERDICTS,
    CompletionRecord,
    RecordedStep,
)
from agent_cli.kernel.session.view import SessionView
from agent_cli.kernel.session.view_entries import MessageView, WorkDone
from agent_cli.policy.git_use import NotUsableError, Use, git_to_review
from agent_tools.process.guarded_git import GitError, GitRun, without_filters
from agent_tools.record import Value
from agent_tools.text import one_line, shorten

# Notes of others, as `share_settings` fetches them.
_FETCHED = "refs/notes/remotes"
VERSION = 1
# Larger notes are cut when they are written, and not read.
MAX_NOTE_BYTES, _MAX_READ_BYTES = 16_000, 256_000
_MAX_ASKED_CHARS, _MAX_TEXT_CHARS, _MAX_FILES, _MAX_EVIDENCE = 300, 200, 40, 6
_MAX_COMMITS, _MAX_REFS, _MAX_SHOWN = 50, 20, 60
# The key in the repository's own configuration that says that the user has agreed to notes.
_AGREED = "agent.notes"
_WRITTEN = re.compile(r"agent ([0-9a-f]{8})\b")


class NoteLine(Value):
    """A JSON line of a note. asked, model: of a turn. text, status, verdict, files, evidence, turns: of a step."""

    session: str
    n: int
    kind: Literal["turn", "step", "cut"]
    turn: int = 0
    asked: str = ""
    model: str = ""
    text: str = ""
    status: str = ""
    verdict: str = ""
    turns: tuple[int, ...] = ()
    files: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()


class CommitNote(Value):
    """A note as it was read. damaged: lines that cannot be read. newer: lines of a later version of this format."""

    lines: tuple[NoteLine, ...] = ()
    damaged: int = 0
    newer: int = 0

    def lines_about(self, path: str) -> list[str]:
        """Return what it says of a file, as lines for a reader: requests, steps and their evidence."""
        lines: list[str] = []
        for session in dict.fromkeys(line.session for line in self.lines):
            mine = [line for line in self.lines if line.session == session]
            steps = [line for line in mine if line.kind == "step" and path in line.files]
            numbers = {n for step in steps for n in step.turns}
            asked = [line for line in mine if line.kind == "turn" and (line.turn in numbers or not steps)]
            lines += [f"session {session}, asked of {turn.model or 'a model'}: {turn.asked}" for turn in asked]
            for step in steps:
                verdict = VERDICTS.get(step.verdict, "")  # type: ignore[call-overload]
                mark = STEP_MARKS.get(step.status, "[?]")
                title = f"{mark} {step.text}" if step.text else "work for no step"
                lines += [f"  {title}{f' - {verdict}' if verdict else ''}", *(f"      {ran}" for ran in step.evidence)]
        if len(lines) > _MAX_SHOWN:
            lines = [*lines[:_MAX_SHOWN], f"(and {len(lines) - _MAX_SHOWN} more lines)"]
        if any(line.kind == "cut" for line in self.lines):
            lines.append("(the note was cut at its limit)")
        if self.damaged:
            lines.append(f"({self.damaged} damaged line{'s' * (self.damaged > 1)} of the note cannot be read)")
        if self.newer:
            lines.append("(the note has lines of a later version of agent)")
        return lines


def _note_text(
    view: SessionView, record: CompletionRecord, session: str, files: Sequence[str], redact: Callable[[str], str]
) -> str:
    """Return the note of a session for a commit. files: of the commit, from the top of the repository."""
    name, wanted = session[:8], {*files}

    def clean(text: str, limit: int) -> str:
        return shorten(redact(text), limit)

    def touches(step: RecordedStep) -> bool:
        return any(file.path in wanted for file in step.files)

    plans = [plan for plan in record.plans if any(map(touches, plan.steps))] or list(record.plans)
    steps = [(plan, number, step) for plan in plans for number, step in enumerate(plan.steps, 1)]
    outside = [record.outside] if record.outside and (touches(record.outside) or not plans) else []
    head = [f"agent {name}: {clean(record.summary, _MAX_TEXT_CHARS)}"]
    rows: list[dict[str, Any]] = []
    turns = dict.fromkeys([plan.turn for plan in plans] + [n for _, _, step in steps for n in step.turns])
    turns |= dict.fromkeys(n for step in outside for n in step.turns)
    for number in sorted(turns):
        if 1 <= number <= len(view.turns):
            turn = view.turns[number - 1]
            asked = clean(turn.words, _MAX_ASKED_CHARS)
            rows.append({"kind": "turn", "turn": number, "asked": asked, "model": clean(turn.model, 80)})
    for plan, place, step in steps:
        text = clean(step.text, _MAX_TEXT_CHARS)
        proof = VERDICTS[step.verdict]
        head.append(f"agent {name} {place:>2} {STEP_MARKS[step.status]} {text}{f' - {proof}' if proof else ''}")
        approved = {"approved": clean(plan.approved, 40)} if plan.approved else {}
        rows.append({"kind": "step", "text": text, **approved, **_step_fields(step, clean)})
    rows += [{"kind": "step", "text": "", **_step_fields(step, clean)} for step in outside]
    lines, size = head, sum(len(line) + 1 for line in head)
    for number, row in enumerate(rows, 1):
        line = redact(json.dumps({"v": VERSION, "session": name, "n": number, **row}, separators=(",", ":")))
        if size + len(line) > MAX_NOTE_BYTES:
            line = json.dumps({"v": VERSION, "session": name, "n": number, "kind": "cut"}, separators=(",", ":"))
            return "\n".join([*lines, line]) + "\n"
        lines, size = [*lines, line], size + len(line) + 1
    return "\n".join(lines) + "\n"


def _step_fields(step: RecordedStep, clean: Callable[[str, int], str]) -> dict[str, Any]:
    inside = [clean(file.path, _MAX_TEXT_CHARS) for file in step.files if not file.path.startswith(("/", "~"))]
    ran = []
    for each in step.evidence[:_MAX_EVIDENCE]:
        code = "killed" if each.code is None else f"exit {each.code}"
        how = f" ({each.outcome})" if each.outcome else ""
        stale = f", changed after it: {clean(each.stale, 80)}" if each.stale else ""
        ran.append(f"{clean(each.command, 120)}: {code}{how}{stale}")
    return {
        "status": step.status, "verdict": step.verdict, "turns": list(step.turns), "files": inside[:_MAX_FILES],
        "evidence": ran,
    }  # fmt: skip


def read_note(text: str) -> CommitNote:
    """Read a note by any author. Lines of other programs are left out."""
    found: list[NoteLine] = []
    damaged = newer = 0
    for line in text.splitlines():
        if not line.lstrip().startswith("{"):
            continue
        try:
            data = json.loads(line)
            if isinstance(data.get("v"), int) and data["v"] > VERSION:
                newer += 1
            else:
                found.append(_note_line(data))
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            damaged += 1
    return CommitNote(tuple(sorted(dict.fromkeys(found), key=lambda line: (line.session, line.n))), damaged, newer)


def _note_line(data: Mapping[str, Any]) -> NoteLine:
    """Return the fields of a line, shortened. Raises an error of the kinds that `read_note` counts."""

    def texts(name: str) -> tuple[str, ...]:
        return tuple(shorten(_of(str, each), _MAX_TEXT_CHARS + 100) for each in data.get(name, [])[:_MAX_FILES])

    if (
        data["v"] != VERSION
        or data["kind"] not in ("turn", "step", "cut")
        or not re.fullmatch(r"[0-9a-f]{8}", data["session"])
    ):
        raise ValueError
    limits = {"asked": _MAX_ASKED_CHARS, "model": 80, "text": _MAX_TEXT_CHARS, "status": 20, "verdict": 20}
    known = {name: shorten(_of(str, data.get(name, "")), most) for name, most in limits.items()}
    turns = tuple(_of(int, n) for n in data.get("turns", [])[:_MAX_FILES])
    return NoteLine(
        data["session"], _of(int, data["n"]), data["kind"], _of(int, data.get("turn", 0)), **known, turns=turns,
        files=texts("files"), evidence=texts("evidence"),
    )  # fmt: skip


def _of(kind: type[Any], value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError
    return value


class BlamedCommit(Value):
    """The commit that wrote a line, and the name of the file in it; "" for a line that is not committed."""

    commit: str
    path: str
    author: str = ""
    time: str = ""
    subject: str = ""


class NotesRepository:
    """The repository, for notes. Its hooks, filters and programs do not run. Raises UsageError."""

    REF = "refs/notes/agent"

    def __init__(self, root: Path, use: Use, env: Mapping[str, str]) -> None:
        self._redact = Redactor(env)
        try:
            found: GitRun = git_to_review(root, env, use, locks=True)
            self._git = found.with_settings(without_filters(found))
        except (NotUsableError, GitError) as error:
            raise UsageError(f"git cannot be used here: {one_line(str(error))}.") from None

    def _run(self, *words: str, feed: bytes = b"", most: int = _MAX_READ_BYTES) -> str:
        try:
            return self._git.run(*words, feed=feed, most=most).decode("utf-8", "replace")
        except GitError as error:
            raise UsageError(f"git {words[0]}: {shorten(str(error), 200)}.") from None

    def _ask(self, *words: str) -> str:
        """Return what git prints; "" if it fails."""
        try:
            return self._run(*words)
        except UsageError:
            return ""

    def commit(self, name: str) -> str:
        """Return the ID of a commit. Raises UsageError."""
        found = self._ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}").strip()
        if not found:
            raise UsageError(f"There is no commit {shorten(name, 60)}.")
        return found

    def subject(self, commit: str) -> str:
        """Return the short ID and the subject of a commit."""
        return one_line(self._ask("log", "-1", "--format=%h %s", commit).strip())

    def files(self, commit: str) -> list[str]:
        """Return the files that a commit changed."""
        words = ("diff-tree", "--root", "--no-commit-id", "-r", "-z", "--name-only", commit)
        return [name for name in self._run(*words, most=16 << 20).split("\0") if name]

    def text(self, view: SessionView, record: CompletionRecord, session: str, commit: str) -> str:
        """Return the note of a session for a commit, without secrets."""
        return _note_text(view, record, session, self.files(commit), self._redact)

    def made(self, view: SessionView, record: CompletionRecord) -> list[str]:
        """Return the commits that a session made, as its log has them: those of its calls, and the user's with /commit.

        Only what is in the history of HEAD: others were replaced since, by a rebase or an amended commit.
        """
        found = [commit for done in view.work if isinstance(done, WorkDone) for commit in self._between(done)]
        for entry in view.entries:
            said = entry.message.text if isinstance(entry, MessageView) else ""
            if match := NAMED_COMMIT.match(said):
                found += self._ask("rev-parse", "--verify", "--quiet", f"{match[1]}^{{commit}}").split()
        here = {*self._ask("rev-list", "-n", "2000", "HEAD").split()}
        changed = {file.path for file in record.files}
        return [c for c in dict.fromkeys(found) if c in here and {*self.files(c)} & changed][:_MAX_COMMITS]

    def _between(self, done: WorkDone) -> Iterator[str]:
        """Yield the commits that a call made: a checkout or a pull moves HEAD to older ones."""
        if len(done.heads) < 2 or not done.time:
            return
        before, after = done.heads
        began = datetime.fromisoformat(done.time).timestamp() - done.seconds
        ends = [after, *([f"^{before}"] if before else [])]
        # Git's times are whole seconds.
        rows = self._ask("log", f"-{_MAX_COMMITS}", "--reverse", "--format=%H %ct", *ends, "--").splitlines()
        yield from (row.split()[0] for row in rows if int(row.split()[1]) >= int(began) - 1)

    def blame(self, path: str, line: int) -> BlamedCommit | None:
        """Return the commit that wrote a line of a file; None if git does not know the file."""
        out = self._ask("blame", "--porcelain", "-L", f"{line},{line}", "--", path)
        head, *rows = out.splitlines() or [""]
        commit = head.partition(" ")[0]
        if not re.fullmatch(r"[0-9a-f]{40,64}", commit):
            return None
        facts = dict(row.partition(" ")[::2] for row in rows if not row.startswith("\t"))
        if not commit.strip("0"):
            return BlamedCommit("", path)
        time = datetime.fromtimestamp(int(facts.get("author-time", "0")), tz=None).strftime("%Y-%m-%d")
        return BlamedCommit(
            commit, facts.get("filename", path), shorten(facts.get("author", ""), 60), time,
            shorten(facts.get("summary", ""), 100),
        )  # fmt: skip

    def read(self, commit: str) -> CommitNote:
        """Return the notes of a commit: the user's own, and those fetched from others. Raises UsageError."""
        fetched = self._ask("for-each-ref", f"--count={_MAX_REFS}", "--format=%(refname)", _FETCHED).split()
        texts = [self._text(ref, commit) for ref in (self.REF, *fetched)]
        return read_note("\n".join(texts))

    def _text(self, ref: str, commit: str) -> str:
        blob = self._ask("notes", f"--ref={ref}", "list", commit).strip()
        if not blob:
            return ""
        if int(self._ask("cat-file", "-s", blob).strip() or _MAX_READ_BYTES) >= _MAX_READ_BYTES:
            raise UsageError(f"The note of {commit[:10]} is too large to be read ({ref}).")
        return self._run("cat-file", "blob", blob)

    @property
    def agreed(self) -> bool:
        """True if the user has agreed to notes in this repository."""
        return self._ask("config", "--local", "--get", _AGREED).strip() == "true"

    def offer(
        self, commit: str, session: str, text: str, show: Callable[[str], None], ask: Callable[[str], bool]
    ) -> bool:
        """Write a note; return False if the user declines. In a repository without notes, show it first and ask."""
        if not self.agreed:
            show(f"The note of {self.subject(commit)}, in {self.REF}. It is not pushed.")
            for line in text.splitlines():
                show(f"  {line}")
            if not ask("Write this note, and others in this repository without asking again?"):
                return False
            self._run("config", "--local", _AGREED, "true")
        self.write(commit, session, text)
        return True

    def write(self, commit: str, session: str, text: str) -> None:
        """Write the note of a session to a commit, in place of its earlier one. Raises UsageError."""
        before = self._text(self.REF, commit)
        name = session[:8]
        kept = [line for line in before.splitlines() if line.strip() and not _is_of(line, name)]
        whole = "\n".join([*kept, text])
        self._run("notes", f"--ref={self.REF}", "add", "-f", "-F", "-", commit, feed=whole.encode("utf-8", "replace"))

    def remotes(self) -> list[str]:
        return self._ask("remote").split()

    def missing_settings(self, remote: str) -> list[tuple[str, str]]:
        """Return the settings for sharing that the repository does not have."""
        return [
            (key, value)
            for key, value in share_settings(remote)
            if value not in self._ask("config", "--local", "--get-all", key).splitlines()
        ]

    def share_commands(self, remote: str) -> list[str]:
        """Return the commands that send notes to the others, and merge theirs."""
        return [f"git notes --ref=agent merge {_FETCHED}/{remote}/agent", f"git push {remote} {self.REF}"]

    def add_setting(self, key: str, value: str) -> None:
        self._run("config", "--local", "--add", key, value)


def _is_of(line: str, session: str) -> bool:
    """Return True if a line of a note is of a session."""
    if (match := _WRITTEN.match(line)) is not None:
        return match[1] == session
    return f'"session":"{session}"' in line[:200]


def share_settings(remote: str) -> list[tuple[str, str]]:
    """Return the settings of git with which notes are fetched, merged, and kept by rebases and amended commits.

    There is none to push them: a refspec for pushes in the configuration replaces what a plain `git push` pushes.
    """
    return [
        (f"remote.{remote}.fetch", f"+refs/notes/agent*:{_FETCHED}/{remote}/agent*"),
        ("notes.agent.mergeStrategy", "cat_sort_uniq"),
        ("notes.rewriteRef", NotesRepository.REF),
    ]
