"""What a web page's bytes say as text: mark, header, the page's own word, else a guess, as browsers decide it."""

from __future__ import annotations

import codecs
import re

from agent_tools.textfile import MARKS

# Names that the WHATWG Encoding Standard reads as a larger encoding than they are.
_MEANT = {
    "ascii": "cp1252", "us-ascii": "cp1252", "iso-8859-1": "cp1252", "latin1": "cp1252", "latin-1": "cp1252",
    "iso-8859-9": "cp1254", "iso-8859-11": "cp874", "tis-620": "cp874", "gb2312": "gb18030", "gbk": "gb18030",
    "shift_jis": "cp932", "shift-jis": "cp932", "sjis": "cp932", "x-sjis": "cp932", "euc-kr": "cp949",
    "ks_c_5601-1987": "cp949", "big5": "big5hkscs", "macintosh": "mac_roman", "utf-16": "utf-16-le",
}  # fmt: skip
# The encodings of the standard. Python knows more codecs by name, and some of those are not for strangers to choose.
_KNOWN = (
    r"utf-?8|utf-16[bl]e|(?:windows-|cp)(?:125[0-8]|874)|iso-8859-\d{1,2}|koi8-[ru]|ibm866|gb18030|big5-hkscs|euc-jp"
    r"|iso-2022-jp"
)
_META = rb"""<meta[^>]{0,300}?charset\s*=\s*["']?\s*([\w:.-]{1,40})"""
_XML = rb"""^<\?xml[^>]{0,100}?encoding\s*=\s*["']([\w:.-]{1,40})"""
_LOOKED_AT = 1024


def decode_page(data: bytes, declared: str, *, marked_up: bool) -> str:
    """The text. declared: the charset of the Content-Type header, or nothing. marked_up: HTML or XML, which may say."""
    for mark, encoding in MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    own = re.search(_META, data[:_LOOKED_AT], re.IGNORECASE) or re.search(_XML, data[:_LOOKED_AT])
    said = own[1].decode("ascii") if own is not None and marked_up else ""
    # A page that can be read as ASCII to find its own word is not in UTF-16, whatever the word.
    names = (_codec(declared), "utf-8" if said.lower().startswith("utf-16") else _codec(said))
    for name in filter(None, names):
        try:
            return data.decode(name)
        except UnicodeDecodeError:
            continue
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        # A cut or damaged character among good ones; where there are none, another encoding that nobody named.
        kept = data.decode("utf-8", "ignore").encode()
        good = len(kept) - sum(byte < 128 for byte in kept)
        fallback = "utf-8" if good > len(data) - len(kept) else "cp1252"
        # A wrong "utf-8" is the commonest mistake; another name is believed.
        return data.decode(next((n for n in names if n not in ("", "utf-8")), fallback), "replace")


def _codec(name: str) -> str:
    """The Python codec for a charset's name; "" for one that web pages do not have."""
    lowered = name.strip("\"' ").lower()
    meant = _MEANT.get(lowered) or (lowered.replace("windows-", "cp") if re.fullmatch(_KNOWN, lowered) else "")
    try:
        return codecs.lookup(meant).name if meant else ""
    except LookupError:
        return ""
