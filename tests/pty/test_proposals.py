"""What is left after a turn is proposed in the empty line, and nothing that the user did not ask for starts a turn."""

from __future__ import annotations

from pathlib import Path

from tests.support.pty_screen import Drawn
from tests.support.scripts import bash, call, script

TEST = "import unittest\n\nclass T(unittest.TestCase):\n    def test_sum(self):\n        self.assertEqual(1 + 1, X)\n"
CHECK = "python3 -m unittest -q test_sum"
ARGS = ("--permission-mode", "acceptEdits", "--allowedTools", "Bash(python3:*)")
PROPOSAL = "repair what the failed check reports (Tab)"


def work_on(work: Path, *answers: str) -> str:
    """A turn that changes a file, after which a test fails, and answers."""
    (work / "test_sum.py").write_text(TEST.replace("X", "2"))
    change = call("Edit", file_path="test_sum.py", old_string="1 + 1, 2", new_string="1 + 1, 3")
    replies = [
        {"calls": [call("Read", file_path="test_sum.py")]},
        {"calls": [change]},
        bash(CHECK),
        *({"text": answer} for answer in answers),
    ]
    return script(work / "model.toml", replies)


def test_a_failed_check_that_the_answer_mentions_is_proposed_and_costs_no_request(work: Path) -> None:
    model = work_on(work, "The test fails: the sum is 2, not 3.", "As you wish.")
    with Drawn(["--model", model, *ARGS, "Expect 3."], work) as screen:
        screen.wait(PROPOSAL)
        assert "not verified" in screen.text() and "asking the model" not in screen.text()
        assert "As you wish." not in screen.text()
        screen.type("\r")
        screen.rest()
        assert "As you wish." not in screen.text(), "an empty line sends nothing"
        screen.type("\t")
        screen.until(lambda: screen.input_line() == "> repair what the failed check reports", "the message")
        screen.type("\r")
        screen.wait("As you wish.")
        screen.leave()


def test_a_failed_check_that_the_answer_hides_is_asked_about_once_within_the_turn(work: Path) -> None:
    model = work_on(work, "Done.", "Done again.", "A request too much.")
    with Drawn(["--model", model, *ARGS, "Expect 3."], work) as screen:
        screen.wait(PROPOSAL)
        text = " ".join(screen.text().split())
        assert "does not mention a failed check" in text, screen.text()
        assert text.count("✓ ") == 1, "it is one turn, with one line of its own"
        screen.rest()
        assert "too much" not in screen.text()
        screen.leave()
