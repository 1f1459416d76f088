"""The example and the reference say what the schema says."""

from __future__ import annotations

import re
from pathlib import Path

from agent_cli.config.layers import Layers
from agent_cli.config.reference import example, files, setting_fields
from agent_cli.config.schema import Permissions, Settings


def test_the_written_files_are_up_to_date() -> None:
    for path, text in files().items():
        assert path.read_text("utf-8") == text, f"run `make pages` ({path.name})"


def test_the_example_with_every_key_set_gives_the_defaults(tmp_path: Path) -> None:
    everything = re.sub(r"^# (\w+ = )", r"\1", example(), flags=re.MULTILINE)
    layers = Layers()
    layers.add_text(everything, ".agentrc.example", tmp_path)
    assert layers.settings() == Settings(permissions=Permissions())
    assert re.findall(r"^(\w+) = ", everything, re.MULTILINE) == [key for _, key, *_ in setting_fields()]
