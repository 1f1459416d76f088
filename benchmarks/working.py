"""What it costs to work: tool steps, a long answer, long results, much on standard input, many rounds."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.measure import BenchmarkError, Sample, expect, interleaved, typical
from benchmarks.stage import LINES, OPENAI, PROMPT, RESPONSES, Stage, call_bash, say, words
from benchmarks.table import Row

STEPS = 20
LONG_STEPS = 100
CHUNKS = 20_000


def step(stage: Stage, runs: int) -> Iterator[Row]:
    """One more round with a command that does nothing: many steps less one step, by their difference."""

    def with_steps(steps: int, model: str, *, floor: bool) -> Sample:
        stage.answer = call_bash(steps, "true {n}")
        run = stage.floor(model) if floor else stage.agent(PROMPT, "--allowedTools", "Bash", model=model)
        return expect(run, "All is done.")

    peers = "floor 2 ms, gptme 45, Claude Code 51, Codex 56, Gemini 106, OpenCode 254"
    for what, model in (("", OPENAI), (", Responses", RESPONSES)):
        found = interleaved(
            {
                "ours": lambda m=model: with_steps(1 + STEPS, m, floor=False),  # type: ignore[misc]
                "ours 1": lambda m=model: with_steps(1, m, floor=False),  # type: ignore[misc]
                "floor": lambda m=model: with_steps(1 + STEPS, m, floor=True),  # type: ignore[misc]
                "floor 1": lambda m=model: with_steps(1, m, floor=True),  # type: ignore[misc]
            },
            runs,
        )
        ours, floor = (
            (typical(found[name]) - typical(found[f"{name} 1"])) / STEPS * 1000 for name in ("ours", "floor")
        )
        goal, met = "<= floor + 5 ms", ours <= floor + 5
        yield Row("step", f"one more tool step{what}, CPU", ours, "ms", goal, met, floor, peers)
        peers = ""


def stream(stage: Stage, runs: int) -> Iterator[Row]:
    """A very long answer in very small pieces, to a pipe."""
    text = words(CHUNKS)
    stage.answer = say(text, 5)

    def whole(sample: Sample) -> Sample:
        if sample.out.strip() != text.strip().encode():
            raise BenchmarkError("the long answer did not come through whole")
        return expect(sample)

    found = interleaved(
        {
            "ours": lambda: whole(stage.agent(PROMPT)),
            "floor": lambda: whole(stage.floor()),
            "responses": lambda: whole(stage.agent(PROMPT, model=RESPONSES)),
            "responses floor": lambda: whole(stage.floor(RESPONSES)),
        },
        runs,
    )
    peers = "floor 0.53 s, Codex 1.3, Claude Code 2.8, Gemini 9.0, OpenCode 15, aider > 70, gptme 82"
    ours, floor = typical(found["ours"]), typical(found["floor"])
    goal = "<= 1x Codex = 2.45x floor"
    yield Row("stream", "20,000-chunk answer to a pipe, CPU", ours, "s", goal, ours <= 2.45 * floor, floor, peers)
    other, below = typical(found["responses"]), typical(found["responses floor"])
    what = "20,000-chunk answer to a pipe, Responses, CPU"
    yield Row("stream", what, other, "s", "<= 2.45x floor", other <= 2.45 * below, below)


def results(stage: Stage, runs: int) -> Iterator[Row]:
    """A hundred steps whose results have two thousand lines each."""
    stage.answer = call_bash(LONG_STEPS, LINES)
    sent: dict[str, int] = {}

    def counted(name: str) -> Sample:
        stage.sent = 0
        run = stage.floor() if name == "floor" else stage.agent(PROMPT, "--allowedTools", "Bash")
        sent[name] = stage.sent
        return expect(run, "All is done.")

    # One of these runs is a hundred rounds; fewer will do.
    found = interleaved({n: lambda n=n: counted(n) for n in ("ours", "floor")}, max(1, runs // 2))  # type: ignore[misc]
    ours, floor = (typical(found[n]) / LONG_STEPS * 1000 for n in ("ours", "floor"))
    peers = "floor 13 ms, Claude Code 69, Codex 72, mini 107, OpenCode 384, gptme 391; Gemini stalled"
    note = f"Sent in all: {sent['ours'] / 1e6:.0f} MB, by the floor {sent['floor'] / 1e6:.0f} MB."
    what = "100 steps of 2,000 lines, CPU per step"
    yield Row("results", what, ours, "ms", "<= 2x floor", ours <= 2 * floor, floor, peers, note)
    ours, floor = (typical(found[n], "memory") for n in ("ours", "floor"))
    peers = "floor 45 MB, gptme 198, Codex 345, mini 506, Claude Code 542, OpenCode 1,881"
    yield Row("results", "  peak memory", ours, "MB", "<= 3x floor", ours <= 3 * floor, floor, peers)


def stdin(stage: Stage, runs: int) -> Iterator[Row]:
    """Ten megabytes on standard input: quick, and never silent about what was left out."""
    stage.answer = say("Hello there.")
    file = stage.home / "input.txt"
    file.write_text("one more line of a very long log\n" * (10_000_000 // 33))
    samples = [stage.agent("review this", stdin=file) for _ in range(max(1, runs // 2))]
    last = samples[-1]
    notice = next((line for line in last.err.splitlines() if "tandard input" in line), "")
    wall = typical(samples, "wall")
    met = wall < 1 and bool(notice) and (last.code != 0 or b"Hello" in last.out)
    peers = "Codex refuses clearly; Claude Code and OpenCode send all; gptme drops most; Gemini exit 0, no answer"
    note = f"Exit code {last.code}; on standard error: {notice or 'nothing'}"
    yield Row(
        "stdin", "10 MB on standard input, time", wall * 1000, "ms", "< 1 s, with a notice", met, None, peers, note
    )
