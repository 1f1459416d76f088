"""Doctor on `.agent` and `.claude`: a line for each file, with what is not used and why; nothing left out silently."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_cli.knowledge.diagnostics import ReportReader, walk_folder
from tests.support.extension_files import put
from tests.support.hypothesis_examples import examples
from tests.support.program import agent
from tests.support.scripts import script


def reader() -> ReportReader:
    return ReportReader({"Read", "Grep", "Bash"}, {"clear"}, lambda name: "" if name == "haiku" else "no such model")


def checked(base: Path, within: Path | None = None) -> dict[str, str]:
    return {t.path: str(t).removeprefix(f"{t.path}: ") for t in reader().read(base, within)}


def test_each_file_is_reported_with_what_of_it_is_not_used(tmp_path: Path) -> None:
    put(tmp_path, ".agent/commands/fix.md", "---\ndescription: x\nallowed-tools: Bash(git:*), Tpyo(x\n---\nFix !`ls`")
    put(tmp_path, ".claude/commands/fix.md", "---\ncategory: y\nauthor: z\nblah: 1\nmodel: gpt\n---\nFix")
    put(tmp_path, ".claude/commands/clear.md", "Mine")
    put(tmp_path, ".claude/commands/bad.md", "---\nx: [\n---\nStill used")
    put(tmp_path, ".claude/commands/none.md", "---\nx: y\n---\n")
    put(tmp_path, ".claude/commands/two words.md", "x")
    put(tmp_path, ".claude/commands/run.sh", "x")
    put(tmp_path, ".claude/skills/pdf/SKILL.md", "---\nname: portable\ndescription: d\nlicense: MIT\n---\nBody")
    put(tmp_path, ".claude/skills/pdf/scripts/a.py", "x")
    put(tmp_path, ".claude/skills/mute/SKILL.md", "---\nname: mute\n---\n# Mute\n")
    put(tmp_path, ".claude/skills/modest/SKILL.md", "# Modest\n\nChecks\nthe tiers.\n\nMore.")
    put(tmp_path, ".claude/skills/empty/notes.md", "x")
    put(tmp_path, ".claude/skills/lone.md", "x")
    put(tmp_path, ".claude/agents/a.md", "---\nname: a\ntools: Read, TaskCreate\ncolor: red\nmodel: haiku\n---\nBe.")
    put(tmp_path, ".claude/agents/b.md", "---\nname: b\ntools: Raed\n---\nBe.")
    put(tmp_path, ".claude/output-styles/x.md", "x")
    put(tmp_path, ".claude/whatever.txt", "x")
    put(tmp_path, ".claude/rules/style.md", "x")
    put(tmp_path, ".claude/statusline.sh", "x")
    put(tmp_path, ".agent/hooks.json", "{}")
    taken = {"permissions": {"allow": [], "disableBypassPermissionsMode": "disable"}, "disableAllHooks": True}
    put(tmp_path, ".claude/settings.json", json.dumps({**taken, "statusLine": {"command": "date"}, "strange": 1}))
    put(tmp_path, ".claude/settings.local.json", "[")
    found = checked(tmp_path, tmp_path.resolve())
    assert found.pop(".claude/commands/bad.md").startswith("command /bad (its front matter is invalid: line 3: ")
    assert found == {
        ".agent/commands/fix.md": "command /fix (allowed-tools: 'Bash(git:*), Tpyo(x': a parenthesis is not closed; "
        "runs 1 command when it is used, if they are permitted)",
        ".claude/commands/fix.md": "command /fix, not used: .agent/commands/fix.md has that name and comes first "
        "(category, author: only says something about the file; blah: not known here; model: no such model)",
        ".claude/commands/clear.md": "command /clear, not used: a command of the program has that name and comes first",
        ".claude/commands/none.md": "not used: it has no text",
        ".claude/commands/two words.md": "not used: its name cannot be used; it contains spaces or colons, or begins "
        "with a dot",
        ".claude/commands/run.sh": "not used: a command is a file that ends in .md",
        ".claude/skills/pdf/SKILL.md": "skill pdf (license: only says something about the file; its name 'portable' "
        "differs from the name of its folder, which is used)",
        ".claude/skills/mute/SKILL.md": "not used: the skill is skipped: it has neither a "
        "description, which says when to use it, nor text",
        ".claude/skills/modest/SKILL.md": "skill modest",
        ".claude/skills/empty/notes.md": "not used: its folder empty has no SKILL.md",
        ".claude/skills/lone.md": "not used: a skill is a folder with a SKILL.md",
        ".claude/agents/a.md": "agent type a (color: agent types have no colours here; "
        "tools that are not here: TaskCreate)",
        ".claude/agents/b.md": "not used: none of its tools is available: Raed; did you mean Read?",
        ".claude/output-styles/x.md": "output styles, for the setting output_style",
        ".claude/whatever.txt": "not used: nothing reads it",
        ".claude/rules/style.md": "memory, which has a separate line",
        ".claude/statusline.sh": "not used by itself: the command for it is status_line under [terminal] of our own "
        "settings",
        ".agent/hooks.json": "hooks, which agent hooks list shows",
        ".claude/settings.json": "settings of Claude Code; used here: permissions and statusLine "
        "(strange: not known here; disableAllHooks: applies only in your own settings; "
        "permissions.disableBypassPermissionsMode: not read here)",
        ".claude/settings.local.json": "not used: it is not JSON",
    }


def test_a_file_at_home_says_which_one_of_the_project_comes_first(tmp_path: Path) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    for base in (project, home):
        put(base, ".agent/commands/fix.md", "Fix")
        put(base, ".agent/skills/pdf/SKILL.md", "---\ndescription: d\n---\nBody")
    both = reader()
    assert all(text.used for text in both.read(project, project))
    here = str(project / ".agent")
    assert [text.what for text in both.read(home, None)] == [
        f"command /fix, not used: {here}/commands/fix.md has that name and comes first",
        f"skill pdf, not used: {here}/skills/pdf/SKILL.md has that name and comes first",
    ]


def test_hostile_folders_are_reported_and_not_followed(tmp_path: Path) -> None:
    project = tmp_path / "p"
    put(tmp_path, "secret.md", "---\ndescription: s3cret\n---\ns3cret")
    put(project, ".claude/commands/ok.md", "x")
    (project / ".claude/commands/leak.md").symlink_to(tmp_path / "secret.md")
    (project / ".claude/commands/out").symlink_to(tmp_path)
    (project / ".claude/commands/loop").symlink_to(".")
    os.mkfifo(project / ".claude/commands/pipe.md")
    put(project, ".claude/commands/huge.md", "x" * 70_000)
    found = checked(project.resolve(), project.resolve())
    assert found[".claude/commands/ok.md"] == "command /ok"
    assert "leads out of" in found[".claude/commands/leak.md"]
    assert "not a regular file" in found[".claude/commands/pipe.md"]
    assert "more than 65,536 bytes" in found[".claude/commands/huge.md"]
    assert ".claude/commands/out" in found and not any("out/" in path for path in found)
    assert ".claude/commands/loop/" in found
    assert "s3cret" not in str(found)


def test_doctor_shows_it_and_says_what_trust_leaves_out(work: Path) -> None:
    put(work, ".claude/commands/fix.md", "---\ncolor: red\n---\nFix")
    put(work.parent / "home", ".agent/skills/pdf/SKILL.md", "---\ndescription: d\n---\nBody")

    def found() -> list[dict[str, Any]]:
        plain = json.loads(agent(["doctor", "--json"], work).stdout)
        return [f for f in plain["findings"] if f["topic"] == "extensions"]

    project, home = found()
    assert project["mark"] == "missing" and "the project is not trusted" in project["text"]
    assert home["text"].endswith("1 file in .agent and .claude, 1 used")
    assert home["files"] == [{"path": ".agent/skills/pdf/SKILL.md", "what": "skill pdf", "used": True, "notes": []}]
    (work.parent / "home/.agentrc").write_text(f'trusted = ["{work.parent}/*"]\n')
    project, _ = found()
    assert project["mark"] == "ok" and "1 used, 1 of them with notes" in project["text"]
    assert project["details"] == [".claude/commands/fix.md: command /fix (color: agent types have no colours here)"]


def test_a_file_with_a_key_that_is_not_known_is_used_and_the_key_is_named_once(work: Path) -> None:
    home = work.parent / "home"
    head = "---\ndescription: d\nblah: 1\nblub: [2]\n---\n"
    put(home, ".claude/commands/greet.md", f"{head}Say hello.")
    put(home, ".claude/skills/pdf/SKILL.md", f"{head}Read it.")
    put(home, ".claude/agents/critic.md", f"{head}Be strict.")
    model = script(work.parent / "s.toml", [{"text": "Hello.", "expect": "Say hello."}])
    done = agent(["-p", "--model", model, "--output-format", "stream-json", "--verbose", "/greet"], work)
    begun = json.loads(done.stdout.splitlines()[0])
    assert (done.returncode, done.stderr) == (0, "")
    assert {"greet", "pdf"} <= {*begun["slash_commands"], *begun["skills"]} and "critic" in begun["agents"]
    shown = agent(["doctor"], work).stdout
    for what in ("command /greet", "skill pdf", "agent type critic"):
        assert shown.count(f"{what} (blah, blub: not known here)") == 1, shown


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(
        st.tuples(
            st.sampled_from(["commands/", "skills/", "skills/x/", "agents/", "agents/y/", "hooks/", ""]),
            st.sampled_from(["a.md", "SKILL.md", "b.txt", "settings.json", ".hidden", "c d.md"]),
        ),
        st.binary(max_size=80)
        | st.sampled_from([b"---\nname: n\ndescription: d\n---\nBody", b"---\n: [\n---\n", b"[{}]"]),
        min_size=1,
        max_size=12,
    )
)
def test_every_file_is_reported_or_belongs_to_a_skill(tmp_path: Path, files: dict[tuple[str, str], bytes]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
        base = Path(folder).resolve()
        for (place, name), data in files.items():
            path = base / ".claude" / place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        lines = reader().read(base, base)
        paths = [line.path for line in lines]
        there = list(walk_folder(base, ".claude", base))
        assert len(there) == len(files)
        of_skill = {p for p in there if p.startswith(".claude/skills/x/") and ".claude/skills/x/SKILL.md" in there}
        assert set(paths) | of_skill == set(there) and len(paths) == len(set(paths))
        assert all(line.used or "not used" in line.what for line in lines)
