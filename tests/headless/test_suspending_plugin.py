"""A tool of a package that runs, then asks: in the real program, answered in another process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.plugin_packages import install
from tests.support.program import agent
from tests.support.scripts import call, script
from tests.support.suspended_runs import pending

TOOL = """
from agent_tools.base import Effect, Suspend, Tool, ToolResult
from agent_tools.record import Value

class Args(Value):
    pass

class Deploy(Tool):
    name = "Deploy"
    Args = Args
    description = "Builds, then asks where to deploy."
    def effects(self, args, ctx): return (Effect("write", str(ctx.workspace.root / "builds")),)
    def summary(self, args, ctx): return "Deploy"
    def run(self, args, ctx):
        with open(ctx.workspace.root / "builds", "a") as log:
            log.write("built\\n")
        ask = {"question": "Where to?", "options": [{"label": "staging"}, {"label": "production"}]}
        return ToolResult("Built 3 files.", suspend=Suspend("questions", {"questions": [ask]}))
"""


def deploy(work: Path, *args: str, tool: str = TOOL, **reply: Any) -> tuple[Any, dict[str, str]]:
    env = install(work.parent / "site", "agent-deploy", "deploy = deploy_tool:Deploy\n", deploy_tool=tool)
    home = work.parent / "home"
    home.mkdir(exist_ok=True)
    (home / ".agentrc").write_text('tool_packages = ["deploy"]\n')
    model = script(work.parent / "s.toml", [{"calls": [call("TodoRead"), call("Deploy")]}, reply])
    return agent(["-p", "--model", model, *args, "deploy"], work, env), env


def test_it_waits_for_an_answer_and_is_not_run_again(work: Path) -> None:
    done, env = deploy(work, "--on-ask", "suspend", text="On staging.", expect="Built 3 files.\n\nThe user answered")
    assert done.returncode == 3, done.stderr
    assert agent(["approve"], work, env).returncode == 3
    [session] = pending(work)
    assert [(i["kind"], i["summary"]) for i in session["pending"]] == [("question", "Where to?")]
    (work / "builds").write_text("moved\n")
    refused = agent(["approve"], work, env)
    assert refused.returncode == 2 and "is a question: agent answer" in refused.stderr
    answered = agent(["answer", session["pending"][0]["call_id"], "staging"], work, env)
    assert (answered.returncode, answered.stdout) == (0, "On staging.\n"), answered.stderr
    assert (work / "builds").read_text() == "moved\n"
    assert pending(work) == []


def test_where_nobody_answers_the_model_decides_for_itself(work: Path) -> None:
    done, _ = deploy(work, "--permission-mode", "acceptEdits", text="Staging, I think.", expect="Decide for yourself")
    assert (done.returncode, done.stdout) == (0, "Staging, I think.\n"), done.stderr
    assert (work / "builds").read_text() == "built\n"


def test_another_message_does_not_lose_what_the_tool_gave(work: Path) -> None:
    plan = TOOL.replace('Suspend("questions", {"questions": [ask]})', 'Suspend("plan", {"plan": "1. Ship"})')
    done, env = deploy(work, "--on-ask", "suspend", "--permission-mode", "acceptEdits", tool=plan, text="Never.")
    assert done.returncode == 3, done.stderr
    model = script(work.parent / "t.toml", [{"text": "Fine.", "expect": "leave it"}])
    gone_on = agent(["-c", "-p", "--model", model, "--output-format", "json", "leave it"], work, env)
    assert (gone_on.returncode, json.loads(gone_on.stdout)["result"]) == (0, "Fine."), gone_on.stderr
    [log] = (work.parent / "home/state").rglob("sessions/*/*.jsonl")
    assert "Built 3 files.\\n\\nThe user replied with a comment; see their next message." in log.read_text()
    assert (work / "builds").read_text() == "built\n"
