"""Changing one setting in a file of the user's: all else in it stays as it is, and a mistake changes nothing."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli.config.parsing import SettingsError
from agent_cli.kernel.runtime.saved_settings import SettingsFile


@pytest.mark.parametrize(
    ("before", "key", "value", "after"),
    [
        (None, "model", "a/b", 'model = "a/b"\n'),
        ("# mine\n", "model", "a/b", '# mine\nmodel = "a/b"\n'),
        ('model = "x" # why\neffort = "low"\n', "model", "y", 'model = "y" # why\neffort = "low"\n'),
        ("[sandbox]\nnetwork = true\n", "sandbox.auto_allow", True, "[sandbox]\nnetwork = true\nauto_allow = true\n"),
        ('sandbox = "require"\n', "sandbox.auto_allow", True, '[sandbox]\nmode = "require"\nauto_allow = true\n'),
        ("[web]\nallow_private = []\n", "model", "m", 'model = "m"\n[web]\nallow_private = []\n'),
    ],
)
def test_it_is_set_and_all_else_stays(tmp_path: Path, before: str | None, key: str, value: Any, after: str) -> None:
    path = tmp_path / ".agentrc"
    if before is not None:
        path.write_text(before)
    SettingsFile(path).set(key, value)
    assert tomllib.loads(path.read_text()) == tomllib.loads(after)
    for line in (before or "").splitlines():
        assert "#" not in line or line.partition("#")[2] in path.read_text()


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("", "no_such_key", 1),
        ("", "sandbox.mode", "sometimes"),
        ("", "sandbox.no_such_key", True),
        ("", "sandbox.auto_allow", "perhaps"),
        ('{"model": "x"}', "model", "y"),
        ("model = [", "model", "y"),
        ("\udcff", "model", "y"),
    ],
)
def test_a_mistake_changes_nothing(tmp_path: Path, text: str, key: str, value: Any) -> None:
    path = tmp_path / ".agentrc"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(SettingsError):
        SettingsFile(path).set(key, value)
    assert path.read_bytes() == text.encode("utf-8", "surrogateescape")


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cs"])))
def test_any_text_of_a_model_comes_back(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    path = tmp_path_factory.mktemp("any") / ".agentrc"
    path.write_text('# first\n[permissions]\nmode = "plan" # last\n')
    SettingsFile(path).set("model", name)
    assert tomllib.loads(path.read_text()) == {"model": name, "permissions": {"mode": "plan"}}


@pytest.mark.parametrize(
    ("before", "key", "after"),
    [
        ('# a\nmodel = "x" # b\neffort = "low"\n', "model", '# a\neffort = "low"\n'),
        (
            "[sandbox]\nnetwork = true\n# c\nauto_allow = true\n",
            "sandbox.auto_allow",
            "[sandbox]\nnetwork = true\n# c\n",
        ),
        ('effort = "low"\n', "model", 'effort = "low"\n'),
    ],
)
def test_a_setting_is_removed_and_all_else_stays(tmp_path: Path, before: str, key: str, after: str) -> None:
    path = tmp_path / ".agentrc"
    path.write_text(before)
    SettingsFile(path).remove(key)
    assert path.read_text() == after
