"""`agent memory show`, and what `agent doctor` says of memory, of search, and of settings with several mistakes."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.program import agent


def test_it_says_what_was_loaded_why_and_what_was_not(work: Path) -> None:
    (work / "AGENTS.md").write_text("Be kind. See @docs/a.md and @../out.md\n")
    (work / "CLAUDE.md").symlink_to("AGENTS.md")
    (work / "docs").mkdir()
    (work / "docs/a.md").write_text("More.\n")
    done = agent(["memory", "show"], work)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "2 memory files, 43 of 65,536 bytes, about 12 tokens",
        "  AGENTS.md         39 bytes  the project's",
        "    docs/a.md        6 bytes  imported by AGENTS.md",
        "not loaded:",
        "  @../out.md in AGENTS.md: is outside the project, and you have not approved it",
        "  CLAUDE.md: is the same file as AGENTS.md",
    ]
    assert "memory from outside the project" in done.stderr
    data = json.loads(agent(["memory", "show", "--json"], work).stdout)
    assert data["files"][0]["imports"][0]["name"] == "docs/a.md"
    assert [s["path"] for s in data["skipped"]] == ["../out.md", "CLAUDE.md"]
    assert "## docs/a.md (imported by AGENTS.md)\nMore." in agent(["memory", "show", "--text"], work).stdout


def test_trust_for_one_run_follows_what_leads_outside(work: Path) -> None:
    (work / "AGENTS.md").write_text("@../out.md @~/mine.md\n")
    (work.parent / "out.md").write_text("From outside.\n")
    (work.parent / "home").mkdir()
    (work.parent / "home/mine.md").write_text("Mine.\n")
    assert "From outside" not in agent(["memory", "show", "--text"], work).stdout
    text = agent(["memory", "show", "--text", "--trust"], work).stdout
    assert "From outside." in text and "Mine." in text


def test_nothing_to_show(work: Path) -> None:
    assert agent(["memory", "show"], work).stdout.startswith("No memory files here.")


def test_escapes_in_names_are_spelled_out(work: Path) -> None:
    (work / "AGENTS.md").write_text("@./\x1b]0;x.md @docs/\u202ea.md\n")
    (work / ".claude/rules").mkdir(parents=True)
    (work / ".claude/rules/a.md").write_text('---\npaths: ["\\e[2J*.py"]\n---\nx')
    done = agent(["memory", "show"], work)
    assert "\x1b" not in done.stdout and "\u202e" not in done.stdout


def test_a_session_is_reported_what_did_not_fit(work: Path) -> None:
    (work / "AGENTS.md").write_text("x" * 70_000)
    (work / "s.toml").write_text('[[reply]]\ntext = "Hi."\n')
    done = agent(["-p", "--model", "scripted:s.toml", "hi"], work)
    assert "AGENTS.md was cut by 4,464 bytes" in done.stderr


def test_bare_reads_none(work: Path) -> None:
    (work / "AGENTS.md").write_text("Be kind.\n")
    (work / "s.toml").write_text('[[reply]]\ntext = "Hi."\n')
    for args, count in ((["--bare"], 0), ([], 1)):
        state = {"AGENT_STATE_DIR": str(work.parent / f"state{count}")}
        agent(["-p", "--model", "scripted:s.toml", *args, "hi"], work, env=state)
        logs = [path.read_text() for path in (work.parent / f"state{count}").rglob("*.jsonl")]
        assert sum("Be kind." in text for text in logs) == count


def test_every_broken_line_is_reported_and_the_others_count(work: Path) -> None:
    (work.parent / "home").mkdir()
    (work.parent / "home/.agentrc").write_text(
        'modle = "x"\neffort = "low"\nmax_rounds = "many"\n[permissions]\nallow = ["Bash(ls)", "Nonsense(", "LS"]\n'
    )
    (work / ".agentrc").write_text("max_seconds = 9\nthis is no TOML\nmax_cost = = 1\nmax_failures = 4\n")
    done = agent(["doctor"], work)
    problems = [line for line in done.stdout.splitlines() if line.startswith("problem  settings")]
    for place in ("home/.agentrc:1: modle", "home/.agentrc:3: max_rounds", "home/.agentrc:5: permissions.allow"):
        assert sum(place in line for line in problems) == 1
    assert sum(".agentrc: not TOML" in line for line in problems) == 2
    assert f"{work.parent}/home/.agentrc sets effort, permissions.allow" in done.stdout
    assert f"{work}/.agentrc sets max_seconds, max_failures" in done.stdout
    assert "mode default (the default), 2 rules" in done.stdout
    assert agent(["-p", "hi"], work).returncode == 2


def test_who_is_asked_by_web_search(work: Path) -> None:
    def search(**env: str) -> str:
        lines = agent(["doctor"], work, env=env).stdout.splitlines()
        return next(line for line in lines if line.split()[1] == "search")

    assert search().startswith("ok") and "duckduckgo (https://html.duckduckgo.com" in search()
    assert "brave (https://api.search.brave.com" in search(BRAVE_API_KEY="secret-key-1234")
    assert "secret-key" not in search(BRAVE_API_KEY="secret-key-1234")
    assert search(AGENT_WEB_SEARCH="searxng").startswith("problem")


def test_the_doctor_tells_of_memory_that_did_not_fit(work: Path) -> None:
    (work / "AGENTS.md").write_text("x" * 70_000)
    lines = agent(["doctor"], work).stdout.splitlines()
    assert any(line.startswith("problem  memory") for line in lines)
