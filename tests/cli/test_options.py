"""The quick parser and Typer read the same table and must give the same options."""

from __future__ import annotations

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.cli import app, run
from agent_cli.config.run_options import RunOptions, flags, normalize_argv, parse_options
from agent_tools.record import Value
from tests.support.hypothesis_examples import examples


def by_typer(argv: list[str], monkeypatch: pytest.MonkeyPatch) -> RunOptions | None:
    """What Typer makes of a command line, or None where it refuses it."""
    seen: list[RunOptions] = []

    def note(options: RunOptions, typed: list[str]) -> int:
        seen.append(options)
        return 0

    monkeypatch.setattr(run, "start", note)
    try:
        typer.main.get_command(app.app).main(args=normalize_argv(argv), prog_name="agent", standalone_mode=False)
    except Exception:
        return None
    return seen[0] if seen else None


def same(left: Value, right: Value) -> bool:
    return all(getattr(left, n) == getattr(right, n) for n in RunOptions._fields)


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["fix it"],
        ["fix", "it"],
        ["-p", "fix it"],
        ["-p", "--output-format", "json", "q"],
        ["q", "-p", "--output-format=stream-json", "--verbose"],
        ["-p", "--max-turns", "3", "--max-budget-usd", "0.5", "q"],
        ["-p", "--allowedTools", "Bash(git:*) Edit", "--allowed-tools", "Read", "q"],
        ["-p", "--allowedTools", "Bash(git:*)", "Edit", "q"],
        ["-p", "--disallowedTools", "Bash", "q"],
        ["-p", "--tools", "", "q"],
        ["-c", "-p", "q"],
        ["-r", "abcd1234", "-p", "q"],
        ["-r"],
        ["--resume", "-p", "q"],
        ["-p", "-"],
        ["--", "review"],
        ["--", "doctor"],
        ["-p", "--", "--output-format"],
        ["--settings", '{"model": "x"}', "--settings", "b.toml", "q"],
        ["--permission-mode", "acceptEdits", "q"],
        ["-m", "a/b", "--effort", "low", "q"],
        ["--append-system-prompt", "--output-format", "q"],
    ],
)
def test_both_parsers_agree(argv: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    quick = parse_options(argv)
    slow = by_typer(argv, monkeypatch)
    assert quick is not None
    assert slow is not None
    assert same(quick, slow)


@pytest.mark.parametrize(
    "argv",
    [["--nope"], ["-x"], ["--model"], ["--max-turns", "x"], ["--effort", "huge"], ["--permission-mode", "auto"],
     ["--print=1"], ["-pc"], ["--help"], ["-h"]],
)  # fmt: skip
def test_the_quick_parser_leaves_doubts_to_typer(argv: list[str]) -> None:
    assert parse_options(argv) is None


words = st.sampled_from(
    ["-p", "--print", "-c", "-r", "--resume", "abcd", "--model", "-m", "a/b", "--max-turns", "3", "--effort", "low",
     "--output-format", "json", "--output-format=json", "--allowedTools", "Bash(ls:*)", "Edit", "fix it", "--", "-",
     "--settings", "x", "--verbose", "--nope", "--tools", "", "--bare", "--max-budget-usd=1"]
)  # fmt: skip


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(words, max_size=6))
def test_what_the_quick_parser_reads_typer_reads_alike(argv: list[str]) -> None:
    quick = parse_options(argv)
    if quick is None:
        return
    with pytest.MonkeyPatch.context() as patch:
        slow = by_typer(argv, patch)
    assert slow is not None, argv
    assert same(quick, slow), (argv, quick, slow)


def test_rules_after_a_flag_never_swallow_the_prompt() -> None:
    options = parse_options(["-p", "--allowedTools", "Read", "Bash(npm run test)", "Fix the bug", "--verbose"])
    assert options is not None
    assert options.allowed_tools == ("Read", "Bash(npm run test)")
    assert options.prompt == ("Fix the bug",)


def test_every_flag_has_help_and_a_panel() -> None:
    for name, (flag, _) in flags().items():
        assert flag.help.endswith("."), name
        assert flag.panel, name
