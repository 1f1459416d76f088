"""Which problems an edit brought, and how they are reported."""

from __future__ import annotations

from agent_tools.diagnostics.parsers import MAX_SHOWN, Problem, new_problems, problem_lines


def at(*places: tuple[int, str]) -> list[Problem]:
    return [Problem(line, message, "x") for line, message in places]


def test_problems_that_only_moved_are_old() -> None:
    old, new = "a\nbad\n", "new\nnew\na\nbad\n"
    assert new_problems(at((2, "is bad")), old, at((4, "is bad")), new) == ()


def test_of_two_equal_lines_the_added_one_is_new() -> None:
    found = new_problems(at((1, "is bad")), "bad\n", at((1, "is bad"), (2, "is bad")), "bad\nbad\n")
    assert found == (Problem(2, "is bad", "x"),)


def test_a_problem_of_a_changed_line_is_old_where_it_was_there_before() -> None:
    assert new_problems(at((1, "is bad")), "bad(1)\n", at((1, "is bad")), "bad(2)\n") == ()


def test_one_far_from_the_edit_is_new_where_the_earlier_ones_are_known() -> None:
    old, new = "import os\n\nos.x\n", "\nos.x\n"
    assert new_problems([], old, at((2, "os is undefined")), new) == tuple(at((2, "os is undefined")))


def test_line_numbers_in_messages_do_not_make_a_problem_new() -> None:
    old, new = "a\nb\n", "x\na\nb\n"
    assert new_problems(at((2, "already defined on line 1")), old, at((3, "already defined on line 2")), new) == ()


def test_without_earlier_problems_those_of_changed_lines_count() -> None:
    old, new = "a\nb\nc\n", "a\nB\nc\n"
    assert new_problems(None, old, at((1, "p"), (2, "q"), (3, "r"), (99, "s")), new) == tuple(at((2, "q")))


def test_few_are_shown_errors_first_each_on_one_safe_line() -> None:
    many = [Problem(n, f"no {n}", "x", error=False) for n in range(1, MAX_SHOWN + 3)]
    lines = problem_lines("a.py", [*many, Problem(50, "an\n  error \x1b[31m" + "y" * 999, "z"), many[0]])
    assert len(lines) == MAX_SHOWN + 1 and lines[-1] == "[3 more new problems]"
    assert lines[0].startswith("a.py:50: an error \\x1b[31myyy") and len(lines[0]) < 300
    assert lines[1] == "a.py:1: no 1 (x)"
