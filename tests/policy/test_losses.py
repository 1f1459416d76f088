"""The losses that a question names, compared with what the command really removes or overwrites in a scratch tree."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path
from typing import Literal

import pytest

from agent_cli.policy import lost_files
from agent_cli.policy.destructive import dangers
from agent_cli.policy.git_reader import GitReader
from agent_cli.policy.shell.analysis import analyse
from tests.support.repositories import git


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """All files are waited for: on a busy machine they may take longer than a user would wait."""
    for name in ("_FIND_SECONDS", "_WALK_SECONDS"):
        monkeypatch.setattr(lost_files, name, 30.0)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    (root / "sub").mkdir(parents=True)
    git(root, "init", "-b", "main")
    for name in ("a.py", "b.py", "c.txt", "sub/d.py", "sub/e.txt"):
        (root / name).write_text(f"{name}\none\n")
    (root / ".gitignore").write_text("build/\n*.log\n")
    git(root, "add", ".")
    git(root, "commit", "-m", "first")
    (root / "b.py").write_text("b.py\ntwo\n")
    git(root, "commit", "-am", "second")
    git(root, "branch", "other", "HEAD~1")
    (root / "b.py").write_text("changed\n")
    (root / "sub/d.py").write_text("changed, too\n")
    (root / "staged.py").write_text("staged\n")
    git(root, "add", "staged.py")
    (root / "new.txt").write_text("precious")
    (root / "sub/new.md").write_text("dear")
    (root / "fresh").mkdir()
    (root / "fresh/x.txt").write_text("x")
    (root / "build").mkdir()
    (root / "build/o.o").write_text("o")
    (root / "run.log").write_text("log")
    (root / "empty").mkdir()
    (root / "nested").mkdir()
    git(root / "nested", "init")
    (root / "nested/n.txt").write_text("n")
    (root / "lk").symlink_to("sub")
    _pack(tmp_path, "new.txt", "sub/e.txt", "sub/brought.txt", "fresh/x.txt")
    return root


def _pack(folder: Path, *names: str) -> None:
    """Put archives with these members beside the repository."""
    kinds: tuple[Literal["w", "w:gz"], ...] = ("w", "w:gz")
    for kind, ending in zip(kinds, ("tar", "tgz"), strict=True):
        with tarfile.open(folder / f"x.{ending}", kind) as packed:
            for name in names:
                member = tarfile.TarInfo(f"./{name}")
                member.size = len(name)
                packed.addfile(member, io.BytesIO(name.encode()))
    with zipfile.ZipFile(folder / "x.zip", "w") as opened:
        opened.writestr("sub/", "")
        for name in names:
            opened.writestr(name, name)


def contents(root: Path) -> dict[str, bytes]:
    found = {}
    for here, folders, names in os.walk(root):
        folders[:] = [f for f in folders if here != str(root) or f != ".git"]
        for name in (*names, *(f for f in folders if Path(here, f).is_symlink())):
            path = Path(here, name)
            found[str(path.relative_to(root))] = bytes(path.readlink()) if path.is_symlink() else path.read_bytes()
    return found


def run(root: Path, command: str) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(root.parent), "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "a"}
    env |= {"GIT_AUTHOR_EMAIL": "a@b.c", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b.c"}
    subprocess.run(["bash", "--noprofile", "--norc", "-c", command], cwd=root, env=env, capture_output=True)


def committed(root: Path) -> set[bytes]:
    """The contents of all files in all commits that a branch reaches."""
    listed = git(root, "rev-list", "--objects", "--all", "HEAD").split("\n")
    blobs = [line.split()[0] for line in listed if len(line.split()) > 1]
    return {
        git(root, "cat-file", "blob", blob).encode()
        for blob in blobs
        if git(root, "cat-file", "-t", blob).strip() == "blob"
    }


def named_files(root: Path, command: str) -> set[str]:
    """The files that are computed to be lost, relative to the root."""
    git_reader = GitReader(str(root), {"PATH": os.environ["PATH"], "HOME": str(root.parent)}, "trusted", 30.0)
    found: set[str] = set()
    for danger in dangers(analyse(command, str(root), str(root.parent))):
        for place in danger.part.cwds or ():
            cwd = os.path.normpath(os.path.join(place, danger.folder))
            if danger.kind in ("delete", "tree", "overwrite"):
                found |= set(lost_files.removed_files(danger, cwd, git_reader).files)
            if danger.kind in ("restore", "reset"):
                found |= set(lost_files.uncommitted_changes(danger, cwd, git_reader).files)
            if danger.kind == "clean" or "u" in danger.flags:
                found |= set(lost_files.cleaned_files(danger, cwd, git_reader).files)
    return {os.path.relpath(name, root) for name in found}


COMMANDS = [
    "rm -rf sub", "rm -rf sub/", "rm -rf lk/", "rm -rf lk", "rm new.txt b.py", "rm sub", "rm -d empty", "rmdir empty",
    "rmdir sub", "rm -f *.txt", "rm -rf build fresh", "unlink new.txt", "shred -u new.txt",
    "find . -name '*.log' -delete", "find sub -type f -delete",
    "find . -name '*.txt' -not -path './sub/*' -not -path './nested/*' -delete", "find . -name '*.md' -exec rm {} +",
    "find sub -type f -exec rm {} \\;", "find . -name '*.log' -print -exec rm -f {} \\;", "mv a.py b.py",
    "mv a.py new.txt", "mv new.txt sub/e.txt", "cp a.py sub/d.py", "cp a.py new.txt", "install a.py new.txt",
    "mv -n a.py b.py", "cp -n a.py new.txt", "mv a.py sub", "cp new.txt sub", "mv a.py z.py", "cp a.py sub/",
    "truncate -s 0 new.txt", "dd if=/dev/null of=new.txt", "> new.txt", "echo x > b.py", ": > lk/e.txt",
    "tee new.txt < a.py", "ln -sf a.py new.txt", "git reset --hard", "git reset --hard HEAD~1", "git reset --merge",
    "git reset --keep HEAD~1", "git checkout .", "git checkout -- b.py", "git checkout b.py",
    "git checkout HEAD~1 -- b.py", "git checkout HEAD -- .", "git checkout -f", "git checkout -f other",
    "git checkout other -- b.py", "git switch -f other", "git switch --discard-changes other", "git restore b.py",
    "git restore .", "git restore --source HEAD~1 b.py", "git restore -SW b.py", "git restore -SW .",
    "git restore --staged .", "git restore sub", "git clean -f", "git clean -fd", "git clean -fdx", "git clean -fX",
    "git clean -fdX", "git clean -ffd", "git clean -fd sub", "git clean -fd -e new.txt", "git clean -f fresh",
    "git clean -n", "git clean -fdx -e '*.log'", "git rm -rf sub", "git rm -f b.py", "git rm --cached b.py",
    "git checkout-index -f -a", "git checkout-index -f b.py", "git read-tree -u --reset HEAD",
    "git stash && git stash drop", "git stash -u; git stash drop", "git stash clear", "git -C sub clean -fd",
    "git -C sub checkout .", "git -C sub restore d.py", "cd sub && git checkout -- .", "cd sub && rm -rf *",
    "cd sub && git clean -fdx", "cp -r sub other", "cp -r sub fresh", "cp -r fresh sub", "cp -a fresh/. sub",
    "tee -a new.txt < a.py",
    "rm -r sub/new.md fresh", "rm -rf -- fresh", "rm -rf f*", "rm -rf */", "rm -rf lk/*", "rm -rf sub/../fresh",
    "unlink lk", "shred -n 1 -u new.txt sub/new.md", "shred -n 1 new.txt", "mv -f new.txt sub/e.txt", "mv fresh sub",
    "mv -t fresh new.txt", "mv sub/e.txt new.txt fresh", "mv -T fresh empty", "cp -f a.py new.txt", "cp -r fresh/. .",
    "cp -t fresh new.txt", "cp -rT fresh sub", "cp -r sub/. fresh", "cp --parents sub/e.txt fresh", "cp a.py lk/new.md",
    "cp -R sub lk", "install -m 644 a.py new.txt", "install -D a.py sub/new.md", "install -t fresh a.py",
    "install -d fresh new", "install a.py lk/e.txt", "ln -f a.py new.txt", "ln -s a.py new.txt",
    "ln -sf ../a.py sub", "tee new.txt sub/new.md < a.py", "tee lk/new.md < a.py", "truncate -s 2 new.txt sub/new.md",
    "truncate -s 0 lk/e.txt", "truncate --size=0 new.txt", "dd if=a.py of=sub/new.md", "sort -o new.txt a.py",
    "sort a.py -onew.txt", "sort --output=new.txt a.py", "shuf -o new.txt a.py", "shuf --output new.txt a.py",
    "curl -so new.txt file:///etc/hostname", "curl -s --output new.txt file:///etc/hostname",
    "curl -so lk/new.md file:///etc/hostname", "zip -qm z.zip new.txt c.txt", "zip -qrm z.zip fresh",
    "zip -q z.zip c.txt",
    "tar --remove-files -cf z.tar fresh new.txt", "tar -cf z.tar fresh --remove-files", "tar cf new.txt a.py",
    "tar -cf sub/new.md a.py", "tar --create --file=new.txt a.py", "tar -czf new.txt a.py", "xxd a.py new.txt",
    "xxd -p a.py new.txt", "uniq a.py new.txt", "uniq -c a.py new.txt", "iconv -o new.txt a.py",
    "find . -fprint new.txt",
    "find fresh -delete", "find . -name 'x*' -delete", "find sub -name '*.md' -exec rm -f {} +",
    "find . -empty -delete",
    "find . -type d -name fresh -exec rm -rf {} +", "find lk/ -name '*.md' -delete", "find -L lk -type f -delete",
    "cat a.py > new.txt", "cat a.py >| sub/new.md", "ls &> new.txt", "echo x 2> new.txt", "sub=1; echo $sub > new.txt",
    "git archive -o new.txt HEAD", "git diff --output=new.txt HEAD~1", "git mv -f a.py c.txt", "git rm -rf .",
    "git clean -fd fresh sub", "git clean -fdx .", "git clean -fx", "git restore -s HEAD~1 b.py sub",
    "git checkout other -- .",
    "git stash -a; git stash drop", "git reset --hard other", "rmdir fresh empty", "rm -rf nested",
    "true && rm new.txt",
    "(cd sub; rm new.md)", "for f in new.txt; do rm $f; done", "git format-patch -1 --stdout > new.txt",
    "git bundle create new.txt HEAD", "find . -fls new.txt", "git log --output new.txt",
    "rsync -a sub/ fresh/", "rsync -a fresh/ sub", "rsync -a sub fresh", "rsync -a a.py new.txt",
    "rsync -aI a.py sub/new.md", "rsync -aI --ignore-existing a.py new.txt", "rsync -anI a.py new.txt",
    "rsync -aR sub/./e.txt fresh", "rsync -aI ./a.py b.py build/ sub", "rsync sub/", "rsync -aI --dry-run a.py new.txt",
    "cp -T a.py new.txt", "mv -T a.py new.txt", "install -T a.py new.txt", "ln -fT a.py new.txt", "cp -r sub/ fresh",
    "cp -rT sub fresh", "cp -a sub/. .", "cp --no-target-directory a.py new.txt",
    "git mv -f a.py b.py", "git mv -f a.py new.txt", "git mv --force a.py b.py sub", "git mv -f b.py sub/d.py",
    "git mv -kf a.py b.py", "git mv a.py b.py", "git -C sub mv -f e.txt d.py", "git mv -n -f a.py b.py",
    "git mv -f sub/e.txt lk/d.py", "git mv -f a.py staged.py", "git mv -f -- a.py b.py", "git checkout -f -- b.py",
    "git checkout -f b.py", "git checkout -- '*.py'", "git checkout *.py", "git checkout --no-overlay HEAD -- .",
    "git restore :/", "git restore ':(glob)**/*.py'", "git restore -SWs HEAD~1 b.py", "git rm -f '*.py'",
    "git rm -rfn sub", "git rm -rf --ignore-unmatch new.txt b.py", "git clean -xfde new.txt",
    "git clean -fd -- fresh 'sub/*'", "git clean -fd :/", "git clean -fdxq -- ':!sub'", "git clean -f '*.txt'",
    "git clean -f *.txt", "git read-tree -m -u HEAD", "git read-tree --reset HEAD", "git stash -k; git stash drop",
    "git stash push -- b.py; git stash drop", "git stash push -u -- new.txt; git stash drop",
    "git stash --staged; git stash drop", "git stash push -um x; git stash drop",
    "git mv -f c.txt sub/d.py", "git mv -f -k a.py c.txt sub", "cd sub && git mv -f e.txt d.py",
    "git mv -f sub/e.txt sub/d.py fresh", "cp -rT sub other", "cp -aT fresh sub",
    "cp -r --no-target-directory fresh/ sub", "mv -T a.py new.txt", "install -T a.py new.txt",
]  # fmt: skip


UNPACKING = [
    "tar xf ../x.tar", "tar -xzf ../x.tgz -C sub", "tar xf ../x.tar --strip-components=1", "tar xf ../x.tar -k",
    "tar xf ../x.tar ./sub", "tar -x -f ../x.tar ./new.txt", "tar --extract --file ../x.tar", "tar xkf ../x.tar",
    "tar x < ../x.tar", "tar tf ../x.tar", "tar xOf ../x.tar", "tar xf ../x.tar -C ..", "tar xf ../x.tar -C lk",
    "tar -C fresh --strip-components 1 -xf ../x.tar", "tar xf ../none.tar", "cd sub && tar xf ../../x.tar",
    "tar xf ../x.tar --strip=1 -C fresh", "tar xf ../x.tar --skip-old-files",
]  # fmt: skip
UNZIPPING = [
    "unzip -o ../x.zip", "unzip -qo ../x.zip -d sub", "unzip -n ../x.zip", "unzip -oj ../x.zip -d sub",
    "unzip -o ../x.zip 'sub/*'", "unzip -o ../x.zip new.txt", "unzip -l ../x.zip", "unzip -op ../x.zip",
    "unzip ../x.zip < /dev/null", "cp ../x.zip z.zip; zip -q z.zip c.txt", "unzip -o -d fresh ../x.zip",
]  # fmt: skip
RSYNC = [
    "rsync -a fresh/ sub", "rsync -a sub lk2", "rsync -a new.txt sub/new.md",
    "rsync new.txt sub", "rsync -a sub/new.md new.txt", "rsync -aR sub/e.txt fresh", "rsync -a fresh .",
]  # fmt: skip


@pytest.mark.parametrize("command", [*COMMANDS, *UNPACKING, *UNZIPPING, *RSYNC])
def test_the_losses_named_are_the_files_that_change(repo: Path, command: str) -> None:
    if command in RSYNC and shutil.which("rsync") is None:
        pytest.skip("NOT TESTED: rsync is not installed")
    if command in UNZIPPING and not (shutil.which("unzip") and shutil.which("zip")):
        pytest.skip("NOT TESTED: zip is not installed")
    named = named_files(repo, command)
    before, kept = contents(repo), committed(repo)
    run(repo, command)
    after = contents(repo)
    moved = set(after.values())
    gone = {name for name, data in before.items() if not after.get(name, b"").startswith(data or b"-")}
    lost = {name for name in gone if " mv " not in f" {command}" or before[name] not in moved}
    if " git " in f" {command}" and "git rm" not in command:  # what a commit has is not lost
        lost = {name for name in lost if before[name] not in kept}
    assert named == lost
