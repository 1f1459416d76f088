"""A mapping with many readers whose content is replaced as a whole by its owner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

V = TypeVar("V")


class LiveMapping(Mapping[str, V]):
    """A mapping whose content can be replaced at any time, from any thread: readers see the old or the new content."""

    def __init__(self, content: Mapping[str, V]) -> None:
        self.content = content

    def replace(self, content: Mapping[str, V]) -> None:
        """Replace the content. The given mapping is not copied."""
        self.content = content

    def __getitem__(self, name: str) -> V:
        return self.content[name]

    def __contains__(self, name: object) -> bool:
        return name in self.content

    def __iter__(self) -> Iterator[str]:
        return iter(self.content)

    def __len__(self) -> int:
        return len(self.content)
