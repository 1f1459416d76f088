"""What a session on a terminal costs: until its prompt can be typed at, and while a long answer is drawn.

Others' seconds hold for the machine they were measured on. They are scaled by how long the floor's one answer takes
here and took there, so that the goals mean the same on any machine.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import resource
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator

from benchmarks.measure import BenchmarkError, Sample, interleaved, typical
from benchmarks.stage import Stage, say, words
from benchmarks.table import Row

FLOOR_ELSEWHERE = 0.087
PATIENCE = 20.0
SERVERS = {f"server-{n}": {"command": sys.executable, "args": ["-m", "mcp_server_time"]} for n in range(5)}
CHUNKS, PER_SECOND = 20_000, 2_000
# Pasting is switched on, something is drawn, the cursor shows again.
READY = re.compile(rb"\x1b\[\?2004h.*>.*\x1b\[\?25h", re.DOTALL)
# The last line of a turn, and a frame that is complete.
DONE = re.compile("✓.*\x1b\\[\\?25h".encode(), re.DOTALL)


def prompt(stage: Stage, runs: int) -> Iterator[Row]:
    """The session until its prompt can be typed at, beside the import of what draws it."""
    stage.answer = say("Hello there.")
    found = interleaved(
        {
            "ours": lambda: session(stage, ""),
            "servers": lambda: session(stage, "", AGENT_MCP_SERVERS=json.dumps(SERVERS)),
            "floor": lambda: stage.python("import prompt_toolkit, rich"),
            "script": lambda: stage.floor(),
        },
        runs,
    )
    ours, floor, script = (typical(found[n]) for n in ("ours", "floor", "script"))
    most = 0.3 * 1.2 * script / FLOOR_ELSEWHERE
    peers = "Codex 0.14 s, Claude Code 1.2, gptme 3.3, Gemini 4.1, aider 4.7, OpenCode 15"
    note = f"The floor is the import of prompt_toolkit and rich; 0.3x Claude Code would be {most * 1000:.0f} ms here."
    met = ours <= min(most, 1.6 * floor)
    yield Row("prompt", "usable prompt, CPU", ours * 1000, "ms", "<= 1.6x floor", met, floor * 1000, peers, note)
    wall = typical(found["ours"], "wall")
    yield Row("prompt", "  exec to usable prompt", wall * 1000, "ms", "", None)
    five = typical(found["servers"])
    goal = "<= 1.10x without"
    yield Row("prompt", "  with five MCP servers, CPU", five * 1000, "ms", goal, five <= 1.1 * ours, ours * 1000)


def draw(stage: Stage, runs: int) -> Iterator[Row]:
    """A very long answer that streams into a session at a model's pace."""
    text = words(CHUNKS, 12)
    samples, floors = [], []
    for _ in range(max(1, runs // 3)):
        stage.answer = say("Hello there.")
        floors.append(stage.floor())
        stage.answer = say(text, 5)
        stage.server.per_second = PER_SECOND
        try:
            samples.append(session(stage, "go"))
        finally:
            stage.server.per_second = 0
    ours = typical(samples)
    most = 0.5 * 7 * typical(floors) / FLOOR_ELSEWHERE
    peers = "Claude Code 7-10 s, Gemini 12, OpenCode 22, Codex 27, gptme 32, aider 37 and unfinished"
    goal = f"<= 0.5x Claude Code = {most:.1f} s here"
    yield Row("draw", "20,000 chunks in a terminal, 10 s, CPU", ours, "s", goal, ours <= most, None, peers)
    drawn = len(samples[-1].out) / 1000
    peers = "gptme 121 KB, Claude Code 260, Gemini 428, OpenCode 951, aider 1,658, Codex 7,100"
    note = f"The answer has {len(text) / 1000:.0f} KB."
    met = drawn <= 4 * len(text) / 1000
    yield Row("draw", "  drawn for it", drawn, "KB", "<= 4x the answer", met, None, peers, note)


def session(stage: Stage, message: str, **env: str) -> Sample:
    """Start a session on a terminal, send the message if there is one, and end it when the prompt is back.

    The sample's output is what was drawn after the message. Raises BenchmarkError.
    """
    ear, mouth = pty.openpty()
    fcntl.ioctl(mouth, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    # Only this child is waited for meanwhile, so the difference is its own.
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.monotonic()
    env = {**stage.env, **env}
    child = subprocess.Popen(stage.command(), cwd=stage.project, env=env, stdin=mouth, stdout=mouth, stderr=mouth)
    os.close(mouth)
    try:
        seen = until(ear, READY)
        if message:
            os.write(ear, message.encode() + b"\r")
            seen = until(ear, DONE)
        wall = time.monotonic() - started
    finally:
        child.kill()
        child.wait()
        os.close(ear)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Sample(cpu, wall, 0.0, started, seen, "", child.returncode)


def until(ear: int, wanted: re.Pattern[bytes]) -> bytes:
    """What is drawn until this has been. Raises BenchmarkError."""
    seen = bytearray()
    # The end of a long drawing is enough to look at.
    while not wanted.search(seen, max(0, len(seen) - 70_000)):
        if not select.select([ear], [], [], PATIENCE)[0]:
            raise BenchmarkError(f"{wanted.pattern!r} did not come within {PATIENCE:g} s: {bytes(seen[-300:])!r}")
        try:
            seen += os.read(ear, 65_536)
        except OSError:
            raise BenchmarkError(f"the session ended before {wanted.pattern!r}: {bytes(seen[-300:])!r}") from None
    return bytes(seen)
