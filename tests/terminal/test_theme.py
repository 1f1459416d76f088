"""Colours: one translation from roles to what the terminal has, on its background, in themes that are really others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agent_cli.kernel.run_environment import UsageError
from agent_cli.shells.terminal.app.key_reader import BACKGROUND_ANSWER, AnswerFilter
from agent_cli.shells.terminal.app.output import BackgroundQuestion
from agent_cli.shells.terminal.render.theme import (
    ROLES,
    TRUE_COLOR,
    Background,
    Colors,
    Depth,
    Palette,
    color_depth,
    guess_background,
    load_theme,
    may_ask_background,
    parse_background,
    theme_names,
)

BUILT_IN = ("dark", "light", "contrast", "colorblind")
GROUNDS: tuple[Background, ...] = ("dark", "light")
DEPTHS: tuple[Depth, ...] = (16, 256, TRUE_COLOR)


def palette(name: str, ground: Background = "dark", depth: Depth = TRUE_COLOR, home: Path | None = None) -> Palette:
    return Palette(load_theme(name, ground, home), depth)


@pytest.mark.parametrize(
    ("env", "depth"),
    [
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, TRUE_COLOR),
        ({"TERM": "tmux-256color", "COLORTERM": "24bit"}, TRUE_COLOR),
        ({"TERM": "xterm-kitty"}, TRUE_COLOR),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, TRUE_COLOR),
        ({"TERM": "xterm-256color"}, 256),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "Apple_Terminal"}, 256),
        ({"TERM": "screen.xterm", "COLORTERM": "truecolor"}, 16),
        ({"TERM": "linux"}, 16),
        ({"TERM": "xterm"}, 16),
    ],
)
def test_the_depth_is_read_from_the_environment(env: dict[str, str], depth: int) -> None:
    assert color_depth(env) == depth


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_themes_differ_in_every_depth(depth: Depth) -> None:
    line = "".join(f"\x1b[{code}mx\x1b[0m" for code in ROLES.values())
    drawn = {palette(name, ground, depth).apply(line) for name in ("contrast", "colorblind") for ground in GROUNDS}
    drawn |= {palette("dark", depth=depth).apply(line), palette("light", depth=depth).apply(line)}
    assert len(drawn) == 6


def luminance(color: str) -> float:
    parts = [int(color[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize("name", BUILT_IN)
def test_every_colour_can_be_read_on_its_background(name: str, ground: Background) -> None:
    theme = load_theme(name, ground, None)
    own: Background = name if name in GROUNDS else ground  # type: ignore[assignment]
    page = {"dark": "#1a1a1a", "light": "#ffffff"}[own]
    least = 7.0 if name == "contrast" else 4.4
    for role, color in theme.colors.items():
        ink, _, paper = color.removeprefix("bold ").partition(" on ")
        if ink:
            assert contrast(ink, paper or page) >= least, (role, color)
    # Code stands on the rows of a change.
    for row in ("removed", "added"):
        paper = theme.colors[row].partition(" on ")[2]
        for role in ("comment", "type", "string", "attribute", "function", "keyword", "number"):
            if theme.colors[role]:
                shown = theme.colors[role].removeprefix("bold ")
                assert contrast(shown, paper) >= 3.0, (row, role)


@pytest.mark.parametrize(("name", "least"), [("light", 4.5), ("colorblind", 4.0)])
def test_light_themes_can_be_read_on_rows_with_a_background_also_in_256_colours(name: str, least: float) -> None:
    """WCAG asks for 4.5. In 256 colours, the nearest to an orange that is dark enough is a brown."""

    def shown(role: str, depth: Depth, ground: int) -> str:
        sequence = palette(name, "light", depth).apply(f"\x1b[{ROLES[role]}mx")
        if depth == 256:
            number = int(re.findall(rf"{ground};5;(\d+)", sequence)[0]) - 16
            levels = (0, 95, 135, 175, 215, 255)
            cube = [levels[number // 36 % 6], levels[number // 6 % 6], levels[number % 6]]
            return "#{:02x}{:02x}{:02x}".format(*(cube if number < 216 else [8 + 10 * (number - 216)] * 3))
        return "#{:02x}{:02x}{:02x}".format(*map(int, re.findall(rf"{ground};2;(\d+);(\d+);(\d+)", sequence)[0]))

    inks = ("muted", "danger", "success", "comment", "type", "string", "attribute", "function", "keyword", "number")
    depths: tuple[Depth, ...] = (256, TRUE_COLOR)
    for depth in depths:
        for paper in ("removed", "added", "user"):
            for ink in inks:
                found = contrast(shown(ink, depth, 38), shown(paper, depth, 48))
                assert found >= least, (depth, ink, paper, round(found, 2))


def test_a_row_keeps_the_colours_of_its_code() -> None:
    """The background brings a foreground, which must not hide the one of the text."""
    dark = palette("dark")
    assert dark.apply("\x1b[95;41mdef\x1b[0m") == "\x1b[48;2;60;31;34;38;2;232;220;220;38;2;198;120;221mdef\x1b[0m"


def test_changed_words_are_underlined_where_they_have_no_background() -> None:
    word = "\x1b[4;39;102mnew\x1b[0m"
    assert palette("dark", depth=16).apply(word) == "\x1b[4;39mnew\x1b[0m"
    assert palette("none").apply(word) == "\x1b[4;39mnew\x1b[0m"
    assert re.match(r"\x1b\[48;2;[0-9;]+mnew", palette("dark").apply(word))


def test_without_colours_none_is_written() -> None:
    line = "".join(f"\x1b[{code}mx" for code in (*ROLES.values(), "38;2;1;2;3")) + "\x1b[0m"
    for shown in (palette("none").apply(line), palette("dark", depth=0).apply(line)):
        codes = {code for sequence in re.findall(r"\x1b\[([0-9;]*)m", shown) for code in sequence.split(";")}
        assert codes - {"38", "2", "3"} <= {"0", "1", "4"}


@pytest.mark.parametrize("ground", ["dark", "light"])
def test_of_256_colours_a_changed_line_has_a_red_or_green_one(ground: Background) -> None:
    def background(role: str) -> tuple[int, int, int]:
        shown = palette("dark" if ground == "dark" else "light", ground, 256).apply(f"\x1b[{ROLES[role]}mx")
        number = int(re.findall(r"48;5;(\d+)", shown)[0]) - 16
        assert number < 216, f"{role} is grey"
        return number // 36, number // 6 % 6, number % 6

    for removed, added in (("removed", "added"), ("removed_word", "added_word")):
        red, green, blue = background(removed)
        assert red > max(green, blue)
        red, green, blue = background(added)
        assert green > max(red, blue)


def test_sixteen_colours_are_those_of_the_terminal() -> None:
    for name in BUILT_IN:
        for ground in GROUNDS:
            shown = palette(name, ground, 16).apply("".join(f"\x1b[{code}mx" for code in ROLES.values()))
            assert "38;" not in shown
            assert "48;" not in shown


@pytest.mark.parametrize("name", ["dark", "contrast", "colorblind"])
def test_of_sixteen_colours_those_on_black_can_be_read_as_xterm_shows_them(name: str) -> None:
    """Its blue cannot."""
    xterm = {31: "#cd0000", 32: "#00cd00", 33: "#cdcd00", 34: "#0000ee", 35: "#cd00cd", 36: "#00cdcd", 90: "#7f7f7f",
             91: "#ff0000", 92: "#00ff00", 93: "#ffff00", 94: "#5c5cff", 95: "#ff00ff", 96: "#00ffff"}  # fmt: skip
    for role, code in ROLES.items():
        shown = palette(name, "dark", 16).apply(f"\x1b[{code}mx")
        for number in re.findall(r"(?<=[\[;])(3[1-6]|9[0-6])(?=[;m])", shown):
            assert contrast(xterm[int(number)], "#000000") >= 3.0, role


def test_a_theme_of_ones_own_changes_some_colours(tmp_path: Path) -> None:
    folder = tmp_path / ".agent/themes"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text(
        'base = "light"\ndanger = "#ff0000"\nkeyword = "bold bright-blue"\nuser = "red on #eeeeee"\n'
    )
    mine = palette("mine", home=tmp_path)
    assert mine.apply("\x1b[31mx\x1b[95my\x1b[100mz") == ("\x1b[38;2;255;0;0mx\x1b[1;94my\x1b[48;2;238;238;238;31mz")
    assert mine.apply("\x1b[32mx") == palette("light").apply("\x1b[32mx")
    assert palette("mine", depth=16, home=tmp_path).apply("\x1b[31mx\x1b[33my") == "\x1b[31mx\x1b[35my"
    assert list(theme_names(tmp_path))[-1] == "mine"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('dangr = "#ff0000"', "there is no colour 'dangr'"),
        ('danger = "reddish"', 'danger must be "#rrggbb" or a name'),
        ('danger = "#ff00"', 'danger must be "#rrggbb" or a name'),
        ("danger = 3", 'danger must be "#rrggbb" or a name'),
        ('base = "mine"', "base must be one of dark, light, contrast, colorblind"),
        ("danger = ", "cannot be read"),
    ],
)
def test_a_mistake_in_a_theme_is_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    folder = tmp_path / ".agent/themes"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text(text)
    with pytest.raises(UsageError) as error:
        load_theme("mine", "dark", tmp_path)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["solar", "../etc/passwd", ""])
def test_a_theme_that_is_not_there_is_named_with_those_that_are(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="use one of auto, dark, light, contrast, colorblind, none"):
        load_theme(name, "dark", tmp_path)


def test_auto_follows_the_background_and_a_named_theme_does_not() -> None:
    auto, dark = (Colors(name, {"TERM": "xterm-256color"}, color=True) for name in ("auto", "dark"))
    before = auto.palette.apply("\x1b[36mx"), dark.palette.apply("\x1b[36mx")
    assert before[0] == before[1]
    auto.set_background("light")
    dark.set_background("light")
    assert auto.palette.apply("\x1b[36mx") == palette("light", depth=256).apply("\x1b[36mx")
    assert dark.palette.apply("\x1b[36mx") == before[1]
    assert (auto.depends_on_background, dark.depends_on_background) == (True, False)


@pytest.mark.parametrize(
    ("answer", "ground"),
    [
        ("rgb:ffff/ffff/ffff", "light"),
        ("rgb:1e1e/1e1e/1e1e", "dark"),
        ("rgb:fd/f6/e3", "light"),
        ("rgb:0/2b/36", "dark"),
        ("rgba:0000/0000/0000/ffff", "dark"),
        ("?", None),
    ],
)
def test_the_background_is_read_from_an_answer(answer: str, ground: str | None) -> None:
    assert parse_background(answer) == ground


def test_colorfgbg_names_the_background_where_nothing_answers() -> None:
    assert [guess_background({"COLORFGBG": given}) for given in ("0;15", "15;default;0", "", "0;7")] == [
        "light", "dark", "dark", "light",
    ]  # fmt: skip


def test_only_terminals_that_bear_it_are_asked() -> None:
    assert [may_ask_background({"TERM": term}) for term in ("xterm-256color", "dumb", "", "linux", "screen")] == [
        True, False, False, False, False,
    ]  # fmt: skip
    assert may_ask_background({"TERM": "screen", "TMUX": "/tmp/x"})


ANSWER = "\x1b]11;rgb:ffff/ffff/ffff\x1b\\"


@pytest.mark.parametrize("end", ["\x1b\\", "\x07"])
@pytest.mark.parametrize("cut", range(4, 26))
def test_an_answer_in_two_pieces_is_never_taken_for_keys(cut: int, end: str) -> None:
    answer = f"\x1b]11;rgb:ffff/ffff/ffff{end}"
    found: list[str] = []
    answers = AnswerFilter()
    answers.expect(BACKGROUND_ANSWER, found.append)
    keys = answers.keys(f"ab{answer[:cut]}") + answers.keys(f"{answer[cut:]}cd")
    assert (keys, found) == ("abcd", ["rgb:ffff/ffff/ffff"])
    assert answers.keys(answer) == answer


def test_escape_before_the_rest_of_an_answer_is_a_key_at_once() -> None:
    found: list[str] = []
    answers = AnswerFilter()
    answers.expect(BACKGROUND_ANSWER, found.append)
    assert [answers.keys("\x1b"), answers.keys(f"{ANSWER[1:]}x")] == ["\x1b", "x"]
    assert found == ["rgb:ffff/ffff/ffff"]


@pytest.mark.parametrize(("after", "ground"), [(0.05, "light"), (60.0, "dark")])
def test_a_late_answer_changes_nothing_and_is_no_key(after: float, ground: str) -> None:
    now = 100.0
    colors = Colors("auto", {"TERM": "xterm-256color"}, color=True)
    question, answers = BackgroundQuestion(colors, lambda: now, lambda: None), AnswerFilter()
    assert question.ask(answers) == "\x1b]11;?\x1b\\"
    assert question.wait == pytest.approx(0.12)
    now += after
    assert answers.keys(f"a{ANSWER}b") == "ab"
    assert (colors.background, question.wait) == (ground, 0.0)
