"""What providers take of images and documents in one request: the oldest become text, a good part at a time."""

from __future__ import annotations

import base64
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli.kernel.messages import AssistantMessage, Message, Text, ToolMessage, UserMessage
from agent_cli.models.media_limits import MediaLimits, fit_media, media_limits
from agent_cli.models.registry import PROVIDERS
from agent_tools.results import Media

CLAUDE = media_limits("anthropic", "claude-sonnet-5")


def png(name: str, width: int = 100, size: int = 0) -> Media:
    header = struct.pack(">8sI4sII", b"\x89PNG\r\n\x1a\n", 13, b"IHDR", width, 20)
    return Media("image/png", base64.b64encode(header + bytes(size)).decode(), name)


def jpeg(name: str, width: int, before: int) -> Media:
    """A JPEG whose size comes after so many bytes of other data, as from a camera."""
    segments = b"".join(b"\xff\xe1" + struct.pack(">H", 60_002) + bytes(60_000) for _ in range(before // 60_000))
    frame = b"\xff\xc0" + struct.pack(">HBHHB", 17, 8, 20, width, 3)
    return Media("image/jpeg", base64.b64encode(b"\xff\xd8" + segments + frame + bytes(20)).decode(), name)


def pdf(name: str, size: int = 30) -> Media:
    return Media("application/pdf", base64.b64encode(b"%PDF".ljust(size)).decode(), name)


def conversation(media: list[Media]) -> list[Message]:
    """One message for each attachment, with answers between, and the last ones in one result."""
    found: list[Message] = []
    for item in media:
        found += [UserMessage(f"see {item.name}", (item,)), AssistantMessage((Text("ok"),))]
    return found


def sent(messages: list[Message], limits: MediaLimits) -> list[str]:
    """The names of what is sent."""
    fitted = fit_media(messages, limits)
    assert len(fitted) == len(messages)
    return [item.name for m in fitted if not isinstance(m, AssistantMessage) for item in m.media]


def names(first: int, last: int) -> list[str]:
    return [f"{number}.png" for number in range(first, last)]


@pytest.mark.parametrize(("count", "first"), [(20, 0), (21, 6), (22, 6), (26, 6), (27, 12)])
def test_more_than_twenty_large_images_at_anthropic(count: int, first: int) -> None:
    messages = conversation([png(f"{n}.png", 2_100) for n in range(count)])
    assert sent(messages, CLAUDE) == names(first, count)


def test_small_images_are_sent_up_to_a_hundred() -> None:
    assert sent(conversation([png(f"{n}.png", 2_000) for n in range(100)]), CLAUDE) == names(0, 100)
    assert sent(conversation([png(f"{n}.png", 2_000) for n in range(101)]), CLAUDE) == names(26, 101)


def test_one_large_image_among_many_small_ones_counts() -> None:
    media = [png(f"{n}.png") for n in range(25)] + [png("25.png", 2_001)]
    assert sent(conversation(media), CLAUDE) == names(11, 26)


def test_an_image_whose_header_comes_late_is_measured() -> None:
    media = [png(f"{n}.png") for n in range(20)] + [jpeg("20.png", 3_000, 120_000)]
    assert sent(conversation(media), CLAUDE) == names(6, 21)


def test_what_is_replaced_is_named_in_its_place() -> None:
    result = ToolMessage("c", "Read", "two", media=(png("a.png"), png("b.png")))
    limits = MediaLimits(images=1)
    (fitted,) = fit_media([result], limits)
    assert fitted == result.replace(
        text="two\n[image a.png not sent: newer ones fill what the provider takes in one request]",
        media=(png("b.png"),),
    )


def test_one_that_is_too_large_by_itself_is_never_sent() -> None:
    messages = conversation([png("0.png"), png("large.png", size=4_000_000), png("1.png")])
    assert sent(messages, CLAUDE) == ["0.png", "1.png"]
    assert "[image large.png not sent: it is larger than the provider takes]" in fit_media(messages, CLAUDE)[2].text


def test_the_sizes_of_all_together_are_limited() -> None:
    messages = conversation([pdf(f"{n}.pdf", 6_000_000) for n in range(4)])
    assert sent(messages, CLAUDE) == ["2.pdf", "3.pdf"]


def test_documents_and_images_are_counted_apart() -> None:
    media = [item for n in range(6) for item in (pdf(f"{n}.pdf"), png(f"{n}.png"))]
    found = sent(conversation(media), media_limits("bedrock", "amazon.nova-pro"))
    assert [name for name in found if name.endswith(".pdf")] == ["3.pdf", "4.pdf", "5.pdf"]
    assert [name for name in found if name.endswith(".png")] == names(0, 6)


def test_a_claude_has_its_limits_wherever_it_runs() -> None:
    for provider in ("bedrock", "vertex_ai", "openrouter", "some-gateway"):
        limits = media_limits(provider, "anthropic/claude-sonnet-4.6")
        assert (limits.many, limits.many_side) == (20, 2_000)
        assert 0 < limits.images <= 100 and 0 < limits.total_size <= CLAUDE.total_size
    assert media_limits("openrouter", "google/gemini-3-pro") == MediaLimits()


def test_a_local_server_has_no_limits() -> None:
    assert all(media_limits(row.name, "a-model") == MediaLimits() for row in PROVIDERS if row.local)


LIMITS = st.builds(
    MediaLimits,
    images=st.integers(0, 9), documents=st.integers(0, 4), image_size=st.sampled_from([0, 100, 400]),
    total_size=st.sampled_from([0, 500, 1_500]), many=st.integers(0, 6), many_side=st.just(2_000),
)  # fmt: skip
ITEMS = st.one_of(
    st.builds(png, st.just("i"), st.sampled_from([100, 2_100]), st.sampled_from([0, 50, 200])),
    st.builds(pdf, st.just("d"), st.sampled_from([30, 300])),
)


@given(media=st.lists(ITEMS, max_size=40), limits=LIMITS)
def test_no_limit_is_exceeded_and_the_beginning_seldom_changes(media: list[Media], limits: MediaLimits) -> None:
    messages = conversation([item.replace(name=str(number)) for number, item in enumerate(media)])
    changes, before = 0, fit_media([], limits)
    for size in range(2, len(messages) + 1, 2):
        now = fit_media(messages[:size], limits)
        shown = [item for m in now if not isinstance(m, AssistantMessage) for item in m.media]
        images = [item for item in shown if item.kind == "image"]
        assert not limits.images or len(images) <= limits.images
        assert not limits.documents or len(shown) - len(images) <= limits.documents
        assert not limits.total_size or sum(len(item.data) for item in shown) <= limits.total_size
        assert not limits.image_size or all(len(item.data) <= limits.image_size for item in images)
        large = [item for item in images if item.data[:30] == png("", 2_100).data[:30]]
        assert not (limits.many and large) or len(images) <= limits.many
        changes += now[: len(before)] != before
        before = now
    if limits == MediaLimits(images=limits.images) and limits.images > 4:
        assert changes <= len(media) / (limits.images // 4) + 1
