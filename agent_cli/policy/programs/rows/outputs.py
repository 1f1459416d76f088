"""Programs that turn files into another one, which they replace: converters, and dumps of databases."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agent_cli.policy.programs.arguments import Arguments
from agent_cli.policy.programs.effects import Touch
from agent_cli.policy.programs.row import Row, expand_rows
from agent_tools.lazy import lazy_pattern

# Options of ffmpeg that have no value; all others have one.
_FFMPEG_FLAGS = lazy_pattern(r"-(?:y|n|an|vn|sn|dn|hide_banner|nostdin|stdin|shortest|stats|nostats|re|copyts|report)")
# The format that ImageMagick is given before a name: png:a.dat.
_FORMAT = lazy_pattern(r"[A-Za-z][A-Za-z0-9]+:(?=.)")
_IMAGE_VERBS = frozenset("animate compare composite conjure convert display identify import montage stream".split())
_ONLY_SHOWS = ("identify", "display", "animate")


def _ffmpeg(found: Arguments) -> Iterator[Touch]:
    """Every word that is no option's value is an output. Without -y an existing one is left as it is."""
    option = ""
    forced = any(word.text == "-y" for word in found.words)
    for word in found.words:
        if option == "-i":
            yield Touch("read", word)
        elif not option and not word.text.startswith("-"):
            yield Touch("write", word, replaces=forced)
        has_value = not option and word.text.startswith("-") and not _FFMPEG_FLAGS.fullmatch(word.text)
        option = word.text if has_value else ""


def _images(found: Arguments) -> Iterator[Touch]:
    """The last word is the output."""
    words = list(found.words)
    verb = words[0].text if words and words[0].text in (*_IMAGE_VERBS, "mogrify") else ""
    words = words[1:] if verb else words
    if verb == "mogrify":
        yield from _mogrify(found.replace(words=tuple(words)))
        return
    files = [word.replace(text=_FORMAT.sub("", word.text)) for word in words if word.text[:1] not in ("-", "+")]
    outputs = [] if verb in _ONLY_SHOWS or (len(files) < 2 and verb != "import") else files[-1:]
    yield from (Touch("maybe", word) for word in files if word not in outputs)
    yield from (Touch("write", word, replaces=True) for word in outputs if words[-1].text[:1] != "-")


def _mogrify(found: Arguments) -> Iterator[Touch]:
    """It changes images in their places, unless the copies get another folder or format."""
    in_place = not any(word.text in ("-path", "-format") for word in found.words)
    for word in found.words:
        if word.text[:1] not in ("-", "+"):
            # Values of options are no files.
            file = re.search(r"\.\w+$", word.text)
            yield Touch("write", word, replaces=True) if in_place and file else Touch("maybe", word)


def _last(found: Arguments) -> Iterator[Touch]:
    """The second operand is what the first is turned into."""
    yield from (Touch("maybe", word) for word in found.operands[:1])
    yield from (Touch("write", word, replaces=True) for word in found.operands[1:2] if word.text != "-")


def _writer(options: str, **more: object) -> Row:
    """Return the row of a program of which only the options are known that name its output."""
    return Row("", partly=True, write=options, replaces=True, others="maybe", **more)  # type: ignore[arg-type]


OUTPUT_ROWS = expand_rows({
    "pg_dump pg_dumpall": _writer("-f --file"),
    "mysqldump mariadb-dump": _writer("-r --result-file"),
    "mongodump": _writer("--archive"),
    "ffmpeg": Row("", partly=True, own=True, effects=_ffmpeg),
    "convert magick gm composite montage": Row("", partly=True, own=True, effects=_images),
    "mogrify": Row("", partly=True, own=True, effects=_mogrify),
    "dot neato twopi circo fdp sfdp": _writer("-o"),
    "rsvg-convert inkscape": _writer("-o --output --export-filename"),
    "cwebp dwebp": _writer("-o"),
    "xsltproc": _writer("-o --output"),
    "terser uglifyjs": _writer("-o --output"),
    "wkhtmltopdf": Row("", partly=True, own=True, effects=_last),
})  # fmt: skip
