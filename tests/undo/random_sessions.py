"""A folder in which an agent, a user and crashes change things by chance, and what is true about it."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

from agent_cli.kernel.messages import UserMessage
from agent_cli.undo.recorder import Recorder
from agent_cli.undo.scanner import SizeLimits
from agent_cli.undo.store import Store, StoreConfig
from agent_cli.undo.undo import UndoManager
from agent_tools.base import Effect
from tests.support.file_trees import Tree, tree_of
from tests.support.repositories import git

LIMIT = 20_000


class Play:
    """One session in one folder. truth: for each turn, what each call found and left."""

    def __init__(self, base: Path, seed: int, *, repository: bool) -> None:
        self.random = random.Random(seed)
        self.root = base / "work"
        self.root.mkdir(parents=True)
        self.where = StoreConfig(
            base / "state/snapshots/p", (self.root,), os.environ["PATH"], str(base / "home"), "s",
            SizeLimits(LIMIT, 20 * LIMIT),
        )  # fmt: skip
        self.repository = repository
        self.calls = 0
        self.truth: dict[int, list[tuple[Tree, Tree]]] = {}
        self.torn: set[int] = set()
        for _ in range(12):
            self._put(self._path(), self._content())
        (self.root / ".gitignore").write_text("ignored/\n*.log\n")
        if repository:
            git(self.root, "init", "-q")
            git(self.root, "add", "-A")
            git(self.root, "commit", "-qm", "first")
            self._put("staged.txt", b"staged\n")
            git(self.root, "add", "staged.txt")
        self.open()

    def open(self) -> None:
        """As a new process would."""
        self.recorder = Recorder(self.where, str, lambda: "m")
        self.undoing = UndoManager(Store(self.where))

    def turn(self, number: int) -> None:
        """A turn of one to three calls, with the user at work in between, and perhaps a crash in the last."""
        self.recorder.turn([UserMessage(f"turn {number}")], new=True)
        self.truth[number] = []
        for _ in range(self.random.randint(1, 3)):
            self.call(number)
            if self.random.random() < 0.2:
                self.person()
        if self.random.random() < 0.1:
            self.call(number, crash=True)
            self.open()

    def call(self, number: int, *, crash: bool = False) -> None:
        self.calls += 1
        call, before = f"c{self.calls}", tree_of(self.root)
        path = self._path(ignored=True)
        in_the_way = any(p.is_symlink() or p.is_file() for p in (self.root / path).parents)
        if self.random.random() < 0.4 and not in_the_way and not (self.root / path).is_dir():
            self.recorder.before(call, "Write", "Write", [Effect("write", str(self.root / path))], str(self.root))
            self._put(path, self._content())
        else:
            names = [self._path(ignored=True) for _ in range(self.random.randint(1, 4))]
            command = "touchall " + " ".join(f"'{n}'" for n in names)
            if self.random.random() < 0.15:
                command = "rm -rf ignored"
            self.recorder.before(call, "Bash", "Run", [Effect("run", command)], str(self.root))
            if command == "rm -rf ignored":
                self._clear(self.root / "ignored")
            else:
                for name in names:
                    self._disturb(name)
        if crash:
            self.torn.add(number)
            if self.random.random() < 0.5:
                (self.where.folder / "index-x.lock").write_bytes(b"")
        else:
            self.recorder.after(call)
        self.truth[number].append((before, tree_of(self.root)))

    def person(self) -> None:
        """The user changes something, commits, or tidies up their repository."""
        dice = self.random.random()
        if self.repository and dice < 0.15:
            git(self.root, "add", "-A")
            git(self.root, "commit", "-qm", "more", "--allow-empty")
        elif self.repository and dice < 0.2:
            git(self.root, "gc", "-q", "--prune=now")
        else:
            for _ in range(self.random.randint(1, 2)):
                self._disturb(self._path())

    def combined_changes(self, number: int) -> dict[str, tuple[object, object, bool]]:
        """What a turn really did to each path: first state, last state, and whether somebody came in between."""
        found: dict[str, tuple[object, object, bool]] = {}
        for before, after in self.truth[number]:
            for path in before.keys() | after.keys():
                old, new = before.get(path), after.get(path)
                if old != new:
                    first, last, between = found.get(path, (old, old, False))
                    found[path] = (first, new, between or last != old)
        return {path: t for path, t in found.items() if t[0] != t[1] or t[2]}

    def _disturb(self, name: str) -> None:
        path, dice = self.root / name, self.random.random()
        if dice < 0.2:
            self._clear(path)
        elif dice < 0.35 and path.is_file() and not path.is_symlink():
            path.chmod(self.random.choice((0o600, 0o755, 0o640, 0o644, 0o700)))
        elif dice < 0.5:
            self._put(name, b"")
            self._clear(path)
            path.symlink_to(self.random.choice(("a/f0", "nowhere", "/etc/hostname", "..")))
        elif dice < 0.6:
            # A folder where a file was, or a file where a folder was.
            self._put(name, b"")
            self._clear(path)
            self._put(f"{name}/inner", self._content())
        else:
            self._put(name, self._content())

    def _clear(self, path: Path) -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif os.path.lexists(path):
            path.unlink()

    def _put(self, name: str, data: bytes) -> None:
        path = self.root / name
        for parent in [p for p in path.parents if p != self.root and p.is_relative_to(self.root)][::-1]:
            if os.path.lexists(parent) and (parent.is_symlink() or not parent.is_dir()):
                parent.unlink()
        path.parent.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(path):
            self._clear(path)
        path.write_bytes(data)

    def _path(self, *, ignored: bool = False) -> str:
        folder = self.random.choice(("", "a/", "a/b/", "c d/", "é/", "ignored/" if ignored else "a/"))
        return f"{folder}f{self.random.randint(0, 4)}{self.random.choice(('', '', '.log' if ignored else ''))}"

    def _content(self) -> bytes:
        kind = self.random.random()
        if kind < 0.05:
            return self.random.randbytes(LIMIT + 1_000)
        return self.random.randbytes(40) if kind < 0.3 else b"line\r\n" * self.random.randint(0, 5)
