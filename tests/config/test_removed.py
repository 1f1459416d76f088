"""Settings that were removed: named once with what to do now, ignored everywhere, and none of them is a setting."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_cli.config.layers import Layers
from agent_cli.config.parsing import SettingsError
from agent_cli.config.removed import REMOVED, without_removed
from agent_cli.config.schema import Settings, tables
from agent_cli.kernel.runtime.saved_settings import SettingsFile
from agent_tools.record import from_json, hints_of
from tests.support.fork_server import ROOT
from tests.support.program import agent
from tests.support.scripts import script


def test_a_removed_setting_is_named_once_and_ignored(tmp_path: Path) -> None:
    layers = Layers()
    for name in ("a", "b"):
        text = 'prefill = "Sure:"\nmodel = "x/y"\n[results]\nshort = "no number"\nclear = false\n'
        (tmp_path / name).write_text(text)
        layers.add_file(tmp_path / name, "user")
    assert layers.ignored == [
        f"{tmp_path}/a:1: prefill was removed: say in append_system_prompt how answers begin",
        f"{tmp_path}/a:4: results.short was removed: its value is now fixed at 10000",
    ]
    assert (layers.settings().model, layers.settings().results.clear) == ("x/y", False)


def test_it_does_not_end_a_run_whatever_names_it(tmp_path: Path) -> None:
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    (home / ".agentrc").write_text("verbosity = 3\n")
    model = script(tmp_path / "s.toml", [{"text": "Done."}])
    options = ["--settings", "stdin_wait = 1", "--settings", json.dumps({"max_denials": 9})]
    done = agent(["-p", "--model", model, *options, "hi"], work, {"AGENT_PREFILL": "x", "AGENT_WEB_MAX_BYTES": "9"})
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    for name in ("verbosity", "stdin_wait", "max_denials", "prefill", "web.max_bytes"):
        assert done.stderr.count(f"{name} was removed: {REMOVED[name]}") == 1


def test_a_session_that_was_stored_with_one_is_resumed() -> None:
    stored = {"type": "Settings", "model": "x/y", "prefill": "a", "undo": {"type": "Undo", "days": 3.0, "keep": False}}
    settings = from_json(Settings, without_removed(stored))
    assert (settings.model, settings.undo.keep) == ("x/y", False)


def test_it_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"web\.max_bytes was removed"):
        SettingsFile(tmp_path / ".agentrc").set("web.max_bytes", 1)
    assert not (tmp_path / ".agentrc").exists()


@pytest.mark.parametrize("name", REMOVED)
def test_it_is_no_setting_and_the_changelog_says_what_to_do(name: str) -> None:
    table, _, key = name.rpartition(".")
    assert key not in hints_of(tables()[table] if table else Settings)
    assert f"`{name}`" in (ROOT / "CHANGELOG.md").read_text("utf-8")
