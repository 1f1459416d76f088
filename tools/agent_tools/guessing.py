"""Which encoding a text without a mark is in, where its bytes are no UTF-8.

Several encodings read nearly any bytes without complaint, so what counts is what comes out: kana, the commonest
Chinese characters, Korean syllables or Russian letters. Where nothing speaks clearly for one of these, the bytes are
taken for Western European. A wrong guess shows wrong letters and damages nothing: a file is written back in the
encoding it was read in, and its bytes outside an edit stay the same.
"""

from __future__ import annotations

import codecs
import re

_LOOKED_AT = 65_536
_KANA = "".join(map(chr, range(0x3041, 0x30FD)))
_KOREAN = "이다는을의가에한고도하지로은를기사어서자시나인대리그일수정아보제해부전스과주만있"
_SIMPLIFIED = "的一是不了在有人我他这个们中来上大为和国地到以说时要就出会可也你对生能而子用文件数据"
_TRADITIONAL = "的一是不了在有人我他這個們中來上大為和國地到以說時要就出會可也你對生能而子用文件數據"
_RUSSIAN = "оеаинтсрвлкмдпуязьыбгчй"
# For each encoding: characters that its texts are full of, and how large a part of all beyond ASCII they make up.
_SIGNS = (
    ("cp932", _KANA, 0.25),
    ("euc_jp", _KANA, 0.25),
    ("cp949", _KOREAN, 0.25),
    ("gb18030", _SIMPLIFIED, 0.08),
    ("big5", _TRADITIONAL, 0.08),
    ("cp1251", _RUSSIAN, 0.6),
    ("koi8-r", _RUSSIAN, 0.6),
)
# A letter beyond ASCII that stands alone between others, as in Western European words and never in Cyrillic ones.
_ALONE = rb"(?<![\x80-\xff])[\x80-\xff](?![\x80-\xff])"
# Letters beyond ASCII, and those of them that stand in one word with ASCII letters, as no Cyrillic ones do.
_RUNS = rb"[\x80-\xff]+"
_MIXED = rb"[A-Za-z][\x80-\xff]+|[\x80-\xff]+(?=[A-Za-z])"


def guess(data: bytes) -> str:
    """The name of the encoding that `data`, which has bytes beyond ASCII, seems to be in; "" for Western European."""
    head = data[:_LOOKED_AT]
    high = len(head) - len(head.translate(None, bytes(range(128, 256))))
    alone = len(re.findall(_ALONE, head))
    mixed = len(re.findall(_MIXED, head)) > 0.3 * len(re.findall(_RUNS, head))
    best, most = "", 1.0
    for encoding, signs, least in _SIGNS:
        if signs is _RUSSIAN and (mixed or alone > high * 0.2):
            continue
        beyond = [c for c in _decoded(head, encoding) if c > "\x7f"]
        found = [c for c in beyond if c in signs]
        if len(set(found)) >= 3 and (weight := len(found) / len(beyond) / least) > most:
            best, most = encoding, weight
    return best or ("gb18030" if _in_pairs(head) else "")


def unmarked_utf16(data: bytes) -> str:
    """ "utf-16-le" or "utf-16-be" where `data`, which has zero bytes, seems to be that without a mark; else ""."""
    from unicodedata import category

    head = data[:4096]
    halves = {"utf-16-le": (head[1::2], head[::2]), "utf-16-be": (head[::2], head[1::2])}
    for encoding, (upper, lower) in halves.items():
        text = _decoded(head, encoding)
        mostly_ascii = upper.count(0) > len(upper) * 0.7 and lower.count(0) == 0
        # Without ASCII it takes some length and a blank, for binary data may happen to be letters.
        if not mostly_ascii and (len(text) < 20 or not any(c in " \n\u3000" for c in text)):
            continue
        if text and all(c in "\t\r\n\f" or category(c)[0] != "C" for c in text):
            return encoding
    return ""


def _decoded(head: bytes, encoding: str) -> str:
    """The text of the beginning of a file, whose last character may be cut; "" where it cannot be in `encoding`."""
    try:
        return codecs.getincrementaldecoder(encoding)().decode(head)
    except UnicodeDecodeError:
        return ""


def _in_pairs(head: bytes) -> bool:
    """Whether the bytes beyond ASCII all come in pairs, different ones, that are common characters of GB 2312."""
    runs = re.findall(rb"[\x80-\xff]+", head[:-1])
    if any(len(run) % 2 for run in runs[:-1]):
        return False
    pairs = [run[n : n + 2] for run in runs for n in range(0, len(run) - 1, 2)]
    common = [pair for pair in pairs if 0xB0 <= pair[0] <= 0xD7 and pair[1] >= 0xA1]
    return len(set(common)) >= 3 and len(common) >= 0.8 * len(pairs)
