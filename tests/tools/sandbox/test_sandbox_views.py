"""Mounts that are made once for many commands: nothing of them outlives what they were made from."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_tools.sandbox.conditions import SandboxLimits
from agent_tools.sandbox.session import SandboxSession, SharedNamespaces
from tests.support.sandboxes import SandboxedBench

TRIED = """
ls -a ~ ; cat ~/.gitconfig; cat ~/.ssh/id_rsa; cat ~/tool/bin/run; cat ~/.aws/credentials
echo x > ~/.gitconfig; echo x > ~/.new; echo x > ~/tool/bin/run; echo x > .git/config; echo x > .git/hooks/pre-commit
echo x > .agentrc; mkdir .claude/commands; echo x > /etc/new; mv .git .away; rm -r .git/hooks
echo x > made && cat made; echo x > .git/description; echo x > /tmp/new && ls /tmp; echo x > ~/.cache/new && ls ~/.cache
ls /dev; echo x > /dev/null; echo x > /dev/shm/new; ls /dev/shm; test -t 0; script -qc tty /dev/null < /dev/null
cat /proc/self/status | grep -i capeff; ls /run; cat /etc/shadow; cat .env; umount ~; mount -t tmpfs none /mnt
"""

WHO = ("-c", "user.name=n", "-c", "user.email=n@example.org")


@pytest.fixture
def house(tmp_path: Path) -> Iterator[SandboxedBench]:
    made = SandboxedBench(tmp_path, SandboxLimits(), path=f"/usr/bin:/bin:{tmp_path}/home/tool/bin")
    for name, text in ((".gitconfig", "[user]\n"), (".ssh/id_rsa", "key"), ("tool/bin/run", "run"), (".cache/old", "")):
        path = made.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    subprocess.run(["git", "init", "-q", str(made.root)], check=True)
    made.shared()
    yield made
    made.bench.ctx.close()


def session(house: SandboxedBench) -> SandboxSession:
    found = house.sandbox.session
    assert found is not None
    return found


def test_a_command_can_do_the_same_with_a_view_and_without(house: SandboxedBench) -> None:
    assert session(house).views, "this kernel can make them, or the test tests nothing"
    with_view = house(TRIED).split("[exit code")[0]
    for made in ("made", ".git/description"):
        (house.root / made).unlink()
    house("rm -r /tmp/new ~/.cache/new /dev/shm/new")
    session(house).views = False
    assert house(TRIED).split("[exit code")[0] == with_view


def test_what_is_replaced_between_commands_is_seen_as_it_is_now(house: SandboxedBench) -> None:
    assert "[user]" in house("cat ~/.gitconfig")
    new = house.home / "new"
    new.write_text("[core]\n")
    new.rename(house.home / ".gitconfig")
    assert "[core]" in house("cat ~/.gitconfig")


def test_what_is_replaced_between_commands_stays_protected(house: SandboxedBench) -> None:
    config = house.root / ".git/config"
    text = config.read_text()
    assert "Read-only" in house("echo x > .git/config")
    (house.root / "new").write_text(text)
    (house.root / "new").rename(config)
    assert "Read-only" in house("echo x > .git/config")
    (house.root / ".agentrc").write_text("")
    assert "Read-only" in house("echo x > .agentrc")
    assert config.read_text() == text


def test_a_secret_that_appears_or_is_replaced_is_not_seen(house: SandboxedBench) -> None:
    secret = house.home / ".ssh/id_rsa"
    assert "No such file" in house("cat ~/.ssh/id_rsa")
    secret.unlink()
    secret.write_text("another")
    assert "another" not in house("cat ~/.ssh/id_rsa")
    tool = house.home / "tool/.aws"
    tool.mkdir()
    (house.home / ".aws").mkdir()
    (house.home / ".aws/credentials").write_text("another")
    assert "another" not in house("cat ~/.aws/credentials")


def test_a_secret_that_is_removed_and_made_again_is_not_seen(house: SandboxedBench) -> None:
    """In a folder that is shown; the new file may well have the inode number of the old one."""
    secret = house.home / ".cargo/credentials.toml"
    secret.parent.mkdir()
    secret.write_text("first")
    assert "first" not in house("cat ~/.cargo/credentials.toml")
    for number in range(5):
        secret.unlink()
        secret.write_text(f"another{number}")
        assert "another" not in house("cat ~/.cargo/credentials.toml")
    assert session(house).views


def test_a_linked_worktree_commits_although_the_folder_of_its_git_directory_is_protected(tmp_path: Path) -> None:
    """The git directory is writable below `worktrees`, which is read-only: the inner mount must lie on top."""
    tree = SandboxedBench(tmp_path, SandboxLimits())
    main = tree.home / "main"
    main.mkdir()
    for words in ("init -q", "commit -q --allow-empty -m first", f"worktree add -q {tree.root}"):
        subprocess.run(["git", *WHO, *words.split()], cwd=main, check=True)
    tree.shared()
    own = main / ".git/worktrees/work"
    try:
        made = tree(f"echo x > new && git add new && git {' '.join(WHO)} commit -qm second && git log --format=%s")
        assert made.startswith("second\nfirst\n"), made
        for name in ("commondir", "config.worktree", "../other", "../../config", "../../hooks/pre-commit"):
            assert "evil" not in tree(f"echo evil >> {own}/{name}; cat {own}/{name}")
        assert session(tree).views
    finally:
        tree.bench.ctx.close()


def test_a_writable_folder_in_a_protected_one_is_writable(tmp_path: Path) -> None:
    inner = tmp_path / "home/work/.claude/worktrees/one"
    house = SandboxedBench(tmp_path, SandboxLimits(), extra=[inner], secret=[inner / ".env"])
    inner.mkdir(parents=True)
    (inner / ".env").write_text("SECRET")
    house.shared()
    try:
        assert "made" in house(f"cd {inner} && echo made > new && cat new")
        assert "SECRET" not in house(f"cat {inner}/.env; echo x > {inner}/.env")
        assert "Read-only" in house("echo x > ../new; echo x > ../../new")
        assert (inner / ".env").read_text() == "SECRET"
        assert session(house).views
    finally:
        house.bench.ctx.close()


def test_many_views_leave_no_descriptor_behind(house: SandboxedBench) -> None:
    house("true")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for number in range(10):
        (house.home / ".gitconfig").unlink()
        (house.home / ".gitconfig").write_text(f"[user{number}]\n")
        assert f"[user{number}]" in house("cat ~/.gitconfig")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_where_there_can_be_no_views_every_command_makes_its_mounts(
    house: SandboxedBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> int:
        raise OSError("Function not implemented")

    monkeypatch.setattr(SharedNamespaces, "make_view", fails)
    (house.home / ".gitconfig").unlink()
    assert "Read-only" in house("echo x > .git/config; ls ~/.ssh")
    assert "key" not in house("cat ~/.ssh/id_rsa")


def test_a_late_answer_is_not_taken_for_that_of_the_next_order(house: SandboxedBench) -> None:
    space = session(house)._namespaces
    assert space is not None
    os.kill(space._process.pid, signal.SIGSTOP)
    space._socket.settimeout(0.05)
    with pytest.raises(TimeoutError):
        space.ports()
    os.kill(space._process.pid, signal.SIGCONT)
    with pytest.raises(OSError, match="Bad file descriptor"):
        space.listen()
    assert "Read-only" in house("echo x > .git/config"), "commands make their mounts by themselves from now on"


def test_the_workspace_can_be_copied_and_is_clean(house: SandboxedBench) -> None:
    (house.root / "a.py").write_text("a = 1\n")
    assert "[exit code 0" in house("cp -r . /tmp/copy && cp -a . /tmp/again && ls /tmp/copy /tmp/again")
    assert "[exit code 0" in house("cd /tmp/copy && rm -rf .git/hooks && rm -r a.py && cd .. && rm -rf copy again")
    assert ".agentrc" not in house("git status --short --untracked-files=all --ignored")


def test_a_folder_that_is_no_longer_public_is_absent_for_the_next_command(
    house: SandboxedBench, tmp_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder is not examined twice unless it has changed."""
    monkeypatch.setattr("agent_tools.sandbox.public_files._SETTLED_NS", 0)
    folder = Path(tmp_name)
    folder.mkdir()
    (folder / "notes").write_text("theirs\n")
    for _ in range(2):
        assert house(f"cat {folder}/notes").startswith("theirs\n")
    folder.chmod(0o700)
    assert "theirs" not in house(f"cat {folder}/notes")
    folder.chmod(0o755)
    assert house(f"cat {folder}/notes").startswith("theirs\n")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{folder}/s")
        assert "theirs" not in house(f"cat {folder}/notes")
    (folder / "s").unlink()
    assert house(f"cat {folder}/notes").startswith("theirs\n")
