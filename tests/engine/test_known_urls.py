"""Pages whose address nobody but the model named are asked about, even where their domain is allowed."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.decisions import Approve, Reject
from agent_cli.kernel.engine.tool_call import is_known_url
from agent_cli.kernel.messages import UserMessage
from agent_tools.base import Effect, Tool, ToolContext, ToolResult
from agent_tools.record import Value
from agent_tools.registry import BUILTIN
from tests.support.program import agent
from tests.support.scripts import call, script
from tests.support.turns import World

URL = "https://example.org/docs/page?x=1"
ALLOW = ("WebFetch(domain:example.org)", "Bash", "Write", "Edit")


class Args(Value):
    url: str


class Fetch(Tool[Args]):
    """Fetches nothing."""

    name = "WebFetch"
    Args = Args
    address_argument = "url"

    def effects(self, args: Args, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("fetch", args.url),)

    def summary(self, args: Args, ctx: ToolContext) -> str:
        return f"Fetch {args.url}"

    def run(self, args: Args, ctx: ToolContext) -> ToolResult | Generator[Any, Any, ToolResult]:
        return ToolResult("the page")


TOOLS = (*(t for t in BUILTIN if t.name != "WebFetch"), Fetch())


def world(tmp_path: Path, *before: dict[str, Any], url: str = URL, **more: Any) -> World:
    replies = [*({"calls": [c]} for c in before), {"calls": [call("WebFetch", url=url)]}, {"text": "done"}]
    return World(tmp_path, replies, more.pop("answers", []), allow=ALLOW, tools=TOOLS, **more)


@pytest.mark.parametrize(
    "text",
    [f"read {URL}", f"read {URL}#part", "read http://example.org/docs/page?x=1.", f"<{URL}/>", URL.upper()],
)
def test_what_the_person_named_is_fetched(tmp_path: Path, text: str) -> None:
    w = world(tmp_path)
    w.turn(text)
    assert w.results[-1].text == "the page"


def test_what_a_result_named_is_fetched(tmp_path: Path) -> None:
    (tmp_path / "links.txt").write_text(f"see {URL}#top")
    w = world(tmp_path, call("Read", file_path="links.txt"), url=f"{URL}#other")
    w.turn("go")
    assert w.results[-1].text == "the page"


@pytest.mark.parametrize("before", [[], [call("Bash", command=f"echo {URL}")], [call("Read", file_path=URL)]])
def test_what_only_the_model_named_is_asked_about(tmp_path: Path, before: list[dict[str, Any]]) -> None:
    w = world(tmp_path, *before, answers=[Approve()])
    w.turn("read example.org")
    assert w.results[-1].text == "the page"
    assert "is allowed by WebFetch(domain:example.org), but no message and no result named" in w.asked[0].reason
    assert not w.asked[0].always


@pytest.mark.parametrize("command", ["cat links.txt", "grep -n docs links.txt", "head -n 5 ./links.txt"])
def test_what_a_command_shows_of_a_file_is_fetched(tmp_path: Path, command: str) -> None:
    (tmp_path / "links.txt").write_text(f"see {URL}\n")
    w = world(tmp_path, call("Bash", command=command))
    w.turn("go")
    assert w.results[-1].text == "the page"


PIECES = ("https://exam", "ple.org/docs/page?x=1")
COMPOSED = {
    "echo": [call("Bash", command=f"echo {PIECES[0]}''{PIECES[1]}")],
    "printf": [call("Bash", command=f"printf '%s%s' '{PIECES[0]}' '{PIECES[1]}'")],
    "encoded": [call("Bash", command="echo uggcf://rknzcyr.bet/qbpf/cntr?k=1 | tr a-z n-za-m")],
    "rewritten": [call("Bash", command="sed s,X,https://exam,g pieces.txt")],
    "joined": [call("Bash", command="cat first.txt second.txt")],
    "another command": [call("Bash", command="true; cat links.txt")],
    "written": [call("Write", file_path="own.txt", content=URL), call("Read", file_path="own.txt")],
    "written in pieces": [
        call("Write", file_path="own.txt", content=f"{PIECES[0]}HERE"),
        call("Edit", file_path="own.txt", old_string="HERE", new_string=PIECES[1]),
        call("Read", file_path="own.txt"),
        call("Bash", command="cat own.txt"),
        call("Grep", pattern="docs", output_mode="content"),
    ],
    "redirected": [
        call("Bash", command=f"printf %s {PIECES[0]} > own.txt; printf %s {PIECES[1]} >> own.txt"),
        call("Read", file_path="own.txt"),
        call("Bash", command="cat own.txt"),
    ],
    "under a name that is not in the command": [
        call("Bash", command=f"printf %s%s {PIECES[0]} {PIECES[1]} > a$((1)).txt"),
        call("Read", file_path="a1.txt"),
        call("Bash", command="cat a1.txt"),
        call("Grep", pattern="docs", output_mode="content"),
        call("Grep", pattern="docs", path="a1.txt", output_mode="content"),
    ],
    "copied under another name": [
        call("Write", file_path="own.txt", content=f"{PIECES[0]}HERE"),
        call("Edit", file_path="own.txt", old_string="HERE", new_string=PIECES[1]),
        call("Bash", command="for f in own.txt; do cp $f ${f%.txt}X.txt; ln $f ${f%.txt}Y.txt; done"),
        call("Read", file_path="ownX.txt"),
        call("Read", file_path="ownY.txt"),
    ],
    "by a script": [
        call("Write", file_path="make.sh", content=f"printf %s%s {PIECES[0]} '{PIECES[1]}' > made.txt"),
        call("Bash", command="sh make.sh"),
        call("Read", file_path="made.txt"),
    ],
    "a remote": [
        call("Bash", command=f"git init -q; git remote add x {PIECES[0]}''{PIECES[1]}"),
        call("Bash", command="git remote -v"),
    ],
    "said before": [call("Bash", command=f"echo {URL} > /dev/null"), call("Read", file_path="links.txt")],
}


@pytest.mark.parametrize("before", COMPOSED.values(), ids=COMPOSED)
def test_what_the_model_composed_is_not_known_by_being_printed(tmp_path: Path, before: list[dict[str, Any]]) -> None:
    (tmp_path / "links.txt").write_text(URL)
    (tmp_path / "pieces.txt").write_text(f"X{PIECES[1]}")
    (tmp_path / "first.txt").write_text(PIECES[0])
    (tmp_path / "second.txt").write_text(PIECES[1])
    w = world(tmp_path, *before, answers=[Reject()])
    w.turn("go")
    assert any(URL in result.text for result in w.results[:-1])
    assert len(w.asked) == 1 and "no message and no result named this address" in w.asked[0].reason


@pytest.mark.parametrize(
    ("text", "known"),
    [
        (f"[Background command shell-1 (`curl {URL}`) has ended]", False),
        (f"<plan_feedback>\nFetch {URL}\n\nThe user's feedback:\nno\n\nGo on.\n</plan_feedback>", False),
        (f"<plan_feedback>\nRead\n\nThe user's feedback:\nuse {URL}\n\nGo on.\n</plan_feedback>", True),
    ],
)
def test_a_message_of_the_program_that_quotes_the_model_does_not_count(text: str, known: bool) -> None:
    assert is_known_url([URL], [[UserMessage(text)]]) is known


def test_a_file_that_was_there_before_is_known_after_a_command(tmp_path: Path) -> None:
    (tmp_path / "links.txt").write_text(f"see {URL}\n")
    w = world(tmp_path, call("Bash", command="touch other"), call("Grep", pattern="docs", output_mode="content"))
    w.turn("go")
    assert w.results[-1].text == "the page"


def test_a_file_made_in_an_earlier_process_of_the_session_is_not_known(work: Path) -> None:
    made = call("Bash", command=f"printf %s%s {PIECES[0]} '{PIECES[1]}' > a$((1)).txt")
    replies: list[dict[str, Any]] = [{"calls": [made]}, {"text": "one"}, {"calls": [call("Read", file_path="a1.txt")]}]
    model = script(
        work.parent / "s.toml", [*replies, {"calls": [call("WebFetch", url=URL, prompt="p")]}, {"text": "."}]
    )
    rules = ["--allowedTools", "Bash WebFetch(domain:example.org)"]
    assert agent(["-p", "--model", model, *rules, "go"], work).returncode == 0
    done = agent(["-p", "-c", *rules, "--output-format", "stream-json", "go on"], work)
    assert URL in done.stdout and "no message and no result named this address" in done.stdout, done.stdout


def test_a_refusal_does_not_make_it_known(tmp_path: Path) -> None:
    w = world(tmp_path, call("WebFetch", url=URL), answers=[Reject(), Reject()])
    w.turn("go")
    assert len(w.asked) == 2


def test_where_no_rule_allows_it_the_question_says_so_too(tmp_path: Path) -> None:
    w = world(tmp_path, url="https://other.org/x", answers=[Reject()])
    w.turn("go")
    assert w.asked[0].reason.endswith("and no message and no result named this address before")


def test_in_other_modes(tmp_path: Path) -> None:
    bypassed = world(tmp_path, mode="bypassPermissions")
    bypassed.turn("go")
    assert bypassed.results[-1].text == "the page"
    denied = world(tmp_path, mode="dontAsk")
    result = denied.turn("go")
    assert denied.asked == []
    assert result.end.denials[0].rule == "WebFetch(domain:example.org)"
    assert result.end.denials[0].by == "mode"
