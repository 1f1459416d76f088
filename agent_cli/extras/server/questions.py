"""A question as a form: what a page draws to have it decided, with the words and the choices of the terminal.

Each choice has the decision that it makes. Everything that is approved is written out: see `agent_tools.lookalikes`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from agent_cli import ApprovalQuestion, QuestionAsked, UserDecision
from agent_cli.console import local_time
from agent_cli.extras.server.drawing import draw_code, draw_markdown, with_rows
from agent_cli.kernel.session.view_changes import file_json
from agent_tools.lookalikes import describe_lookalikes, escape_lookalikes
from agent_tools.plan import SECTIONS, plan_text
from agent_tools.record import from_json
from agent_tools.results import CommandOutput, Diff, Diffs, FileView, Listing, Note
from agent_tools.text import counted, one_line

Form = dict[str, Any]
_COMMENT, _CHANGE = "Add a comment (optional)", "What to change, or a comment"


def question_form(asked: ApprovalQuestion | QuestionAsked, item: Mapping[str, Any]) -> Form:
    """Return the form of a question. item: what lists have of it."""
    if isinstance(asked, ApprovalQuestion):
        form = _approval(asked)
    else:
        form = {"plan": _plan, "review": _review, "questions": _questions}[asked.kind](asked, item)
    if item.get("host"):
        form["about"] = [*form["about"], f"For {one_line(item['host'])}"]
    if item.get("agent"):
        task = f": {one_line(item['agent_task'])}" if item.get("agent_task") else ""
        name = item.get("agent_name") or item["agent"]
        where = " in the background" if item.get("agent_name") else ""
        form["about"] = [*form["about"], f"For sub-agent {name}{where}{task}"]
    return {"comment": "", "warnings": [], "facts": [], "edit": None, "grave": False} | form


def _choice(label: str, decision: UserDecision, kind: str = "", **more: Any) -> dict[str, Any]:
    """Return a choice. kind: "yes", "no" or "ask", whose words come first; "" for any other."""
    fields = {name: getattr(decision, name) for name in ("verdict", *decision.given)}
    return {"label": label, "kind": kind, "decision": fields, **more}


def _approval(question: ApprovalQuestion) -> Form:
    asked, change = question.request, question.change
    yes, no = question.answers(("Allow once", "Reject"))
    approve, reject = (UserDecision(asked.call_id, "", verdict) for verdict in ("approve", "reject"))
    lasting = [
        # A rule that outlives the session is other work than deciding what waits.
        _choice(offer.words[:1].upper() + offer.words[1:], offer.decision, starts=offer.decision.scope != "session")
        for offer in question.lasting()
    ]
    edit = None
    if change.name:
        label = "Command to run instead" if question.runs_command else f"{change.name} to use instead"
        edit = {"into": "arguments", "base": asked.arguments, "fields": [_field(change.name, label, change.text)]}
    lookalikes = describe_lookalikes(asked.summary, *(effect.target for effect in asked.effects))
    return {
        "title": question.sentence if question.staged else question.title,
        "about": [about] if (about := question.about) else [],
        "blocks": list(_approval_blocks(question)),
        "warnings": [*filter(None, (lookalikes,)), *map(escape_lookalikes, asked.warnings)],
        "grave": question.grave,
        "facts": [f"in {escape_lookalikes(asked.cwd)}", *(escape_lookalikes(fact) for fact in question.facts())],
        "comment": _COMMENT,
        "edit": edit,
        "choices": [_choice(yes, approve, "yes"), _choice(no, reject, "no"), *lasting],
    }


def _approval_blocks(question: ApprovalQuestion) -> Iterator[dict[str, Any]]:
    asked, change = question.request, question.change
    commands = [effect.target for effect in asked.effects if effect.kind == "run"]
    for command in map(escape_lookalikes, commands):
        yield {"type": "command", "text": command, "drawn": draw_code(command, "bash")}
    if lines := list(question.effects()):
        yield {"type": "list", "items": [line[:1].upper() + line[1:] for line in lines]}
    preview = asked.preview
    if change.hunks:
        parts = [{"index": at, **with_rows(file_json(hunk.diff))} for at, hunk in enumerate(change.hunks)]
        yield {"type": "hunks", "files": parts}
    elif isinstance(preview, Diff | Diffs):
        yield _files(preview.files if isinstance(preview, Diffs) else (preview,))
    else:
        if preview is not None and (text := _preview_text(preview)):
            yield {"type": "text", "text": escape_lookalikes(text)}
        if not commands and asked.arguments:
            # What neither a command nor a change shows is in the arguments: nothing unseen may be approved.
            rows = [(escape_lookalikes(str(name)), _shown(value)) for name, value in asked.arguments.items()]
            yield {"type": "rows", "rows": rows}


def _preview_text(preview: Any) -> str:
    if isinstance(preview, Listing):
        return "\n".join(preview.lines)
    if isinstance(preview, CommandOutput):
        return preview.output
    return preview.text if isinstance(preview, Note) else preview.path if isinstance(preview, FileView) else ""


def _shown(value: Any) -> str:
    return escape_lookalikes(value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False))


def _files(files: tuple[Diff, ...]) -> dict[str, Any]:
    return {"type": "files", "files": [with_rows(file_json(each)) for each in files]}


def _field(name: str, label: str, text: str, *, lines: bool = False) -> dict[str, Any]:
    """Return a field to edit. lines: its value is a list, an item a line."""
    return {"name": name, "label": label, "text": text, "lines": lines}


def _plan(asked: QuestionAsked, item: Mapping[str, Any]) -> Form:
    decide = UserDecision(asked.call_id, "", "approve")
    plan, expires = asked.data, item.get("expires_at")
    when = [f"Expires {local_time(expires)}"] if expires else []
    if item.get("expired"):
        when = ["This plan has expired. Ask for a new one."]
    fields = [_field("plan", "Plan", str(plan.get("plan", "")))]
    fields += [
        _field(name, f"{title}, one a line", "\n".join(plan[name]), lines=True)
        for name, title in SECTIONS.items()
        if plan.get(name)
    ]
    return {
        "title": "Approve this plan?",
        "about": when,
        "blocks": [{"type": "markdown", "text": (text := plan_text(plan)), "drawn": draw_markdown(text)}],
        "comment": _CHANGE,
        "edit": {"into": "plan", "base": plan, "fields": fields},
        "choices": [
            _choice("Approve", decide, "yes"),
            _choice("Approve and accept edits", decide.replace(mode="acceptEdits")),
            _choice("Request changes", decide.replace(verdict="answer"), "ask"),
            _choice("Cancel the task", decide.replace(verdict="reject"), "no"),
        ],
    }


def _review(asked: QuestionAsked, item: Mapping[str, Any]) -> Form:
    decide, data = UserDecision(asked.call_id, "", "approve"), asked.data
    files, diffs = data.get("files", ()), tuple(from_json(Diff, plain) for plain in data.get("diffs", ()))
    listed = [f"{escape_lookalikes(one_line(str(f['path'])))} (+{f['added']} -{f['removed']})" for f in files]
    parts = (
        ("Done", [one_line(str(step)) for step in data.get("steps", ())]),
        ("Files", [] if diffs else listed or ["No file was changed by the tools for files."]),
        ("Commands that ran", [escape_lookalikes(one_line(str(command))) for command in data.get("commands", ())]),
    )
    blocks = [{"type": "list", "title": title, "items": items} for title, items in parts if items]
    undo = {"title": "Undo these changes?", "text": "The files are restored to their state before this part."}
    return {
        "title": escape_lookalikes(one_line(str(data.get("title", "")))) or "Review the changes",
        "about": [],
        "blocks": [*([_files(diffs)] if diffs else []), *blocks],
        "comment": _CHANGE,
        "choices": [
            _choice("Continue", decide, "yes"),
            _choice("Request changes", decide.replace(verdict="answer"), "ask"),
            _choice("Undo this", decide.replace(verdict="undo"), confirm=undo),
            _choice("End here", decide.replace(verdict="reject"), "no"),
        ],
    }


def _questions(asked: QuestionAsked, item: Mapping[str, Any]) -> Form:
    answer = UserDecision(asked.call_id, "", "answer")
    questions = asked.data["questions"]
    several = len(questions) > 1
    return {
        "title": counted(len(questions), "question") if several else str(questions[0]["question"]),
        "about": [one_line(str(item["said"]))[:300]] if item.get("said") else [],
        "blocks": [{"type": "questions", "questions": questions}],
        "choices": [
            _choice("Send answers" if several else "Send answer", answer, "yes"),
            _choice("Skip", answer.replace(verdict="reject"), "no"),
        ],
    }


def form_lines(form: Mapping[str, Any]) -> list[str]:
    """Return everything that a question shows, as lines."""
    lines = ["", form["title"], *form["about"], *(f"! {warning}" for warning in form["warnings"])]
    for block in form["blocks"]:
        kind = block["type"]
        if kind in ("command", "text", "markdown"):
            lines += [f"  {line}" for line in block["text"].split("\n")]
        elif kind == "list":
            lines += [f"  {block.get('title', '')}".rstrip(), *(f"  - {item}" for item in block["items"])]
        elif kind == "rows":
            lines += [f"  {name}: {value}" for name, value in block["rows"]]
        elif kind in ("files", "hunks"):
            for file in block["files"]:
                lines += [f"  {file['path']}", *(f"  {line}" for line in file["patch"].split("\n"))]
        else:
            for asked in block["questions"]:
                lines += [f"  {escape_lookalikes(one_line(asked['question']))}"]
                lines += [f"  - {escape_lookalikes(one_line(option['label']))}" for option in asked.get("options", ())]
    return [*lines, *(f"  {fact}" for fact in form["facts"])]
