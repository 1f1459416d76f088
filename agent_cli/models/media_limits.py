"""How many images and documents a provider takes in one request, and how large: the oldest are replaced by text first.

The limits are documented by the providers; where nothing is documented, nothing is limited. What is replaced depends
only on the messages before it, and each time some more than necessary goes, so that requests keep their beginning.
"""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Sequence

from agent_cli.kernel.messages import AssistantMessage, Message, replace_media
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.results import Media

with lazy_imports():
    from agent_tools.documents import images  # few conversations have any

# What is kept of a limit once it is exceeded.
_KEPT_SHARE = 3 / 4
# An image's size is nearly always in this part of its base64, in characters.
_HEADER_CHARS = 64 * 1024
_MB = 1_000_000


class MediaLimits(Value):
    """Limits for one request; 0: none. Sizes are in characters of base64.

    images, documents: how many.
    image_size, document_size: the largest single one.
    total_size: of all together; the text of the request needs room beside them.
    many: how many images may have more than `many_side` pixels a side.
    """

    images: int = 0
    documents: int = 0
    image_size: int = 0
    document_size: int = 0
    total_size: int = 0
    many: int = 0
    many_side: int = 0


# Of 32 MB for a request.
_CLAUDE = MediaLimits(images=100, image_size=5 * 1024 * 1024, total_size=26 * _MB, many=20, many_side=2_000)
_GEMINI = MediaLimits(images=3_000, total_size=16 * _MB)
_LIMITS = {
    "anthropic": _CLAUDE,
    "openai": MediaLimits(images=500, image_size=20 * _MB, total_size=45 * _MB),
    "azure": MediaLimits(images=50, image_size=20 * _MB, total_size=45 * _MB),
    "gemini": _GEMINI,
    "vertex_ai": _GEMINI,
    "bedrock": MediaLimits(images=20, documents=5, image_size=5_000_000, total_size=18 * _MB),
    "mistral": MediaLimits(images=8, image_size=10 * _MB),
    "groq": MediaLimits(images=5, image_size=4 * _MB, total_size=16 * _MB),
    "fireworks_ai": MediaLimits(images=30, total_size=10 * _MB),
    "xai": MediaLimits(image_size=20 * _MB),
}


def media_limits(provider: str, model: str) -> MediaLimits:
    """Return the limits of a provider; a Claude has Anthropic's wherever it runs."""
    limits = _LIMITS.get(provider, MediaLimits())
    if "claude" not in model or provider == "anthropic":
        return limits
    both = {name: (getattr(limits, name), getattr(_CLAUDE, name)) for name in MediaLimits._fields}
    return MediaLimits(**{name: min(filter(None, pair), default=0) for name, pair in both.items()})


def fit_media(messages: Sequence[Message], limits: MediaLimits) -> list[Message]:
    """Return the messages with a line of text in place of each image and document that exceeds the limits."""
    if limits == MediaLimits() or not any(not isinstance(m, AssistantMessage) and m.media for m in messages):
        return list(messages)
    media = [item for m in messages if not isinstance(m, AssistantMessage) for item in m.media]
    following = iter(_reasons(media, limits))
    return [replace_media(message, lambda item: next(following)) for message in messages]


class _Sent:
    """What is sent so far: the numbers of the attachments, oldest first, and their sums."""

    def __init__(self, media: Sequence[Media], limits: MediaLimits) -> None:
        self._media, self._limits = media, limits
        self._counts = {"image": 0, "pdf": 0}
        self._size = self._large = 0
        many = limits.many and sum(item.kind == "image" for item in media) > limits.many
        self._is_large = [many and _side(item) > limits.many_side for item in media]
        self.numbers: list[int] = []

    def add(self, number: int) -> None:
        self.numbers.append(number)
        self._count(number, 1)

    def remove(self, number: int) -> None:
        self.numbers.remove(number)
        self._count(number, -1)

    def _count(self, number: int, sign: int) -> None:
        self._counts[self._media[number].kind] += sign
        self._size += sign * len(self._media[number].data)
        self._large += sign * self._is_large[number]

    def oldest_beyond(self, share: float) -> int | None:
        """Return the attachment that has to go if only that share of a limit may be used; None if nothing exceeds it.

        The newest is never the one.
        """
        limits, images = self._limits, self._counts["image"]
        kinds: set[str] = set()
        if (limits.images and images > limits.images * share) or (self._large and images > limits.many * share):
            kinds.add("image")
        if limits.documents and self._counts["pdf"] > limits.documents * share:
            kinds.add("pdf")
        if limits.total_size and self._size > limits.total_size * share:
            kinds = {"image", "pdf"}
        return next((n for n in self.numbers[:-1] if self._media[n].kind in kinds), None)


def _reasons(media: Sequence[Media], limits: MediaLimits) -> list[str]:
    """Return why each attachment is not sent; "" for those that are."""
    reasons = [_too_large(item, limits) for item in media]
    sent = _Sent(media, limits)
    for number, reason in enumerate(reasons):
        if reason:
            continue
        sent.add(number)
        share = 1.0
        while (oldest := sent.oldest_beyond(share)) is not None:
            share = _KEPT_SHARE
            sent.remove(oldest)
            reasons[oldest] = "newer ones fill what the provider takes in one request"
    return reasons


def _too_large(item: Media, limits: MediaLimits) -> str:
    most = limits.image_size if item.kind == "image" else limits.document_size
    most = min(filter(None, (most, limits.total_size)), default=0)
    return "it is larger than the provider takes" if most and len(item.data) > most else ""


def _side(item: Media) -> int:
    """Return the longer side of an image in pixels; 0 if it is unknown, or for a document."""
    if item.kind != "image":
        return 0
    for part in (item.data[:_HEADER_CHARS], item.data):
        try:
            image = images.sniff(a2b_base64(part))
        except ValueError:
            image = None
        if image is not None:
            return max(image.width, image.height)
    return 0
