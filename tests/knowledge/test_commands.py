"""Commands from markdown files: which file has a name, what it says of itself, and what it expands to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_cli.knowledge.commands import expand_message, find_commands
from agent_cli.knowledge.template import with_arguments
from agent_tools.base import ToolContext, ToolError
from agent_tools.fs.workspace import Workspace
from tests.support.call_counts import steps
from tests.support.fork_server import ROOT


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder.resolve()


def keep(base: Path, name: str, text: str | bytes) -> Path:
    path = base / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def context(root: Path) -> ToolContext:
    return ToolContext(Workspace(root))


def test_the_nearest_file_of_a_name_wins_and_folders_are_namespaces(home: Path, project: Path) -> None:
    keep(home, ".claude/commands/fix.md", "claude, home")
    keep(home, ".agent/commands/fix.md", "agent, home")
    keep(home, ".agent/commands/own.md", "own")
    keep(project, ".claude/commands/fix.md", "claude, project")
    keep(project, ".agent/commands/git/deep/tag.md", "tag")
    keep(project, ".agent/commands/no.txt", "x")
    keep(project, ".agent/commands/two words.md", "x")
    found, problems = find_commands(home, project)
    assert (list(found), problems) == (["fix", "git:deep:tag", "own"], [])
    assert found["fix"].expand("", context(project)) == "claude, project"
    only_mine, _ = find_commands(home, None)
    assert only_mine["fix"].expand("", context(project)) == "agent, home"
    assert find_commands(None, None) == ({}, [])


def test_what_a_command_says_of_itself(home: Path) -> None:
    keep(home, ".claude/commands/a.md", "---\ndescription: Review\nargument-hint: [file]\nmodel: opus\n---\nBody")
    keep(home, ".claude/commands/b.md", "---\ndescription: Mine\ndisable-model-invocation: true\n---\nBody")
    keep(home, ".claude/commands/c.md", "---\ndescription: [1\nx: a: b\n---\nBody")
    keep(home, ".claude/commands/d.md", b"\xff\xfe body")
    found, problems = find_commands(home, None)
    a, b, c = (found[n] for n in "abc")
    assert (a.description, a.hint, a.by_model) == ("Review", "[file]", True)
    assert not b.by_model
    assert c.description == "" and c.expand("", context(home)) == "Body"
    assert len(problems) == 1 and "c.md: its front matter is invalid" in problems[0] and "line 3" in problems[0]


@pytest.mark.parametrize(
    ("body", "arguments", "prompt"),
    [
        ("Fix $ARGUMENTS now", "a b", "Fix a b now"),
        ("$1 then $2, $3.", "'a b' c", "a b then c, ."),
        ("$1 and $ARGUMENTS", "it's", "it's and it's"),
        ("Fix", "issue 3", "Fix\n\nArguments: issue 3"),
        ("Fix", "", "Fix"),
        ("Costs $10 or $ARGUMENTSX", "", "Costs $10 or $ARGUMENTSX"),
        ("$ARGUMENTS", "$1 $ARGUMENTS", "$1 $ARGUMENTS"),
        ("Status: !`rm -rf x` $1", "y", "Status: !`rm -rf x` y"),
    ],
)
def test_arguments_come_to_their_places(body: str, arguments: str, prompt: str) -> None:
    assert "".join(with_arguments([body], arguments)) == prompt


def test_mentioned_files_of_the_workspace_are_appended(home: Path, project: Path) -> None:
    keep(home, ".claude/commands/see.md", "Look at @src/a.py, (@b.txt) and @b.txt; mail me@b.txt. $ARGUMENTS")
    keep(project, "src/a.py", "print(1)\n")
    keep(project, "b.txt", "two")
    keep(project, "big.txt", "x" * 40_000)
    keep(project, "bin", b"\x89PNG\r\n\x1a\n\0\0\0")
    keep(home, "secret", "s3cret")
    (project / "out").symlink_to(home / "secret")
    os.mkfifo(project / "pipe")
    ctx = context(project)
    see = find_commands(home, None)[0]["see"]
    plain = see.expand("@../home/secret @out @pipe @src @none", ctx)
    assert plain.endswith('@none\n\n<file path="src/a.py">\nprint(1)\n</file>\n\n<file path="b.txt">\ntwo\n</file>')
    assert "s3cret" not in plain
    long = see.expand("@big.txt @bin", ctx)
    assert "[cut here, after 30,000 of 40,000 characters" in long and "[not a text file" in long
    ctx.readable = lambda path: path.name != "b.txt"
    assert "two" not in see.expand("", ctx)


def test_a_message_is_a_command_only_by_its_first_word(home: Path, project: Path) -> None:
    keep(home, ".claude/commands/fix.md", "Fix: $ARGUMENTS")
    found, _ = find_commands(home, None)
    ctx = context(project)
    assert expand_message("/fix a\nb", found, ctx) == "Fix: a\nb"
    for text in ("/fixed", "//fix", "/", "fix", "/usr/bin/fix it", " /fix"):
        assert expand_message(text, found, ctx) == text


def test_what_cannot_be_expanded_is_reported(home: Path, project: Path) -> None:
    gone = keep(home, ".claude/commands/gone.md", "x")
    keep(home, ".claude/commands/empty.md", "---\ndescription: x\n---\n \n")
    keep(home, ".claude/commands/huge.md", "x" * 70_000)
    found, _ = find_commands(home, None)
    gone.unlink()
    for name, words in (("gone", "No such file"), ("empty", "is empty"), ("huge", "has more than")):
        with pytest.raises(ToolError, match=words):
            found[name].expand("", context(project))


def test_a_projects_link_leads_nowhere_out_of_it(home: Path, project: Path) -> None:
    keep(home, "secret", "s3cret")
    keep(project, ".claude/commands/ok.md", "fine")
    (project / ".claude/commands/leak.md").symlink_to(home / "secret")
    (project / ".claude/commands/loop").symlink_to(".")
    os.mkfifo(project / ".claude/commands/pipe.md")
    found, problems = find_commands(None, project)
    assert found["ok"].expand("", context(project)) == "fine"
    assert "leak" not in found
    assert any("leak.md points outside" in problem for problem in problems)
    with pytest.raises(ToolError, match="cannot be read"):
        found["pipe"].expand("", context(project))


def test_looking_for_none_costs_next_to_nothing(home: Path, project: Path) -> None:
    find_commands(home, project)
    assert steps(lambda: find_commands(home, project)) < 500


def test_plain_heads_do_not_load_yaml(home: Path) -> None:
    keep(home, ".claude/commands/a.md", "---\ndescription: Review it\nallowed-tools: Read\n---\nBody")
    code = (
        "import sys; from pathlib import Path; from agent_cli.knowledge.commands import find_commands\n"
        f"assert find_commands(Path({str(home)!r}), None)[0]['a'].description == 'Review it'\n"
        "assert 'yaml' not in sys.modules and 'shlex' not in sys.modules"
    )
    env = {"PYTHONPATH": f"{ROOT}:{ROOT / 'tools'}"}
    subprocess.run([sys.executable, "-c", code], env=env, check=True)
