"""What a saved prompt brings beside its words: commands whose output belongs into it, and what holds while it is
followed."""

from __future__ import annotations

from collections.abc import Sequence

from agent_tools.record import Value


class TurnOverrides(Value, tag="Lent"):
    """What holds until the end of the turn. source: the file that says so, in words. own: it is the user's own.

    rules: calls that need no question. model: the one that answers. flow: the order of work that the engine keeps.
    """

    rules: tuple[str, ...] = ()
    model: str = ""
    flow: str = ""
    source: str = ""
    own: bool = True

    def __bool__(self) -> bool:
        return bool(self.rules or self.model or self.flow)


class ExpandedPrompt(Value):
    """A prompt that is more than words. pieces: text, a command, text, ...: the text of the prompt, and in between the
    commands whose output stands there. below: what stands under it."""

    name: str
    pieces: tuple[str, ...]
    below: tuple[str, ...] = ()
    lent: TurnOverrides = TurnOverrides()

    @property
    def commands(self) -> tuple[str, ...]:
        return self.pieces[1::2]

    def text(self, outputs: Sequence[str] = ()) -> str:
        """The prompt with the outputs of its commands; without them, with the commands as they stand in the file."""
        shown = list(outputs) or [f"!`{command}`" for command in self.commands]
        words = [*self.pieces]
        words[1::2] = shown
        return "\n\n".join(["".join(words).strip(), *self.below])


def prompted(prompt: str | ExpandedPrompt, name: str = "") -> ExpandedPrompt:
    """Any prompt as one that may be more than words."""
    return prompt if isinstance(prompt, ExpandedPrompt) else ExpandedPrompt(name, (prompt,))
