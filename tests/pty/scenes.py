"""The scenes of which whole screens are stored: what the model says, what is typed, and what must be seen then."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.model_server import Call, ModelServer, Received, Reply
from tests.support.program import agent
from tests.support.pty_screen import GRAVE_REST, PATIENCE, Drawn
from tests.support.scripts import bash, call, script
from tests.support.whole_screens import View

CODE = '''"""Titles as parts of addresses."""


def slug(title):
    return title.lower().replace(" ", "-")
'''
LONG_COMMAND = """set -e
for version in 3.11 3.12 3.13; do
    echo "Python $version"
    python$version -m venv build/venv-$version
    build/venv-$version/bin/pip install --quiet --editable '.[dev]'
    build/venv-$version/bin/python -m unittest discover --start-directory tests --quiet
    if [ $? -ne 0 ]; then
        echo "failed with Python $version" >> build/failed.txt
    fi
done
test ! -s build/failed.txt
tar --create --gzip --file build/slugs.tar.gz slug.py tests
sha256sum build/slugs.tar.gz > build/slugs.tar.gz.sha256
echo all done"""
NEW_FILE = '"""Tests of the titles."""\n\nimport unittest\n\nfrom slug import slug\n\n\n' + "\n\n".join(
    f"class Case{number}Test(unittest.TestCase):\n    def test_title(self):\n"
    f'        self.assertEqual(slug("Title {number}"), "title-{number}")\n'
    for number in range(1, 9)
)
ANSWER = """## What I found

`slug` makes a dash of **each** space, so three spaces become three dashes:

```python
def slug(title):
    return title.lower().replace(" ", "-")
```

| function | file    | lines |
|----------|---------|------:|
| slug     | slug.py |     2 |

1. Split the title at any run of spaces.
2. Join the words with one dash, so that leading and trailing spaces leave nothing behind either.
"""
PLAN = """# Repair the titles

1. Split at runs of spaces in `slug.py`
2. Add a test with **three** spaces

```python
return "-".join(words)
```
"""
OLD = 'return title.lower().replace(" ", "-")'
NEW = 'return "-".join(title.lower().split())'
READ = {"text": "I read the code first.", "calls": [call("Read", file_path="slug.py")]}
EDIT = {
    "text": "Each space becomes a dash. Splitting at runs of spaces repairs it.",
    "calls": [call("Edit", file_path="slug.py", old_string=OLD, new_string=NEW)],
}
TODOS = [
    {"content": "Run the tests", "status": "completed", "activeForm": "Running the tests"},
    {"content": "Repair the cause", "status": "in_progress", "activeForm": "Repairing the cause"},
    {"content": "Run the tests again", "status": "pending", "activeForm": "Running the tests again"},
]
YES, NO = r"\b(y|yes|allow|approve)\b", r"\b(n|no|deny|reject|cancel|skip)\b"


class Room:
    """A home with a project in it, and the program in a window there."""

    def __init__(self, home: Path, view: View) -> None:
        self.home, self.view = home, view
        self.project = home / "slugs"
        self.project.mkdir()
        (self.project / "slug.py").write_text(CODE)
        subprocess.run(["git", "init", "-q", "-b", "main"], cwd=self.project, check=True)
        # Not the first start, at which there are hints for beginners.
        self.state = home / "home" / "state"
        self.state.mkdir(parents=True)

    def model(self, replies: list[dict[str, Any]]) -> str:
        script(self.home / "model.toml", replies)
        return "scripted:../model.toml"

    def program(self, *args: str, **env: str) -> Drawn:
        made = Drawn([*args], self.project, self.view.columns, self.view.rows, **self.env, **env)
        made.background = "rgb:ffff/ffff/ffff" if self.view.look == "light" else "rgb:0000/0000/0000"
        return made

    @property
    def env(self) -> dict[str, str]:
        return {**self.view.env, "HOME": str(self.home)}


@contextmanager
def rooms(view: View) -> Iterator[Room]:
    """A room whose path is as long on every machine."""
    with tempfile.TemporaryDirectory(prefix="agent-", dir="/tmp") as name:
        yield Room(Path(name), view)


Play = Callable[[Room], Iterator[Drawn]]


class Scene(NamedTuple):
    """A scene. play: brings the program there. texts: whose words must not be broken.

    shown: what must be on the screen or above it.
    choices: patterns of what must be in every window.
    code: it has code of an answer, whose lines the terminal wraps, so that they can be copied.
    """

    name: str
    play: Play
    texts: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    code: bool = False


# The title of the window says what the program is doing.
def _at_question(screen: Drawn) -> None:
    screen.until(lambda: screen.screen.title.startswith("? "), "a question")


def at_rest(screen: Drawn, *words: str) -> None:
    for word in words:
        screen.wait(word)
    screen.until(lambda: screen.screen.title.startswith("agent"), "the end of the turn")


def turn_scene(replies: list[dict[str, Any]], *args: str, **env: str) -> Play:
    """The scene of a question in a turn."""

    def play(room: Room) -> Iterator[Drawn]:
        with room.program("--model", room.model(replies), *args, "--", "Repair the titles.", **env) as screen:
            _at_question(screen)
            yield screen

    return play


def _start(room: Room) -> Iterator[Drawn]:
    room.state.rmdir()
    with room.program("--model", room.model([])) as screen:
        screen.ready()
        screen.wait("asks before")
        yield screen


def _destructive(room: Room) -> Iterator[Drawn]:
    for name in ("notes.txt", "build/a.o", "build/b.o"):
        path = room.project / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("not in git\n")
    yield from turn_scene([{"text": "I clean up.", **bash("rm -r build notes.txt", description="Remove the build")}])(
        room
    )


def _answer(room: Room) -> Iterator[Drawn]:
    with room.program("--model", room.model([{"text": ANSWER}]), "--", "What is wrong?") as screen:
        at_rest(screen, "Split the title", "behind either")
        yield screen


def allowed_scene(room: Room) -> Iterator[Drawn]:
    replies = [READ, EDIT, {"text": "Done: runs of spaces are one dash now."}]
    with room.program("--model", room.model(replies), "--", "Repair the titles.") as screen:
        _at_question(screen)
        screen.rest()
        screen.type("y")
        at_rest(screen, "one dash")
        yield screen


def _streaming(room: Room) -> Iterator[Drawn]:
    """A server that falls silent in the middle of its answer holds the screen still."""
    half = Reply(text=f"{ANSWER}\n{ANSWER}", split=7, stall="middle")
    with ModelServer([Reply(text="A plan first.", calls=(Call("TodoWrite", {"todos": TODOS}),)), half]) as server:
        server.forget = PATIENCE
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        with room.program("--model", "openai/m", "--", "What is wrong?", **env) as screen:
            screen.until(server.stalled.is_set, "half of the answer")
            screen.wait("behind either")
            screen.line("and the docs, please")
            screen.wait("docs, please")
            screen.until(lambda: "docs, please" not in screen.input_line(), "the empty line")
            screen.type("a draft")
            screen.until(lambda: "a draft" in screen.input_line(), "the draft")
            yield screen


CALLERS, TESTS = "Find the callers of slug", "Look for tests of titles"


def _two_explorers(request: Received) -> Reply:
    """Two sub-agents: the first has read a file and thinks, the second has said something."""
    text = str(request.body["messages"])
    if "sub-agent" not in str(request.body["messages"][0]):
        tasks = [{"description": what, "prompt": what, "subagent_type": "explore"} for what in (CALLERS, TESTS)]
        calls = tuple(Call("Task", task, f"task-{number}") for number, task in enumerate(tasks))
        return Reply(text="I have two things looked up.", calls=calls)
    if CALLERS in text and "tool_calls" not in text:
        return Reply(calls=(Call("Read", {"file_path": "slug.py"}),))
    return Reply(stall="headers")


def _subagents(room: Room) -> Iterator[Drawn]:
    with ModelServer([_two_explorers], repeat=True) as server:
        server.forget = PATIENCE
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url, "AGENT_MAX_PARALLEL_SUBAGENTS": "2"}
        with room.program("--model", "openai/m", "--", "Who calls it?", **env) as screen:
            # The parent, twice the first one, once the second.
            screen.until(lambda: len(server.requests) == 4, "both sub-agents")
            yield screen


def _jobs(room: Room) -> Iterator[Drawn]:
    replies = [bash("sleep 300", description="Serve the pages", run_in_background=True), {"text": "It is running."}]
    args = ["--allowedTools", "Bash(sleep:*)", "--", "Serve the pages."]
    with room.program("--model", room.model(replies), *args) as screen:
        at_rest(screen, "It is running.", "\n✓ ")
        screen.line("/jobs")
        screen.wait("❯ ● b1")
        yield screen
        # The job ends with the session, and not when this is killed.
        screen.type("q")
        screen.until(lambda: screen.input_line() == ">", "the prompt")
        screen.leave()


def resume_scene(room: Room) -> Iterator[Drawn]:
    replies = [READ, {"text": ANSWER}, {"text": "Two lines."}]
    for prompt in ("What is wrong?", "How long is it?"):
        known = ["--continue"] if prompt.startswith("How") else []
        done = agent(["-p", "--model", room.model(replies), *known, prompt], room.project, room.env)
        assert done.returncode == 0, done.stderr
    with room.program("--model", room.model(replies), "--continue") as screen:
        screen.wait("Two lines.")
        screen.ready()
        yield screen


READS = [call("Read", file_path=name) for name in ("slug.py", "titles.py", "pages.py", "slug.py", "gone.py")]
SEARCHES = [call("Grep", pattern="slug"), call("Glob", pattern="*.py"), call("LS", path=".")]
TRANSCRIPT = [
    {"text": "A plan first.", "calls": [call("TodoWrite", todos=TODOS)]},
    {"calls": READS},
    {"calls": SEARCHES},
    {"thinking": "Each space becomes a dash.", "calls": [call("Read", file_path="titles.py")]},
    {"text": "Splitting at runs of spaces repairs it.", "calls": EDIT["calls"]},
    bash("seq 4", description="Count"),
    bash("seq 400; exit 3", description="Count and fail"),
    {"calls": [call("Reed", file_path="slug.py")]},
    {"calls": [call("TodoWrite", todos=[{**step, "status": "completed"} for step in TODOS])]},
    {"text": "Done: runs of spaces are one dash now."},
]


def _transcript(room: Room) -> Iterator[Drawn]:
    """A turn with calls of every kind."""
    for name in ("titles.py", "pages.py"):
        (room.project / name).write_text(CODE)
    args = ["--permission-mode", "acceptEdits", "--allowedTools", "Bash(seq:*),Bash(exit:*)"]
    with room.program("--model", room.model(TRANSCRIPT), *args, "--", "Repair the titles.") as screen:
        at_rest(screen, "Done: runs of spaces", "\n✓ ")
        yield screen


def view_scene(keys: str, words: str) -> Play:
    """The scene of a view, opened by a command or a key after a turn."""

    def play(room: Room) -> Iterator[Drawn]:
        for screen in _transcript(room):
            screen.line(keys) if keys.startswith("/") else screen.type(keys)
            screen.wait(words)
            screen.rest()
            yield screen

    return play


def _leaving(room: Room) -> Iterator[Drawn]:
    with room.program("--model", room.model([{"text": "Hello."}]), "--", "Hi") as screen:
        at_rest(screen, "Hello.")
        screen.leave()
        yield screen


def _error(room: Room) -> Iterator[Drawn]:
    error = {"kind": "auth", "message": "openai refused the key: Incorrect API key provided."}
    with room.program("--model", room.model([{"error": error}]), "--", "Hi") as screen:
        at_rest(screen, "refused the key")
        yield screen


def typed_scene(text: str, words: str) -> Play:
    def play(room: Room) -> Iterator[Drawn]:
        with room.program("--model", room.model([])) as screen:
            screen.ready()
            screen.type(text)
            screen.wait(words)
            yield screen

    return play


def pressed_scene(play: Play, *keys: tuple[str, str]) -> Play:
    """A scene after keys, each with what must be seen then."""

    def pressed(room: Room) -> Iterator[Drawn]:
        scene = play(room)
        screen = next(scene)
        for key, words in keys:
            screen.rest(GRAVE_REST)
            screen.type(key)
            screen.until(lambda words=words: words in screen.visible(), repr(words))  # type: ignore[misc]
        yield screen
        next(scene, None)

    return pressed


def _trust(room: Room) -> Iterator[Drawn]:
    (room.project / ".agentrc").write_text('[permissions]\nallow = ["Bash(make)"]\n')
    with room.program("--model", room.model([])) as screen:
        screen.wait("Trust this folder?")
        yield screen


def _trusted(room: Room) -> Iterator[Drawn]:
    (room.project / "AGENTS.md").write_text("Use tabs.\n")
    yield from pressed_scene(_trust, ("y", "asks before"))(room)


FILES = {"calls": [call("Write", file_path=f"n{n}.py", content=f"x = {n}\n") for n in range(3)]}
QUESTIONS = [{
    "question": "Which separator should titles have?",
    "options": [
        {"label": "Dash", "description": "hello-world, as most sites have it"},
        {"label": "Underscore", "description": "hello_world, as in file names"},
        {"label": "None", "description": "helloworld"},
    ],
}]  # fmt: skip
SHORT_COMMAND = "python3 -m unittest -q"
RUN_TESTS = {"text": "I run the tests first.", **bash(SHORT_COMMAND, description="Run the tests")}
TESTS_ASKED = turn_scene([RUN_TESTS])
SCENES = (
    Scene("start", _start),
    Scene("command", turn_scene([RUN_TESTS]), ("Run the tests",), (SHORT_COMMAND,), (YES, NO)),
    Scene(
        "command_long",
        turn_scene([{"text": "I build all versions.", **bash(LONG_COMMAND, description="Build for all versions")}]),
        ("Build for all versions",),
        ("for version in 3.11 3.12 3.13; do",),
        (YES, NO),
    ),
    Scene("command_destructive", _destructive, ("Remove the build",), ("rm -r build notes.txt",), (YES, NO)),
    Scene("edit", turn_scene([READ, EDIT]), (str(EDIT["text"]),), ("slug.py", OLD, NEW), (YES, NO)),
    Scene(
        "new_file",
        turn_scene([{"text": "I add tests.", "calls": [call("Write", file_path="test_slug.py", content=NEW_FILE)]}]),
        (),
        ("test_slug.py", "Tests of the titles."),
        (YES, NO),
    ),
    Scene(
        "plan",
        turn_scene([{"calls": [call("ExitPlanMode", plan=PLAN)]}], "--permission-mode", "plan"),
        (PLAN,),
        ("Repair the titles", "Split at runs of spaces in"),
        (YES, NO),
    ),
    Scene(
        "review",
        turn_scene([READ, EDIT, READ], "--permission-mode", "acceptEdits", AGENT_REVIEW="files"),
        (),
        ("slug.py", NEW),
        (YES, NO),
    ),
    Scene(
        "choices",
        turn_scene([{"calls": [call("AskUserQuestion", questions=QUESTIONS)]}]),
        tuple(str(word) for option in QUESTIONS[0]["options"] for word in option.values()),  # type: ignore[attr-defined]
        ("Which separator should titles have?",),
        ("Dash", "Underscore", "None"),
    ),
    Scene("explained", pressed_scene(TESTS_ASKED, ("?", "asked, as")), (), ("asked, as",), (YES, NO)),
    Scene("draft", pressed_scene(TESTS_ASKED, ("wait", "> wait")), (), ("> wait", SHORT_COMMAND), (YES, NO)),
    Scene("reply", pressed_scene(TESTS_ASKED, ("r", "no, because>")), (), (SHORT_COMMAND,), (YES, NO)),
    Scene("one_of_three", turn_scene([FILES]), (), ("1 of 3", "Create n0.py?"), (YES, NO)),
    Scene("together", pressed_scene(turn_scene([FILES]), ("t", "Allow all 3?")), (), ("Allow all 3?",), (YES, NO)),
    Scene("trust", _trust, (), ("Trust this folder?",), (YES, NO)),
    Scene("trusted", _trusted, (), ("AGENTS.md",)),
    Scene("answer", _answer, (ANSWER,), code=True),
    Scene("allowed", allowed_scene, (str(EDIT["text"]), "Done: runs of spaces are one dash now.")),
    Scene("streaming", _streaming, (ANSWER,), ("docs, please", "a draft"), code=True),
    Scene("subagents", _subagents, (), (CALLERS, TESTS)),
    Scene("jobs", _jobs, ("It is running.",), ("sleep 300",)),
    Scene("resume", resume_scene, (ANSWER,), ("Two lines.",), code=True),
    Scene("transcript", _transcript, (), ("Done: runs of spaces are one dash now.",)),
    *(
        Scene(f"view_{name}", view_scene(keys, words))
        for name, keys, words in (
            ("help", "/help", "/status"),
            ("config", "/config", "changed"),
            ("context", "/context", "conversation"),
            ("cost", "/cost", "session:"),
            ("diff", "/diff", "slug.py"),
            ("permissions", "/permissions", "mode:"),
            ("memory", "/memory", "AGENTS.md"),
            ("rewind", "/rewind", "Repair the titles."),
            ("calls", "\x0f", "Transcript"),
        )
    ),
    Scene("leaving", _leaving),
    Scene("error", _error, ("openai refused the key: Incorrect API key provided.",)),
    Scene("menu", typed_scene("/", "/")),
    Scene("files", typed_scene("@sl", "slug.py")),
)
