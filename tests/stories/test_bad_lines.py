"""A day with a bad line: rate limits, an overload, a dropped connection, another model, a window that is too small."""

from __future__ import annotations

from tests.support.stories.day import ALL, Day, story
from tests.support.stories.model import bash, edit, read, refuses, says

NOW = (("retry-after", "0"),)


@story(fronts=ALL, faults=("lines-terminal", "headless-kill", "lines-clock"))
def test_retries_a_fallback_and_no_side_effect_twice(day: Day) -> None:
    day.repository(counter__txt="0\n")
    day.env |= {
        "ANTHROPIC_API_KEY": "other-key",
        "ANTHROPIC_BASE_URL": day.model.server.anthropic_url,
        "AGENT_FALLBACK_MODELS": "anthropic/claude-other",
        "AGENT_RETRIES": "2",
    }
    day.model.will(
        refuses(429, "slow down", headers=NOW),
        says("I count.", bash("echo 1 >> counter.txt")),
    )
    day.begin("count, and do not miscount", "--allowedTools", "Bash(echo:*)", "--permission-mode", "acceptEdits")
    day.model.will(
        refuses(503, "overloaded", headers=NOW),
        says("Counted. And now the file.", read("counter.txt"), fault=True, sees="exit code 0"),
        refuses(500, "no", headers=NOW), refuses(500, "no", headers=NOW), refuses(500, "no", headers=NOW),
        # After a fault the read may have no result.
        says("The other model goes on.", read("counter.txt"), edit("counter.txt", "0\n", "")),
        says("One, and only one."),
    )  # fmt: skip
    day.inject_fault_during_turn("go on")
    day.shows("One, and only one.")
    assert day.text("counter.txt") == "1\n"
    assert [r.path for r in day.model.requests][-1].endswith("/messages")
    assert str(day.model.requests[-1].body).count("echo 1 >> counter.txt") <= 2
    day.leave()
    # What was said after a fault began another turn.
    for _ in range(2 if day.ends else 1):
        assert "Restored 1 file." in day.agent("undo", "--yes")
    assert day.text("counter.txt") == "0\n"
