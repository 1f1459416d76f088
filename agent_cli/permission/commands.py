"""The verdicts about a command line: every part by itself, and the files that its redirections touch.

Deny is asked about all parts before anything else. Then what no rule vouches for: text that cannot be taken apart,
words whose value is not known. Then ask rules, allow rules, and programs that only read inside the workspace.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from agent_cli.permission.decision import Level, Verdict
from agent_cli.permission.destructive import dangers, unnamed
from agent_cli.permission.files import by_rule, judge
from agent_cli.permission.git_config import programs
from agent_cli.permission.git_reads import HARDENED
from agent_cli.permission.matcher import PLAIN_VARIABLES, Matcher
from agent_cli.permission.network import names_network
from agent_cli.permission.paths import secret_below
from agent_cli.permission.reading import BUILTINS, Reading, readings
from agent_cli.permission.shell import analyse
from agent_cli.permission.shell_parse import too_long
from agent_cli.permission.shell_values import Analysis, Part, Redirect
from agent_tools.base import Effect
from agent_tools.workspace import Workspace

# Exported variables that change what a reading program does.
_POISON = re.compile(
    r"LD_\w*|DYLD_\w*|BASH_\w*|ENV|IFS|CDPATH|GLOBIGNORE|GIT_\w*|\w*PAGER|\w*EDITOR|VISUAL|PYTHON\w*|NODE_\w*|PERL\w*|"
    r"RUBY\w*|LESS\w*|RIPGREP_CONFIG_PATH|GREP_OPTIONS|LOCPATH|GCONV_PATH|MALLOC_\w*|TMPDIR|HOME|XDG_CONFIG_HOME|"
    r"POSIXLY_CORRECT|TAR_OPTIONS|\w*_proxy|\w*_PROXY"
)
# Keys of git's configuration whose programs a hardened read may still start.
_STARTED = re.compile(r"include|diff\.|filter\.|core\.attributesfile", re.IGNORECASE)
_HARMLESS_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_MAKERS = frozenset(("mkdir", "touch", "rmdir"))
_MOST_MATCHES = 1_000


class Surroundings(NamedTuple):
    """What a command line is judged by, beside the rules.

    carried: variables that earlier commands exported. trusted: whether the workspace's own git may be asked.
    """

    workspace: Workspace
    home: str
    mode: str
    path: str
    carried: Mapping[str, str]
    trusted: bool


class CommandJudge:
    """Judges one command line."""

    def __init__(self, matcher: Matcher, tool: str, command: str, around: Surroundings) -> None:
        self._matcher = matcher
        self._tool = tool
        self._around = around
        self.analysis: Analysis = analyse(command, str(around.workspace.cwd), around.home)
        self._command = command
        self.reads_only = False
        self.written: list[Verdict] = []

    def verdicts(self) -> list[Verdict]:
        """One verdict or more; the strictest is the answer."""
        denied = [v for v in self._all_by("deny", Level.DENY) if v]
        redirects = [(part, redirect) for part in self.analysis.parts for redirect in part.redirects]
        touched = [self._file(part, redirect) for part, redirect in redirects]
        self.written = [v for v, (_, r) in zip(touched, redirects, strict=True) if r.kind in ("write", "append")]
        denied += [v for v in touched if v.level is Level.DENY]
        # What a reading program is told to read is looked up in the rules even where the program itself is not allowed.
        read = {part: self._reading(part) for part in self.analysis.parts}
        denied += [v for verdict in read.values() for v in verdict if v.level is Level.DENY]
        if denied:
            return denied
        denying = any(r.list == "deny" and r.tool == self._tool and r.spec for r in self._matcher.rules)
        unknown = self.analysis.unknown
        if denying and too_long(self._command):
            return [Verdict(self._command, Level.DENY, "is too long to be compared with the deny rules", firm=True)]
        if denying and unknown:
            said = f"cannot be compared with the deny rules, because it contains {unknown}"
            if unknown == self.analysis.unclear:
                said = f"cannot be compared with the deny rules: it {unknown}"
            return [Verdict(self._command, Level.ASK, said, firm=True)]
        asked = [v for v in self._all_by("ask", Level.ASK) if v]
        whole = self._matcher.for_command("allow", self._tool, self._command)
        if whole is not None:
            return [*asked, *(v for v in touched if v.firm), by_rule(self._command, Level.ALLOW, whole)]
        if self.analysis.unclear:
            return [*asked, *touched, Verdict(self._command, Level.ASK, self.analysis.unclear)]
        found = [self._part(part, read[part]) for part in self.analysis.parts]
        plain = not asked and not self.written
        self.reads_only = plain and all(v.level is Level.ALLOW and not v.rule for v in (*touched, *found))
        return [*asked, *touched, *found]

    @property
    def fit_for_sandbox(self) -> bool:
        """Whether a sandbox without a network is all that the command line needs."""
        raised = any(layer.kind == "own" and layer.words[0].text in ("sudo", "doas") for p in self.analysis.parts
                     for layer in p.layers)  # fmt: skip
        destroys = any(danger.certain for danger in dangers(self.analysis))
        return not raised and not destroys and not names_network(self.analysis)

    def narrowed(self, verdict: Verdict) -> Verdict:
        """A verdict that allows by a rule, unless the command destroys something and the rule does not say so."""
        if verdict.level is not Level.ALLOW or not verdict.rule:
            return verdict
        found = dangers(self.analysis)
        inside = [d for d in found if verdict.text in (self._command, d.part.text)]
        danger = unnamed(verdict.rule, self._tool, self._command, inside)
        if danger is None:
            return verdict
        told = f"destroys, which {verdict.rule} does not name ({' '.join(danger.names)})"
        return Verdict(danger.part.text, Level.ASK, told, firm=True)

    @property
    def hardening(self) -> dict[str, str]:
        """Variables that a command line of reading programs has to run with."""
        git = any(p.words and p.words[0].text == "git" for p in self.analysis.parts)
        return dict(HARDENED) if self.reads_only and git else {}

    def _all_by(self, kind: str, level: Level) -> Iterator[Verdict | None]:
        """What the rules of a list say about the whole and about each part."""
        rule = self._matcher.for_command(kind, self._tool, self._command)  # type: ignore[arg-type]
        yield by_rule(self._command, level, rule, firm=True) if rule else None
        for part in self.analysis.parts:
            rule = self._matcher.for_part(kind, self._tool, part)  # type: ignore[arg-type]
            yield by_rule(part.text, level, rule, firm=True) if rule else None

    def _part(self, part: Part, read: list[Verdict]) -> Verdict:
        """The verdict about one simple command."""
        text = part.text
        if not part.words:
            return self._bare(part)
        if rule := self._matcher.for_part("allow", self._tool, part):
            return by_rule(text, Level.ALLOW, rule)
        if part.unknown:
            return Verdict(text, Level.ASK, f"runs a command that is not known for certain: it contains {part.unknown}")
        if part.words[0].text == "cd":
            return self._cd(part)
        if self._around.mode == "acceptEdits" and part.words[0].text in _MAKERS and (made := self._makes(part)):
            return made
        if why := self._not_reading(part):
            return Verdict(text, Level.ASK, f"runs a command: {why}" if why else "runs a command")
        return max(read, key=lambda v: v.level, default=Verdict(text, Level.ALLOW, "only reads inside the workspace"))

    def _bare(self, part: Part) -> Verdict:
        """Assignments or redirections without a command, or shell code whose parts are judged by themselves."""
        names = [w.text.partition("=")[0].rstrip("+") for w in part.assigns]
        odd = next((n for n in names if not _HARMLESS_NAME.fullmatch(n) or _POISON.fullmatch(n)), None)
        if odd is not None:
            return Verdict(part.text, Level.ASK, f"sets {odd}, which may change what commands do")
        return Verdict(part.text, Level.ALLOW, "runs nothing by itself")

    def _not_reading(self, part: Part) -> str:
        """Why a literal command is not one that only reads; "" where it is."""
        around, name = self._around, part.words[0].text
        if any(layer.kind == "own" for layer in part.layers):
            return f"{part.layers[0].words[0].text} runs others"
        found = readings(part.texts)
        if isinstance(found, str):
            return found if name in BUILTINS or name == "git" else f"{name} ({found})"
        names = [w.text.partition("=")[0] for w in part.assigns]
        if odd := next((n for n in names if not PLAIN_VARIABLES.fullmatch(n)), ""):
            return f"{odd} is set for it"
        if odd := next((n for n in around.carried if _POISON.fullmatch(n)), ""):
            return f"an earlier command exported {odd}, which may change what programs do"
        if odd := next((w.text for w in part.words[1:] if w.pattern and _may_be_option(w.text, part.cwds)), ""):
            return f"file names may take the place of options: {odd}"
        if name not in BUILTINS and (why := _program_changed(name, around)):
            return why
        if name != "git":
            return ""
        if part.cwds != (str(around.workspace.cwd),):
            return "git in another directory"
        if not around.trusted:
            return "git in a workspace that is not trusted"
        odd = next((p for p in programs(around.workspace.root) if _STARTED.match(p)), "")
        return f"the repository's own git configuration may start a program: {odd}" if odd else ""

    def _reading(self, part: Part) -> list[Verdict]:
        """The verdicts about the files that a reading program is told to read; empty for other programs."""
        if not part.words or part.words[0].why:
            return []
        found = readings(tuple(w.text for w in part.words if not w.why))
        if isinstance(found, str):
            return []
        patterns = {w.text for w in part.words if w.pattern}
        return [v for reading in found for v in self._read(part, reading, reading.path in patterns)]

    def _read(self, part: Part, reading: Reading, pattern: bool) -> Iterator[Verdict]:
        if reading.path.startswith("/dev/fd/") or reading.path == "/dev/null":
            return
        if part.cwds is None and not reading.path.startswith("/"):
            yield Verdict(part.text, Level.ASK, "reads in a directory that is not known")
            return
        for cwd in part.cwds or ("/",):
            for path in _matches(cwd, reading.path, pattern):
                effect = Effect("read", path)
                verdict = judge(self._matcher, self._around.workspace, "Read", effect)
                if reading.what == "names" and verdict.firm and verdict.level is Level.ASK and not verdict.rule:
                    continue  # names, sizes and dates of secret files are no secrets
                told = f"{verdict.reason}: {path}" if verdict.level else verdict.reason
                yield verdict.but(text=part.text, reason=told)
                if reading.what == "tree" and (why := self._tree(path, reading.hidden)):
                    yield Verdict(part.text, Level.ASK, why)

    def _tree(self, path: str, hidden: bool) -> str:
        """Why everything below a folder should not be read without a question."""
        if not os.path.isdir(path):  # noqa: PTH112 - the method raises where a parent is closed
            return ""
        if any(r.tool == "Read" and r.list in ("deny", "ask") for r in self._matcher.rules):
            return f"reads everything below {path}, where rules keep files from being read"
        found = secret_below(Path(path), hidden=hidden)
        if found == "much":
            return f"reads everything below {path}, which is too much to look for secret files in"
        return f"reads everything below {path}, which includes {found}" if found else ""

    def _cd(self, part: Part) -> Verdict:
        """`cd` inside the workspace only changes where the rest of the line runs."""
        target = [w for w in part.words[1:] if w.text not in ("-P", "-L", "--")]
        if len(target) != 1 or target[0].pattern or target[0].text.startswith("-") or part.cwds is None:
            return Verdict(part.text, Level.ASK, "changes to a directory that is not known")
        for cwd in part.cwds:
            path = Path(os.path.normpath(os.path.join(cwd, target[0].text)))
            if not self._around.workspace.inside(path):
                return Verdict(part.text, Level.ASK, f"changes to {path}, outside the workspace")
        return Verdict(part.text, Level.ALLOW, "stays inside the workspace")

    def _makes(self, part: Part) -> Verdict | None:
        """mkdir and touch inside the workspace, for the mode that accepts edits."""
        operands = [w for w in part.words[1:] if not w.text.startswith("-")]
        options = {w.text for w in part.words[1:]} - {w.text for w in operands}
        if part.cwds is None or options - {"-p", "-v", "--parents", "--verbose", "-c"} or part.assigns or part.layers:
            return None
        found = [self._file(part, Redirect("append", w.text)) for w in operands if not w.pattern]
        if len(found) != len(operands) or any(v.firm or v.level is Level.DENY for v in found):
            return None
        inside = all(self._around.workspace.inside(Path(v.text)) for v in found)
        return Verdict(part.text, Level.ALLOW, "makes files inside the workspace", by="mode") if inside else None

    def _file(self, part: Part, redirect: Redirect) -> Verdict:
        """The verdict about a file that is written or read by a redirection."""
        if redirect.kind == "network":
            return Verdict(part.text, Level.ASK, f"opens a network connection: {redirect.target}", firm=True)
        verb = "reads" if redirect.kind == "read" else "writes"
        if redirect.why:
            return Verdict(part.text, Level.ASK, f"{verb} a file whose name is not known: it contains {redirect.why}")
        if part.cwds is None and not redirect.target.startswith("/"):
            return Verdict(part.text, Level.ASK, f"{verb} {redirect.target} in a directory that is not known")
        effects = [
            Effect("read" if redirect.kind == "read" else "write", _resolved(cwd, redirect.target))
            for cwd in part.cwds or ("/",)
        ]
        tool = "Read" if redirect.kind == "read" else "Edit"
        found = [judge(self._matcher, self._around.workspace, tool, effect) for effect in effects]
        return max(found, key=lambda v: (v.level, v.firm))


def _resolved(cwd: str, path: str) -> str:
    return os.path.realpath(os.path.join(cwd, path))


def _may_be_option(pattern: str, cwds: tuple[str, ...] | None) -> bool:
    """Whether a pattern may turn into a file name that is read as an option."""
    if pattern[0] not in "-*?[":
        return False
    if cwds is None or pattern[0] == "-":
        return True
    return any(f.startswith("-") for cwd in cwds for f in glob.iglob(pattern, root_dir=cwd))


def _matches(cwd: str, path: str, pattern: bool) -> list[str]:
    """The resolved paths that a word may stand for; the word itself where no file fits its pattern."""
    if pattern:
        whole = os.path.join(glob.escape(cwd), path)
        found = list(islice(glob.iglob(whole), _MOST_MATCHES + 1))
        if len(found) > _MOST_MATCHES:
            return [os.path.realpath(os.path.dirname(f)) for f in found[:1]]  # noqa: PTH120
        if found:
            return list(dict.fromkeys(os.path.realpath(f) for f in found))
    return [_resolved(cwd, path)]


def _program_changed(name: str, around: Surroundings) -> str:
    """Why a program's name may not mean what it usually does; "" where it does."""
    if "/" in name:
        return "a program by its path"
    usual = _which(name, around.path)
    if "PATH" in around.carried and _which(name, around.carried["PATH"]) != usual:
        return f"an earlier command changed PATH, and {name} is another program now"
    if usual and around.workspace.inside(Path(usual)):
        return f"{name} is {usual}, a file of the workspace"
    return ""


@lru_cache(maxsize=256)
def _which(name: str, path: str) -> str:
    """The absolute file that a program's name means; "" for none."""
    for folder in path.split(os.pathsep):
        file = os.path.join(folder or ".", name)
        if os.access(file, os.X_OK) and os.path.isfile(file):  # noqa: PTH113
            return os.path.realpath(file)
    return ""
