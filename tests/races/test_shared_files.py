"""Files of the user that several sessions change at the same time: no change is lost, and none comes back."""

from __future__ import annotations

import threading
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_cli import UsageError
from agent_cli.extras.server.guard import AccessTokenStore
from agent_cli.extras.server.pairing import Pairing
from agent_cli.extras.server.push_service import PushStore, PushSubscription
from agent_cli.kernel.runtime.addresses import AddressStore, ProjectAddress
from agent_cli.kernel.runtime.saved_settings import SettingsFile, add_rules
from agent_cli.mcp.config import McpServer, change_json, change_toml
from agent_cli.policy.trust import TrustStore

COUNT = 12
Change = Callable[[Path, int], object]
Count = Callable[[Path], int]


def at_once(change: Callable[[int], object], count: int = COUNT) -> list[BaseException]:
    """Make changes on threads that start together; return what they raised."""
    start, failed = threading.Barrier(count), list[BaseException]()

    def run(number: int) -> None:
        start.wait()
        try:
            change(number)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failed


def table(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text())


def server(number: int) -> McpServer:
    return McpServer(command=f"server{number}")


NUMBERS = (
    "max_rounds", "max_tool_calls", "max_seconds", "max_cost", "max_failures", "max_tokens", "plan_nudges",
    "plan_reminder", "context_window", "thinking_tokens", "task_budget", "idle_timeout",
)  # fmt: skip

CHANGES: dict[str, tuple[Change, Count]] = {
    "rules": (
        lambda folder, n: add_rules(folder / "rc", [f"Bash(make t{n})"]),
        lambda folder: len(table(folder / "rc")["permissions"]["allow"]),
    ),
    "settings": (
        lambda folder, n: SettingsFile(folder / "rc").set(NUMBERS[n], n + 1),
        lambda folder: len(table(folder / "rc")),
    ),
    "trust": (
        lambda folder, n: TrustStore(folder).remember(folder / f"p{n}", {}),
        lambda folder: len(TrustStore(folder).agreed),
    ),
    "addresses": (
        lambda folder, n: AddressStore(folder).remember(folder / f"p{n}", ProjectAddress("base_url", "x", ""), True),
        lambda folder: sum(
            AddressStore(folder).answer(folder / f"p{n}", ProjectAddress("base_url", "x", "")) is True
            for n in range(COUNT)
        ),
    ),
    "tokens": (
        lambda folder, n: AccessTokenStore(folder).add(f"t{n:02}", "read"),
        lambda folder: len(AccessTokenStore(folder).all()),
    ),
    "push": (
        lambda folder, n: PushStore(folder).add(PushSubscription("t", f"https://push.example/{n}", "r", "s", "")),
        lambda folder: len(PushStore(folder).read().subscriptions),
    ),
    "servers": (
        lambda folder, n: change_json(folder / ".mcp.json", f"s{n}", server(n)),
        lambda folder: (folder / ".mcp.json").read_text().count('"command"'),
    ),
    "servers of the settings": (
        lambda folder, n: change_toml(folder / "rc", f"s{n}", server(n)),
        lambda folder: len(table(folder / "rc")["mcp"]["servers"]),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_all_changes_of_one_file_are_kept(tmp_path: Path, name: str) -> None:
    change, count = CHANGES[name]
    assert at_once(lambda number: change(tmp_path, number)) == []
    assert count(tmp_path) == COUNT


def test_a_token_that_is_revoked_does_not_come_back(tmp_path: Path) -> None:
    for number in range(COUNT):
        AccessTokenStore(tmp_path).add(f"old{number}", "start")

    def change(number: int) -> None:
        if number % 2:
            AccessTokenStore(tmp_path).add(f"new{number}", "read")
        else:
            AccessTokenStore(tmp_path).revoke(f"old{number}")

    assert at_once(change) == []
    names = {token.name for token in AccessTokenStore(tmp_path).all()}
    assert names == {f"{'new' if n % 2 else 'old'}{n}" for n in range(COUNT) if n % 2} | {
        f"old{n}" for n in range(COUNT) if n % 2
    }


def test_trust_that_is_revoked_does_not_come_back(tmp_path: Path) -> None:
    stores = [TrustStore(tmp_path) for _ in range(2)]
    stores[0].remember(tmp_path / "a", {})
    stores[0].forget(tmp_path / "a")
    stores[1].remember(tmp_path / "b", {})
    assert set(TrustStore(tmp_path).agreed) == {str(tmp_path / "b")}
    # One that was read before another session trusted something.
    stores[0].decline(tmp_path / "c", {})
    assert set(TrustStore(tmp_path).agreed) == {str(tmp_path / "b")}


def test_a_pairing_code_is_exchanged_once(tmp_path: Path) -> None:
    code, tokens = Pairing(tmp_path).offer("decide"), list[tuple[str, str]]()
    failed = at_once(lambda number: tokens.append(found) if (found := Pairing(tmp_path).redeem(code, "x")) else None)
    assert failed == []
    assert len(tokens) == len(AccessTokenStore(tmp_path).all()) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: AccessTokenStore(folder).add("t", "read"),
        lambda folder: Pairing(folder).offer("read"),
        lambda folder: Pairing(folder).redeem("code", "phone"),
        lambda folder: PushStore(folder).key(),
        lambda folder: PushStore(folder).add(PushSubscription("t", "https://x", "p", "a", "now")),
        lambda folder: PushStore(folder).remove("https://x"),
    ],
    ids=["token", "offer", "redeem", "key", "subscribe", "unsubscribe"],
)
def test_a_folder_that_cannot_be_made_is_told_in_words(tmp_path: Path, change: Callable[[Path], object]) -> None:
    (tmp_path / "serve").write_text("a file in its place")
    with pytest.raises(UsageError, match="cannot be"):
        change(tmp_path)
