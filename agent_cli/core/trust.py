"""Trust in a repository: what it brings that would take effect, and whether the user agreed to that."""

from __future__ import annotations

from typing import Literal

from agent_tools.record import Value


class Trust(Value):
    """The trust state of one project.

    state: "plain" brings nothing that would run or widen permissions; "untrusted" does and was not agreed to; "changed"
        differs from what was agreed to.
    by: who trusts it, in words.
    brings: what would take effect besides settings, one phrase each.
    changed: what differs from what was trusted.
    outside: files outside the project that its memory may import.
    """

    root: str = ""
    state: Literal["plain", "trusted", "untrusted", "changed"] = "plain"
    by: str = ""
    brings: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()

    @property
    def trusted(self) -> bool:
        """Return True if the project's own files take full effect."""
        return self.state == "trusted"

    @property
    def git_use(self) -> Literal["trusted", "plain", "unknown"]:
        """How git may be used on it without a question: as on a trusted project, as on a plain one, or not at all."""
        return self.state if self.state in ("trusted", "plain") else "unknown"
