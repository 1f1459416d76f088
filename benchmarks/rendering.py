"""Rendering: what an answer costs as lines for a terminal, while it streams, beside Rich's own Markdown.

In this process, no terminal and no network; CPU time. An answer has what answers of models have: prose, lists, tables
and code in several languages. A token counts as four characters, and each is a chunk.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from statistics import median

from rich.console import Console
from rich.markdown import Markdown

from agent_cli.shells.terminal.render.markdown import MarkdownStream
from benchmarks.measure import BenchmarkError
from benchmarks.stage import Stage
from benchmarks.table import Row

COLUMNS = 101
TOKEN = 4
LONG = 20_000
SHORT = 2_000
# A screen redrawn so often while a model writes so many tokens a second.
FRAMES, PER_SECOND = 15, 100
SAMPLES = 8

SECTION = """## Step {n}: what `parse_{n}` does

The function reads **every line** of the input, once, and keeps what it needs for the next one. See
[the notes](https://example.org/notes/{n}) for the reasons; a *short* summary follows below, with the few exceptions
that matter in practice and one that does not.

- lines that begin with `#` are left out, as are blank ones
- a line may be continued with a backslash
  - up to {n} times, by default
  - never inside of quotes
- everything else is a pair of a key and a value

| key | value | meaning |
|---|---:|---|
| `timeout` | {n} | seconds until a request is given up |
| `retries` | 3 | how often it is tried again |
| `verbose` | false | whether each of them is told |

```python
def parse_{n}(lines: list[str]) -> dict[str, str]:
    \"\"\"Pairs of keys and values; raises ValueError for anything else.\"\"\"
    found: dict[str, str] = {{}}
    for number, line in enumerate(lines, 1):
        key, sign, value = line.partition("=")
        if not sign:  # no pair
            raise ValueError(f"line {{number}}: no value")
        found[key.strip()] = value.strip()
    return found
```

1. Call it with the lines of one file.
2. Look at what it raises.

```bash
for file in conf/*.ini; do
  python -m parse_{n} "$file" || echo "failed: $file" >&2
done
```

> It was slower before, because each line was looked at twice.

```ts
export const options = {{ timeout: {n}, name: `parse-${{version}}`, enabled: true }};
```

"""


def render(stage: Stage, runs: int) -> Iterator[Row]:
    """The rows: against one rendering of the whole, with a tail, growth, and against redrawing all of it."""
    # Lexers and parsers are loaded once, by whoever comes first.
    ours(answer(SHORT), tail=True)
    whole(answer(SHORT))
    commits, floor = taken(lambda: ours(answer(LONG)), lambda: whole(answer(LONG)), runs)
    what = f"rendering {LONG:,} tokens as they come, CPU"
    note = "The floor is one Markdown of Rich for the finished answer."
    yield Row("render", what, commits * 1000, "ms", "< 2x floor", commits < 2 * floor, floor * 1000, note=note)
    half, full = taken(lambda: ours(answer(LONG // 2), tail=True), lambda: ours(answer(LONG), tail=True), runs)
    what = f"  with its tail at {FRAMES} frames/s, {PER_SECOND} tokens/s"
    yield Row("render", what, full * 1000, "ms", "< 5 s", full < 5)
    growth = full / half
    yield Row("render", f"  {LONG // 2:,} to {LONG:,} tokens", growth, "x", "< 2.2x", growth < 2.2)
    short = median(cpu(lambda: ours(answer(SHORT), tail=True)) for _ in range(runs))
    naive = redrawn(SHORT)
    what = f"  {SHORT:,} tokens with tail, beside Rich Live"
    note = f"The floor is estimated from {SAMPLES} of its frames: each renders all that there is."
    yield Row("render", what, short * 1000, "ms", "< 0.1x floor", short < naive / 10, naive * 1000, note=note)


def answer(tokens: int) -> str:
    """An answer of so many tokens."""
    parts: list[str] = []
    size = 0
    while size < tokens * TOKEN:
        parts.append(SECTION.format(n=len(parts) + 1))
        size += len(parts[-1])
    return "".join(parts)[: tokens * TOKEN]


def ours(text: str, *, tail: bool = False) -> None:
    """The answer token by token. tail: what is unfinished is rendered for every frame, too. Raises BenchmarkError."""
    stream = MarkdownStream(COLUMNS)
    lines = 0
    every = PER_SECOND / FRAMES
    due = every
    for count, start in enumerate(range(0, len(text), TOKEN), 1):
        lines += len(stream.feed(text[start : start + TOKEN]))
        if tail and count >= due:
            due += every
            stream.tail()
    if lines + len(stream.finish()) < text.count("\n") // 2:
        raise BenchmarkError("lines are missing")


def whole(text: str) -> None:
    """The finished answer by Rich alone."""
    console = Console(file=io.StringIO(), width=COLUMNS - 1, force_terminal=True, color_system="standard")
    console.print(Markdown(text))


def redrawn(tokens: int) -> float:
    """The seconds that rendering everything anew for each frame takes, from a few frames at even distances."""
    text = answer(tokens)
    frames = tokens / PER_SECOND * FRAMES
    sizes = [len(text) * (n + 1) // SAMPLES for n in range(SAMPLES)]
    return frames * sum(cpu(lambda size=size: whole(text[:size])) for size in sizes) / SAMPLES  # type: ignore[misc]


def taken(first: Callable[[], None], second: Callable[[], None], runs: int) -> tuple[float, float]:
    """The median CPU seconds of both, taken in turn."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(max(1, runs)):
        for run, kept in zip((first, second), seconds, strict=True):
            kept.append(cpu(run))
    return median(seconds[0]), median(seconds[1])


def cpu(run: Callable[[], None]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began
