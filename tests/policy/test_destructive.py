"""Commands that destroy work, in real repositories: what would be lost is computed, and broad rules do not cover it."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_cli.kernel.decisions import Level
from agent_cli.kernel.rules import read_rule, split_rules
from agent_cli.policy.destructive import dangers
from agent_cli.policy.git_reader import GitReader
from agent_cli.policy.impact import at_stake
from agent_cli.policy.lost_files import removed_files
from agent_cli.policy.policy import Mode, Policy
from agent_cli.policy.shell.analysis import analyse
from agent_tools.base import Effect
from agent_tools.fs.workspace import Workspace
from tests.support.repositories import git
from tests.support.sandboxes import confined


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What git knows is waited for: on a busy machine it may take longer than a user would wait."""
    monkeypatch.setattr("agent_cli.policy.git_reader.MAX_SECONDS", 30.0)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository: a.py is committed and clean, b.py has changes, new.txt is untracked, build/ is ignored."""
    root = tmp_path / "work"
    root.mkdir()
    git(root, "init")
    (root / "a.py").write_text("one\n")
    (root / "b.py").write_text("one\ntwo\n")
    (root / ".gitignore").write_text("build/\n")
    git(root, "add", ".")
    git(root, "commit", "-m", "first")
    (root / "b.py").write_text("one\n2\nthree\n")
    (root / "new.txt").write_text("precious")
    (root / "build").mkdir()
    for n in range(12):
        (root / "build" / f"{n:02}.o").write_bytes(b"x" * 1000)
    return root


def policy(root: Path, mode: Mode = "default", **more: object) -> Policy:
    allow = [read_rule("allow", r, "test", root) for r in split_rules(str(more.pop("allow", "")))]
    return Policy(Workspace(root), allow, mode, **more)  # type: ignore[arg-type]


def asked(root: Path, command: str, **more: object) -> str:
    """The facts of the question about a command, as one text."""
    gate, effects = policy(root, **more), (Effect("run", command),)  # type: ignore[arg-type]
    return "\n".join(gate.facts("Bash", effects, gate.decide("Bash", effects)).lines)


@pytest.mark.parametrize(
    ("command", "kinds"),
    [
        ("git reset --hard", ["reset"]),
        ("git -C x reset --hard HEAD~1", ["reset"]),
        ("git reset HEAD a.py", []),
        ("git clean -fdx", ["clean"]),
        ("git clean -nfd", []),
        ("git clean", ["clean"]),
        ("git checkout .", ["restore"]),
        ("git checkout -- a.py", ["restore"]),
        ("git checkout -f main", ["restore"]),
        ("git checkout main", []),
        ("git switch --discard-changes main", ["restore"]),
        ("git restore a.py", ["restore"]),
        ("git restore --staged a.py", []),
        ("git restore -SW a.py", ["restore"]),
        ("git stash drop", ["stash"]),
        ("git stash clear", ["stash"]),
        ("git stash pop", []),
        ("git checkout-index -af", ["restore"]),
        ("git checkout-index --force a.py", ["restore"]),
        ("git checkout-index --prefix=x/ -a", []),
        ("git read-tree -u --reset HEAD", ["restore"]),
        ("git read-tree -m HEAD", []),
        ("git rm -rf a", ["tree"]),
        ("git rm --force a.py", ["tree"]),
        ("git rm --cached -f a.py", []),
        ("git rm a.py", []),
        ("git worktree remove --force x", ["tree"]),
        ("git worktree remove x", []),
        ("git worktree add -B old ../x", ["ref"]),
        ("git worktree add ../x old", []),
        ("git submodule update --force", ["unknown"]),
        ("git submodule update --init", []),
        ("git sparse-checkout clean -f", ["unknown"]),
        ("git sparse-checkout set src", []),
        ("git mv -f a b", ["overwrite"]),
        ("git mv a b", []),
        ("git branch -D old", ["branch"]),
        ("git branch -d old", []),
        ("git push --force", ["push"]),
        ("git push -f origin main", ["push"]),
        ("git push --force-with-lease=main:abc", ["push"]),
        ("git push origin +main", ["push"]),
        ("git push --mirror", ["push"]),
        ("git push --delete origin old", ["unpush"]),
        ("git push origin :old", ["unpush"]),
        ("git push origin main", []),
        ("rm a", ["delete"]),
        ("/bin/rm -rf a", ["tree"]),
        ("timeout 5 rm -r a", ["tree"]),
        ("bash -c 'cd x && rm -r a'", ["tree"]),
        ("find . -name '*.o' -delete", ["tree"]),
        ("npx rimraf dist src", ["tree"]),
        ("rimraf -g 'dist/*'", ["tree"]),
        ("find . -name x", []),
        ("chmod -R 700 src", ["attributes"]),
        ("chmod 700 src", []),
        ("chown -Rv me src", ["attributes"]),
        ("mv a b", ["overwrite"]),
        ("mv -n a b", []),
        ("cp a b", ["overwrite"]),
        ("echo x > b", ["overwrite"]),
        ("echo x >> b", []),
        ("truncate -s 0 b", ["overwrite"]),
        ("dd if=a of=b", ["overwrite"]),
        ("dd if=a of=/dev/null", []),
        ("shred -n 3 b", ["delete"]),
        ("ls; git status && rm x | git stash drop", ["delete", "stash"]),
    ],
)
def test_they_are_recognised(command: str, kinds: list[str]) -> None:
    assert [d.kind for d in dangers(analyse(command, "/w"))] == kinds


@pytest.mark.parametrize(
    ("command", "allow", "level"),
    [
        ("git reset --hard", "Bash(git:*)", Level.ASK),
        ("git reset --hard", "Bash(git reset:*)", Level.ASK),
        ("git reset --hard", "Bash(git reset --hard:*)", Level.ALLOW),
        ("git reset --hard", "Bash(git reset --hard)", Level.ALLOW),
        ("git reset HEAD", "Bash(git:*)", Level.ALLOW),
        ("git clean -fd", "Bash(git clean:*)", Level.ALLOW),
        ("git clean -fd", "Bash(git*)", Level.ASK),
        ("git stash drop", "Bash(git stash:*)", Level.ASK),
        ("git push --force", "Bash(git push:*)", Level.ASK),
        ("git push", "Bash(git push:*)", Level.ALLOW),
        ("rm -rf build", "Bash(rm:*)", Level.ALLOW),
        ("rm -rf build", "Bash", Level.ASK),
        ("rm -rf build", "Bash(*)", Level.ASK),
        ("make && rm -rf build", "Bash(make:*) Bash(rm:*)", Level.ALLOW),
        ("make && rm -rf build", "Bash(make:*)", Level.ASK),
        ("find . -delete", "Bash(find:*)", Level.ASK),
        ("find . -delete", "Bash(find . -delete)", Level.ALLOW),
        ("sudo rm -r x", "Bash(sudo:*)", Level.ASK),
        ("sudo rm -r x", "Bash(sudo rm:*)", Level.ALLOW),
        ("mv a b", "Bash", Level.ALLOW),
        ("echo x > b", "Bash", Level.ALLOW),
        ("make", "Bash", Level.ALLOW),
    ],
)
def test_a_rule_covers_them_only_if_it_names_them(tmp_path: Path, command: str, allow: str, level: Level) -> None:
    decided = policy(tmp_path, allow=allow).decide("Bash", [Effect("run", command)])
    assert decided.level is level, decided.reason
    if level is Level.ASK and allow != "Bash(make:*)" and "sudo" not in command:
        assert any(text in decided.reason for text in ("does not name", "removes"))


def test_where_nobody_is_asked_the_rule_stands(tmp_path: Path) -> None:
    effects = [Effect("run", "git push --force")]
    for mode in ("dontAsk", "bypassPermissions"):
        assert policy(tmp_path, mode, allow="Bash(git:*)").decide("Bash", effects).level is Level.ALLOW
    alone = policy(tmp_path, allow="Bash(git:*)", answered=False)
    assert alone.decide("Bash", effects).level is Level.ALLOW
    assert policy(tmp_path, "acceptEdits", allow="Bash").decide("Bash", effects).level is Level.ASK


def test_in_the_sandbox_they_are_asked_about_too(tmp_path: Path) -> None:
    gate = policy(tmp_path, confined=confined(tmp_path))
    assert gate.decide("Bash", [Effect("run", "make")]).level is Level.ALLOW
    assert gate.decide("Bash", [Effect("run", "rm -r src")]).level is Level.ASK


def test_a_reset_loses_uncommitted_lines_and_commits(repo: Path) -> None:
    found = asked(repo, "git reset --hard")
    assert "loses the uncommitted changes of 1 file (+2 -1 lines): b.py" in found
    git(repo, "commit", "-am", "second")
    found = asked(repo, "git reset --hard HEAD~1")
    assert "git reset --hard: no uncommitted changes would be lost" in found
    assert "takes 1 commit from the branch" in found


def test_a_clean_deletes_what_git_does_not_have(repo: Path) -> None:
    assert "deletes 1 file that git has no copy of (8 bytes): new.txt" in asked(repo, "git clean -fd")
    found = asked(repo, "git clean -fdx")
    assert "deletes 13 files that git has no copy of (12.0 kB): build/00.o" in found
    assert "and 3 more" in found
    assert "deletes 12 files" in asked(repo, "git clean -fdX")
    git(repo, "add", "new.txt")
    assert "there are no such files to delete" in asked(repo, "git clean -fd")


@pytest.mark.parametrize("command", ["git checkout .", "git restore b.py", "git checkout -- b.py", "git checkout -f"])
def test_a_checkout_loses_changes(repo: Path, command: str) -> None:
    assert "loses the uncommitted changes of 1 file (+2 -1 lines): b.py" in asked(repo, command)


def test_restoring_what_is_clean_loses_nothing(repo: Path) -> None:
    assert "git restore: no uncommitted changes would be lost" in asked(repo, "git restore a.py")


def test_stashes_and_branches(repo: Path) -> None:
    git(repo, "stash", "push", "-m", "half done")
    assert "drops 1 stash entry: stash@{0}: On main: half done" in asked(repo, "git stash drop")
    assert "no such stash exists" in asked(repo, "git stash drop 3")
    git(repo, "checkout", "-b", "topic")
    (repo / "a.py").write_text("topic\n")
    git(repo, "commit", "-am", "on topic")
    git(repo, "checkout", "main")
    assert "deletes the branch topic: 1 commit that no other branch has" in asked(repo, "git branch -D topic")
    git(repo, "branch", "same")
    assert "deletes the branch same: all its commits are on others too" in asked(repo, "git branch -D same")


@pytest.fixture
def refs(repo: Path) -> Path:
    """The same repository: main has a second commit, `old` the first; a commit of its own is on `topic`."""
    git(repo, "branch", "old")
    git(repo, "commit", "-am", "second")
    git(repo, "checkout", "-b", "topic")
    (repo / "a.py").write_text("topic\n")
    git(repo, "commit", "-am", "on topic")
    git(repo, "checkout", "main")
    return repo


@pytest.mark.parametrize("command", [
    "git branch -f topic main", "git branch -M old topic", "git branch -C old topic", "git branch -f -m old topic",
    "git checkout -B topic main", "git switch -C topic main", "git update-ref refs/heads/topic main",
    "git update-ref -d refs/heads/topic", "git fetch . +main:topic", "git fetch -f . main:topic",
])  # fmt: skip
def test_a_branch_that_is_moved_loses_the_commits_that_nothing_else_has(refs: Path, command: str) -> None:
    name = "refs/heads/topic" if "refs/" in command else "topic"
    assert f"moves or deletes {name}: 1 commit that nothing else has" in asked(refs, command)
    git(refs, "tag", "kept", "topic")
    assert f"moves or deletes {name}: all its commits are elsewhere too" in asked(refs, command)


def test_the_current_branch_and_tags_are_such_refs_too(refs: Path) -> None:
    moved = "moves or deletes {}: 1 commit that nothing else has"
    for name, command in (("main", "git checkout -B main old"), ("HEAD", "git update-ref HEAD old")):
        assert "all its commits are elsewhere too" in asked(refs, command)  # topic has them
        git(refs, "commit", "--allow-empty", "-m", "third")
        assert moved.format(name) in asked(refs, command)
        git(refs, "reset", "--hard", "HEAD~1")
    git(refs, "tag", "v1", "topic")
    assert "all its commits are elsewhere too" in asked(refs, "git tag -d v1")
    git(refs, "branch", "-D", "topic")
    for command in ("git tag -d v1", "git tag -f v1 main"):
        assert moved.format("v1") in asked(refs, command), command
    git(refs, "checkout", "--detach", "v1")
    assert "moves or deletes v1: all its commits are elsewhere too" in asked(refs, "git tag -d v1")


def test_what_is_not_known_of_a_ref_is_said(refs: Path) -> None:
    assert "git update-ref --stdin: it is not known which refs it changes" in asked(refs, "git update-ref --stdin")
    assert "changes a ref that is not known: $X" in asked(refs, "git tag -d $X")
    for command in ("git branch -f new main", "git update-ref -d $(git rev-parse HEAD)"):
        assert "moves or deletes" not in asked(refs, command), command


def test_what_only_the_reflog_has_is_forgotten(refs: Path) -> None:
    commands = ("git reflog expire --expire=now --all", "git gc --prune=now", "git prune", "git repack -a -d")
    for command in commands:
        assert "forgets no commit that only the reflog has" in asked(refs, command), command
    git(refs, "commit", "--allow-empty", "-m", "third")
    git(refs, "reset", "--hard", "HEAD~1")
    for command in commands:
        assert "forgets 1 commit that only the reflog has" in asked(refs, command), command


def test_what_cannot_be_counted_is_said(refs: Path) -> None:
    everything = "makes origin identical to this repository: anything that is only there is lost"
    assert everything in asked(refs, "git push --mirror")
    assert "git filter-branch: it is not known what it may lose" in asked(refs, "git filter-branch x")
    assert "git restore: it is not known what it acts on: $X" in asked(refs, "git restore $X")
    unknown = "rm: in an unknown directory, so it is not known what would be lost"
    assert unknown in asked(refs, 'cd "$X" && rm -r src')


@pytest.mark.parametrize(
    ("command", "change"),
    [
        ("git stash drop", "git stash clear"),
        ("git branch -D topic", "git update-ref refs/heads/topic main"),
        ("git tag -d v1", "git tag -f v1 old"),
        ("git push --force", "git fetch . +old:refs/remotes/origin/main"),
        ("git gc --prune=now", "git branch -D topic"),
        ("git reset --hard", "echo more >> b.py"),
        ("git reset --hard", "git commit --allow-empty -m more"),
        ("git restore a.py", "echo more >> a.py"),
        ("git clean -fd", "echo more > more.txt"),
        ("rm -rf build", "echo more > build/more.o"),
        ("rm new.txt", "echo more >> new.txt"),
        ("cd build && rm 01.o", "rm build/01.o"),
        ("cp new.txt a.py", "echo more >> a.py"),
    ],
)
def test_what_is_at_stake_is_marked_until_it_changes(refs: Path, command: str, change: str) -> None:
    git(refs, "tag", "v1")
    git(refs, "stash", "push", "--include-untracked")
    git(refs, "stash", "apply")

    def stake() -> dict[str, str]:
        env = {"PATH": os.environ["PATH"], "HOME": str(refs.parent)}
        return at_stake(command, str(refs), str(refs.parent), GitReader(str(refs), env, "trusted", 30.0))

    before = stake()
    assert before and before == stake()
    if change.startswith("git "):
        git(refs, *change.split()[1:])
    else:
        subprocess.run(["bash", "-c", change], cwd=refs, check=True)
    assert stake() != before


def test_a_dropped_stash_after_one_of_untracked_files_loses_them(repo: Path) -> None:
    assert "loses 1 untracked file: new.txt" in asked(repo, "git stash -u; git stash drop")


def test_a_forced_push_replaces_what_the_remote_has(repo: Path, tmp_path: Path) -> None:
    git(tmp_path, "init", "--bare", "far.git")
    git(repo, "remote", "add", "origin", str(tmp_path / "far.git"))
    git(repo, "commit", "-am", "second")
    git(repo, "push", "origin", "main")
    git(repo, "reset", "--hard", "HEAD~1")
    gone = "replaces main at origin: 1 commit of it would be gone, as of the last fetch"
    for command in (
        "git push --force",
        "git push -f origin main",
        "git push origin +main",
        "git push origin +HEAD:main",
    ):
        assert gone in asked(repo, command), command
    assert "deletes main at origin: 1 commit that nothing else has" in asked(repo, "git push --delete origin main")
    assert "origin/other was never fetched" in asked(repo, "git push -f origin other")


def test_rm_counts_files_and_says_what_git_can_give_back(repo: Path) -> None:
    found = asked(repo, "rm -rf a.py b.py new.txt build")
    assert "deletes 15 files (12.0 kB) in 1 folder: a.py, b.py, new.txt, build/" in found
    assert "and 5 more" in found
    assert (
        "of these: 1 as committed (git can restore them), 1 with uncommitted changes (+2 -1 lines), "
        "13 that git has no copy of" in found
    )
    assert "deletes 12 files" in asked(repo, "rm build/*.o")
    assert "rm: nothing would be lost: nothing" in asked(repo, "rm nothing")
    assert "it is not known what it acts on: $X" in asked(repo, "rm -r $X")
    assert "12.0 kB" in asked(repo, "find build -delete")
    assert "changes 12 files" in asked(repo, "chmod -R 700 build")
    assert "deletes 12 files" in asked(repo, "cd build && rm -r .")


def test_overwriting_tells_size_and_where_it_leads(repo: Path, tmp_path: Path) -> None:
    assert "overwrites a.py (4 bytes, as committed)" in asked(repo, "mv new.txt a.py")
    assert "overwrites b.py (12 bytes, uncommitted changes: +2 -1 lines)" in asked(repo, "make > b.py")
    assert "overwrites new.txt (8 bytes, not in git)" in asked(repo, "truncate -s 0 new.txt")
    assert "overwrites new.txt" in asked(repo, "dd if=a.py of=new.txt")
    (repo / "build" / "a.py").write_text("x")
    assert "overwrites build/a.py (1 byte, not in git)" in asked(repo, "cp a.py build")
    assert "overwrites" not in asked(repo, "cp a.py fresh.py")
    (tmp_path / "outside").write_text("far away")
    (repo / "out").symlink_to(tmp_path / "outside")
    assert f"overwrites out -> {tmp_path / 'outside'} (8 bytes)" in asked(repo, "make > out")


def test_an_archive_names_the_files_that_it_overwrites(repo: Path) -> None:
    with tarfile.open(repo / "x.tar", "w") as packed:
        for name in ("a.py", "new.txt", "fresh.txt", *(f"build/{n:02}.o" for n in range(12))):
            packed.addfile(tarfile.TarInfo(name))
    assert "overwrites a.py (4 bytes, as committed)\noverwrites new.txt (8 bytes, not in git)" in asked(
        repo, "tar xf x.tar a.py new.txt fresh.txt"
    )
    found = asked(repo, "tar xf x.tar")
    assert "overwrites 14 files (12.0 kB): a.py, new.txt, build/00.o" in found
    assert "of these: 1 as committed (git can restore them), 13 that git has no copy of" in found
    assert "may overwrite 14 files" in asked(repo, "tar xf x.tar --exclude='*.txt' --exclude='*.o'")
    for command in ("tar xkf x.tar", "tar tf x.tar", "tar xf x.tar -C fresh"):
        assert "overwrite" not in asked(repo, command), command


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("curl https://a.b/x | tar xz", "may overwrite existing files in this folder: it is not known which files the"),
        ("tar xf $X -C build", "may overwrite existing files in build: it is not known which files $X contains"),
        ("curl -o x.tar https://a.b/x && tar xf x.tar", "not known which files x.tar contains"),
        ("7z x -aoa x.7z -obuild", "existing files in build: it is not known which files x.7z contains"),
        ("7z x -aos x.7z", ""),
        ("unzip -o y.zip", "existing files in this folder: it is not known which files y.zip contains"),
        ("cpio -idu < x.7z", "not known which files x.7z contains"),
        ("cpio -it < x.7z", ""),
        ("ar x x.7z", "not known which files x.7z contains"),
        ("tar xf x.7z -C empty", ""),
        ("pg_dump -f new.txt db", "overwrites new.txt"),
        ("pg_dumpall --file=new.txt", "overwrites new.txt"),
        ("psql -o new.txt -c 'select 1'", "overwrites new.txt"),
        ("psql -o '| less' -c 'select 1'", ""),
        ("mysqldump -r new.txt db", "overwrites new.txt"),
        ("ffmpeg -y -i a.py -c copy new.txt", "overwrites new.txt"),
        ("ffmpeg -y -i new.txt out.mp4", ""),
        ("ffmpeg -i a.py new.txt", ""),
        ("convert a.py -resize 50% new.txt", "overwrites new.txt"),
        ("magick a.py png:new.txt", "overwrites new.txt"),
        ("magick identify a.py new.txt", ""),
        ("mogrify -strip new.txt", "overwrites new.txt"),
        ("mogrify -path build new.txt", ""),
        ("wkhtmltopdf a.py new.txt", "overwrites new.txt"),
        ("esbuild a.ts --outfile=new.txt", "overwrites new.txt"),
        ("pandoc a.py -o new.txt", "overwrites new.txt"),
        ("openssl genrsa -out new.txt", "overwrites new.txt"),
        ("zip new.txt a.py", "overwrites new.txt"),
        ("7z a new.txt a.py", "overwrites new.txt"),
        ("docker cp x:/a new.txt", "overwrites new.txt"),
        ("kubectl cp x:/a new.txt", "overwrites new.txt"),
    ],
)
def test_what_a_program_writes_is_named(repo: Path, command: str, said: str) -> None:
    (repo / "x.7z").write_bytes(b"7z\xbc\xaf")
    (repo / "y.zip").write_bytes(b"\x1f\x8b")
    (repo / "empty").mkdir()
    found = asked(repo, command)
    assert said in found if said else "overwrite" not in found, found


@pytest.mark.parametrize(
    ("command", "lost"),
    [
        ("docker volume rm db", "deletes volumes and the data in them"),
        ("docker --context x volume prune -f", "deletes volumes and the data in them"),
        ("sudo podman system prune -af --volumes", "and volumes with the data in them"),
        ("docker system prune -f", "deletes stopped containers and unused images"),
        ("docker compose -f a.yml down -v", "deletes volumes and the data in them"),
        ("docker compose down", ""),
        ("docker rm -f web", "deletes containers and what was written in them"),
        ("docker volume rm --help", ""),
        ("docker run --rm x", ""),
        ("kubectl -n prod delete pod x", "deletes objects of the cluster"),
        ("kubectl delete -f x.yml --dry-run=client", ""),
        ("kubectl get pods", ""),
        ("helm uninstall x -n y", "removes a release"),
        ("terraform -chdir=x destroy", "destroys infrastructure"),
        ("terraform apply -auto-approve", "changes or destroys infrastructure"),
        ("terraform apply", ""),
        ("terraform plan -destroy", ""),
        ("redis-cli -h h -p 1 FLUSHALL", "deletes all keys"),
        ("redis-cli get x", ""),
        ("dropdb x", "deletes all data of the database"),
        ("psql -c 'DROP TABLE x'", "deletes data of the database (DROP)"),
        ("psql -c 'begin; truncate a; commit'", "deletes data of the database (truncate)"),
        ("psql -c \"select 'drop table'\"", ""),
        ("mysql db -e 'delete from t'", "deletes data of the database (delete)"),
        ("mongosh --eval 'db.dropDatabase()'", "deletes data of the database"),
        ("crontab -r", "deletes all cron jobs"),
        ("crontab jobs.txt", "replaces all cron jobs"),
        ("crontab -l", ""),
        ("aws --profile p s3 rm --recursive s3://b", "deletes files in the bucket"),
        ("aws s3 rm s3://b/x --dryrun", ""),
        ("aws ec2 terminate-instances --instance-ids i", "deletes resources of the account"),
        ("aws s3 ls", ""),
        ("gcloud compute instances delete x", "deletes resources of the account"),
        ("gcloud compute instances list", ""),
        ("gh repo delete x --yes", "deletes it at the hosting service"),
        ("gh api repos/x -X DELETE", "deletes what the API names"),
        ("gh pr view 1", ""),
        ("npm unpublish a@1", "removes a package"),
        ("npx prisma migrate reset", "deletes all data of the database"),
        ("vagrant destroy -f", "deletes virtual machines"),
        ("systemctl reboot", "ends all that runs on this machine"),
        ("systemctl status x", ""),
    ],
)
def test_what_a_service_loses_is_said(tmp_path: Path, command: str, lost: str) -> None:
    found = asked(tmp_path, command)
    if lost:
        assert re.search(rf"{re.escape(lost)}.*, which undo does not cover", found), found
    else:
        assert "undo does not cover" not in found
    effects = [Effect("run", command)]
    broad = ("Bash",) if command.startswith("dropdb") else ("Bash", f"Bash({command.split()[0]}:*)")
    for rule in broad if lost else ():
        assert policy(tmp_path, allow=rule).decide("Bash", effects).level is not Level.ALLOW, rule
    assert at_stake(command, str(tmp_path), "", GitReader(str(tmp_path), {}, "trusted")) == {}


def test_a_rule_that_names_what_a_service_loses_allows_it(tmp_path: Path) -> None:
    for command, rule in (
        ("kubectl delete pod x", "Bash(kubectl delete:*)"),
        ("terraform destroy", "Bash(terraform destroy)"),
        ("docker volume rm x", "Bash(docker volume rm:*)"),
        ("docker compose down", "Bash(docker compose:*)"),
    ):
        decided = policy(tmp_path, allow=rule).decide("Bash", [Effect("run", command)])
        assert "not name" not in decided.reason, (command, decided.reason)
    reason = policy(tmp_path, allow="Bash").decide("Bash", [Effect("run", "kubectl delete pod x")]).reason
    assert reason == "destroys, which Bash does not name (kubectl delete)"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ('ls | while read f; do rm "$f"; done', 'rm: it is not known what it acts on: "$f" (the variable $f)'),
        ("while read -r f; do rm -rf $f; done < list", "rm: it is not known what it acts on: $f"),
        ("cat list | xargs rm -rf", "rm: it is not known what it acts on: … (what xargs is given)"),
        ("cat list | xargs truncate -s 0", "truncate: it is not known what it overwrites: … (what xargs is given)"),
        ("cat list | xargs tee < a.py", "tee: it is not known what it overwrites"),
        ("cat list | xargs echo", ""),
    ],
)
def test_what_is_not_known_of_a_loss_is_said(repo: Path, command: str, said: str) -> None:
    found = asked(repo, command)
    assert said in found if said else "not known" not in found, found


def test_an_untrusted_workspace_runs_nothing(repo: Path) -> None:
    marker = repo / "ran"
    git(repo, "config", "core.fsmonitor", f"touch {marker}")
    git(repo, "config", "diff.external", f"touch {marker}")
    found = asked(repo, "git reset --hard && rm -r build", git_use="unknown")
    assert "git reset --hard: what git knows about it could not be read because the workspace is not trusted" in found
    assert "deletes 12 files" in found
    assert not marker.exists()
    assert "+2 -1 lines" in asked(repo, "git reset --hard")
    assert not marker.exists()


def test_git_is_not_asked_in_a_repository_inside(repo: Path, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    for folder in (repo / "nested", tmp_path / "other"):
        folder.mkdir()
        git(folder, "init")
        (folder / ".gitattributes").write_text("* filter=evil\n")
        (folder / "f").write_text("one\n")
        git(folder, "add", ".")
        git(folder, "commit", "-m", "first")
        git(folder, "config", "filter.evil.clean", f"touch {marker}; cat")
        (folder / "f").write_text("two!\n")
        for command in (f"cd {folder} && git reset --hard", f"git -C {folder} checkout .", f"cp a.py {folder}/f"):
            assert asked(repo, command)
    assert not marker.exists()
    found = asked(repo, "git -C nested reset --hard")
    assert "could not be read because it is outside this repository" in found


def test_large_folders_and_no_repository_do_not_hold_it_up(tmp_path: Path) -> None:
    many = tmp_path / "many"
    for n in range(40):
        (many / str(n)).mkdir(parents=True)
        for m in range(50):
            (many / str(n) / str(m)).touch()
    began = time.monotonic()
    found = asked(tmp_path, "rm -rf many && git reset --hard && git clean -fd")
    assert time.monotonic() - began < 20
    assert "files" in found
    assert "git clean: what would be lost could not be computed" in found
    # On a busy machine the time may be over before all of a large folder was seen.
    assert "not in a git repository" in asked(tmp_path, "rm many/1/1")
    assert asked(tmp_path, "rm -r ''; git -C '' clean -f; git branch -D -- -x; rm -- '\\'")


def test_a_folder_without_an_end_is_counted_for_a_limited_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep").mkdir()

    def endless(path: str) -> Iterator[tuple[str, list[str], list[str]]]:
        yield from ((path, [], [str(n)]) for n in itertools.count())

    monkeypatch.setattr("agent_cli.policy.lost_files.walk", endless)
    [danger] = dangers(analyse("rm -rf deep", str(tmp_path)))
    lost = removed_files(danger, str(tmp_path), GitReader(str(tmp_path), {}, "trusted"))
    assert not lost.whole and lost.folders == 1
