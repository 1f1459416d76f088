"""How texts are shortened for a line."""

from __future__ import annotations

import pytest

from agent_tools.text import short_path


@pytest.mark.parametrize(
    ("path", "folder", "shown"),
    [
        ("/w/p/a.py", "/w/p", "a.py"),
        ("/w/p/a.py", "/w/p/", "a.py"),
        ("/w/p2/a.py", "/w/p", "/w/p2/a.py"),
        ("/tmp/out.txt", "/w/p", "/tmp/out.txt"),
        ("/w/p", "/w/p", "/w/p"),
        ("/w/p/a.py", "", "/w/p/a.py"),
        ("/w/p/a.py", "/", "/w/p/a.py"),
        ("a.py", "/w/p", "a.py"),
    ],
)
def test_a_path_below_a_folder_is_relative_and_another_one_stays(path: str, folder: str, shown: str) -> None:
    assert short_path(path, folder) == shown
