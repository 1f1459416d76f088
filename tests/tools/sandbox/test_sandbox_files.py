"""The sandbox and files: what can be written, what cannot, what cannot be seen, and that nothing is left behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_tools.base import ToolError
from agent_tools.sandbox.profile import make_profile
from tests.support.sandboxes import SandboxTester, lines, tree

REFUSED = ("Read-only file system", "Permission denied", "Device or resource busy", "Operation not permitted")


def refused(text: str) -> bool:
    return bool(lines(text, REFUSED))


def test_only_the_workspace_can_be_written(cage: SandboxTester) -> None:
    out = cage.home / ".cargo/outside"
    out.mkdir()
    (out / "old.txt").write_text("old")
    done = cage(
        "echo in > new.txt; mkdir -p a/b; mv new.txt a/b/; ln a/b/new.txt hard; cat a/b/new.txt\n"
        "cd ~/.cargo/outside; echo x > new; echo x > old.txt; rm -f old.txt; mkdir d; mv $OLDPWD/hard h\n"
        "ln -s x s; : > old.txt; truncate -s 0 old.txt; cp $OLDPWD/a/b/new.txt ~/; touch /etc/x /usr/x ~/.bashrc"
    )
    assert done.out.startswith("in\n")
    assert tree(out) == {"old.txt"} and (out / "old.txt").read_text() == "old"
    assert tree(cage.root) == {"a", "a/b", "a/b/new.txt", "hard"}
    assert not (cage.home / "new.txt").exists() and not (cage.home / ".bashrc").exists()
    assert len(lines(done.out, REFUSED)) >= 10


def test_devices_and_streams_work(cage: SandboxTester) -> None:
    done = cage(
        "echo x > /dev/null && head -c 2 /dev/zero | wc -c && head -c 2 /dev/urandom | wc -c\n"
        "echo out > /dev/stdout; echo err > /dev/stderr; cat <(echo substituted)\n"
        "echo tee | tee /dev/stderr >/dev/null\n"
        "cat < /dev/null; read -r x <<< here && echo $x"
    )
    assert done.out.split() == ["2", "2", "out", "err", "substituted", "tee", "here"] and done.code == 0


def test_shared_memory_and_pseudo_terminals_work(cage: SandboxTester) -> None:
    code = (
        "import multiprocessing as m, os, pty; lock = m.Lock(); q = m.SimpleQueue(); q.put(1); print(q.get())\n"
        "a, b = pty.openpty(); os.write(b, b'x'); print(os.read(a, 1))"
    )
    assert cage.python(code) == "1\nb'x'"


def test_the_temporary_directory_is_private_and_stays_for_the_session(cage: SandboxTester) -> None:
    cage('d=$(mktemp -d) && echo kept > "$d/f"')
    assert [p.read_text() for p in cage.temp.rglob("f")] == ["kept\n"]
    name = f"agent-outside-{os.getpid()}"
    theirs = Path("/tmp") / name
    theirs.write_text("theirs")
    try:
        done = cage(f"cat /tmp/{name}; echo mine > /tmp/{name}; echo; cat $(find ${{TMPDIR:-/tmp}} -name f)")
        assert done.out.endswith("kept\n")
        assert theirs.read_text() == "theirs"
        assert ("theirs" in done.out) == (cage.kind == "landlock")
    finally:
        theirs.unlink()


def test_without_a_private_directory_each_command_has_an_empty_one(bubblewrap: SandboxTester) -> None:
    profile = bubblewrap.profile().replace(temp=())
    assert bubblewrap("echo 1 > /tmp/x && cat /tmp/x && stat -c %a /tmp", profile=profile).out == "1\n1777\n"
    assert bubblewrap("ls /tmp/x", profile=profile).code != 0


@pytest.mark.parametrize(
    ("folder", "secret"), [("docker", "config.json"), ("config/gcloud", "x"), ("m2", "settings.xml")]
)
def test_a_secret_cannot_be_moved_to_where_the_next_command_sees_it(
    bubblewrap: SandboxTester, folder: str, secret: str
) -> None:
    """In a home folder that is the workspace."""
    place = bubblewrap.home / f".{folder}" / secret
    place.parent.mkdir(parents=True)
    place.write_text("SECRET")
    home = make_profile([bubblewrap.home], bubblewrap.home, temp=bubblewrap.temporary())
    first = folder.partition("/")[0]
    inside = bubblewrap.home
    found = bubblewrap(f"mv ~/.{first} ~/moved; cp -r ~/.{first} ~/copied; echo done", profile=home, cwd=inside).out
    assert "done" in found and "SECRET" not in found
    again = make_profile([bubblewrap.home], bubblewrap.home, temp=bubblewrap.temporary())
    found = bubblewrap("grep -r SECRET ~; echo done", profile=again, cwd=inside).out
    assert "done" in found and place.name not in found
    assert place.read_text() == "SECRET"


def test_secret_places_cannot_be_read(cage: SandboxTester) -> None:
    done = cage("cat ~/.ssh/id_ed25519 ~/.netrc /etc/shadow; head -1 ~/notes.txt; cat ~/.cargo/config.toml")
    assert "[build]" in done.out and "SECRET" not in done.out and "root:" not in done.out
    assert "plain notes" not in done.out
    assert "SECRET" not in cage("cat < /proc/self/root$HOME/.ssh/id_ed25519; cp ~/.netrc copy; cat copy").out


def test_a_home_that_is_the_workspace_keeps_its_secrets_and_start_up_files(cage: SandboxTester) -> None:
    cage.roots = [cage.home]
    (cage.home / "project").mkdir()
    (cage.home / ".bashrc").write_text("# mine\n")
    before = tree(cage.home)
    done = cage(
        "cat ~/.ssh/id_ed25519 ~/.netrc; mv ~/.ssh ~/.other; cat ~/.other/id_ed25519; echo evil >> ~/.bashrc\n"
        "echo evil > ~/.zshenv; mkdir -p ~/.config/fish && echo evil > ~/.config/fish/config.fish; mv ~/.bashrc ~/b\n"
        "echo evil > ~/.ssh/authorized_keys; cat ~/notes.txt; echo fine > ~/project/new",
        cwd=cage.home,
    )
    assert "SECRET" not in done.out and "plain notes" in done.out
    assert (cage.home / ".bashrc").read_text() == "# mine\n" and not (cage.home / ".zshenv").exists()
    assert not (cage.home / ".config/fish").exists()
    assert tree(cage.home / ".ssh") == {"id_ed25519"}
    # The directory itself is not protected in bubblewrap.
    assert tree(cage.home) - {".config"} == before | {"project/new"}


def test_a_link_made_inside_does_not_lead_a_write_outside(cage: SandboxTester) -> None:
    out = cage.home / ".cargo/outside"
    out.mkdir()
    done = cage(f"ln -s {out} door && echo x > door/made; ln -s {out}/two t; echo x > t; mkdir door/d; ls {out}")
    assert refused(done.out) and tree(out) == set()


@pytest.mark.parametrize("parent", ["home", "root"])
def test_our_own_state_is_hidden_wherever_it_is(cage: SandboxTester, parent: str) -> None:
    state = (cage.home if parent == "home" else cage.root) / ".local/state/agent"
    state.mkdir(parents=True)
    (state / "session.jsonl").write_text("SAID BEFORE")
    profile = make_profile(cage.roots, cage.home, secret=[state], temp=cage.temporary())
    assert "SAID BEFORE" not in cage(f"cat {state}/*; cat .local/state/agent/session.jsonl", profile=profile).out


def test_more_folders_can_be_opened_and_nothing_is_put_into_them(cage: SandboxTester) -> None:
    cache = cage.home / ".cache"
    cache.mkdir()
    profile = make_profile(cage.roots, cage.home, extra=[cache, cage.home / "missing"], temp=cage.temporary())
    done = cage("ls -A ~/.cache; echo x > ~/.cache/new; echo y > ~/.other", profile=profile)
    assert refused(done.out) and tree(cache) == {"new"} and not (cage.home / ".other").exists()


def test_a_workspace_below_a_secret_place_hides_the_rest_of_it(cage: SandboxTester) -> None:
    inner = cage.home / ".ssh/work"
    inner.mkdir()
    cage.roots = [inner]
    done = cage("echo x > made; cat made; cat ../id_ed25519", cwd=inner)
    assert done.out.startswith("x\n") and "SECRET" not in done.out and (inner / "made").exists()


def test_the_whole_machine_is_no_workspace(bubblewrap: SandboxTester) -> None:
    bubblewrap.roots = [Path("/")]
    assert "whole machine" in bubblewrap.sandbox.obstacle(bubblewrap.profile())
    with pytest.raises(ToolError, match="whole machine"):
        bubblewrap("true")


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: only root may write these")
def test_root_cannot_change_the_machine(cage: SandboxTester) -> None:
    before = Path("/proc/sys/kernel/core_pattern").read_text()
    done = cage(
        "cat /proc/sys/kernel/core_pattern > /proc/sys/kernel/core_pattern || echo no\n"
        "mknod disk b 254 0; head -c 1 disk; touch /sys/kernel/x; mount -t tmpfs none /mnt; chown 0:0 . && echo own"
    )
    assert "no\n" in done.out and "own" in done.out and not (cage.root / "disk").exists()
    assert Path("/proc/sys/kernel/core_pattern").read_text() == before


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: only root can give files away")
def test_root_writes_a_workspace_that_belongs_to_someone_else(cage: SandboxTester) -> None:
    os.chown(cage.root, 65534, 65534)
    (cage.root / "theirs").write_text("a\n")
    os.chown(cage.root / "theirs", 65534, 65534)
    (cage.root / "theirs").chmod(0o600)
    assert cage("echo b >> theirs && cat theirs && echo c > new && chown 65534 new && stat -c %u new").out == (
        "a\nb\n65534\n"
    )
