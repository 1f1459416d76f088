"""Save rules in the project's `.agentrc.local`, preserving its text and comments.

The file takes full effect only in a trusted project. Valid trust is renewed with the change; in a project that brought
nothing until now, the answer that saves the rule also trusts it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from agent_cli.core.rules import Trust, split_rules
from agent_cli.permissions.trust import fingerprints, grant_trust, keep_trust
from agent_tools.fs.private import write_whole
from agent_tools.fs.safe_read import read_regular

NAME = ".agentrc.local"
LIMIT = 1 << 20


def can_save(trust: Trust) -> bool:
    """Return True if a rule saved in the project would take effect."""
    return bool(trust.root) and trust.state in ("trusted", "plain")


def saver(trust: Trust, state: Path) -> Callable[[str], str] | None:
    """Return a function that saves rules for the project and returns "" or why it failed; None if they had no effect.

    state: directory of the trust file.
    """
    if not can_save(trust):
        return None
    root = Path(trust.root)

    def save(rules: str) -> str:
        try:
            if trust.state == "trusted":
                keep_trust(root, state, lambda: add_rules(root / NAME, split_rules(rules)))
                return ""
            before = fingerprints(root)
            add_rules(root / NAME, split_rules(rules))
            after = fingerprints(root)
            # Only the rule may have changed since.
            others = [None if f is None else {k: v for k, v in f.items() if k != NAME} for f in (before, after)]
            return grant_trust(root, state, after) if others[0] == others[1] else "the project changed meanwhile"
        except OSError as error:
            return f"{NAME}: {error.strerror or error}"
        except ValueError as error:
            return f"{NAME} {error}"

    return save


def add_rules(path: Path, rules: Sequence[str]) -> None:
    """Add allow rules to a settings file. Raises OSError, and ValueError if the file cannot be edited."""
    try:
        text = read_regular(path, LIMIT, path.parent).decode("utf-8")
    except FileNotFoundError:
        text = ""
    if text.lstrip().startswith("{"):
        raise ValueError("is JSON, which agent does not edit; add the rule by hand")
    before = _rules(text)
    missing = [rule for rule in rules if rule not in before]
    if not missing:
        return
    new = _with_rules(text, missing)
    if _rules(new) != [*before, *missing]:
        raise ValueError("could not be changed safely; add the rule by hand")
    write_whole(path, new.encode(), keep=True)


def _rules(text: str) -> list[Any]:
    permissions = tomllib.loads(text).get("permissions", {})
    allow = permissions.get("allow", []) if isinstance(permissions, dict) else None
    if not isinstance(allow, list):
        raise ValueError("does not have a list as permissions.allow; add the rule by hand")
    return allow


def _with_rules(text: str, rules: Sequence[str]) -> str:
    import tomlkit  # 40 ms, only for a rule that is saved
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(text)
        if "permissions" not in document:
            document["permissions"] = tomlkit.table()
        permissions: Any = document["permissions"]
        if "allow" not in permissions:
            permissions["allow"] = tomlkit.array().multiline(True)
        for rule in rules:
            permissions["allow"].append(rule)
        return tomlkit.dumps(document)
    except TOMLKitError as error:
        raise ValueError(f"could not be changed ({error}); add the rule by hand") from None
