"""A reader that knows nothing but the changes of a view: what the page does with them, without a screen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class DrawnView:
    """What has been drawn so far."""

    def __init__(self) -> None:
        self.entries: dict[str, dict[str, Any]] = {}
        self.draft = {"text": "", "thinking": ""}
        self.facts: dict[str, Any] = {}
        self.resets = 0

    def draw(self, changes: Iterable[dict[str, Any]]) -> DrawnView:
        for change in changes:
            kind = change["type"]
            if kind == "reset":
                self.entries, self.resets = {}, self.resets + 1
            elif kind == "entry":
                self.entries[change["key"]] = change["entry"]
            elif kind == "draft":
                self.draft = {name: change[name] for name in self.draft}
            elif kind in self.draft:
                self.draft[kind] += change["text"]
            elif kind == "output":
                entry = self.entries[change["key"]]
                self.entries[change["key"]] = {**entry, "output": (entry["output"] + change["text"])[-4_000:]}
            else:
                self.facts[kind] = change.get(kind, change.get("items"))
        return self

    def kinds(self) -> list[str]:
        return [entry["kind"] for _, entry in sorted(self.entries.items(), key=lambda pair: place(pair[0]))]

    @property
    def answers(self) -> list[str]:
        """The texts of the answers, in order."""
        found = sorted(self.entries.items(), key=lambda pair: place(pair[0]))
        return ["".join(p["text"] for p in entry["parts"]) for _, entry in found if entry["kind"] == "answer"]


def place(key: str) -> list[int]:
    """Where an entry stands among the others."""
    return [int(part) for part in key.split("/")]
