"""One browser for the tests of a process, and one server for those of a file."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.support.web_page import DESK, PHONE, Served, chromium, serving


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served")) as server:
        yield server


@pytest.fixture(params=[PHONE, DESK], ids=["phone", "desk"])
def size(request: pytest.FixtureRequest) -> tuple[int, int]:
    found: tuple[int, int] = request.param
    return found


# Each flow is tried at one size, and what takes long in one theme each, unless WEB=all (`make web`).
_SOME = {
    "test_a_rejection_takes_its_words_to_the_model": ("desk",),
    "test_a_task_is_started_and_steered_on_the_page": ("phone",),
    "test_an_answer_streams_and_its_end_is_followed": ("desk",),
    "test_changes_are_shown_and_undone_after_a_preview": ("desk",),
    "test_commands_and_files_are_completed_and_no_command_is_sent": ("phone",),
    "test_no_view_is_wider_than_the_window": ("phone",),
    "test_one_hunk_of_two_is_allowed": ("phone",),
    "test_questions_are_answered_with_an_option_and_with_words": ("phone",),
    "test_what_a_model_writes_is_never_html": ("desk",),
    "test_without_a_token_there_is_a_field_for_it": ("phone",),
    "test_thousands_of_records_scroll_without_a_stop": ("phone",),
    "test_axe_finds_nothing": ("phone-dark", "dark-phone", "desk-light", "light-desk"),
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the other sizes."""
    if os.environ.get("WEB") == "all":
        return
    left = [item for item in items if not _is_chosen(item)]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if _is_chosen(item)]


def _is_chosen(item: pytest.Item) -> bool:
    name, _, case = item.name.partition("[")
    return name not in _SOME or case.rstrip("]") in _SOME[name]
