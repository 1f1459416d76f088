"""A rule saved for the project: the file keeps its text, and counts afterwards just as it was shown."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from agent_cli.kernel.rules import Trust
from agent_cli.kernel.runtime.saved_settings import LOCAL_FILE, add_rules, saver
from agent_cli.policy.trust import evaluate_trust, fingerprints, grant_trust

RULE = "Bash(npm test)"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '[permissions]\nallow = [\n    "Bash(npm test)",\n]\n'),
        (
            '# mine\nmodel = "x" # why\n\n[permissions]\n# keep\nallow = ["Bash(ls)"] # all\n',
            '# mine\nmodel = "x" # why\n\n[permissions]\n# keep\nallow = ["Bash(ls)", "Bash(npm test)"] # all\n',
        ),
        (
            '[permissions]\nallow = [\n  "Bash(ls)", # files\n  # last\n]\n[shell]\ntimeout = 5\n',
            None,
        ),
        ('permissions.deny = ["Bash(rm:*)"]\n', None),
        ('permissions = {mode = "plan"}\n', None),
        ('[permissions]\nmode = "plan"\n[[permissions.rules]]\nlist = "deny"\nrule = "Bash(dd:*)"\n', None),
    ],
)
def test_the_file_keeps_its_text(root: Path, before: str, after: str | None) -> None:
    (root / LOCAL_FILE).write_text(before)
    (root / LOCAL_FILE).chmod(0o640)
    add_rules(root / LOCAL_FILE, [RULE])
    text = (root / LOCAL_FILE).read_text()
    old, new = tomllib.loads(before), tomllib.loads(text)
    assert new["permissions"].pop("allow") == [*old.get("permissions", {}).pop("allow", []), RULE]
    assert new.pop("permissions") == old.pop("permissions", {})
    assert new == old
    assert after is None or text == after
    assert all(line.partition("#")[2] in text for line in before.splitlines())
    assert (root / LOCAL_FILE).stat().st_mode & 0o777 == 0o640
    add_rules(root / LOCAL_FILE, [RULE])
    assert (root / LOCAL_FILE).read_text() == text
    assert [p.name for p in root.iterdir()] == [LOCAL_FILE]


@pytest.mark.parametrize(
    "text", ['{"permissions": {}}', "permissions = 3", "[permissions]\nallow = 'x'\n", "a = [", "[["]
)
def test_what_is_not_understood_stays_as_it_is(root: Path, text: str) -> None:
    (root / LOCAL_FILE).write_text(text)
    with pytest.raises(ValueError):
        add_rules(root / LOCAL_FILE, [RULE])
    assert (root / LOCAL_FILE).read_text() == text


def test_a_link_is_not_followed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("")
    (root / LOCAL_FILE).symlink_to(tmp_path / "elsewhere")
    save = saver(Trust(str(root), "plain"), tmp_path / "state")
    assert save is not None
    assert save(RULE)
    assert (tmp_path / "elsewhere").read_text() == ""


def test_trust_that_holds_is_renewed(root: Path, tmp_path: Path) -> None:
    (root / ".agentrc").write_text('[permissions]\nallow = ["Bash(make)"]\n')
    state = tmp_path / "state"
    assert grant_trust(root, state, fingerprints(root)) == ""
    trust, _ = evaluate_trust(root, state, (), None, by_flag=False)
    save = saver(trust, state)
    assert save is not None
    assert save(RULE) == ""
    assert evaluate_trust(root, state, (), None, by_flag=False)[0].trusted
    (root / LOCAL_FILE).write_text("")
    assert evaluate_trust(root, state, (), None, by_flag=False)[0].state == "changed"


def test_a_project_that_brings_nothing_is_trusted_with_its_first_rule(root: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    save = saver(evaluate_trust(root, state, (), None, by_flag=False)[0], state)
    assert save is not None
    assert save(RULE) == save("Bash(npm run lint)") == ""
    assert evaluate_trust(root, state, (), None, by_flag=False)[0].trusted


@pytest.mark.parametrize("state", ["untrusted", "changed"])
def test_nothing_is_saved_where_it_would_not_count(root: Path, tmp_path: Path, state: str) -> None:
    assert saver(Trust(str(root), state), tmp_path) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("worktree", [False, True])
def test_a_new_local_file_is_kept_out_of_git_by_its_own_list_alone(root: Path, worktree: bool) -> None:
    git = root / ".git"
    if worktree:
        git = root.parent / "main/.git"
        (git / "worktrees/w").mkdir(parents=True)
        (git / "worktrees/w/commondir").write_text("../..\n")
        (root / ".git").write_text(f"gitdir: {git}/worktrees/w\n")
    (git / "info").mkdir(parents=True)
    (git / "info/exclude").write_text("# mine\n*.log")
    (root / ".gitignore").write_text("build/\n")
    add_rules(root / LOCAL_FILE, [RULE])
    assert (git / "info/exclude").read_text() == f"# mine\n*.log\n{LOCAL_FILE}\n"
    (root / LOCAL_FILE).unlink()
    add_rules(root / LOCAL_FILE, [RULE])
    assert (git / "info/exclude").read_text().count(LOCAL_FILE) == 1
    assert (root / ".gitignore").read_text() == "build/\n"


def test_an_old_local_file_stays_as_git_has_it(root: Path) -> None:
    (root / ".git/info").mkdir(parents=True)
    (root / LOCAL_FILE).write_text("# shared\n")
    add_rules(root / LOCAL_FILE, [RULE])
    assert not (root / ".git/info/exclude").exists()
