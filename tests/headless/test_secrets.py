"""What commands of the real program can learn of the secrets that it was started with."""

from __future__ import annotations

from pathlib import Path

from tests.headless.test_shell_state import bash, log_of, run

GITHUB = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
DATABASE = "postgres://app:correct-horse@db.example.com/app"


def test_secrets_are_withheld_by_value_and_named_where_a_command_fails(work: Path) -> None:
    env = {"UPSTREAM": GITHUB, "DATABASE_URL": DATABASE, "PLAIN": "https://example.com/"}
    look = bash("env > seen; echo correct-horse; false")
    run(work, [look, {"text": f"It is {DATABASE}."}], **env)
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
    run(work, [bash("env > seen"), {"text": "Ok."}], "--trust", UPSTREAM=GITHUB, DATABASE_URL=DATABASE)
    seen = (work / "seen").read_text()
    assert DATABASE in seen and GITHUB not in seen


def test_an_exported_secret_reaches_the_next_command_and_no_disk(work: Path) -> None:
    first = bash("export WHERE=postgres://app:battery-staple@db/x PLAIN=kept")
    run(work, [first, bash("echo $WHERE > seen"), {"text": "Ok."}])
    assert (work / "seen").read_text() == "postgres://app:battery-staple@db/x\n"
    again = [first, bash("echo $WHERE > seen"), {"text": "Ok."}, bash("echo ${WHERE-none} $PLAIN > seen")]
    run(work, [*again, {"text": "Ok."}], "-c")
    assert (work / "seen").read_text() == "none kept\n"
