"""What the words of `agent answer` mean: options by number, an answer for each question, or words of one's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent_cli.place import UsageError
from agent_tools.clipping import counted, number_in
from agent_tools.inert import inert


def read_answers(questions: Sequence[Mapping[str, Any]], words: Sequence[str]) -> str:
    """The text that goes to the model, a line for each question. Raises UsageError.

    words: one for each question; for a single question they are one answer.
    """
    if len(questions) == 1:
        words = [" ".join(words)]
    if len(words) != len(questions):
        raise UsageError(
            f"There are {counted(len(questions), 'question')}, and {counted(len(words), 'answer')} was given: give one "
            "for each, in quotes where it has several words. See: agent pending"
        )
    return "\n".join(f"{q['question']} -> {_chosen(q, text)}" for q, text in zip(questions, words, strict=True))


def _chosen(question: Mapping[str, Any], text: str) -> str:
    """The option that a label or a number names, several where that is allowed; else the text itself."""
    text = text.strip()
    if not text:
        raise UsageError(f'An answer is empty: "{inert(str(question["question"]))}". See: agent pending')
    labels = [str(option["label"]) for option in question.get("options", ())]
    if (same := next((label for label in labels if label.lower() == text.lower()), "")) or not labels:
        return same or text
    parts = text.replace(",", " ").split()
    if not all(part.isdigit() for part in parts):
        return text
    numbers = [number_in(part) for part in parts]
    if len(numbers) > 1 and not question.get("multiSelect"):
        raise UsageError("Only one option may be chosen.")
    if all(1 <= number <= len(labels) for number in numbers):
        return ", ".join(labels[number - 1] for number in numbers)
    if any(c.isdigit() for label in labels for c in label):
        # Where the options are about numbers, so may be an answer of one's own.
        return text
    raise UsageError(f"There is no option {text}: choose 1 to {len(labels)}, or answer in words. See: agent pending")
