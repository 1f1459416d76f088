"""Which files a search may show: the quick answer is the gate's, for whatever names and rules."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.kernel.decisions import Level
from agent_cli.kernel.rules import read_rule
from agent_cli.policy.policy import Policy
from agent_tools.base import Effect
from agent_tools.fs.workspace import Workspace
from agent_tools.registry import BUILTIN
from tests.support.call_counts import steps
from tests.support.hypothesis_examples import examples

NAMES = st.sampled_from(["src", "a.py", ".env", ".env.local", "secrets", ".ssh", "id_rsa", "key.pem", "x.key", "docs"])
SPECS = st.sampled_from(["*.py", "secrets/**", "/src/*", ".env*", "//etc/**", "**/docs", "~/x", "src/a.py", "key.pem"])
LISTS = st.sampled_from(["deny", "ask", "allow"])


def policy(root: Path, rules: list[tuple[str, str]]) -> Policy:
    read = [read_rule(kind, text, "test", root) for kind, text in rules]  # type: ignore[arg-type]
    return Policy(Workspace(root), read, home=str(root / "home"))


@given(
    st.lists(NAMES, min_size=1, max_size=4),
    st.lists(st.tuples(LISTS, st.tuples(st.sampled_from(["Read", "Grep", "Edit"]), SPECS)), max_size=3),
)
@settings(max_examples=examples(150), deadline=None)
def test_inside_the_workspace_it_is_the_gates_answer(
    parts: list[str], rules: list[tuple[str, tuple[str, str]]]
) -> None:
    root = Path("/nowhere/work")
    gate = policy(root, [(kind, f"{tool}({spec})") for kind, (tool, spec) in rules])
    path = root.joinpath(*parts)
    # One answer for all tools that show what is in files: a rule that allows it to Grep alone is not enough.
    searchers = [tool.name for tool in BUILTIN if tool.searches_content]
    allowed = all(gate.decide(tool, [Effect("read", str(path))]).level is Level.ALLOW for tool in searchers)
    assert gate.readable(path) is allowed
    assert gate.readable(str(path)) is allowed


def test_rules_without_parentheses_speak_about_every_file(tmp_path: Path) -> None:
    assert not policy(tmp_path, [("deny", "Read")]).readable("/elsewhere/a.py")
    assert not policy(tmp_path, [("ask", "Grep")]).readable(tmp_path / "a.py")


def test_rules_added_and_removed_during_a_session_count_at_once(tmp_path: Path) -> None:
    gate = policy(tmp_path, [])
    assert gate.readable(tmp_path / "notes.md")
    rule = gate.add("deny", "Read(notes.md)")
    assert not gate.readable(tmp_path / "notes.md")
    gate.remove(rule)
    assert gate.readable(tmp_path / "notes.md")
    nested = gate.for_subagent(Workspace(tmp_path), dict)
    gate.add("deny", "Read(notes.md)")
    assert not nested.readable(tmp_path / "notes.md")


def test_a_folder_outside_that_was_allowed_shows_its_files_but_no_secrets(tmp_path: Path) -> None:
    may = policy(tmp_path / "work", [("deny", "Read(//elsewhere/no/**)")]).readable
    assert may("/elsewhere/a.py")
    assert not may("/elsewhere/.env")
    assert not may("/elsewhere/no/a.py")


def test_a_link_to_a_folder_is_judged_by_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / ".ssh").mkdir()
    (tmp_path / "work" / "link").symlink_to(tmp_path / ".ssh")
    may = policy(tmp_path / "work", []).readable
    assert not may(tmp_path / "work/link/config")


def test_many_files_take_a_few_steps_each(tmp_path: Path) -> None:
    may = policy(tmp_path, [("deny", "Read(.env*)"), ("deny", "Read(secrets/**)")]).readable
    paths = [f"{tmp_path}/d{n % 100}/f{n % 500}.py" for n in range(20_000)]
    assert all(map(may, paths))
    assert steps(lambda: all(map(may, paths))) / len(paths) < 30
