"""What commands of the real program can learn of the secrets that it was started with."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.program import clean_env, output_allowing_bash
from tests.support.scripts import bash, script
from tests.support.session_logs import log_of

GITHUB = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
DATABASE = "postgres://app:correct-horse@db.example.com/app"


def test_secrets_are_withheld_by_value_and_named_where_a_command_fails(work: Path) -> None:
    env = {"UPSTREAM": GITHUB, "DATABASE_URL": DATABASE, "PLAIN": "https://example.com/"}
    look = bash("env > seen; echo correct-horse; echo 401 Unauthorized; false")
    output_allowing_bash(work, [look, {"text": f"It is {DATABASE}."}], **env)
    seen = (work / "seen").read_text()
    assert "PLAIN=https://example.com/" in seen and GITHUB not in seen and "correct-horse" not in seen
    log = log_of(work)
    assert "look like secrets: DATABASE_URL, UPSTREAM; the user can pass them with the setting shell.env_pass]" in log
    assert "correct-horse" not in log, "nor is a password that a URL of the environment has in it"


def test_the_users_exceptions_count_for_values_too_and_a_projects_do_not(work: Path) -> None:
    home = work.parent / "home"
    home.mkdir()
    (home / ".agentrc").write_text('[shell]\nenv_pass = ["DATABASE_URL"]\n')
    (work / ".agentrc").write_text('[shell]\nenv_pass = ["UPSTREAM"]\n')
    output_allowing_bash(work, [bash("env > seen"), {"text": "Ok."}], "--trust", UPSTREAM=GITHUB, DATABASE_URL=DATABASE)
    seen = (work / "seen").read_text()
    assert DATABASE in seen and GITHUB not in seen


def test_an_exported_secret_reaches_the_next_command_and_no_disk(work: Path) -> None:
    first = bash("export WHERE=postgres://app:battery-staple@db/x PLAIN=kept")
    output_allowing_bash(work, [first, bash("echo $WHERE > seen"), {"text": "Ok."}])
    assert (work / "seen").read_text() == "postgres://app:battery-staple@db/x\n"
    again = [first, bash("echo $WHERE > seen"), {"text": "Ok."}, bash("echo ${WHERE-none} $PLAIN > seen")]
    output_allowing_bash(work, [*again, {"text": "Ok."}], "-c")
    assert (work / "seen").read_text() == "none kept\n"


on_linux = pytest.mark.skipif(sys.platform != "linux", reason="NOT TESTED: there is no /proc here")
KEYS = {"OPENAI_API_KEY": "sk-proj-" + "k3y" * 9, "UPSTREAM": GITHUB, "DB": DATABASE}
# Whatever of a process its user may read: the environment it began with, its memory, whom it lets attach.
LOOK = """
# By Python, since the permission gate denies it to cat.
read() { python3 -c 'import sys; sys.stdout.buffer.write(open(sys.argv[1], "rb").read())' "/proc/$1/environ"; }
read $PPID > environ; read self > own
python3 - $PPID > memory 2>&1 <<'EOF'
import sys
pid = sys.argv[1]
with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
    for line in maps:
        where, rights = line.split()[:2]
        if rights.startswith("rw"):
            start, end = (int(part, 16) for part in where.split("-"))
            try:
                memory.seek(start)
                sys.stdout.buffer.write(memory.read(end - start))
            except (OSError, OverflowError, ValueError):
                pass
EOF
"""


@on_linux
def test_no_secret_stands_in_the_environment_that_proc_shows(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even for root, which may read it; and the program itself, and what needs them, has them still."""
    monkeypatch.setenv("STARTS", "exec")
    command = "cat /proc/$PPID/environ > environ"
    home = work.parent / "home"
    home.mkdir()
    hook = '[[hooks]]\nevent = "PreToolUse"\ncommand = "printenv UPSTREAM > hooked"\n'
    (home / ".agentrc").write_text(hook)
    output_allowing_bash(work, [bash(command), {"text": "Ok."}], **KEYS, PLAIN="plain-value")
    environ = (work / "environ").read_bytes()
    assert b"PLAIN=plain-value\0" in environ, "it is the right process, and what is no secret stays"
    assert not [value for value in KEYS.values() if value.encode() in environ]
    assert (work / "hooked").read_text() == f"{GITHUB}\n", "the user's own hooks get the environment as it is"


@on_linux
def test_no_command_reads_the_memory_or_the_environment_of_the_program(work: Path) -> None:
    """As a user without root's right to read any process."""
    setpriv = shutil.which("setpriv")
    if os.geteuid() == 0 and setpriv is None:
        pytest.skip("NOT TESTED: root reads everything, and setpriv is not there to be less")
    drop = [setpriv or "", "--bounding-set", "-all"] if os.geteuid() == 0 else []
    model = script(work.parent / "s.toml", [bash(LOOK), {"text": "Ok."}])
    argv = [*drop, sys.executable, "-m", "agent_cli", "-p", "--model", model, "--allowedTools", "Bash", "--", "go"]
    env = clean_env(work.parent / "home", **KEYS)
    done = subprocess.run(argv, cwd=work, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (work / "environ").read_bytes() == b""
    assert "PermissionError" in (work / "memory").read_text("latin-1")
    assert "PATH=" in (work / "own").read_text(), "what a command starts with can be read by itself, as ever"
