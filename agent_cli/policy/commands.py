"""Evaluate a command line: one verdict per part, and one per file that its redirections touch.

Deny rules come first, over all parts. Next come things no rule can allow: text that cannot be parsed and words with
unknown values. Then ask rules, allow rules, and programs that only read inside the workspace.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agent_cli.kernel.decisions import Level, Verdict
from agent_cli.kernel.rules import PATH_TOOLS, RuleList
from agent_cli.policy.command_reads import (
    CommandContext,
    CommandReads,
    changes_commands,
    may_be_option,
    program_changed,
    repository,
    tainted_variable,
)
from agent_cli.policy.command_rules import denied_value, for_part, may_deny, names_word
from agent_cli.policy.effect_verdicts import EffectFinding, EffectVerdicts
from agent_cli.policy.git_inspection import git_folders, inspect_repository
from agent_cli.policy.git_use import settings_without_filters, started, submodule_programs
from agent_cli.policy.later_parts import LaterParts
from agent_cli.policy.listed_files import echoes_known, with_listed
from agent_cli.policy.path_policy import Matcher, by_rule, contains_password, decide_path
from agent_cli.policy.programs.effects import FileRead
from agent_cli.policy.programs.git_reads import enters_submodules, prints_urls
from agent_cli.policy.programs.invocation import finder_of, invocation
from agent_cli.policy.programs.reads import BUILTINS, asks_service, is_reader
from agent_cli.policy.programs.table import ROWS, row_of
from agent_cli.policy.programs.unseen import hidden_programs
from agent_cli.policy.shell.analysis import analyse
from agent_cli.policy.shell.parser import too_long
from agent_cli.policy.shell.words import Analysis, Redirect, SimpleCommand, is_plain_assignment
from agent_tools.base import Effect
from agent_tools.fs.workspace import real_path
from agent_tools.lazy import lazy_imports
from agent_tools.process.guarded_git import Checkout, GitError, hardened_variables
from agent_tools.sandbox.conditions import Confined

with lazy_imports():
    from agent_cli.policy import destructive, sandbox_needs  # only where something is allowed, and with a sandbox

if TYPE_CHECKING:
    from agent_cli.policy.masked_lines import LineMasks
    from agent_cli.policy.programs.danger import Danger

# Effects by which a command is known to write.
_WRITING = ("write", "into", "remove", "attributes", "names", "unpack")
_CREATORS = frozenset(("mkdir", "touch", "rmdir"))


def _read_reason(words: Sequence[str]) -> str:
    if words[:1] and asks_service(words[0]):
        return f"only asks {words[0]} for what it shows, with your login"
    return "only reads inside the workspace" if words else "runs nothing by itself"


class CommandEvaluator:
    """Evaluate one command line."""

    def __init__(self, matcher: Matcher, command: str, context: CommandContext, masks: LineMasks | None = None) -> None:
        """masks: those of the sandbox; None without one."""
        self._matcher = matcher
        self.masks = masks
        self._context = context
        self.analysis: Analysis = analyse(command, str(context.workspace.cwd), context.home)
        self._command = command
        self._reads = CommandReads(matcher, context)
        self._effects = EffectVerdicts(matcher, context, self._reads, self.analysis.parts)
        self._later = LaterParts(matcher, context, self.analysis.parts)
        self.reads_only = False
        self._whole_line_allowed = False
        self._does_more: set[SimpleCommand] = set()
        self.written: list[Verdict] = []

    def verdicts(self) -> list[Verdict]:
        """Return one or more verdicts; the strictest one decides."""
        parts = self.analysis.parts
        denied = self._all_by("deny", Level.DENY)
        files = [(r.kind, v) for part in parts for r in part.redirects for v in self._files(part, r)]
        touched = [v for _, v in files]
        writes = [v for kind, v in files if kind != "read"]
        # The text of other verdicts is not a path.
        self.written = [v for v in writes if v.text.startswith("/")]
        denied += [v for v in touched if v.level is Level.DENY]
        # The files a program reads are checked against the rules even if the program itself is allowed.
        read = {part: self._reads.verdicts(part) for part in parts}
        named = [v for found in read.values() for v in found if v.rule]
        masks = self.masks
        effects = {part: [*self._effects.of(part), *(masks.findings(part) if masks else ())] for part in parts}
        for part in parts:
            if (later := self._later.verdict(part)) is not None:
                effects[part].append(EffectFinding(later, ""))
        ruled = [f.verdict for found in effects.values() for f in found if f.verdict.rule]
        named += ruled
        denied += [v for v in named if v.level is Level.DENY]
        if denied:
            return denied
        if hidden := self._hidden_from_deny():
            return [hidden]
        asked = [*self._all_by("ask", Level.ASK), *(v for v in named if v.level is Level.ASK)]
        whole = self._matcher.for_command("allow", self._command)
        self._whole_line_allowed = whole is not None
        only_read: dict[SimpleCommand, str] = {}
        if not self.analysis.unclear:
            only_read = {part: self._only_reads(part, read[part]) for part in parts}
            self._does_more = {part for part, why in only_read.items() if why}
            allowed = all(v.level is Level.ALLOW for v in touched)
            self.reads_only = not asked and not writes and allowed and not any(only_read.values())
        if self.masks and not self.reads_only and (excess := self.masks.excess):
            confined = self.masks.confined
            if not self.outside_reason(confined) or self.taken_along(confined):
                asked.append(Verdict(self._command, Level.ASK, excess, final=True))
        final = [f.verdict for found in effects.values() for f in found if f.verdict.final]
        if whole is not None:
            kept = [] if whole.spec else final
            return [*asked, *(v for v in touched if v.final), *kept, by_rule(self._command, Level.ALLOW, whole)]
        if self.analysis.unclear:
            return [*asked, *touched, *final, Verdict(self._command, Level.ASK, self.analysis.unclear)]
        if not parts:
            return [Verdict(self._command, Level.ALLOW, "runs nothing")]
        found = [self._part(part, only_read[part], read[part], effects[part]) for part in parts]
        return [*asked, *touched, *found]

    def rule_names(self, part: SimpleCommand, word: str) -> bool:
        """Return True if a rule that allows a part, or the whole line, names a word of it."""
        whole = self._matcher.for_command("allow", self._command)
        return bool(whole and whole.spec) or any(names_word(spec, word) for spec in self._rules_for(part))

    def _hidden_from_deny(self) -> Verdict | None:
        """Return an ASK verdict if a deny rule may cover something that cannot be determined."""
        denying = [r for r in self._matcher.rules if r.list == "deny" and r.spec]
        if any(r.tool in PATH_TOOLS for r in denying):
            blind = next((p for p in self.analysis.parts if p.unknown and self._is_blind(p)), None)
            if blind is not None:
                text = f"cannot be compared with the rules about files, because it contains {blind.unknown}"
                return Verdict(blind.text, Level.ASK, text, final=True)
        if not any(r.covers("run") for r in denying):
            return None
        if too_long(self._command):
            return Verdict(self._command, Level.DENY, "is too long to be compared with the deny rules", final=True)
        unknown = self.analysis.unknown
        if not unknown and any(may_deny(self._matcher.rules, part) for part in self.analysis.parts):
            unknown = "a pattern that may stand for what they name"
        if not unknown:
            found = ((part, why, word) for part in self.analysis.parts for why, word in hidden_programs(part))
            unknown = next(
                (why for p, why, word in found if not any(names_word(r, word) for r in self._rules_for(p))), ""
            )
        if not unknown:
            given = (denied_value(self._matcher.rules, part) for part in self.analysis.parts)
            unknown = next((f"{text}, which may be run," for text in given if text), "")
        if not unknown:
            return None
        text = f"cannot be compared with the deny rules, because it contains {unknown}"
        if unknown == self.analysis.unclear:
            text = f"cannot be compared with the deny rules: it {unknown}"
        return Verdict(self._command, Level.ASK, text, final=True)

    def _is_blind(self, part: SimpleCommand) -> bool:
        """Return True if it is known of a program which files it opens, but not of this part with its unknown words."""
        finding = _found_by(part)
        return _is_followed(part) and not (finding is not None and self._reads.knows(finding))

    def outside_reason(self, confined: Confined) -> str:
        """Return why the command line must run outside the sandbox; "" if it need not."""
        context = self._context
        return sandbox_needs.outside_reason(
            self.analysis, confined, context.workspace, context.carried.get("PATH", context.path)
        )

    def taken_along(self, confined: Confined) -> str:
        """Return a part that does more than read and would leave the sandbox only because another part has to.

        Leaving is a right of a part: a rule for one says nothing about where the others run.
        """
        context = self._context
        path = context.carried.get("PATH", context.path)
        if len(self.analysis.parts) < 2 or not self.outside_reason(confined):
            return ""
        acting = (p for p in self.analysis.parts if p in self._does_more or any(r.kind != "read" for r in p.redirects))
        alone = (p for p in acting if not sandbox_needs.needs_outside(p, confined, context.workspace, path))
        return next((part.text for part in alone), "")

    def sandbox_safe(self, confined: Confined) -> bool:
        """Return True if the command line can run in the sandbox with the hosts it allows."""
        return not self.not_left_to_sandbox(confined) and not self.outside_reason(confined)

    def may_try_reading(self, verdicts: Sequence[Verdict], confined: Confined | None) -> bool:
        """Return True if a command may run in a sandbox in which it can write nothing and read no secrets.

        It must not be known to do more than read, to read elsewhere, or to need what that sandbox lacks.
        """
        if (
            confined is None
            or self.outside_reason(confined)
            or any(invocation(p).needs_network for p in self.analysis.parts)
        ):
            return False
        open_ = [verdict for verdict in verdicts if verdict.level is not Level.ALLOW]
        if any(v.final or v.rule or v.reason.startswith("reads outside") for v in open_) or destructive.dangers(
            self.analysis
        ):
            return False
        touches = (touch for part in self.analysis.parts for touch in invocation(part).touches)
        writes = any(touch.kind in _WRITING for touch in touches if not touch.word.why)
        return not writes and not self.written and not (self.masks and (self.masks.excess or self.masks.gap))

    def not_left_to_sandbox(self, confined: Confined) -> str:
        """Return why a command line needs approval even in the sandbox; "" if it does not."""
        found = () if confined.auto_allow_destructive else self._dangers
        if destroys := next((danger for danger in found if danger.certain), None):
            return f"may destroy work, which the sandbox does not prevent: {destroys.part.text}"
        reaching = (part for part in self.analysis.parts if invocation(part).needs_network)
        if beyond := next((part for part in reaching if not sandbox_needs.hosts_allowed(part, confined.domains)), None):
            return f"needs the network, which the sandbox blocks unless you allow it: {beyond.text}"
        return self.masks.gap if self.masks is not None and not self.reads_only else ""

    def narrow(self, verdict: Verdict) -> Verdict:
        """Downgrade an allow by rule to ASK if the command destroys something that the rule does not name."""
        if verdict.level is not Level.ALLOW or not verdict.rule:
            return verdict
        inside = [d for d in self._dangers if verdict.text in (self._command, d.part.text)]
        # Dangers named by another matching rule are already covered.
        inside = [d for d in inside if all(destructive.unnamed(s, self._command, [d]) for s in self._rules_for(d.part))]
        specs = {rule.text: rule.spec or "" for rule in self._matcher.rules if rule.covers("run")}
        danger = destructive.unnamed(specs.get(verdict.rule, verdict.rule), self._command, inside)
        if danger is None:
            return verdict
        verb = "may lose work" if danger.kind == "unknown" else "destroys"
        text = f"{verb}, which {verdict.rule} does not name ({' '.join(danger.names)})"
        return Verdict(danger.part.text, Level.ASK, text, final=True)

    @cached_property
    def _dangers(self) -> tuple[Danger, ...]:
        """Its commands that destroy work."""
        return destructive.dangers(self.analysis)

    @property
    def uses_network(self) -> bool:
        """True if a part uses the network, certainly or possibly: `curl`, `npm install`, `cargo build`."""
        return any(invocation(part).network for part in self.analysis.parts)

    @property
    def moves(self) -> bool:
        """True if a `cd` may end in another directory than the current one."""
        here = str(self._context.workspace.cwd)
        return any(
            part.texts[:1] == ("cd",)
            and (
                part.cwds is None
                or {os.path.normpath(os.path.join(c, _target(part) or "..")) for c in part.cwds} - {here}
            )
            for part in self.analysis.parts
        )

    @property
    def hardening(self) -> dict[str, str]:
        """Return the variables that a command line of read-only programs must run with.

        Empty if a rule allows the whole line, except in plan mode, which allows it only because it reads.
        """
        context = self._context
        needed = self.reads_only and (not self._whole_line_allowed or context.mode == "plan")
        if not needed or not any(invocation(p).runs_git for p in self.analysis.parts):
            return {}
        checkout, off = inspect_repository(context.workspace.root).checkout, dict[str, str]()
        try:
            if checkout is not None and context.git_use != "trusted":
                off = settings_without_filters(checkout, context.env)
        except GitError:
            # Without a git to ask, it is given an empty configuration.
            checkout = Checkout("/", "/dev/null", "/dev/null")
        return hardened_variables(str(context.workspace.root), checkout, off)

    def _all_by(self, kind: RuleList, level: Level) -> list[Verdict]:
        """Return the verdicts of a rule list on the whole line and on each part."""
        whole = (self._command, self._matcher.for_command(kind, self._command))
        parts = ((part.text, for_part(self._matcher.rules, kind, part)) for part in self.analysis.parts)
        return [by_rule(text, level, rule, final=True) for text, rule in (whole, *parts) if rule is not None]

    def _part(self, part: SimpleCommand, why: str, read: list[Verdict], effects: list[EffectFinding]) -> Verdict:
        """Return the verdict on one simple command.

        why: why it is not read-only; "" if it is.
        """
        text = part.text
        if part.texts[:1] == ("cd",) and (odd := self._why_cd_misleads(part)):
            return Verdict(text, Level.ASK, odd)
        if rule := for_part(self._matcher.rules, "allow", part):
            more = [f.verdict for f in effects if not any(names_word(r, f.named) for r in self._rules_for(part))]
            # An effect that needs no separate rule needs none here.
            more = [] if not why and self.reads_only else more
            return max(more, key=lambda v: v.final, default=by_rule(text, Level.ALLOW, rule))
        if final := next((f.verdict for f in effects if f.verdict.final), None):
            return final
        if not why and (self.reads_only or not (why := self._unsafe_with_others(part))):
            return Verdict(text, Level.ALLOW, _read_reason(part.texts))
        if part.unknown:
            unknown = f"runs a command that cannot be determined: it contains {part.unknown}"
            return Verdict(text, Level.ASK, why or unknown)
        if self._context.mode == "acceptEdits" and (made := self._allow_creation(part)):
            return made
        verdict = max(read, key=lambda v: v.level, default=None)
        return verdict if verdict is not None and verdict.reason == why else Verdict(text, Level.ASK, why)

    def _rules_for(self, part: SimpleCommand) -> list[str]:
        """Return the specs of the allow rules that match a part."""
        rules = [r for r in self._matcher.rules if r.list == "allow" and r.covers("run") and r.spec]
        return [r.spec or "" for r in rules if for_part([r], "allow", part)]

    def _only_reads(self, part: SimpleCommand, read: list[Verdict]) -> str:
        """Return why a part may do more than read inside the workspace; "" if it only reads."""
        part = invocation(part).placed.part
        if (finding := _found_by(part)) is not None:
            return self._only_reads(finding, []) or self._changed(part)
        if echoes_known(part, self.analysis, self._may_be_set):
            return self._changed(part)
        if (shown := with_listed(part, self.analysis, self._context.home)) is not None:
            return self._reads_listed(part, *shown)
        if part.unknown:
            return f"runs a command that cannot be determined: it contains {part.unknown}"
        if runner := next((layer for layer in part.layers if layer.kind == "gated"), None):
            return f"runs a command: {runner.words[0].text} runs others"
        if not part.words:
            names = [w.text.partition("=")[0].rstrip("+") for w in part.assigns]
            odd = next((n for n in names if changes_commands(n, self._context)), None)
            return f"sets {odd}, which may change what commands do" if odd is not None else self._changed(part)
        if part.texts[0] == "cd":
            return self._why_cd_misleads(part) or self._outside(part)
        if part.texts[0] == "read" and not part.assigns:
            odd = next((w for w in part.texts[1:] if w != "-r" and not self._may_be_set(w)), None)
            return f"sets {odd}, which may change what commands do" if odd is not None else self._changed(part)
        if why := self._not_reading(part):
            return f"runs a command: {why}"
        verdict = max(read, key=lambda v: v.level, default=None)
        return verdict.reason if verdict is not None and verdict.level is not Level.ALLOW else ""

    def _may_be_set(self, name: str) -> bool:
        return name.isidentifier() and not changes_commands(name, self._context)

    def _reads_listed(self, part: SimpleCommand, shown: SimpleCommand, listed: tuple[FileRead, ...]) -> str:
        """Return why showing the files that are listed may do more than read inside the workspace; "" if it only reads.

        shown: the part with a name in place of the files.
        """
        if why := self._not_reading(shown) or self._changed(part):
            return f"runs a command: {why}"
        own = self._reads.verdicts(shown)
        for verdict in (*own, *(v for reading in listed for v in self._reads.verdicts_of(shown, reading))):
            if verdict.level is not Level.ALLOW:
                return verdict.reason
        return ""

    def _not_reading(self, part: SimpleCommand) -> str:
        """Return why a literal command is not read-only; "" if it is."""
        context, name = self._context, part.program
        patterns = [w.text for w in part.words if w.pattern]
        found = invocation(part)
        if why := found.why_not_reading:
            return why
        if odd := next((w.text for w in part.assigns if not is_plain_assignment(w.text)), ""):
            return f"{odd.partition('=')[0]} is set for it"
        if odd := tainted_variable(context):
            return f"an earlier command exported {odd}, which may change what programs do"
        if odd := next((p for p in patterns if may_be_option(p, part.cwds)), ""):
            return f"file names may take the place of options: {odd}"
        if asks_service(name) and context.git_use == "unknown":
            return f"{name} in a workspace that is not trusted"
        return self._changed(part) or (self._not_reading_git(part) if found.runs_git else "")

    def _changed(self, part: SimpleCommand) -> str:
        """Return why a program of a part may not be the usual one; "" if all are."""
        names = [layer.words[0].text for layer in part.layers]
        # After a wrapper, the name of a builtin means a program.
        if part.words and (names or part.words[0].text not in BUILTINS):
            names.append(part.words[0].text)
            names += row_of(part.program).helpers.split()
        return next((why for n in names if n not in BUILTINS and (why := program_changed(n, self._context))), "")

    def _not_reading_git(self, part: SimpleCommand) -> str:
        context = self._context
        for cwd in part.cwds or ("",):
            if real_path(cwd) != cwd or not context.workspace.inside(Path(cwd)):
                return "git in another directory"
            top = repository(Path(cwd))
            if top != context.workspace.root and (top is not None or cwd != str(context.workspace.cwd)):
                return "git in a repository other than the workspace"
        if context.git_use == "unknown":
            return "git in a workspace that is not trusted"
        if any(layer.words[0].text in ("env", "exec") and len(layer.words[: layer.inner]) > 1 for layer in part.layers):
            return "git with another environment"
        root = context.workspace.root
        found = inspect_repository(root)
        try:
            if found.checkout is not None and context.git_use != "trusted":
                settings_without_filters(found.checkout, context.env)
        except GitError as error:
            return f"the configuration of git cannot be read: {error}"
        if odd := started(found, context.git_use):
            return f"the repository's own git configuration may start a program: {odd}"
        if prints_urls(part.texts[1:]) and any(contains_password(c) for c in _configurations(root, context.home)):
            return "git would print an address with a password"
        odd = submodule_programs(root, found.checkout, context.env) if enters_submodules(part.texts[1:]) else ""
        return f"git would enter a submodule and meet {odd}" if odd else ""

    def _unsafe_with_others(self, part: SimpleCommand) -> str:
        """Return why a read-only part needs approval next to parts that do more; "" if it does not."""
        if (later := self._later.verdict(part)) is not None:
            return later.reason
        if with_listed(part, self.analysis, self._context.home) is not None:
            return f"runs a command that cannot be determined: it contains {part.unknown}"
        if invocation(part).usual_git is not None:
            root = self._context.workspace.root
            hooks = (str(f / "hooks/post-index-change") for f in git_folders(root))
            odd = "".join([*inspect_repository(root).needs_trust, *filter(os.path.lexists, hooks)][:1])
            return f"runs a command: git, together with others, would start {odd}" if odd else ""
        made = self._context.mode == "acceptEdits" or bool(self.written)
        odd = next((w.text for w in part.words if w.pattern and may_be_option(w.text, part.cwds, still=not made)), "")
        return f"file names that it makes may take the place of options: {odd}" if odd else ""

    def _why_cd_misleads(self, part: SimpleCommand) -> str:
        """Return why `cd` may end up in another directory than it names; "" if it cannot."""
        if part.assigns:
            return "changes the directory with a variable set for it"
        target = _target(part)
        for cwd in part.cwds or ():
            path = os.path.join(cwd, target)
            if target and real_path(path) != real_path(os.path.normpath(path)):
                return f"changes the directory through a link: {target}"
        return ""

    def _outside(self, part: SimpleCommand) -> str:
        """Return why `cd` may leave the workspace; "" if it cannot."""
        target = _target(part)
        if not target or part.cwds is None:
            return "changes to an unknown directory"
        for cwd in part.cwds:
            path = Path(os.path.normpath(os.path.join(cwd, target)))
            if not self._context.workspace.inside(path):
                return f"changes to {path}, outside the workspace"
        return ""

    def _allow_creation(self, part: SimpleCommand) -> Verdict | None:
        """Allow mkdir and touch inside the workspace, for the mode that accepts edits."""
        if not part.words or part.words[0].text not in _CREATORS:
            return None
        operands = [w for w in part.words[1:] if not w.text.startswith("-")]
        options = {w.text for w in part.words[1:]} - {w.text for w in operands}
        if part.cwds is None or options - {"-p", "-v", "--parents", "--verbose", "-c"} or part.assigns or part.layers:
            return None
        if tainted_variable(self._context) or self._changed(part):
            return None
        found = [v for w in operands for v in self._files(part, Redirect("append", w.text))]
        if any(w.pattern for w in operands) or any(v.final or v.level is Level.DENY for v in found):
            return None
        inside = all(self._context.workspace.inside(Path(v.text)) for v in found)
        return Verdict(part.text, Level.ALLOW, "makes files inside the workspace", by="mode") if inside else None

    def _files(self, part: SimpleCommand, redirect: Redirect) -> list[Verdict]:
        """Return the verdicts on a file of a redirection, one for each directory it may be in."""
        if redirect.kind == "network":
            return [Verdict(part.text, Level.ASK, f"opens a network connection: {redirect.target}", final=True)]
        verb = "reads" if redirect.kind == "read" else "writes"
        unknown = f"a file with an unknown name: it contains {redirect.why}" if redirect.why else ""
        if not unknown and part.cwds is None and not redirect.target.startswith("/"):
            unknown = f"{redirect.target} in an unknown directory"
        if unknown:
            final = any(r.list == "deny" and r.tool in PATH_TOOLS for r in self._matcher.rules)
            return [Verdict(part.text, Level.ASK, f"{verb} {unknown}", final=final)]
        paths = (real_path(os.path.join(cwd, redirect.target)) for cwd in part.cwds or ("/",))
        kind: Literal["read", "write"] = "read" if redirect.kind == "read" else "write"
        return [decide_path(self._matcher, self._context.workspace, Effect(kind, path)) for path in paths]


def _found_by(part: SimpleCommand) -> SimpleCommand | None:
    """Return the `find` that runs a part for what it finds; None if none does, or its words are not known."""
    outer = finder_of(part)
    if outer is None or "/" in outer.words[0].text or any(w.why for w in outer.words) or part.assigns:
        return None
    return outer


def _is_followed(part: SimpleCommand) -> bool:
    """Return True if it is known of a program which files it opens, or that it runs another."""
    row = row_of(part.program)
    return is_reader(part.program) or row.wraps is not None or (part.program in ROWS and not row.partly)


def _configurations(root: Path, home: str) -> list[Path]:
    own = [Path(home, ".gitconfig"), Path(home, ".config/git/config")] if home else []
    return [*own, *(folder / name for folder in git_folders(root) for name in ("config", "config.worktree"))]


def _target(part: SimpleCommand) -> str:
    """Return the target of `cd`; "" if it is unknown."""
    target = [w for w in part.words[1:] if w.text not in ("-P", "-L", "--")]
    if len(target) != 1 or target[0].why or target[0].pattern or target[0].text.startswith("-"):
        return ""
    return target[0].text
