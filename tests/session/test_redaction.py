"""Keys never reach the disk: not as values of the environment, not in the formats keys are known by."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_cli.kernel.events import MessageAdded
from agent_cli.kernel.messages import AssistantMessage, Text, UserMessage
from agent_cli.kernel.redact import REDACTED, Redactor
from agent_cli.kernel.session.files import decode_record
from agent_cli.kernel.session.log import SessionLog
from agent_cli.kernel.session.records import Header
from tests.support.program import agent
from tests.support.sample_keys import KEYS
from tests.support.scripts import call, script


@pytest.mark.parametrize("key", KEYS, ids=[k[:8].strip("-") for k in KEYS])
def test_known_formats(key: str) -> None:
    redact = Redactor({})
    assert redact(f"before {key} after") == f"before {REDACTED} after"
    assert json.loads(redact(json.dumps({"text": f"before {key} after"}))) == {"text": f"before {REDACTED} after"}


def test_values_of_the_environment_by_name() -> None:
    env = {
        "MY_TOKEN": 'odd "value" \\ é',
        "GIT_AUTHOR_NAME": "Grace Hopper",
        "DB_PASSWORD": "hunter22",
        "SHORT_KEY": "abc",
        "SSH_AUTH_SOCK": "/tmp/agent.sock",
    }
    redact = Redactor(env)
    text = 'Grace Hopper set odd "value" \\ é and hunter22, abc, /tmp/agent.sock'
    kept = f"Grace Hopper set {REDACTED} and {REDACTED}, abc, /tmp/agent.sock"
    assert redact(text) == kept
    assert json.loads(redact(json.dumps([text]))) == [kept]


def test_the_log_holds_no_keys_and_stays_whole(tmp_path: Path) -> None:
    log = SessionLog(tmp_path / "s.jsonl", lambda text: None, {"API_KEY": 'quo"ted-value'})
    log.create(Header("s", "/", "/", "m", "system", (), "1"))
    log.record(MessageAdded(UserMessage(f'my key is {KEYS[2]} and quo"ted-value')))
    log.record(MessageAdded(AssistantMessage((Text(KEYS[-1]),))))
    log.close()
    written = (tmp_path / "s.jsonl").read_bytes()
    assert KEYS[2].encode() not in written and b"MIIE" not in written and b"ted-value" not in written
    assert all(decode_record(line) is not None for line in written.splitlines())


def test_a_whole_run_leaves_no_key_behind(work: Path) -> None:
    (work / "config.txt").write_text(f"token = {KEYS[2]}\n")
    replies = [{"calls": [call("Read", file_path="config.txt")]}, {"text": f"It is {KEYS[2]}."}, {"text": "Again."}]
    model = script(work.parent / "s.toml", replies)
    env = {"SOME_SECRET": "very-secret-value-1"}
    done = agent(["-p", "--model", model, "What is the token?"], work, env)
    assert done.returncode == 0 and KEYS[2] in done.stdout
    done = agent(["-p", "-c", "--debug", "--model", model, "It is very-secret-value-1"], work, env)
    assert done.returncode == 0, done.stderr
    kept = [p for p in (work.parent / "home").rglob("*") if p.is_file()]
    assert {p.parent.name for p in kept} >= {"debug"} and len(kept) >= 2
    for path in kept:
        data = path.read_bytes()
        assert KEYS[2].encode() not in data and b"very-secret-value-1" not in data, path
        assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700, path
