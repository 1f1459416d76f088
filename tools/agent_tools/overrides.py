"""Saved prompts with shell commands in them, and the overrides that hold for the turn that follows one."""

from __future__ import annotations

from collections.abc import Sequence

from agent_tools.record import Value


class TurnOverrides(Value, tag="Lent"):
    """Overrides until the end of the turn.

    rules: permission rules for calls that need no approval.
    model: the model to use.
    flow: the workflow that the engine enforces.
    source: the file that declares them, in words.
    own: the file belongs to the user, not to the project.
    """

    rules: tuple[str, ...] = ()
    model: str = ""
    flow: str = ""
    source: str = ""
    own: bool = True

    def __bool__(self) -> bool:
        return bool(self.rules or self.model or self.flow)


class ExpandedPrompt(Value):
    """A prompt with shell commands or overrides.

    name: name of the command or skill.
    pieces: text, command, text, ...: the output of each command goes in its place.
    below: paragraphs to append.
    lent: overrides for the turn.
    """

    name: str
    pieces: tuple[str, ...]
    below: tuple[str, ...] = ()
    lent: TurnOverrides = TurnOverrides()

    @property
    def commands(self) -> tuple[str, ...]:
        return self.pieces[1::2]

    def text(self, outputs: Sequence[str] = ()) -> str:
        """Return the prompt with the outputs of its commands; without outputs, with the commands as written."""
        shown = list(outputs) or [f"!`{command}`" for command in self.commands]
        words = [*self.pieces]
        words[1::2] = shown
        return "\n\n".join(["".join(words).strip(), *self.below])


def prompted(prompt: str | ExpandedPrompt, name: str = "") -> ExpandedPrompt:
    """Return any prompt as an ExpandedPrompt."""
    return prompt if isinstance(prompt, ExpandedPrompt) else ExpandedPrompt(name, (prompt,))
