"""docs/embedding.md: each example is run as it stands there, against a model server on loopback."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import agent_cli
from tests.support.fork_server import ROOT
from tests.support.model_server import Call, ModelServer, Received, Reply
from tests.support.program import clean_env

PAGE = (ROOT / "docs/embedding.md").read_text("utf-8")
SERVED = """
import os, sys
class Socket:
    def __init__(self):
        self.sent = []
    async def send(self, text):
        self.sent.append(json.loads(text)["type"])
socket = Socket()
session = asyncio.run(serve(socket, "Count to three."))
print(session, *dict.fromkeys(socket.sent))
"""


SUSPENDED = """
from agent_cli import open_agent

with open_agent(model="openai/gpt-5", approve="suspend") as agent:
    agent.run("Run the tests.")
"""


def example(heading: str) -> str:
    """The Python block below a heading of the page."""
    section = PAGE.partition(f"\n## {heading}\n")[2]
    found = re.search(r"^```python\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def ran(code: str, folder: Path, server: ModelServer) -> str:
    """What a program prints on standard output; on standard error it prints nothing."""
    env = clean_env(folder / "home", OPENAI_API_KEY="k", OPENAI_BASE_URL=server.openai_url)
    work = folder / "work"
    work.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=work, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def outputs(body: dict[str, Any]) -> list[str]:
    """What the calls of a request have brought."""
    return [item["output"] for item in body["input"] if item["type"] == "function_call_output"]


def test_one_turn(tmp_path: Path) -> None:
    with ModelServer([Reply(text="None do.")]) as server:
        found = ran(example("One turn"), tmp_path, server)
    assert re.fullmatch(r"None do\.\ncomplete: \$\d\.\d{4}, session [0-9a-f-]{36}\n", found)


def test_a_custom_tool(tmp_path: Path) -> None:
    replies = [
        Reply(calls=(Call("stock", {"part": "screw"}),)),
        Reply(calls=(Call("stock", {"part": "bolt"}),)),
        Reply(text="Twelve."),
    ]
    with ModelServer(replies) as server:
        found = ran(example("A custom tool"), tmp_path, server)
        (offered,) = server.bodies[0]["tools"]
        results = outputs(server.bodies[2])
    assert found == "Twelve.\n"
    assert offered["description"].startswith("Looks up how many pieces")
    assert offered["parameters"]["properties"]["part"]["description"] == "Name of the part, in the singular"
    assert results == ["There is no part named screw; the parts are: bolt, nut.", "12"]


def test_an_approver(tmp_path: Path) -> None:
    calls = (
        Call("Bash", {"command": "make test"}),
        Call("Bash", {"command": "rm -r ."}),
        Call("Write", {"file_path": "a.py", "content": "x"}),
        Call("Write", {"file_path": "NOTES.md", "content": "make test\n"}),
    )
    (tmp_path / "work").mkdir()
    (tmp_path / "work/Makefile").write_text("test:\n\t@echo jobs $(JOBS)\n")
    with ModelServer([Reply(calls=calls), Reply(text="Done.")]) as server:
        found = ran(example("An approver"), tmp_path, server)
        results = outputs(server.bodies[1])
    assert found.splitlines() == [
        "refused: Bash: Denied by the user, who said: only make test may be run here",
        "refused: Write: Denied by the user, who said: change documents only",
    ]
    assert "jobs 2" in results[0]
    assert "Two jobs at most." in results[0]
    assert sorted(path.name for path in (tmp_path / "work").iterdir()) == ["Makefile", "NOTES.md"]


def test_events_to_a_web_socket(tmp_path: Path) -> None:
    with ModelServer([Reply(text="One two three.")]) as server:
        session, *events = ran(example("Events to a web socket") + SERVED, tmp_path, server).split()
    assert re.fullmatch("[0-9a-f-]{36}", session)
    assert (events[0], events[-1]) == ("TurnStarted", "TurnFinished")
    assert {"TextDelta", "MessageAdded", "UsageAdded"} <= set(events)


def test_a_batch_of_prompts(tmp_path: Path) -> None:
    def answered(received: Received) -> Reply:
        prompt = next(m["content"][0]["text"] for m in received.body["input"] if m.get("role") == "user")
        if "beta" in prompt:
            return Reply(status=401, error="the key is wrong")
        answer = {"summary": f"said of {prompt.split()[1]}", "risky": "gamma" in prompt}
        return Reply(calls=(Call("StructuredOutput", answer),))

    with ModelServer([answered], repeat=True) as server:
        alpha, beta, gamma = ran(example("A batch of prompts"), tmp_path, server).splitlines()
    assert alpha == "alpha.py: fine: said of alpha.py."
    assert beta.startswith("beta.py: error: ")
    assert gamma == "gamma.py: risky: said of gamma.py."
    assert not list((tmp_path / "home").rglob("*.jsonl"))


def test_a_hook(tmp_path: Path) -> None:
    with ModelServer([Reply(calls=(Call("Read", {"file_path": ".env"}),)), Reply(text="I may not look.")]) as server:
        found = ran(example("Parameters"), tmp_path, server)
        (result,) = outputs(server.bodies[1])
    assert found == "I may not look.\n"
    assert "keep away from .env" in result


def test_a_front_end_of_your_own(tmp_path: Path) -> None:
    replies = [Reply(calls=(Call("Glob", {"pattern": "test_*"}),)), Reply(text="There are none.")]
    with ModelServer(replies) as server:
        found = ran(example("A front end of your own"), tmp_path, server)
    assert found.splitlines() == ["done Find test_*", "Complete There are none."]


def test_stored_sessions(tmp_path: Path) -> None:
    calls = [Reply(calls=(Call("Glob", {"pattern": "*.py"}),)), Reply(text="There are none.")]
    asks = Reply(calls=(Call("Bash", {"command": "make test"}),))
    with ModelServer([*calls, asks]) as server:
        ran(example("One turn"), tmp_path, server)
        ran(SUSPENDED, tmp_path, server)
    with ModelServer([]) as server:
        found = ran(example("Stored sessions"), tmp_path, server).splitlines()
        assert not server.bodies
    second, first, waits, turn, view = found
    assert first == "Which tests cover slug.py?: 4 messages, done"
    assert second.startswith("Run the tests.: ") and second.endswith(" messages, waiting")
    assert re.fullmatch(r"[0-9a-f]{8} waits: .*make test", waits)
    assert turn.startswith("Which tests cover slug.py?: 1 calls, $")
    assert view == "['Glob'] not open"
    assert len(list((tmp_path / "home").rglob("*.archived"))) == 1


def test_the_stable_names_are_listed() -> None:
    table = PAGE.partition("\n## Stable names\n")[2]
    listed = re.findall(r"`(\w+)`", "\n".join(line for line in table.splitlines() if line.startswith("| ")))
    assert sorted(listed) == sorted(agent_cli.__all__)
    assert set(agent_cli.__all__) == set(agent_cli._HOMES) and len(agent_cli.__all__) <= 75
    assert all(getattr(agent_cli, name) is not None for name in agent_cli.__all__)
