"""Command lines taken apart: which commands they would run, and what is said where that is not certain."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent_cli.policy.shell.analysis import analyse, parse_tree, plain_parts
from agent_cli.policy.shell.parser import find_shfmt, too_long
from agent_cli.policy.shell.walker import Walk
from agent_cli.policy.shell.words import Scope, SimpleCommand
from tests.support.call_counts import steps
from tests.support.hypothesis_examples import examples

CWD = "/repo"


def named(command: str) -> list[str]:
    """The commands of a line, without the wrappers around them."""
    return [" ".join(p.texts) for p in analyse(command, CWD, "/home/u").parts if p.words]


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("git status", ["git status"]),
        ("  git   status  ", ["git status"]),
        ("a && b || c; d | e", ["a", "b", "c", "d", "e"]),
        ("a\nb", ["a", "b"]),
        ("echo 'a; b' \"c && d\"", ["echo a; b c && d"]),
        ("pytest -q 2>&1 | tail -5", ["pytest -q", "tail -5"]),
        ("make > /dev/null", ["make"]),
        ("make >/dev/null 2>&1 && ls", ["make", "ls"]),
        ("ls *.py src/[ab]?", ["ls *.py src/[ab]?"]),
        ("'r'm x", ["rm x"]),
        ("r\\m x", ["rm x"]),
        ("\"rm\" 'a b'", ["rm a b"]),
        ("$'rm' x", ["rm x"]),
        ("rm \\\n x", ["rm x"]),
        ("r\\\nm x", ["rm x"]),
        ("rm x # comment", ["rm x"]),
        ("rm\tx", ["rm x"]),
        ("echo a\\ b", ["echo a b"]),
        ("! rm x", ["rm x"]),
        ("time rm x", ["rm x"]),
        ("time -p rm x", ["rm x"]),
        ("coproc rm x", ["rm x"]),
        ("rm x &", ["rm x"]),
        ("(rm x)", ["rm x"]),
        ("{ rm x; }", ["rm x"]),
        ("if a; then b; elif c; then d; else e; fi", ["a", "b", "c", "d", "e"]),
        ("while a; do b; done", ["a", "b"]),
        ("until a; do b; done", ["a", "b"]),
        ("for i in 1 2; do rm $i; done", ["rm 1", "rm 2"]),
        ("case x in a) b;; *) c;; esac", ["b", "c"]),
        ("f() { rm x; }", ["rm x"]),
        ("function f { rm x; }; f", ["rm x", "f"]),
        ("[[ $(rm x) ]]", ["rm x"]),
        ("echo $(rm x)", ["rm x", "echo $(rm x)"]),
        ("echo `rm x`", ["rm x", "echo `rm x`"]),
        ('echo "$(echo "$(rm x)")"', ["rm x", 'echo "$(rm x)"', 'echo "$(echo "$(rm x)")"']),
        ("cat <(rm x) >(rm y)", ["rm x", "rm y", "cat /dev/fd/63 /dev/fd/63"]),
        ("echo ${x:-$(rm x)}", ["rm x", "echo ${x:-$(rm x)}"]),
        ("echo ${x:-`rm x`}", ["rm x", "echo ${x:-`rm x`}"]),
        ("echo $(( $(rm x) ))", ["rm x", "echo $(( $(rm x) ))"]),
        ("echo ${a[$(rm x)]}", ["rm x", "echo ${a[$(rm x)]}"]),
        ("a[$(rm x)]=1", ["rm x"]),
        ("x=$(rm x)", ["rm x"]),
        ("a=($(rm x))", ["rm x"]),
        ("cat <<< $(rm x)", ["rm x", "cat"]),
        ("cat < $(rm x)", ["rm x", "cat"]),
        ("cat <<E\n$(rm x)\nE", ["rm x", "cat"]),
        ("cat <<'E'\n$(rm x)\nE", ["cat"]),
        ("cat <<\\E\n$(rm x)\nE\nls", ["cat", "ls"]),
        ("cat <<-A\n\t$(rm x)\n\tA\nls", ["rm x", "cat", "ls"]),
        ("cat <<A; rm x\nA", ["cat", "rm x"]),
        ("cat <<A <<B\n1\nA\n$(rm x)\nB", ["rm x", "cat"]),
        ("x=rm; $x y", ["rm y"]),
        ("x=rm y=x; $x $y", ["rm x"]),
        ("x=a y=$x; rm $y", ["rm a"]),
    ],
)
def test_every_command_is_found(command: str, parts: list[str]) -> None:
    assert named(command) == parts


@pytest.mark.parametrize(
    ("command", "inner"),
    [
        ("sudo -u root rm x", "rm x"),
        ("sudo A=1 rm x", "rm x"),
        ("env -i A=1 rm x", "rm x"),
        ("env a-b=c rm x", "rm x"),
        ("timeout -k 5 10s rm x", "rm x"),
        ("nice -n 5 nohup rm x", "rm x"),
        ("command rm x", "rm x"),
        ("command -p rm x", "rm x"),
        ("builtin cd x", "cd x"),
        ("exec -l rm x", "rm x"),
        ("\\command \\rm x", "rm x"),
        ("/usr/bin/env rm x", "rm x"),
        ("xargs rm x", "rm x …"),
        ("xargs -n1 -I{} rm {}", "rm {}"),
        ("find . -exec rm x {} +", "rm x {}"),
        ("find . -name y -ok rm x ;", "rm x"),
        ("bash -c 'rm x'", "rm x"),
        ("bash -lc 'rm x'", "rm x"),
        ("bash -euo pipefail -c 'rm x'", "rm x"),
        ("bash -O extglob -c 'rm x'", "rm x"),
        ("bash +x -c 'rm x'", "rm x"),
        ("bash -c -e 'rm x'", "rm x"),
        ("bash -c -- 'rm x'", "rm x"),
        ("bash --norc -c 'rm x' name", "rm x"),
        ("sh -c 'rm x'", "rm x"),
        ("sh -c 'eval \"rm x\"'", "rm x"),
        ("eval rm x", "rm x"),
        ("eval 'rm' \"x\"", "rm x"),
        ("trap 'rm x' EXIT", "rm x"),
        ("git --version; busybox ls; rm x", "rm x"),
        ("env -C / rm x", "rm x"),
        ("sudo --chdir=/ rm x", "rm x"),
    ],
)
def test_wrappers_are_looked_through(command: str, inner: str) -> None:
    assert inner in named(command)


@pytest.mark.parametrize(
    "command",
    [
        "", ";", "$x y", "$(echo rm) y", "\"$x\" y", "${x} y", "r{m,} y", "{rm,x}", "?m y", "/bin/r? y", "~root/x",
        "cat ~root", "echo $x", 'echo "$x"', "echo ${!x}", "echo ${x@P}", "echo ${x:=y}", "echo ${x:?y}",
        "echo ${x//a/b}", "echo $@", "echo $1", "echo ${a[0]}", "echo $((x))", "echo $((a[0]))", "((x=1))",
        "let x=1", "[[ -v x ]]", "[[ x -eq 1 ]]", "test -v 'a[x]'", "printf -v 'a[x]' y", "declare -i x=y",
        "declare -n x=y", "read 'a[x]'", "a[x]=1", "a=(1 2)", "echo $'\\x41'", "echo $\"x\"", "écho x", "echo é",
        "echo \u202e", "ls \x00", "ls\rrm x", "ls \x1b[m", "x=é", "echo $IFS", "IFS=x; ls", "PATH=x; ls",
        "export PATH=x; ls", "\\export PATH=x; ls", "for PATH in x; do ls; done", "PS4='$(x)'; set -x; ls",
        "read PATH; ls", "cat <<E\n${x@P}\nE", "cat <<E\n$((x))\nE", "case ${x:=y} in z) ;; esac",
        "for i in ${x:=y}; do ls; done", "for i in ${a[x]}; do :; done", "case x in @($(rm))) ;; esac",
        "{ ls; } {fd}>x", "exec {fd}<x", "ls 10>&1", "ls 3<x", "ls <&3", "ls >&0", "ls 2>&0", "coproc ls",
        "select x in a; do ls; done", "for ((i=0;i<3;i++)); do ls; done", "env -S 'rm x'", "env -C $x ls",
        "env -a x ls", "exec -a rm ls",
        "timeout --kill x ls", "timeout $t ls", "timeout * ls", "nice -n $n ls", "xargs ls", "find . -exec ls {} +",
        "bash -ic ls", "bash --rcfile x -c ls", "bash -c \"$x\"", "bash -c $x", "bash", "bash -s x",
        "bash /dev/stdin", "bash <(ls)", "echo ls | sh", "sh -c 'echo a$b'", "sh -c 'ls 2>/dev/null'", "eval $x",
        "eval \"$(x)\"", "xargs -I% sh -c 'echo %'", "source x", ". x", "ssh host ls", "mapfile -C x",
        "compgen -C x", "enable -f x y", "alias x=y", "git -c alias.x='!rm' x", "git submodule foreach ls",
        "git bisect run ls", "git rebase -x ls", "ls >", "ls )", "if ls", "'",
        "echo \"$(! cat <<'E'\nx\nE\n)\"", "echo \"$(tac <<'E'\nx\nE\n)\"", "echo \"$(cat <<$'E'\nx\nE\n)\"",
        "echo \"$(cat <<E\n$x\nE\n)\"", "echo \"$(cat <<'E' &\nx\nE\n)\"",
    ],
)  # fmt: skip
def test_what_is_not_certain_is_reported(command: str) -> None:
    assert analyse(command, CWD, "/home/u").unknown


@pytest.mark.parametrize(
    "command",
    [
        "echo $?", 'echo "exit: $?"', "echo $((1 + 2))", "x=a; echo $x", "x=a; echo \"$x b\"",
        "for f in a b; do cat $f; done", "X=a; if true; then X=b; fi; ls", "cat <<E\n$x\nE", "cat <<< $x",
        "[[ -n $x ]]", "[[ $x == y ]]", "case $x in a) ls;; esac", "x=$(ls); ls", "echo ~", "cat ~/x",
        "echo \"$HOME/x\"", "set -euo pipefail; ls", "f() { ls; }; f", "! ls", "ls 2>&1", "ls >&2",
        "ls 3>&1 1>&2 2>&3", "ls &>/dev/null", "ls <&-", "bash -c 'ls | wc; cat x > /dev/null'", "sh -c 'ls && ls'",
        "wait", "ls >/dev/null &", "printf '%s\\n' a", "export X=1; ls", "echo \"é\"", "echo 'é'", "command -v x",
        "head -n $((1+2)) x", "echo \"$(cat <<'E'\nx $y\nE\n)\"",
    ],
)  # fmt: skip
def test_what_is_certain_is_not_doubted(command: str) -> None:
    assert analyse(command, CWD, "/home/u").unknown == ""


@pytest.mark.parametrize(
    "command",
    [
        "x=a; x=$y; cat $x", "x=a; if true; then x=b; fi; cat $x", "x=a; true && x=b; cat $x",
        "x=a; while read x; do :; done; cat $x", "x=a; for i in 1 2; do cat $x; x=b; done",
        "x=a; f() { x=b; }; f; cat $x", "x=a; eval x=b; cat $x", "x=a; read x; cat $x", "x=a; printf -v x b; cat $x",
        "x=a; unset x; cat $x", "x=a; x+=b; cat $x", "x=a; declare -n x=y; cat $x", "x=a; mapfile x; cat $x",
        "x=a; getopts ab x; cat $x", "x=a; . y; cat $x", "x=a; (x=b); case z in *) x=c;; esac; cat $x",
        "x=$?; cat a$x", "cat a$?", "cat a$#", "x='a b'; cat $x", "x='*'; cat $x", "x=; cat $x",
        "x=a; ${y:=x}; cat $x", "cat $x; x=a", "(x=a); cat $x", "x=a | cat $x", "x=a cat $x", "x=a & cat $x",
        "_=a; cat $_", "RANDOM=1; cat $RANDOM", "SECONDS=1; cat $SECONDS", "for x in a b; do :; done; cat $x",
        "wait -p x; cat $x", "set -- a; cat $1", "let x=1; cat $x", "x=a; ((x=2)); cat $x", "x=a y=$x$z; cat $y",
        "export x=a; source y; cat $x",
    ],
)  # fmt: skip
def test_a_value_is_not_known_for_longer_than_it_holds(command: str) -> None:
    analysis = analyse(command, CWD, "/home/u")
    [cat] = [p for p in analysis.parts if p.words and p.words[0].text == "cat"][:1]
    assert cat.unknown


@pytest.mark.parametrize(
    ("command", "cwds"),
    [
        ("ls", {"/repo"}),
        ("cd a && ls", {"/repo/a"}),
        ("cd a; ls", {"/repo", "/repo/a"}),
        ("cd a || ls", {"/repo", "/repo/a"}),
        ("cd a && cd .. && ls", {"/repo"}),
        ("cd /etc && ls", {"/etc"}),
        ("(cd a); ls", {"/repo"}),
        ("cd a | true; ls", {"/repo"}),
        ("cd a & ls", {"/repo"}),
        ("(cd a && ls)", {"/repo/a"}),
        ("if cd a; then ls; fi", {"/repo", "/repo/a"}),
        ("! cd a && ls", {"/repo", "/repo/a"}),
        ("cd a && cd b; ls", {"/repo", "/repo/a", "/repo/a/b"}),
        ("{ cd a; } && ls", {"/repo", "/repo/a"}),
        ("bash -c 'cd a'; ls", {"/repo"}),
        ("bash -c 'cd a && ls'", {"/repo/a"}),
        ("cd $x; ls", None),
        ("cd; ls", None),
        ("cd -; ls", None),
        ("cd -P a && ls", None),
        ("cd a*; ls", None),
        ("CDPATH=x cd a && ls", None),
        ("while cd ..; do ls; done", None),
        ("for i in 1 2; do ls; cd ..; done", None),
        ("f() { cd a; }; f; ls", None),
        ("eval 'cd a'; ls", None),
        ("command cd a; ls", None),
        ("builtin cd a; ls", None),
        ("pushd a; ls", None),
        (". x; ls", None),
        ("f() { ls; }", None),
    ],
)
def test_where_a_command_runs(command: str, cwds: set[str] | None) -> None:
    [last] = [p for p in analyse(command, CWD).parts if p.texts[:1] == ("ls",)][-1:]
    assert (None if last.cwds is None else set(last.cwds)) == cwds


@pytest.mark.parametrize(
    ("command", "redirects"),
    [
        ("ls > a", [("write", "a")]),
        ("ls >| a", [("write", "a")]),
        ("ls &> a", [("write", "a")]),
        ("ls >& a", [("write", "a")]),
        ("ls <> a", [("read", "a"), ("write", "a")]),
        ("ls >> a 2>> b", [("append", "a"), ("append", "b")]),
        ("ls &>> a", [("append", "a")]),
        ("> a", [("write", "a")]),
        ("{ ls; } > a", [("write", "a")]),
        ("(ls) > a", [("write", "a")]),
        ("if ls; then ls; fi > a", [("write", "a")]),
        ("while ls; do ls; done < a > b", [("read", "a"), ("write", "b")]),
        ("[[ a ]] > b", [("write", "b")]),
        ("f() { ls; } > a", [("write", "a")]),
        ("ls > 'a b' < \"c\"", [("write", "a b"), ("read", "c")]),
        ("ls 3<>/dev/tcp/example.org/80", [("network", "/dev/tcp/example.org/80")]),
        ("exec > a", [("write", "a")]),
        ("echo $(ls > a)", [("write", "a")]),
        ("ls < a > /dev/stdin", [("read", "a"), ("write", "/dev/stdin")]),
        ("ls > /dev/fd/0", [("write", "/dev/fd/0")]),
        ("ls > /dev/null 2> /dev/null < /dev/null", []),
    ],
)
def test_files_of_redirections(command: str, redirects: list[tuple[str, str]]) -> None:
    found = [(r.kind, r.target) for p in analyse(command, CWD).parts for r in p.redirects]
    assert list(dict.fromkeys(found)) == redirects


def as_shfmt_reads(command: str) -> tuple[SimpleCommand, ...]:
    walk = Walk(command)
    walk.statements(parse_tree(command).get("Stmts"), Scope({}, (CWD,)))
    assert not walk.unclear
    return tuple(walk.parts)


PIECES = st.sampled_from(
    [" ", "  ", "\t", "\n", ";", "&&", "||", "|", "a", "b1", "-x", "--y=z", "'q r'", '"s;t"', "''", "a'b'", "./c",
     "@", "%1", "if", "cd", "x=1", "{", "}", "!", "#", "$x", "~", "*", "(", ")", "<", ">", "&", "\\", "`", "=", "^",
     "+", ",", ":", "]"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=12).map("".join))
@example("a;\n b")
@example("a |\n\n b;")
@example(";a")
@example("a;;b")
@example("\n\na\n")
@example("a && \n b")
@settings(max_examples=examples(300), deadline=None)
def test_plain_words_are_read_as_the_parser_reads_them(command: str) -> None:
    plain = plain_parts(command, (CWD,))
    if plain:
        assert tuple(dict.fromkeys(plain)) == as_shfmt_reads(command)
        checked = subprocess.run(
            ["bash", "--noprofile", "--norc", "-n", "-c", "--", command], capture_output=True, check=False
        )
        assert checked.returncode == 0


@given(st.lists(st.text("abc ;&|'$`\\\"()<>\n*{}~!#=", min_size=1), min_size=1, max_size=4))
@example(["$\\\n"])
@settings(max_examples=examples(50), deadline=None)
def test_quoted_words_are_what_the_shell_would_see(words: list[str]) -> None:
    found = analyse("run " + " ".join(shlex.quote(w) for w in words), CWD)
    # A line that ends behind a dollar sign is not read, whether it is quoted or not.
    assert [part.texts for part in found.parts] == [("run", *words)] or "inside of an expansion" in found.unclear


@pytest.mark.parametrize(
    "command",
    [
        "$(" * 1300 + ")" * 1300,
        "(" * 2000 + "ls" + ")" * 2000,
        '"$(echo ' * 400 + ')"' * 400,
        "echo {a," * 500,
        "echo $((" + "1+" * 1900 + "1))",
        "ls " + "a " * 2000 + "$x",
        "a|" * 2000 + "a",
        "for i in 1 2 3 4 5 6 7 8 9; do " * 9 + "ls $i" + "; done" * 9,
        "for i in a; do " * 29 + "ls $i" + "; done" * 29,
        "if a; then b; fi; " * 220,
        "cat " + "<<'a' x\n" * 30_000,
        "cat <<'E'\n" + "$(\n" * 60_000 + "E",
        "a" * 500_000,
        "\n" * 4000 + "$x",
        "[" * 4000 + "$x",
        "case x in a) " * 28 + "ls" + ";; esac" * 28,
    ],
)
def test_nothing_takes_long(command: str) -> None:
    # Loops inside loops are where it grows; the most of these has about 1.7 million.
    assert steps(lambda: analyse(command, CWD)) < 4_000_000


def in_loop(body: str) -> str:
    return f"for i in {' '.join(map(str, range(50)))}; do {body} done"


def in_shells(depth: int) -> str:
    command = "ls"
    for _ in range(depth):
        command = shlex.join(["bash", "-c", command])
    return command


@pytest.mark.parametrize(
    ("certain", "beyond", "why"),
    [
        ("&".join(f"a{n}" for n in range(400)), "&".join(f"a{n}" for n in range(401)), "too many commands"),
        (in_loop("a; " * 30), in_loop("a; " * 50), "too many commands"),
        (in_shells(6), in_shells(7), "too deeply"),
    ],
)
def test_a_line_is_looked_at_as_a_whole_or_not_certain(certain: str, beyond: str, why: str) -> None:
    assert analyse(certain, CWD, "/home/u").unknown == ""
    assert why in analyse(beyond, CWD, "/home/u").unclear


def test_a_quoted_document_does_not_count_as_length() -> None:
    body = "x $( ` \n" * 5_000
    command = f"cat > f <<'END'\n{body}END\nls"
    assert not too_long(command)
    assert named(command) == ["cat", "ls"]
    assert too_long(f"cat > f <<END\n{body}END")
    assert too_long(f"cat > f <<'END'\n{body}")
    assert too_long(f"cat <<<'END'\n{body}END\n")


def test_without_the_parser_only_plain_words_are_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_cli.policy.shell.parser.find_shfmt", lambda: None)
    assert "not installed" in analyse("echo $one").unclear
    assert analyse("ls one | wc").unclear == ""


def test_the_parser_came_with_the_program() -> None:
    assert find_shfmt()


@pytest.mark.parametrize(
    "line",
    [
        "cat .e<()nv", "cat .e>( )nv", "w<()ipe x", "rm x<()", "cat < .en<()v", "x=.e<()nv; cat $x",
        "echo a > .g<()it/config",
        "case a in *) ls $()#b > f\n;; esac", "echo $(( $(ls <<E\n\"\nE\n) + 1 ))",
    ],
)  # fmt: skip
def test_what_bash_may_read_otherwise_is_unknown(line: str) -> None:
    """Empty process substitutions vanish; what two parsers read in two ways has no value."""
    found = analyse(line, "/w", "/h")
    assert found.unknown or any(r.why for p in found.parts for r in p.redirects)


@pytest.mark.parametrize(
    "line", ["set -k && rec x=a b", "set -ek; rec x=a", "set -o keyword\nrec x=a", 'set "$o"; rec x']
)
def test_the_keyword_option_of_bash_makes_a_line_unclear(line: str) -> None:
    """After it `program NAME=value` passes no such argument."""
    assert analyse(line, CWD, "/home/u").unclear
    assert not analyse("set -eu; set -- -k x; rec x=a", CWD, "/home/u").unclear
