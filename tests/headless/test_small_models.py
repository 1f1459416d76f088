"""Small models: what their first message has, and what they do in place of a call, such as to describe it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from agent_cli.kernel.engine.held_text import RepeatedText, repeated_length
from agent_cli.kernel.engine.turn_end import describes_call
from tests.support.model_server import Call, ModelServer, Received, Reply, ScriptedClient
from tests.support.program import agent


def run(
    work: Path, replies: Sequence[ScriptedClient], *words: str, profile: str = "small", code: int = 0
) -> tuple[list[str], str]:
    """The last message of each request, and what the run printed on standard error."""
    with ModelServer(list(replies)) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url, "AGENT_PROFILE": profile}
        done = agent(["-p", "--model", "openai/x", "--permission-mode", "acceptEdits", *words], work, env)
        assert done.returncode == code, done.stderr
    return [str(r.body["messages"][-1]["content"]) for r in server.requests], done.stderr


def test_its_prompt_lists_the_folder_and_names_no_tool_that_is_not_offered(work: Path) -> None:
    (work / "src").mkdir()
    (work / "src/b.py").write_text("b = 1\n")
    with ModelServer([Reply(text="Hi.")]) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url, "AGENT_PROFILE": "small"}
        agent(["-p", "--model", "openai/x", "hi"], work, env)
    prompt = server.bodies[0]["messages"][0]["content"]
    assert "Its files:\n  a.txt\n  .git/ ...\n  src/\n    b.py\nThere is a git repository" in prompt, prompt
    assert not {"LS", "Glob"} & set(prompt.replace(",", " ").split())


def test_a_described_call_is_asked_for_once(work: Path) -> None:
    (work / "a.ini").write_text("x = 1\n")
    text = 'You would call the `Edit` function with `{"file_path": "a.ini", "old_string": "1", "new_string": "2"}`.'
    edit = Call("Edit", {"file_path": "a.ini", "old_string": "1", "new_string": "2"})
    last, stderr = run(work, [Reply(text=text), Reply(calls=(edit,)), Reply(text="Done.")], "Set x to 2")
    assert "You described a call but did not make it" in last[1] and "described a call" in stderr
    assert (work / "a.ini").read_text() == "x = 2\n"
    last, _ = run(work, [Reply(text=text), Reply(text=text)], "Set x to 3")
    assert len(last) == 2


def test_a_file_that_the_request_names_comes_with_it(work: Path) -> None:
    (work / "stock.py").write_text("print(156)\n")
    (work / "SPEC.md").write_text("It prints 1.")
    (work / ".env").write_text("KEY=secret\n")
    (work.parent / "other.py").write_text("elsewhere\n")
    words = "Does `stock.py` do what SPEC.md says, not v1.2, none.py, .env, ../other.py or stock.py?"
    (sent,), _ = run(work, [Reply(text="No.")], words)
    assert sent.count('<file path="stock.py">\nprint(156)\n</file>') == 1
    assert sent.count('<file path="SPEC.md">\nIt prints 1.\n</file>') == 1
    assert sent.count("<file path=") == 2
    edit = Call("Edit", {"file_path": "stock.py", "old_string": "156", "new_string": "1"})
    run(work, [Reply(calls=(edit,)), Reply(text="Done.")], "Make stock.py print 1")
    assert (work / "stock.py").read_text() == "print(1)\n"
    (sent,), _ = run(work, [Reply(text="Yes.")], "Does `stock.py` print 1?", profile="default")
    assert "<file" not in sent


def test_a_call_before_an_imagined_result_is_made_and_the_rest_left_out(work: Path) -> None:
    (work / "stock.py").write_text("print(156)\n")
    call = '```json\n{"name": "Read", "arguments": {"file_path": "stock.py"}}\n```'
    last, stderr = run(work, [Reply(text=f"{call}\n\nIt prints 120."), Reply(text="156.")], "What does stock.py print?")
    assert "print(156)" in last[1] and "It prints 120" not in stderr and "[]" not in last[1]


def test_a_result_that_the_model_wrote_itself_is_no_answer(work: Path) -> None:
    text = "I committed it.\n<tool_response>\n[main 1a2b3c4] Release\n</tool_response>"
    last, stderr = run(work, [Reply(text=text), Reply(text="Nothing was committed.")], "Commit everything")
    assert "Only tools give results" in last[1] and "wrote a result" in stderr


def test_a_command_that_was_only_written_down_is_asked_for(work: Path) -> None:
    text = "I would search for it:\n```sh\ngrep -rn parse .\n```\nIt is in utils.py."
    call = Call("Bash", {"command": "grep -rn parse ."})
    last, _ = run(work, [Reply(text=text), Reply(calls=(call,)), Reply(text="Nowhere.")], "Where is parse defined?")
    assert "wrote a command but did not run it" in last[1]
    run(work, [Reply(text=text)], "How do I search for a word in bash?")


def test_an_answer_that_breaks_off_is_continued(work: Path) -> None:
    last, _ = run(work, [Reply(text="I looked at it and found:"), Reply(text="Nothing.")], "Look around")
    assert "Your answer breaks off" in last[1]


def test_it_is_asked_again_after_calls_that_were_made(work: Path) -> None:
    (work / "a.ini").write_text("x = 1\n")
    text = 'Use `Edit` with `{"file_path": "a.ini", "old_string": "1", "new_string": "2"}`.'
    read = Call("Read", {"file_path": "a.ini"})
    edit = Call("Edit", {"file_path": "a.ini", "old_string": "1", "new_string": "2"})
    replies = [Reply(text=text), Reply(calls=(read,)), Reply(text=text), Reply(calls=(edit,)), Reply(text="Done.")]
    run(work, replies, "Set x to 2")
    assert (work / "a.ini").read_text() == "x = 2\n"


def test_an_answer_that_repeats_itself_is_ended(work: Path) -> None:
    loop = "The files are:\n" + "".join(f"src/{name}.yml\n" for name in "abcdefgh") * 200
    last, stderr = run(work, [Reply(text=loop), Reply(text="None.")], "List files")
    assert "You repeated the same text" in last[1] and "repeated the same text" in stderr
    last, stderr = run(work, [Reply(text=loop), Reply(text=loop), Reply(text="Sorry.")], "List files", code=4)
    assert len(last) == 3


@pytest.mark.parametrize(
    ("text", "repeats"),
    [
        ("hello world " * 200, True),
        ("-" * 3_000, True),
        ("- " * 600, False),
        ("Done." + "\n" * 900, True),
        ("Done." + "\n" * 90, False),
        ("".join(f"line {n} of a long list\n" for n in range(900)), False),
        (" ".join(map(str, range(270))) * 8, True),
        (" ".join(map(str, range(270))) * 4, False),
    ],
)
def test_what_is_a_repetition(text: str, repeats: bool) -> None:
    assert bool(repeated_length(text)) is repeats
    pieces = RepeatedText()
    assert any(pieces.feed(text[n : n + 7]) for n in range(0, len(text) + 600, 7)) is repeats


def test_calls_that_are_repeated_without_end_are_made_once(work: Path) -> None:
    (work / "stock.py").write_text("print(156)\n")
    call = '```json\n{"name": "Read", "arguments": {"file_path": "stock.py"}}\n```\n\n'
    last, _ = run(work, [Reply(text=call * 60), Reply(text="156.")], "What does stock.py print?")
    assert last[1] == "print(156)"


def test_a_folder_is_listed_and_the_first_request_has_the_files(work: Path) -> None:
    (work / "src").mkdir()
    (work / "src" / "units.py").write_text("x")
    replies = [Reply(calls=(Call("Read", {"file_path": "src"}),)), Reply(text="units.py.")]
    with ModelServer(list(replies)) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url, "AGENT_PROFILE": "small"}
        agent(["-p", "--model", "openai/x", "What is in src?"], work, env)
    assert "  src/\n    units.py" in server.requests[0].body["messages"][0]["content"]
    assert "units.py" in server.requests[1].body["messages"][-1]["content"]


def test_a_call_at_the_end_of_an_explanation_is_made(work: Path) -> None:
    (work / "a.py").write_text("print(156)\n")
    text = f"{'I will look at it in the format that is required. ' * 9}\n\n<tools>\n"
    call = '{"name": "Read", "arguments": {"file_path": "a.py"}}\n</tools>' + "\n" * 600
    last, _ = run(work, [Reply(text=text + call), Reply(text="156.")], "What does a.py print?")
    assert last[1] == "print(156)"


def test_a_program_that_is_called_as_a_tool_is_run(work: Path) -> None:
    calls = '```\n{"name": "Git", "arguments": {"command": "git --version"}}\n```'
    last, _ = run(work, [Reply(text=calls), Reply(text="Done.")], "Show the version of git")
    assert "git version" in last[1]


def test_the_answer_to_a_reminder_has_to_be_a_call(work: Path) -> None:
    text = "I am sorry. I will need to run a `Grep` command to search for it."
    with ModelServer([Reply(text=text), Reply(text="No.")]) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url, "AGENT_PROFILE": "small"}
        agent(["-p", "--model", "openai/x", "Where is parse defined?"], work, env)
    assert [r.body.get("tool_choice") for r in server.requests] == [None, "required"]


def test_an_edit_of_a_file_that_was_not_read_shows_it(work: Path) -> None:
    (work / "stats.py").write_text("def median(values):\n    return 0\n")
    wrong = Call("Edit", {"file_path": "stats.py", "old_string": "median = lambda", "new_string": "m = lambda"})
    right = Call("Edit", {"file_path": "stats.py", "old_string": "    return 0", "new_string": "    return 1"})
    last, _ = run(work, [Reply(calls=(wrong,)), Reply(calls=(right,)), Reply(text="Done.")], "Fix stats")
    assert "Copy it from the file" in last[1] and "def median(values):" in last[1]
    assert (work / "stats.py").read_text().endswith("return 1\n")


def test_a_wrong_folder_is_put_right(work: Path) -> None:
    (work / "settings.ini").write_text("x = 1\n")
    wrong = Call("Edit", {"file_path": f"{work.parent}/settings.ini", "old_string": "1", "new_string": "2"})
    last, _ = run(work, [Reply(calls=(wrong,)), Reply(text="Done."), Reply(text="I cannot.")], "Set x to 2")
    assert "settings.ini has that name" in last[1]


def test_the_first_request_names_no_absolute_folder(work: Path) -> None:
    with ModelServer([Reply(text="Hi.")]) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url, "AGENT_PROFILE": "small"}
        agent(["-p", "--model", "openai/x", "hi"], work, env)
    assert str(work) not in str(server.requests[0].body["messages"][0])


def test_models_of_the_default_profile_are_not_asked(work: Path) -> None:
    (work / "a.py").write_text("x")
    run(work, [Reply(text='Call `Read` with {"file_path": "a.py"}.')], "What does a.py do?", profile="default")


@pytest.mark.parametrize(
    ("answer", "described"),
    [
        ('call `Edit` with {"file_path": "x"}', True),
        ('Use the Bash tool: { "command": "ls" }', True),
        ("I used Edit to change a.py.", False),
        ("To find them, you can use the `Bash` function.", True),
        ("I changed a.py using Edit.", False),
        ('The file has {"name": 1}.', False),
        ("{}", False),
        ('{{"name": "TestProject", "arguments": {"expected": "x"}}}', True),
        ('{"name": "agent", "version": 1}', False),
    ],
)
def test_what_is_a_description_of_a_call(answer: str, described: bool) -> None:
    assert describes_call(answer, ["Edit", "Bash"]) is described


@pytest.mark.parametrize(
    "text",
    [
        'Bash {"command": "touch made"}',
        'I run it.\nBash: {"command": "touch made"}',
        '`Bash({"command": "touch made"})`',
        'Bash {"command": "touch made"} <reminder>Then make the next call.</reminder>',
    ],
)
def test_a_tool_and_its_arguments_are_a_call(work: Path, text: str) -> None:
    _, stderr = run(work, [Reply(text=text), Reply(text="Done.")], "--allowedTools", "Bash(touch:*)", "Touch made")
    assert (work / "made").exists() and "wrote its calls as text" in stderr


@pytest.mark.parametrize(
    ("text", "profile"),
    [
        ('Bash {"command": "touch made"}', "default"),
        ('I ran this:\nBash {"command": "touch made"}\nand it worked.', "small"),
        ('Bash {"command": "touch ma', "small"),
    ],
)
def test_a_call_among_words_or_of_a_large_model_is_text(work: Path, text: str, profile: str) -> None:
    replies = [Reply(text=text)] * (2 if profile == "small" else 1)
    run(work, replies, "--allowedTools", "Bash(touch:*)", "What did you do?", profile=profile)
    assert not (work / "made").exists()


def echo(request: Received) -> Reply:
    return Reply(text=str(request.body["messages"][-1]["content"]).splitlines()[0])


def test_an_error_that_is_repeated_is_no_answer(work: Path) -> None:
    read = Call("Read", {"file_path": "none.py"})
    replies = [Reply(calls=(read,)), echo, Reply(calls=(Call("Read", {"file_path": "a.txt"}),)), Reply(text="hello")]
    last, stderr = run(work, replies, "Say what the file has")
    assert "repeated a message" in stderr and "make the next call" in last[2] and len(last) == 4


def test_an_edit_that_failed_is_tried_again_at_most_twice(work: Path) -> None:
    wrong = Call("Edit", {"file_path": "a.txt", "old_string": "none", "new_string": "x"})
    right = Call("Edit", {"file_path": "a.txt", "old_string": "hello", "new_string": "bye"})
    done = Reply(text="The work is done.")
    last, stderr = run(work, [Reply(calls=(wrong,)), done, Reply(calls=(right,)), done], "Change it")
    assert "no file has been changed" in last[2] and "ended after a failed Edit" in stderr
    assert (work / "a.txt").read_text() == "bye world\n"
    last, _ = run(work, [*[Reply(calls=(wrong,)), done] * 3], "Change it again")
    assert len(last) == 6 and sum("no file has been changed" in text for text in last) == 2


def test_an_edit_that_failed_in_an_earlier_turn_is_over(work: Path) -> None:
    wrong = Call("Edit", {"file_path": "a.txt", "old_string": "none", "new_string": "x"})
    run(work, [Reply(calls=(wrong,)), *[Reply(text="I cannot.")] * 2], "Change it")
    last, _ = run(work, [Reply(text="Hi.")], "-c", "hello")
    assert len(last) == 1
