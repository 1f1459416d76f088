"""What an operand names, compared with what bash really removes: links, slashes, options that follow links, globs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from agent_cli.kernel.decisions import Level
from agent_cli.kernel.rules import read_rule, split_rules
from agent_cli.policy.impact import at_stake, reader
from agent_cli.policy.policy import Mode, Policy
from agent_tools.base import Effect
from agent_tools.fs.workspace import Workspace
from tests.support.repositories import git


class Tree:
    """A home folder with a repository in it, which has links to other folders."""

    def __init__(self, home: Path) -> None:
        self.home, self.root = home, home / "work"
        (self.root / "sub/deep").mkdir(parents=True)
        for name in ("a.txt", "b.log", "sub/c.txt", "sub/deep/d.txt", "sub/.hidden"):
            (self.root / name).write_text(name)
        (home / "precious").mkdir()
        (home / "precious/one").write_text("1")
        (home / "precious/two.txt").write_text("2")
        (home / "note.txt").write_text("note")
        (self.root / "lk").symlink_to(home / "precious")
        (self.root / "up").symlink_to("..")
        (self.root / "in").symlink_to("sub")
        (self.root / "file").symlink_to(home / "note.txt")
        (self.root / "sub/out").symlink_to(home / "precious")
        git(self.root, "init", "-q")

    def files(self) -> dict[str, str]:
        found = {}
        for here, folders, names in os.walk(self.home):
            folders[:] = [f for f in folders if f != ".git"]
            for name in (*names, *(f for f in folders if Path(here, f).is_symlink())):
                path = Path(here, name)
                found[str(path)] = str(path.readlink()) if path.is_symlink() else path.read_text()
        return found

    def policy(self, mode: Mode = "default", allow: str = "", env: dict[str, str] | None = None) -> Policy:
        rules = [read_rule("allow", r, "test", self.root) for r in split_rules(allow)]
        variables = {"PATH": os.environ["PATH"], **(env or {})}
        return Policy(Workspace(self.root), rules, mode, home=str(self.home), env=variables)

    def level(self, command: str, mode: Mode = "default", allow: str = "", env: dict[str, str] | None = None) -> Level:
        return self.policy(mode, allow, env).decide("Bash", [Effect("run", command)]).level

    def facts(self, command: str) -> str:
        policy, effects = self.policy(), (Effect("run", command),)
        return "\n".join(policy.facts("Bash", effects, policy.decide("Bash", effects)).lines)

    def lost(self, command: str) -> set[str]:
        """Run a command with the real bash; return the files that it removed or changed."""
        before = self.files()
        env = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        subprocess.run(["bash", "--noprofile", "--norc", "-c", command], cwd=self.root, env=env, capture_output=True)
        after = self.files()
        return {path for path, text in before.items() if after.get(path) != text}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    home = tmp_path / "home"
    home.mkdir()
    return Tree(home)


REMOVALS = [
    "rm -rf lk", "rm -rf lk/", "rm -rf ./lk//", "rm -rf lk/*", "rm -rf */", "rm -rf sub", "rm -rf sub/", "rm -rf in",
    "rm -rf in/", "rm -rf in/deep", "rm -rf sub/out/", "rm -rf sub/*", "rm a.txt b.log", "rm -f *.txt", "rm file",
    "rm -rf sub/../lk/", "rm -rf lk/../note.txt", "rm -rf 'lk/'", "rm -rf -- lk/", "rm -rf sub/deep/../out/",
    "find lk -delete", "find lk/ -delete", "find -H lk -delete", "find -L lk -delete", "find lk/ -name one -delete",
    "find . -name '*.txt' -delete", "find . -type f -name '*.log' -delete", "find sub -type f -delete",
    "find sub -maxdepth 1 -name '*.txt' -delete", "find . -path './sub/*' -type f ! -name 'c*' -delete",
    "find . -name '*.none' -delete", "find sub -type l -delete", "find sub/ -empty -delete", "find sub -delete",
    "> file", "echo x > file", "truncate -s 0 file", "dd if=/dev/null of=file", "cp a.txt file", "cp a.txt lk/one",
    "cp a.txt in/c.txt", "mv a.txt b.log", "mv a.txt file", "shred -n 1 -u a.txt", "unlink lk", "unlink a.txt",
]  # fmt: skip


@pytest.mark.parametrize("command", REMOVALS)
def test_what_is_at_stake_is_what_bash_removes(tree: Tree, command: str) -> None:
    git_reader = reader(str(tree.root), {"PATH": os.environ["PATH"]}, "trusted")
    marks = at_stake(command, str(tree.root), str(tree.home), git_reader)
    existing = set(tree.files())
    lost = tree.lost(command)
    if command.startswith("mv"):
        lost.discard(str(tree.root / "a.txt"))
    named = {path for path in marks if path in existing}
    assert lost <= named
    # Beyond that only what stands for the removed thing itself: the link that leads to it, the other end of a rename.
    assert named - lost <= {str(tree.root / name) for name in ("lk", "in", "file", "sub/out", "a.txt", "b.log")} | {
        str(tree.home / "note.txt")
    }


LEADING_OUT = [
    "rm -rf lk/", "rm -rf ./lk//", "rm -rf */", "rm -rf lk/.", "rm -rf up/", "rm -rf lk/*", "rm -rf sub/out/",
    "find lk/ -delete", "find -H lk -delete", "find -L . -delete", "find -L sub -name one -delete", "rm -rf in/out/",
    "find lk -follow -delete", "rm -rf sub/../lk/", "rm -rf lk/../precious", "cp -a lk/ x && rm -rf lk/",
    "mv lk/ elsewhere", "rsync -a --delete sub/ lk/", "rsync -a --delete sub/ up", "shred -u file",
    "zip -rm x.zip lk", "tar --remove-files -chf x.tar lk", "tar --remove-files -cf x.tar lk/",
    "chmod -R 000 up", "chown -R nobody up/", "truncate -s 0 file",
]  # fmt: skip


@pytest.mark.parametrize("command", LEADING_OUT)
def test_a_link_out_of_the_workspace_is_asked_about_under_a_rule(tree: Tree, command: str) -> None:
    names = "rm find cp mv rsync shred zip tar chmod chown truncate"
    assert tree.level(command, allow=", ".join(f"Bash({n}:*)" for n in names.split())) is Level.ASK
    if not command.startswith(("truncate", "shred")):
        assert tree.level(command, allow="Bash") is Level.ASK


@pytest.mark.parametrize(
    "command", ["rm -rf lk", "unlink lk", "rm -f file", "rm -rf in/deep", "rm -rf sub/", "rm -rf sub/out"]
)
def test_a_link_itself_may_be_removed_under_a_rule(tree: Tree, command: str) -> None:
    assert tree.level(command, allow="Bash(rm -rf:*), Bash(rm -f:*), Bash(rm:*), Bash(unlink:*)") is Level.ALLOW


def test_the_question_says_where_a_link_leads_and_counts_what_is_there(tree: Tree) -> None:
    facts = tree.facts("rm -rf lk/")
    assert f"lk/ is a link: deletes what is in {tree.home}/precious" in facts
    assert "deletes 2 files" in facts and "one" in facts and "two.txt" in facts
    assert "deletes 1 file (" in tree.facts("rm -rf lk")


IMPORTANT = [
    'rm -rf "$(pwd)"', 'rm -rf "`pwd`"', 'rm -rf "$(pwd)"/*', 'rm -rf "$PWD"', 'rm -rf "${PWD}"', 'rm -rf "$(pwd -P)"',
    'rm -rf "$(git rev-parse --show-toplevel)"', 'rm -rf "$(git rev-parse --show-toplevel)"/*',
    'd="$(git rev-parse --show-toplevel)"; rm -rf "$d"', 'd=$(pwd); rm -rf "$d"', 'd=$(pwd) && rm -rf "${d}/"*',
    'rm -rf "$UNSET"/*', "rm -rf $UNSET/*", 'rm -rf "${UNSET}/"', 'rm -rf "${UNSET:-/}"', "rm -rf ${UNSET:-$HOME}",
    'rm -rf "${UNSET:=/}"', 'rm -rf "${UNSET-/}"', "rm -rf ${UNSET%/}/*", 'rm -rf "${UNSET}"/.*', "rm -rf $1/*",
    'rm -rf "$(realpath .)"', 'rm -rf "$(readlink -f up)"', 'rm -rf "$(dirname "$PWD")"', 'rm -rf "$(cd .. && pwd)"',
    'rm -rf "$(echo ~)"', "rm -rf {~,sub}", "rm -rf ~", "rm -rf ~/", "rm -rf /", "rm -rf /*", "rm -rf .", "rm -rf ./*",
    "rm -rf $HOME", "rm -rf up/", "rm -rf up/*", "rm -rf sub/..", "cd ~ && rm -rf *", "cd $UNSET && rm -rf *",
    "find . -delete", "find ~ -delete", "find . -type f -delete", "find up/ -delete", "find . -exec rm -rf {} +",
    "find ~ -exec rm -rf {} \\;", "find -L sub -delete", 'find "$UNSET"/ -delete', "chmod -R 777 ~", "chmod -R 000 /",
    'chown -R nobody "$UNSET"/', 'chmod -R 777 "${HOME}"', "rsync -a --delete sub/ ~", "mv ~ /tmp/x",
    '[ -n "$x" ] && d=~; rm -rf "$d"', "x=/; rm -rf $x*", "sudo rm -rf $UNSET/*", "bash -c 'rm -rf \"$UNSET\"/*'",
    'rm -rf "${PATH:+$HOME}"', "rm -rf ~+", "rm -rf ~+/", "rm -rf ~-", 'rm -rf "$OLDPWD"', 'rm -rf "$(printenv HOME)"',
    'rm -rf "$(eval echo ~)"', 'rm -rf "$(git rev-parse --show-cdup)."', "rm -rf **/*", "rm -rf */*",
    'rm -rf "$(git rev-parse --absolute-git-dir)/.."', 'f() { rm -rf "$1"; }; f "$HOME"', 'set -- /; rm -rf "$1"',
    'a=(/ x); rm -rf "${a[0]}"', 'f() { rm -rf "$@"; }; f sub ~',
    'rm -rf "$GITHUB_WORKSPACE"', 'cd "$GITHUB_WORKSPACE" && rm -rf ./*', 'rm -rf "$CARRIED_UNKNOWN/"',
]  # fmt: skip


@pytest.mark.parametrize("command", IMPORTANT)
def test_home_root_and_workspace_are_asked_about_with_permissions_bypassed(tree: Tree, command: str) -> None:
    env = {"GITHUB_WORKSPACE": str(tree.root)}
    assert tree.level(command, "bypassPermissions", env=env) is Level.ASK
    assert tree.level(command, "bypassPermissions", allow="Bash", env=env) is Level.ASK


@pytest.mark.parametrize(
    "command",
    ["rm lk/one", "rm -rf sub/*/*", "mv lk/one .", "zip -m x lk/one", "rsync --remove-source-files lk/one x",
     "unlink lk/one", "flock x rm -rf lk/", "watch rm -rf lk/", "strace -f rm -rf lk/", "taskset 1 rm lk/one"],
)  # fmt: skip
@pytest.mark.parametrize("rules", ["Bash", ""])
def test_removals_outside_through_a_link_are_asked_about(tree: Tree, command: str, rules: str) -> None:
    assert tree.level(command, "default", allow=rules) is Level.ASK
    assert tree.level(command, "bypassPermissions", allow=rules) is Level.ASK


HARMLESS = [
    'rm -rf "$BUILD"/*', 'rm -rf "${BUILD:-/}"', "rm -rf sub", 'rm -rf "$(pwd)/sub"', 'rm -rf "$PWD/sub"/*',
    'd=$(mktemp -d); rm -rf "$d"', 'rm -rf "$UNSET"', "rm -rf $UNSET/nothing-of-this-name/x", "rm -rf lk", "rm -rf up",
    "find . -name '*.pyc' -delete", "find sub -type f -delete", "find . -name '*.txt' -exec rm {} +",
    "chmod -R u+w .", 'f() { rm -rf "$1"; }; f sub', 'rm -rf "${UNSET:+sub}"',
    'a=(sub x); rm -rf "${a[0]}"',
    'rm -rf "${UNSET:-sub}"', 'rm -rf "$(git rev-parse --show-toplevel)/sub"', "rm -rf sub/*",
    "for f in sub/*; do rm -rf \"$f\"; done", "find . -type f -newer a.txt -delete", "rm -rf $(cat list)",
]  # fmt: skip


@pytest.mark.parametrize("command", HARMLESS)
def test_other_removals_run_with_permissions_bypassed(tree: Tree, command: str) -> None:
    assert tree.level(command, "bypassPermissions", env={"BUILD": "/somewhere/build"}) is Level.ALLOW


def test_the_tree_is_not_changed_by_computing_what_is_at_stake(tree: Tree, tmp_path: Path) -> None:
    before = tree.files()
    for command in (*REMOVALS, *LEADING_OUT):
        tree.facts(command)
        at_stake(command, str(tree.root), str(tree.home), reader(str(tree.root), {}, "trusted"))
    assert tree.files() == before
    shutil.rmtree(tree.home)


@pytest.mark.parametrize("command", ["diff -r sub in", "diff -r . sub", "diff sub/ sub/deep", "diff -rq sub other"])
def test_a_comparison_that_follows_links_out_of_the_workspace_asks(tree: Tree, command: str) -> None:
    assert tree.level(command) is Level.ASK
    assert tree.level(f"{command} --no-dereference") is Level.ALLOW
