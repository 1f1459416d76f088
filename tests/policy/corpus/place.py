"""The workspace that the corpus is about: a small git repository, with a home and files outside of it."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

from agent_cli.kernel.decisions import Decision
from agent_cli.kernel.rules import read_rule
from agent_cli.policy.policy import Policy
from agent_tools.base import Effect
from agent_tools.fs.workspace import Workspace
from tests.policy.corpus import Case

PATH = "/usr/local/bin:/usr/bin:/bin"
FILES = {
    "README.md": "# A project\n\nTODO: words about it.\n",
    "a.txt": "one\ntwo\nthree\n",
    "b.txt": "one\n2\nthree\n",
    "list.txt": "a.txt\nb.txt\n",
    "secrets.lst": "a.txt\n./deploy/.env.production\n",
    "options.lst": "a.txt\n-C /etc\n",
    "outside.lst": "../outside/secret.txt\n",
    "package.json": '{"name": "x", "scripts": {"test": "true"}}\n',
    "Makefile": "all:\n\ttrue\n",
    "src/main.py": "import util\n\n\ndef main():  # TODO\n    print(util.one)\n",
    "src/util.py": "one = 1\n",
    "src/deep/x.js": "let x = 1\n",
    "tests/test_main.py": "def test_one():\n    assert 1\n",
    "docs/guide.md": "A guide.\n",
    "two words.txt": "x\n",
    "dash/-delete": "",
    "dash/a": "",
    "src.patch": "--- a/src/main.py\n+++ b/src/main.py\n@@ -1 +1 @@\n-import util\n+import os\n",
    ".gitignore": ".env\n*.log\n",
    ".env": "KEY=1\n",
    ".env.example": "KEY=\n",
    ".keys/id_rsa": "k\n",
    ".keys/id_x": "k\n",
    "deploy/.env.production": "KEY=1\n",
    "nested/.git/HEAD": "ref: refs/heads/main\n",
    "nested/x.txt": "x\n",
    "same/.env": "KEY=2\n",
    "data/f": "x\n",
}


def build(folder: Path, *, git: bool = False) -> Path:
    """Make the workspace below a folder. git: a real repository, with two commits and a change."""
    root = folder / "work"
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "home" / ".ssh").mkdir(parents=True)
    (folder / "outside" / "sub").mkdir(parents=True)
    (folder / "outside" / "secret.txt").write_text("s\n")
    (root / "out").symlink_to(folder / "outside")
    (root / "out_sub").symlink_to(folder / "outside" / "sub")
    (root / "out_file").symlink_to(folder / "outside" / "secret.txt")
    (root / "[x]file").symlink_to(folder / "outside" / "secret.txt")
    (root / "notes").symlink_to(".env")
    (root / "process").symlink_to("/proc/self/cwd")
    (root / "deeper").symlink_to("src/deep")
    (root / "src" / "top").symlink_to(root)
    (root / ".git").mkdir()
    if git:
        _repository(root)
    return root


def _repository(root: Path) -> None:
    env = {
        "PATH": PATH,
        "HOME": str(root.parent / "home"),
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{who}_{what}": "x@y.z" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    (root / ".git").rmdir()

    def git(*words: str) -> None:
        subprocess.run(["git", *words], cwd=root, env=env, check=True, capture_output=True)

    git("init", "-q", "-b", "main", ".")
    git("add", "README.md", "a.txt", "src/main.py", "src/util.py", ".gitignore", "Makefile", "docs", "tests")
    git("commit", "-qm", "first")
    (root / "a.txt").write_text("one\ntwo\nthree\nfour\n")
    git("commit", "-qam", "second")
    git("tag", "v1")
    git("branch", "other")
    (root / "b.txt").write_text("one\n2\n")
    (root / "src" / "util.py").write_text("one = 2\n")


def policy(case: Case, root: Path) -> Policy:
    """The gate under which a case is decided."""
    lists = (("allow", case.allow), ("ask", case.ask), ("deny", case.deny))
    rules = [read_rule(kind, text, "test", root) for kind, texts in lists for text in texts]  # type: ignore[arg-type]
    workspace = Workspace(root, cwd=root / case.cwd if case.cwd else None, home=str(root.parent / "home"))
    return Policy(
        workspace,
        rules,
        case.mode,  # type: ignore[arg-type]
        home=str(root.parent / "home"),
        env={"PATH": PATH.replace("{root}", str(root)), "EXPORTED": "x"},
        carried=lambda: {n: v.replace("{root}", str(root)) for n, v in case.carried},
        git_use="trusted" if case.trusted else "unknown",
    )


def decide(case: Case, root: Path) -> Decision:
    """The decision about a case; `{root}` and `{out}` in its command stand for the folders.

    It is taken in the workspace, where the program runs, so that what the gate would find in /proc is there.
    """
    with contextlib.chdir(root):
        return policy(case, root).decide("Bash", [Effect("run", spelled(case.command, root))])


def spelled(command: str, root: Path) -> str:
    """The command line with the folders in it."""
    return command.replace("{root}", str(root)).replace("{out}", os.path.realpath(root.parent / "outside"))
