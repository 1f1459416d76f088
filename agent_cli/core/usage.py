"""What a model call used and cost."""

from __future__ import annotations

from agent_tools.values import Value


class Usage(Value, tag="Usage"):
    """Tokens and dollars. `input` is all input, cached parts included; `output` includes `reasoning`.

    `reliable` is False as soon as one part had no known price, and stays so when usages are added. `estimated`: an
    answer that was interrupted is in it, of which the provider reports nothing.
    """

    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache_read: int = 0
    cache_write: int = 0
    web_searches: int = 0
    cost: float = 0.0
    reliable: bool = True
    estimated: bool = False

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            reasoning=self.reasoning + other.reasoning,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
            web_searches=self.web_searches + other.web_searches,
            cost=self.cost + other.cost,
            reliable=self.reliable and other.reliable,
            estimated=self.estimated or other.estimated,
        )

    def less(self, before: Usage) -> Usage:
        """What was used since it was `before`."""
        flags = ("reliable", "estimated")
        counts = {name: getattr(self, name) - getattr(before, name) for name in self._fields if name not in flags}
        return Usage(**counts, reliable=self.reliable, estimated=self.estimated)
