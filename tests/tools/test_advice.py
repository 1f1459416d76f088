"""What an error advises: only tools that are on offer, and the file that was meant where there is just that one."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_tools.search.ripgrep import find_rg
from tests.support.program import agent
from tests.support.scripts import call, script
from tests.support.tool_bench import Bench


@pytest.mark.parametrize(
    ("offered", "tool", "path", "advice"),
    [
        ("LS Glob", "Read", "src", "src is a directory, not a file. Use LS or Glob to see what is in it."),
        ("Glob", "Read", "src", "not a file. Use Glob to see what is in it."),
        ("", "Read", "src", "not a file."),
        ("Bash", "Read", "src", "src is a directory, not a file. Use Bash with ls to see what is in it."),
        ("Bash", "Edit", "src", "src is a directory, not a file. Use Bash with ls to see what is in it."),
        ("Read", "LS", "src/a.py", "not a directory. Use Read to see what is in it."),
        ("", "LS", "src/a.py", "not a directory."),
        ("Bash", "LS", "src/a.py", "not a directory. Use Bash with cat to see what is in it."),
        ("Bash Grep", "Read", "lib/gone.py", "the nearest that does is '.'. Use Bash with ls to find the right path."),
        ("Bash Grep", "Read", "src/odd", "src/odd does not exist. Use Bash with find to look for it."),
        ("LS", "Read", "lib/gone.py", "the nearest that does is '.'. Use LS to find the right path."),
        ("", "Read", "lib/gone.py", "nor does its directory; the nearest that does is '.'."),
        ("Glob", "Read", "src/odd{x}", "src/odd{x} does not exist. Glob **/odd{x} may find it."),
        ("", "Read", "src/odd", "src/odd does not exist."),
        ("Bash", "Read", "large", "large is too large (60,000,000 bytes). Use Bash with sed, awk or head."),
    ],
)
def test_only_tools_on_offer_are_named(bench: Bench, offered: str, tool: str, path: str, advice: str) -> None:
    bench.file("src/a.py", "x")
    bench.ctx.workspace.offered = offered.split().__contains__
    if path == "large":
        with (bench.root / "large").open("wb") as file:
            file.truncate(60_000_000)
        tool = "Edit"
    argument = {"path": path} if tool == "LS" else {"file_path": path}
    more = {"old_string": "a", "new_string": "b"} if tool == "Edit" else {}
    assert bench.fails(tool, **argument, **more).endswith(advice)


def test_the_file_that_has_the_name_of_a_missing_one_is_named(bench: Bench) -> None:
    for name in ("src/handlers.py", "src/x/one.py", "src/y/one.py", *(f"{n}/many.py" for n in "abcd"), "[a]/odd[1].py"):
        bench.file(name, "x")
    bench.file("build/made.py", "x")
    bench.file(".gitignore", "build\n")
    assert bench.fails("Read", file_path="handlers.py") == "handlers.py does not exist. src/handlers.py has that name."
    assert bench.fails("Edit", file_path="lib/handlers.py", old_string="a", new_string="b") == (
        "lib/handlers.py does not exist, nor does its directory; the nearest that does is '.'. "
        "src/handlers.py has that name."
    )
    two = bench.fails("Read", file_path="one.py")
    assert "src/x/one.py" in two and "src/y/one.py" in two and two.endswith(" have that name.")
    assert "many.py may find it" in bench.fails("Read", file_path="many.py")
    assert bench.fails("Read", file_path="odd[1].py").endswith("[a]/odd[1].py has that name.")
    if find_rg(bench.ctx):
        assert "build/made.py" not in bench.fails("Read", file_path="made.py")
    bench.ctx.readable = lambda path: False
    assert "src" not in bench.fails("Read", file_path="handlers.py")
    assert "has that name" not in bench.fails("Read", file_path="../handlers.py")


def test_it_is_found_without_ripgrep_too(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_tools.search.ripgrep.find_rg", lambda ctx: None)
    bench.file("src/handlers.py", "x")
    assert bench.fails("Read", file_path="handlers.py").endswith("src/handlers.py has that name.")


def test_a_run_with_few_tools_is_advised_to_use_those(work: Path) -> None:
    (work / "src").mkdir()
    replies = [
        {"calls": [call("Read", file_path="src")]},
        {"text": "Done.", "expect": "src is a directory, not a file. Use Bash with ls to see what is in it."},
    ]
    args = ["-p", "--model", script(work.parent / "s.toml", replies), "--tools", "Read,Edit,Bash"]
    done = agent([*args, "--output-format", "stream-json", "look"], work)
    assert done.returncode == 0 and "not a file" in done.stdout and "Use LS" not in done.stdout, done.stdout


@pytest.mark.parametrize(("offered", "changed"), [("Edit Write Bash", True), ("Edit Write Read", False)])
def test_reading_first_is_only_demanded_where_there_is_a_tool_to_read(
    bench: Bench, offered: str, changed: bool
) -> None:
    bench.ctx.workspace.offered = offered.split().__contains__
    for name, arguments in (("Edit", {"old_string": "one", "new_string": "two"}), ("Write", {"content": "two\n"})):
        path = bench.file(f"{name}.txt", "one\n")
        if changed:
            bench(name, file_path=path.name, **arguments)
            assert path.read_text() == "two\n"
        else:
            assert "Read it first" in bench.fails(name, file_path=path.name, **arguments)
