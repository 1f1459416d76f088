"""Bash: what would wait for a user ends by itself, and what comes out is harmless whatever it was."""

from __future__ import annotations

import shutil
import time

import pytest

from tests.support.tool_bench import Bench

REPOSITORY = (
    "git init -q . && git config user.email a@b && git config user.name n && echo a > f && git add f && "
    "git commit -qm a && echo b >> f && git commit -qam b"
)
# Command, and what its result has to contain.
WAITING = [
    ("git rebase -i HEAD~1", "There is no editor here"),
    ("git commit --allow-empty", "There is no editor here"),
    ("git -c core.editor=vim commit --amend", "There is no editor here"),
    ("git tag -a x", "There is no editor here"),
    ("git config -e", "There is no editor here"),
    ("git log | cat; git --paginate log", "[exit code 0"),
    ("git clone -q http://127.0.0.1:9/x.git", "127.0.0.1"),
    (
        "git -c credential.helper= -c core.askPass=cat credential fill <<< $'protocol=http\nhost=x\n'",
        "prompts disabled",
    ),
    ("$EDITOR f", "[exit code 1"),
    ("$PAGER f", "a\nb\n[exit code 0"),
    ("less f", "a\nb\n[exit code 0"),
    ("man man | wc -l", "[exit code 0"),
    ("vim f", "There is no terminal here to edit in"),
    ("vim -es -c 'normal oy' -c wq f; cat f", "a\nb\ny\n[exit code 0"),
    ("sudo -k true", "[exit code"),
    ("ssh -o ConnectTimeout=2 nobody@127.0.0.1 true", "[exit code 255"),
    ("python3 -i -c 'print(1)'", "1\n"),
    ("python3 -c 'import getpass; getpass.getpass()'", "EOF"),
    ("read -p 'Sure? ' x", "[exit code 1"),
    ("read x < /dev/tty", "No such device"),
    ("select x in a b; do :; done", "[exit code 1"),
    ("cat", "(no output)"),
    ("npm init", "[exit code"),
    ("top", "failed tty get"),
    ("gpg --gen-key", "[exit code"),
]


@pytest.mark.parametrize(("command", "text"), WAITING)
def test_what_would_wait_for_a_person_ends_by_itself(bench: Bench, command: str, text: str) -> None:
    program = command.split()[0]
    if program.isalnum() and program not in ("read", "select") and not shutil.which(program):
        pytest.skip(f"NOT TESTED: there is no {program} here")
    bench.ctx.env |= {"GIT_ASKPASS": "sleep", "SSH_ASKPASS": "sleep", "VISUAL": "vim", "GIT_EDITOR": "vim"}
    assert not bench("Bash", command=REPOSITORY).is_error
    began = time.monotonic()
    result = bench("Bash", command=command, timeout=30_000)
    assert "timed out" not in result.text and text in result.text
    assert time.monotonic() - began < 20


HARMLESS = [
    (r"printf 'a\033]52;c;ZXZpbA==\007b'", "ab"),
    (r"printf 'a\033]52;c;ZXZpbA==\033\\b'", "ab"),
    (r"printf '\033[?1049h\033[2Jfull screen\033[?1049l'", "full screen"),
    (r"printf '\033]8;;http://evil\033\\link\033]8;;\033\\'", "link"),
    (r"printf '\033Pq#0;2;0;0;0\033\\after'", "after"),
    (r"printf '\033_Gf=24;AAAA\033\\after'", "after"),
    (r"printf '\302\233 31mx'", r"\x9b 31mx"),
    (r"printf 'a\bb\vc\fd'", r"a\x08b\x0bc\x0cd"),
    (r"printf 'caf\351\n'", "caf\ufffd"),
    (r"printf '\xe2\x82'; printf '\xac'", "€"),
    (r"printf '\033]0;never ended'", ""),
]


@pytest.mark.parametrize(("command", "shown"), HARMLESS)
def test_escape_sequences_reach_neither_model_nor_screen(bench: Bench, command: str, shown: str) -> None:
    text = bench("Bash", command=command).text
    assert text.startswith(f"{shown or '(no output)'}\n[exit code 0")
    assert not {"\x1b", "\x07", "\x9b", "\x08"} & set(text + "".join(bench.progress))


def test_output_and_errors_stay_in_their_order(bench: Bench) -> None:
    text = bench("Bash", command="for i in 1 2 3; do echo out $i; echo err $i >&2; done").text
    assert text.startswith("out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n[exit code 0")


def test_one_line_without_an_end_is_cut_in_its_middle(bench: Bench) -> None:
    text = bench("Bash", command="printf BEGIN; head -c 3000000 /dev/zero | tr '\\0' x; printf END").text
    assert text.startswith("BEGINxxx") and "xxxEND\n[exit code 0" in text and len(text) < 32_000
    assert "of 3,000,008 bytes cut here" in text
