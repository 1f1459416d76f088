"""Skills and types of sub-agents from files, through the real program: offered, used, refused, and told where wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agent_cli.knowledge.skills import read_skill
from agent_tools.base import Steps, ToolContext
from agent_tools.context import OfferedExtensions
from agent_tools.fs.workspace import Workspace
from agent_tools.results import Note
from agent_tools.saved_prompts import SkillArgs, UseSkill
from tests.support.extension_files import home_of, put, skill
from tests.support.model_server import ModelServer, Reply, openai
from tests.support.program import agent
from tests.support.scripts import call, script


def tools_sent(work: Path, *flags: str) -> dict[str, str]:
    """The tools that a request has, with their descriptions."""
    with ModelServer([Reply(text="Ok.")]) as server:
        done = agent(["-p", *flags, "--model", "openai/gpt-test", "hi"], work, openai(server))
        assert done.returncode == 0, done.stderr
        return {t["function"]["name"]: t["function"]["description"] for t in server.bodies[0]["tools"]}


def test_without_skills_and_agents_a_request_is_as_before(work: Path) -> None:
    sent = tools_sent(work)
    assert "Skill" not in sent
    assert "Further types" not in sent["Task"]


def test_skills_are_reported_by_name_and_their_bodies_come_on_demand(work: Path) -> None:
    skill(home_of(work), "pdf", "Use ${CLAUDE_SKILL_DIR}/fill.py. See notes.md.")
    put(home_of(work), ".claude/skills/pdf/notes.md", "Turn the page.")
    put(home_of(work), ".claude/skills/pdf/scripts/fill.py", "print()")
    skill(home_of(work), "mine", disable_model_invocation="true")
    assert tools_sent(work)["Skill"].endswith("\n\npdf: For pdf.")
    folder = home_of(work) / ".claude/skills/pdf"
    replies: list[dict[str, Any]] = [
        {"calls": [call("Skill", skill="pdf", args="form.pdf")]},
        {"calls": [call("Read", file_path=str(folder / "notes.md"))], "expect": f"Use {folder}/fill.py. See notes.md."},
        {"calls": [call("Bash", command=f"cat {folder}/notes.md")], "expect": "Turn the page."},
        {"text": "Filled.", "expect": "Turn the page."},
    ]
    done = agent(["-p", "--model", script(work.parent / "s.toml", replies), "fill it"], work)
    assert (done.returncode, done.stdout) == (0, "Filled.\n"), done.stderr
    assert "Denied" not in done.stderr
    mine = script(work.parent / "t.toml", [{"text": "Ok.", "expect": "Do it well.\n\nArguments: now"}])
    assert agent(["-p", "--model", mine, "/mine now"], work).returncode == 0


def test_a_skill_that_allows_something_is_asked_about(work: Path) -> None:
    skill(home_of(work), "make", allowed_tools="Bash(touch:*)")
    replies = [
        {"calls": [call("Skill", skill="make")]},
        {"calls": [call("Bash", command="touch made")]},
        {"text": "Done."},
    ]
    model = script(work.parent / "s.toml", replies)
    refused = agent(["-p", "--model", model, "go"], work)
    assert "Denied: Skill" in refused.stderr and not (work / "made").exists()
    allowed = agent(["-p", "--allowedTools", "Skill(make)", "--model", model, "go"], work)
    assert "Denied" not in allowed.stderr and (work / "made").exists()
    skill(home_of(work), "make")
    denied = agent(["-p", "--disallowedTools", "Skill(make)", "--model", model, "go"], work)
    assert "Denied: Skill" in denied.stderr


def test_what_a_skill_allows_is_asked_about_as_its_file_is_now(tmp_path: Path) -> None:
    folder = skill(tmp_path, "make").parent
    known = read_skill("make", folder, None, [])
    assert known is not None
    ctx = ToolContext(Workspace(tmp_path), env={})
    ctx.extensions = OfferedExtensions(skills={"make": known})
    use, args = UseSkill(), SkillArgs("make")
    assert [e.kind for e in use.effects(args, ctx)] == ["state"]
    # The line of a call names the skill once.
    display = Steps(use.run(args, ctx)).finish().display
    assert use.summary(args, ctx) == "Use the skill make" and isinstance(display, Note) and "make" not in display.text
    skill(tmp_path, "make", allowed_tools="Bash(touch:*)")
    assert [e.kind for e in use.effects(args, ctx)] == ["prompt"]


def test_a_projects_skills_and_agents_count_once_it_is_trusted(work: Path) -> None:
    skill(work, "deploy")
    put(work, ".agent/agents/critic.md", "---\nname: critic\ndescription: Finds fault.\ntools: Read\n---\nBe strict.")
    held = agent(["-p", "--model", script(work.parent / "s.toml", [{"text": "Ok."}]), "x"], work)
    assert "skills: deploy" in held.stderr and "agents: critic" in held.stderr
    assert "Skill" not in tools_sent(work)
    sent = tools_sent(work, "--trust")
    assert sent["Skill"].endswith("deploy: For deploy.")
    assert sent["Task"].endswith("Further types, for subagent_type:\ncritic - Finds fault.")
    assert "Skill" not in tools_sent(work, "--trust", "--bare")


def test_an_agent_type_of_a_file_works_with_its_prompt_tools_and_model(work: Path) -> None:
    own = script(work.parent / "own.toml", [{"calls": [call("Bash", command="ls")]}, {"text": "Dreadful."}])
    head = (
        f"---\nname: critic\ndescription: |\n  Finds fault.\n  Always.\ntools: [Read, Grep, TaskCreate]\nmodel: {own}\n"
    )
    put(home_of(work), ".claude/agents/critic.md", head + "color: red\n---\nBe strict.")
    task = call("Task", subagent_type="critic", description="look", prompt="Look at a.txt")
    replies = [{"calls": [task]}, {"text": "Told.", "expect": "Dreadful."}]
    args = ["-p", "--output-format", "stream-json", "--model", script(work.parent / "s.toml", replies), "x"]
    done = agent(args, work)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[-1]["result"] == "Told.", done.stderr
    assert "critic" in lines[0]["agents"] and "explore" in lines[0]["agents"]
    assert "There is no tool named 'Bash'. The tools are: Read, Grep." in done.stdout


@pytest.mark.parametrize(
    ("head", "why"),
    [
        ("name: x\ntools: Grap", "none of its tools is available: Grap; did you mean Grep?"),
        ("name: x\ndisallowedTools: Bsh", "there is no tool named Bsh; did you mean Bash?"),
        ("name: x\ntools: TaskCreate", "none of its tools is available: TaskCreate"),
        ("name: two words", "'two words' is not a name of one word"),
        ("name: [", "'[' is not a name of one word"),
        ("name: x\ncolor: [", "line 4"),
    ],
)
def test_a_wrong_agent_type_is_one_warning_and_left_out(work: Path, head: str, why: str) -> None:
    path = put(home_of(work), ".agent/agents/x.md", f"---\n{head}\n---\nPrompt.")
    model = script(work.parent / "s.toml", [{"text": "Ok."}])
    done = agent(["-p", "--output-format", "stream-json", "--model", model, "x"], work)
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"agent: {path}: ") and why in done.stderr and "skipped" in done.stderr
    assert json.loads(done.stdout.splitlines()[0])["agents"] == ["explore", "general", "plan", "review"]


def test_a_note_for_people_among_agent_types_is_no_warning(work: Path) -> None:
    put(home_of(work), ".claude/agents/README.md", "These are our agents.")
    done = agent(["-p", "--model", script(work.parent / "s.toml", [{"text": "Ok."}]), "x"], work)
    assert (done.returncode, done.stderr) == (0, "")


def test_stream_json_tells_what_was_loaded(work: Path) -> None:
    skill(home_of(work), "pdf")
    skill(home_of(work), "hidden", user_invocable="false")
    done = agent(
        ["-p", "--output-format", "stream-json", "--model", script(work.parent / "s.toml", [{"text": "Ok."}]), "x"],
        work,
    )
    first = json.loads(done.stdout.splitlines()[0])
    assert first["skills"] == ["hidden", "pdf"]
    assert "pdf" in first["slash_commands"] and "hidden" not in first["slash_commands"]
    assert first["plugins"] == [] and "Skill" in first["tools"]


def test_hostile_folders_cost_a_line_each_and_nothing_else(work: Path) -> None:
    secret = put(home_of(work), "secret", "---\ndescription: s3cret\n---\ns3cret")
    (work / ".claude/skills/leak").mkdir(parents=True)
    (work / ".claude/skills/leak/SKILL.md").symlink_to(secret)
    (work / ".claude/skills/loop").symlink_to(".")
    (work / ".claude/skills/round").mkdir()
    (work / ".claude/skills/round/SKILL.md").symlink_to("SKILL.md")
    (work / ".claude/skills/pipe").mkdir()
    os.mkfifo(work / ".claude/skills/pipe/SKILL.md")
    skill(work, "huge", "x" * 200_000)
    skill(work, "yaml", metadata="[1")
    skill(work, "bomb", description="&a [*a]")
    (work / ".claude/skills/empty").mkdir()
    skill(work, "good", "Fine. !`ls`")
    put(work, ".claude/skills/good/deep/a/b/c/d/e.md", "x")
    (work / ".claude/skills/good/up").symlink_to("..")
    (work / ".claude/agents").mkdir()
    os.mkfifo(work / ".claude/agents/pipe.md")
    (work / ".claude/agents/leak.md").symlink_to(secret)
    replies = [{"calls": [call("Skill", skill="huge")]}, {"text": "Ok.", "expect": "has more than 131,072 bytes"}]
    model = script(work.parent / "s.toml", replies)
    done = agent(["-p", "--trust", "--output-format", "stream-json", "--model", model, "x"], work)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[0])["skills"] == ["good", "huge"]
    assert "s3cret" not in done.stdout + done.stderr
    lines = [line.partition(".claude/")[2].split("/SKILL")[0] for line in done.stderr.splitlines()]
    wanted = ["skills/bomb", "skills/leak", "skills/pipe", "skills/round", "skills/yaml"]
    assert [t for t in lines if t.startswith("skills")] == wanted, done.stderr


def test_many_skills_stay_within_the_budget(work: Path) -> None:
    for number in range(120):
        skill(home_of(work), f"skill-{number:03}", description="word " * 200)
    taught = tools_sent(work)["Skill"].partition("\n\n")[2]
    assert len(taught.encode()) <= 8_000
    assert [line.partition(":")[0] for line in taught.splitlines()] == [f"skill-{n:03}" for n in range(120)]


def test_a_sub_agent_whose_model_is_not_available_says_which_model_answers(work: Path) -> None:
    head = "---\nname: critic\ndescription: Finds fault.\ntools: Read\nmodel: anthropic/claude-haiku-4-5\n---\n"
    put(home_of(work), ".agent/agents/critic.md", f"{head}Be strict.")
    task = call("Task", description="look", prompt="Look.", subagent_type="critic")
    done = agent(["-p", "--model", script(work.parent / "s.toml", [{"calls": [task]}, {"text": "Ok."}]), "go"], work)
    warning = next(line for line in done.stderr.splitlines() if "The sub-agent critic asks for the model" in line)
    assert warning.endswith("The model of this session answers instead.")


def test_skills_that_do_not_fit_into_the_list_are_found_by_a_search(work: Path) -> None:
    for number in range(900):
        skill(home_of(work), f"skill-number-{number}", description=f"Helps with matter {number}.")
    skill(home_of(work), "zz-invoices", description="Splits invoices of suppliers into positions.")
    find = {"calls": [call("ToolSearch", query="split an invoice")]}
    use = {"calls": [call("Skill", skill="zz-invoices")], "expect": "zz-invoices: Splits invoices"}
    model = script(work.parent / "s.toml", [find, use, {"text": "Done.", "expect": "Do it well."}])
    done = agent(["-p", "x", "--model", model], work)
    assert (done.returncode, done.stdout) == (0, "Done.\n") and "skipped" not in done.stderr
    with ModelServer([Reply(text="Ok.")]) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        agent(["-p", "x", "--model", "openai/gpt-test"], work, env)
    tools = [tool["function"] for tool in server.requests[0].body["tools"]]
    (listed,) = (tool["description"] for tool in tools if tool["name"] == "Skill")
    shown = listed.count("skill-number-")
    assert shown < 900 and f"and {901 - shown} more, which a search for tools finds" in listed
