"""The gate, as a table: rules, mode and a call in; the level out."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.decisions import Level
from agent_cli.kernel.rules import RuleError, read_rule, split_rules
from agent_cli.policy import command_rules
from agent_cli.policy.policy import Mode, Policy, change_rules
from agent_tools.base import Effect
from agent_tools.fs.workspace import Workspace

ALLOW, ASK, DENY = Level.ALLOW, Level.ASK, Level.DENY


def policy(root: Path, *, mode: Mode = "default", **lists: str) -> Policy:
    rules = [read_rule(k, r, "test", root) for k, texts in lists.items() for r in split_rules(texts)]  # type: ignore[arg-type]
    return Policy(Workspace(root), rules, mode)


def run(root: Path, command: str, **rules: str) -> Level:
    return policy(root, **rules).decide("Bash", [Effect("run", command)]).level  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("command", "rules", "level"),
    [
        ("ls", {}, ALLOW),
        ("make", {}, ASK),
        ("ls | make", {}, ASK),
        ("npm run test", {"allow": "Bash"}, ALLOW),
        ("npm run test", {"allow": "Bash(npm run test)"}, ALLOW),
        ("npm run testing", {"allow": "Bash(npm run test)"}, ASK),
        ("npm run test --watch", {"allow": "Bash(npm run test)"}, ASK),
        ("git status -s", {"allow": "Bash(git status:*)"}, ALLOW),
        ("git status", {"allow": "Bash(git status *)"}, ALLOW),
        ("git statusx", {"allow": "Bash(git status:*)"}, ASK),
        ("gitx", {"allow": "Bash(git:*)"}, ASK),
        ("lsof", {"allow": "Bash(ls*)"}, ALLOW),
        ("lsof", {"allow": "Bash(ls:*)"}, ASK),
        ("git status && rm -rf x", {"allow": "Bash(git status:*)"}, ASK),
        ("git status && rm -rf x", {"allow": "Bash(git status:*) Bash(rm:*)"}, ALLOW),
        ("git status | rm x", {"allow": "Bash(git status:*)"}, ASK),
        ("git status\nrm x", {"allow": "Bash(git status:*)"}, ASK),
        ("git status $(rm x)", {"allow": "Bash(git status:*)"}, ASK),
        ("git status > x", {"allow": "Bash(git status:*)"}, ASK),
        ("git status; rm x", {"allow": "Bash(git status*)"}, ASK),
        ("FOO=1 git status", {"allow": "Bash(git status:*)"}, ASK),
        ("FOO=1 npm test", {"allow": "Bash(npm test)"}, ASK),
        ("FOO=1 npm test", {"allow": "Bash(FOO=1 npm test)"}, ALLOW),
        # An editor or pager that does nothing changes no command.
        ("GIT_EDITOR=true git rebase --continue", {"allow": "Bash(git:*)"}, ALLOW),
        ("GIT_EDITOR=true git rebase --continue", {"allow": "Bash(git rebase:*)"}, ALLOW),
        ("GIT_EDITOR=: git merge --continue", {"allow": "Bash(git merge:*)"}, ALLOW),
        ("EDITOR=true VISUAL=/bin/true git commit --amend", {"allow": "Bash(git commit:*)"}, ALLOW),
        ("GIT_SEQUENCE_EDITOR=: git rebase -i --autosquash HEAD~2", {"allow": "Bash(git:*)"}, ALLOW),
        ("git -c core.editor=true rebase --continue", {"allow": "Bash(git rebase:*)"}, ASK),
        ("git -c core.editor=true rebase --continue", {"allow": "Bash(git:*)"}, ALLOW),
        ("git -c sequence.editor=: rebase -i HEAD~2", {"allow": "Bash(git:*)"}, ALLOW),
        ("GIT_PAGER=cat git log", {}, ALLOW),
        ("GIT_EDITOR=true git rebase --continue", {}, ASK),
        ("GIT_EDITOR=vim git rebase --continue", {"allow": "Bash(git:*)"}, ASK),
        ("GIT_EDITOR='true; rm x' git rebase --continue", {"allow": "Bash(git:*)"}, ASK),
        ("GIT_EDITOR=$x git rebase --continue", {"allow": "Bash(git:*)"}, ASK),
        ("GIT_EDITOR=./true git rebase --continue", {"allow": "Bash(git:*)"}, ASK),
        ("git -c core.editor=./x rebase --continue", {"allow": "Bash(git:*)"}, ASK),
        ("GIT_PAGER=./x git log", {}, ASK),
        ("GIT_SSH=true git fetch", {"allow": "Bash(git:*)"}, ASK),
        ("timeout 5 npm test", {"allow": "Bash(npm test)"}, ALLOW),
        ("./timeout 5 npm test", {"allow": "Bash(npm test)"}, ASK),
        ("sudo npm test", {"allow": "Bash(npm test)"}, ASK),
        ("echo $(date)", {"allow": "Bash(echo $(date))"}, ALLOW),
        ("rm x", {"allow": "Bash", "deny": "Bash(rm:*)"}, DENY),
        ("ls && rm x", {"allow": "Bash", "deny": "Bash(rm:*)"}, DENY),
        ("ls $(rm x)", {"allow": "Bash", "deny": "Bash(rm:*)"}, DENY),
        ("sudo rm x", {"allow": "Bash", "deny": "Bash(rm:*)"}, DENY),
        ("uv run --with x rm b", {"allow": "Bash", "deny": "Bash(rm:*)"}, DENY),
        ("npx -y /bin/RM b", {"allow": "Bash", "deny": "Bash(rm:*)"}, DENY),
        ("bundle exec rm b && poetry run rm c", {"allow": "Bash", "deny": "Bash(rm c:*)"}, DENY),
        ("npm run rm", {"allow": "Bash", "deny": "Bash(rm:*)"}, ALLOW),
        ("uv run pytest -q", {"allow": "Bash(uv run:*)", "deny": "Bash(rm:*)"}, ALLOW),
        ("bash -c 'rm x'", {"allow": "Bash", "deny": "Bash(rm:*)"}, DENY),
        ("/bin/rm x", {"allow": "Bash", "deny": "Bash(rm:*)"}, DENY),
        ("'rm' x", {"allow": "Bash", "deny": "Bash(rm:*)"}, DENY),
        ("ls $x", {"allow": "Bash", "deny": "Bash(rm:*)"}, ASK),
        ("r? x", {"allow": "Bash", "deny": "Bash(rm:*)"}, ASK),
        ("ls", {"allow": "Bash", "deny": "Bash"}, DENY),
        ("ls", {"allow": "Bash", "ask": "Bash(ls:*)"}, ASK),
        ("ls -l", {"allow": "Bash(ls -l)", "ask": "Bash(ls:*)"}, ASK),
    ],
)
def test_commands(root: Path, command: str, rules: dict[str, str], level: Level) -> None:
    assert run(root, command, **rules) is level


@pytest.mark.parametrize(
    ("tool", "kind", "path", "rules", "level"),
    [
        ("Read", "read", "src/a.py", {}, ALLOW),
        ("Read", "read", "/etc/passwd", {}, ASK),
        ("Read", "read", "/etc/passwd", {"allow": "Read"}, ALLOW),
        ("Read", "read", "/etc/passwd", {"allow": "Read(//etc/**)"}, ALLOW),
        ("Grep", "read", "src", {"deny": "Grep"}, DENY),
        ("Grep", "read", "src", {"deny": "Read(src)"}, DENY),
        ("Read", "read", "src/a.py", {"deny": "Read(src/**)"}, DENY),
        ("Read", "read", ".env", {"deny": "Read(.env)"}, DENY),
        ("Read", "read", "deep/down/.env", {"deny": "Read(.env)"}, DENY),
        ("Read", "read", "deep/down/x.pem", {"deny": "Read(*.pem)"}, DENY),
        # Braces and brackets: as they stand, and for rules that deny or ask as a choice, too.
        ("Read", "read", "deep/x.pem", {"deny": "Read(*.{pem,key})"}, DENY),
        ("Read", "read", "x.key", {"deny": "Read(**/*.{pem,{key,crt}})"}, DENY),
        ("Read", "read", "x.crt", {"deny": "Read(**/*.{pem,{key,crt}})"}, DENY),
        ("Read", "read", "x.txt", {"deny": "Read(*.{pem,key})"}, ALLOW),
        ("Read", "read", "a1.txt", {"deny": "Read(a[0-9].txt)"}, DENY),
        ("Read", "read", "ab.txt", {"deny": "Read(a[!0-9].txt)"}, DENY),
        ("Read", "read", "a/b", {"deny": "Read(a[!0-9]b)"}, ALLOW),
        ("Read", "read", "a[0-9].txt", {"deny": "Read(a[0-9].txt)"}, DENY),
        ("Read", "read", "app/[id]/page.tsx", {"deny": "Read(app/[id]/**)"}, DENY),
        ("Read", "read", "app/i/page.tsx", {"deny": "Read(app/[id]/**)"}, DENY),
        ("Read", "read", "app/x/page.tsx", {"deny": "Read(app/[id]/**)"}, ALLOW),
        ("Read", "read", "x[", {"deny": "Read(x[)"}, DENY),
        ("Read", "read", "x", {"deny": "Read([z-a])"}, ALLOW),
        ("Read", "read", "x", {"deny": f"Read({'{a,x}' * 12})"}, ALLOW),
        ("Edit", "write", "app/[id]/page.tsx", {"allow": "Edit(app/[id]/**)"}, ALLOW),
        ("Edit", "write", "app/i/page.tsx", {"allow": "Edit(app/[id]/**)"}, ASK),
        ("Edit", "write", "x.pem", {"allow": "Edit(*.{pem,key})"}, ASK),
        ("Edit", "write", "a{b,c}.txt", {"deny": "Edit(a{b,c}.txt)"}, DENY),
        ("Read", "read", "cafe\u0301.txt", {"deny": "Read(caf\u00e9.txt)"}, DENY),
        ("Read", "read", "caf\u00e9.txt", {"deny": "Read(CAFE\u0301.txt)"}, DENY),
        ("Write", "write", "src/a.py", {}, ASK),
        ("Write", "write", "src/a.py", {"allow": "Edit"}, ALLOW),
        ("Write", "write", "src/a.py", {"allow": "Write"}, ALLOW),
        ("Edit", "write", "src/a.py", {"allow": "Write"}, ASK),
        ("Edit", "write", "src/a.py", {"allow": "Edit(src/**)"}, ALLOW),
        ("Edit", "write", "src/deep/a.py", {"allow": "Edit(src/*.py)"}, ASK),
        ("Edit", "write", "src/a.py", {"allow": "Edit(/src/*.py)"}, ALLOW),
        ("Edit", "write", "srcs/a.py", {"allow": "Edit(src/**)"}, ASK),
        ("Edit", "write", ".git/hooks/pre-commit", {"allow": "Edit"}, ASK),
        ("Edit", "write", ".GIT/config", {"allow": "Edit"}, ASK),
        ("Edit", "write", ".agentrc", {"allow": "Edit"}, ASK),
        ("TodoWrite", "state", "", {}, ALLOW),
        ("WebFetch", "fetch", "https://a.org/x", {}, ASK),
        ("WebFetch", "fetch", "https://a.org/x", {"allow": "WebFetch(domain:a.org)"}, ALLOW),
        ("WebFetch", "fetch", "https://a.org.evil.com/x", {"allow": "WebFetch(domain:a.org)"}, ASK),
        ("WebFetch", "fetch", "https://a.org@evil.com/x", {"allow": "WebFetch(domain:a.org)"}, ASK),
        ("WebFetch", "fetch", "https://www.a.org/", {"allow": "WebFetch(domain:a.org)"}, ASK),
        ("WebFetch", "fetch", "https://www.a.org/", {"deny": "WebFetch(domain:a.org)"}, DENY),
        ("WebFetch", "fetch", "https://a.org/", {"deny": "WebFetch(domain:www.a.org)"}, DENY),
        ("WebFetch", "fetch", "https://a.org/", {"deny": "WebFetch(domain:*.a.org)"}, DENY),
        ("WebFetch", "fetch", "https://b.a.org/", {"deny": "WebFetch(domain:a.org)"}, ASK),
        ("WebFetch", "fetch", "https://xn--mnchen-3ya.org/", {"deny": "WebFetch(domain:München.org)"}, DENY),
        ("WebFetch", "fetch", "http://[::1]/", {"deny": "WebFetch(domain:[::1])"}, DENY),
        ("WebFetch", "fetch", "http://[::1]/", {"deny": "WebFetch(domain:[0:0:0:0:0:0:0:1])"}, DENY),
        ("WebFetch", "fetch", "https://a.org:8443/", {"deny": "WebFetch(domain: A.org.)"}, DENY),
        ("WebFetch", "fetch", "https://a.org/", {"deny": "WebFetch(domain:*)"}, DENY),
        ("WebSearch", "fetch", "https://api.search.org/", {"allow": "WebSearch"}, ALLOW),
        ("WebSearch", "fetch", "https://api.search.org/", {"allow": "WebFetch"}, ASK),
    ],
)
def test_paths_and_urls(root: Path, tool: str, kind: str, path: str, rules: dict[str, str], level: Level) -> None:
    target = path if kind in ("fetch", "state") or path.startswith("/") else str(root / path)
    assert policy(root, **rules).decide(tool, [Effect(kind, target)]).level is level  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mode", "kind", "path", "level"),
    [
        ("acceptEdits", "write", "src/a.py", ALLOW),
        ("acceptEdits", "write", "/tmp/elsewhere", ASK),
        ("acceptEdits", "write", ".git/config", ASK),
        ("acceptEdits", "run", "ls", ALLOW),
        ("acceptEdits", "run", "make", ASK),
        ("plan", "write", "src/a.py", DENY),
        ("plan", "run", "ls", ALLOW),
        ("plan", "run", "make", DENY),
        ("plan", "read", "src/a.py", ALLOW),
        ("dontAsk", "write", "src/a.py", DENY),
        ("dontAsk", "run", "ls", ALLOW),
        ("dontAsk", "run", "make", DENY),
        ("bypassPermissions", "run", "ls $(x)", ALLOW),
        ("bypassPermissions", "write", "src/a.py", ALLOW),
        ("bypassPermissions", "write", ".git/config", ASK),
    ],
)
def test_modes(root: Path, mode: Mode, kind: str, path: str, level: Level) -> None:
    target = path if kind == "run" or path.startswith("/") else str(root / path)
    assert policy(root, mode=mode).decide("T", [Effect(kind, target)]).level is level  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("command", "level"),
    [("ls", ALLOW), ("cat src/a.py | head", ALLOW), ("# nothing", ALLOW), ("make", DENY), ("ls; make", DENY),
     ("ls > x", DENY), ("ls $(x)", DENY)],
)  # fmt: skip
@pytest.mark.parametrize("rule", ["Bash", "Bash(ls:*)", "Bash(make:*)"])
def test_in_plan_mode_an_allow_rule_neither_takes_nor_gives(root: Path, command: str, level: Level, rule: str) -> None:
    assert run(root, command, mode="plan", allow=rule) is level


def test_a_read_of_git_is_hardened_where_only_its_reading_allows_it(root: Path) -> None:
    (root / ".git").mkdir()
    assert policy(root).run_conditions("git status").env["GIT_OPTIONAL_LOCKS"] == "0"
    assert policy(root, mode="plan", allow="Bash").run_conditions("git status").env["GIT_OPTIONAL_LOCKS"] == "0"
    assert policy(root, allow="Bash").run_conditions("git status").env == {}


@pytest.mark.parametrize("command", ["git status; make", "git log | head && make", "cd src && make"])
def test_plan_mode_names_the_part_that_is_not_read_only(root: Path, command: str) -> None:
    decision = policy(root, mode="plan").decide("Bash", (Effect("run", command),))
    assert decision.reason == "is not read-only, and plan mode allows only that: make"


def test_an_empty_directory_is_no_loss(root: Path) -> None:
    assert run(root, "rmdir x", allow="Bash") is ALLOW
    assert run(root, "rmdir x", mode="acceptEdits", allow="Bash") is ALLOW
    assert run(root, "rm -r x", mode="acceptEdits", allow="Bash") is ASK


def test_no_mode_overrides_a_deny_or_an_ask(root: Path) -> None:
    assert run(root, "rm x", mode="bypassPermissions", deny="Bash(rm:*)") is DENY
    assert run(root, "rm x", mode="bypassPermissions", ask="Bash(rm:*)") is ASK


def test_the_strictest_effect_decides(root: Path) -> None:
    effects = [Effect("read", str(root / "a")), Effect("write", str(root / "a"))]
    assert policy(root).decide("Edit", effects).level is ASK


def test_always_names_just_this_call(root: Path) -> None:
    gate = policy(root)
    path = str(root / "src" / "a.py")
    assert gate.suggest_rule("Bash", (Effect("run", "pytest -q"),)) == "Bash(pytest:*)"
    assert gate.suggest_rule("Bash", (Effect("run", "a && b"),)) == "Bash(a), Bash(b)"
    assert gate.suggest_rule("Bash", (Effect("run", "bash x.sh"),)) == "Bash(bash x.sh)"
    assert gate.suggest_rule("Bash", (Effect("run", "bash -c x"),)) == ""
    assert gate.suggest_rule("Bash", (Effect("run", "echo $(x)"),)) == ""
    rule = gate.suggest_rule("Edit", (Effect("read", path), Effect("write", path)))
    gate.grant(rule)
    assert gate.decide("Edit", [Effect("write", path)]).level is ALLOW
    assert gate.decide("Edit", [Effect("write", path + "x")]).level is ASK
    assert gate.suggest_rule("Edit", (Effect("write", str(root / ".git/config")),)) == ""


@pytest.mark.parametrize("text", ["", "(x)", "Bash(", "Bash)", "WebFetch(example.org)", "9x"])
def test_bad_rules_are_refused(root: Path, text: str) -> None:
    with pytest.raises(RuleError):
        read_rule("allow", text, "test", root)


@pytest.mark.parametrize("text", [r"Read(a\*b)", r"Read(a\ b)", r"Bash(grep '\bfoo' x)", "Bash(touch x )", "Read(a b)"])
def test_a_rule_may_refuse_names_with_escaped_characters(root: Path, text: str) -> None:
    assert read_rule("deny", text, "test", root).text == text


def test_lists_are_split_outside_of_parentheses() -> None:
    text = "Bash(git log:*), Edit Bash(npm run build, x) Read(~/a b/**)"
    assert split_rules(text) == ["Bash(git log:*)", "Edit", "Bash(npm run build, x)", "Read(~/a b/**)"]


@pytest.mark.parametrize(
    ("command", "pure"),
    [
        ("ls -la", True), ("git log -3", True), ("cat a | head -n 2 && wc -l b", True), ("X=1; echo $X", True),
        ("set -e; ls", True), ("cd . && ls", True), ("cd {root} && ls", True), ("cd {root}/sub/.. && ls", True),
        ("cd sub && ls", False), ("(cd sub; ls)", False), ("cd && ls", False), ("cd -", False), ("cd $X", False),
        ("cd sub; cd ..", False), ("builtin cd sub", False), ("command cd sub && ls", False), ("pushd sub", False),
        ("export A=1", False), ("PATH=/x", False), ("set -a; A=1", False), ("declare -x A=1", False),
        ("source f", False), ("eval ls", True), ("echo x > f", False), ("rm f", False), ("make", False),
        ("python3 -c 1", False), ("curl http://x", False), ("ls &", True), ("umask 0", False), ("trap ls EXIT", False),
    ],
)  # fmt: skip
def test_which_commands_may_run_beside_others(tmp_path: Path, command: str, pure: bool) -> None:
    (tmp_path / "sub").mkdir()
    assert policy(tmp_path).is_pure_read(command.format(root=tmp_path)) is pure


@pytest.mark.parametrize(
    ("command", "level"),
    [
        ("cd sub && ls; cd ..; pwd", ALLOW),
        ("cd sub; ls; cd ..", ALLOW),
        ("cd sub/deep && ls; cd ../..", ALLOW),
        ("cd sub && ls; cd ../..", ASK),
        ("cd sub && ls; cd ..; cat ../x", ASK),
        ("cd nope && ls; cd ..", ASK),
        ("cd file && ls; cd ..", ASK),
        ("cd sub | ls; cd ..", ASK),
        ("ls; cd sub; cd ..", ASK),
    ],
)
def test_a_cd_that_comes_first_and_back_does_not_leave_the_workspace(
    tmp_path: Path, command: str, level: Level
) -> None:
    (tmp_path / "sub/deep").mkdir(parents=True)
    (tmp_path / "file").touch()
    assert policy(tmp_path).decide("Bash", [Effect("run", command)]).level is level


def test_whether_the_directory_of_a_cd_is_there_is_looked_at_each_time(tmp_path: Path) -> None:
    back = [Effect("run", "cd late && ls; cd ..")]
    gate = policy(tmp_path)
    assert gate.decide("Bash", back).level is ASK
    (tmp_path / "late").mkdir()
    assert gate.decide("Bash", back).level is ALLOW
    (tmp_path / "late").rmdir()
    assert gate.decide("Bash", back).level is ASK


def test_plain_words_of_a_rule_are_what_the_parser_makes_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    words = "cd eval exec source command read env sudo xargs timeout time export bash npm -c 5 ../y -- wait".split()
    specs = [*words, *map(" ".join, product(words, words))]

    def prefixes() -> dict[str, tuple[tuple[str, ...], bool]]:
        command_rules._prefix.cache_clear()
        return {spec: command_rules._prefix(spec) for spec in specs}

    quick = prefixes()
    assert sum(command_rules._PLAIN_SPEC.fullmatch(spec) is not None for spec in specs) > len(specs) * 0.8
    monkeypatch.setattr(command_rules, "_PLAIN_SPEC", re.compile(r"(?!)"))
    assert prefixes() == quick
    command_rules._prefix.cache_clear()


@pytest.mark.parametrize(
    ("rules", "added", "problems"),
    [
        ([{"toolName": "Read", "ruleContent": "plan.txt"}], ["Read(plan.txt)"], 0),
        ("Read(plan.txt)", ["Read(plan.txt)"], 0),
        (["Read(plan.txt)", "Read("], ["Read(plan.txt)"], 1),
        ([{"toolName": "Read", "ruleContent": '"plan.txt"'}], [], 1),
        ([["Read"]], [], 1),
        ([{}], [], 1),
    ],
)
def test_a_rule_that_a_host_adds_is_applied_or_reported(
    tmp_path: Path, rules: Any, added: list[str], problems: int
) -> None:
    made = policy(tmp_path)
    found = change_rules(made, {"type": "addRules", "behavior": "deny", "rules": rules})
    assert [rule.text for rule in made.rules] == added
    assert len(found) == problems
    assert change_rules(made, {"type": "addRules", "behavior": "denied", "rules": rules})
    assert change_rules(made, {"type": "setMode", "mode": "plan"}) == []


def test_a_host_removes_and_replaces_only_rules_of_the_session(tmp_path: Path) -> None:
    made = Policy(Workspace(tmp_path), [read_rule("deny", "Read(kept.txt)", "settings", tmp_path)])
    for kind, text in (("deny", "Read(a.txt)"), ("deny", "Read(b.txt)"), ("allow", "Bash(make:*)")):
        made.add(kind, text)  # type: ignore[arg-type]
    saved: list[str] = []

    def change(how: str, kind: str, *rules: str, to: str = "session") -> list[str]:
        update = {"type": how, "behavior": kind, "rules": rules, "destination": to}
        assert change_rules(made, update, lambda text: saved.append(text) or "") == []
        return [rule.text for rule in made.rules]

    left = ["Read(kept.txt)", "Read(b.txt)", "Bash(make:*)"]
    assert change("removeRules", "deny", "Read(a.txt)", "Read(kept.txt)", "Bash(make:*)") == left
    left = ["Read(kept.txt)", "Bash(make:*)", "Read(c.txt)"]
    assert change("replaceRules", "deny", "Read(c.txt)", to="localSettings") == left
    left = ["Read(kept.txt)", "Read(c.txt)", "Bash(ls:*)"]
    assert change("replaceRules", "allow", "Bash(ls:*)", to="localSettings") == left
    assert change("addRules", "allow", "Bash(x)") == [*left, "Bash(x)"]
    assert saved == ["Bash(ls:*)"]


def test_a_restricted_session_stays_in_the_workspace_whatever_its_rules_say(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    texts = (f"Read(/{tmp_path}/**)", f"Edit(/{tmp_path}/x)", "Edit(.envrc)")
    rules = [read_rule("allow", text, "user", root).replace(from_user=True) for text in texts]
    free, bound = (Policy(Workspace(root), rules, restricted=restricted) for restricted in (False, True))
    for tool, effect in (("Read", Effect("read", str(tmp_path / "x"))), ("Edit", Effect("write", str(tmp_path / "x")))):
        assert free.decide(tool, [effect]).level is Level.ALLOW
        found = bound.decide(tool, [effect])
        assert (found.level, "--restricted excludes" in found.reason) == (Level.DENY, True)
    assert bound.decide("Read", [Effect("read", str(root / "a"))]).level is Level.ALLOW
    own = [Effect("write", str(root / ".envrc"))]
    assert (free.decide("Edit", own).level, bound.decide("Edit", own).level) == (Level.ALLOW, Level.ASK)


@pytest.mark.parametrize(
    ("effect", "level", "reason"),
    [
        (Effect("prompt", "/fix"), Level.ASK, "uses the saved prompt /fix"),
        (Effect("fetch", "https://a.b"), Level.ASK, "sends a request to https://a.b"),
        (Effect("call", "x"), Level.ASK, "calls another program's tool"),
        (Effect("state"), Level.ALLOW, "changes nothing outside the conversation"),
    ],
)
def test_what_is_no_file_and_no_command(tmp_path: Path, effect: Effect, level: Level, reason: str) -> None:
    found = policy(tmp_path).decide("", [effect])
    assert (found.level, found.reason) == (level, reason)
