"""A project whose turns are staged."""

from pathlib import Path

import pytest

from tests.support.staged_projects import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)
