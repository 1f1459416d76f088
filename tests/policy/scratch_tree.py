"""A home with a repository in it whose branches, stash, patch and archives hold links to what may not be touched."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tarfile
import zipfile
from contextlib import suppress
from pathlib import Path

from agent_cli.kernel.decisions import Level
from agent_cli.kernel.rules import read_rule
from agent_cli.policy.policy import Policy
from agent_tools.base import Effect
from agent_tools.fs.workspace import Workspace
from agent_tools.record import Value

# Each of these files has content of its own, by which it is known wherever it is shown.
OUTSIDE = {"outside/one": "MARKoutside1", "outside/sub/two.txt": "MARKoutside2", "note.txt": "MARKoutside3"}
KEPT = {"work/.env": "MARKkept1", "work/private/plan.md": "MARKkept2", ".ssh/id_rsa": "MARKkept3"}
_PLAIN = ("a.txt", "b.txt", "plain.txt", "docs/guide.md", "docs/deep/more.md", "src/main.py", "src/util.py")
# Links of the other branch, in place of files and directories of this one.
_LINKS = {
    "a.txt": "../outside/one", "b.txt": ".env", "docs": "../outside", "src/main.py": "../private/plan.md",
    "new": "../outside", "key": "../.ssh/id_rsa",
}  # fmt: skip
DENIED = ("Read(private/**)", "Edit(private/**)")
_SECONDS = 5.0


class Seen(Value):
    """What a line did: what marked files it showed or copied, and which it changed or removed where it may not."""

    shown: tuple[str, ...]
    changed: tuple[str, ...]
    gone: tuple[str, ...]


class ScratchTree:
    """A folder to run lines in, made anew after each that changed it."""

    def __init__(self, folder: Path) -> None:
        self._ready, self.home = folder / "ready", folder / "home"
        self.work = self.home / "work"
        self._make(self._ready / "work")
        self._restore()
        self._before = self._state(self.home)

    def level(self, line: str, mode: str, allow: tuple[str, ...]) -> Level:
        rules = [read_rule("allow", text, "test", self.work) for text in allow]
        rules += [read_rule("deny", text, "test", self.work) for text in DENIED]
        env = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        policy = Policy(Workspace(self.work, home=str(self.home)), rules, mode, home=str(self.home), env=env)  # type: ignore[arg-type]
        return policy.decide("Bash", [Effect("run", line)]).level

    def run(self, line: str) -> Seen:
        """Run a line by bash; what it showed and changed. All is as before afterwards."""
        env = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LC_ALL": "C.UTF-8", "GIT_PAGER": "cat"}
        output, stored = b"", _stamps(self.work / ".git")
        ran = subprocess.Popen(
            ["/bin/bash", "--noprofile", "--norc", "-c", line], cwd=self.work, env=_identified(env),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            output, _ = ran.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        finally:
            # What it left running would change the tree of the next line.
            with suppress(ProcessLookupError):
                os.killpg(ran.pid, signal.SIGKILL)
            ran.communicate()
        after = self._state(self.home)
        different = sorted(n for n in self._before.keys() | after.keys() if self._before.get(n) != after.get(n))
        kept = [n for n in different if not n.startswith("work") or n.startswith("work/private")]
        copies = b"".join(after.get(n, (0, b""))[1] for n in different if n not in (*KEPT, *OUTSIDE))
        shown = set(re.findall(r"MARK[a-z]+\d", (output + copies).decode("utf-8", "replace")))
        if different or _stamps(self.work / ".git") != stored:
            self._restore()
        return Seen(tuple(sorted(shown)), tuple(kept), tuple(n for n in kept if n not in after))

    def _restore(self) -> None:
        if self.home.exists():
            for here, folders, _ in os.walk(self.home):
                for name in folders:
                    if not (path := Path(here, name)).is_symlink():
                        path.chmod(0o755)
            shutil.rmtree(self.home)
        shutil.copytree(self._ready, self.home, symlinks=True)

    @staticmethod
    def _state(top: Path) -> dict[str, tuple[int, bytes]]:
        """Return mode and content of every file, link and directory but those of git."""
        found = {}
        for here, folders, names in os.walk(top):
            folders[:] = [name for name in folders if name != ".git"]
            for name in (*names, *folders):
                path = Path(here, name)
                mode = path.lstat().st_mode
                data = bytes(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
                found[str(path.relative_to(top))] = (mode, data)
        return found

    def _make(self, work: Path) -> None:
        for name, text in {**OUTSIDE, **KEPT, **{f"work/{name}": name for name in _PLAIN}}.items():
            path = work.parent / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")
        (work / ".gitignore").write_text(".env\nprivate/\n*.tar\n*.zip\n*.patch\nlinks/\nlk\nin\nfile\n")
        self._git(work, "init", "-q", "-b", "main", "--template=")
        self._git(work, "add", ".")
        self._git(work, "commit", "-qm", "first")
        self._git(work, "checkout", "-qb", "trap")
        _place_links(work)
        self._git(work, "add", "-A")
        self._git(work, "commit", "-qm", "links")
        patch = self._git(work, "format-patch", "-1", "--stdout", "--no-renames")
        self._git(work, "checkout", "-q", "main")
        _place_links(work, without="docs")  # git stashes no link in place of a directory
        self._git(work, "add", "-A")
        self._git(work, "stash", "-q")
        (work / "trap.patch").write_text(patch)
        _archives(work)
        (work / "links").mkdir()
        for name, target in {"out": "../../outside", "env": "../.env", "plan": "../private/plan.md"}.items():
            (work / "links" / name).symlink_to(target)
        for name, target in {"lk": "../outside", "in": "docs", "file": "../note.txt"}.items():
            (work / name).symlink_to(target)

    @staticmethod
    def _git(work: Path, *words: str) -> str:
        env = _identified({"PATH": os.environ["PATH"], "HOME": str(work.parent)})
        return subprocess.run(["git", *words], cwd=work, env=env, check=True, capture_output=True, text=True).stdout


def _stamps(top: Path) -> list[tuple[str, int, int]]:
    """Return name, size and time of every file below a directory."""
    files = [Path(here, name) for here, _, names in os.walk(top) for name in names]
    return sorted((str(path), path.lstat().st_size, path.lstat().st_mtime_ns) for path in files)


def _identified(env: dict[str, str]) -> dict[str, str]:
    names = {f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    return {**env, **names, "GIT_CONFIG_NOSYSTEM": "1"}


def _place_links(work: Path, without: str = "") -> None:
    for name, target in _LINKS.items():
        if name == without:
            continue
        if (work / name).is_dir():
            shutil.rmtree(work / name)
        (work / name).unlink(missing_ok=True)
        (work / name).symlink_to(target)


def _archives(work: Path) -> None:
    with tarfile.open(work / "links.tar", "w") as tar, zipfile.ZipFile(work / "links.zip", "w") as packed:
        for name, target in {"t/out": "../../outside", "t/env": "../.env", "plain.txt": "private/plan.md"}.items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            tar.addfile(member)
            info = zipfile.ZipInfo(name)
            info.external_attr, info.create_system = 0o120777 << 16, 3
            packed.writestr(info, target)
