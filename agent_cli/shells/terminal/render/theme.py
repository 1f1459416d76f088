"""Colour themes: their colours by role, in as many colours as the terminal has, on its background.

The program writes the SGR codes of sixteen foregrounds and sixteen backgrounds (ECMA-48, 8.3.117), each code for one
role of `ROLES`. A palette translates them to the colours of a theme in one place per front end, so a theme can change
at any time, and nothing else knows about themes, backgrounds or colour depths.

Themes of the user are files: ~/.agent/themes/NAME.toml.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from agent_cli import UsageError
from agent_cli.kernel.user_text import decode_user_text
from agent_tools.fs.safe_files import read_regular
from agent_tools.record import Value
from agent_tools.text import one_line, shorten

Background = Literal["dark", "light"]
# Number of colours: 16, 256, 16 million; 0 without colours.
Depth = Literal[0, 16, 256, 16_777_216]
Codes = tuple[int, ...]
TRUE_COLOR: Depth = 16_777_216

# The code of each role. Codes from 40 on, except 90 to 97, are backgrounds of rows or words.
ROLES = {
    "muted": 2, "danger": 31, "success": 32, "warning": 33, "accent": 34,
    "comment": 90, "type": 91, "string": 92, "attribute": 93, "function": 94, "keyword": 95, "number": 96,
    "removed": 41, "added": 42, "user": 100, "removed_word": 101, "added_word": 102,
}  # fmt: skip
_BACKGROUNDS = frozenset((41, 42, 100, 101, 102))
_WORD_CODES = (101, 102)
# Codes that mark changed words without a background: underlined, in the default colour.
_UNDERLINE_CODES = ((4,), (39,))

_Colors = dict[str, str]
_DARK: _Colors = {
    "muted": "#8a909a", "danger": "#ff6b6b", "success": "#5fd38a", "warning": "#e5b567", "accent": "#61afef",
    "comment": "#7f8792", "type": "#56b6c2", "string": "#98c379", "attribute": "#e5c07b", "function": "#61afef",
    "keyword": "#c678dd", "number": "#d19a66",
    "removed": "#e8dcdc on #3c1f22", "added": "#dbe8dd on #16331f", "user": "#e8eaed on #31353d",
    "removed_word": "#ffffff on #7d2c33", "added_word": "#ffffff on #226b38",
}  # fmt: skip
_LIGHT: _Colors = {
    "muted": "#59636e", "danger": "#b3222a", "success": "#17692f", "warning": "#8a5a00", "accent": "#0860c4",
    "comment": "#59636e", "type": "#0b6e75", "string": "#116329", "attribute": "#6b4400", "function": "#0550ae",
    "keyword": "#7628c4", "number": "#734000",
    "removed": "#1f2328 on #ffe3e0", "added": "#1f2328 on #dbf5e1", "user": "#1f2328 on #e4e9ef",
    "removed_word": "#1f2328 on #ffb3ad", "added_word": "#1f2328 on #97e2aa",
}  # fmt: skip
_BUILT_IN: dict[str, dict[Background, _Colors]] = {
    "dark": {"dark": _DARK},
    "light": {"light": _LIGHT},
    "contrast": {
        "dark": {
            **dict.fromkeys(("comment", "muted"), ""), "danger": "#ff9090", "success": "#60ff60",
            "warning": "#ffff60", "accent": "#80c0ff",
            "type": "#70ffff", "string": "#80ff80", "attribute": "#ffff80", "function": "#80c0ff",
            "keyword": "#ff90ff", "number": "#ffc070",
            "removed": "#ffffff on #660000", "added": "#ffffff on #004a00", "user": "#000000 on #ffffff",
            "removed_word": "#000000 on #ff8080", "added_word": "#000000 on #80ff80",
        },
        "light": {
            **dict.fromkeys(("comment", "muted"), ""), "danger": "#a00000", "success": "#005500",
            "warning": "#6b4400", "accent": "#0000b0",
            "type": "#004f60", "string": "#005500", "attribute": "#6b4400", "function": "#0000b0",
            "keyword": "#700070", "number": "#8a2f00",
            "removed": "#000000 on #ffc6c6", "added": "#000000 on #b4efb4", "user": "#ffffff on #000000",
            "removed_word": "#ffffff on #a00000", "added_word": "#ffffff on #006000",
        },
    },
    # Blue and orange instead of green and red.
    "colorblind": {
        "dark": {
            **_DARK, "danger": "#ff9e3d", "success": "#56b4e9", "warning": "#f0e442",
            "string": "#8fc7e8", "keyword": "#d79ac0", "attribute": "#f0e442", "number": "#e8b06c",
            "removed": "#f3e6d8 on #43290c", "added": "#dbe8f5 on #0d2f4d",
            "removed_word": "#ffffff on #94530d", "added_word": "#ffffff on #10609e",
        },
        "light": {
            **_LIGHT, "danger": "#943c00", "success": "#0059b3", "warning": "#6e5c00",
            "string": "#0059b3", "keyword": "#8a1f66", "attribute": "#6e5c00", "number": "#734000",
            "removed": "#1f2328 on #ffe8cc", "added": "#1f2328 on #d4eaff",
            "removed_word": "#1f2328 on #ffbe73", "added_word": "#1f2328 on #8cc8ff",
        },
    },
}  # fmt: skip

# The themes in the sixteen colours that a terminal defines to fit its background. Rows of a change have no background
# there, as text in other colours would be unreadable on it; signs, numbers and underlines remain.
_BASE_16: dict[int, Codes] = {
    41: (), 42: (), 101: (), 102: (),
    90: (2,), 91: (36,), 92: (32,), 93: (33,), 94: (34,), 95: (35,), 96: (36,), 100: (97, 100),
}  # fmt: skip
_SIXTEEN: dict[tuple[str, Background], dict[int, Codes]] = {
    # Blue is lost on black.
    ("dark", "dark"): {**_BASE_16, 34: (94,), 94: (94,)},
    # Yellow, cyan and green are pale on white. Green only marks what went well.
    ("light", "light"): {**_BASE_16, 33: (35,), 92: (31,), 93: (35,), 91: (34,), 96: (34,), 100: (30, 47)},
    ("contrast", "dark"): {
        **_BASE_16, 2: (), 90: (), **{hue: (hue + 60,) for hue in range(31, 35)},
        91: (96,), 92: (92,), 93: (93,), 94: (94,), 95: (95,), 96: (96,), 100: (30, 107),
    },
    ("contrast", "light"): {
        **_BASE_16, 2: (), 90: (), 31: (31,), 32: (32,), 33: (35,), 34: (34,),
        91: (34,), 92: (31,), 93: (35,), 95: (35,), 96: (31,), 100: (97, 40),
    },
    ("colorblind", "dark"): {**_BASE_16, 31: (33,), 32: (94,), 33: (93,), 34: (96,), 92: (36,), 94: (96,)},
    ("colorblind", "light"): {**_BASE_16, 31: (35,), 32: (34,), 33: (35,), 92: (34,), 93: (35,), 96: (35,),
                              91: (34,), 100: (30, 47)},
}  # fmt: skip
# Without colours: bold for the user's message, underlined for changed words.
_NO_COLORS: dict[int, Codes] = {
    **dict.fromkeys((*range(30, 38), *range(40, 48), *range(90, 98), *range(100, 108)), ()),
    100: (1,),
}
_DESCRIPTIONS = {
    "auto": "dark or light, as the terminal's background is",
    "dark": "for dark backgrounds",
    "light": "for light backgrounds",
    "contrast": "high contrast, nothing dim",
    "colorblind": "blue and orange instead of green and red",
    "none": "no colours",
}
_NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_NAMED_CODES: dict[str, Codes] = {
    **{name: (30 + n,) for n, name in enumerate(_NAMES)},
    **{f"bright-{name}": (90 + n,) for n, name in enumerate(_NAMES)},
}
# Typical colours of the sixteen, to find the nearest.
_TERMINAL_RGB = {
    30: (0, 0, 0), 31: (205, 49, 49), 32: (13, 188, 121), 33: (180, 140, 16), 34: (36, 114, 200), 35: (188, 63, 188),
    36: (17, 168, 205), 37: (229, 229, 229), 90: (102, 102, 102), 91: (241, 76, 76), 92: (35, 209, 139),
    93: (245, 245, 67), 94: (59, 142, 234), 95: (214, 112, 214), 96: (41, 184, 219), 97: (255, 255, 255),
}  # fmt: skip
_LEVELS = (0, 95, 135, 175, 215, 255)
_HEX = re.compile(r"#[0-9a-fA-F]{6}")
_MAX_FILE_BYTES = 64 << 10
_FOLDER = ".agent/themes"


class Theme(Value):
    """The colours of a theme, by role, and its codes in sixteen colours."""

    name: str
    colors: dict[str, str]
    sixteen: dict[int, Codes]


def theme_names(home: Path | None) -> dict[str, str]:
    """Return the names of all themes, each with a description: the built-in ones, then those of the user."""
    found: dict[str, str] = dict(_DESCRIPTIONS)
    with_files = sorted((home / _FOLDER).glob("*.toml")) if home is not None else []
    return found | {file.stem: f"~/{_FOLDER}/{file.name}" for file in with_files if file.stem not in found}


def load_theme(name: str, background: Background, home: Path | None) -> Theme:
    """Load a theme for a background. Raises UsageError if the theme is unknown, or its file has a mistake."""
    if name in ("auto", "none"):
        name = background if name == "auto" else name
    if name == "none":
        return Theme("none", {}, _NO_COLORS)
    if name in _BUILT_IN:
        variants = _BUILT_IN[name]
        ground: Background = background if background in variants else next(iter(variants))
        return Theme(name, variants[ground], _SIXTEEN[name, ground])
    file = home / _FOLDER / f"{name}.toml" if home is not None and re.fullmatch(r"[\w.-]{1,64}", name) else None
    if file is None or not file.is_file():
        known = ", ".join(theme_names(home))
        missing = shorten(name, 40)
        raise UsageError(f"There is no theme {missing!r}: use one of {known}, or write ~/{_FOLDER}/NAME.toml.")
    return _from_file(name, file, background)


def _from_file(name: str, file: Path, background: Background) -> Theme:
    import tomllib  # few have a theme of their own

    shown = f"~/{_FOLDER}/{file.name}"
    try:
        data = tomllib.loads(decode_user_text(read_regular(file, _MAX_FILE_BYTES)))
    except (OSError, ValueError) as error:
        raise UsageError(f"The theme {shown} cannot be read: {one_line(str(error))}.") from None
    base = data.pop("base", background)
    if not isinstance(base, str) or base not in _BUILT_IN:
        raise UsageError(f"{shown}: base must be one of {', '.join(_BUILT_IN)}.")
    under = load_theme(base, background, None)
    colors = dict(under.colors)
    for role, value in data.items():
        if role not in ROLES:
            raise UsageError(f"{shown}: there is no colour {one_line(role)!r}; known: {', '.join(ROLES)}.")
        if not isinstance(value, str) or (value and _parse_color(value) is None):
            raise UsageError(f'{shown}: {role} must be "#rrggbb" or a name such as "bright-red", with "on" for two.')
        colors[role] = value
    own = {ROLES[role]: _color_codes(colors[role], 16) for role in data}
    # No background for rows and words of a change, as in the built-in themes.
    return Theme(name, colors, under.sixteen | own | dict.fromkeys(_BACKGROUNDS & own.keys() - {100}, ()))


def _parse_color(value: str) -> tuple[bool, str, str] | None:
    """Split a colour into bold, foreground and background; None if it is not a colour."""
    front, set_background, paper = f" {value.strip()} ".partition(" on ")
    *marks, ink = front.split() or [""]
    if ink == "bold":
        marks, ink = [*marks, ink], ""
    if marks not in ([], ["bold"]) or (set_background and not paper.strip()):
        return None
    colors = ink, paper.strip()
    if any(c and c not in _NAMED_CODES and not _HEX.fullmatch(c) for c in colors):
        return None
    return bool(marks), *colors


class Palette:
    """A theme in a number of colours. `apply` translates our own SGR sequences; `styles` is the live region's."""

    def __init__(self, theme: Theme, depth: Depth) -> None:
        self.name = theme.name
        self.depth: Depth = 0 if theme.name == "none" else depth
        self._codes = _codes(theme, self.depth)
        self._known: dict[str, str] = {}

    def apply(self, text: str) -> str:
        """Translate a text whose SGR sequences are all ours."""
        return _SGR.sub(self._translate, text) if "\x1b[" in text else text

    def apply_foreign(self, text: str) -> str:
        """Return a text with colours of another program: unchanged, or without them if there are none."""
        return text if self.depth else self.apply(text)

    def _translate(self, match: re.Match[str]) -> str:
        known = self._known.get(match[1])
        if known is None:
            known = self._known[match[1]] = self._sequence(match[1])
        return known

    def _sequence(self, codes: str) -> str:
        given = list(_split_codes(codes))
        if any(self._codes.get(code) for code in _WORD_CODES if (code,) in given):
            given = [code for code in given if code not in _UNDERLINE_CODES]
        # A background sets its foreground too, which a colour of the text overrides.
        given.sort(key=lambda code: code[0] not in _BACKGROUNDS and code[0] not in (0, 2))
        mapped = [n for code in given for n in (self._codes.get(code[0], code) if len(code) == 1 else code)]
        return f"\x1b[{';'.join(map(str, mapped))}m" if mapped else ""

    def sgr(self, role: str) -> str:
        """Return the sequence that begins a role."""
        return self._sequence(str(ROLES[role]))

    def style(self, role: str) -> str:
        """Return a role as a style of prompt-toolkit."""
        codes = list(self._codes.get(ROLES[role], (ROLES[role],)))
        words = []
        while codes:
            code = codes.pop(0)
            if code in (38, 48):
                words.append(_extended_style(code, codes))
            elif code in _PLAIN:
                words.append(_PLAIN[code])
            elif (ground := code % 60) in range(30, 38) or ground in range(40, 48):
                name = ("bright" * (code >= 90)) + _NAMES[ground % 10]
                name = {"white": "gray", "brightblack": "brightblack", "brightwhite": "white"}.get(name, name)
                words.append(f"{'bg:' * (ground >= 40)}ansi{name}")
        return " ".join(words)

    def styles(self) -> dict[str, str]:
        """Return the styles of the live region, by class."""
        bold = {name: f"bold {self.style(role)}" for name, role in _BOLD.items()}
        plain = {name: self.style(role) for name, role in _LIVE.items()}
        return {"now": "", "chosen": "reverse", **bold, **plain}


_SGR = re.compile(r"\x1b\[([0-9;]*)m")
_PLAIN = {1: "bold", 2: "dim", 4: "underline", 7: "reverse"}
# Classes of the live region, by role.
_BOLD = {"status": "accent", "ask": "warning", "danger": "danger"}
_LIVE = {
    "hint": "warning", "dim": "muted", "rule": "muted", "edits": "warning", "plan": "accent", "good": "success",
    "bad": "danger", "marker": "accent", "prompt": "accent", "warn": "warning",
}  # fmt: skip


def _extended_style(ground: int, codes: list[int]) -> str:
    """Return an extended colour as a style, and remove its codes."""
    kind = codes.pop(0)
    red, green, blue = (codes.pop(0), codes.pop(0), codes.pop(0)) if kind == 2 else _cube(codes.pop(0))
    return f"{'bg:' if ground == 48 else ''}#{red:02x}{green:02x}{blue:02x}"


def _split_codes(codes: str) -> Iterator[Codes]:
    """Split the numbers of a sequence; those of an extended colour stay together."""
    rest = [int(code or 0) for code in codes.split(";")]
    while rest:
        size = {5: 3, 2: 5}.get(rest[1], 1) if rest[0] in (38, 48) and rest[1:] else 1
        yield tuple(rest[:size])
        del rest[:size]


def _codes(theme: Theme, depth: Depth) -> dict[int, Codes]:
    """Map each of our codes to the codes of the theme."""
    if depth in (0, 16):
        return theme.sixteen if depth else _NO_COLORS
    return {code: _color_codes(theme.colors.get(role, ""), depth) for role, code in ROLES.items()}


def _color_codes(color: str, depth: Depth) -> Codes:
    """Return the codes of a colour, its background first."""
    bold, ink, paper = _parse_color(color) or (False, "", "")
    return (*((1,) if bold else ()), *_ground_codes(paper, depth, 10), *_ground_codes(ink, depth, 0))


@lru_cache(maxsize=256)
def _ground_codes(color: str, depth: Depth, shift: int) -> Codes:
    """Return the codes of a colour; shift: 10 for a background."""
    if not color:
        return ()
    if color in _NAMED_CODES:
        return (_NAMED_CODES[color][0] + shift,)
    rgb = (int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16))
    if depth == TRUE_COLOR:
        return (38 + shift, 2, *rgb)
    if depth == 256:
        near = {n: found for n, found in _palette().items() if not shift or _keeps_tint(found, rgb)}
        return 38 + shift, 5, min(near, key=lambda n: _distance(rgb, near[n]))
    return (min(_TERMINAL_RGB, key=lambda n: _distance(rgb, _TERMINAL_RGB[n])) + shift,)


# A colour whose parts differ by less looks grey.
_GREY_DIFFERENCE = 20


def _keeps_tint(found: tuple[int, int, int], rgb: tuple[int, int, int]) -> bool:
    """Return True if a background keeps the tint of another: that of a removed line must not become grey."""
    if max(rgb) - min(rgb) < _GREY_DIFFERENCE:
        return True
    first = rgb.index(max(rgb))
    return all(found[first] > part for index, part in enumerate(found) if index != first)


def _distance(one: tuple[int, int, int], other: tuple[int, int, int]) -> int:
    return 3 * (one[0] - other[0]) ** 2 + 4 * (one[1] - other[1]) ** 2 + 2 * (one[2] - other[2]) ** 2


@lru_cache(maxsize=1)
def _palette() -> dict[int, tuple[int, int, int]]:
    """Return the RGB values of the 256-colour codes that are the same in every terminal."""
    return {number: _cube(number) for number in range(16, 256)}


def _cube(number: int) -> tuple[int, int, int]:
    """Return the RGB values of a 256-colour code, from 16 on."""
    if number >= 232:
        grey = 8 + 10 * (number - 232)
        return grey, grey, grey
    red, rest = divmod(max(number, 16) - 16, 36)
    green, blue = divmod(rest, 6)
    return _LEVELS[red], _LEVELS[green], _LEVELS[blue]


_TRUE_COLOR_TERMS = ("-direct", "-truecolor", "kitty", "ghostty", "alacritty", "wezterm", "foot", "contour")
_TRUE_COLOR_PROGRAMS = ("iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "rio")


def color_depth(env: Mapping[str, str]) -> Depth:
    """Return the number of colours of the terminal, according to its environment."""
    term = env.get("TERM", "")
    if env.get("COLORTERM", "").lower() in ("truecolor", "24bit") and not term.startswith("screen."):
        return TRUE_COLOR
    if (
        any(word in term for word in _TRUE_COLOR_TERMS)
        or env.get("TERM_PROGRAM") in _TRUE_COLOR_PROGRAMS
        or env.get("WT_SESSION")
    ):
        return TRUE_COLOR
    return 256 if "256" in term else 16


def guess_background(env: Mapping[str, str]) -> Background:
    """Return the background named by COLORFGBG; dark if it names none."""
    last = env.get("COLORFGBG", "").rpartition(";")[2]
    return "light" if last in ("7", "9", "10", "11", "12", "13", "14", "15") else "dark"


# The query for the background, and its answer: rgb: and three parts of one to four hexadecimal digits.
ASK_BACKGROUND = "\x1b]11;?\x1b\\"
_ANSWER = re.compile(r"rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})")


def may_ask_background(env: Mapping[str, str]) -> bool:
    """Return True if the terminal answers a query for its background, or ignores it."""
    kind = env.get("TERM", "").split("-")[0]
    return kind not in ("", "dumb", "unknown", "linux", "screen", "eterm", "vt100", "vt220") or bool(env.get("TMUX"))


def is_multiplexer(env: Mapping[str, str]) -> bool:
    """Return True if the terminal is tmux or screen, on this machine or another."""
    return bool(env.get("TMUX") or env.get("STY")) or env.get("TERM", "").split("-")[0] in ("tmux", "screen")


def parse_background(answer: str) -> Background | None:
    """Parse the terminal's answer to the query; None if it is invalid."""
    match = _ANSWER.search(answer)
    if match is None:
        return None
    red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in match.groups())
    return "light" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "dark"


class Colors:
    """The palette of a session: its theme by name, in the terminal's depth, on its background."""

    def __init__(self, name: str, env: Mapping[str, str], home: Path | None = None, *, color: bool) -> None:
        """Raises UsageError, as `set_theme`."""
        self.background, self._home = guess_background(env), home
        self._depth: Depth = color_depth(env) if color else 0
        self.name = name
        self.palette = self._palette(name)

    def _palette(self, name: str) -> Palette:
        return Palette(load_theme(name, self.background, self._home), self._depth)

    def set_theme(self, name: str) -> None:
        """Change the theme. Raises UsageError and then changes nothing."""
        self.palette, self.name = self._palette(name), name

    def set_background(self, background: Background) -> None:
        """Change the background."""
        if background != self.background:
            self.background = background
            self.palette = self._palette(self.name)

    @property
    def depends_on_background(self) -> bool:
        """True if the colours depend on the background."""
        return self._depth > 0 and self.name not in ("none", "dark", "light")


class ThemedStream:
    """A text file that applies the palette."""

    def __init__(self, file: Any, colors: Colors) -> None:
        self._file = file
        self.colors = colors

    def write(self, text: str) -> int:
        self._file.write(self.colors.palette.apply(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
