"""A corpus of what models get wrong in an edit: what is put right, and what they are told where it cannot be."""

from __future__ import annotations

import pytest

from agent_tools.base import ToolError
from agent_tools.edit.matching import replace
from tests.support.tool_bench import Bench

PYTHON = """\
import re


def alpha(x):
    if x:
        print("hello\\n", x)
        return None
    return 1


class Beta:
\tdef gamma(self, y):
\t\tpattern = re.compile("\\\\d+")
\t\treturn pattern.match(y)
"""
PROSE = "He said “yes” – and left.\nIt’s done…\nPage\u00a012\n"


def place(content: str, old: str, new: str) -> tuple[str, str]:
    """What an edit puts into the one place that it finds, and its note."""
    edited = replace(content, old, new)
    (splice,) = edited.splices
    return splice.new, edited.note


@pytest.mark.parametrize(
    ("content", "old", "new", "becomes", "note"),
    [
        pytest.param(
            PYTHON,
            'if x:\n    print("hello\\n", x)\n    return None',
            'if x:\n    print("bye\\n", x)\n    return 0',
            '    if x:\n        print("bye\\n", x)\n        return 0',
            "indentation",
            id="indentation left out",
        ),
        pytest.param(
            PYTHON,
            "      return None\n  return 1\n",
            "      return 0\n  return 2\n",
            "        return 0\n    return 2\n",
            "indentation",
            id="indentation by one offset",
        ),
        pytest.param(
            PYTHON,
            '        pattern = re.compile("\\\\d+")\n        return pattern.match(y)',
            '        pattern = re.compile("\\\\w+")\n        if y:\n            return pattern.match(y)',
            '\t\tpattern = re.compile("\\\\w+")\n\t\tif y:\n\t\t\treturn pattern.match(y)',
            "indentation",
            id="blanks for tabs",
        ),
        pytest.param(
            PYTHON,
            '\tif x:\n\t\tprint("hello\\n", x)',
            "\tif x:\n\t\tlog(x)",
            "    if x:\n        log(x)",
            "indentation",
            id="tabs for blanks",
        ),
        pytest.param(
            PYTHON,
            "    return 1  \n\n",
            "    return 2\n\n",
            "    return 2\n\n",
            "whitespace at line ends",
            id="trailing blanks",
        ),
        pytest.param(
            PROSE,
            'He said "yes" - and left.',
            'He said "no" - and left.',
            "He said “no” – and left.",
            "typographic",
            id="plain quotes and dash for typographic ones",
        ),
        pytest.param(
            PROSE, "It's done…\nPage 12", "It's done…\nPage 13", "It’s done…\nPage\u00a013", "typographic", id="blank"
        ),
        pytest.param(
            "print('a - b')\n", "print(‘a – b’)", "print(‘a – c’)", "print('a - c')", "typographic", id="smart quotes"
        ),
        pytest.param(
            PYTHON,
            '        print(\\"hello\\n\\", x)',
            '        print(\\"bye\\", x)',
            '        print("bye", x)',
            "one level of escaping",
            id="quotes escaped",
        ),
        pytest.param(
            PYTHON,
            '        print(\\"hello\\\\n\\", x)\\n        return None',
            '        print(\\"bye\\\\n\\", x)\\n        return 0',
            '        print("bye\\n", x)\n        return 0',
            "one level of escaping",
            id="everything escaped",
        ),
        pytest.param(
            PYTHON,
            "    return 1\\n\\n\\nclass Beta:",
            "    return 2\\n\\nclass Beta:",
            "    return 2\n\nclass Beta:",
            "one level of escaping",
            id="line ends escaped",
        ),
        pytest.param(
            PYTHON,
            "\\tdef gamma(self, y):",
            "\\tdef delta(self, y):",
            "\tdef delta(self, y):",
            "one level",
            id="tab escaped",
        ),
        pytest.param(
            PYTHON,
            'pattern = re.compile(\\"\\\\\\\\d+\\")',
            'pattern = re.compile(\\"\\\\\\\\w+\\")',
            '\t\tpattern = re.compile("\\\\w+")',
            "(also removed from new_string) and indentation (new_string was also shifted)",
            id="backslashes escaped, indentation left out",
        ),
        pytest.param("it's\n", "it\\'s", "it\\'s not", "it's not", "one level", id="apostrophe escaped"),
        pytest.param("a\r\nb\r\n", "a\nb", "a\nc", "a\r\nc", "", id="line ends"),
    ],
)
def test_what_is_put_right_and_reported(content: str, old: str, new: str, becomes: str, note: str) -> None:
    made, found = place(content, old, new)
    assert made == becomes
    assert (note in found) if note else not found


@pytest.mark.parametrize(
    ("content", "old", "new", "words"),
    [
        pytest.param(
            PYTHON,
            "4\tdef alpha(x):\n5\t    if x:",
            "4\tdef beta(x):",
            ["line number as files are shown", "also in new_string", "Without them it matches line 4."],
            id="Read's line numbers",
        ),
        pytest.param(
            PYTHON,
            "14\t\t\treturn pattern.match(y)",
            "x",
            ["line number", "matches line 14"],
            id="one line with its number",
        ),
        pytest.param(
            PYTHON,
            "4:def alpha(x):\n5-    if y:",
            "x",
            ["line number", "most similar place is lines 4-5", "line 5, from column 8 on"],
            id="Grep's line numbers, and a mistake beside",
        ),
        pytest.param(
            PYTHON,
            "def alpha(x):\n    ...\n    return 1",
            "x",
            ["'...' seems to be a placeholder for omitted text", "line 6 is missing in old_string"],
            id="three dots for the middle",
        ),
        pytest.param(
            PYTHON,
            "def alpha(x):\n    # ... existing code ...\n    return 1",
            "x",
            ["'# ... existing code ...' seems to be a placeholder for omitted text"],
            id="a comment for the middle",
        ),
        pytest.param(
            "x" * 2_100 + "\n",
            "x" * 2_000 + " … [100 more characters in this line]",
            "y",
            ["the note on a truncated line"],
            id="Read's note on a truncated line",
        ),
        pytest.param(
            PYTHON,
            'def alpha(x):\n  if x:\n      print("hello\\n", x)',
            "x",
            ["lines 4-6", "line 5, indentation: 4 spaces in the file, 2 spaces in old_string"],
            id="indentation that is not one offset",
        ),
        pytest.param(
            PYTHON,
            "    def gamma(self, yy):",
            "x",
            ["line 12, from column 1 on", "\tdef gamma(self, y):"],
            id="indented and wrong",
        ),
        pytest.param(PYTHON, "Def Alpha(x):", "x", ["line 4, upper and lower case"], id="case"),
        pytest.param(PYTHON, "def alpha( x ):", "x", ["line 4, whitespace inside the line"], id="blanks inside"),
        pytest.param(
            PYTHON,
            "    if x:\n        return None\n",
            "x",
            ["most similar place is lines 5-7", "line 6 is missing in old_string"],
            id="a line left out",
        ),
        pytest.param(
            PYTHON,
            '    if x:\n        x = 2\n        print("hello\\n", x)',
            "x",
            ["old_string has a line that is not there", "x = 2"],
            id="a line too many",
        ),
        pytest.param(
            PYTHON, "def omega(x):", "def alpha(x):", ["new_string is already at line 4"], id="an edit that is done"
        ),
        pytest.param(
            PYTHON, "def alhpa(xx):", "x", ["most similar place is line 4", "line 4, from column 7 on"], id="misspelled"
        ),
        pytest.param(
            PYTHON,
            '\t\tpattern = re.compile("\\d+")',
            "x",
            ["With each backslash doubled it is at line 13"],
            id="backslashes not escaped",
        ),
        pytest.param(
            PYTHON,
            'print(\\"hello',
            'print(\\"bye',
            ["With one level of escaping removed it is at line 6"],
            id="a part of a line, escaped",
        ),
        pytest.param(
            PYTHON,
            '        print(\\"hello\\n\\", x)',
            '        print("bye", x)',
            ["matches line 6 with one level of escaping removed", "new_string"],
            id="only the old text escaped",
        ),
        pytest.param(
            'say("a")\n',
            'say(\\"a\\")',
            'say(\\"b\\n\\")',
            ["more than one way", "without added backslashes"],
            id="escaped in a way that may mean two things",
        ),
        pytest.param(
            'say("a")\nsay("a")\n',
            'say(\\"a\\")',
            'say(\\"b\\")',
            ["2 places (lines 1, 2)"],
            id="escaped, in two places",
        ),
        pytest.param(
            PYTHON,
            "    return",
            "x",
            ["2 places (lines 7, 8)", "spelled exactly like this", "Add neighbouring lines"],
            id="ambiguous",
        ),
        pytest.param(
            "\tx = 1\nb\n\tx = 1\n",
            "    x = 1",
            "    x = 2",
            ["2 places (lines 1, 3)", "set replace_all to change all matches (ignoring indentation"],
            id="ambiguous but for indentation",
        ),
        pytest.param(
            PYTHON,
            "pattern.search(y)",
            "x",
            ["most similar place is line 14", "return pattern.match(y)"],
            id="a wrong part",
        ),
        pytest.param(PYTHON, "zzz qqq", "x", ["Nothing in the file resembles", "for a part"], id="nothing like it"),
        pytest.param(PYTHON, " \n ", "x", ["not found"], id="blanks only"),
        pytest.param("", "a", "b", ["Nothing in the file resembles it"], id="an empty file"),
        pytest.param(PYTHON, "import re", "import re", ["equal: there is nothing to change"], id="no change"),
        pytest.param("a \n", "a", "a", ["nothing to change"], id="no change at all"),
    ],
)
def test_what_cannot_be_put_right_is_explained(content: str, old: str, new: str, words: list[str]) -> None:
    with pytest.raises(ToolError) as caught:
        replace(content, old, new)
    text = str(caught.value)
    assert [w for w in words if w not in text] == [], text
    assert len(text) < 3_000


def test_a_level_of_escaping_is_never_taken_from_a_part_of_a_line_or_added() -> None:
    for content, old in ((PYTHON, '\\"hello'), (PYTHON, '\t\tpattern = re.compile("\\d+")'), ("x\\n\n", "x\n\n")):
        with pytest.raises(ToolError, match="not found"):
            replace(content, old, "new")


def test_every_place_that_fits_is_moved_by_its_own_shift() -> None:
    content = "if a:\n\tx = 1  \n\ty = 2\nelse:\n\t\tx = 1\n\t\ty = 2\n"
    edited = replace(content, "    x = 1\n    y = 2\n", "    z = 3\n    if z:\n        y = 2\n", replace_all=True)
    assert edited.content == "if a:\n\tz = 3\n\tif z:\n\t\ty = 2\nelse:\n\t\tz = 3\n\t\tif z:\n\t\t\ty = 2\n"
    assert "indentation" in edited.note and len(edited.splices) == 2
    # Where it stands literally, only that is meant.
    assert replace("  x\n\tx \n", "  x\n", "  y\n", replace_all=True).content == "  y\n\tx \n"


def test_replace_all_refuses_places_that_overlap_and_escaped_text_in_several() -> None:
    with pytest.raises(ToolError, match="overlap"):
        replace("a \na \na \n", "a\na\n", "b\n", replace_all=True)
    with pytest.raises(ToolError, match="2 places"):
        replace('say("a")\nsay("a")\n', 'say(\\"a\\")', 'say(\\"b\\")', replace_all=True)


def test_files_that_cannot_be_edited(bench: Bench) -> None:
    bench.file("a.py", PYTHON)
    bench.file("image.png", b"\x89PNG\0\0")
    (bench.root / "folder").mkdir()
    arguments = {"old_string": "x", "new_string": "y"}
    assert "Near it: a.py" in bench.fails("Edit", file_path="A.py", **arguments)
    assert "nor does its directory" in bench.fails("Edit", file_path="no/such/a.py", **arguments)
    assert "Read it first, then edit it" in bench.fails("Edit", file_path="a.py", **arguments)
    assert "a PNG image, not text" in bench.fails("Edit", file_path="image.png", **arguments)
    assert "is a directory, not a file" in bench.fails("Edit", file_path="folder", **arguments)


def test_a_small_model_learns_where_a_name_that_it_replaced_still_stands(bench: Bench) -> None:
    bench.file("a.py", "port = 1\n")
    bench.file("b.py", "print(port)\nprint(support)\n")
    bench("Read", file_path="a.py")
    change = {"file_path": "a.py", "old_string": "port = 1", "new_string": "listen = 1"}
    bench.ctx.small_model = True
    told = bench("Edit", **change).text
    assert "[`port` still in:\nb.py" in told and "print(port)" in told and "support" not in told
    bench("Read", file_path="b.py")
    last = {"file_path": "b.py", "old_string": "print(port)", "new_string": "print(listen)"}
    assert "still in" not in bench("Edit", **last).text
    bench.ctx.small_model = False
    back = {"file_path": "b.py", "old_string": "print(listen)", "new_string": "print(port)"}
    assert "still in" not in bench("Edit", **back).text
