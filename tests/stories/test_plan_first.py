"""Plan mode, a plan that is sent back and edited, its execution, a review gate, and undo."""

from __future__ import annotations

from tests.support.model_replies import Call
from tests.support.stories.day import ALL, Day, story
from tests.support.stories.model import bash, plan, read, says, write

HELLO = "def hello():\n    return 'Hello'\n"
FAREWELL = HELLO + "\n\ndef farewell():\n    return 'Bye'\n"
FAULTS = ("application-terminal", "lines-kill", "headless-connection")


def proposes(text: str, *tests: str) -> Call:
    return Call(
        "ExitPlanMode",
        {"plan": text, "files_to_modify": ["hello.py"], "files_to_create": ["test_hello.py"], "tests": list(tests)},
    )


@story(fronts=ALL, faults=FAULTS)
def test_a_plan_is_sent_back_approved_reviewed_and_undone(day: Day) -> None:
    day.repository(hello__py=HELLO, __gitignore="__pycache__/\n")
    day.settings('review = "files"\n')
    day.model.will(
        says("I look, and try.", read("hello.py"), write("hello.py", FAREWELL)),
        says("First a plan.", proposes("1. Add farewell()"), sees="plan mode"),
    )
    day.begin("add a farewell", "--permission-mode", "plan")
    day.asked("Add farewell()", "hello.py", "test_hello.py")
    assert day.text("hello.py") == HELLO
    day.model.will(
        says("With a test.", proposes("1. Add farewell()\n2. Test it", "python3 -m unittest -q"), sees="test it too")
    )
    day.answer("test it too")
    day.asked("Test it", "python3 -m unittest -q")
    test = "import unittest\n\n\nclass T(unittest.TestCase):\n    def test_it(self):\n        import hello\n"
    day.model.will(
        says(
            "I write it.",
            write("hello.py", FAREWELL),
            write("test_hello.py", test),
            sees="approved",
            unseen="<plan_mode>",
        ),
        says("The test.", bash("python3 -m unittest -q")),
    )
    day.inject_fault("Test it")
    day.front.accept("acceptEdits")
    day.asked("and 1 other file were changed", "hello.py", "test_hello.py")
    # A gate shows what was done before the next call.
    assert day.text("hello.py") == FAREWELL
    day.answer("y")
    day.model.will(
        says("", plan("Add farewell()", "Test it", done=2), sees="OK"),
        says("The farewell is there, with a test."),
    )
    day.approves("python3 -m unittest -q")
    day.shows("The farewell is there, with a test.")
    day.undo(files=2)
    assert day.text("hello.py") == HELLO
    assert not (day.work / "test_hello.py").exists()
    day.leave()
    # What the machine told the model is not what the user said.
    assert "<plan_mode>" not in day.agent("show") + day.agent("undo", "--list") + day.agent("sessions", "list")
    assert "add a farewell" in day.agent("sessions", "list")
