"""The completion record in a session: a line at the end of a turn with a plan, and /record."""

from __future__ import annotations

from pathlib import Path

from tests.support.program import agent
from tests.support.scripts import call, script

CHECK = "python3 -m unittest test_m.py"


def todo(*steps: tuple[str, str]) -> dict[str, object]:
    return call("TodoWrite", todos=[{"content": text, "status": status} for text, status in steps])


REPLIES = [
    {"calls": [todo(("write m", "in_progress"), ("write n", "pending"))]},
    {"calls": [call("Write", file_path="m.py", content="x = 1\n"), call("Bash", command=CHECK)]},
    {"calls": [todo(("write m", "completed"), ("write n", "in_progress"))]},
    {"text": "I wait for you."},
    {"calls": [call("Bash", command="echo y > n.py")]},
    {"calls": [todo(("write m", "completed"), ("write n", "completed"))]},
    {"text": "Done."},
]


def test_a_turn_with_a_plan_ends_with_what_is_done_and_checked(work: Path) -> None:
    (work / "test_m.py").write_text("import unittest\nclass T(unittest.TestCase):\n  def test_x(self): pass\n")
    model = script(work.parent / "s.toml", REPLIES)
    flags = ["--plain", "--trust", "--permission-mode", "bypassPermissions", "--model", model]
    first = agent(flags, work, stdin="go\n/record\n").stdout
    assert "1 of 2 steps, 1 with a passing check after the last change · /record" in first
    assert f"check: {CHECK}: exit 0" in first and ", after m.py (Write m.py (1 line))" in first
    # A session that is resumed knows what was done before.
    then = agent([*flags, "-c"], work, stdin="go on\n/record\n").stdout
    said = "2 of 2 steps, 1 with an outdated check, not checked after the last change: n.py"
    assert f"{said} · /record" in then and "n.py was changed after it" in then
    shown = agent(["record"], work).stdout
    assert said in shown and "[x] 2. write n" in shown and "changed n.py (+1 -0)" in shown


def test_a_turn_without_a_plan_ends_as_ever(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"text": "Hi."}])
    said = agent(["--plain", "--model", model], work, stdin="hi\n/record\n").stdout
    assert "steps" not in said and "Nothing was planned or changed." in said
