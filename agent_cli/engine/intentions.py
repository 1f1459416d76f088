"""Tell an answer that only says what the model will do from one that ends the work.

Conservative: a false alarm asks a model that is done, or was told to wait; a miss only leaves things as they are. Small
models also describe a call in a sentence, or answer about a file that they have not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_LONGEST = 400
_ACTIONS = (
    "add|analy[sz]e|apply|call|change|check|continue|correct|create|delete|edit|examine|execute|explore|find|fix|gather"
    "|get|go ahead|grep|implement|inspect|install|investigate|list|locate|look|modify|move|open|proceed|read|remove"
    "|rename|replace|review|rewrite|run|scan|search|see|start|test|try|update|use|verify|view|write"
)
_LINK = r"(?:now|next|first|then|so|ok|okay|sure|alright|great|good|certainly|of course|to [^.,]{3,80})[,.!:]*\s+"
_INTENTION = re.compile(
    rf"(?:{_LINK})*(?:I['\u2019]ll|I will|I(?: a|['\u2019])m going to|let me|let['\u2019]s|I need to)\s+"
    rf"(?:(?:now|first|then|next|also|just|quickly|start by|begin by|take a|have a)\s+)*(?:{_ACTIONS})(?:ing)?\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?:\u2026])\s+")
# It waits for somebody or something, or speaks about later.
_CONDITIONAL = re.compile(
    r"(?<!see )(?<!check )\bif\b"
    r"|\b(?:when|once|unless|whenever|until|after|should you|let me know|tell me|please|happy to|glad to|wait|waiting"
    r"|later|tomorrow|next time|from now on|in (?:the )?future|would|could|not|never|can['\u2019]?t"
    r"|don['\u2019]t|unable)\b"
    r"|\bbefore (?:I|we|you)\b",
    re.IGNORECASE,
)
# The user wants words, or no action yet.
_WORDS_WANTED = re.compile(
    r"(?:\A|[.!?;:\n])\s*(?:(?:please|can you|could you)\s+)?(?:what|which|how|why|who|where|when|would|should|will|are"
    r"|is|explain|describe|outline|plan|propose|suggest|say|reply|answer|repeat|write me)\b"
    r"|\bplans?\b|\bdo not\b|\bdon['\u2019]t\b|\bwithout\b|\bbefore you\b|\bwait\b|\bjust (?:say|tell|answer)\b",
    re.IGNORECASE,
)


def is_announcement(answer: str, request: str) -> bool:
    """Return True if an answer to a request ends with what the model is about to do."""
    text = answer.strip()
    if not text or len(text) > _LONGEST or "```" in text or text.endswith("?"):
        return False
    if _CONDITIONAL.search(text) or _WORDS_WANTED.search(request):
        return False
    return _INTENTION.match(_SENTENCE_END.split(text)[-1].lstrip("*_ ")) is not None


def describes_call(answer: str, tools: Iterable[str]) -> bool:
    """Return True if an answer names one of the tools and has a JSON object with arguments beside it."""
    return bool(re.search(r"\{\s*\\?\"\w+\\?\"\s*:", answer)) and any(re.search(rf"\b{t}\b", answer) for t in tools)


def named_files(request: str) -> Iterator[str]:
    """Yield what may be a file in a request: words with a dot inside, without their quotes."""
    for found in re.finditer(r"[\w~/-][\w./~-]*\.\w+", request):
        yield found[0]
