"""Secrets in an environment are known by their value, whatever the variable is called; ordinary values are not."""

from __future__ import annotations

import pytest

from agent_tools.secret_patterns import holds_secret, is_secret, passwords_in, without_secrets
from tests.support.sample_keys import KEYS

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
SECRETS = [
    *KEYS,
    f"Bearer {LETTERS}",
    f"Authorization: Basic {LETTERS}==",
    f"https://x-access-token:ghp_{LETTERS}@github.com/a/b",
    f"https://hooks.slack.com/services/T0000/B0000/{LETTERS}",
    f"gsk_{LETTERS}",
    f"xai-{LETTERS}",
    f"SG.{LETTERS[:22]}.{LETTERS}",
    f"hvs.{LETTERS}",
    "dop_v1_" + "0a" * 32,
    "GOCSPX-abcdefghijklmnopqrstuvwxyz12",
    f"whsec_{LETTERS}",
    f"dckr_pat_{LETTERS}",
    f"glsa_{LETTERS}_0a1b2c3d",
    f"{LETTERS[:14]}.atlasv1.{LETTERS}{LETTERS}",
    f"ATATT3x{LETTERS}",
    f"ntn_{LETTERS}",
    f"sbp_{LETTERS}",
    f"sntrys_{LETTERS}",
    "pul-" + "0a" * 20,
    f"https://discord.com/api/webhooks/123456789012345678/{LETTERS}",
    f"1234567890:AA{LETTERS[:33]}",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "postgres://app:hunter2@db.example.com:5432/app?sslmode=require",
    "postgresql+asyncpg://app:p%40ss@localhost/app",
    "redis://:hunter2@cache:6379/0",
    "mongodb+srv://u:pw@cluster0.example.net/?retryWrites=true",
    "amqp://guest:guest@mq//",
    "http://user:pw@proxy.example.com:3128",
    "git+https://bot:pw@example.com/a.git",
    "app:hunter2@tcp(127.0.0.1:3306)/app?parseTime=true",
    "host=db user=app password=hunter2 dbname=app",
    "Server=db;Database=app;User Id=sa;Password=hunter2;",
    "jdbc:postgresql://db/app?user=app&password=hunter2",
    "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=abc==;EndpointSuffix=core.windows.net",
    "https://a.blob.core.windows.net/c?sv=2022&sig=abc%3D",
    "https://gitlab.example.com/api/v4/user?private_token=abc",
    "--user app --password=hunter2",
]
PLAIN = [
    "",
    "/usr/local/bin:/usr/bin:/bin",
    "/home/me/src/task-management-system-with-a-long-name",
    "/data/hf_models_cache_directory_of_this_team",
    "/opt/pdf_reader_and_other_things_with_long_names",
    "https://user@example.com/path",
    "https://example.com:8443/a@b",
    "http://localhost:4873/@scope/package",
    "postgres://localhost/app",
    "postgres://app@db/app",
    "git@github.com:owner/name.git",
    "ssh -i ~/.ssh/id_ed25519 -o IdentitiesOnly=yes",
    r"\u@\h: \w $ ",
    "me@example.com",
    "unix:path=/run/user/1000/bus",
    "0123456789abcdef0123456789abcdef01234567",
    "/home/Me/Projects/Number1/src/Applicatio",
    "basic authentication",
    "the bearer of this letter",
    "en_US.UTF-8",
    "rs=0:di=01;34:ln=01;36:pwd=1"[:24],
    "-Dorg.gradle.jvmargs=-Xmx2g",
    "keyboard",
]


@pytest.mark.parametrize("value", SECRETS)
def test_a_secret_is_known_by_its_value_under_any_name(value: str) -> None:
    assert holds_secret(value)
    assert is_secret("ENDPOINT", value)
    assert without_secrets({"ENDPOINT": value, "LANG": "C"}) == {"LANG": "C"}
    assert without_secrets({"ENDPOINT": value}, ["ENDPOINT"]) == {"ENDPOINT": value}


@pytest.mark.parametrize("value", PLAIN)
def test_an_ordinary_value_is_passed_on(value: str) -> None:
    assert without_secrets({"ENDPOINT": value}) == {"ENDPOINT": value}


def test_the_password_itself_is_found() -> None:
    assert passwords_in("postgres://app:hunter2@db/app") == ("hunter2",)
    assert passwords_in("host=db password=hunter2 user=x") == ("hunter2",)
    assert passwords_in("app:hunter2@tcp(db)/x") == ("hunter2",)


@pytest.mark.parametrize("name", ["MYSQL_PWD", "GH_PAT", "CI_CREDS", "ERLANG_COOKIE", "NPM_AUTH", "REGISTRY_BEARER"])
def test_a_secret_is_known_by_its_name(name: str) -> None:
    assert is_secret(name, "x")


@pytest.mark.parametrize(
    "name", ["PWD", "OLDPWD", "_PWD", "PATH", "PAT", "SSH_AUTH_SOCK", "COMPASS", "BYPASS", "AUTHOR"]
)
def test_an_ordinary_name_is_passed_on(name: str) -> None:
    assert not is_secret(name, "x")
