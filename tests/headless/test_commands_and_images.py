"""Commands of the user's and images, through the real program: on the command line, to the model, in the output."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.events import MessageAdded, ToolFinished
from agent_cli.kernel.messages import ToolMessage
from agent_cli.kernel.session.live import LiveSession
from agent_cli.shells.headless.stream_json import StreamJson
from agent_tools.results import Media
from tests.support.extension_files import command
from tests.support.model_server import ModelServer, Reply, openai
from tests.support.program import agent
from tests.support.sample_files import picture
from tests.support.scripts import call, script


def test_a_command_is_expanded_before_it_is_sent(work: Path) -> None:
    command(work, "ask", "---\ndescription: Ask\n---\nWhat does @a.txt say about $1?")
    with ModelServer([Reply(text="Hello.")]) as server:
        done = agent(["-p", "/ask worlds", "--model", "openai/gpt-test"], work, openai(server))
        body = server.bodies[0]
    assert (done.returncode, done.stdout) == (0, "Hello.\n"), done.stderr
    assert body["messages"][-1]["content"] == (
        'What does @a.txt say about worlds?\n\n<file path="a.txt">\nhello world\n</file>'
    )
    taught = next(t["function"] for t in body["tools"] if t["function"]["name"] == "SlashCommand")
    assert taught["description"].endswith("\n\n/ask - Ask")


def test_what_is_no_command_is_a_message(work: Path) -> None:
    with ModelServer([Reply(text="Ok.")]) as server:
        assert agent(["-p", "/usr/bin is full", "--model", "openai/gpt-test"], work, openai(server)).returncode == 0
        assert server.bodies[0]["messages"][-1]["content"] == "/usr/bin is full"
        assert "SlashCommand" not in [t["function"]["name"] for t in server.bodies[0]["tools"]]


def test_the_projects_commands_count_where_it_is_trusted(work: Path) -> None:
    command(work, "ask", "From the project", home=False)
    model = script(work.parent / "s.toml", [{"text": "Ok.", "expect": "From the project"}])
    refused = agent(["-p", "--model", model, "/ask"], work)
    assert refused.returncode == 1
    assert "commands: ask" in refused.stderr
    assert agent(["-p", "--trust", "--model", model, "/ask"], work).returncode == 0
    assert agent(["-p", "--bare", "--model", model, "/ask"], work).returncode == 1


def test_a_command_that_cannot_be_used_is_one_sentence(work: Path) -> None:
    command(work, "empty", "---\nx: [\n---\n")
    done = agent(["-p", "--model", script(work.parent / "s.toml", []), "/empty"], work)
    assert done.returncode == 2
    assert "empty.md: its front matter is invalid" in done.stderr.splitlines()[0]
    assert done.stderr.splitlines()[-1].startswith("agent: The command /empty is empty")


def test_stream_json_names_the_commands(work: Path) -> None:
    command(work, "ask", "Ask")
    model = script(work.parent / "s.toml", [{"text": "Ok."}])
    done = agent(["-p", "--output-format", "stream-json", "--model", model, "hi"], work)
    assert json.loads(done.stdout.splitlines()[0])["slash_commands"][:2] == ["ask", "explain"]


def test_stream_json_has_the_images_of_results_once() -> None:
    lines: list[dict[str, Any]] = []
    stream, view = StreamJson(lines.append, "s", "m", partial=False), LiveSession()
    image = Media("image/png", "cGl4ZWw=", "shot.png")
    stream.show(view.follow(MessageAdded(ToolMessage("c1", "Read", "shot.png: PNG image", media=(image,)))))
    stream.show(view.follow(ToolFinished("c1", "Read", False, 3)))
    [line] = lines
    assert line["message"]["content"][0]["content"] == [
        {"type": "text", "text": "shot.png: PNG image"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "cGl4ZWw="}},
    ]
    file = {"base64": "cGl4ZWw=", "type": "image/png", "originalSize": 5}
    assert line["tool_use_result"] == {"type": "image", "file": file}


def test_an_image_that_a_prompt_mentions_is_attached_for_a_model_that_takes_it(work: Path) -> None:
    (work / "shot.png").write_bytes(picture())
    with ModelServer([Reply(text="A dot."), Reply(text="I cannot see it.")]) as server:
        env = openai(server)
        done = agent(["-p", "--model", "openai/gpt-4o", "What is on @shot.png?"], work, env)
        blind = agent(["-p", "--model", "openai/gpt-unknown", "What is on @shot.png?"], work, env)
        shown, words = (body["messages"][1]["content"] for body in server.bodies)
    assert (done.returncode, done.stdout) == (0, "A dot.\n"), done.stderr
    assert [block["type"] for block in shown] == ["image_url", "text"]
    assert shown[1]["text"] == "What is on @shot.png?"
    assert blind.returncode == 0 and "not a text file" in words


def test_a_session_with_an_image_goes_on_with_another_model(work: Path) -> None:
    (work / "shot.png").write_bytes(picture())
    with ModelServer([Reply(text="A dot."), Reply(text="A dot, still."), Reply(text="So I heard.")]) as server:
        env = openai(server)
        done = agent(["-p", "-i", "shot.png", "--model", "openai/gpt-4o", "What is it?"], work, env)
        agent(["-p", "-c", "And now?"], work, env)
        agent(["-p", "-c", "--model", "openai/gpt-unknown", "And now?"], work, env)
        first, again, other = (body["messages"][1]["content"] for body in server.bodies)
    assert (done.returncode, done.stdout) == (0, "A dot.\n"), done.stderr
    url = f"data:image/png;base64,{b64encode(picture()).decode()}"
    assert first == [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "What is it?"}]
    assert again == first
    assert other == "What is it?\n[image shot.png not sent: this model does not accept images]"
    shown = agent(["show"], work)
    assert "What is it?" in shown.stdout and url[30:60] not in shown.stdout
    assert url[30:60] not in agent(["sessions", "list", "--json"], work).stdout


@pytest.mark.parametrize(
    ("name", "takes", "sentence"),
    [
        ("a.txt", "image", "--image: a.txt is not an image."),
        ("none.png", "image", "none.png does not exist."),
        (".", "image", "is a directory, not a file"),
        ("cut.png", "image", "truncated or damaged"),
        ("shot.png", "", "s.toml is not known to accept images. Choose a model"),
        ("shot.png", "pdf", "is not known to accept images"),
    ],
)
def test_an_image_that_cannot_be_shown_is_one_sentence(work: Path, name: str, takes: str, sentence: str) -> None:
    (work / "shot.png").write_bytes(picture())
    (work / "cut.png").write_bytes(picture()[:50])
    model = script(work.parent / "s.toml", [{"text": "Never."}])
    done = agent(["-p", "--image", name, "--model", model, "hi"], work, {"AGENT_MODEL_TAKES": takes})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("agent: ") and done.stderr.count("\n") == 1
    assert sentence in done.stderr
    assert "no earlier session" in agent(["show"], work).stderr, "nothing was begun"


def test_images_on_standard_input(work: Path) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": b64encode(picture()).decode()}
    content = [{"type": "text", "text": "See."}, {"type": "image", "source": source}]
    line = {"type": "user", "message": {"role": "user", "content": content}}
    with ModelServer([Reply(text="A dot.")]) as server:
        args = ["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--model", "openai/gpt-4o"]
        done = agent(args, work, openai(server), json.dumps(line))
        assert done.returncode == 0, done.stderr
        assert [part["type"] for part in server.bodies[0]["messages"][-1]["content"]] == ["image_url", "text"]
        bad = json.dumps(line).replace(source["data"], "not base64!")
        assert agent(args, work, openai(server), bad).returncode == 2


def test_the_model_may_use_a_command_where_a_rule_allows_it(work: Path) -> None:
    command(work, "ask", "---\ndescription: Ask\n---\nAsk about $1.")
    calls = [{"calls": [call("SlashCommand", command="/ask maps")]}, {"text": "Ok.", "expect": "Ask about maps."}]
    model = script(work.parent / "s.toml", calls)
    assert agent(["-p", "--allowedTools", "SlashCommand", "--model", model, "x"], work).returncode == 0
    denied = agent(["-p", "--model", model, "x"], work)
    assert denied.returncode == 1
    assert "uses the saved prompt /ask" in denied.stderr
