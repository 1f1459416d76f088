"""How a repository stands with the user: what it brings that would take effect, and whether they said yes to it."""

from __future__ import annotations

from typing import Literal

from agent_tools.record import Value


class Trust(Value):
    """The standing of one project.

    state: "plain" brings nothing that would run or widen; "untrusted" does and was not agreed to; "changed" is not
    what was agreed to any more. by: who trusts it, in words. brings: what would take effect beside settings, a phrase
    each. changed: what differs from what was trusted. outside: files outside the project that its memory may import.
    """

    root: str = ""
    state: Literal["plain", "trusted", "untrusted", "changed"] = "plain"
    by: str = ""
    brings: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()

    @property
    def trusted(self) -> bool:
        """Whether the project's own files count fully."""
        return self.state == "trusted"

    @property
    def git_use(self) -> Literal["trusted", "plain", "unknown"]:
        """How git may be used on it without a question: as on what is trusted, as on what brings nothing, or not."""
        return self.state if self.state in ("trusted", "plain") else "unknown"
