"""Links from a project's `.claude` and `.agent` to the outside: what trust has no fingerprint of does not count."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_cli.config.config import Config
from agent_cli.config.layers import Layers
from agent_cli.kernel.run_environment import RunEnvironment
from agent_cli.kernel.runtime.environment import read_settings
from agent_cli.knowledge.agents import find_agent_types
from agent_cli.knowledge.commands import find_commands
from agent_cli.knowledge.skills import find_skills
from agent_cli.policy.trust import evaluate_trust, fingerprints
from tests.support.program import agent
from tests.support.scripts import call, script

HOOKS = {"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "touch /tmp/never"}]}]}}
FILES = {
    "settings.json": json.dumps({**HOOKS, "permissions": {"allow": ["Bash(make:*)"]}}),
    "settings.local.json": json.dumps({"permissions": {"allow": ["Bash(cargo:*)"]}}),
    "hooks.json": json.dumps(HOOKS),
    "commands/go.md": "---\ndescription: From outside\n---\nGo.",
    "commands/sub/deep.md": "---\ndescription: From outside\n---\nGo.",
    "agents/spy.md": "---\nname: spy\ndescription: From outside\n---\nSpy.",
    "skills/look/SKILL.md": "---\ndescription: From outside\n---\nLook.",
}


def keep(folder: Path, files: dict[str, str] = FILES) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def counted(root: Path) -> set[str]:
    """What of a trusted project's `.claude` and `.agent` counts."""
    settings = layers(root).settings()
    found = {f"rule {rule.text}" for rule in layers(root).rules} | {f"hook {hook.command}" for hook in settings.hooks}
    found |= {f"command {name}" for name in find_commands(None, root)[0]}
    found |= {f"skill {name}" for name in find_skills(None, root)[0]}
    return found | {f"agent {name}" for name in find_agent_types(None, root, (), lambda name: "")[0]}


def layers(root: Path) -> Layers:
    home = root.parent / "home"
    home.mkdir(exist_ok=True)
    return read_settings(Config(trust=True), RunEnvironment(root, root, home, {"AGENT_STATE_DIR": str(home / "state")}))


@pytest.mark.parametrize("base", [".claude", ".agent"])
def test_without_links_all_of_it_counts(work: Path, base: str) -> None:
    keep(work / base)
    assert {"command go", "command sub:deep", "skill look", "agent spy", "hook touch /tmp/never"} <= counted(work)


@pytest.mark.parametrize("base", [".claude", ".agent"])
@pytest.mark.parametrize(
    "link", ["", *FILES, "commands", "commands/sub", "agents", "skills", "skills/look"]
)  # fmt: skip
@pytest.mark.parametrize("how", ["absolute", "relative", "chain"])
def test_what_is_behind_a_link_to_the_outside_does_not_count(
    work: Path, tmp_path: Path, base: str, link: str, how: str
) -> None:
    if (base, link) in ((".claude", "hooks.json"), (".agent", "settings.json"), (".agent", "settings.local.json")):
        return  # such a file is not read
    outside = tmp_path / "outside"
    keep(outside)
    place = work / base / link if link else work / base
    place.parent.mkdir(parents=True, exist_ok=True)
    target = outside / link
    if how == "relative":
        target = Path("../" * (len(place.relative_to(tmp_path).parts) - 1)) / "outside" / link
    elif how == "chain":
        (work / "between").symlink_to(target)
        target = work / "between"
    place.symlink_to(target)
    assert counted(work) == set()
    trust, _ = evaluate_trust(work, tmp_path / "state", (), None, by_flag=True)
    assert any(
        "links that point outside" in note and f"{base}/{link}".rstrip("/") in note for note in trust.needs_trust
    )
    before = fingerprints(work)
    keep(outside, {name: f"{text} " for name, text in FILES.items()})
    assert fingerprints(work) == before


def test_a_link_inside_the_project_counts_and_its_content_is_what_was_trusted(work: Path) -> None:
    keep(work / "shared")
    (work / ".claude").mkdir()
    for name in ("settings.json", "commands", "skills", "agents"):
        (work / ".claude" / name).symlink_to(f"../shared/{name}")
    assert {"command go", "skill look", "agent spy", "hook touch /tmp/never", "rule Bash(make:*)"} <= counted(work)
    before = fingerprints(work)
    (work / "shared/settings.json").write_text("{}")
    assert fingerprints(work) != before


@pytest.mark.parametrize(
    "command",
    [
        ".claude/hooks/x.sh",
        "bash '.claude/hooks/x.sh' a",
        '"$CLAUDE_PROJECT_DIR"/.claude/hooks/x.sh',
        "./.claude/hooks/x.sh",
    ],
)
def test_a_hook_whose_script_is_outside_does_not_run(work: Path, tmp_path: Path, command: str) -> None:
    keep(
        work,
        {
            ".claude/settings.json": json.dumps(
                {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}}
            )
        },
    )
    keep(tmp_path / "outside", {"x.sh": "true"})
    (work / ".claude/hooks").symlink_to(tmp_path / "outside")
    found = layers(work)
    # It is in the list only to be named where it would run.
    [hook] = found.settings().hooks
    assert "points outside" in hook.unusable
    assert any("points outside" in text and ".claude/hooks/x.sh" in text for text in found.ignored)
    (work / ".claude/hooks").unlink()
    keep(work, {".claude/hooks/x.sh": "true"})
    assert [hook.command for hook in layers(work).settings().hooks] == [command]


def test_the_program_runs_nothing_from_outside(work: Path, tmp_path: Path) -> None:
    outside, ran = tmp_path / "outside", tmp_path / "ran"
    hook = {"type": "command", "command": f"touch {ran}"}
    keep(outside, FILES | {"settings.json": json.dumps({"hooks": {"SessionStart": [{"hooks": [hook]}]}})})
    (work / ".claude").symlink_to(outside)
    model = script(tmp_path / "s", [{"calls": [call("Skill", skill="look")]}, {"text": "done"}])
    done = agent(["-p", "go", "--trust", "--model", model, "--output-format", "stream-json"], work)
    assert done.returncode == 0, done.stderr
    assert not ran.exists()
    assert "From outside" not in done.stdout + done.stderr
    assert done.stderr.count("points outside") == 1, done.stderr
