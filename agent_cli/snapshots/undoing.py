"""A session's work taken back and made again: which turns an undo means, what it would do, and the doing.

An undo is written down like any work, with the state around it, so that it can be undone too: `redo`.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence

from agent_cli.snapshots.capture import capture
from agent_cli.snapshots.git import StoreError
from agent_cli.snapshots.plan import Item, Plan, describe_plan, make_plan, summed
from agent_cli.snapshots.records import RecordedChange, RecordedTurn, Story, Undone, read_history
from agent_cli.snapshots.restore import put_back
from agent_cli.snapshots.scan import Bounds
from agent_cli.snapshots.states import FileState, Touched, all_differences, merge_changes, touched
from agent_cli.snapshots.store import Store
from agent_tools.diffing import unified
from agent_tools.display import Diff
from agent_tools.values import Value

_SHOWN_BYTES = 1_000_000


class Step(Value):
    """A turn that changed something, for a list. undone: it is taken back now."""

    turn: RecordedTurn
    changes: tuple[RecordedChange, ...]
    undone: bool


def _from_message(story: Story, messages: int) -> list[int]:
    way: list[RecordedTurn] = []
    for turn in story.turns.values():
        while way and way[-1].messages >= turn.messages:
            way.pop()
        way.append(turn)
    first = next((t.turn for t in way if t.messages >= messages), None)
    return [n for n in story.turns if first is not None and n >= first]


class Undoing:
    """Undo and redo in one session."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def story(self) -> Story:
        return read_history(self.store.manifest.read())

    def steps(self) -> list[Step]:
        """The turns that changed something, in order."""
        story = self.story()
        found = []
        for number, turn in story.turns.items():
            changes = tuple(c for c in story.changes if c.turn == number)
            if changes:
                found.append(Step(turn, changes, number in story.undone))
        return found

    def latest(self) -> int | None:
        """The turn that an undo means: the latest whose work stands and did something. Raises StoreError."""
        for step in reversed(self.steps()):
            if not step.undone and self.summed([step.turn.turn]):
                return step.turn.turn
        return None

    def from_message(self, messages: int) -> list[int]:
        """The turns whose work came after the history had this many messages, on the way that it took since."""
        return _from_message(self.story(), messages)

    def changes(self, turns: Iterable[int]) -> list[RecordedChange]:
        """What the turns did, in order, as far as it stands."""
        story, wanted = self.story(), set(turns)
        return [c for c in story.changes if c.turn in wanted and c.turn not in story.undone]

    def plan(self, turns: Iterable[int]) -> Plan:
        """What it takes to undo turns. Raises StoreError."""
        return make_plan(self.store, self.changes(turns))

    def summed(self, turns: Iterable[int]) -> str:
        """What turns did, in words; "" for nothing. Raises StoreError."""
        with self.store.locked():
            return summed(touched(self.store, self.changes(turns)))

    def summed_since(self, counts: Sequence[int]) -> list[str]:
        """What was done since the history had so many messages, in words, for each of the counts. Raises StoreError."""
        story = self.story()
        standing = [c for c in story.changes if c.turn not in story.undone]
        with self.store.locked():
            work = list(zip(standing, all_differences(self.store, standing), strict=True))
        found = []
        for count in counts:
            turns = set(_from_message(story, count))
            since = [pair for pair in work if pair[0].turn in turns]
            found.append(summed(merge_changes([c for c, _ in since], [d for _, d in since])))
        return found

    def undo(self, turns: Sequence[int], items: Sequence[Item], *, part: bool = False) -> dict[str, str]:
        """Put files back; those that could not be, with why. Raises StoreError where nothing was done.

        part: what else a single turn did still stands, and can be undone later.
        """
        standing = tuple(n for n in turns if n not in self.story().undone)
        if part and len(standing) == 1:
            return self._carry_out("undo", (), items, -1, standing[0])
        return self._carry_out("undo", standing, items, -1)

    def take_back(self, calls: Collection[str], root: str) -> str:
        """Undo some calls of a turn that runs, as far as nobody has to be asked; what became of it, in words.

        Raises StoreError where nothing was done. `redo` takes it back; the turn can still be undone as a whole.
        """
        plan = make_plan(self.store, self._changes_by(calls))
        ready = plan.of("ready")
        failed = self._carry_out("undo", (), ready, -1)
        done = [i for i in ready if i.path not in failed]
        said = [f"Put back: {'; '.join(describe_plan(done, root))}." if done else "No file was put back."]
        if left := plan.of("ask", "lost"):
            said.append(f"Not put back: {'; '.join(describe_plan(left, root))}.")
        said += [f"Not put back: {path}: {why}." for path, why in failed.items()]
        return " ".join([*said, *(f"Note: {note}." for note in plan.notes)])

    def _changes_by(self, calls: Collection[str]) -> list[RecordedChange]:
        """What some calls of the latest turn did, as far as it stands."""
        story = self.story()
        here = max(story.turns, default=0)
        return [c for c in story.changes if c.turn == here and c.call in calls and c.turn not in story.undone]

    def redo_plan(self) -> tuple[int, Plan] | None:
        """The latest undo that can be taken back, and what that takes; None where there is none. Raises StoreError."""
        story = self.story()
        if not story.open_undos:
            return None
        number = story.open_undos[-1]
        op = story.ops[number]
        return number, make_plan(self.store, [RecordedChange(0, "", "undo", "", op.before, op.after)])

    def redo(self, number: int, items: Sequence[Item]) -> dict[str, str]:
        """Take an undo back. As `undo`."""
        op = self.story().ops[number]
        return self._carry_out("redo", op.turns, items, number, op.part)

    def _carry_out(
        self, kind: str, turns: tuple[int, ...], items: Sequence[Item], of: int, part: int = 0
    ) -> dict[str, str]:
        if not items:
            return {}
        store = self.store
        everything = Bounds(store.where.bounds.total, store.where.bounds.total)
        index, paths = store.where.folder / "index-named", [i.path for i in items]
        with store.locked():
            before = capture(store.git, index, paths, everything)
            failed = put_back(store, items)
            after = capture(store.git, index, paths, everything)
            store.pin((before,), (after,))
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            if len(failed) < len(items):
                store.manifest.add(Undone(kind, turns, (before,), (after,), of, now, part))
        return failed

    def diffs(self, turns: Iterable[int]) -> list[Diff]:
        """What turns did to each file, as it stands in the snapshots. Raises StoreError."""
        return self._diffs(self.changes(turns))

    def diffs_of(self, calls: Collection[str], root: str) -> list[Diff]:
        """The same of some calls of a turn that runs; paths inside `root` as seen from there. Raises StoreError."""
        return [d.but(path=d.path.removeprefix(f"{root}/")) for d in self._diffs(self._changes_by(calls))]

    def _diffs(self, changes: Sequence[RecordedChange]) -> list[Diff]:
        with self.store.locked():
            found = touched(self.store, changes)
            return [self._diff(t) for t in sorted(found.values(), key=lambda t: t.path)]

    def _diff(self, t: Touched) -> Diff:
        old, new = self._text(t.before), self._text(t.after)
        if old is None or new is None:
            return Diff(t.path, "(no text)", created=t.before is None)
        patch, added, removed = unified(old, new)
        if not patch and t.before and t.after:
            patch = f"(permissions: {t.before.mode:o} -> {t.after.mode:o})"
        if t.after is None:
            patch = f"(deleted)\n{patch}"
        return Diff(t.path, patch, added, removed, t.before is None)

    def _text(self, state: FileState | None) -> str | None:
        if state is None:
            return ""
        try:
            data = self.store.git.blob(state.oid)
            return None if len(data) > _SHOWN_BYTES or b"\0" in data else data.decode("utf-8")
        except (StoreError, UnicodeDecodeError):
            return None
