"""Bash: the working directory and exported variables carry over, and a command cannot tell that they are watched."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_tools.sandbox.conditions import RunConditions
from agent_tools.shell.state import (
    MAX_EXPORT_CHARS,
    NON_INTERACTIVE,
    ReportChannel,
    ShellSnapshot,
    ShellState,
    carried_state,
    parse_exports,
    restore_carried,
)
from tests.support.hypothesis_examples import examples
from tests.support.tool_bench import Bench

BASH = ["bash", "--noprofile", "--norc", "-c"]


def run_watched(command: str, env: dict[bytes, bytes], cwd: Path | None = None) -> tuple[str, dict[str, str]]:
    """Where a command ended and what it exported, by the real bash and the file that it reads."""
    channel = ReportChannel()
    try:
        whole = {**env, **{os.fsencode(n): os.fsencode(v) for n, v in channel.env.items()}}
        subprocess.run([*BASH, command], env=whole, cwd=cwd, pass_fds=(channel.fd,), check=True, capture_output=True)
        where, exported = parse_exports(channel.read())
        return str(where), exported
    finally:
        channel.close()


def test_the_directory_carries_over(bench: Bench) -> None:
    (bench.root / "a" / "b c").mkdir(parents=True)
    (bench.root / "link").symlink_to("a")
    text = bench("Bash", command="cd 'a/b c'; echo there").text
    assert text.endswith(f"]\n[working directory now: {bench.root}/a/b c]")
    assert bench("Bash", command="pwd").text.startswith(f"{bench.root}/a/b c\n[exit code 0")
    bench.file("a/here.txt", "found\n")
    bench("Bash", command="cd ..")
    assert "found" in bench("Read", file_path="here.txt").text
    bench("Bash", command="cd ../link/'b c'")
    assert bench.ctx.workspace.cwd == bench.root / "a" / "b c"
    bench("Bash", command=f"cd {bench.root} && (cd a)")
    assert bench.ctx.workspace.cwd == bench.root


def test_a_failing_command_carries_over_too(bench: Bench) -> None:
    (bench.root / "a").mkdir()
    assert bench("Bash", command="set -e; cd a; export X=1; false; echo never").is_error
    assert bench("Bash", command="echo $X; pwd").text.startswith(f"1\n{bench.root}/a\n")


def test_a_directory_outside_is_not_entered(bench: Bench) -> None:
    text = bench("Bash", command="cd /usr/bin && pwd").text
    assert text.startswith("/usr/bin\n[exit code 0")
    message = f"[the next command starts in {bench.root} again: /usr/bin is outside the workspace"
    assert message in text
    assert bench.ctx.workspace.cwd == bench.root
    assert message in bench("Bash", command="cd /usr/bin && pwd").text
    (bench.root / "out").symlink_to("/usr")
    assert "is outside the workspace" in bench("Bash", command="cd out").text
    assert bench("Bash", command="pwd").text.startswith(f"{bench.root}\n")


def test_a_directory_that_the_command_removed_is_not_entered(bench: Bench) -> None:
    text = bench("Bash", command="mkdir d && cd d && rmdir ../d").text
    assert f"[the next command starts in {bench.root} again: the directory it ended in no longer exists]" in text
    bench("Bash", command="mkdir d && cd d")
    text = bench("Bash", command="rmdir $PWD; export GONE=1").text
    assert f"[the next command starts in {bench.root} again" in text and bench.ctx.state(ShellState).variables == {
        "GONE": "1"
    }


def test_exported_variables_carry_over(bench: Bench) -> None:
    bench.ctx.env |= {"GIVEN": "1", "CHANGED": "old", "EDITOR": "vim", "HOME": str(bench.root)}
    set_them = r"""export NEW=$'two\nlines "quoted" $x `y` \\ \'z\' é' EMPTY= ; export CHANGED=new
        unset GIVEN; local_only=1
        printf -v RAW '\xff\x01\x7f'; export RAW; export PATH=/opt/mine:$PATH; readonly FIXED=5; export FIXED
        export EDITOR=emacs HOME=/tmp LD_PRELOAD= BASH_ENV=/x CDPATH=/ ; f() { :; }; export -f f; export NOVALUE
        alias q=w"""
    bench("Bash", command=set_them)
    state = bench.ctx.state(ShellState).variables
    path = bench.ctx.env["PATH"]
    assert state == {
        "NEW": "two\nlines \"quoted\" $x `y` \\ 'z' é",
        "EMPTY": "",
        "CHANGED": "new",
        "GIVEN": None,
        "RAW": "\udcff\x01\x7f",
        "PATH": f"/opt/mine:{path}",
        "FIXED": "5",
    }
    look = 'printf "%s\\n" "$NEW"; echo ${GIVEN-unset} ${EMPTY-unset} $CHANGED ${local_only-unset}'
    look += '; printf %s "$RAW" | od -An -tx1'
    assert bench("Bash", command=look).text.startswith(
        "two\nlines \"quoted\" $x `y` \\ 'z' é\nunset new unset\n ff 01 7f\n[exit code 0"
    )
    bench("Bash", command="export GIVEN=1 CHANGED=old; unset NEW EMPTY RAW FIXED; PATH=${PATH#/opt/mine:}")
    assert bench.ctx.state(ShellState).variables == {}
    assert bench("Bash", command="echo $EDITOR").text.startswith(NON_INTERACTIVE["EDITOR"])


def test_nothing_carries_over_from_what_does_not_end_by_itself(bench: Bench) -> None:
    (bench.root / "a").mkdir()
    bench("Bash", command="export X=1; cd a; sleep 30", timeout=300)
    bench("Bash", command="export X=1; cd a; kill -9 $$")
    bench("Bash", command="export X=1; cd a; exec true")
    bench("Bash", command="trap : EXIT; export X=1; cd a")
    assert bench.ctx.state(ShellState).variables == {} and bench.ctx.workspace.cwd == bench.root


def test_too_much_is_reported_and_left_out(bench: Bench) -> None:
    bench("Bash", command="export A=1")
    text = bench("Bash", command=f"export B=$(printf %{MAX_EXPORT_CHARS}s x); export A=2").text
    assert "[exported variables not carried over: more than 65,536 characters]" in text
    assert bench.ctx.state(ShellState).variables == {"A": "1"}
    assert "not carried over" in bench("Bash", command=f"export B=$(printf %{MAX_EXPORT_CHARS}s x); export A=2").text


def test_a_sub_agent_has_a_shell_of_its_own(bench: Bench) -> None:
    (bench.root / "a").mkdir()
    bench("Bash", command="export X=parent")
    parent = bench.ctx
    bench.ctx = parent.nested()
    assert bench("Bash", command="echo $X; cd a; export X=child Y=child").text.startswith("parent\n")
    assert bench("Bash", command="echo $X; pwd").text.startswith(f"child\n{bench.root}/a\n")
    assert parent.state(ShellState).variables == {"X": "parent"} and parent.workspace.cwd == bench.root


def test_keys_are_carried_but_not_written_down(bench: Bench) -> None:
    bench("Bash", command="export MY_TOKEN=hush PLAIN=seen")
    assert bench("Bash", command="echo $MY_TOKEN").text.startswith("hush\n")
    carried = carried_state(bench.ctx)
    assert carried.variables == {"PLAIN": "seen"}
    (bench.root / "a").mkdir()
    bench.ctx.state(ShellState).reset()
    restore_carried(bench.ctx, carried.replace(cwd=str(bench.root / "a")))
    assert bench("Bash", command="echo $PLAIN ${MY_TOKEN-unset}; pwd").text.startswith(f"seen unset\n{bench.root}/a\n")
    for elsewhere in ("/usr", str(bench.root / "gone")):
        restore_carried(bench.ctx, carried.replace(cwd=elsewhere))
        assert bench.ctx.workspace.cwd == bench.root / "a"


def imposing(bench: Bench, **variables: str) -> None:
    bench.ctx.run_conditions = lambda command: RunConditions(variables if "hardened" in command else {})


def test_what_was_imposed_on_a_command_is_not_carried_over(bench: Bench) -> None:
    bench.ctx.env |= {"GIT_ALLOW_PROTOCOL": "ssh", "OWN": "0"}
    imposing(bench, GIT_ALLOW_PROTOCOL="none", GIT_OPTIONAL_LOCKS="0", OWN="9", GIT_CONFIG_COUNT="1")
    look = "echo $GIT_ALLOW_PROTOCOL ${GIT_OPTIONAL_LOCKS-unset} $OWN ${GIT_CONFIG_COUNT-unset} $B; : "
    assert bench("Bash", command=f"{look} hardened").text.startswith("none 0 9 1\n")
    assert bench.ctx.state(ShellState).variables == {}
    assert bench("Bash", command=f"{look}").text.startswith("ssh unset 0 unset\n")
    bench("Bash", command="export OWN=5 B=1")
    for change in ("", "unset GIT_CONFIG_COUNT OWN;", "export GIT_CONFIG_COUNT=2 OWN=7;"):
        assert bench("Bash", command=f"{look} hardened; {change}").text.startswith("none 0 9 1 1\n")
        assert bench.ctx.state(ShellState).variables == {"OWN": "5", "B": "1"}
        assert bench("Bash", command=f"{look}").text.startswith("ssh unset 5 unset 1\n")
    bench("Bash", command="export B=2; : hardened")
    assert bench.ctx.state(ShellState).variables == {"OWN": "5", "B": "2"}, "its other changes count"


def test_a_report_that_is_known_is_known_only_with_what_was_imposed(bench: Bench) -> None:
    imposing(bench, SOME="1")
    bench("Bash", command="true hardened")
    bench("Bash", command="true hardened")
    bench("Bash", command="export SOME=1")
    assert bench.ctx.state(ShellState).variables == {"SOME": "1"}


def test_a_git_configuration_in_variables_is_not_written_down(bench: Bench) -> None:
    """The names of its keys look like keys, and git refuses to run with the rest."""
    bench("Bash", command="export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=user.name GIT_CONFIG_VALUE_0=Me A=1")
    assert bench("Bash", command="git config user.name").text.startswith("Me\n")
    assert carried_state(bench.ctx).variables == {"A": "1"}


def test_a_prompt_that_the_user_exports_is_no_change_by_a_command(bench: Bench) -> None:
    bench.ctx.env = {**bench.ctx.env, "PS1": "(venv) $ ", "PS2": "> "}
    bench("Bash", command="true")
    assert carried_state(bench.ctx).variables == {}


def test_what_an_earlier_version_wrote_down_by_mistake_is_dropped(bench: Bench) -> None:
    leaked: dict[str, str | None] = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
    leaked |= {"GIT_CONFIG_COUNT": "2", "GIT_CONFIG_VALUE_0": "false", "GIT_CONFIG_VALUE_1": "/dev/null"}
    own: dict[str, str | None] = {"A": "1", "EMPTY": "", "GONE": None}
    restore_carried(bench.ctx, ShellSnapshot(str(bench.root), {**leaked, **own, "TMPDIR": "/tmp/agent-sandbox-x1"}))
    assert bench.ctx.state(ShellState).variables == own
    assert bench("Bash", command="git init -q . && git status").text.startswith("On branch")
    mine: dict[str, str | None] = {"GIT_ALLOW_PROTOCOL": "none", "GIT_OPTIONAL_LOCKS": "0", "TMPDIR": "/x"}
    restore_carried(bench.ctx, ShellSnapshot(str(bench.root), mine))
    assert bench.ctx.state(ShellState).variables == mine, (
        "exported by a command, since git's configuration is not with it"
    )


# What a command sees of its shell: options, names, line numbers, errors, traps, and how it ends.
PLAIN = [
    "echo \"$0 $- $# $? $LINENO ${FUNCNAME-} ${BASH_SOURCE-} $BASH_SUBSHELL $_\"",
    "nosuchcommand\nnosuch2",
    "echo a\nif then",
    "set -e; false; echo never",
    "set -eu; echo $nope; echo never",
    "set -x; echo a; f() { return 3; }; f",
    "set -o pipefail; false | true; echo $?",
    "exit 7",
    "false",
    "(exit 5)",
    "readonly PATH; readonly IFS; exit 3",
    "IFS=a; export IFS; true",
    "set -o posix; export A=1; export -p | grep A=",
    "set -o noclobber; echo x",
    "trap 'echo bye $?' EXIT; false",
    "trap 'echo debug' DEBUG; true",
    "trap 'echo err' ERR; false",
    "set -e; exec 200>&-; exec 199>&-; true",
    "set -eE; trap 'echo err' ERR; mkdir d; cd d; rmdir ../d; true",
    "exec echo replaced",
    "exec >/dev/null; echo hidden",
    "exec 3>&1 4>&1; echo $(ls /proc/$$/fd | wc -l) >/dev/null",
    "printf() { echo mine; }; export() { echo mine; }; pwd() { echo mine; }; printf x",
    "shopt -s expand_aliases; alias builtin=echo trap=echo\ntrue",
    "compgen -v | grep -i agent_carry; declare -F; alias; env | grep -c BASH_ENV",
    "bash -c 'env | grep -E \"BASH_ENV|AGENT_CARRY\"; echo $BASH_ENV.'",
    "cat <<'X' | tr a b\nbanana\nX",
    "echo ${x?must be set}",
    "kill -TERM $$; sleep 5",
    "ulimit -n 20; echo $(ulimit -n)",
    "unset BASH_VERSION; wait; jobs; times >/dev/null",
]  # fmt: skip


@pytest.mark.parametrize("command", PLAIN)
def test_a_command_cannot_tell_that_it_is_watched(tmp_path: Path, command: str) -> None:
    env = {"PATH": "/usr/bin:/bin"}
    channel = ReportChannel()
    try:
        argv = [*BASH, command]
        plain, watched = (
            subprocess.run(
                argv, env=env | more, cwd=tmp_path, pass_fds=fds, capture_output=True, timeout=20, check=False
            )
            for more, fds in (({}, ()), (channel.env, (channel.fd,)))
        )
    finally:
        channel.close()
    assert (watched.returncode, watched.stdout, watched.stderr) == (plain.returncode, plain.stdout, plain.stderr)


@given(st.dictionaries(st.from_regex(rb"X[A-Za-z0-9_]{0,8}", fullmatch=True), st.binary(max_size=60), max_size=6))
@settings(max_examples=examples(25), deadline=None)
def test_values_survive_to_the_byte(values: dict[bytes, bytes]) -> None:
    values = {n: v.replace(b"\0", b"\n") for n, v in values.items()}
    for locale in (b"C", b"C.UTF-8"):
        for mode in ("", "set -o posix; "):
            env = {b"PATH": b"/usr/bin:/bin", b"LC_ALL": locale, **values}
            _, exported = run_watched(
                mode + "declare -A m=(['a )\"']=$'q\\n)'); export m; v=(')'); export v; export Z", env
            )
            assert {os.fsencode(n): os.fsencode(v) for n, v in exported.items() if n.startswith("X")} == values
            assert not {"m", "v", "Z"} & exported.keys()


def test_a_directory_of_any_name(tmp_path: Path) -> None:
    name = os.fsdecode(b"new\nline \xff 'quoted'")
    (tmp_path / name).mkdir()
    where, _ = run_watched("true", {b"PATH": b"/usr/bin:/bin"}, tmp_path / name)
    assert where == str(tmp_path / name)


def test_without_descriptors_to_spare_nothing_carries_over(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(self: ReportChannel) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(ReportChannel, "__init__", none)
    assert re.match(r"1\n\[exit code 0", bench("Bash", command="export A=1; echo $A").text)
    assert bench.ctx.state(ShellState).variables == {}
