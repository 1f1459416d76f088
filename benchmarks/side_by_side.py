"""The same task in `agent` and in the other programs of this kind that are installed, as text and as pictures.

    python -m benchmarks.side_by_side [--programs agent,claude] [--columns 80] [--rows 24] [--out FOLDER]

Each runs in tmux, in a project and a home of its own, against a model server on this machine, which says the same to
all: run the tests, read a file, change it, run the tests again. At each moment in which a program waits, its screen is
taken and its key for yes is pressed. After the task come the menu of commands, the list of keys, an answer with all
kinds of markdown, a long command, a model that does not answer, and an interrupt. Nothing is measured; it shows how
they look.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyte
from PIL import Image, ImageDraw, ImageFont

from docs.picture import PAPERS, Paper, look_of
from tests.pty.tmux_session import Tmux
from tests.support.model_server import Call, ModelServer, Received, Reply
from tests.support.pty_screen import StyledScreen
from tests.support.whole_screens import Row, row_of, runs_of

CODE = 'def slug(title):\n    return title.lower().replace(" ", "-")\n'
OLD, NEW = 'return title.lower().replace(" ", "-")', 'return "-".join(title.lower().split())'
TEST = """import unittest

from slug import slug


class SlugTest(unittest.TestCase):
    def test_words(self):
        self.assertEqual(slug("Hello World"), "hello-world")

    def test_spaces(self):
        self.assertEqual(slug("Hello   World"), "hello-world")
"""
TASK = "One of the tests fails. Find out why and repair it."
COMMAND = "python3 -m unittest -q"
CAUSE = "`replace` makes a dash of **each** space. Splitting at runs of spaces and joining the words repairs it."
DONE = "Done: `slug` now treats a run of spaces as one, and both tests pass."
PATCH = f"*** Begin Patch\n*** Update File: slug.py\n@@\n-    {OLD}\n+    {NEW}\n*** End Patch"
LAST = "run of spaces as one"
EXPLAIN, LONG, WAIT = "Explain how it works.", "Write the report.", "Think about it."
EXPLAINED = """## How `slug` works

1. `lower` makes the letters small.
2. `split` cuts at **runs** of white space, also at the ends.
3. `"-".join` puts the words together.

| title | before | now |
|---|---|---|
| `Hello World` | hello-world | hello-world |
| `Hello   World` | hello---world | hello-world |

```python
def slug(title):
    return "-".join(title.lower().split())
```

> Tabs and line ends count as white space, too."""
REPORT = """python3 - <<'EOF'
import pathlib
import re

lines = pathlib.Path("slug.py").read_text().splitlines()
names = [match[1] for line in lines if (match := re.match(r"def (\\w+)", line))]
report = pathlib.Path("report.md")
report.write_text("\\n".join(["# Functions", *(f"- {name}" for name in names)]) + "\\n")
print(report.read_text())
EOF"""
WROTE = "The report is in report.md."
# Seconds that the model thinks; long enough for two pictures.
THINKS = 20.0
# A program that asks more often has not understood the keys.
QUESTIONS = 8
# Seconds: a screen that has not changed for so long waits for somebody; how long a program may take for a step.
QUIET, PATIENCE = 2.5, 90.0


class Place(NamedTuple):
    """Where a program runs. url: of the model server, without a path."""

    project: Path
    home: Path
    url: str


class Program(NamedTuple):
    """How a program is started against a base URL. yes: the keys that allow what it asks. prepare: its settings."""

    name: str
    command: Callable[[Place], list[str]]
    env: Callable[[Place], dict[str, str]]
    yes: tuple[str, ...] = ("Enter",)
    prepare: Callable[[Place], None] = lambda place: None


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def _claude(place: Place) -> None:
    trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    known = {"hasCompletedOnboarding": True, "customApiKeyResponses": {"approved": ["k" * 20]}}
    _write(place.home / ".claude.json", json.dumps({**known, "projects": {str(place.project): trusted}}))


def _codex(place: Place) -> None:
    config = [
        'model = "mock"', 'model_provider = "mock"', 'approval_policy = "on-request"', 'sandbox_mode = "read-only"',
        "check_for_update_on_startup = false",
        "[model_providers.mock]", 'name = "mock"', f'base_url = "{place.url}/v1"', 'wire_api = "responses"',
        'env_key = "OPENAI_API_KEY"', f'[projects."{place.project}"]', 'trust_level = "trusted"',
    ]  # fmt: skip
    _write(place.home / ".codex/config.toml", "\n".join(config))


def _opencode(place: Place) -> None:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{place.url}/v1", "apiKey": "k"},
        "models": {"mock": {"name": "mock"}},
    }
    settings = {"provider": {"mock": provider}, "model": "mock/mock", "permission": {"edit": "ask", "bash": "ask"}}
    _write(place.home / ".config/opencode/opencode.json", json.dumps({**settings, "autoupdate": False}))


def _gemini(place: Place) -> None:
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}}}
    _write(place.home / ".gemini/settings.json", json.dumps(settings))


def _openai(place: Place) -> dict[str, str]:
    return {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": f"{place.url}/v1"}


PROGRAMS = (
    Program(
        "agent",
        lambda place: [sys.executable, "-m", "agent_cli", "--model", "openai/mock"],
        _openai,
        ("y",),
        lambda place: (place.home / "state").mkdir(),
    ),
    Program(
        "claude",
        lambda place: ["claude", "--model", "claude-sonnet-4-5", "--permission-mode", "default"],
        lambda place: {"ANTHROPIC_BASE_URL": place.url, "ANTHROPIC_API_KEY": "k" * 40, "DISABLE_AUTOUPDATER": "1",
                       "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
        prepare=_claude,
    ),
    Program("codex", lambda place: ["codex"], _openai, ("y",), _codex),
    Program("opencode", lambda place: ["opencode"], _openai, prepare=_opencode),
    Program(
        "gemini",
        lambda place: ["gemini", "--model", "gemini-2.5-pro"],
        lambda place: {"GEMINI_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": place.url},
        prepare=_gemini,
    ),
    Program(
        "aider",
        lambda place: ["aider", "--model", "openai/mock", "--openai-api-base", f"{place.url}/v1", "--no-analytics",
                       "--no-check-update", "--no-show-model-warnings", "--no-gitignore", "slug.py"],
        _openai,
        ("y", "Enter"),
    ),
)  # fmt: skip

Arguments = Callable[[str], dict[str, Any]]
# How the tools of the programs are called, by their names.
RUNS: dict[str, Callable[[str], dict[str, Any]]] = {
    "Bash": lambda line: {"command": line, "description": "Run the tests"},
    "bash": lambda line: {"command": line, "description": "Run the tests"},
    "run_shell_command": lambda line: {"command": line, "description": "Run the tests"},
    "exec_command": lambda line: {"cmd": line},
    "shell_command": lambda line: {"command": line},
    "shell": lambda line: {"command": ["bash", "-lc", line]},
}
READS: dict[str, Callable[[str], dict[str, Any]]] = {
    "Read": lambda path: {"file_path": path},
    "read": lambda path: {"filePath": path},
    "read_file": lambda path: {"file_path": path},
}
EDITS: dict[str, Callable[[str], dict[str, Any]]] = {
    "Edit": lambda path: {"file_path": path, "old_string": OLD, "new_string": NEW},
    "edit": lambda path: {"filePath": path, "oldString": OLD, "newString": NEW},
    "replace": lambda path: {"file_path": path, "old_string": OLD, "new_string": NEW, "instruction": CAUSE},
}


class Script:
    """What the model says to a program: which step it is at is read from the results in the request.

    asked: what the last call was for.
    """

    def __init__(self, project: Path) -> None:
        self._path = str(project / "slug.py")
        self.asked = ""

    def __call__(self, request: Received) -> Reply:
        tools = tool_names(request)
        if not tools:
            # Titles and summaries; or a program whose model edits by text alone.
            asked = json.dumps(request.body)
            block = f"slug.py\n```python\n<<<<<<< SEARCH\n    {OLD}\n=======\n    {NEW}\n>>>>>>> REPLACE\n```\n"
            return Reply(text=f"{CAUSE}\n\n{block}" if "SEARCH" in asked else "Repair slug")
        body = json.dumps(request.body)
        if WAIT in body:
            time.sleep(THINKS)
            return Reply(text="I have thought about it.")
        if LONG in body:
            run = next((name for name in RUNS if name in tools), "")
            if "call-step-9" in body:
                return Reply(text=WROTE)
            return Reply(text="I list the functions.", calls=(Call(run, RUNS[run](REPORT), "call-step-9"),))
        if EXPLAIN in body:
            return Reply(text=EXPLAINED)
        # A call that is in a request has its result there. Gemini's may have no id.
        return self._step(len(set(re.findall(r"call-step-\d", body))) or body.count('"functionResponse"'), tools)

    def _step(self, done: int, tools: Sequence[str]) -> Reply:
        run = next((name for name in RUNS if name in tools), "")
        steps = [("I will run the tests first.", RUNS, COMMAND), ("", READS, self._path), (CAUSE, EDITS, self._path)]
        steps.append(("Now the tests again.", RUNS, COMMAND))
        if done >= len(steps):
            return Reply(text=DONE)
        text, table, subject = steps[done]
        self.asked = ("a command", "a file to read", "an edit", "the command again")[done]
        name = next((name for name in table if name in tools), "")
        arguments = table[name](subject) if name else RUNS[run](self._by_shell(table))
        return Reply(text=text, calls=(Call(name or run, arguments, f"call-step-{done}"),))

    def _by_shell(self, table: object) -> str:
        return f"apply_patch <<'EOF'\n{PATCH}\nEOF" if table is EDITS else "cat slug.py"


def tool_names(request: Received) -> list[str]:
    """Return the names of the tools that a request offers, in whichever protocol."""
    found = []
    for tool in request.body.get("tools") or ():
        declared = tool.get("functionDeclarations") or tool.get("function_declarations") or [tool.get("function", tool)]
        found += [str(each.get("name", "")) for each in declared]
    return found


class Shot(NamedTuple):
    """A screen of one program. lines: of the whole transcript until then."""

    program: str
    moment: str
    rows: list[Row]
    lines: int


def capture(program: Program, columns: int, rows: int) -> Iterator[Shot]:
    """Run the task in a program; yield its screen at the start, at each question, and at the end."""
    with tempfile.TemporaryDirectory(prefix="side-", ignore_cleanup_errors=True) as folder:
        project, home = Path(folder) / "slugs", Path(folder) / "home"
        project.mkdir()
        home.mkdir()
        (project / "slug.py").write_text(CODE)
        (project / "test_slug.py").write_text(TEST)
        subprocess.run(["git", "init", "-q", "-b", "main"], cwd=project, check=True)
        script = Script(project)
        with ModelServer([script], repeat=True) as server:
            place = Place(project, home, server.url)
            program.prepare(place)
            more = {"COLORTERM": "truecolor", **program.env(place)}
            start = program.command(place)
            with Tmux([], project, columns, rows, program=start, more=more) as window:
                yield from _played(program, window, server, script, (columns, rows))


def _played(
    program: Program, window: Tmux, server: ModelServer, script: Script, size: tuple[int, int]
) -> Iterator[Shot]:
    def shot(moment: str) -> Shot:
        text = window.history()
        while text and not text[-1].strip():
            text.pop()
        return Shot(program.name, moment, styled(window.screen(styled=True), *size), len(text))

    _until(lambda: bool(window.screen().strip()))
    _quiet(window)
    yield shot("start")
    window.type(TASK)
    _quiet(window)
    window.keys("Enter")
    _until(lambda: bool(server.requests))
    asked, answered, end = 0, 0, time.monotonic() + PATIENCE
    while time.monotonic() < end and asked < QUESTIONS:
        _quiet(window, lambda: len(server.requests) > answered)  # noqa: B023 - called before it changes
        if len(server.requests) > answered:
            answered, end = len(server.requests), time.monotonic() + PATIENCE
        elif LAST in " ".join(window.screen().split()):
            break
        else:
            asked += 1
            yield shot(f"question about {script.asked}")
            window.keys(*program.yes)
    yield shot("end")
    for key, moment in (("/", "commands"), ("?", "keys")):
        window.type(key)
        _quiet(window)
        yield shot(moment)
        window.keys("Escape")
        _quiet(window)
        window.keys("C-u", "BSpace")
        _quiet(window)
    for text, moment in ((EXPLAIN, "answer"), (LONG, "long command")):
        window.type(text)
        _quiet(window)
        window.keys("Enter")
        _quiet(window)
        yield shot(moment)
    window.keys(*program.yes)
    _quiet(window)
    window.type(WAIT)
    _quiet(window)
    window.keys("Enter")
    time.sleep(QUIET)
    yield shot("waiting")
    window.keys("Escape")
    _quiet(window)
    yield shot("interrupted")


def _until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds() and time.monotonic() < end:
        time.sleep(0.1)


def _quiet(window: Tmux, over: Callable[[], bool] = lambda: False) -> None:
    """Wait until the screen has been as it is for some time, but for what counts seconds, or it is over."""
    before, since, end = "", time.monotonic(), time.monotonic() + PATIENCE
    while not over() and time.monotonic() < min(end, since + QUIET):
        time.sleep(0.2)
        now = "".join(char for char in window.screen() if char.isalpha())
        if len(now) != len(before):
            before, since = now, time.monotonic()


def styled(text: str, columns: int, rows: int) -> list[Row]:
    """Return the rows of a captured window."""
    screen = StyledScreen(columns, rows, history=0)
    pyte.Stream(screen).feed(text.rstrip("\n").replace("\n", "\r\n"))
    return [row_of([screen.buffer[y][x] for x in range(columns)], ()) for y in range(rows)]


def text_of(shots: Sequence[Shot], columns: int) -> str:
    """Return screens side by side as text."""
    heads = [f"{shot.program} · {shot.moment} · {shot.lines} lines".ljust(columns) for shot in shots]
    rows = zip(*([row.text.ljust(columns) for row in shot.rows] for shot in shots), strict=True)
    return "".join(f"{' │ '.join(row).rstrip()}\n" for row in [heads, *rows])


FACES = {"": "DejaVuSansMono.ttf", "b": "DejaVuSansMono-Bold.ttf", "i": "DejaVuSansMono-Oblique.ttf"}
MAC = "/System/Library/Fonts/Menlo.ttc"


def _face(name: str, size: int) -> Any:
    for path in (FACES[name], MAC):
        try:
            return ImageFont.truetype(path, size)
        except OSError:
            continue
    return None


def picture(shots: Sequence[Shot], columns: int, paper: Paper) -> Image.Image | None:
    """Return screens side by side as an image; None where there is no font with fixed widths."""
    faces = {name: _face(name, 15) for name in FACES}
    if None in faces.values():
        return None
    wide, high, gap = round(faces[""].getlength("M")), 19, 14
    panel = columns * wide + 2 * gap
    image = Image.new("RGB", (panel * len(shots), (len(shots[0].rows) + 2) * high + gap), paper.background)
    draw = ImageDraw.Draw(image)
    for number, shot in enumerate(shots):
        left = number * panel + gap
        draw.text((left, gap // 2), f"{shot.program} · {shot.moment}", paper.ink, faces["b"])
        for place, row in enumerate(shot.rows, 2):
            for at, style, text in runs_of(row):
                ink, ground, looks = look_of(style, paper)
                x, y = left + at * wide, place * high - gap
                if ground:
                    draw.rectangle((x, y, x + len(text) * wide - 1, y + high - 1), ground)
                if "d" in looks:
                    ink = _mixed(ink, ground or paper.background)
                face = faces[next((look for look in looks if look in FACES), "")]
                for cell, char in enumerate(text):
                    draw.text((x + cell * wide, y), char, ink, face)
                if "u" in looks:
                    draw.line((x, y + high - 3, x + len(text) * wide, y + high - 3), ink)
    return image


def _mixed(ink: str, ground: str) -> str:
    pairs = zip(bytes.fromhex(ink[1:]), bytes.fromhex(ground[1:]), strict=True)
    return "#" + "".join(f"{round(a * 0.6 + b * 0.4):02x}" for a, b in pairs)


def main() -> int:
    """Take the screens of the chosen programs; return 0 if there was one of each."""
    parser = argparse.ArgumentParser(description="The same task in agent and in other programs, side by side.")
    parser.add_argument("--programs", help="names, with commas between them; else those that are installed")
    parser.add_argument("--columns", type=int, default=80)
    parser.add_argument("--rows", type=int, default=24)
    parser.add_argument("--paper", choices=PAPERS, default="dark")
    parser.add_argument("--out", type=Path, default=Path("side-by-side"))
    given = parser.parse_args()
    names = [program.name for program in PROGRAMS]
    asked = given.programs.split(",") if given.programs else names
    if unknown := sorted(set(asked) - set(names)):
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(names)}")
    if shutil.which("tmux") is None:
        parser.error("tmux is needed, and not installed")
    absent = [name for name in asked if name != "agent" and shutil.which(name) is None]
    if absent:
        print(f"not installed: {', '.join(absent)}")
    present = [program for program in PROGRAMS if program.name in asked and program.name not in absent]
    taken = {}
    for program in present:
        taken[program.name] = list(capture(program, given.columns, given.rows))
        print(f"{program.name}: {', '.join(f'{s.moment} ({s.lines} lines)' for s in taken[program.name])}")
    given.out.mkdir(parents=True, exist_ok=True)
    blank = [Row("", ())] * given.rows
    for number, moment in enumerate(dict.fromkeys(shot.moment for shots in taken.values() for shot in shots)):
        # A program that does not ask has no such moment.
        shots = [
            next((shot for shot in shots if shot.moment == moment), Shot(program, moment, blank, 0))
            for program, shots in taken.items()
        ]
        name = f"{number}-{moment.replace(' ', '-')}"
        (given.out / f"{name}.txt").write_text(text_of(shots, given.columns), "utf-8")
        if (image := picture(shots, given.columns, PAPERS[given.paper])) is not None:
            image.save(given.out / f"{name}.png")
    print(f"screens: {given.out}")
    return 1 if absent and given.programs else 0


if __name__ == "__main__":
    sys.exit(main())
