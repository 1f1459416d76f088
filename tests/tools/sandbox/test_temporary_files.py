"""One /tmp: a path there is the same file for sandboxed commands, commands outside, tools and programs of the user."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from agent_cli.kernel.decisions import Level
from agent_cli.policy.policy import Policy
from agent_cli.shells.terminal.commands.session import run_bang
from agent_tools.base import Effect, ToolError
from agent_tools.sandbox.conditions import RunConditions, SandboxLimits
from agent_tools.sandbox.session import TemporaryFolder, remove_stale
from agent_tools.sandbox.temporary import TemporaryFiles, TemporaryPlace
from tests.support.sandboxes import SandboxedBench

Reader = Callable[[SandboxedBench, str], str]


@pytest.fixture
def house(tmp_path: Path, tmp_name: str) -> Iterator[SandboxedBench]:
    """Closed before the file at `tmp_name` is removed."""
    made = SandboxedBench(tmp_path, SandboxLimits())
    yield made
    made.bench.ctx.close()


def inside(house: SandboxedBench, path: str) -> str:
    return house(f"cat {path}")


def outside(house: SandboxedBench, path: str) -> str:
    return house(f"cat {path}", dangerouslyDisableSandbox=True)


def in_a_script(house: SandboxedBench, path: str) -> str:
    """Outside, where the command line does not tmp_name the file."""
    (house.root / "show.sh").write_text(f"cat {path}\n")
    return house("sh show.sh", dangerouslyDisableSandbox=True)


def by_read(house: SandboxedBench, path: str) -> str:
    return house.bench("Read", file_path=path).text


def by_grep(house: SandboxedBench, path: str) -> str:
    return house.bench("Grep", pattern=".", path=path, output_mode="content").text


def by_job(house: SandboxedBench, path: str) -> str:
    started = house(f"cat {path}", run_in_background=True)
    return started + (house.bench("BashOutput", shell_id="b1", timeout=60_000).text if "b1 runs" in started else "")


def by_subagent(house: SandboxedBench, path: str) -> str:
    from tests.support.tool_bench import TOOLS

    nested = house.bench.ctx.nested()
    outcome = TOOLS["Read"].run(TOOLS["Read"].read({"file_path": path}), nested)
    return outcome.text  # type: ignore[union-attr]


def by_the_user(house: SandboxedBench, path: str) -> str:
    """In another terminal."""
    return Path(path).read_text()


READERS = [inside, outside, in_a_script, by_read, by_grep, by_job, by_subagent, by_the_user]


def written_inside(house: SandboxedBench, path: str) -> None:
    house(f"echo FIRST > {path} && echo HERE >> {path}")


def written_outside(house: SandboxedBench, path: str) -> None:
    house(f"umask 077; echo HERE > {path}", dangerouslyDisableSandbox=True)


def written_by_a_job_outside(house: SandboxedBench, path: str) -> None:
    house(f"umask 077; echo HERE > {path}", run_in_background=True, dangerouslyDisableSandbox=True)


def written_by_write(house: SandboxedBench, path: str) -> None:
    house.bench("Write", file_path=path, content="HERE\n")


def written_by_edit(house: SandboxedBench, path: str) -> None:
    house(f"echo THERE > {path}")
    house.bench("Read", file_path=path)
    house.bench("Edit", file_path=path, old_string="THERE", new_string="HERE")


def written_by_job(house: SandboxedBench, path: str) -> None:
    """That goes on running."""
    house(f"echo HERE > {path}; echo written; sleep 60", run_in_background=True)


def replaced_inside(house: SandboxedBench, path: str) -> None:
    house.bench("Write", file_path=path, content="THERE\n")
    house(f"sed -i s/THERE/HERE/ {path}")


def replaced_outside(house: SandboxedBench, path: str) -> None:
    house(f"echo THERE > {path}")
    house(f"sed -i s/THERE/HERE/ {path}", dangerouslyDisableSandbox=True)


def replaced_beside_a_job(house: SandboxedBench, path: str) -> None:
    house(f"echo THERE > {path}")
    house("sleep 60", run_in_background=True)
    house.bench("Read", file_path=path)
    house.bench("Edit", file_path=path, old_string="THERE", new_string="HERE")


WRITERS = [
    written_inside, written_outside, written_by_a_job_outside, written_by_write, written_by_edit, written_by_job,
    replaced_inside, replaced_outside, replaced_beside_a_job,
]  # fmt: skip


@pytest.mark.parametrize("write", WRITERS)
def test_what_one_writes_in_tmp_every_other_reads(
    house: SandboxedBench, tmp_name: str, write: Callable[[SandboxedBench, str], None]
) -> None:
    write(house, tmp_name)
    for read in READERS:
        if read is by_job and "job" in write.__name__:  # it is the first one
            continue
        assert "HERE" in read(house, tmp_name), (write.__name__, read.__name__)


@pytest.mark.parametrize("jobs", [False, True])
def test_a_folder_in_tmp_is_the_same_for_all(house: SandboxedBench, tmp_name: str, jobs: bool) -> None:
    if jobs:
        house("sleep 60", run_in_background=True)
    house(f"mkdir -p {tmp_name}/in && echo ONE > {tmp_name}/in/one.txt")
    assert "ONE" in by_read(house, f"{tmp_name}/in/one.txt") and "ONE" in outside(house, f"{tmp_name}/in/one.txt")
    house.bench("Write", file_path=f"{tmp_name}/in/two.txt", content="TWO\n")
    assert "TWO" in inside(house, f"{tmp_name}/in/two.txt")
    house(f"echo THREE > {tmp_name}/in/three.txt; rm {tmp_name}/in/one.txt", dangerouslyDisableSandbox=True)
    assert house(f"cat {tmp_name}/in/*").startswith("THREE\nTWO\n")
    found = house.bench("Glob", pattern="**/*.txt", path=tmp_name).text
    assert set(found.splitlines()) == {f"{tmp_name}/in/two.txt", f"{tmp_name}/in/three.txt"}
    assert "THREE" in house.bench("Grep", pattern="THREE", path=tmp_name, output_mode="content").text
    assert "three.txt" in house.bench("LS", path=tmp_name).text
    house(f"rm -r {tmp_name}/in && echo gone")
    assert "does not exist" in house.bench.fails("Read", file_path=f"{tmp_name}/in/two.txt")


def test_what_is_removed_or_moved_by_one_is_gone_for_all(house: SandboxedBench, tmp_name: str) -> None:
    house(f"echo x > {tmp_name}")
    house(f"rm {tmp_name}", dangerouslyDisableSandbox=True)
    assert "No such file" in inside(house, tmp_name)
    house(f"echo y > {tmp_name}")
    house(f"mv {tmp_name} {house.root}/moved", dangerouslyDisableSandbox=True)
    assert (house.root / "moved").read_text() == "y\n" and not (house.root / "moved").is_symlink()
    assert "No such file" in inside(house, tmp_name)
    house(f"echo z > {tmp_name}")
    house(f"rm {tmp_name}")
    assert not os.path.lexists(tmp_name)
    house(f"mkdir {tmp_name} && echo in > {tmp_name}/f")
    house(f"mv {tmp_name} {house.root}/folder", dangerouslyDisableSandbox=True)
    assert (house.root / "folder/f").read_text() == "in\n" and "No such file" in house(f"ls {tmp_name}")
    house(f"mkdir {tmp_name} && rmdir {tmp_name} && echo file > {tmp_name}")
    assert Path(tmp_name).read_text() == "file\n"


def test_a_directory_in_tmp_is_kept_for_the_next_command(house: SandboxedBench, tmp_name: str) -> None:
    shown = house(f"mkdir -p {tmp_name} && cd {tmp_name}")
    assert f"[working directory now: {tmp_name}]" in shown
    assert house("pwd && echo here > made").startswith(f"{tmp_name}\n")
    assert (Path(tmp_name) / "made").read_text() == "here\n"
    assert "here" in by_read(house, "made")
    assert house("cat made", dangerouslyDisableSandbox=True).startswith("here\n")
    assert "working directory now: /tmp/tmp." in house("cd $(mktemp -d)")


def test_a_directory_that_became_a_link_is_left(house: SandboxedBench, tmp_name: str) -> None:
    house(f"mkdir {tmp_name} && cd {tmp_name}")
    house(f"cd / && rmdir {tmp_name} && ln -s {house.home} {tmp_name}")
    assert house("pwd", dangerouslyDisableSandbox=True).splitlines()[0] == str(house.root)


def test_tmp_stays_after_the_session_and_the_next_one_may_write_it(tmp_path: Path, tmp_name: str) -> None:
    first = SandboxedBench(tmp_path, SandboxLimits())
    first(f"echo kept > {tmp_name}; mkdir {tmp_name}.d && echo in > {tmp_name}.d/f")
    first.bench.ctx.close()
    assert Path(tmp_name).read_text() == "kept\n" and not Path(tmp_name).is_symlink()
    again = SandboxedBench.__new__(SandboxedBench)
    again.__dict__.update(SandboxedBench(tmp_path / "second", SandboxLimits()).__dict__)
    assert again(f"cat {tmp_name}").startswith("kept\n")
    assert "[exit code 0" in again(f"echo more > {tmp_name}")
    refused = again(f"echo more > {tmp_name}.d/f")
    assert "was there before this session and is read-only; use another name]" in refused
    again.bench.ctx.close()
    assert Path(tmp_name).read_text() == "more\n"
    shutil.rmtree(f"{tmp_name}.d")


def test_a_session_of_the_same_project_has_the_folders_of_an_earlier_one(tmp_path: Path, tmp_name: str) -> None:
    place = TemporaryPlace(tmp_path, tmp_path / "agent-1", "project")
    (tmp_path / "agent-1").mkdir()
    (tmp_path / "agent-1/data").mkdir()
    (tmp_path / "agent-1/data/f").write_text("x")
    place.name_in("ls /tmp/data")
    place.share(at_rest=True)
    assert (tmp_path / "data/f").read_text() == "x"
    (tmp_path / "agent-2").mkdir()
    again, other = (TemporaryPlace(tmp_path, tmp_path / "agent-2", project) for project in ("project", "another"))
    again.adopt()
    other.adopt()
    assert again.has(f"{tmp_path}/data/f") and not other.has(f"{tmp_path}/data/f")


def test_a_killed_session_leaves_folders_where_they_were(tmp_path: Path) -> None:
    folder = TemporaryFolder(tmp_path)
    source = folder.path / "tmp"
    (source / "data").mkdir(parents=True)
    (source / "data/f").write_text("x")
    files = TemporaryFiles([TemporaryPlace(tmp_path, source, "p")])
    files.name_in("data")
    files.enter()
    assert (tmp_path / "data").is_symlink() and (tmp_path / "data/f").read_text() == "x"
    folder.close.detach()  # type: ignore[attr-defined]
    os.close(folder._lock)
    remove_stale(tmp_path)
    assert not (tmp_path / "data").is_symlink() and (tmp_path / "data/f").read_text() == "x"
    assert not folder.path.exists()


def test_what_was_in_tmp_before_is_visible_and_read_only(house: SandboxedBench, tmp_name: str) -> None:
    Path(tmp_name).write_text("theirs\n")
    assert house(f"cat {tmp_name}").startswith("theirs\n")
    refused = house(f"echo mine > {tmp_name}")
    assert f"[the sandbox refused this: {tmp_name} was there before this session and is read-only" in refused
    python = house(f"{sys.executable} -c \"open('{tmp_name}', 'a')\"")
    assert "was there before this session" in python
    house(f"rm -f {tmp_name}; mv {tmp_name} {tmp_name}.2; chmod 600 {tmp_name}")
    house(f"ln -f /etc/hostname {tmp_name}; : > {tmp_name}")
    assert Path(tmp_name).read_text() == "theirs\n" and stat.S_IMODE(Path(tmp_name).stat().st_mode) == 0o644
    Path(tmp_name).unlink()
    assert "No such file" in house(f"cat {tmp_name}")
    assert "[exit code 0" in house(f"echo mine > {tmp_name}")
    assert Path(tmp_name).read_text() == "mine\n"


def test_a_private_file_of_another_program_is_absent_and_a_hint_says_so(house: SandboxedBench, tmp_name: str) -> None:
    Path(tmp_name).write_text("PRIVATE")
    Path(tmp_name).chmod(0o600)
    shown = house(f"cat {tmp_name}")
    assert "PRIVATE" not in shown and f"[the sandbox refused this: {tmp_name} is hidden in it" in shown


def test_a_virtual_environment_in_tmp_stays_on_the_path(tmp_path: Path, tmp_name: str) -> None:
    Path(tmp_name, "bin").mkdir(parents=True)
    Path(tmp_name).chmod(0o700)
    Path(tmp_name, "lib").mkdir()
    Path(tmp_name, "lib/data").write_text("data of it\n")
    Path(tmp_name, "bin/tool").write_text(f"#!/bin/sh\ncat {tmp_name}/lib/data\n")
    Path(tmp_name, "bin/tool").chmod(0o755)
    path = f"{tmp_name}/bin:{os.environ['PATH']}"
    house = SandboxedBench(tmp_path, SandboxLimits(), path=path)
    house.bench.ctx.env["PATH"] = path
    assert house("tool").startswith("data of it\n")
    assert "Read-only" in house(f"touch {tmp_name}/bin/tool2")
    house.bench.ctx.close()


@pytest.mark.parametrize(
    "place", ["ssh-{0}/agent.1", "tmux-{0}/default", ".X11-unix/X{0}", "{0}/deep.sock", "{0}.sock", "{0}/a/b/c.sock"]
)
@pytest.mark.parametrize("late", [False, True])
def test_sockets_in_tmp_cannot_be_reached(house: SandboxedBench, tmp_name: str, place: str, late: bool) -> None:
    """late: the server starts while a command runs."""
    path = Path("/tmp", place.format(Path(tmp_name).name))
    made = [folder for folder in path.parents if not folder.exists()]
    code = (
        "import socket, sys, time, os; s = socket.socket(socket.AF_UNIX); path, go, ready = sys.argv[1:]\n"
        "open(ready, 'w')\n"
        "until = time.time() + 20\n"
        "while not os.path.exists(go) and time.time() < until: time.sleep(0.01)\n"
        "try: s.connect(path); print('REACHED')\n"
        "except OSError as e: print('refused', e)"
    )
    (house.root / "try.py").write_text(code)
    go, ready = house.root / "go", house.root / "ready"
    with socket.socket(socket.AF_UNIX) as server:
        try:
            if late:
                house(f"{sys.executable} try.py {path} go ready", run_in_background=True)
                while not ready.exists():
                    os.sched_yield()
            path.parent.mkdir(parents=True, exist_ok=True)
            server.bind(str(path))
            server.listen()
            go.touch()
            if late:
                found = house.bench("BashOutput", shell_id="b1", timeout=60_000).text
            else:
                found = house(f"{sys.executable} try.py {path} go ready")
            assert "refused" in found and "REACHED" not in found
        finally:
            path.unlink(missing_ok=True)
            for folder in made:
                folder.rmdir()


def test_a_server_that_runs_outside_cannot_be_reached_through_a_folder_of_the_session(
    house: SandboxedBench, tmp_name: str
) -> None:
    house(f"mkdir {tmp_name}")
    code = "import socket, sys; s = socket.socket(socket.AF_UNIX); print('REACHED', s.connect_ex(sys.argv[1]) == 0)"
    (house.root / "try.py").write_text(code)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{tmp_name}/s")
        server.listen()
        refused = house(f"{sys.executable} try.py {tmp_name}/s")
        assert refused.startswith("REACHED False\n")
        Path(tmp_name, "s").unlink()


def test_a_link_that_the_sandbox_made_is_not_followed_out(house: SandboxedBench, tmp_name: str) -> None:
    secret = house.home / "secret"
    secret.write_text("SECRET\n")
    house(f"ln -s {secret} {tmp_name}")
    for reader in (by_read, by_grep, outside):
        try:
            assert "SECRET" not in reader(house, tmp_name)
        except ToolError as error:
            assert "does not exist" in str(error)
    house(f"echo {tmp_name}", dangerouslyDisableSandbox=True)
    assert not os.path.lexists(tmp_name)
    workspace = house.bench.ctx.workspace
    assert not workspace.may_read(tmp_name)
    # In a folder that is shared, it is what it leads to.
    house(f"rm {tmp_name}; mkdir {tmp_name}; ln -s {secret} {tmp_name}/link; echo {tmp_name}")
    assert workspace.resolve(f"{tmp_name}/link") == secret and not workspace.may_read(f"{tmp_name}/link")
    assert not workspace.is_temporary(workspace.resolve(f"{tmp_name}/link"))


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_is_shared_and_becomes_a_link_is_withdrawn(house: SandboxedBench, tmp_name: str, kind: str) -> None:
    secret = house.home / "secret"
    secret.mkdir() if kind == "folder" else secret.write_text("SECRET\n")
    house(f"echo x > {tmp_name}" if kind == "file" else f"mkdir {tmp_name}")
    assert os.path.lexists(tmp_name)
    house(f"rm -r {tmp_name}; ln -s {secret} {tmp_name}; echo {tmp_name}")
    assert not os.path.lexists(tmp_name)


def test_pipes_and_names_that_programs_trust_are_not_shared(house: SandboxedBench, tmp_name: str) -> None:
    house(f"mkfifo {tmp_name}")
    assert not os.path.lexists(tmp_name)
    assert "does not exist" in house.bench.fails("Read", file_path=tmp_name)
    number = os.getpid() * 1000 + 7
    names = [f".{number}", f"tmux-{number}", f"krb5cc_{number}", f"agent-sandbox-{number}", f"systemd-private-{number}"]
    for each in names:
        house(f"mkdir /tmp/{each} && touch /tmp/{each}/x; echo x > /tmp/{each}.txt; ls /tmp/{each}")
        assert not os.path.lexists(f"/tmp/{each}") and not os.path.lexists(f"/tmp/{each}.txt")
        assert not house.bench.ctx.workspace.is_temporary(Path(f"/tmp/{each}"))


def test_a_folder_that_no_call_names_stays_with_the_session(house: SandboxedBench, tmp_name: str) -> None:
    (house.root / "cache.sh").write_text(
        f"mkdir -p {tmp_name}; echo x >> {tmp_name}/cached; wc -l < {tmp_name}/cached\n"
    )
    assert house("sh cache.sh").startswith("1\n") and house("sh cache.sh").startswith("2\n")
    assert not os.path.lexists(tmp_name)
    assert "cached" in house.bench("LS", path=tmp_name).text


@pytest.mark.parametrize("job", [False, True])
def test_a_name_that_another_program_takes_over_is_its_own(house: SandboxedBench, tmp_name: str, job: bool) -> None:
    """A command cannot make a file whose successor it may then write."""
    house(f"echo x > {tmp_name}")
    if job:
        house("sleep 60", run_in_background=True)
    theirs = Path(f"{tmp_name}.new")
    theirs.write_text("theirs\n")
    theirs.rename(tmp_name)
    assert house(f"cat {tmp_name}").startswith("theirs\n")
    assert "was there before this session" in house(f"echo mine > {tmp_name}")
    assert Path(tmp_name).read_text() == "theirs\n"
    assert not house.bench.ctx.workspace.is_temporary(Path(tmp_name))


def test_rules_and_results_have_the_name_in_tmp_while_a_command_runs(house: SandboxedBench, tmp_name: str) -> None:
    house("sleep 60", run_in_background=True)
    house(f"mkdir {tmp_name} && echo HERE > {tmp_name}/f")
    workspace = house.bench.ctx.workspace
    policy = Policy(workspace)
    reads = [Effect("read", str(workspace.resolve(f"{tmp_name}/f")))]
    assert policy.decide("Read", reads).level is Level.ALLOW
    policy.add("deny", f"Read(/{tmp_name}/**)")
    assert policy.decide("Read", reads).level is Level.DENY
    written = house.bench("Write", file_path=f"{tmp_name}/g", content="x\n").text
    assert written.startswith(f"Created {tmp_name}/g")


def test_pipes_and_huge_files_in_a_shared_folder_stop_no_tool(house: SandboxedBench, tmp_name: str) -> None:
    house(f"mkdir {tmp_name} && mkfifo {tmp_name}/pipe && truncate -s 1T {tmp_name}/huge && echo HERE > {tmp_name}/f")
    assert "is a named pipe" in house.bench.fails("Read", file_path=f"{tmp_name}/pipe")
    assert "is a named pipe" in house.bench.fails("Write", file_path=f"{tmp_name}/pipe", content="x")
    assert "cannot show" in house.bench.fails("Read", file_path=f"{tmp_name}/huge")
    house(f"rm {tmp_name}/huge && echo {tmp_name}")
    assert f"{tmp_name}/f:1:HERE" in house.bench("Grep", pattern="HERE", path=tmp_name, output_mode="content").text
    assert house.bench("Glob", pattern="*", path=tmp_name).text == f"{tmp_name}/f"


def test_a_second_session_can_only_read_what_the_first_has(tmp_path: Path, tmp_name: str) -> None:
    """Whatever name a command guesses, another session neither writes into it nor gets it."""
    first, second = (SandboxedBench(tmp_path / each, SandboxLimits()) for each in ("first", "second"))
    first(f"echo first > {tmp_name}; mkdir {tmp_name}.d; echo planted > {tmp_name}.d/configure")
    assert second(f"cat {tmp_name}").startswith("first\n")
    for command in (f"echo second > {tmp_name}", f"mkdir -p {tmp_name}.d && echo second > {tmp_name}.d/configure"):
        assert "was there before this session" in second(command)
    assert not second.bench.ctx.workspace.is_temporary(Path(tmp_name))
    assert Path(tmp_name).read_text() == "first\n" and Path(f"{tmp_name}.d/configure").read_text() == "planted\n"
    assert first(f"echo more >> {tmp_name}; cat {tmp_name}").startswith("first\nmore\n")
    first.bench.ctx.close()
    second.bench.ctx.close()
    shutil.rmtree(f"{tmp_name}.d")


def test_the_user_s_own_commands_see_the_same_files(house: SandboxedBench, tmp_name: str) -> None:
    """`!cat FILE` at the prompt."""
    house(f"echo HERE > {tmp_name}; mkdir {tmp_name}.d; echo THERE > {tmp_name}.d/f")
    shown: list[str] = []
    agent = SimpleNamespace(tool_context=house.bench.ctx, inbox=[])
    run_bang(
        SimpleNamespace(agent=agent, show_event=lambda event: None, say=shown.append),  # type: ignore[arg-type]
        f"!cat {tmp_name} {tmp_name}.d/f; echo mine > {tmp_name}",
    )
    assert "HERE\nTHERE\n" in agent.inbox[0]
    assert house(f"cat {tmp_name}; echo more >> {tmp_name}").startswith("mine\n")
    assert Path(tmp_name).read_text() == "mine\nmore\n"
    shutil.rmtree(f"{tmp_name}.d")


def test_a_command_that_must_change_nothing_reads_tmp_and_writes_it_for_itself(
    house: SandboxedBench, tmp_name: str
) -> None:
    house(f"umask 077; echo HERE > {tmp_name}; mkdir {tmp_name}.d; echo THERE > {tmp_name}.d/f")
    script = f"cat {tmp_name} {tmp_name}.d/f; echo x > {tmp_name}; rm -r {tmp_name}.d; mktemp; echo y > {tmp_name}.2"
    argv, env = ["/bin/bash", "-c", script], dict(house.bench.ctx.env)
    with house.sandbox.prepare(argv, house.root, env, RunConditions(read_only=True)) as ready:
        done = subprocess.run(
            ready.argv, env=ready.env, pass_fds=ready.pass_fds, capture_output=True, text=True, check=False
        )
    assert done.stdout.startswith("HERE\nTHERE\n/tmp/tmp.") and "Read-only file system" in done.stderr
    assert Path(tmp_name).read_text() == "HERE\n" and Path(f"{tmp_name}.d/f").read_text() == "THERE\n"
    assert not os.path.lexists(f"{tmp_name}.2") and "No such file" in house(f"cat {tmp_name}.2")
    shutil.rmtree(f"{tmp_name}.d")


def test_hard_links_do_not_lead_out(house: SandboxedBench, tmp_name: str) -> None:
    (house.root / "source").write_text("source\n")
    Path(tmp_name).write_text("theirs\n")
    found = house(f"ln {tmp_name} {tmp_name}.2; ln /etc/passwd {tmp_name}.3; ls {tmp_name}.2 {tmp_name}.3")
    assert found.count("No such file or directory") == 2


def test_our_own_folders_are_private_and_out_of_reach(house: SandboxedBench, tmp_name: str) -> None:
    house(f"touch {tmp_name}")
    folder = house.sandbox._session_folder()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    shown = house(f"ls {folder}; echo x > {folder}/x; ls -A /tmp | grep agent-sandbox")
    assert "No such file or directory" in shown and "[exit code 1" in shown and not (folder / "x").exists()


def test_tmpdir_is_shared_in_the_same_way(tmp_path: Path) -> None:
    own = tmp_path / "scratch"
    own.mkdir()
    house = SandboxedBench(tmp_path, SandboxLimits(), env={"TMPDIR": str(own)})
    house("echo HERE > $TMPDIR/x; mkdir $TMPDIR/d")
    assert (own / "x").read_text() == "HERE\n"
    assert "HERE" in outside(house, "$TMPDIR/x") and "HERE" in by_read(house, f"{own}/x")
    house("ls $TMPDIR/d")
    assert (own / "d").is_dir()
    house.bench.ctx.close()
    assert sorted(p.name for p in own.iterdir()) == ["d", "x"]


def test_var_tmp_is_shared_and_is_not_tmp(house: SandboxedBench, tmp_name: str) -> None:
    other = f"/var{tmp_name}"
    try:
        house(f"echo HERE > {other}")
        assert Path(other).read_text() == "HERE\n" and "HERE" in by_read(house, other)
        assert "No such file" in inside(house, tmp_name)
    finally:
        Path(other).unlink(missing_ok=True)


def test_a_workspace_in_tmp_works_and_its_parents_are_read_only(house: SandboxedBench) -> None:
    found = house(f"echo x > made && cat {house.root}/made; echo y > {house.root.parent.parent}/no; ls ..")
    assert found.startswith("x\n") and "Read-only file system" in found
    assert not (house.root.parent.parent / "no").exists()


def test_the_files_of_checks_are_not_shared(tmp_path: Path, tmp_name: str) -> None:
    Path(tmp_name).write_text("theirs\n")
    house = SandboxedBench(tmp_path, SandboxLimits(), shared=False)
    found = house(f"cat {tmp_name}; echo mine > {tmp_name}.2; echo mine > {tmp_name}; cat {tmp_name}")
    assert "theirs" not in found and "mine\n" in found
    house.bench.ctx.close()
    assert not os.path.lexists(f"{tmp_name}.2") and Path(tmp_name).read_text() == "theirs\n"
