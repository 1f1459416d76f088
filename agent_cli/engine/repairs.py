"""What was wrong with a call as the model wrote it, in words: the result of the call says so, once for each kind."""

from __future__ import annotations

from collections.abc import Sequence

from agent_cli.core.messages import AssistantMessage, Message, ToolCall

# Before the name that a call had in place of the tool's.
NAMED = "name:"
# The call was written as text. A model cannot help that, and a small one repeats what it reads about it: not said.
WRITTEN = "text"
# The call is one of several that came as one.
SPLIT = "split"
# The end of the arguments is a guess.
UNCLOSED = "unclosed"
# Of arguments that were almost JSON.
_OF_JSON = {
    "fence": "the code fence around them was removed",
    "comma": "a comma before a closing brace or bracket was removed",
    "quotes": "single or typographic quotes were read as double quotes",
    "literals": "True, False and None were read as true, false and null",
    "keys": "keys without quotes were read",
    "control": "raw line breaks or tabs inside a string were kept (write \\n and \\t)",
    "escapes": "backslashes that escape nothing in JSON were kept (write \\\\ for one)",
    "doubled": "doubled braces were read as single ones",
    "closers": "missing braces or brackets were added at the end",
    "extra": "braces or brackets too many at the end were left out",
    UNCLOSED: "they broke off inside a string, which was closed there",
}


def repair_note(history: Sequence[Message], call_id: str) -> str:
    """Return what to append to the result of a call: what was repaired about it and no earlier result says; or ""."""
    told: set[str] = set()
    call = _call(history, call_id)
    if call is None or not call.repaired:
        return ""
    for message in history:
        for earlier in message.calls if isinstance(message, AssistantMessage) else ():
            if earlier.id == call_id:
                break
            told.update(earlier.repaired)
    new = [kind for kind in call.repaired if kind not in told]
    return f"\n\n[{' '.join(_sentences(new, call.name))}]" if new else ""


def _call(history: Sequence[Message], call_id: str) -> ToolCall | None:
    """Return a call of the newest answer."""
    newest = next((m for m in reversed(history) if isinstance(m, AssistantMessage)), None)
    return next((call for call in newest.calls if call.id == call_id), None) if newest else None


def _sentences(kinds: Sequence[str], tool: str) -> list[str]:
    found = []
    for kind in kinds:
        if kind == SPLIT:
            found.append("Several argument objects came as one call: each was run as a call of its own.")
        elif kind.startswith(NAMED):
            found.append(f"There is no tool named {kind.removeprefix(NAMED)!r}: {tool} was called.")
    if of_json := [_OF_JSON[kind] for kind in kinds if kind in _OF_JSON]:
        found.append(f"The arguments were not valid JSON: {'; '.join(of_json)}.")
    return found
