"""A path that begins with a variable: no folder is named after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_tools.base import ToolError
from agent_tools.fs.workspace import Workspace
from tests.support.tool_bench import TOOLS, Bench


@pytest.mark.parametrize("form", ["$HOME", "${HOME}", "~"])
def test_the_home_directory_is_meant_by_its_variable(tmp_path: Path, form: str) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "home").mkdir()
    bench = Bench(tmp_path / "work")
    bench.ctx.workspace = Workspace(tmp_path / "work", home=str(tmp_path / "home"))
    written = {"file_path": f"{form}/notes.txt", "content": "x\n"}
    effects = TOOLS["Write"].effects(bench.args("Write", written), bench.ctx)
    assert [e.target for e in effects] == [str(tmp_path / "home/notes.txt")]
    bench("Write", **written)
    bench("Edit", file_path=f"{form}/notes.txt", old_string="x", new_string="y")
    assert (tmp_path / "home/notes.txt").read_text() == "y\n"
    assert bench("Read", file_path=f"{form}/notes.txt").text.endswith("y")
    assert "notes.txt" in bench("LS", path=form).text
    assert bench("Glob", pattern=f"{form}/*.txt").text == str(tmp_path / "home/notes.txt")
    assert "notes.txt" in bench("Grep", pattern="y", path=form).text
    assert not list((tmp_path / "work").iterdir())


def test_the_working_directory_is_meant_by_its_variable(bench: Bench) -> None:
    bench("Write", file_path="$PWD/a.txt", content="x\n")
    assert [p.name for p in bench.root.iterdir()] == ["a.txt"]


@pytest.mark.parametrize(
    "path",
    ["$PROJECT/x", "${project}/x", "%USERPROFILE%/x", "%USERPROFILE%\\x", "%AppData%/x", "$env:HOME/x", "$(pwd)/x",
     "$XDG_CONFIG_HOME", "$_X/y"],
)  # fmt: skip
@pytest.mark.parametrize("tool", ["Write", "Read", "Edit", "LS", "Glob", "MultiEdit", "apply_patch"])
def test_other_variables_are_not_taken_for_names(bench: Bench, path: str, tool: str) -> None:
    arguments = {
        "Write": {"file_path": path, "content": "x"},
        "Read": {"file_path": path},
        "Edit": {"file_path": path, "old_string": "", "new_string": "x"},
        "LS": {"path": path},
        "Glob": {"pattern": f"{path}/*.py"},
        "MultiEdit": {"edits": [{"file_path": path, "old_string": "", "new_string": "x"}]},
        "apply_patch": {"patch": f"*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch"},
    }
    with pytest.raises(ToolError, match="is not replaced by its value here"):
        bench(tool, **arguments[tool])
    assert not list(bench.root.iterdir())


@pytest.mark.parametrize(
    "path", ["$userId/page.tsx", "routes/$HOME/x", "$id.tsx", "$HOME.txt", "%d/x", "$", "a$B", "100%"]
)
def test_names_with_a_dollar_are_names(bench: Bench, path: str) -> None:
    bench("Write", file_path=path, content="x\n")
    assert (bench.root / path).read_text() == "x\n"


def test_a_folder_that_is_named_so_is_used(bench: Bench) -> None:
    (bench.root / "$HOME").mkdir()
    (bench.root / "%X%").mkdir()
    bench("Write", file_path="$HOME/x", content="1")
    bench("Write", file_path="%X%/x", content="1")
    assert sorted(str(p.relative_to(bench.root)) for p in bench.root.rglob("x")) == ["$HOME/x", "%X%/x"]
