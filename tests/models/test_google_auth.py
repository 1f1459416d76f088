"""Vertex AI: where it is, and the credentials that it is reached with."""

from __future__ import annotations

import json
import subprocess
from base64 import urlsafe_b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from agent_cli.models.base import ModelError
from agent_cli.models.google_auth import GoogleCredentials, find_credentials
from agent_cli.models.resolve import ModelSetupError, ResolvedModel, create_client, resolve
from agent_tools.cancel import CancelToken
from tests.support.model_server import ModelServer, Received, Reply
from tests.support.wires import WIRES, gathered, request

pytestmark = pytest.mark.usefixtures("clean_environment")
GEMINI = next(wire for wire in WIRES if wire.name == "gemini")
MODEL = "vertex_ai/gemini-2.5-pro"


def openssl(*args: str | Path) -> None:
    subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True, timeout=60)


def written(folder: Path, data: dict[str, Any]) -> Path:
    path = folder / "adc.json"
    path.write_text(json.dumps(data))
    return path


def on_vertex(env: dict[str, str], **more: Any) -> ResolvedModel:
    return resolve(MODEL, env=env, **more)


LOGIN = {"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r"}


# Where it is.


@pytest.mark.parametrize(
    ("env", "url"),
    [
        ({}, "https://aiplatform.googleapis.com/v1beta1/projects/p/locations/global/publishers/google"),
        ({"VERTEXAI_LOCATION": "us-east1"},
         "https://us-east1-aiplatform.googleapis.com/v1beta1/projects/p/locations/us-east1/publishers/google"),
        ({"GOOGLE_CLOUD_LOCATION": "eu"},
         "https://aiplatform.eu.rep.googleapis.com/v1beta1/projects/p/locations/eu/publishers/google"),
        ({"VERTEXAI_API_BASE": "http://box/"},
         "http://box/v1beta1/projects/p/locations/global/publishers/google"),
        ({"VERTEXAI_API_BASE": "http://box/v1/projects/q/locations/global/publishers/google"},
         "http://box/v1/projects/q/locations/global/publishers/google"),
    ],
)  # fmt: skip
def test_the_address_has_project_and_location(env: dict[str, str], url: str) -> None:
    found = on_vertex({"VERTEXAI_PROJECT": "p", **env}, key_command="echo token")
    assert (found.wire, found.base_url, found.bearer, found.name) == ("gemini", url, True, MODEL)
    assert resolve("vertex/gemini-2.5-pro", env={"VERTEXAI_PROJECT": "p"}, key_command="echo t").name == MODEL


def test_a_key_needs_no_project_and_a_token_does() -> None:
    found = on_vertex({}, key_command="echo AIzaXYZ")
    assert (found.base_url, found.bearer) == ("https://aiplatform.googleapis.com/v1beta1/publishers/google", False)
    with pytest.raises(ModelSetupError, match="VERTEXAI_PROJECT"):
        on_vertex({}, key_command="echo ya29.token")


def test_without_credentials_that_are_read_here_litellm_is_asked(tmp_path: Path) -> None:
    assert on_vertex({"VERTEXAI_PROJECT": "p"}).wire == "litellm"
    other = written(tmp_path, {"type": "external_account"})
    env = {"VERTEXAI_PROJECT": "p", "GOOGLE_APPLICATION_CREDENTIALS": str(other)}
    assert (on_vertex(env).wire, on_vertex(env).litellm) == ("litellm", MODEL)
    with pytest.raises(ModelSetupError, match="gcloud auth"):
        on_vertex(env, transport="direct")


def test_credentials_are_found_where_gcloud_puts_them(tmp_path: Path) -> None:
    assert find_credentials({"HOME": str(tmp_path)}) is None
    folder = tmp_path / ".config" / "gcloud"
    folder.mkdir(parents=True)
    path = folder / "application_default_credentials.json"
    path.write_text(json.dumps({**LOGIN, "quota_project_id": "mine"}))
    assert find_credentials({"HOME": str(tmp_path)}) == find_credentials({"CLOUDSDK_CONFIG": str(folder)}) == path
    found = on_vertex({"HOME": str(tmp_path)})
    assert found.key_source == f"application default credentials, {path}" and "/projects/mine/" in found.base_url


# Tokens.


def giving(token: str, asked: list[dict[str, list[str]]]) -> Callable[[Received], Reply]:
    def answer(received: Received) -> Reply:
        asked.append(parse_qs(received.raw.decode()))
        return Reply(raw=json.dumps({"access_token": token, "expires_in": 3599}).encode())

    return answer


@pytest.fixture
def token_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server of these tests reads the body of a request as JSON; that of a request for a token is a form."""
    loads = json.loads

    def lenient(text: Any, **options: Any) -> Any:
        return {} if isinstance(text, bytes) and text.startswith(b"grant_type") else loads(text, **options)

    monkeypatch.setattr("tests.support.model_server.json.loads", lenient)


@pytest.mark.usefixtures("token_server")
def test_a_login_becomes_a_token_that_is_sent(tmp_path: Path) -> None:
    asked: list[dict[str, list[str]]] = []
    with ModelServer([giving("ya29.one", asked), Reply(text="Hi.")]) as server:
        path = written(tmp_path, {**LOGIN, "token_uri": f"{server.url}/token"})
        env = {
            "VERTEXAI_PROJECT": "p", "VERTEXAI_API_BASE": server.url, "GOOGLE_APPLICATION_CREDENTIALS": str(path),
        }  # fmt: skip
        wire = create_client(on_vertex(env))

        assert gathered(wire.stream(request(GEMINI, model="gemini-2.5-pro"), CancelToken())).text == "Hi."
        sent = server.requests[1]
    assert asked == [
        {"grant_type": ["refresh_token"], "client_id": ["c"], "client_secret": ["s"], "refresh_token": ["r"]}
    ]
    assert sent.headers["authorization"] == "Bearer ya29.one" and "x-goog-api-key" not in sent.headers
    assert sent.path.startswith("/v1beta1/projects/p/locations/global/publishers/google/models/gemini-2.5-pro:stream")


@pytest.mark.usefixtures("token_server")
@pytest.mark.parametrize("form", ["-traditional", "pkcs8"])
def test_a_service_account_signs_its_request(tmp_path: Path, form: str) -> None:
    made, key, public = tmp_path / "made.pem", tmp_path / "key.pem", tmp_path / "public.pem"
    openssl("genrsa", "-out", made, "2048")
    if form == "pkcs8":
        openssl("pkcs8", "-topk8", "-nocrypt", "-in", made, "-out", key)
    else:
        openssl("rsa", "-in", made, form, "-out", key)
    openssl("rsa", "-in", made, "-pubout", "-out", public)
    asked: list[dict[str, list[str]]] = []
    with ModelServer([giving("ya29.two", asked)]) as server:
        url = f"{server.url}/token"
        account = {
            "type": "service_account", "project_id": "p", "private_key_id": "k1", "private_key": key.read_text(),
            "client_email": "robot@p.iam", "token_uri": url,
        }  # fmt: skip
        assert GoogleCredentials(written(tmp_path, account)).token(CancelToken()) == "ya29.two"
    (form_sent,) = asked
    assert form_sent["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
    header, claims, signature = form_sent["assertion"][0].split(".")
    lines = [json.loads(urlsafe_b64decode(part + "==")) for part in (header, claims)]
    assert lines[0] == {"alg": "RS256", "typ": "JWT", "kid": "k1"}
    assert (lines[1]["iss"], lines[1]["aud"], lines[1]["exp"] - lines[1]["iat"]) == ("robot@p.iam", url, 3600)
    (tmp_path / "text").write_text(f"{header}.{claims}")
    (tmp_path / "signature").write_bytes(urlsafe_b64decode(signature + "=="))
    openssl("dgst", "-sha256", "-verify", public, "-signature", tmp_path / "signature", tmp_path / "text")


@pytest.mark.usefixtures("token_server")
@pytest.mark.parametrize(
    ("status", "body", "kind", "says"),
    [
        (400, {"error": "invalid_grant", "error_description": "Token has been expired or revoked."},
         "auth", "expired or revoked. Log in again: gcloud auth application-default login"),
        (503, {"error": "unavailable"}, "network", "sent no access token: unavailable"),
        (200, {"token": "x"}, "auth", "HTTP 200"),
    ],
)  # fmt: skip
def test_credentials_that_are_refused(tmp_path: Path, status: int, body: dict[str, str], kind: str, says: str) -> None:
    with ModelServer([Reply(status=status, raw=json.dumps(body).encode())]) as server:
        path = written(tmp_path, {**LOGIN, "token_uri": f"{server.url}/token"})
        with pytest.raises(ModelError, match=says) as caught:
            GoogleCredentials(path).token(CancelToken())
    assert caught.value.failure.kind == kind and "refresh_token" not in caught.value.failure.message


@pytest.mark.parametrize("key", ["", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "x", 7])
def test_a_damaged_key_is_reported_in_a_sentence(tmp_path: Path, key: Any) -> None:
    account = {"type": "service_account", "client_email": "x", "private_key": key}
    with pytest.raises(ModelError, match="damaged"):
        GoogleCredentials(written(tmp_path, account)).token(CancelToken())


def test_a_key_command_that_fails_later_is_reported_in_a_sentence(tmp_path: Path) -> None:
    count = tmp_path / "count"
    command = f"test -e {count} && {{ echo logged out >&2; exit 1; }}; touch {count}; echo ya29.x"
    with ModelServer([Reply(status=401, error="expired")]) as server:
        env = {"VERTEXAI_PROJECT": "p", "VERTEXAI_API_BASE": server.url, "PATH": "/usr/bin:/bin"}
        found = on_vertex(env, key_command=command)
        assert found.renew is not None
        with pytest.raises(ModelError, match=r"^key_command failed.*logged out") as caught:
            found.renew(CancelToken())
        server.replies.clear()
    assert caught.value.failure.kind == "auth"
