"""Lines by chance about links: parts that make them before others go through them, and operands of every form."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

_CHANGES = (
    "git checkout trap", "git checkout -q trap", "git -C . checkout -q trap", "git switch trap", "git switch -q trap",
    "git checkout trap -- a.txt", "git checkout trap -- .", "git checkout trap a.txt b.txt", "git checkout -f trap",
    "git checkout -B x trap", "git checkout -b x trap", "git switch -c x trap", "git checkout --detach trap",
    "git restore --source trap a.txt", "git restore -s trap .", "git restore --source=trap -SW .",
    "git restore --staged --source trap .", "git merge -q trap", "git merge --no-ff -m x trap", "git pull -q . trap",
    "git rebase -q trap", "git cherry-pick trap", "git stash pop", "git stash apply", "git stash pop -q stash@{0}",
    "git stash branch y", "git reset -q --hard trap", "git reset --keep trap", "git reset --merge trap",
    "git reset -q trap", "git reset --soft trap", "git apply trap.patch", "git am -q trap.patch",
    "git apply --cached trap.patch", "patch -sp1 < trap.patch", "patch -sp1 -i trap.patch", "cp -a links/env c1",
    "cp -a links l2", "cp -r links l2", "cp -R links/. docs", "cp -P links/out docs/", "cp -d links/plan src/",
    "mv links/out o2", "mv links l2", "mv docs/guide.md a.txt", "mv links/env a.txt", "ln -s ../outside o3",
    "ln -s .env e3", "ln -s private p3", "ln -sf ../.env src/main.py", "ln -sfn ../outside src", "ln .env hard",
    "ln private/plan.md hard", "ln -f private/plan.md a.txt", "link .env hard", "ln -sr private p3",
    "git add -f .env", "git add -f private", "git add -f .", "git add -A", "git add links -f", "git add -fN .env",
    "git update-index --add .env", "git update-index --add private/plan.md", "git commit -qam x", "git stage -f .env",
    "git commit -qm x", "git commit --amend --no-edit -q", "tar xf links.tar", "tar -xf links.tar -C src",
    "tar xf links.tar t", "tar --extract --file=links.tar", "unzip -oq links.zip", "unzip -q links.zip -d src",
    "git read-tree -u --reset trap", "git read-tree trap", "git checkout-index -f a.txt", "git mv a.txt c1",
    "git clone -q . cl", "git clone -q -b trap . cl", "git worktree add -f wt trap", "git archive trap | tar x",
    "git symbolic-ref HEAD refs/heads/trap", "git update-ref HEAD trap", "git branch -f main trap", "cd links",
    "git bisect start trap main", "git revert --no-edit HEAD", "git stash", "git stash -u", "git stash -a",
    "git rm -rq docs", "rm -r docs", "mkdir -p t docs2", "touch c1", "install links/env c1", "cp a.txt c1", "cd docs",
    "cd src", "cp --preserve=links -r links l2", "cp -rT links docs", "mv -T links docs2", "mv -t src links/env",
    "ln -st src ../.env", "git fetch -q . trap", "git fetch -q . trap:other", "git notes add -F a.txt",
    "find links -name env -exec cp -a {} c1 \\;", "find links -type l -exec mv -t src {} +",
    "echo links | xargs cp -a -t docs",
)  # fmt: skip
_NAMES = (
    "a.txt", "b.txt", "docs/one", "docs/sub/two.txt", "docs", "docs/", "docs/*", "src/main.py", "src", "src/env", "new",
    "new/one", "key", "c1", "l2/env", "l2/out/one", "l2", "l2/*", "o2/one", "o3/one", "e3", "p3/plan.md", "p3", "hard",
    "t/env", "t/out/one", "t", "cl/a.txt", "cl/docs/one", "wt/a.txt", "src/t/out/one", "src/one", "*", ".", "*.txt",
    "one", "env", "out/one", "plain.txt", "docs/env", "docs/out/one", "docs2/env", "src/.env", "src/out",
    "./a.txt", "$PWD/a.txt", "\"a.txt\"", "docs/../a.txt", "main.py", "guide.md",
)  # fmt: skip
_READS = (
    "cat §", "head -n 3 §", "tail §", "cat < §", "grep -r MARK §", "grep MARK §", "grep -R MARK §", "rg MARK §", "nl §",
    "sed -n p §", "sort §", "diff § plain.txt", "diff -r § src", "cp § z && cat z", "cp -L § z", "cp -rL § z",
    "wc §", "find § -name '*' -exec cat {} +", "find -L § -type f", "find § -type f | xargs cat", "ls § | xargs cat",
    "git show", "git show trap", "git show HEAD:§", "git show :§", "git diff", "git diff --cached", "git diff HEAD",
    "git diff trap", "git log -p -1", "git log -p --all", "git stash show -p", "git grep MARK",
    "git grep --cached MARK",
    "git cat-file -p HEAD:§", "git cat-file -p :§", "git ls-files | xargs cat", "git diff --no-index § plain.txt",
    "git blame §", "git stash show -p --include-untracked", "git diff HEAD~1", "git show --stat",
    "git log -1 --format=%B",
    "git archive HEAD | tar xO", "for f in §; do cat $f; done", "while read l; do echo $l; done < §", "cat $(ls -d §)",
    "x=§; cat $x", "cat <<< \"$(cat §)\"", "cat <<< \"$(< §)\"", "tar cf z.tar § && tar xOf z.tar", "awk 1 §",
    "mapfile x < § && echo \"${x[@]}\"", "paste §", "tac §", "od -c §", "git hash-object -w §", "git notes show",
    "git format-patch -1 --stdout", "git range-diff main~0 main trap", "git diff-index -p HEAD",
    "git add § && git diff --cached",
    "git commit -qam x && git show", "git stash && git stash show -p", "sed -n 'r §' plain.txt", "zip -qr z.zip §",
)  # fmt: skip
_WRITES = (
    "echo x > §", "echo x >> §", "tee § < plain.txt", "cp plain.txt §", "cp -r src §", "rm -r §", "rm -f §", "touch §",
    "sed -i s/a/b/ §", "truncate -s 0 §", "chmod -R 700 §", "chmod 700 §", "mv plain.txt §", "mv § z", "mkdir §/x",
    "install plain.txt §", "ln -f plain.txt §", "find § -delete", "find § -type f -exec rm {} +", "tar cf § plain.txt",
    "dd if=plain.txt of=§ status=none", "sort -o § plain.txt", "shred -u §", "rmdir §", "git checkout HEAD -- §",
    "git restore §", "git rm -rfq §", "git clean -fdxq §", "git mv plain.txt §", "cp plain.txt §/x", "unlink §",
    "zip -qm z.zip §", "patch § trap.patch", "split plain.txt §", "gzip -f §", "tar --remove-files -cf z.tar §",
)  # fmt: skip
_NEUTRAL = ("true", "ls", "git status -s", "git log --oneline -1", "echo hi", "pwd", "git branch", "mkdir -p build")
_JOINS = (" && ", "; ", " || ", "\n", " & wait; ", " | cat; ", " ; ", " &&\n")
_FRAMES = (
    "§", "§", "§", "§", "§", "(§)", "{ §\n}", "true && §", "§ || true", "if §\nthen :; fi", "for i in 1; do §\ndone",
    "env §", "timeout 5 §", "nice §", "§ >/dev/null", "command §", "! §", "bash -c '§'", "f() { §\n}; f",
)  # fmt: skip

_ENDS = (
    "¤", "¤/", "¤/.", "¤/..", "¤//", "./¤/", "¤/*", "*/", "¤/one", "$PWD/¤/", '"¤"/', '"¤/"', "¤/sub", "¤/sub/", "¤/./",
    "docs/../¤/", "¤/{one,sub}", "'¤/'*", ".//¤", "¤/?*", "l*", "l*/", "[l]k/", "../work/¤/", "¤/s*/",
    "{¤,in}/", "¤/.*", "*", "./*/", "~/work/¤/", "¤/sub/..", "¤/sub/../one", "x/../¤/", "$(echo ¤)/", "${PWD}/¤/one",
    "links/out/", "links/*", "links/out/one", "links/", "links", ".",
)  # fmt: skip
_THROUGH = (
    "rm -r §", "rm -rf §", "rm -f §", "rmdir §", "unlink §", "shred -u §", "mv § z", "mv § .", "mv plain.txt §",
    "mv -t . §",
    "mv -f src §", "cp plain.txt §", "cp -r src §", "cp -a docs/. §", "cp -t § plain.txt", "cp -r --parents src §",
    "cp -f plain.txt §/one", "cp -rT docs §", "cp --remove-destination plain.txt §", "install plain.txt §",
    "install -d §/new", "install -D plain.txt §/x/y", "ln -f plain.txt §", "ln -s a.txt §", "ln -sfn docs §",
    "chmod -R 700 §", "chmod 700 §", "chmod -R a-w §", "chmod -RL 700 §", "chmod -R -H 700 §", "chown -R 0 §",
    "chgrp -R 1 §", "find § -delete", "find § -type f -delete", "find -L § -name one -delete", "find -H § -delete",
    "find § -exec rm {} +", "find § -name one -exec rm -f {} \\;", "find § -type f -exec sed -i s/M/N/ {} +",
    "find § -execdir rm -f one \\;", "find § -print0 | xargs -0 rm -f", "find § -follow -delete",
    "find . -path '*' -delete",
    "find § -fprint §/x", "tar --remove-files -cf z.tar §", "tar --remove-files -chf z.tar §", "tar cf §/one plain.txt",
    "tar -xf links.tar -C §", "tar xf links.tar", "tar cf z.tar § --remove-files", "zip -qm z.zip §",
    "zip -qrm z.zip §",
    "zip -qrmy z.zip §", "zip -q §/one plain.txt", "unzip -oq links.zip -d §", "touch §", "touch §/new", "mkdir §/new",
    "mkdir -p §/a/b", "truncate -s 0 §", "tee § < plain.txt", "tee -a §/one < plain.txt", "echo x > §",
    "echo x >> §/one",
    "dd if=plain.txt of=§ status=none", "sed -i s/M/N/ §", "sort -o § plain.txt", "split plain.txt §/", "gzip -rf §",
    "gzip §", "cd § && rm -rf *", "cd § && touch new", "cd § && rm one", "pushd § && rm -r sub", "git clean -fdx §",
    "git rm -rf §", "git mv plain.txt §", "git checkout trap -- §", "git restore §", "git -C § init -q",
    "git init -q §",
    "for f in §; do rm -rf $f; done", "ls -d § | xargs rm -rf", "rm -rf -- §", "env rm -rf §", "timeout 5 rm -rf §",
    "bash -c 'rm -rf §'", "patch §/one trap.patch", "shuf -o §/one plain.txt", "csplit -sf §/x plain.txt 1",
    "perl -i -pe 1 §",
    "uniq plain.txt §", "xxd plain.txt §", "rm -r § || true", "(cd § && rm -rf sub)", "mktemp §/XXXX", "mkfifo §/p",
    "ed -s §",
    "git worktree add -q § trap", "git clone -q . §/c", "git archive -o §/one HEAD", "git diff --output=§/one trap",
    "git format-patch -q -1 -o § trap", "git bundle create -q §/one HEAD", "curl -so §/one file:///etc/hostname",
)  # fmt: skip
_LINKS = ("lk", "lk", "lk", "links/out", "file", "in")


class TreeLines:
    """Draws lines from a source of chance."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance

    def changing(self) -> str:
        """A line of two to four parts in which a later one goes through what an earlier one may have changed."""
        pick = self._chance.choice
        parts = [pick(_CHANGES) for _ in range(pick((1, 1, 1, 2)))]
        parts += [pick(_NEUTRAL)] if self._chance.random() < 0.2 else []
        parts.append(pick(_READS if self._chance.random() < 0.6 else _WRITES).replace("§", pick(_NAMES)))
        framed = [_framed(pick(_FRAMES), part) for part in parts]
        return "".join(part + join for part, join in zip(framed, [pick(_JOINS) for _ in parts[1:]] + [""], strict=True))

    def through(self) -> str:
        """A line that removes, copies, moves or changes what a link leads to, written in any way."""
        line = self._chance.choice(_THROUGH)
        while "§" in line:
            end = self._chance.choice(_ENDS).replace("¤", self._chance.choice(_LINKS))
            line = line.replace("§", end, 1)
        return line

    def rules(self, line: str, programs: Sequence[str] = ()) -> tuple[str, ...]:
        """The rules that allow a line: all, those for its programs, or those with its first words."""
        words = line.replace("(", " ").replace("'", " ").split()
        known = [word for word in dict.fromkeys(words) if word in (programs or PROGRAMS)]
        return self._chance.choice((("Bash",), tuple(f"Bash({word}:*)" for word in known)))


PROGRAMS = frozenset(
    "git patch cp mv ln link tar unzip zip tee rm touch truncate chmod chown chgrp sed sort find install mkdir rmdir "
    "unlink shred dd split gzip xargs env timeout nice awk shuf csplit uniq xxd perl mktemp mkfifo ed curl mapfile for "
    "bash command".split()
)


def _framed(frame: str, part: str) -> str:
    """A part in a frame that fits: not in quotes if it has some, and a wrapper only before a program."""
    if ("'" in frame and "'" in part) or (
        frame[0] in "ecnt" and part.startswith(("for", "while", "x=", "cd", "mapfile"))
    ):
        return part
    return frame.replace("§", part)
