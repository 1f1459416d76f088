"""Everyday commands have the same output, exit code and effect in the sandbox as outside: nothing stands in for missing
names. (In a git directory, missing names are created while a command runs, so it is left out where files are listed.)
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from tests.support.hypothesis_examples import cases
from tests.support.sandboxes import SandboxTester

PYTHON = sys.executable
WHO = {
    name: value
    for role in ("AUTHOR", "COMMITTER")
    for name, value in ((f"GIT_{role}_NAME", "n"), (f"GIT_{role}_EMAIL", "n@example.org"),
                        (f"GIT_{role}_DATE", "2026-01-02T03:04:05Z"))
}  # fmt: skip
# Copies and archives go to the folder for temporary files.
COMMANDS = [
    "git status",
    "git status --short --ignored",
    "git add -A && git status --short",
    "git add -A && git commit -m all && git show --stat",
    "git commit -qam changed; git log --oneline",
    "git stash",
    "git stash -u",
    "git stash -u && git status --short && git stash pop",
    "git stash -a && ls -A && git stash pop && ls -A",
    "git stash -u && git checkout -q feature && git checkout -q - && git stash pop",
    "git clean -fd",
    "git clean -fdx",
    "git clean -fdx && git status --short --ignored && ls -A",
    "git clean -ndx",
    "git checkout feature",
    "git checkout -b new && git branch",
    "git switch feature && git switch -",
    "git merge feature",
    "git stash -q; git merge feature && git log --oneline | wc -l",
    "git stash -q; git rebase -q feature",
    "git cherry-pick feature",
    "git stash -q; git revert --no-edit HEAD",
    "git reset --hard",
    "git reset --hard && git clean -fd && git status",
    "git rm -q --cached a.txt; git status --short",
    "git mv a.txt b.txt; git status --short",
    "git diff; git diff --cached --stat",
    "git ls-files --others --exclude-standard; git ls-files --others --directory",
    "git grep -n one; git blame HEAD -- a.txt",
    "git archive feature | tar t",
    "git checkout feature -- . && git status --short",
    "git restore . && git status --short",
    "git gc -q && git repack -adq && git prune && git pack-refs --all && git status --short",
    "git submodule status; git worktree list; git check-ignore -v x.log",
    "ls -A",
    "ls -a1 | wc -l; echo .[a-z]*; echo *",
    "find . -path ./.git -prune -o -print | sort",
    "find . -maxdepth 1 -name '.*' | sort",
    "for n in .mcp.json .vscode .agentrc .agent .claude .idea; do test -e $n && echo $n; cat $n; done",
    "tar cf $TMPDIR/a.tar --exclude=.git . && tar tf $TMPDIR/a.tar | sort",
    "rm -rf $TMPDIR/copy; cp -r . $TMPDIR/copy && rm -rf $TMPDIR/copy/.git && find $TMPDIR/copy -type f | wc -l",
    "rsync -a --exclude .git . $TMPDIR/synced && ls -A $TMPDIR/synced",
    "zip -qr $TMPDIR/a.zip . -x '.git/*' && unzip -Z1 $TMPDIR/a.zip | sort",
    "make",
    f"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 {PYTHON} -m pytest -q -p no:cacheprovider | sed 's/ in .*//'",
    "npm pack --dry-run 2>&1 | grep -v debug-0.log | sort",
    f"{PYTHON} -c 'import os; print(sorted(os.listdir()))'",
    f'{PYTHON} -c \'from shutil import *; copytree(".", "c", ignore=ignore_patterns(".git"))\' && ls -A c',
    "grep -rl one --exclude-dir=.git . | sort; du -a --exclude=.git . | wc -l",
    "sed -i s/one/two/ a.txt; mkdir -p d/e; touch d/e/f; mv d g; rm -rf g/e; ls -A . g",
]
PROGRAMS = {"make", "rsync", "zip", "npm"}


# Without a look for a new version.
NPM = {"npm_config_update_notifier": "false"}


def run(command: str, root: Path, home: Path, temp: Path) -> tuple[str, int]:
    """Run a command without a sandbox."""
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C", "TMPDIR": str(temp), **WHO, **NPM}
    env |= {"GIT_CONFIG_NOSYSTEM": "1", "npm_config_cache": f"{temp}/npm"}
    done = subprocess.run(
        ["/bin/bash", "--noprofile", "--norc", "-c", command], cwd=root, env=env, check=False, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return done.stdout, done.returncode


def run_inside(command: str, tester: SandboxTester) -> tuple[str, int]:
    env = {"TMPDIR": "/tmp", "npm_config_cache": "/tmp/npm", **WHO, **NPM}
    words = "".join(f"export {name}={value!r}; " for name, value in env.items())
    done = tester(f"{words}{command}")
    return done.out, done.code


MAKE = {
    "empty": "git init -q -b main .",
    "small": (
        "git init -q -b main . && mkdir src && echo one > a.txt && echo 'def f(): return 1' > src/f.py"
        " && echo '*.log' > .gitignore && printf 'all:\\n\\t@ls -A\\n' > Makefile"
        " && echo 'def test_it(): pass' > test_it.py"
        ' && echo \'{"name": "p", "version": "1.0.0"}\' > package.json'
        " && git add -A && git commit -qm first && git checkout -qb feature && echo more > more.txt && git add -A"
        " && git commit -qm more && git checkout -q main"
    ),
}
MAKE["dirty"] = (
    f"{MAKE['small']} && echo changed >> a.txt && git add a.txt && echo again >> a.txt && echo new > new.py"
    " && mkdir out && echo x > out/x.log && echo y > y.log && rm src/f.py"
)


def state(root: Path) -> dict[str, object]:
    """The work tree, and what git has."""
    found: dict[str, object] = {}
    for top, folders, names in os.walk(root):
        if top == str(root):
            folders.remove(".git")
        for name in (*folders, *names):
            path = Path(top, name)
            found[os.path.relpath(path, root)] = path.read_bytes() if path.is_file() else None
    for words in ("status --porcelain --ignored", "log --all --format=%H", "stash list", "branch -v", "ls-files -s"):
        done = subprocess.run(["git", *words.split()], cwd=root, capture_output=True, check=False)
        found[words] = done.stdout
    return found


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of each kind."""
    folder = tmp_path_factory.mktemp("repositories")
    (folder / "home").mkdir()
    for name, lines in MAKE.items():
        (folder / name).mkdir()
        assert run(lines, folder / name, folder / "home", folder) == ("", 0)
    return folder


# Each command where much has changed, and in one of the other repositories in turn; with EXAMPLES=all, in all.
ROWS = cases(
    list(product(COMMANDS, MAKE)),
    [(c, name) for n, c in enumerate(COMMANDS) for name in ("dirty", ("small", "empty")[n % 2])],
)


@pytest.mark.parametrize(("command", "repository"), ROWS)
def test_a_command_does_the_same(
    bubblewrap: SandboxTester, repositories: Path, tmp_path: Path, command: str, repository: str
) -> None:
    program = next((word for word in command.split() if word in PROGRAMS), "")
    if program and shutil.which(program) is None:
        pytest.skip(f"NOT TESTED: there is no {program} here")
    temp = tmp_path / "temp"
    temp.mkdir()
    results = []
    for inside in (False, True):
        shutil.rmtree(bubblewrap.root)
        shutil.copytree(repositories / repository, bubblewrap.root, symlinks=True)
        run("git update-index -q --refresh", bubblewrap.root, bubblewrap.home, temp)
        out, code = run_inside(command, bubblewrap) if inside else run(command, bubblewrap.root, bubblewrap.home, temp)
        results.append((out.replace(str(temp), "/tmp"), code, state(bubblewrap.root)))
    outside, within = results
    assert within == outside
