"""Which files of a workspace are kept from sandboxed commands: what is listed, when again, and what that costs."""

from __future__ import annotations

import os
from pathlib import Path
from time import process_time

import pytest

from agent_cli.kernel.decisions import Level
from agent_cli.kernel.rules import read_rule
from agent_cli.policy import masks
from agent_cli.policy.masks import FoundMasks, WorkspaceMasks
from agent_cli.policy.path_policy import Matcher
from agent_cli.policy.policy import Policy
from agent_tools.base import Effect
from agent_tools.fs.workspace import Workspace
from tests.support.repositories import git
from tests.support.sandboxes import confined


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    git(folder, "init", "-q")
    return folder


def write(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x\n")


class Finder:
    """Finds the masks of a workspace again and again, under the same rules."""

    def __init__(self, root: Path, *deny: str, ask: tuple[str, ...] = (), allow: tuple[str, ...] = ()) -> None:
        lists = (("deny", deny), ("ask", ask), ("allow", allow))
        rules = [read_rule(kind, text, "settings", root) for kind, texts in lists for text in texts]  # type: ignore[arg-type]
        self.matcher, self.workspace = Matcher(rules, root, Path("/home/nobody")), Workspace(root)
        self.masks = WorkspaceMasks({"PATH": os.environ["PATH"], "HOME": "/nonexistent"}, "trusted")

    def __call__(self) -> FoundMasks:
        return self.masks.find(self.matcher, self.workspace)

    def held(self, *, vouched: bool = True) -> dict[str, str]:
        """The paths that are kept from a command, each with what may be done with it."""
        root = self.workspace.root
        return {
            os.path.relpath(mask.path, root): "nothing" if mask.closed else "read"
            for mask in sorted(self().masks, key=lambda mask: not mask.closed, reverse=True)
            if mask.holds(vouched=vouched)
        }


def test_rules_and_names_decide_and_git_only_for_what_it_has(root: Path) -> None:
    write(
        root,
        "src/a.py",
        ".env",
        "src/.env.example",
        "web/id_rsa",
        "conf/.aws/x",
        "notes.txt",
        "sec/k",
        "sec/l",
        "key.pem",
    )
    git(root, "add", "src", "sec/k", "key.pem")
    find = Finder(root, "Read(sec/**)", "Edit(notes.txt)", "Edit(src/**)", ask=("Read(ask.txt)",))
    write(root, "ask.txt", "src/new.py")
    kept = {
        ".env": "nothing",
        "web/id_rsa": "nothing",
        "conf/.aws/x": "nothing",
        "sec/k": "nothing",
        "sec/l": "nothing",
    }
    kept |= {"notes.txt": "read", "src/new.py": "read"}
    assert find.held() == kept
    assert find.held(vouched=False) == kept | {"ask.txt": "nothing"}
    assert "key.pem" not in find.held() and ".env" not in Finder(root, allow=("Read(.env)",)).held()


def test_a_rule_of_the_project_does_not_close_what_git_has(root: Path) -> None:
    write(root, "sec/k")
    git(root, "add", ".")
    find = Finder(root, "Read(sec/**)")
    find.matcher = Matcher([rule.replace(from_user=False) for rule in find.matcher.rules], root, Path("/"))
    assert find.held() == {}


def test_a_folder_that_a_rule_covers_is_one_mask_until_git_has_something_in_it(root: Path) -> None:
    write(root, *(f"data/{n % 7}/{n}" for n in range(500)))
    find = Finder(root, "Read(data/**)")
    assert find.held() == {"data": "nothing"}
    git(root, "add", "data/3/3")
    assert find.held() == {f"data/{n}": "nothing" for n in range(7) if n != 3} | {
        f"data/3/{n}": "nothing" for n in range(3, 500, 7)
    }


def test_what_is_installed_is_left_out_unless_a_rule_names_it(root: Path) -> None:
    """With its certificates closed, no program could use https."""
    names = (".venv/lib/cacert.pem", "node_modules/x/key.pem", "conda/ssl/cacert.pem", "env/pyvenv.cfg")
    write(root, *names, "lib/site-packages/certifi/key.pem")
    assert Finder(root).held() == {}
    assert Finder(root, "Read(.venv/lib/cacert.pem)").held() == {".venv/lib/cacert.pem": "nothing"}
    assert Finder(root, "Read(node_modules/x/**)").held() == {"node_modules/x": "nothing"}
    # What a command could make so that its folder is left out.
    write(root, "env/.env", "pyvenv.cfg")
    assert Finder(root).held() == {"env/.env": "nothing"}


def test_what_a_rule_names_elsewhere_is_closed_too(root: Path, tmp_path: Path) -> None:
    write(tmp_path, "other/x")
    assert Finder(root, f"Read(/{tmp_path}/other/**)").held() == {"../other": "nothing"}


def test_a_name_in_the_index_opens_nothing(root: Path) -> None:
    """A command in the sandbox can write any name there, but not the content of a file that it cannot read."""
    write(root, ".env", "notes.txt", "a.pem", "b.pem")
    git(root, "add", "a.pem", "b.pem")
    find = Finder(root, "Edit(notes.txt)")
    assert find.held() == {".env": "nothing", "notes.txt": "read"}
    empty = git(root, "hash-object", "-w", "/dev/null").strip()
    for name in (".env", "notes.txt"):
        git(root, "update-index", "--add", "--cacheinfo", f"100644,{empty},{name}")
    git(root, "commit", "-q", "-m", "x")
    assert find.held() == {".env": "nothing", "notes.txt": "read"}
    # A tracked secret that is changed has something that git does not have.
    (root / "a.pem").write_text("changed\n")
    assert find.held() == {".env": "nothing", "notes.txt": "read", "a.pem": "nothing"}
    git(root, "add", "a.pem", ".env", "notes.txt")
    assert find.held() == {"notes.txt": "read"}
    find.masks.release([str(root / "notes.txt")])
    assert find.held() == {}


def test_missing_paths_of_edit_rules_are_watched_for(root: Path) -> None:
    find = Finder(root, "Edit(gen/x.txt)", "Edit(new/**)", "Read(sec/y)", "Edit(*.lock)")
    assert find().missing == ((root, "gen/x.txt"), (root, "new"))


def test_a_repository_inside_is_asked_about_its_own_files(root: Path) -> None:
    inner = root / "sub"
    inner.mkdir()
    git(inner, "init", "-q")
    write(inner, ".env", "key.pem")
    git(inner, "add", "key.pem")
    assert Finder(root).held() == {"sub/.env": "nothing"}


def test_changes_are_found_at_once(root: Path) -> None:
    find = Finder(root)
    write(root, "a/b/c/x", "a/.env")
    assert find.held() == {"a/.env": "nothing"}
    for number in range(20):
        write(root, f"a/b/c/{number}.pem")
        assert f"a/b/c/{number}.pem" in find.held()
        (root / f"a/b/c/{number}.pem").unlink()
        assert find.held() == {"a/.env": "nothing"}
    (root / "a/.env").rename(root / "a/b/.env")
    assert find.held() == {"a/b/.env": "nothing"}
    git(root, "add", "-f", "a/b/.env")
    assert find.held() == {}


def test_a_listing_of_20_000_files_hardly_costs_the_second_time(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masks, "_UNSETTLED_NS", 0)  # as if nothing had changed for some seconds
    for number in range(500):
        folder = f"{root}/src/p{number % 20}/m{number}"
        Path(folder).mkdir(parents=True)
        for name in range(40):
            os.mknod(f"{folder}/component_{name}.ts")
    write(root, ".env")
    find = Finder(root, "Read(sec/**)", "Edit(*.lock)")
    find()
    began = process_time()
    for _ in range(10):
        assert find.held() == {".env": "nothing"}
    assert (process_time() - began) / 10 < 0.05


def policy(root: Path, **options: object) -> Policy:
    lists = {kind: options.pop(kind, ()) for kind in ("deny", "allow")}
    rules = [read_rule(kind, text, "settings", root) for kind, texts in lists.items() for text in texts]  # type: ignore
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    answered = bool(options.pop("answered", True))
    sandbox = confined(root, **options)
    return Policy(Workspace(root), rules, home=str(root.parent), env=env, confined=sandbox, answered=answered)


def decided(found: Policy, command: str) -> tuple[Level, str]:
    decision = found.decide("Bash", [Effect("run", command)])
    return decision.level, decision.reason


def test_more_files_than_can_be_masked_ask_whatever_rules_say(root: Path) -> None:
    write(root, *(f"k/{n}.pem" for n in range(masks.MAX_MASKS)))
    found = policy(root, allow=["Bash(make:*)"])
    assert decided(found, "make")[0] is Level.ALLOW
    write(root, "k/more.pem")
    level, reason = decided(found, "make")
    assert level is Level.ASK and reason.startswith(
        "needs masks for 201 files that rules deny or that look like they hold"
    )
    assert decided(found, "git status")[0] is Level.ALLOW
    assert decided(policy(root, allow=["Read(*.pem)"]), "make")[0] is Level.ALLOW


def test_a_rule_for_every_file_leaves_the_question_to_rules_for_commands(root: Path) -> None:
    for rule in ("Edit", "Edit(**)", "Read(/**)"):
        found = policy(root, deny=[rule])
        level, reason = decided(found, "make")
        assert level is Level.ASK and f"the rule {rule}" in reason, reason
        assert decided(policy(root, deny=[rule], allow=["Bash(make)"]), "make")[0] is Level.ALLOW


def test_a_workspace_that_is_too_large_to_list_asks(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masks, "MAX_NAMES", 10)
    write(root, ".env", *(f"d{n}/x" for n in range(30)))
    assert "may read secrets among more than" in decided(policy(root), "make")[1]
    assert ".env" in Finder(root).held()


def test_a_line_that_stays_inside_for_one_part_has_masks(root: Path) -> None:
    """Beside `git push`, which has a rule, the other part had neither the sandbox's refusal nor a question."""
    write(root, ".env")
    rules = ["Bash(git push)", "Bash(make)", "Bash(git add:*)"]
    found = policy(root, allow=rules, answered=False)
    line = "true || git push; make"
    assert decided(found, line)[0] is Level.ALLOW
    conditions = found.run_conditions(line)
    assert not conditions.outside and [each.path for each in conditions.masked] == [root / ".env"]
    assert found.run_conditions("git push").outside and not found.run_conditions("git push").masked
    assert "git may stage, move or rewrite .env" in decided(found, "git push; git add -f .env")[1]
