"""Results by budget in the real program: what the model is shown, the file with the rest, and old results cleared."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.support.model_server import Call, ModelServer, Received, Reply
from tests.support.program import agent
from tests.support.scripts import bash, call, script

SECRET = "sk-test-0123456789abcdefghij"
LONG = "seq -f 'line %g of the output' 3000; echo; echo the key: $MY_API_KEY"


def run(work: Path, replies: list[dict[str, Any]], *args: str) -> Any:
    # A script of its own: it goes on where the answers of the session end.
    model = script(work.parent / f"script-{len(list(work.parent.glob('*.toml')))}.toml", replies)
    options = ["-p", "--model", model, "--allowedTools", "Bash", "--output-format", "stream-json"]
    done = agent([*options, *args, "go"], work, {"MY_API_KEY": SECRET})
    assert done.returncode in (0, 5), done.stdout + done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    results = [line["message"]["content"][0] for line in lines if line["type"] == "user"]
    return [str(result["content"]) for result in results], lines[-1]


def saved(text: str) -> Path:
    found = re.search(r"all of it is in (/\S+);", text)
    assert found, text
    return Path(found[1])


def test_the_rest_of_a_long_result_stays_with_the_session(work: Path) -> None:
    pass_key = ["--settings", 'shell.env_pass = ["MY_API_KEY"]']
    [shown, failed], _ = run(work, [bash(LONG), bash(f"{LONG}; false"), {"text": "Done."}], *pass_key)
    path = saved(shown)
    assert 6_500 < len(shown) < 8_500 and "line 1 of" in shown and SECRET in shown
    assert 9_500 < len(failed) < 11_000
    before, after = (len(part) for part in failed.split("[…", 1))
    assert after > 1.5 * before, "of a failure the end counts more"
    assert path.parent.name.endswith(".results")
    # The next process reads and searches it without a question, and begins where the numbers end.
    replies = [
        {"calls": [call("Grep", pattern="line 2345 ", path=str(path), output_mode="content")]},
        {"calls": [call("Read", file_path=str(path), offset=3000, limit=10)]},
        bash(LONG),
        {"text": "Done."},
    ]
    [hit, page, third], end = run(work, replies, "-c", *pass_key)
    assert "line 2345 of the output" in hit and "line 3000 of the output" in page
    assert "the key: [redacted]" in page and SECRET not in path.read_text()
    assert not end["permission_denials"]
    assert saved(third) == path.with_name("output-3.txt")
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
    # A copy of the session may read it as well; another session may not.
    asks = [{"calls": [call("Read", file_path=str(path))]}, {"text": "Done."}]
    assert "line 1 of the output" in run(work, asks, "-c", "--fork-session")[0][0]
    assert "outside the workspace" in run(work, asks)[0][0]
    session = path.parent.name.removesuffix(".results")
    listed = json.loads(agent(["sessions", "list", "--json"], work).stdout)
    assert next(s for s in listed if s["session_id"] == session)["size"] > 200_000
    assert agent(["sessions", "rm", session, "--yes"], work).returncode == 0
    assert not path.parent.exists()


def test_no_session_leaves_no_file(work: Path) -> None:
    [text], _ = run(work, [bash(LONG), {"text": "Done."}], "--no-session-persistence")
    assert not saved(text).exists()


def test_a_small_window_is_shown_an_eighth(work: Path) -> None:
    (work / "long.txt").write_text("a line of a long file\n" * 5_000)
    replies = [bash(LONG), {"calls": [call("Read", file_path="long.txt")]}, {"text": "Done."}]
    texts, _ = run(work, replies, "--settings", "context_window = 20000")
    assert all(4_000 < len(text) < 9_500 for text in texts)
    assert re.search(r"\[lines 1-\d+ of 5,000; continue with offset=\d+\]$", texts[1])


SETTINGS = "context_window = 60000"


def printing(times: int) -> Callable[[Received], Reply]:
    """Runs one command after another that prints much."""

    def answer(request: Received) -> Reply:
        done = answer.done = answer.done + 1  # type: ignore[attr-defined]
        if done > times:
            return Reply(text="All is done.")
        return Reply(calls=(Call("Bash", {"command": f"seq -f 'line %g of {done}' 2000"}, f"call-{done}"),))

    answer.done = 0  # type: ignore[attr-defined]
    return answer


def contents(request: Received) -> list[str]:
    """The messages of a request without the marks of the cache, which move."""
    return [re.sub(r', "cache_control": \{[^}]*\}', "", json.dumps(m)) for m in request.body["messages"]]


def breaks(requests: Sequence[Received]) -> int:
    pairs = [(contents(a), contents(b)) for a, b in pairwise(requests)]
    return sum(b[: len(a)] != a for a, b in pairs)


def test_a_long_session_clears_old_results_and_the_next_process_sends_the_same(work: Path) -> None:
    with ModelServer([printing(25)], repeat=True) as server:
        env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.anthropic_url}
        args = ["-p", "--model", "anthropic/claude-x", "--settings", SETTINGS, "--allowedTools", "Bash"]
        done = agent([*args, "Print it all."], work, env)
        assert done.returncode == 0, done.stdout + done.stderr
        first = len(server.requests)
        again = agent([*args, "-c", "And now?"], work, env)
        assert again.returncode == 0, again.stderr
        shown = agent(["--plain", *args[1:], "-c"], work, env, stdin="/context\n/uncompact\n").stdout
    assert re.search(r"old results cleared \d time", shown) and "compacted" not in shown.partition("/context")[2], shown
    assert re.search(r"\d+ old results cleared: [\d,]+ tokens are now about [\d,]+; all else stays", done.stderr)
    asked = server.requests
    assert 1 <= breaks(asked) <= 3 and not any(b"<compaction>" in r.raw for r in asked)
    before, after = contents(asked[first - 1]), contents(asked[first])
    assert after[: len(before)] == before
    assert max(len(r.raw) for r in asked) < 150_000
    assert "Cleared to make room: 201 lines" not in before[2] and "Cleared to make room" in before[2]
    path = re.search(r"All of it is in (/\S+);", before[2])
    assert path and Path(path[1]).read_text().count("\n") == 2000


def test_clearing_can_be_switched_off(work: Path) -> None:
    with ModelServer([printing(12)], repeat=True) as server:
        env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.anthropic_url}
        off = f"{SETTINGS}\ncompact_at = 0\n[results]\nclear = false"
        args = ["-p", "--model", "anthropic/claude-x", "--settings", off, "--allowedTools", "Bash"]
        assert agent([*args, "Print it all."], work, env).returncode == 0
    assert breaks(server.requests) == 0


def test_what_nobody_could_approve_says_what_to_do(work: Path) -> None:
    model = script(
        work.parent / "denied.toml", [bash("make -C sub"), {"text": "Done.", "expect": "continue without it"}]
    )
    done = agent(["-p", "--model", model, "--output-format", "stream-json", "go"], work)
    assert done.returncode == 5, done.stdout + done.stderr
    assert "Bash(make -C sub). Do not ask: continue without it, and say at the end that it was not done" in done.stdout
    shown = agent(["-p", "--model", model, "go"], work).stderr
    assert shown == (
        "Denied: Bash: make -C sub. It runs a command: make (not known to be read-only), and nobody can approve it "
        "here.\nTo allow this: --allowedTools 'Bash(make -C sub)'\n"
    )


def test_each_denied_call_is_named_once_with_the_flags_that_allow_it(work: Path) -> None:
    write = {"calls": [call("Write", file_path="a b.txt", content="x\n"), call("Bash", command="make")]}
    model = script(work.parent / "denied.toml", [write, bash("make"), {"text": "Nothing was done."}])
    done = agent(["-p", "--model", model, "go"], work)
    *denied, advice = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (5, "Nothing was done.\n")
    assert [line.partition(". ")[0] for line in denied] == ["Denied: Write: a b.txt (1 line)", "Denied: Bash: make"]
    narrow = f"'Edit(/{work}/a b.txt)' 'Bash(make)'"
    assert advice == (
        f"To allow edits: --permission-mode acceptEdits. To allow exactly the calls above: --allowedTools {narrow}"
    )
    # What is suggested works as it is printed.
    allowed = shlex.split(advice.partition("--allowedTools ")[2])
    again = agent(["-p", "--model", model, "--allowedTools", *allowed, "--", "go"], work)
    assert again.returncode == 0 and "Denied" not in again.stderr, again.stderr
    edits = agent(["-p", "--model", model, "--permission-mode", "acceptEdits", "go"], work)
    assert edits.returncode == 0 and edits.stderr.count("Denied") == 1, edits.stderr


def test_long_results_that_repeat_are_noticed_although_each_has_a_file_of_its_own(work: Path) -> None:
    texts, _ = run(work, [*[bash(LONG)] * 3, {"text": "Done."}])
    assert "gave the same result 3 times in a row" in texts[2]
