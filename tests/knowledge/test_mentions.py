"""Files that a message mentions: whole, in part, and those that are not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_cli.knowledge.template import missing_files, with_files
from agent_tools.base import ToolContext
from agent_tools.fs.encoding import fingerprint
from agent_tools.fs.workspace import Workspace


def context(root: Path) -> ToolContext:
    (root / "n.txt").write_text("".join(f"line {n}\n" for n in range(1, 21)))
    (root / "my notes.txt").write_text("mine\n")
    (root / "one.txt").write_text("x\n")
    return ToolContext(Workspace(root))


@pytest.mark.parametrize(
    ("mention", "block"),
    [
        ("@n.txt:3-4", '<file path="n.txt" lines="3-4">\nline 3\nline 4\n</file>'),
        ("(@n.txt:20).", '<file path="n.txt" lines="20-20">\nline 20\n</file>'),
        ("@one.txt:1-9", '<file path="one.txt" lines="1-9">\nx\n[the file has 1 line]\n</file>'),
        ("@n.txt:19-40", '<file path="n.txt" lines="19-40">\nline 19\nline 20\n[the file has 20 lines]\n</file>'),
        ("@n.txt:9-2", '<file path="n.txt" lines="9-9">\nline 9\n</file>'),
        ('@"my notes.txt", @"none.txt"', '<file path="my notes.txt">\nmine\n</file>'),
        ('@"my notes.txt:1"', '<file path="my notes.txt" lines="1-1">\nmine\n</file>'),
        ("@n.txt:1 and @n.txt:1", '<file path="n.txt" lines="1-1">\nline 1\n</file>'),
    ],
)
def test_lines_of_a_file(tmp_path: Path, mention: str, block: str) -> None:
    assert with_files(f"see {mention}", context(tmp_path)) == f"see {mention}\n\n{block}"


def test_a_name_with_a_colon_counts_before_a_range(tmp_path: Path) -> None:
    (tmp_path / "odd:3").write_text("whole\n")
    assert with_files("@odd:3", context(tmp_path)) == '@odd:3\n\n<file path="odd:3">\nwhole\n</file>'


def test_what_is_spelled_like_a_file_and_is_none_is_reported(tmp_path: Path) -> None:
    words = '@none.py and @src/none.md:1-3, @pytest.fixture @types/node a@b.py @docs:x.md @n.txt, `@in.py` @"a b.md"'
    assert missing_files(words, context(tmp_path)) == ["none.py", "src/none.md:1-3", "a b.md"]


def test_a_path_from_where_the_session_began_is_found_wherever_commands_run_now(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/n.txt").write_text("inner\n")
    ctx = context(tmp_path)
    ctx.workspace.cwd = tmp_path / "sub"
    assert with_files("@sub/n.txt", ctx).endswith(f'<file path="{tmp_path}/sub/n.txt">\ninner\n</file>')
    assert with_files("@n.txt", ctx).endswith('<file path="n.txt">\ninner\n</file>')
    assert missing_files("@sub/n.txt", ctx) == []


def test_what_a_block_shows_counts_as_read_once_a_message_carries_it(tmp_path: Path) -> None:
    ctx = context(tmp_path)
    (tmp_path / "long.txt").write_text("short\n" + "x" * 40_000)
    text = with_files("@n.txt:1-3 @n.txt:5-6 @n.txt:25 @long.txt", ctx)
    assert ctx.seen == {}
    assert ctx.nested().mark_mentions_read(text) == {}
    assert ctx.mark_mentions_read("another message") == ctx.seen == {}
    n, long = (fingerprint((tmp_path / name).read_bytes()) for name in ("n.txt", "long.txt"))
    known = {
        str(tmp_path / "n.txt"): f"{n} 1-3@:message,5-6@:message/20",
        str(tmp_path / "long.txt"): f"{long} 1-1@:message/2",
    }
    assert ctx.mark_mentions_read(f"<hook>\n{text}") == ctx.seen == known
    with_files("@n.txt", ctx)
    assert [*ctx.mentioned.values()][-1] == (str(tmp_path / "n.txt"), f"{n} 1-20@:message/20")
