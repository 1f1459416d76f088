"""What a long output shows of the errors in the part that is cut out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agent_tools.results import ResultLimits
from agent_tools.shell.error_lines import describe_error_lines
from tests.support.tool_bench import Bench


def script(bench: Bench, code: str) -> str:
    bench.file("p.py", code)
    return bench("Bash", command="python3 p.py").text


def test_a_long_output_names_the_lines_that_look_like_errors(bench: Bench) -> None:
    text = script(
        bench,
        "import sys\n"
        "for n in range(1, 30_001):\n"
        "    error = f'E       OSError: [Errno 30] Read-only file system: {n}' if n % 2000 == 1000 else ''\n"
        "    failed = 'FAILED tests/test_a.py::test_b - AssertionError' if n == 15_500 else ''\n"
        "    print(error or failed or f'tests/a.py::test_{n} PASSED')\n"
        "sys.exit(1)\n",
    )
    assert "[Lines of this part that look like errors, 2 of 16:]\n1000\tE       OSError" in text
    assert "\n15500\tFAILED tests/test_a.py::test_b - AssertionError\n" in text
    assert text.startswith("tests/a.py::test_1 PASSED\n") and "test_30000 PASSED\n[exit code 1" in text
    assert len(text) < ResultLimits().short + 1_000
    (path,) = re.findall(r"all of it is in (\S+);", text)
    assert bench("Read", file_path=path, offset=15_500, limit=1).text.startswith("15500\tFAILED tests/test_a.py")


def test_of_a_long_line_the_error_is_shown_and_not_the_beginning(bench: Bench) -> None:
    loop = "for n in range(3000):\n    print('x' * 5000 + ' OSError: no room' * (n == 900) + 'y' * 9000 * (n == 900))\n"
    text = script(bench, f"{loop}raise SystemExit(1)\n")
    assert "\n901\t… xxx" in text and "x OSError: no room" in text
    assert "y … [column 5,002 of 14,017 characters in this line]" in text


def test_many_errors_stay_within_the_room(bench: Bench) -> None:
    loop = "for n in range(5000):\n    print(f'{chr(97 + n % 26) * (n % 40)} error: {n * 77} ' + 'x' * 300)\n"
    text = script(bench, f"{loop}raise SystemExit(1)\n")
    assert len(text) < ResultLimits().short + 1_000
    assert re.search(r"errors, \d+ of 4,9\d\d:\]", text)


def test_a_short_output_and_one_without_errors_have_no_such_lines(bench: Bench) -> None:
    assert "look like errors" not in script(bench, "print('error: one')\nraise SystemExit(1)\n")
    assert "look like errors" not in script(bench, "for n in range(9000):\n    print(n, '0 errors, no failures')\n")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("src/a.c:12:5: error: expected ';'", True),
        ("src/a.ts(3,4): error TS2345: no", True),
        ("error[E0308]: mismatched types", True),
        ("ValueError: bad", True),
        ("  ✕ adds numbers", True),
        ("not ok 3 - adds", True),
        ("bash: line 1: foo: command not found", True),
        ("make: *** [x] Error: 2", True),
        ("ld: undefined reference to `f'", True),
        ("--- FAIL: TestX (0.00s)", True),
        ("0 errors, 2 warnings", False),
        ("cc -Werror -c a.c", False),
        ("test_error_handling PASSED", False),
        ("an errors.py file", False),
        ("    except FileExistsError as exc:", False),
        ("        raise LockFileError('locked') from exc", False),
        ("E        +  where 'ValueError: x' = f()", False),
    ],
)
def test_what_looks_like_an_error(tmp_path: Path, line: str, found: bool) -> None:
    path = tmp_path / "out"
    path.write_text(f"first\n{line}\nlast\n")
    assert bool(describe_error_lines(path, 0, 10_000, 1_000)) == found


def test_of_a_huge_output_both_ends_are_searched(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with path.open("w") as file:
        for n in range(1, 400_001):
            file.write(f"KeyError: {chr(97 + n % 7)}\n" if n in (5, 200_000, 399_990) else f"{n} {'x' * 60}\n")
    found = describe_error_lines(path, 0, path.stat().st_size, 1_000)
    assert [line.split("\t")[0] for line in found.splitlines()[1:]] == ["5", "399990"]
