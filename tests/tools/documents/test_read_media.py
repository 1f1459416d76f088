"""Read, of images and PDFs: what a model is shown that takes them, and what one is told that does not."""

from __future__ import annotations

import os
import sys
from base64 import b64decode
from contextlib import suppress
from io import BytesIO
from threading import Timer
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as Pillow
from pypdf import PdfReader, PdfWriter

from agent_tools.base import ToolError
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.documents.images import sniff
from agent_tools.documents.pdf import read_pages
from tests.support.hypothesis_examples import examples
from tests.support.sample_files import pdf, png
from tests.support.tool_bench import Bench

# Drawing commands that a parser is busy with for minutes.
ENDLESS = b"BT /F1 12 Tf " + b"(a) Tj " * 3_000_000 + b"ET"


def drawn(form: str, width: int, height: int, mode: str = "RGB", **options: object) -> bytes:
    out = BytesIO()
    Pillow.new(mode, (width, height)).save(out, form, **options)
    return out.getvalue()


@pytest.fixture
def seeing(bench: Bench) -> Bench:
    bench.ctx.input_modalities = frozenset({"image", "pdf"})
    return bench


@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("PNG", {}),
        ("JPEG", {}),
        ("JPEG", {"progressive": True}),
        ("GIF", {}),
        ("WEBP", {}),
        ("WEBP", {"lossless": True}),
        ("WEBP", {"mode": "RGBA", "exif": b"Exif\0\0"}),
    ],
)
@pytest.mark.parametrize("pillow", [True, False])
def test_an_image_is_shown_as_it_is(
    seeing: Bench, form: str, options: dict[str, Any], pillow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = drawn(form, 30, 20, **options)
    if not pillow:
        monkeypatch.setitem(sys.modules, "PIL", None)
    seeing.file("shot.bin", data)
    result = seeing("Read", file_path="shot.bin")
    (item,) = result.media
    assert (item.mime, b64decode(item.data), item.name, item.kind) == (
        f"image/{form.lower()}",
        data,
        "shot.bin",
        "image",
    )
    assert result.text.startswith("shot.bin: ") and result.text.endswith(f"image, 30 x 20 pixels, {len(data):,} bytes")


@pytest.mark.parametrize(
    ("form", "mode", "size", "mime", "made"),
    [
        ("PNG", "RGB", (3000, 1000), "image/png", (1568, 523)),
        ("PNG", "P", (3000, 1000), "image/png", (1568, 523)),
        ("PNG", "I;16", (3000, 1000), "image/png", (1568, 523)),
        ("JPEG", "RGB", (9000, 100), "image/jpeg", (1568, 17)),
        ("JPEG", "CMYK", (3000, 1000), "image/jpeg", (1568, 523)),
        ("BMP", "RGB", (30, 20), "image/png", (30, 20)),
        ("TIFF", "F", (30, 20), "image/png", (30, 20)),
        ("PNG", "noise RGB", (1200, 1200), "image/jpeg", (1200, 1200)),
        ("PNG", "noise RGBA", (1200, 1200), "image/jpeg", (1200, 1200)),
    ],
)
def test_an_image_that_does_not_fit_is_made_smaller(
    seeing: Bench, form: str, mode: str, size: tuple[int, int], mime: str, made: tuple[int, int]
) -> None:
    if mode.startswith("noise "):
        # What no compression helps has more bytes than providers take.
        noise = Pillow.frombytes(mode[6:], size, os.urandom(size[0] * size[1] * len(mode[6:])))
        noise.save(out := BytesIO(), form)
        data = out.getvalue()
        assert len(data) > 3_750_000
    else:
        data = drawn(form, *size, mode)
    seeing.file("a", data)
    result = seeing("Read", file_path="a")
    sent = b64decode(result.media[0].data)
    with Pillow.open(BytesIO(sent)) as picture:
        assert picture.size == made and picture.get_format_mimetype() == mime == result.media[0].mime
    assert len(sent) <= 3_750_000 and f"of {made[0]} x {made[1]} pixels" in result.text


def test_a_photo_is_turned_upright_and_a_film_is_its_first_picture(seeing: Bench) -> None:
    exif = Pillow.Exif()
    exif[0x0112] = 6
    seeing.file("photo.jpg", drawn("JPEG", 3000, 1000, exif=exif.tobytes()))
    assert "shown as JPEG of 523 x 1568" in seeing("Read", file_path="photo.jpg").text
    frames = [Pillow.new("L", (2000, 10), n) for n in range(3)]
    frames[0].save(out := BytesIO(), "GIF", save_all=True, append_images=frames[1:])
    seeing.file("film.gif", out.getvalue())
    assert "the first of 3 frames" in seeing("Read", file_path="film.gif").text


def test_without_pillow_what_providers_take_is_sent_and_the_rest_explained(
    seeing: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = (("long.png", png(10, 8001)), ("a.bmp", drawn("BMP", 3, 2)), ("a.tiff", drawn("TIFF", 3, 2)))
    monkeypatch.setitem(sys.modules, "PIL", None)
    seeing.file("wide.png", png(5000, 10))
    assert b64decode(seeing("Read", file_path="wide.png").media[0].data) == png(5000, 10)
    for name, data in others:
        seeing.file(name, data)
        assert "Make such a copy with a command" in seeing.fails("Read", file_path=name)


def test_bombs_and_damaged_images_are_refused(seeing: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    seeing.file("bomb.png", png(1, 1, says=(60_000, 60_000)))
    assert "too large to show (60000 x 60000 pixels)" in seeing.fails("Read", file_path="bomb.png")
    seeing.file("lies.png", png(1, 1, says=(500, 500)))
    assert "cannot be decoded" in seeing.fails("Read", file_path="lies.png")
    files = {form: drawn(form, 300, 200) for form in ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")}
    for data in files.values():
        seeing.file("cut", data[: len(data) * 3 // 4])
        assert "damaged" in seeing.fails("Read", file_path="cut")
    monkeypatch.setitem(sys.modules, "PIL", None)
    for form in ("PNG", "JPEG", "GIF", "WEBP"):
        seeing.file("cut", files[form][: len(files[form]) * 3 // 4])
        assert "truncated or damaged" in seeing.fails("Read", file_path="cut")


@settings(max_examples=examples(150), deadline=None)
@given(
    st.sampled_from([drawn(form, 30, 20) for form in ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")]),
    st.lists(st.tuples(st.integers(0, 80), st.integers(0, 255)), max_size=6),
    st.integers(0, 400),
)
def test_no_header_is_too_odd_to_be_looked_at(data: bytes, changed: list[tuple[int, int]], length: int) -> None:
    odd = bytearray(data)
    for at, byte in changed:
        odd[at % len(odd)] = byte
    image = sniff(bytes(odd[:length]))
    assert image is None or (image.width > 0 and image.height > 0)


def test_a_model_that_takes_no_images_is_reported_what_it_is(bench: Bench) -> None:
    bench.file("a.png", png(30, 20))
    found = bench.fails("Read", file_path="a.png")
    assert "a PNG image (30 x 20 pixels, " in found and "accepts no images. Use Bash" in found
    bench.file("a.svg", '<svg xmlns="http://www.w3.org/2000/svg"/>\n')
    assert "1\t<svg" in bench("Read", file_path="a.svg").text


def test_a_pdf_is_shown_whole_to_a_model_that_takes_it(seeing: Bench) -> None:
    seeing.file("a.pdf", data := pdf("Hello", "World"))
    result = seeing("Read", file_path="a.pdf")
    assert result.text == f"a.pdf: PDF, 2 pages, {len(data):,} bytes"
    assert [(m.kind, m.mime, b64decode(m.data)) for m in result.media] == [("pdf", "application/pdf", data)]
    part = seeing("Read", file_path="a.pdf", offset=2)
    assert not part.media and "--- page 2 of 2 ---\nWorld\n" in part.text


def test_others_get_the_text_page_by_page(bench: Bench) -> None:
    bench.file("a.pdf", pdf(*(f"This is page {n}" for n in range(1, 31))))
    text = bench("Read", file_path="a.pdf").text
    assert text.startswith("--- page 1 of 30 ---\nThis is page 1\n--- page 2 of 30 ---\nThis is page 2\n")
    note = "[text of pages 1-20 of 30; pictures and layout are not shown; continue with offset=21; "
    assert text.endswith(f"{note}offset and limit count pages in a PDF]")
    part = bench("Read", file_path="a.pdf", offset=30, limit=5).text
    assert (
        part == "--- page 30 of 30 ---\nThis is page 30\n[text of pages 30-30 of 30; pictures and layout are not shown]"
    )
    assert "has only 30 pages" in bench.fails("Read", file_path="a.pdf", offset=31)


def test_too_long_a_pdf_is_read_as_text_by_every_model(seeing: Bench) -> None:
    seeing.file("a.pdf", pdf(*["x"] * 101))
    assert "text of pages 1-20 of 101" in seeing("Read", file_path="a.pdf").text


def test_pdfs_that_cannot_be_read_are_explained(bench: Bench) -> None:
    sound = pdf("secret words")
    bench.file("scan.pdf", pdf("", ""))
    assert "pages 1-2 have no text: they are probably scanned" in bench.fails("Read", file_path="scan.pdf")
    bench.file("none.pdf", pdf())
    assert "without pages" in bench.fails("Read", file_path="none.pdf")
    for cut in (8, 200, len(sound) // 2):
        bench.file("cut.pdf", sound[:cut])
        assert "cannot be read" in bench.fails("Read", file_path="cut.pdf")
    for takes in (frozenset(), frozenset({"pdf"})):
        bench.ctx.input_modalities = takes  # type: ignore[assignment]
        writer = PdfWriter(clone_from=PdfReader(BytesIO(sound)))
        writer.encrypt("open sesame", algorithm="RC4-128")
        writer.write(out := BytesIO())
        bench.file("locked.pdf", out.getvalue())
        assert "protected with a password" in bench.fails("Read", file_path="locked.pdf")
    writer = PdfWriter(clone_from=PdfReader(BytesIO(sound)))
    writer.encrypt("", owner_password="mine", algorithm="RC4-128")
    writer.write(out := BytesIO())
    bench.file("viewable.pdf", out.getvalue())
    bench.ctx.input_modalities = frozenset()
    assert "secret words" in bench("Read", file_path="viewable.pdf").text


@pytest.mark.slow
def test_a_pdf_that_never_ends_is_stopped_with_what_came_before(bench: Bench) -> None:
    pages = None
    for seconds in (1, 3, 30):  # on a busy machine the first page may take a while
        with suppress(ToolError):
            pages = read_pages(pdf("first page", ENDLESS), "a.pdf", CancelToken(), seconds=seconds)
            if pages.texts:
                break
    assert pages is not None and pages.timed_out and pages.texts == ("first page",)
    with pytest.raises(ToolError, match="takes more than 0 seconds"):
        read_pages(pdf("first page"), "a.pdf", CancelToken(), seconds=0.001)


def test_an_interruption_ends_it_at_once() -> None:
    cancel = CancelToken()
    Timer(0.5, cancel.cancel).start()
    with pytest.raises(CancelledError):
        read_pages(pdf(ENDLESS), "a.pdf", cancel)
