"""One-shot runs in narrow windows, over real HTTP: they compact, go on, and the next process goes on from there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.model_server import Call, ModelServer, Received, Reply
from tests.support.narrow_model import SUMMARY
from tests.support.program import agent
from tests.support.scripts import script

SIZE = 26_000
# Without the cheaper steps before it.
SETTINGS = f"context_window = {SIZE}\n[results]\nclear = false"


def tokens(received: Received) -> int:
    return len(received.raw) // 4


def model(calls: int) -> Callable[[Received], Reply]:
    """Reads one file after another, sums up where it is asked to, and refuses what is too long."""

    def answer(received: Received) -> Reply:
        if tokens(received) > SIZE:
            return Reply(status=400, error=f"prompt is too long: {tokens(received)} tokens > {SIZE} maximum")
        if b"<compaction>" in received.raw:
            return Reply(text=SUMMARY)
        made = answer.made = answer.made + 1  # type: ignore[attr-defined]
        if made > calls:
            return Reply(text=f"Read {calls} files.")
        return Reply(calls=(Call("Read", {"file_path": f"f{made}.txt"}, id=f"call_{made}"),))

    answer.made = 0  # type: ignore[attr-defined]
    return answer


def files(work: Path, count: int) -> None:
    for number in range(1, count + 1):
        (work / f"f{number}.txt").write_text(f"file {number}, a line with some words\n" * 150)


def lines(stdout: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stdout.splitlines()]


def marks(message: dict[str, Any]) -> int:
    return sum("cache_control" in block for block in message["content"])


def bare(messages: list[dict[str, Any]]) -> str:
    return json.dumps(messages).replace(', "cache_control": {"type": "ephemeral"}', "")


def test_a_run_compacts_and_the_next_process_goes_on_from_there(work: Path) -> None:
    files(work, 14)
    env: dict[str, str] = {"ANTHROPIC_API_KEY": "k"}
    with ModelServer([model(14)], repeat=True) as server:
        env["ANTHROPIC_BASE_URL"] = server.anthropic_url
        args = ["-p", "--model", "anthropic/claude-x", "--settings", SETTINGS]
        done = agent([*args, "--output-format", "stream-json", "Read them all; never write."], work, env)
        assert done.returncode == 0, done.stdout + done.stderr
        first = len(server.requests)
        again = agent([*args, "-c", "And now?"], work, env)
        assert again.returncode == 0, again.stderr
    texts = [line for line in lines(done.stdout) if line.get("subtype") == "compact_boundary"]
    assert texts
    metadata = texts[0]["compact_metadata"]
    assert metadata["trigger"] == "auto"
    assert metadata["pre_tokens"] > metadata["post_tokens"] > 0
    assert texts[0]["session_id"]
    assert {"type", "subtype", "session_id", "uuid"} <= texts[0].keys()
    states = [line["status"] for line in lines(done.stdout) if line.get("subtype") == "status"]
    assert states == ["compacting", None] * len(texts)
    result = lines(done.stdout)[-1]
    assert (result["outcome"], result["result"], result["num_turns"]) == ("done", "Read 14 files.", 15)
    asked = [r for r in server.requests if b"<compaction>" not in r.raw]
    assert all(tokens(r) <= SIZE for r in asked)
    # The head of a compaction ends one of the cached prefixes; the server checks that there are four at most.
    last = server.requests[first - 1].body["messages"]
    assert last[0]["content"][0]["text"].startswith("<compacted>")
    assert "Read them all; never write." in last[0]["content"][0]["text"]
    assert marks(last[0]) == 1
    assert marks(last[-1]) == 1
    # The next process sends what the one before has sent, and a suffix.
    resumed = server.requests[first].body["messages"]
    assert bare(resumed[: len(last)]) == bare(last)
    assert "And now?" in json.dumps(resumed[-1])


def test_what_was_done_is_reported_in_a_line(work: Path) -> None:
    files(work, 14)
    with ModelServer([model(14)], repeat=True) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        done = agent(["-p", "--model", "openai/m", "--settings", SETTINGS, "Read them all."], work, env)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Read 14 files.\n"
    assert "compacted: " in done.stderr
    assert "carried over: your last message, " in done.stderr


def test_a_window_that_is_smaller_than_thought_is_learnt_from_the_refusal(work: Path) -> None:
    files(work, 18)
    with ModelServer([model(18)], repeat=True) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url, "AGENT_CONTEXT_WINDOW": "200000"}
        done = agent(["-p", "--model", "openai/m", "Read them all."], work, env)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Read 18 files.\n"
    assert sum(tokens(r) > SIZE for r in server.requests) == 1


def test_a_message_that_is_too_large_is_a_sentence(work: Path) -> None:
    (work / "huge.txt").write_text("many words " * 20_000)
    with ModelServer([model(1)], repeat=True) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        args = ["-p", "--model", "openai/m", "--settings", SETTINGS]
        done = agent([*args, "Sum it up:"], work, env, stdin=(work / "huge.txt").read_text())
    assert done.returncode == 1
    assert "Your message alone has about" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_share_that_is_none_is_a_mistake(work: Path) -> None:
    model = script(work / "s.toml", [{"text": "Hello."}])
    done = agent(["-p", "--model", model, "--settings", "compact_at = 92", "hi"], work)
    assert done.returncode == 2
    assert "compact_at is a share" in done.stderr
