"""What the gate lets run in the sandbox without a question, and what it sends outside with one that says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_cli.kernel.decisions import Level
from agent_cli.policy.policy import Policy
from agent_tools.base import Effect
from agent_tools.fs.workspace import Workspace
from tests.support.sandboxes import confined

# What a developer types on a usual day. Nothing of it needs more than the workspace, caches and a loopback.
FREE = """
make
make -j4 test
pytest -q
python -m pytest tests/ -x
python manage.py migrate
ruff check --fix .
mypy
black src
pre-commit run --all-files
npm test
npm run build
npx --no-install tsc --noEmit
node scripts/build.js
tsc -p .
eslint . --fix
jest --watch=false
cargo build
cargo test
cargo clippy
go build ./...
go test ./...
go vet ./...
gradle test
./gradlew build
mvn test
cmake -B build
ctest --test-dir build
git add -A
git commit -m "a change"
git commit -F - <<'END'
a change
END
git stash
git checkout -b feature
git switch -c feature
git checkout feature
git merge feature
git rebase main
git cherry-pick abc123
git tag v1
git config --get user.name
git remote -v
git branch --list
git submodule status
mkdir -p a/b && touch a/b/c
cp a.txt b.txt
mv b.txt c.txt
sed -i s/a/b/ a.txt
tar xf archive.tar
unzip -o archive.zip -d out
curl -s http://localhost:8000/health
python -m http.server 8000
echo x > /tmp/note
sqlite3 db.sqlite 'select 1'
.venv/bin/pip list
kill %1
""".strip()

ASKED = {
    "git push": "needs keys",
    "git push -u origin feature": "needs keys",
    "git pull --rebase": "needs keys",
    "git fetch --all": "needs keys",
    "git clone git@example.org:a/b": "needs keys",
    "ssh host ls": "needs keys",
    "scp a host:b": "needs keys",
    "rsync -a . host:dir": "needs keys",
    "gh pr create": "needs keys",
    "aws s3 ls": "needs keys",
    "npm publish": "needs keys",
    "cargo publish": "needs keys",
    "git commit -S -m x": "needs keys",
    "docker compose up -d": "talks to a service",
    "systemctl restart nginx": "talks to a service",
    "sudo make install": "needs rights",
    "/usr/bin/sudo make install": "needs rights",
    "apt-get install jq": "installs outside",
    "pip install requests": "installs outside",
    "python -m pip install requests": "installs outside",
    "npm install -g typescript": "installs outside",
    "cargo install ripgrep": "installs outside",
    "pkill node": "is about processes",
    "kill 12345": "is about processes",
    "git config user.email a@example.org": "changes git's configuration",
    "git remote add other https://example.org/x": "changes git's configuration",
    "git init": "changes git's configuration",
    "git branch -d feature": "changes git's configuration",
    "git checkout --track origin/there": "changes git's configuration",
    "git checkout there": "changes git's configuration",
    "git checkout -b mine origin/there": "changes git's configuration",
    "git submodule update --init": "changes git's configuration",
    "git worktree add ../other": "changes git's configuration",
    "pre-commit install": "installs git hooks",
    "cp a.txt ~/elsewhere": "writes",
    "echo x >> ~/.bashrc": "writes",
    "tee /etc/hosts < a.txt": "writes",
    "cp ~/notes.txt .": "reads",
    "cd src && git push": "needs keys",
    "make && docker push image": "talks to a service",
}

# Runs inside, but not unasked.
INSIDE = (
    "curl https://example.org",
    "npm install",
    "poetry install",
    ".venv/bin/pip install requests",
    "cargo fetch",
    "go get example.org/x",
    "rm -rf build",
    "git reset --hard",
    "git clean -fd",
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "home/work"
    for made in (".git/refs/heads", ".git/refs/remotes/origin", "src", ".venv/bin"):
        (folder / made).mkdir(parents=True)
    for ref in ("heads/feature", "heads/main", "remotes/origin/there", "remotes/origin/feature"):
        (folder / ".git/refs" / ref).write_text("0" * 40 + "\n")
    (folder / ".venv/bin/pip").write_text("#!/bin/sh\n")
    (tmp_path / "home/notes.txt").write_text("x")
    return folder


def gate(root: Path, *, home: Path | None = None, **options: object) -> Policy:
    home = home or root.parent
    return Policy(
        Workspace(root), home=str(home), env={"PATH": "/usr/bin:/bin"}, confined=confined(root, home, **options)
    )


def commands() -> list[str]:
    """The lines of FREE; a here-document is one command."""
    lines = FREE.splitlines()
    at = next(n for n, line in enumerate(lines) if line.endswith("<<'END'"))
    return [*lines[:at], "\n".join(lines[at : at + 3]), *lines[at + 3 :]]


@pytest.mark.parametrize("command", commands())
def test_everyday_commands_run_in_the_sandbox_without_a_question(root: Path, command: str) -> None:
    policy = gate(root)
    decision = policy.decide("Bash", [Effect("run", command)])
    assert decision.level is Level.ALLOW, decision.reason
    terms = policy.run_conditions(command)
    assert not terms.outside and not terms.network


@pytest.mark.parametrize("command", commands())
def test_a_worktree_in_the_state_folder_is_as_free_as_any(root: Path, command: str) -> None:
    state = root.parent / "state"
    tree = state / "worktrees/one"
    tree.mkdir(parents=True)
    (root / ".git").rename(tree / ".git")
    policy = gate(tree, home=root.parent, secret=(state,))
    decision = policy.decide("Bash", [Effect("run", command)])
    assert decision.level is Level.ALLOW, decision.reason
    other = policy.decide("Bash", [Effect("run", f"touch {state}/log.jsonl")])
    assert other.level is Level.ASK


@pytest.mark.parametrize("command", ["rm -rf it", "rm -rfv it", "cp -rf it it"])
def test_letters_of_an_option_are_no_file(root: Path, command: str) -> None:
    """`-rf` could be `-r f` of another program; the reason names what is known to be written."""
    reason = gate(root).decide("Bash", [Effect("run", f"cd /etc && {command}")]).reason
    assert "it writes /etc/it, which the sandbox does not allow" in reason


@pytest.mark.parametrize("command", ["ln -s /etc/passwd pw", "ln -sf /opt/tool bin", "ln -sfn ../../elsewhere there"])
def test_a_symbolic_link_is_made_inside_wherever_it_leads(root: Path, command: str) -> None:
    assert not gate(root).run_conditions(command).outside
    assert gate(root).run_conditions("ln /etc/passwd pw").outside.startswith("writes /etc/passwd")


@pytest.mark.parametrize(("command", "why"), ASKED.items())
def test_what_the_sandbox_cannot_give_is_asked_and_runs_outside(root: Path, command: str, why: str) -> None:
    policy = gate(root)
    decision = policy.decide("Bash", [Effect("run", command)])
    assert decision.level is Level.ASK
    assert f"it runs outside the sandbox because it {why}" in decision.reason
    assert policy.run_conditions(command).outside.startswith(why)


@pytest.mark.parametrize("command", INSIDE)
def test_the_network_and_destruction_are_asked_about_and_run_inside(root: Path, command: str) -> None:
    policy = gate(root)
    decision = policy.decide("Bash", [Effect("run", command)])
    assert decision.level is Level.ASK and "outside the sandbox" not in decision.reason
    found = ("needs the network, which the sandbox blocks", "may destroy work, which the sandbox does not", "changes")
    assert decision.reason.startswith(found), decision.reason
    assert not policy.run_conditions(command).outside


@pytest.mark.parametrize("command", [*commands(), *ASKED, *INSIDE])
def test_without_the_users_yes_every_command_is_asked_as_ever(root: Path, command: str) -> None:
    plain = Policy(Workspace(root), home=str(root.parent), env={"PATH": "/usr/bin:/bin"})
    asked = gate(root, auto_allow=False)
    effects = [Effect("run", command)]
    assert asked.decide("Bash", effects).level is plain.decide("Bash", effects).level


def test_domains_let_package_managers_run_unasked_by_the_proxy(root: Path) -> None:
    policy = gate(root, domains=("registry.npmjs.org", "example.org"))
    for command, level in (
        ("npm install", Level.ALLOW),
        ("curl -s https://example.org/x", Level.ALLOW),
        ("curl -s https://example.com/x", Level.ASK),
        ("curl -s $URL", Level.ASK),
        (".venv/bin/pip install x", Level.ASK),
    ):
        assert policy.decide("Bash", [Effect("run", command)]).level is level, command
    assert not policy.run_conditions("npm install").network


def test_a_program_of_the_workspace_that_is_named_like_sudo_stays_inside(root: Path) -> None:
    assert gate(root).run_conditions("/usr/bin/sudo make install").outside
    assert not gate(root).run_conditions("./sudo make install").outside


def test_what_only_looks_at_processes_runs_outside_unasked(root: Path) -> None:
    policy = gate(root)
    assert policy.decide("Bash", [Effect("run", "ps aux | grep node")]).level is Level.ALLOW
    assert policy.run_conditions("ps aux | grep node").outside.startswith("is about processes")


def test_commands_of_the_users_choice_run_outside(root: Path) -> None:
    policy = gate(root, outside=("make e2e", "tox:*"))
    for command, outside in (("make e2e", True), ("make", False), ("tox -e py", True), ("tox", True)):
        assert bool(policy.run_conditions(command).outside) is outside, command
        level = Level.ASK if outside else Level.ALLOW
        assert policy.decide("Bash", [Effect("run", command)]).level is level


def test_a_service_whose_socket_is_allowed_is_reached_inside(root: Path) -> None:
    assert not gate(root, sockets=("/run/docker.sock",)).run_conditions("docker ps").outside
    assert gate(root, sockets=("/run/postgresql",)).run_conditions("docker ps").outside


def test_a_rule_that_allows_a_command_sends_it_outside_without_a_question(root: Path) -> None:
    policy = gate(root)
    policy.grant("Bash(git push:*)")
    assert policy.decide("Bash", [Effect("run", "git push origin main")]).level is Level.ALLOW
    assert policy.run_conditions("git push origin main").outside
