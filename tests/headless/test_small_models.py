"""What small models do in place of a call: describe it, or answer about a file that they have not looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_cli.engine.turn_end import describes_call
from tests.support.model_server import Call, ModelServer, Reply
from tests.support.program import agent


def run(work: Path, replies: list[Reply], *words: str, profile: str = "small") -> tuple[list[str], str]:
    """The last message of each request, and what the run printed on standard error."""
    with ModelServer(replies) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url, "AGENT_PROFILE": profile}
        done = agent(["-p", "--model", "openai/x", "--permission-mode", "acceptEdits", *words], work, env)
        assert done.returncode == 0, done.stderr
    return [str(r.body["messages"][-1]["content"]) for r in server.requests], done.stderr


def test_a_described_call_is_asked_for_once(work: Path) -> None:
    (work / "a.ini").write_text("x = 1\n")
    said = 'You would call the `Edit` function with `{"file_path": "a.ini", "old_string": "1", "new_string": "2"}`.'
    edit = Call("Edit", {"file_path": "a.ini", "old_string": "1", "new_string": "2"})
    last, stderr = run(work, [Reply(text=said), Reply(calls=(edit,)), Reply(text="Done.")], "Set x to 2")
    assert "You described a call but did not make it" in last[1] and "described a call" in stderr
    assert (work / "a.ini").read_text() == "x = 2\n"
    last, _ = run(work, [Reply(text=said), Reply(text=said)], "Set x to 3")
    assert len(last) == 2


def test_a_file_that_the_request_names_is_to_be_looked_at(work: Path) -> None:
    (work / "stock.py").write_text("print(156)\n")
    replies = [Reply(text="It is 120."), Reply(calls=(Call("Read", {"file_path": "stock.py"}),)), Reply(text="156.")]
    last, stderr = run(work, replies, "What does `stock.py` print?")
    assert "You have not looked at stock.py" in last[1] and "without looking at stock.py" in stderr
    assert "print(156)" in last[2]


@pytest.mark.parametrize("words", ["What is version 1.2?", "Explain none.py", "Is README.md good? Say yes."])
def test_it_is_asked_once_and_only_about_files_that_are_there(work: Path, words: str) -> None:
    (work / "README.md").write_text("x")
    replies = [Reply(text="Yes.")] * (2 if "README" in words else 1)
    run(work, replies, words)


def test_models_of_the_default_profile_are_not_asked(work: Path) -> None:
    (work / "a.py").write_text("x")
    run(work, [Reply(text='Call `Read` with {"file_path": "a.py"}.')], "What does a.py do?", profile="default")


@pytest.mark.parametrize(
    ("answer", "described"),
    [
        ('call `Edit` with {"file_path": "x"}', True),
        ('Use the Bash tool: { "command": "ls" }', True),
        ("I used Edit to change a.py.", False),
        ('The file has {"name": 1}.', False),
        ("{}", False),
    ],
)
def test_what_is_a_description_of_a_call(answer: str, described: bool) -> None:
    assert describes_call(answer, ["Edit", "Bash"]) is described
