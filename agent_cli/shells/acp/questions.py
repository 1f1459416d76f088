"""Ask the user of an editor by permission requests, or by forms if the editor supports them.

A question is a `Dialog`, as in the terminal. Each choice that answers at once is an option; one that asks for text is
offered only if the editor can show forms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from agent_cli import Defer
from agent_cli.shells.acp.client import EditorClient, EditorError
from agent_cli.shells.acp.command_output import Update
from agent_cli.shells.acp.updates import text_block
from agent_cli.shells.terminal.dialogs.model import (
    Choice,
    Dialog,
    DiffBlock,
    Fact,
    GiveAnswer,
    Option,
    Pick,
    PlanBody,
    Prose,
    ShellCommand,
    TextInput,
    Verbatim,
)
from agent_tools.cancel import CancelledError, CancelToken

_ALWAYS_KEYS = frozenset("saAx")
# Keys of choices that are offered although the dialog does not list them: no, and no with a reason.
_UNLISTED_KEYS = ("n", "r")
# Limit of the options of a menu; an editor shows each as a button.
_MAX_OPTIONS = 30
_DEFERRED = "Answer in my next message"


class EditorQuestions:
    """Asks the user of an editor, in one session.

    say: shows a line in the conversation.
    """

    def __init__(self, client: EditorClient, session_id: str, say: Callable[[str], None]) -> None:
        self._client, self._session_id, self._say = client, session_id, say
        self._count = 0

    def put(self, dialog: Dialog, cancel: CancelToken, call: Mapping[str, Any] | None = None) -> Any:
        """Ask and return the answer. call: the tool call that it is about, as the editor knows it.

        Raises CancelledError if the user cancels the turn; Defer, or None for a command's own question, if there is
        no answer.
        """
        if isinstance(dialog.words, Pick):
            return self._pick(dialog, dialog.words.options, cancel)
        forms = self._client.offers("elicitation", "form")
        acts = (GiveAnswer, TextInput) if forms else (GiveAnswer,)
        offered = [c for c in dialog.choices if (c.listed or c.key in _UNLISTED_KEYS) and isinstance(c.act, acts)]
        if forms and isinstance(dialog.words, TextInput) and (dialog.typing or dialog.several is not None):
            return self._form(dialog, dialog.words, cancel)
        if not dialog.yes_or_no and dialog.typing and not offered:
            self._say(_title(dialog))
            return None if dialog.from_command else self._leave_open(dialog, cancel)
        options = [(choice.key, _name(choice), _kind(choice)) for choice in offered]
        key = self._choose(dialog, options, cancel, call)
        chosen = next(choice for choice in offered if choice.key == key)
        if isinstance(chosen.act, TextInput):
            answer = self._ask_text(_title(dialog), chosen.act, cancel, dialog)
            plain = dialog.by_key("n")
            # No text after choosing to enter some means no.
            if isinstance(answer, Defer) and plain is not None and isinstance(plain.act, GiveAnswer):
                return plain.act.answer
            return answer
        assert isinstance(chosen.act, GiveAnswer)
        return chosen.act.answer

    def ask_text(self, question: str, read: TextInput, cancel: CancelToken) -> Any:
        """Ask for a line; None without an answer, and in an editor without forms."""
        return self._ask_text(question, read, cancel, None) if self._client.offers("elicitation", "form") else None

    def _pick(self, dialog: Dialog, options: Sequence[Option], cancel: CancelToken) -> int | None:
        listed = [(str(n), " · ".join(filter(None, option)), "allow_once") for n, option in enumerate(options)]
        no = [] if options and options[-1][0] == "no" else [("none", "Cancel", "reject_once")]
        key = self._choose(dialog, [*listed[:_MAX_OPTIONS], *no], cancel, None)
        return None if key == "none" else int(key)

    def _leave_open(self, dialog: Dialog, cancel: CancelToken) -> Any:
        """Leave a question open that needs text: the user's next message is the answer."""
        self._choose(dialog, [("later", _DEFERRED, "allow_once")], cancel, None)
        return Defer()

    def _choose(
        self,
        dialog: Dialog,
        options: Sequence[tuple[str, str, str]],
        cancel: CancelToken,
        call: Mapping[str, Any] | None,
    ) -> str:
        """Return the key of the option that the user chooses. Raises CancelledError."""
        self._count += 1
        about: Update = dict(call) if call else {"toolCallId": f"question-{self._count}", "kind": "other"}
        about.setdefault("title", _title(dialog))
        texts = list(_dialog_lines(dialog, known=call is not None))
        shown = [{"type": "content", "content": text_block("\n\n".join(texts))}] if texts else []
        about["content"] = [*shown, *about.get("content", [])]
        listed = [{"optionId": key, "name": name, "kind": kind} for key, name, kind in options]
        params = {"sessionId": self._session_id, "toolCall": about, "options": listed}
        try:
            outcome = self._client.request("session/request_permission", params, cancel).get("outcome")
        except EditorError as error:
            cancel.cancel(str(error))
            raise CancelledError from None
        chosen = outcome.get("optionId") if isinstance(outcome, dict) and outcome.get("outcome") == "selected" else None
        if chosen not in [key for key, _, _ in options]:
            # Cancelled, or an unknown option: never a yes.
            cancel.cancel()
            raise CancelledError
        return str(chosen)

    def _ask_text(self, question: str, read: TextInput, cancel: CancelToken, dialog: Dialog | None) -> Any:
        """Ask for text in a form until `read` accepts it; without an answer return Defer, or None without a dialog."""
        answer = None
        while answer is None:
            given = self._elicit(question, {"type": "string", "title": read.label.strip("> ") or "Answer"}, cancel)
            if given is None:
                return Defer() if dialog is not None and not dialog.from_command else None
            try:
                answer = read.read(str(given))
            except ValueError as error:
                question = f"{error}"
        return answer

    def _form(self, dialog: Dialog, words: TextInput, cancel: CancelToken) -> Any:
        """Ask a question with several answers, or for text, in a form."""
        if dialog.several is None:
            return self._ask_text(_title(dialog), words, cancel, dialog)
        names = [choice.label for choice in dialog.listed if isinstance(choice.act, GiveAnswer)]
        items = {"type": "string", "enum": names}
        given = self._elicit(_title(dialog), {"type": "array", "title": "Choose", "items": items}, cancel)
        if not isinstance(given, list):
            return Defer()
        return dialog.several(tuple(names.index(name) for name in given if name in names))

    def _elicit(self, message: str, schema: Update, cancel: CancelToken) -> Any:
        """Show a form with one field and return its value; None if the user declines."""
        form = {"type": "object", "properties": {"answer": schema}, "required": ["answer"]}
        params = {"mode": "form", "sessionId": self._session_id, "message": message, "requestedSchema": form}
        try:
            given = self._client.request("elicitation/create", params, cancel)
        except EditorError:
            return None
        content = given.get("content") if given.get("action") == "accept" else None
        return content.get("answer") if isinstance(content, dict) else None


def _kind(choice: Choice) -> str:
    if choice.key == "n":
        return "reject_once"
    if isinstance(choice.act, TextInput) or choice.key == "u":
        return "reject_once"
    return "allow_always" if choice.key in _ALWAYS_KEYS else "allow_once"


def _name(choice: Choice) -> str:
    label = choice.label.replace(" (Shift-Tab)", "")
    return f"{label}: {choice.detail}" if choice.detail else label


def _title(dialog: Dialog) -> str:
    return dialog.title.text


def _dialog_lines(dialog: Dialog, *, known: bool) -> Iterator[str]:
    """Yield the paragraphs of a question. known: the editor shows the call itself, with its change."""
    for warning in dialog.warnings:
        yield f"**{warning}**"
    if dialog.about:
        yield dialog.about
    for block in dialog.body:
        match block:
            case Prose(text=text) | Verbatim(text=text) | PlanBody(text=text):
                yield text.strip()
            case ShellCommand(text=text) if not known or "\n" in text:
                yield f"```sh\n{text}\n```"
            case Fact(text=text):
                yield text
            case DiffBlock():
                pass
    # Leave out facts about keys, which only a terminal has.
    facts = [fact.text for fact in dialog.details if fact.text[:2] not in ("a:", "A:", "x:", "  ")]
    if facts:
        yield "\n".join(f"- {fact}" for fact in facts)
