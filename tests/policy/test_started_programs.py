"""A program that a deny rule names is not started by an option or wrapper of another one: of every row that has any."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_cli.kernel.decisions import Level
from agent_cli.kernel.rules import read_rule
from agent_cli.policy.policy import Policy
from agent_cli.policy.programs.row import Row
from agent_cli.policy.programs.table import ROWS
from agent_tools.base import Effect
from agent_tools.fs.workspace import Workspace

# Programs whose options of several letters begin with one dash, and those of whose options nothing follows in the word.
_ONE_DASH = frozenset("gcc g++ cc c++ clang clang++ ld go java javac gofmt openssl".split())
_APART = frozenset(("npm", "just"))


def _option(name: str, option: str, row: Row) -> Iterator[str]:
    """Yield the ways to write an option whose value is the denied program."""
    if option in ("-E", "-P") and name == "cmake":
        yield f"{option} env wipe x"
    if name == "just" and option == "--choose":
        return
    yield f"{option} wipe"
    yield f"{option} 'wipe x'"
    if option.startswith("--"):
        yield f"{option}=wipe"
        others = [long for long in row.long if long != option]
        for size in range(4, len(option)):
            if not any(long.startswith(option[:size]) for long in others):
                yield f"{option[:size]}=wipe"
                yield f"{option[:size]} wipe"
    elif name in _ONE_DASH:
        yield f"{option}=wipe"
    elif name not in _APART:
        yield f"{option}wipe"
        flags = [f for f, role in row.roles.items() if role == "flag" and len(f) == 2 and f[1].isalpha()]
        if len(option) == 2 and not row.single:
            yield from (f"{flag}{option[1:]} wipe" for flag in flags)
            yield from (f"{flag}{option[1:]}wipe" for flag in flags)


def _wrapped(row: Row) -> Iterator[str]:
    before = " ".join(["5"] * (row.wraps or 0))
    yield f"{before} wipe x"
    yield f"{before} ./wipe x"
    yield f"-- {before} wipe x"
    for option, role in row.roles.items():
        value = "" if role == "flag" else " 1"
        yield f"{option}{value} {before} wipe x"
        if role != "flag" and option.startswith("--"):
            yield f"{option}=1 {before} wipe x"
            yield f"{option[:-1]}=1 {before} wipe x"
        elif role != "flag":
            yield f"{option}1 {before} wipe x"


def _behind(verb: str) -> Iterator[str]:
    if verb in ("*", "?"):
        yield from ("wipe x", "-y wipe x", "--yes wipe", "./wipe x")
    elif not verb.startswith("="):
        yield from (f"{verb} wipe x", f"{verb} -- wipe x", f"{verb} --flag wipe x")


def lines_of(name: str, row: Row) -> Iterator[str]:
    """Yield lines by which a program starts another one, in every way that its row has."""
    words = [form for option in row.starts.split() for form in _option(name, option, row)]
    if row.hides:
        words += ["wipe", "wipe x", "a wipe x", "-x wipe", "-c 'wipe x'", "--exec=wipe"]
    words += list(_wrapped(row)) if row.wraps is not None else []
    words += [form for verb in row.starts_after.split() for form in _behind(verb)]
    for form in words:
        yield f"{name} {form}"
        yield f"{name} {form} a"


STARTING = sorted(name for name, row in ROWS.items() if next(lines_of(name, row), ""))
GIT = [
    "git -c core.pager=wipe log", "git -c alias.x='!wipe' x", "git --config-env=core.pager=X log", "git wipe",
    "git --config-env core.pager=X log", "git --exec-path=x log", "git clone -c core.fsmonitor=wipe u",
    "git clone --config core.fsmonitor=wipe u", "git clone --conf core.fsmonitor=wipe u", "git clone -u wipe a b",
    "git clone -uwipe a b", "git clone -qu wipe a b", "git clone --upload-pack wipe a b", "git clone 'ext::wipe x' y",
    "git fetch --upload-pack=wipe .", "git fetch --upload-p wipe .", "git fetch ext::wipe", "git ls-remote ext::wipe",
    "git ls-remote --exec=wipe .", "git ls-remote --upload-pack=wipe .", "git pull --upload-pack wipe . x",
    "git fetch-pack --exec=wipe . x", "git push --receive-pack=wipe .", "git push --exec wipe .",
    "git send-pack --receive-pack=wipe . x", "git archive --remote=. --exec=wipe HEAD", "git rebase -x wipe",
    "git rebase -ix wipe", "git rebase --exec=wipe", "git rebase --exe 'wipe x'", "git bisect run wipe",
    "git bisect run -- wipe", "git submodule foreach wipe", "git submodule --quiet foreach --recursive wipe",
    "git grep -Owipe x", "git grep -O wipe x", "git grep -nOwipe x", "git grep --open-files-in-pager=wipe x",
    "git grep --op=wipe x", "git difftool -x wipe", "git difftool -yx wipe", "git difftool --extcmd=wipe",
    "git mergetool --tool=wipe", "git merge-index wipe -a", "git remote-ext o 'wipe x'", "git send-email --to-cmd=wipe",
    "git send-email --smtp-server=wipe x", "git filter-branch --tree-filter wipe HEAD", "git daemon --access-hook=wipe",
    "git instaweb -d wipe", "git web--browse -b wipe x", "git for-each-repo --config=x wipe", "git diff --ext-diff",
    "git log -p --ext-diff", "git remote add o 'ext::wipe x' && git fetch o", "git submodule add ext::wipe",
    "git config core.pager wipe && git -p log", "GIT_PAGER=wipe git log", "GIT_SSH_COMMAND=wipe git fetch",
    "GIT_EXTERNAL_DIFF=wipe git diff", "git -c gpg.program=wipe commit -S", "git -C . -c core.editor=wipe commit",
]  # fmt: skip

# Ways that no option of the row says: operands, letters of clusters, scripts and variables.
OTHERS = [
    "tar -I wipe -cf a.tar a", "tar -cIwipe -f a.tar a", "tar cIf wipe a.tar a", "tar --to-command=wipe -xf a.tar",
    "tar --to-com wipe -xf a.tar", "tar -xf a.tar --use-compress-program wipe", "tar -F wipe -cMf a.tar a",
    "tar --checkpoint=1 --checkpoint-action=exec=wipe -cf a.tar a", "tar --rsh-command=wipe -cf h:a.tar a",
    "zip -TTwipe x.zip a", "zip -qTTwipe x.zip a", "zip -T -TT 'wipe x' x.zip a", "make SHELL=wipe",
    "make 'x=$(shell wipe)'", "vim '+!wipe' a", "vim '+call system(\"wipe\")' a", "less '+!wipe' a",
    "sed 'e wipe' a", "sed '1e wipe' a", "sed 's/a/wipe/e' a", "awk 'BEGIN { system(\"wipe\") }'",
    "awk '{ print | \"wipe\" }' a", "awk 'BEGIN { \"wipe\" | getline }'", "find . -exec wipe {} +", "xargs wipe < a",
    "find . -ok wipe \\;", "find . -execdir wipe \\;", "cargo rustc -- -C linker=wipe", "go build -ldflags=-extld=wipe",
    "gcc -Wl,-plugin,wipe a.c", "mvn exec:exec -Dexec.executable=wipe", "cmake -DCMAKE_C_COMPILER=wipe .",
    "rustc -Clinker=wipe a.rs", "rustc --codegen=linker=wipe a.rs", "split --filter=wipe a", "python -m wipe",
    "yarn wipe x", "pnpm wipe", "busybox wipe", "docker run x wipe", "kubectl exec x -- wipe",
    "make CC=wipe", "make -e 'CC=wipe -x' all", "CC=wipe make", "CC=/usr/bin/wipe make", "env CC=wipe make",
    "export CC=wipe; make", "./configure CC=wipe", "meson setup b -Dx=wipe", "cmake --build . -- CC=wipe",
]  # fmt: skip


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    home = tmp_path_factory.mktemp("home")
    (work := home / "work").mkdir()
    rules = [read_rule("allow", "Bash", "test", work), read_rule("deny", "Bash(wipe:*)", "test", work)]
    return Policy(Workspace(work, home=str(home)), rules, home=str(home), env={"PATH": "/usr/bin:/bin"})


def _allowed(gate: Policy, line: str) -> bool:
    return gate.decide("Bash", [Effect("run", line)]).level is Level.ALLOW


@pytest.mark.parametrize("name", STARTING)
def test_a_denied_program_is_not_started_by_another(gate: Policy, name: str) -> None:
    lines = [line for line in lines_of(name, ROWS[name]) if not line.startswith("timeout 5 --")]
    assert [line for line in lines if _allowed(gate, line)] == []


@pytest.mark.parametrize("line", GIT + OTHERS)
def test_a_denied_program_is_not_started_by_this_line(gate: Policy, line: str) -> None:
    assert not _allowed(gate, line)


def test_a_rule_for_a_program_does_not_cover_the_code_that_its_options_name(tmp_path: Path) -> None:
    (work := tmp_path / "work").mkdir()
    found = []
    for name, row in ROWS.items():
        if row.interprets or row.wraps is not None:
            continue
        rules = [read_rule("allow", f"Bash({name}:*)", "test", work)]
        gate = Policy(Workspace(work, home=str(tmp_path)), rules, home=str(tmp_path), env={"PATH": "/usr/bin:/bin"})
        options = [option for option, role in row.roles.items() if role == "run"]
        found += [line for o in options if _allowed(gate, line := f"{name} {o} wipe")]
    assert found == []


@pytest.mark.parametrize("line", ["echo CC=wipe", "grep CC=wipe a", "make CC=gcc", "X=wipe ls", "make wiped=1"])
def test_a_value_that_runs_nothing_or_is_another_program_does_not_ask(gate: Policy, line: str) -> None:
    assert _allowed(gate, line)
