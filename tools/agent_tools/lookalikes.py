"""Escape characters that look like others or are invisible, in text that a user approves.

The first `a` of `paypal.com` may be Cyrillic: the user then sees `p\\u0430ypal.com`.

Ordinary text is unchanged: words in one script, emoji sequences, marks as languages use them, full-width signs between
ideographs. The unit is a word: letters, marks and digits without a sign or space between.
"""

from __future__ import annotations

import re
from functools import cache
from unicodedata import category, combining, name, normalize

from agent_tools.lazy import lazy_pattern
from agent_tools.text import code_escape, escape_controls

# The letters of each script; below, those that can be mistaken for Latin letters or digits.
_RANGES = {
    "Greek": ((0x370, 0x3FF), (0x1F00, 0x1FFF)),
    "Cyrillic": ((0x400, 0x52F), (0x1C80, 0x1C8F), (0x2DE0, 0x2DFF), (0xA640, 0xA69F)),
    "Armenian": ((0x531, 0x58A),),
    "Cherokee": ((0x13A0, 0x13FF), (0xAB70, 0xABBF)),
    "Coptic": ((0x2C80, 0x2CFF),),
    "Lisu": ((0xA4D0, 0xA4FF),),
    "Deseret": ((0x10400, 0x1044F),),
}
_LATIN_LOOKALIKES = {
    "Greek": "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹϺϳϲνορυικαωτγϜ",
    "Cyrillic": "аеорсухіјѕһԁӏѵԛԝүкАВЕКМНОРСТХУІЈЅҮԚԜӀҺԌѴ",
    "Armenian": "օոսհզցյգՕՍՏԼղք",
    "Cherokee": "ᎠᎡᎢᎥᎩᎪᎫᎬᎳᎷᎻᎽᏀᏃᏎᏏᏒᏔᏚᏞᏟᏢᏦᏧᏳᏴᎵᏂᏙᏋ",
    "Coptic": "ⲀⲂⲈⲎⲒⲔⲘⲚⲞⲢⲤⲦⲨⲬⲟⲣⲥⲭ",
    "Lisu": "ꓐꓑꓒꓓꓔꓖꓗꓙꓚꓜꓝꓟꓠꓡꓢꓣꓦꓧꓪꓫꓬꓮꓰꓲꓳꓴ",
    "Deseret": "𐐄𐐎𐐐𐐛𐐠𐐬𐐴𐐿𐑀",
}  # fmt: skip
# What those of two scripts look like, in the same order.
_LATIN_FORMS = {
    "Greek": "ABEZHIKMNOPTYXCMjcvopuikawtyF",
    "Cyrillic": "aeopcyxijshdlvqwykABEKMHOPCTXYIJSYQWIHGV",
}
# Letters of phonetic alphabets and mathematics, which no language uses in words.
_PHONETIC = (
    "\u0250-\u02af\u1d00-\u1dbf\u01c0-\u01c3\u2100-\u214f\u24b6-\u24e9\U0001d400-\U0001d7ff\U0001f130-\U0001f189"
)
# Signs that look like those of paths, options and addresses.
_SIGNS = (
    "\u2024\u2044\u2215\u29f8\u2571\u2236\ua789\u02d0\u2010\u2011\u2212\u02d7\ufe63\ufe68\u2216\u29f5"
    "\u037e\u05c3\u0589\u2223\u01c0\ua4f8\u2039\u203a\u02bc\u02c8\u055a"
)
_SPACES = "\xa0\u1680\u2000-\u200a\u202f\u205f\u2800\U00016fe4\U0001d159"
_DASHES = tuple("\u2012\u2013\u2014\u2015-")
_IDEOGRAPHIC = lazy_pattern(
    "[\u1100-\u11ff\u2e80-\u2fdf\u3001\u3003-\ua4cf\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_EMOJI = lazy_pattern(
    "[\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u2460-\u27bf\u2900-\u297f\u2b00-\u2bff\u3030\u303d\u3297"
    "\u3299\U0001f000-\U0001faff]"
)
_JOINING_SCRIPT = lazy_pattern(
    "[\u0600-\u06ff\u0700-\u109f\u1780-\u17ff\u1800-\u18af\ua840-\uabff\ufb50-\ufdff\ufe70-\ufeff]"
)
_WORD = lazy_pattern(r"[^\W_]+(?:[^\W_]|[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff])*")
# A command starts after these, as at the start of a text.
_COMMAND_STARTS = ";|&(`{\n"
_OVERLAYS = lazy_pattern("[\u0334-\u0338\u20d2\u20d3\u20d8-\u20da\u20e5\u20e6\u20ea\u20eb]")


def escape_lookalikes(text: str) -> str:
    """Escape control characters and every character that could be mistaken for another one."""
    return escape_controls(_escape_odd(text) if not text.isascii() else text)


def describe_lookalikes(*texts: str) -> str:
    """Describe the characters that `escape_lookalikes` escapes in these texts; "" if there are none."""
    found: dict[str, None] = {}
    for text in texts:
        if not text.isascii():
            odd = _odd_positions(text)
            places = (n for n, c in enumerate(text) if n in odd or (not c.isascii() and escape_controls(c) != c))
            found.update(dict.fromkeys(text[n] for n in places))
    if not found:
        return ""
    shown = [f"{code_escape(ord(c))} is {name(c, 'an unnamed character')}" for c in list(found)[:_MAX_NAMED]]
    more = f" and {len(found) - _MAX_NAMED} more" if len(found) > _MAX_NAMED else ""
    return f"contains characters that look like others or are invisible: {', '.join(shown)}{more}"


def latin_form(text: str) -> str:
    """Return a text with Greek and Cyrillic letters that look like Latin ones, and special forms of these, as these."""
    return normalize("NFKC", text).translate(_to_latin())


@cache
def _to_latin() -> dict[int, int]:
    return {
        ord(theirs): ord(ours)
        for script, forms in _LATIN_FORMS.items()
        for theirs, ours in zip(_LATIN_LOOKALIKES[script], forms, strict=True)
    }


# Number of characters named in a message, and of words examined around one.
_MAX_NAMED, _CONTEXT_WORDS = 4, 4


def _escape_odd(text: str) -> str:
    odd = _odd_positions(text)
    return "".join(code_escape(ord(c)) if n in odd else c for n, c in enumerate(text))


def _odd_positions(text: str) -> set[int]:
    """Return the positions of the characters to escape."""
    return {*_odd_in_words(text), *_odd_signs(text), *_odd_joiners(text), *_odd_marks(text)}


def _odd_in_words(text: str) -> set[int]:
    words = list(_WORD.finditer(text))
    found: set[int] = set()
    for number, word in enumerate(words):
        if word[0].isascii():
            continue
        scripts = {_script(c) for c in word[0] if c.isalpha()}
        foreign = scripts & _RANGES.keys()
        alike = [n for n in range(word.start(), word.end()) if text[n] in _latin_lookalikes()]
        if (foreign and ("Latin" in scripts or len(foreign) > 1 or any(c.isascii() for c in word[0]))) or (
            foreign and len(alike) == len(word[0]) and not _in_script_context(text, words, number, next(iter(foreign)))
        ):
            found.update(alike)
        found.update(n for n in range(word.start(), word.end()) if re.match(f"[{_PHONETIC}]", text[n]))
    return found


def _in_script_context(text: str, words: list[re.Match[str]], number: int, script: str) -> bool:
    """Return True if a word is in a sentence of its script, near a word that is unmistakably of that script."""
    start = words[number].start()
    while start and text[start - 1] in " \t":
        start -= 1
    if not start or text[start - 1] in _COMMAND_STARTS:
        return False
    return any(_has_unmistakable_word(text, words, number, script, step) for step in (-1, 1))


def _has_unmistakable_word(text: str, words: list[re.Match[str]], number: int, script: str, step: int) -> bool:
    """Return True if one of the next words in a direction is of the script and cannot be mistaken for a Latin word."""
    for _ in range(_CONTEXT_WORDS):
        here, number = words[number], number + step
        if not 0 <= number < len(words):
            return False
        first, second = sorted((here, words[number]), key=lambda word: word.start())
        between = text[first.end() : second.start()]
        letters = {c for c in words[number][0] if c.isalpha()}
        if {_script(c) for c in letters} != {script} or not re.fullmatch(r"[ ,.!?:\"'«»-]{1,3}", between):
            return False
        if not letters <= _latin_lookalikes():
            return True
    return False


def _odd_signs(text: str) -> set[int]:
    found: set[int] = set()
    for run in re.finditer("[\u3000\u3002\uff01-\uff65\uffe0-\uffe6]+", text):
        around = (text[run.start() - 1 : run.start()], text[run.end() : run.end() + 1])
        if not any(_IDEOGRAPHIC.match(char) for char in around):
            found.update(range(*run.span()))
    for match in re.finditer(f"[{_SIGNS}{_SPACES}\u2012-\u2015]", text):
        n, char = match.start(), match[0]
        before, after = text[n - 1 : n], text[n + 1 : n + 2]
        if char in "\xa0\u202f":
            honest = before == "«" or (after != "" and after in "!?:;»%€")
        else:
            # A dash that starts an option is not a dash between words.
            option = (before == "" or before.isspace()) and (after.isalnum() or after in _DASHES)
            honest = char in _DASHES and not option and after not in _DASHES
        if not honest:
            found.add(n)
    return found


def _odd_joiners(text: str) -> set[int]:
    """Return joiners and variation selectors that are out of place."""
    found: set[int] = set()
    for match in re.finditer("[\u200c\u200d\ufe00-\ufe0f\u180b-\u180f]", text):
        n, char = match.start(), match[0]
        before, after = text[n - 1 : n] if n else "", text[n + 1 : n + 2]
        if char in "\u200c\u200d" and _JOINING_SCRIPT.match(before) and _JOINING_SCRIPT.match(after):
            continue
        past = (
            before if before not in "\ufe0f\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff" else text[n - 2 : n - 1]
        )
        if char == "\u200d" and (past and _EMOJI.match(past) and _EMOJI.match(after)):
            continue
        if (
            char in "\ufe0e\ufe0f"
            and before
            and (_EMOJI.match(before) or (before in "#*0123456789" and after == "\u20e3"))
        ):
            continue
        if "\u180b" <= char <= "\u180f" and _JOINING_SCRIPT.match(before):
            continue
        found.add(n)
    return found


def _odd_marks(text: str) -> set[int]:
    """Return marks without a base character, strike-through marks, and marks stacked more than two high."""
    found: set[int] = set()
    height, base = 0, ""
    for n, char in enumerate(text):
        if not (combining(char) or category(char) in ("Mn", "Me")) or "\ufe00" <= char <= "\ufe0f":
            height, base = 0, char
            continue
        height += 1
        keycap = char == "\u20e3" and base in "#*0123456789\ufe0f"
        alone = not base or not (base.isalnum() or category(base).startswith("M") or _JOINING_SCRIPT.match(base))
        if not keycap and (height > 2 or alone or _OVERLAYS.match(char)):
            found.add(n)
    return found


@cache
def _latin_lookalikes() -> frozenset[str]:
    return frozenset("".join(_LATIN_LOOKALIKES.values()))


@cache
def _script(char: str) -> str:
    """Return the script of a letter: one of _RANGES, "Latin" or "other"."""
    code = ord(char)
    for script, ranges in _RANGES.items():
        if any(first <= code <= last for first, last in ranges):
            return script
    plain = normalize("NFKD", char)[:1]
    return "Latin" if plain.isascii() or "LATIN" in name(char, "") else "other"
