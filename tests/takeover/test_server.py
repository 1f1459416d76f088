"""Sessions of other agents over the HTTP API."""

from __future__ import annotations

from pathlib import Path

from tests.support.scripts import script
from tests.support.served import served
from tests.support.taken_sessions import place


def test_a_session_is_listed_taken_over_and_continued(work: Path) -> None:
    with served(work) as server:
        place("gemini", "worked", Path(server.env["HOME"]), work)
        path = f"/v1/projects/{server.project}/imports"
        [found] = server.get(path)["sessions"]
        assert (found["program"], found["name"], found["title"]) == ("gemini", "Gemini CLI", "Fix total in sums.py")
        assert found["taken_over_as"] == ""
        body = {"program": "gemini", "source_id": found["source_id"]}
        made = server.post(path, body, 201)
        assert made["title"] == "Fix total in sums.py"
        assert server.post(path, body, 201)["id"] == made["id"]
        assert server.get(path)["sessions"][0]["taken_over_as"] == made["id"]
        view = str(server.get(f"/v1/sessions/{made['id']}/view"))
        assert "I read both files." in view and "It asks for an exact total." in view
        server.change(made["id"], model=script(work.parent / "s.toml", [{"text": "Sure."}]))
        server.post(f"/v1/sessions/{made['id']}/messages", {"text": "And now?"}, 202)
        assert server.until(made["id"], "done")["answer"] == "Sure."
        assert server.request("POST", path, {"program": "gemini", "source_id": "none"}).code == "import"
        assert server.request("POST", path, {"program": "other", "source_id": ""}).code == "import"
