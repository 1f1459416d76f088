"""The quick parser and Typer read the same table and must give the same options."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.cli import app, run
from agent_cli.cli.option_parser import normalize_argv, parse_options
from agent_cli.cli.run_options import RunOptions, flags
from agent_tools.record import Value
from tests.support.hypothesis_examples import examples
from tests.support.program import agent


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
    [["--nope"], ["-x"], ["--model"], ["--max-turns", "x"], ["--effort", "huge"], ["--permission-mode", "never"],
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


SDK_LINES = [
    ["--output-format", "stream-json", "--verbose", "--system-prompt", "", "--tools", "", "--allowedTools",
     "Read,Bash(git log:*)", "--max-turns", "3", "--max-budget-usd", "0.5", "--disallowedTools", "Write,Edit",
     "--task-budget", "20000", "--model", "m", "--fallback-model", "n", "--betas", "context-1m-2025-08-07",
     "--permission-prompt-tool", "stdio", "--permission-mode", "acceptEdits", "--continue", "--resume=abc",
     "--session-id=0b1c", "--settings", '{"sandbox": {"enabled": true}}', "--add-dir", "/x", "--mcp-config",
     '{"mcpServers": {}}', "--include-partial-messages", "--include-hook-events", "--strict-mcp-config",
     "--fork-session", "--resume-session-at=u1", "--resume-drops-turn=", "--session-mirror",
     "--setting-sources=user,project", "--plugin-dir", "/p", "--debug-to-stderr", "--replay-user-messages",
     "--max-thinking-tokens", "1000", "--thinking-display", "summarized", "--effort", "high", "--json-schema",
     '{"type": "object"}', "--input-format", "stream-json"],
    ["--output-format", "stream-json", "--verbose", "--input-format", "stream-json", "--thinking=adaptive",
     "--thinking-display=omitted", "--max-turns=2", "--agent=reviewer", "--debug-file=/tmp/d", "--debug",
     "--permission-prompts=host", "--tools=default", "--setting-sources=", "--allow-dangerously-skip-permissions",
     "--add-dir=/x", "--add-dir=/y", "--managed-settings={}", "--agents={}", "--no-session-persistence"],
    ["-p", "--dangerously-skip-permissions", "-n", "my run", "-d", "-C", "/x", "-o", "out.txt", "--profile", "ci", "q"],
    ["-p", "--system-prompt-file", "a.md", "--append-system-prompt-file", "b.md", "--permission-mode", "manual", "q"],
]  # fmt: skip


@pytest.mark.parametrize("argv", SDK_LINES)
def test_both_parsers_read_what_the_sdks_send(argv: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    quick, slow = parse_options(argv), by_typer(argv, monkeypatch)
    assert quick is not None
    assert slow is not None
    assert same(quick, slow)


def test_values_are_read_as_the_sdks_mean_them() -> None:
    read = parse_options(SDK_LINES[0])
    assert read is not None
    assert (read.tools, read.setting_sources, read.resume_drops_turn) == (("",), "user,project", "")
    assert (read.max_thinking_tokens, read.task_budget, read.resume) == (1000, 20000, "abc")
    assert read.prompt == ()


@pytest.mark.parametrize(
    ("argv", "field", "value"),
    [
        (["--add-dir", "a", "b", "fix it"], "add_dir", ("a", "b")),
        (["--add-dir", "missing", "elsewhere"], "add_dir", ("missing",)),
        (["--tools", "Read", "Bash", "fix it"], "tools", ("Read", "Bash")),
        (["--tools", "Read,Bash", "Edit,Write", "fix it"], "tools", ("Read,Bash", "Edit,Write")),
        (["--tools", "", "fix it"], "tools", ("",)),
        (["--mcp-config", "x.json", "y.json", "fix it"], "mcp_config", ("x.json", "y.json")),
        (["--mcp-config", "{}", '{"mcpServers": {}}', "fix it"], "mcp_config", ("{}", '{"mcpServers": {}}')),
        (["--debug", "api,hooks", "fix it"], "debug", True),
        (["--debug", "api,hooks", "fix it"], "debug_filter", "api,hooks"),
        (["-d", "!statsig", "fix it"], "debug", True),
        (["-d", "!statsig", "fix it"], "debug_filter", "!statsig"),
        (["--debug=mcp", "fix it"], "debug", True),
        (["--debug=mcp", "fix it"], "debug_filter", "mcp"),
        (["--debug", "fix it"], "debug_filter", None),
        (["--debug", "fix it"], "debug", True),
        (["--betas", "a-2025-01-01", "b-2025-02-02", "fix it"], "betas", ("a-2025-01-01", "b-2025-02-02")),
    ],
)
def test_several_words_after_a_flag_end_where_the_prompt_begins(
    argv: list[str], field: str, value: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    read = parse_options(["-p", *argv])
    assert read is not None
    assert getattr(read, field) == value
    assert read.prompt == (argv[-1],)


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["-p", "--max-budget-usd", "0", "hi"], "--max-budget-usd: expected more than 0 dollars"),
        (["-p", "--max-budget-usd", "-1", "hi"], "max_cost: expected a number that is not negative"),
        (["-p", "--max-budget-usd", "nan", "hi"], "max_cost: expected a number"),
        (["-p", "--max-turns", "-1", "hi"], "max_rounds: expected a number that is not negative"),
        (["batch", "--max-budget-usd", "nan", "tasks.jsonl"], "nan is not a number"),
        (["eval", "--timeout", "inf", "."], "inf is not a number"),
        (["every", "--budget-per-day", "nan", "1h", "hi"], "nan is not a number"),
        (["demo", "--speed", "nan"], "nan is not a number"),
    ],
)
def test_a_limit_that_limits_nothing_is_refused(tmp_path: Path, argv: list[str], sentence: str) -> None:
    done = agent(argv, tmp_path)
    assert done.returncode == 2
    assert sentence in done.stderr and "Traceback" not in done.stderr
