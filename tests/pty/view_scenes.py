"""The scenes of views with lists and bars, of questions of commands, and of what a key does in them."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.pty.scenes import (
    CODE,
    NO,
    YES,
    Room,
    Scene,
    allowed_scene,
    at_rest,
    pressed_scene,
    turn_scene,
    typed_scene,
    view_scene,
)
from tests.support.program import agent
from tests.support.pty_screen import Drawn
from tests.support.scripts import call

# A server of three tools, one of which has a long description.
SERVER = """import json, sys

TOOLS = {"find": "Find a page by words of its title.", "read": "Read a page.", "list": "List the pages. " * 6}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if asked["method"] == "initialize":
        version = asked["params"]["protocolVersion"]
        info = {"name": "pages", "version": "1"}
        answer["result"] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    elif asked["method"] == "tools/list":
        schema = {"type": "object", "properties": {}}
        answer["result"] = {"tools": [{"name": n, "description": d, "inputSchema": schema} for n, d in TOOLS.items()]}
    else:
        answer["error"] = {"code": -32601, "message": "unknown method"}
    print(json.dumps(answer), flush=True)
"""


def _calls(room: Room) -> Iterator[Drawn]:
    """A list of calls without durations, which would move its columns."""
    (room.project / "titles.py").write_text(CODE)
    calls = [call("Read", file_path="titles.py"), call("Grep", pattern="slug"), call("Reed", file_path="titles.py")]
    replies = [{"text": "I look.", "calls": calls}, {"text": "Done: runs of spaces are one dash now."}]
    with room.program("--model", room.model(replies), "--", "Repair the titles.") as screen:
        at_rest(screen, "Done: runs of spaces", "\n✓ ")
        screen.type("\x0f")
        screen.wait("Transcript")
        screen.rest()
        screen.type("\x1b[D")
        screen.wait("✗")
        yield screen


def _cost(room: Room) -> Iterator[Drawn]:
    usages = [{"input": 9_200, "cache_read": 6_000, "output": 410, "cost": 0.031},
              {"input": 18_400, "cache_read": 14_000, "output": 1_250, "cost": 0.058},
              {"input": 4_100, "output": 90, "cost": 0.009}]  # fmt: skip
    prompts = ("What is wrong?", "Repair it, and add a test with three spaces in a row between the words.", "Thanks.")
    replies = [{"text": f"Answer {number}.", "usage": usage} for number, usage in enumerate(usages, 1)]
    with room.program("--model", room.model(replies), "--", prompts[0]) as screen:
        at_rest(screen, "Answer 1.")
        for number, prompt in enumerate(prompts[1:], 2):
            screen.line(prompt)
            at_rest(screen, f"Answer {number}.")
        screen.line("/cost")
        screen.wait("turn 3")
        yield screen


def _mcp(room: Room) -> Iterator[Drawn]:
    (room.project / "pages.py").write_text(SERVER)
    servers = {
        "pages": {"command": "python3", "args": ["pages.py"]},
        "gone": {"command": "no-such-program"},
    }
    config = json.dumps({"mcpServers": servers})
    with room.program("--model", room.model([{"text": "Hello."}]), "--mcp-config", config, "--", "Hi") as screen:
        at_rest(screen, "Hello.")
        screen.line("/mcp")
        screen.wait("ready (3 tools)")
        screen.wait("✗ gone")
        screen.rest()
        yield screen


def _sessions(room: Room) -> Iterator[Drawn]:
    model = room.model([{"text": "Spaces."}])
    for prompt in ("What is wrong with the titles?", "Write the release notes, with all that changed since March."):
        done = agent(["-p", "--model", model, prompt], room.project, room.env)
        assert done.returncode == 0, done.stderr
    with room.program("--model", model) as screen:
        screen.ready()
        screen.line("/resume")
        screen.wait("Which session?")
        yield screen


TWO = CODE + "\n\n" + "".join(f"# {number}\n" for number in range(12)) + '\nEND = "-"\n'
CHANGES = [
    {"old_string": 'title.lower().replace(" ", "-")', "new_string": '"-".join(title.lower().split())'},
    {"old_string": 'END = "-"', "new_string": 'END = ""'},
]


def _hunk(room: Room) -> Iterator[Drawn]:
    (room.project / "slug.py").write_text(TWO)
    read = {"calls": [call("Read", file_path="slug.py")]}
    edit = {"text": "Two changes.", "calls": [call("MultiEdit", file_path="slug.py", edits=CHANGES)]}
    yield from pressed_scene(turn_scene([read, edit]), ("h", "Apply hunk 1 of 2"))(room)


SEVERAL = {
    "question": "Which versions should be tested?",
    "multiSelect": True,
    "options": [
        {"label": "3.11", "description": "the oldest that is supported"},
        {"label": "3.12"},
        {"label": "3.13", "description": "the newest, on which most people are"},
    ],
}
ASK_SEVERAL = {"calls": [call("AskUserQuestion", questions=[SEVERAL])]}


def _undo(room: Room) -> Iterator[Drawn]:
    for screen in allowed_scene(room):
        screen.line("/undo")
        screen.wait("Undo?")
        yield screen


LONG_MESSAGE = " ".join(f"Sentence {number} of a long message that has to be read again before it is sent."
                        for number in range(1, 60))  # fmt: skip

VIEW_SCENES = (
    Scene("view_cost_bars", _cost),
    Scene("view_mcp", _mcp),
    Scene("view_resume", _sessions, (), ("What is wrong",)),
    Scene("view_calls_list", _calls),
    Scene("hunk", _hunk, (), ("Apply hunk 1 of 2", '"-".join'), (YES, NO)),
    Scene(
        "several",
        pressed_scene(turn_scene([ASK_SEVERAL]), ("1", "[x]"), ("3", "3.13")),
        (),
        ("Which versions should be tested?",),
        ("3.11", "3.12", "3.13"),
    ),
    Scene("undo", _undo, (), ("Undo?",), (YES, NO)),
    Scene("diff_comment", pressed_scene(view_scene("/diff", "slug.py"), ("c", "lines")), (), ("slug.py, lines",)),
    Scene("long_input", typed_scene(LONG_MESSAGE, "Sentence 59")),
)
