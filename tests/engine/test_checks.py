"""A check counts as passed only if its exit code proves it: compared with what bash really does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.engine.checks import evaluate_check
from agent_cli.kernel.events import ToolFinished
from agent_cli.kernel.messages import UserMessage
from agent_cli.kernel.results import Complete
from agent_cli.policy.shell import parser
from tests.support.scripts import call
from tests.support.turns import World

# Lines with a check, and whether "passed" may be said when all goes well ("yes"), or never ("no"). What is said when it
# fails must never be "passed", whatever the line.
LINES = {
    "pytest": "yes",
    "pytest -q tests": "yes",
    "python3 -m pytest -q": "yes",
    "python3 -W error -m unittest -q": "yes",
    "PYTHONPATH=. CI=1 pytest": "yes",
    "cd sub && pytest": "yes",
    "cd sub; pytest": "yes",
    "(pytest)": "yes",
    "{ pytest; }": "yes",
    "(cd sub && pytest -x)": "yes",
    "timeout 60 pytest": "yes",
    "timeout -k 5 60 nice -n 5 pytest": "yes",
    "env CI=1 pytest": "yes",
    "command pytest": "yes",
    "exec pytest": "yes",
    "time pytest": "yes",
    "nohup pytest > log 2>&1": "yes",
    "pytest > log 2>&1": "yes",
    "pytest && echo ok": "yes",
    "true && pytest && echo ok && ls": "yes",
    "pytest || exit 1": "yes",
    "pytest || { echo failed; exit 3; }": "yes",
    "pytest || (echo failed; false)": "yes",
    "pytest || exit 1; echo ok": "yes",
    "set -e; pytest; echo done": "yes",
    "set -e\npytest\necho done": "yes",
    "set -euo pipefail; pytest 2>&1 | tee log; echo done": "yes",
    "set -o pipefail; pytest | cat": "yes",
    "set -o pipefail && pytest | cat": "yes",
    "bash -c 'cd sub && pytest'": "yes",
    "bash -ec 'pytest; echo done'": "yes",
    "pytest | tail -20": "yes",
    "pytest 2>&1 | tee log": "yes",
    "cd sub && pytest 2>&1 | tail -5": "yes",
    "cd sub; pytest |& cat": "yes",
    "time pytest | cat": "yes",
    "(cd sub && pytest) | cat": "yes",
    "pytest | grep -c FAILED": "yes",
    "pytest | cat | cat | cat": "yes",
    "echo start; pytest | cat": "yes",
    "yes | head -1 | pytest": "yes",
    "pytest && ruff check . && mypy": "yes",
    "ruff check . | cat && pytest | cat": "no",
    "uv run pytest -q": "yes",
    "uv run --quiet pytest": "yes",
    "uv run coverage run -m pytest": "yes",
    "poetry run mypy && npx --yes jest": "yes",
    "coverage run -m unittest": "yes",
    "time { pytest; }": "yes",
    "uv run pytest; echo done": "no",
    "pytest; echo done": "no",
    "pytest\necho done": "no",
    "pytest || true": "no",
    "pytest || echo failed": "no",
    "pytest || (echo failed; exit 0)": "no",
    "pytest; echo exit: $?": "no",
    "pytest | tail; echo done": "no",
    "pytest &": "no",
    "pytest & wait": "no",
    "(pytest &)": "no",
    "! pytest": "no",
    "if pytest; then echo ok; fi": "no",
    "if pytest; then echo ok; else echo no; fi": "no",
    "while pytest; do break; done": "no",
    "for n in 1 2; do pytest; done; ls": "no",
    "for n in 1 2; do pytest; true; done": "no",
    "case x in x) pytest; true;; esac": "no",
    "x=$(pytest); echo $x": "no",
    "echo $(pytest)": "no",
    "cat <(pytest)": "no",
    "pytest() { true; }; pytest": "no",
    "trap 'exit 0' EXIT; pytest": "no",
    "eval 'pytest; true'": "no",
    "eval pytest '||' true": "no",
    "bash -c 'pytest; true'": "no",
    "bash -c 'pytest | cat'": "no",
    "sh -c 'pytest || true'": "no",
    "timeout 60 bash -c 'pytest; true'": "no",
    "(pytest; true)": "no",
    "{ pytest; true; }": "no",
    "{ pytest | cat; true; }": "no",
    "(pytest | cat)": "no",
    "(set -e; pytest; true) && echo ok": "no",
    "set -e; pytest && true; echo ok": "no",
    "set -e; { set +e; }; pytest; echo ok": "no",
    "set +e; pytest; echo ok": "no",
    "set -e; ! pytest; echo ok": "no",
    "set -e; pytest | cat; echo ok": "no",
    "set -e; pytest || true": "no",
    "set -e; if pytest; then true; fi; echo ok": "no",
    "set -e; . ./lenient.sh; pytest; echo ok": "no",
    "set -n; pytest": "no",
    "exit 0; pytest": "no",
    "[ -d nothing ] || exit 0; pytest": "no",
    "exec true; pytest": "no",
    "ruff check .; pytest": "no",
    "pytest; mypy": "no",
    "pytest || pytest": "no",
    "find sub -maxdepth 0 -exec pytest {} ';'": "no",
    "echo sub | xargs pytest": "no",
    "setsid pytest": "no",
    "pytest; true | cat": "no",
    "pytest | cat || true": "no",
    "false | true && pytest; ls | cat": "no",
    "printf -v x 1; pytest; : ok": "no",
    "coproc pytest; wait": "no",
    "pytest <<< 'x' || :": "no",
    "pytest # && echo\ntrue": "no",
    "true # pytest": "none",
    "echo pytest": "none",
    "grep pytest setup.cfg": "none",
    "pytest --version": "none",
    "pytest --collect-only -q": "none",
    "make -n test": "none",
    "uv pip install pytest": "none",
    "uv run": "none",
    "uv run --quiet": "none",
    "coverage report": "none",
    "coverage run pytest.py": "none",
    "npx": "none",
    "ls": "none",
}


@pytest.fixture
def tools(root: Path) -> Path:
    """Fake test programs in `bin`: they end with the code in the file `code`, and note that they ran."""
    (root / "bin").mkdir()
    (root / "sub").mkdir()
    (root / "lenient.sh").write_text("set +e\n")
    (root / "setup.cfg").write_text("pytest\n")
    code = root / "code"
    for name in ("pytest", "mypy", "ruff", "python3", "uv", "poetry", "npx", "coverage"):
        program = root / "bin" / name
        program.write_text(f'#!/bin/sh\necho ran >> {root}/ran\necho FAILED or not\nexit "$(cat {code})"\n')
        program.chmod(0o755)
    return code


def claim(root: Path, line: str, code: int) -> tuple[str, bool]:
    """Run a line by the Bash tool with test programs that end with this code; return the claim, and if they ran."""
    (root / "code").write_text(f"{code}\n")
    (root / "ran").unlink(missing_ok=True)
    replies = [{"calls": [call("Bash", command=line)]}, {"text": "Done."}, {"text": "It fails."}]
    world = World(root, replies, mode="bypassPermissions")
    world.deps.context.env["PATH"] = f"{root}/bin:{os.environ['PATH']}"
    world.model.replies.append({"text": "Still done."})
    result = world.turn()
    assert isinstance(result, Complete)
    return result.verified, (root / "ran").exists()


@pytest.mark.parametrize("line", LINES)
def test_passed_is_claimed_only_of_tests_that_ran_and_passed(root: Path, tools: Path, line: str) -> None:
    good, ran = claim(root, line, 0)
    bad, _ = claim(root, line, 3)
    assert not bad.endswith("passed")
    expected = LINES[line]
    assert good.endswith("passed") == (expected == "yes")
    assert expected != "yes" or "failed (exit " in bad
    assert ran or not good.endswith("passed")
    if expected == "none":
        assert (good, bad) == ("", "")


def check(world: World) -> str:
    result = world.turn()
    assert isinstance(result, Complete)
    return result.verified


def world_with(root: Path, *commands: dict[str, Any]) -> World:
    replies = [{"calls": [c]} for c in commands]
    world = World(root, [*replies, {"text": "Done."}, {"text": "It fails."}], mode="bypassPermissions")
    world.deps.context.env["PATH"] = f"{root}/bin:{os.environ['PATH']}"
    return world


def test_a_failure_that_a_pipe_hides_is_reported_to_the_model_and_on_the_screen(root: Path, tools: Path) -> None:
    tools.write_text("1\n")
    world = world_with(root, call("Bash", command="pytest -q 2>&1 | tail -20"))
    assert check(world) == "`pytest -q 2>&1 | tail -20` failed (exit 1)"
    assert "[pytest in the pipe: exit code 1]" in world.results[0].text
    [shown] = [e.display for e in world.of(ToolFinished)]
    assert shown.exit_code == 0 and shown.failed
    assert shown.note.endswith("; pytest in the pipe: exit code 1")
    assert any("a check that you ran and that failed" in m.text for m in world.history if isinstance(m, UserMessage))


@pytest.mark.parametrize(
    ("command", "words"),
    [("pytest -q", "failed (exit 5: no tests were found)"), ("make test", "failed (exit 5)")],
)
def test_a_run_that_found_no_tests_says_so(command: str, words: str) -> None:
    assert str(evaluate_check(command, 5)) == f"`{command}` {words}"


def test_a_check_that_another_program_fails_is_not_hidden_by_one_that_passes(root: Path, tools: Path) -> None:
    failing = root / "bin" / "pytest"
    failing.write_text("#!/bin/sh\nexit 1\n")
    tools.write_text("0\n")
    lines = ("pytest", "ruff check .", "mypy | cat")
    verified = check(world_with(root, *(call("Bash", command=c) for c in lines)))
    assert verified == "`ruff check .`, `mypy | cat` passed; `pytest` failed (exit 1)"
    (root / "bin" / "python3").write_text("#!/bin/sh\nexit 0\n")
    lines = ("pytest", "ruff check .", "python3 -m pytest tests")
    verified = check(world_with(root, *(call("Bash", command=c) for c in lines)))
    assert verified == "`ruff check .`, `python3 -m pytest tests` passed; `pytest` failed (exit 1)"
    lines = ("pytest -x tests/test_a.py", "ruff check .", "python3 -m pytest -q tests 2>&1 | tail -5")
    verified = check(world_with(root, *(call("Bash", command=c) for c in lines)))
    assert verified == "`ruff check .`, `python3 -m pytest -q tests 2>&1 | tail -5` passed"


def test_a_part_that_passes_does_not_hide_that_the_whole_failed(root: Path, tools: Path) -> None:
    (root / "bin" / "pytest").write_text('#!/bin/sh\n[ "$1" = tests/test_b.py ]\n')
    lines = ("pytest tests", "pytest tests/test_b.py")
    verified = check(world_with(root, *(call("Bash", command=c) for c in lines)))
    assert verified == "`pytest tests/test_b.py` passed; `pytest tests` failed (exit 1)"


def test_a_program_that_is_missing_is_no_failure_to_look_into(root: Path, tools: Path) -> None:
    world = world_with(root, call("Bash", command="no-such-folder/pytest -q"))
    assert check(world) == "`no-such-folder/pytest -q` could not run (exit 127)"
    assert not any(
        "a check that you ran and that failed" in m.text for m in world.history if isinstance(m, UserMessage)
    )
    tools.write_text("1\n")
    failing = world_with(root, call("Bash", command="pytest"), call("Bash", command="no-such-folder/mypy"))
    assert check(failing) == "`pytest` failed (exit 1)"


def test_an_undecided_run_replaces_what_was_known(root: Path, tools: Path) -> None:
    tools.write_text("0\n")
    verified = check(world_with(root, call("Bash", command="pytest"), call("Bash", command="pytest; echo $?")))
    assert verified == "`pytest; echo $?` ran, but its exit code does not show the outcome"


@pytest.mark.parametrize("code", [0, 1])
def test_a_check_in_the_background_counts_once_its_end_was_seen(root: Path, tools: Path, code: int) -> None:
    tools.write_text(f"{code}\n")
    (root / "bin" / "pytest").write_text(f"#!/bin/sh\nwhile [ ! -e {root}/go ]; do sleep 0.05; done\nexit {code}\n")
    start = call("Bash", command="pytest -q", run_in_background=True)
    go = call("Write", file_path="go", content="")
    wait = call("BashOutput", shell_id="b1", timeout=20_000)
    unseen = "`pytest -q` ran, but its exit code does not show the outcome, but files were changed after it"
    assert check(world_with(root, start, go)) == unseen
    (root / "go").unlink()
    verified = check(world_with(root, start, go, wait))
    assert verified == f"`pytest -q` {'failed (exit 1)' if code else 'passed'}, but files were changed after it"


def test_a_check_that_reached_its_time_limit_is_not_a_pass(root: Path, tools: Path) -> None:
    (root / "bin" / "pytest").write_text(f"#!/bin/sh\nwhile [ ! -e {root}/go ]; do sleep 0.05; done\nexit 1\n")
    verified = check(world_with(root, call("Bash", command="pytest | cat", timeout=300)))
    assert "passed" not in verified
    (root / "go").touch()


def test_commands_of_the_setting_count_with_the_same_proof() -> None:
    more = ("./check.sh",)
    assert str(evaluate_check("./check.sh --all", 0, (), more)) == "`./check.sh --all` passed"
    assert str(evaluate_check("cd x && ./check.sh", 1, (), more)) == "`cd x && ./check.sh` failed (exit 1)"
    for line in ("./check.sh; true", "./check.sh | cat", "./check.sh || echo no"):
        found = evaluate_check(line, 0, (), more)
        assert found is not None
        assert not found.passed
    assert evaluate_check("./other.sh", 0, (), more) is None


def test_without_the_parser_only_plain_commands_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser, "find_shfmt", lambda: None)
    parser.parse_tree.cache_clear()
    assert str(evaluate_check("pytest -q tests", 0)) == "`pytest -q tests` passed"
    found = evaluate_check("cd x && pytest -q tests", 0)
    assert found is None or not found.passed


def test_a_killed_check_did_not_finish() -> None:
    assert str(evaluate_check("pytest", None)) == "`pytest` did not finish"


@pytest.mark.parametrize(
    ("answer", "asked"),
    [
        ("Done.", True),
        ("All tests pass.", True),
        ("I fixed the failing test.", True),
        ("Everything works; there are no failures.", True),
        ("0 failed.", True),
        ("test_limits still fails, which is unrelated to the change.", False),
        ("I fixed the bug. The three failures were there before.", False),
        ("The build is broken: exit code 2.", False),
        ("test_limits_are_kept schl\u00e4gt weiter an.", False),
        ("I fixed test_limits_are_kept.", True),
        ("I added test_limits_are_kept, and it passes.", True),
        ("test_limits_are_kept works now.", True),
        ("test_limits_are_kept never passes on this machine.", False),
        ("I could not get the tests to pass.", False),
        ("`pytest` returned 1 here.", False),
        ("The suite crashed with a segmentation fault.", False),
        ("Die Tests schlagen weiterhin fehl.", False),
        ("El test no pasa.", False),
        ("\u6d4b\u8bd5\u6ca1\u6709\u901a\u8fc7\u3002", False),
        ("I added error handling to a.py. Done.", True),
        ("It now raises an error for a negative value.", True),
        ("Implemented retries for failed requests.", True),
        ("I replaced the failing import.", True),
        ("Alles erledigt, keine Fehler.", True),
        ("pytest fails. Shall I change the limit?", False),
        ("Shall I change the limit?", False),
        ("Shall I change the limit?\n\nThank you.", False),
        ("Should it be 1 or 2?\n\nPlease let me know.", False),
        ("Why so slow? It builds first.\n\nDone.", True),
    ],
)
def test_an_answer_that_names_the_failure_needs_no_reminder(root: Path, tools: Path, answer: str, asked: bool) -> None:
    tools.write_text("1\n")
    failing = "echo 'FAILED tests/test_x.py::test_limits_are_kept' && pytest -q"
    run = {"calls": [call("Bash", command=failing)]}
    world = World(root, [run, {"text": answer}, {"text": "Whole answer: it fails."}], mode="bypassPermissions")
    world.deps.context.env["PATH"] = f"{root}/bin:{os.environ['PATH']}"
    result = world.turn()
    assert isinstance(result, Complete)
    assert result.text == ("Whole answer: it fails." if asked else answer)
    reminders = [
        m.text for m in world.history if isinstance(m, UserMessage) and "a check that you ran and that failed" in m.text
    ]
    assert len(reminders) == asked
    assert all("give your whole answer again" in text for text in reminders)


@pytest.mark.parametrize(
    ("answer", "asked"),
    [
        ("ruff still reports 2 errors.", "`pytest` failed (exit 1)"),
        ("pytest and ruff fail.", ""),
        ("Both checks fail, as before.", ""),
        ("Done.", "`pytest` failed (exit 1); `ruff check .` failed (exit 1)"),
    ],
)
def test_of_several_failed_checks_those_that_the_answer_leaves_out_are_asked_about(
    root: Path, tools: Path, answer: str, asked: str
) -> None:
    tools.write_text("1\n")
    runs = [call("Bash", command=line) for line in ("pytest", "ruff check .")]
    world = World(root, [{"calls": runs}, {"text": answer}, {"text": "All of it fails."}], mode="bypassPermissions")
    world.deps.context.env["PATH"] = f"{root}/bin:{os.environ['PATH']}"
    assert check(world) == "`pytest` failed (exit 1); `ruff check .` failed (exit 1)"
    reminders = [m.text for m in world.history if isinstance(m, UserMessage) and "does not mention" in m.text]
    assert len(reminders) == bool(asked) and all(f"that failed: {asked}. Find" in text for text in reminders)


def test_a_check_that_passed_before_a_change_is_not_named_beside_a_later_one(root: Path, tools: Path) -> None:
    tools.write_text("0\n")
    lines = [call("Bash", command="pytest"), call("Write", file_path="a.py", content="x = 1\n")]
    assert check(world_with(root, *lines)) == "`pytest` passed, but files were changed after it"
    (root / "a.py").unlink()
    assert check(world_with(root, *lines, call("Bash", command="ruff check ."))) == "`ruff check .` passed"


LONG = "I changed the limit in three places: parser, writer and tables. All callers follow, and everything works now."


@pytest.mark.parametrize(
    ("replies", "shown"),
    [
        (["It was red before."], f"{LONG}\n\nIt was red before."),
        (
            ["That one was red before I began, so it is no fault of mine, and nothing more need be done."],
            f"{LONG}\n\nThat one",
        ),
        (["", ""], LONG),
        ([], f"{LONG}\n\nThe model failed: "),
        ([f"{LONG} But one test fails."], f"{LONG} But one test fails."),
    ],
)
def test_an_answer_that_is_not_given_again_is_shown_all_the_same(
    root: Path, tools: Path, replies: list[str], shown: str
) -> None:
    tools.write_text("1\n")
    run = {"calls": [call("Bash", command="pytest -q")]}
    world = World(root, [run, {"text": LONG}, *({"text": text} for text in replies)], mode="bypassPermissions")
    world.deps.context.env["PATH"] = f"{root}/bin:{os.environ['PATH']}"
    result = world.turn()
    assert isinstance(result, Complete)
    assert result.text.startswith(shown) and result.text.count(LONG) == 1


def test_a_user_at_the_terminal_has_seen_the_answer(root: Path, tools: Path) -> None:
    tools.write_text("1\n")
    run = {"calls": [call("Bash", command="pytest -q")]}
    world = World(root, [run, {"text": "Done."}, {"text": "It fails."}], mode="bypassPermissions", attended=True)
    world.deps.context.env["PATH"] = f"{root}/bin:{os.environ['PATH']}"
    world.turn()
    assert not any("whole answer" in m.text for m in world.history)
