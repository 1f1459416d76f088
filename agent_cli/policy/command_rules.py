"""Match rules against commands, by words: after quotes are removed and with wrappers looked through.

`is_about` uses the grammar of rules as a filter (for hooks and the like) rather than as a permission.

Also checks the examples of rules when the rules are loaded. The example of a Bash rule is a command line, of a
file rule a path, of a WebFetch rule a URL. An allow rule must cover the whole command line; an ask or deny rule only
needs to cover a part of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

from agent_cli.kernel.rules import Rule, RuleList
from agent_cli.policy.path_policy import Matcher
from agent_cli.policy.programs.invocation import invocation
from agent_cli.policy.shell.analysis import analyse
from agent_cli.policy.shell.parser import too_long
from agent_cli.policy.shell.words import SimpleCommand, Word, is_plain_assignment, texts_of
from agent_tools.base import Effect
from agent_tools.lazy import lazy_pattern
from agent_tools.registry import tool_traits


def for_part(rules: Iterable[Rule], kind: RuleList, part: SimpleCommand) -> Rule | None:
    """Return the first rule of a list that matches one simple command.

    An allow rule must name everything in the command; a deny or ask rule also matches behind a path, a wrapper or
    options before a subcommand.
    """
    for rule in rules:
        if rule.list == kind and rule.covers("run") and rule.spec is not None:
            if kind == "allow" and _allows(rule.spec, part):
                return rule
            if kind != "allow" and any(_covers(rule.spec, words) for words in invocation(part).forms):
                return rule
    return None


def names_word(spec: str, word: str) -> bool:
    """Return True if an allow rule names a path or option itself; a rule without a wildcard names everything."""
    words, more = _prefix(spec)
    return bool(words) and (not more or word in words or any(w.startswith(f"{word}=") for w in words))


def may_deny(rules: Iterable[Rule], part: SimpleCommand) -> bool:
    """Return True if a glob among the words of a command may expand to something a deny rule names."""
    first = next((n for n, w in enumerate(part.words) if w.pattern), None)
    if first is None:
        return False
    specs = [r.spec for r in rules if r.list == "deny" and r.covers("run") and r.spec]
    return any(_may_cover(spec, words, part.words[first].text) for spec in specs for words in invocation(part).forms)


def denied_value(rules: Iterable[Rule], part: SimpleCommand) -> str:
    """Return an assignment for a program, as in `make CC=x`, whose value is a command that a rule denies; else ""."""
    denying = [r for r in rules if r.list == "deny" and r.covers("run") and r.spec]
    if not denying or not part.words or invocation(part).only_reads:
        return ""
    for word in (*part.assigns, *part.words[1:]):
        words = tuple(map(Word, word.text.partition("=")[2].strip("'\"").split()))
        value = part.replace(words=words, assigns=(), layers=(), redirects=())
        if words and for_part(denying, "deny", value) is not None:
            return word.text
    return ""


def may_be(spec: str, part: SimpleCommand) -> bool:
    """Return True if a command with unknown words may be one that a rule names."""
    known = next((n for n, w in enumerate(part.words) if w.why), len(part.words))
    if known == len(part.words) and not part.why:
        return False
    wanted, _ = _prefix(spec)
    lead = part.replace(words=part.words[:known], assigns=(), layers=())
    return not lead.words or any(
        words[: len(wanted)] == wanted[: len(words)] if wanted else True for words in invocation(lead).forms
    )


def _allows(spec: str, part: SimpleCommand) -> bool:
    """Return True if an allow rule names a command and everything around it."""
    if part.unknown or not part.words:
        # The arguments that xargs or find add are unknown, but a rule may name the command that they are added to.
        return bool(part.layers) and not part.why and _names_wrapped(spec, part)
    wrapped = any(layer.kind == "gated" for layer in part.layers)
    if not wrapped and not _special(part.assigns) and _covers(spec, part.texts):
        return True
    if not wrapped and part.assigns and not part.layers and _covers(spec, (*texts_of(part.assigns), *part.texts)):
        return True
    return _names_wrapped(spec, part)


def _special(assigns: Iterable[Word]) -> bool:
    """Return True if a variable is set that a rule has to name."""
    return any(w.why or not is_plain_assignment(w.text) for w in assigns)


def _names_wrapped(spec: str, part: SimpleCommand) -> bool:
    """Return True if a rule names a wrapper together with the program that it runs."""
    if part.layers and _special(w for w in part.assigns if w not in part.layers[0].words):
        return False
    for layer in part.layers:
        words = texts_of(layer.words)
        known = not any(w.why for w in layer.words)
        if known and _covers(spec, words) and (_size(spec) > layer.inner or spec == " ".join(words)):
            return True
        if layer.kind == "gated":
            return False
    return False


# Words without quotes, expansions or assignments, of which the first is no keyword of the shell.
_PLAIN_SPEC = lazy_pattern(
    r"(?!(?:if|then|elif|else|fi|time|for|in|until|while|do|done|case|esac|coproc|select|function|let|declare|typeset|local"
    r"|readonly|export)(?:\s|$))[\w./@%+,:-]+(?: [\w./@%+,:-]+)*"
)


@lru_cache(maxsize=512)
def _prefix(spec: str) -> tuple[tuple[str, ...], bool]:
    """Return the words a rule begins with and whether more may follow; no words for a text pattern."""
    prefix = spec.removesuffix(":*") if spec.endswith(":*") else spec.removesuffix(" *") if spec.endswith(" *") else ""
    if prefix and "*" in prefix:
        return (), True
    if not prefix and "*" in spec:
        return (), True
    if _PLAIN_SPEC.fullmatch(prefix or spec):
        # Most rules. To parse them one by one would cost the first decision a process for each `cd:*` and `eval:*`.
        return tuple((prefix or spec).split()), bool(prefix)
    found = analyse(prefix or spec)
    if found.unclear or len(found.parts) != 1 or found.parts[0].unknown:
        return tuple((prefix or spec).split()), bool(prefix)
    part = found.parts[0]
    words = part.layers[0].words if part.layers else (*part.assigns, *part.words)
    return tuple(w.text for w in words), bool(prefix)


def _size(spec: str) -> int:
    """Return how many words of a command a rule certainly names."""
    words, _ = _prefix(spec)
    return len(words) if words else len(spec.partition("*")[0].split(" ")) - 1


def _covers(spec: str, words: tuple[str, ...]) -> bool:
    """Return True if a rule's text matches the words of a command."""
    wanted, more = _prefix(spec)
    if wanted:
        return words[: len(wanted)] == wanted if more else words == wanted
    # The prefixes of "x *" and "x:*" end at a word boundary.
    text = " ".join(words)
    for end in (":*", " *"):
        if spec.endswith(end):
            return _matches_pattern(spec.removesuffix(end), text) or _matches_pattern(
                spec.removesuffix(end) + " *", text
            )
    return _matches_pattern(spec, text)


def _matches_pattern(pattern: str, text: str) -> bool:
    """Match a text against a pattern with asterisks, in linear time."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    *middle, last = rest
    at, end = len(first), len(text) - len(last)
    if not text.startswith(first) or not text.endswith(last) or at > end:
        return False
    for piece in middle:
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def _may_cover(spec: str, words: tuple[str, ...], pattern: str) -> bool:
    """Return True if a rule could cover the words once a glob among them is expanded."""
    wanted, _ = _prefix(spec)
    for word, expected in zip(words, wanted, strict=False):
        if word == pattern:
            return fnmatchcase(expected, re.sub(r"\[.*\]", "*", pattern, flags=re.DOTALL))
        if word != expected:
            return False
    return False


def check_examples(rules: Iterable[Rule], cwd: Path, home: Path) -> list[str]:
    """Return a message, with file and line, for each example that does not match its rule."""
    mistakes = []
    for rule in rules:
        if not rule.match and not rule.not_match:
            continue
        if rule.names not in ("command", "path", "domain"):
            mistakes.append(f"{rule.source}: {rule.text} can have no examples; Bash, file and WebFetch rules can")
            continue
        for wanted, examples in ((True, rule.match), (False, rule.not_match)):
            for example in examples:
                if rule_covers(rule, example, cwd, home) is not wanted:
                    what = "does not cover its example" if wanted else "covers what its not_match names"
                    mistakes.append(f"{rule.source}: permissions.{rule.list}: {rule.text} {what}: {example!r}")
    return mistakes


def rule_covers(rule: Rule, example: str, cwd: Path, home: Path) -> bool:
    """Return True if one rule, by itself, matches a command line, a path or a URL."""
    matcher = Matcher([rule], cwd, home)
    if rule.names == "domain":
        return matcher.first(rule.list, rule.tool, Effect("fetch", example)) is not None
    if rule.names == "path":
        path = example.replace("~", str(home), 1) if example.startswith("~/") else example
        effect = Effect("write" if tool_traits(rule.tool).changes_files else "read", os.path.normpath(cwd / path))
        return matcher.first(rule.list, rule.tool, effect) is not None
    if matcher.for_command(rule.list, example) is not None:
        return True
    analysis = analyse(example, str(cwd), str(home))
    found = [for_part([rule], rule.list, part) is not None for part in analysis.parts]
    if rule.list == "allow":
        return bool(found) and all(found) and not analysis.unclear
    return any(found)


def rule_applies(rule: Rule, tool: str, effects: Sequence[Effect], cwd: Path, home: Path) -> bool:
    """Return True if a rule covers a call, matched as widely as a deny rule.

    Any part of a command line counts, also behind a wrapper or a path. A command with unknown words counts, too,
    unless its known words rule it out.
    """
    denying = rule.replace(list="deny")
    matcher = Matcher([denying], cwd, home)
    for effect in effects or [Effect("state")]:
        if effect.kind != "run":
            if matcher.first("deny", tool, effect):
                return True
        elif rule.covers("run") and _is_about_command(denying, matcher, effect.target, cwd, home):
            return True
    return False


def _is_about_command(rule: Rule, matcher: Matcher, command: str, cwd: Path, home: Path) -> bool:
    if matcher.for_command("deny", command):
        return True
    if rule.spec is None:
        return True
    if too_long(command) or (found := analyse(command, str(cwd), str(home))).unclear:
        return True
    return any(
        for_part([rule], "deny", part) or may_deny([rule], part) or may_be(rule.spec, part) for part in found.parts
    )
