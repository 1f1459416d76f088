"""The OpenAPI document is what the handlers do: by hand, and by what schemathesis makes up."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import booleans
from starlette.routing import Route

from agent_cli.extras.server.app import ROUTES, build_openapi
from tests.support.scripts import call
from tests.support.served import Served, path_of, write_script

schemathesis: Any = pytest.importorskip("schemathesis", reason="schemathesis is missing: the API was not fuzzed")
pytest.importorskip("schemathesis.specs.openapi.checks")
_CHECKS = ["not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance"]
EXAMPLES = int(os.environ.get("SERVER_EXAMPLES", "4"))


def test_the_document_has_every_route_and_is_served(server: Served) -> None:
    document = server.get("/v1/openapi.json", token="")
    assert document == build_openapi()
    listed = {(method.upper(), path) for path, operations in document["paths"].items() for method in operations}
    assert listed == {(row.method, row.path) for row in ROUTES}
    assert all(Route(row.path, lambda request: None).path == row.path for row in ROUTES)


def test_what_the_answers_hold_is_documented(server: Served) -> None:
    """An answer has the fields of its schema, and no other."""
    path = write_script(server.work, {"calls": [call("Write", file_path="w.txt", content="x")]}, {"text": "Ok."})
    session = server.begin("Write", path)
    server.until(session, "waiting")
    body = {"spec": "day 9:00", "prompt": "x", "project": server.project}
    schedule = server.request("POST", "/v1/schedules", body).data["id"]
    schemas = build_openapi()["components"]["schemas"]
    for row in ROUTES:
        if row.method == "GET" and row.answer is not None:
            data = server.get(path_of(row.path, session, server.project, schedule))
            assert data.keys() == schemas[row.answer.__name__]["properties"].keys(), row.path


def _document() -> dict[str, Any]:
    """The document without the streams, which do not end."""
    made = build_openapi()
    made["paths"] = {path: found for path, found in made["paths"].items() if not path.endswith("/events")}
    return made


@pytest.mark.timeout(300)
def test_no_request_is_answered_otherwise_than_documented(server: Served) -> None:
    path = write_script(server.work, {"calls": [call("Write", file_path="v.txt", content="x")]}, {"text": "Ok."})
    session = server.begin("Write", path)
    server.until(session, "waiting")
    schema = schemathesis.openapi.from_dict(_document())
    checks = schemathesis.checks.CHECKS.get_by_names(_CHECKS)
    seen: set[int] = set()
    for operation in [found.ok() for found in schema.get_all_operations()]:

        @settings(
            max_examples=EXAMPLES, deadline=None, database=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(operation.as_strategy(), booleans())
        def run(case: Any, here: bool) -> None:
            for name in case.path_parameters or ():
                if here:
                    case.path_parameters[name] = session
            answer = case.call_and_validate(
                base_url=f"http://127.0.0.1:{server.port}", checks=checks, timeout=30,
                headers={"Authorization": f"Bearer {server.token}"},
            )  # fmt: skip
            seen.add(answer.status_code)

        run()
    assert seen >= {200, 404, 422}
