"""Whole screens of the main flows, kept as text beside this file and reviewed like code.

UPDATE_SCREENS=1 pytest tests/pty/test_screens.py writes them anew.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_cli import __version__
from tests.support.model_server import Call, ModelServer, Reply
from tests.support.pty_screen import Drawn
from tests.support.scripts import call, script

SCREENS = Path(__file__).parent / "screens"
READ = {"text": "I look at it first.", "calls": [call("Read", file_path="a.txt")]}
EDIT = {"text": "I change it.", "calls": [call("Edit", file_path="a.txt", old_string="world", new_string="there")]}
ANSWER = """## What I found

The file greets **the world**. It is `a.txt`:

```python
def greet(name: str) -> str:
    return f"hello {name}"
```

| file  | lines |
|-------|------:|
| a.txt |     1 |

1. first
2. second, with a long line that does not fit into eighty columns and is wrapped by words
"""
PLAN = [
    {"content": "Read the file", "status": "completed", "activeForm": "Reading"},
    {"content": "Change it", "status": "in_progress", "activeForm": "Changing it"},
    {"content": "Run the tests", "status": "pending", "activeForm": "Running"},
]


@pytest.fixture
def place() -> Iterator[Path]:
    """A project whose path is as long on every machine."""
    with tempfile.TemporaryDirectory(prefix="agent-", dir="/tmp") as name:
        project = Path(name) / "p"
        project.mkdir()
        (project / "a.txt").write_text("hello world\n")
        yield project


def masked(screen: Drawn, place: Path) -> str:
    """The screen without what differs from run to run: times, names, and how far what stood below has scrolled it."""
    text = "\n".join(screen.text().split("\n")[-screen.screen.lines :])
    text = text.replace(place.parent.name, "agent-XXXXXXXX").replace(f"agent {__version__}", "agent V")
    text = re.sub(r"\d+\.\d s\b|\b\d+ ms\b", "N.N s", text)
    text = re.sub(r"(--resume |session )[0-9a-f-]{8,36}", r"\1ID", text)
    text = re.sub(r"\(\d+s · ↑ \S+ ↓ \S+ ·", "(Ns · ↑ N ↓ N ·", text)
    return re.sub(r"\(\d+s ·", "(Ns ·", text) + "\n"


def shot(screen: Drawn, place: Path, name: str) -> None:
    """Hold the screen to the one that is kept, once it is that; the last frame may still be on its way."""
    kept = SCREENS / f"{name}.txt"
    if os.environ.get("UPDATE_SCREENS"):
        screen.rest()
        kept.write_text(masked(screen, place), "utf-8")
    wanted = kept.read_text("utf-8")
    screen.until(lambda: masked(screen, place) == wanted, f"the screen {name} (UPDATE_SCREENS=1 keeps what is there)")


def begun(place: Path, replies: list[dict[str, object]], *args: str, columns: int = 80, rows: int = 24) -> Drawn:
    model = script(place.parent / "s.toml", replies)
    return Drawn(["--model", model, *args], place, columns, rows)


def idle(screen: Drawn) -> None:
    def over() -> bool:
        # A frame may arrive in two pieces: what stands below is part of it.
        text = screen.visible()
        return " s" in text and "esc to" not in text and screen.input_line().startswith(">")

    screen.until(over, "the end of the turn")


def test_the_first_start_and_the_second(place: Path) -> None:
    with begun(place, [{"text": "Hello."}]) as screen:
        screen.ready()
        screen.wait("default")
        shot(screen, place, "first_start")
        screen.line("hi")
        screen.wait("Hello.")
        idle(screen)
        screen.leave()
        shot(screen, place, "leaving")
    with begun(place, [{"text": "Hello."}, {"text": "Again."}], "--continue") as screen:
        screen.wait("restored")
        screen.wait("Hello.")
        screen.until(lambda: screen.input_line() == ">", "the prompt")
        shot(screen, place, "resume")
        screen.leave()


def test_an_answer_while_it_streams_and_when_it_is_done(place: Path) -> None:
    with begun(place, [{"text": ANSWER, "pause": 0.15}], "--", "what is it?") as screen:
        screen.wait("return")
        screen.type("a draft")
        screen.until(lambda: screen.input_line() == "> a draft", "the draft")
        screen.wait("2. sec")
        idle(screen)
        shot(screen, place, "answer")


def test_a_tool_call_and_its_approval(place: Path) -> None:
    with begun(place, [READ, EDIT, {"text": "Done."}], "--", "change it") as screen:
        screen.wait("Enter choose")
        shot(screen, place, "approval")
        screen.rest()
        screen.type("y")
        screen.wait("Done.")
        idle(screen)
        shot(screen, place, "tool_call")


def test_a_command_to_approve_in_a_narrow_window(place: Path) -> None:
    command = "printf 'a long command %s\\n' with several words in it > out.txt && cat out.txt"
    replies = [{"calls": [call("Bash", command=command, description="Write and show")]}, {"text": "Done."}]
    with begun(place, replies, "--", "go", columns=40, rows=30) as screen:
        screen.wait("Enter choose")
        shot(screen, place, "approval_narrow")


def test_an_answer_and_a_plan_under_way_with_messages_that_wait(place: Path) -> None:
    """A server that falls silent in the middle of its answer holds the screen still."""
    todo = Call("TodoWrite", {"todos": PLAN})
    half = Reply(text=ANSWER + "\n" + ANSWER, split=7, stall="middle")
    with ModelServer([Reply(text="A plan first.", calls=(todo,)), half, Reply(text="Later.")]) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        with Drawn(["--model", "openai/m", "--", "what is it?"], place, 80, 36, **env) as screen:
            screen.wait("wrapped by words")
            screen.wait("* writing")
            shot(screen, place, "stream")
            screen.line("and the docs, please")
            screen.line("/mode plan")
            screen.line("!ls")
            screen.type("a draft")
            screen.until(lambda: screen.input_line() == "> a draft", "the draft")
            screen.wait("queued: !ls")
            screen.wait("mode: plan\n")
            shot(screen, place, "queue")


LONG_PLAN = "# Better slugs\n\n`slug()` drops *accents*.\n\n" + "\n".join(
    f"{n}. Step {n} of many" for n in range(1, 30)
)
ASKED: dict[str, list[dict[str, object]]] = {
    "command": [
        {"calls": [call("TodoWrite", todos=[{"content": f"Step {n}", "status": "pending"} for n in range(8)])]},
        {"calls": [call("Bash", command="pytest -q 2>&1 | tail -5 && rm -f a.txt && curl -s https://example.org/x",
                        description="Run the tests, then clean up")]},
    ],
    "edit": [READ, {"calls": [call("Write", file_path="new.py", content="".join(f"x{n} = {n}\n" for n in range(40)))]}],
    "plan_mode": [{"calls": [call("ExitPlanMode", plan=LONG_PLAN)]}],
}  # fmt: skip


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (40, 15)])
@pytest.mark.parametrize("name", ASKED)
def test_a_question_fits_the_window(place: Path, name: str, columns: int, rows: int) -> None:
    """What is asked and the choices are on the screen, also with a plan and a long draft."""
    mode = ["--permission-mode", "plan"] if name == "plan_mode" else []
    with begun(place, ASKED[name], *mode, "--", "go", columns=columns, rows=rows) as screen:
        screen.wait("Esc ")
        screen.type("please, a long draft of many words " * 10)
        screen.until(lambda: screen.input_line().endswith("words"), "the draft")
        shot(screen, place, f"ask_{name}_{columns}x{rows}")


def test_a_plan_to_approve(place: Path) -> None:
    replies = [{"calls": [call("ExitPlanMode", plan="1. Look at `a.txt`\n2. Change the greeting\n")]}, {"text": "Ok."}]
    with begun(place, replies, "--permission-mode", "plan", "--", "plan it") as screen:
        screen.wait("Enter choose")
        shot(screen, place, "plan")


def test_a_question_of_the_model(place: Path) -> None:
    options = [{"label": "Red", "description": "like fire"}, {"label": "Blue", "description": "like the sea"}]
    ask = call("AskUserQuestion", questions=[{"question": "Which colour?", "options": options}])
    with begun(place, [{"calls": [ask]}, {"text": "Ok."}], "--", "ask me") as screen:
        screen.wait("Enter choose")
        shot(screen, place, "question")


def test_an_error_of_the_provider(place: Path) -> None:
    error = {"kind": "auth", "message": "openai refused the key: Incorrect API key provided."}
    with begun(place, [{"error": error}], "--", "hi") as screen:
        screen.wait("doctor")
        idle(screen)
        shot(screen, place, "error")


def test_the_menu_of_commands_and_of_files(place: Path) -> None:
    with begun(place, [], rows=16) as screen:
        screen.ready()
        screen.type("/mod")
        screen.wait("approval mode")
        shot(screen, place, "menu")
        screen.type("\x15@a")
        screen.wait("@a.txt")
        shot(screen, place, "menu_files")
