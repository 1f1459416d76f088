"""A session of an editor: it runs prompts one at a time, and is the front end for commands and questions.

All methods run on threads of the session, never on that of the connection. Nothing is process-wide: each session has
its own folder, settings, model and servers, as in the Python API.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from typing import Any

from agent_cli import (
    Answer,
    ApprovalRequested,
    Approver,
    Asker,
    Config,
    Defer,
    Event,
    QuestionAsked,
    QuestionReply,
    RunEnvironment,
    Session,
    Usage,
    UsageError,
    UserMessage,
    read_settings,
)
from agent_cli.kernel.host_servers import HostServers
from agent_cli.kernel.runtime.session_commands import is_slash
from agent_cli.kernel.runtime.titles import Titles
from agent_cli.knowledge.loader import Embedded
from agent_cli.shells.acp import options as choices
from agent_cli.shells.acp.client import EditorBuffers, EditorClient, EditorError
from agent_cli.shells.acp.command_output import DrawnTerminal, EditorTerminals, OutputDisplay, Update
from agent_cli.shells.acp.content import EditorPrompt, read_prompt
from agent_cli.shells.acp.questions import EditorQuestions
from agent_cli.shells.acp.updates import SessionUpdates, message_chunk, plan_update, prompt_answer
from agent_cli.shells.terminal import commands as commands  # registers them
from agent_cli.shells.terminal.dialogs.approval import ask_approval
from agent_cli.shells.terminal.dialogs.model import Dialog, TextInput
from agent_cli.shells.terminal.dialogs.questions import Dialogs, ask_question, review_diffs
from agent_cli.shells.terminal.slash import ExitRequestedError, find_command, run_slash
from agent_cli.shells.terminal.startup import ask_about_servers, ask_for_trust
from agent_tools.base import ToolError
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.results import Diff, Diffs, Display, TodoView
from agent_tools.text import escape_controls, one_line, utc_stamp

_NO_LIMIT = 1 << 62
_THREADS = "A session of an editor is a thread of its panel: open another one there."


class EditorSession(Dialogs):
    """One session. id: of the session on disk."""

    has_menus, theme, keys, proposal = True, "", (), ""

    def __init__(self, client: EditorClient, config: Config, run_env: RunEnvironment) -> None:
        """Open or resume the session that the configuration names. Raises UsageError."""
        self._client, self.config, self.run_env = client, config, run_env
        self._lines: list[str] = []
        self._token = CancelToken()
        self._prompt = EditorPrompt("")
        self._shown: dict[str, Any] = {}
        self._terminals: EditorTerminals | None = None
        self.closed = False
        self.layers = read_settings(config, run_env)
        self._startup_notices = [f"{text}." for text in self.layers.ignored if "--trust" not in text]
        self.agent = self._build(config)
        self.id = self.agent.session_id
        self._connect_editor()
        self._titles = Titles(self._on_title)
        self._trust_asked = False

    def _build(self, config: Config) -> Session:
        """Build the agent. Raises UsageError."""
        forms = self._client.offers("elicitation", "form")
        host = HostServers(lambda name, message: None, elicit=self._show_form) if forms else None
        return Session.open(
            config, self.run_env, self._answerers, self._warn, embedded=Embedded(host=host),
            layers=self.layers, as_saved="waiting", attended=True,
        )  # fmt: skip

    def _show_form(self, server: str, question: dict[str, Any]) -> dict[str, Any] | None:
        """Let the editor show the form of an MCP server; return None if it cannot."""
        mode = str(question.get("mode") or "form")
        if not self._client.offers("elicitation", mode):
            return None
        known: dict[str, Any] = {
            name: question[name] for name in ("requestedSchema", "url", "elicitationId") if name in question
        }
        message = f"The MCP server {server} asks: {escape_controls(str(question.get('message', '')))}"
        params = {"sessionId": self.agent.session_id, "mode": mode, "message": message, **known}
        try:
            return self._client.request("elicitation/create", params, self.agent.tool_context.cancel)
        except (EditorError, CancelledError):
            return {"action": "cancel"}

    def _connect_editor(self) -> None:
        """Connect the agent to the editor: updates, questions, files."""
        conversation, header = self.agent, self.agent.header
        workspace = self.agent.tool_context.workspace
        if self._client.offers("fs", "readTextFile") or self._client.offers("fs", "writeTextFile"):
            workspace.buffers = EditorBuffers(self._client, header.session_id)
        self._updates = SessionUpdates(
            self._send,
            workspace.root,
            workspace.cwd,
            lambda: conversation.context.used(),
            self._command_display(),
        )
        self._questions = EditorQuestions(self._client, header.session_id, self.say)
        restored = self.agent.restored
        if restored is not None and restored.header.session_id == header.session_id:
            self._updates.view.spent = restored.usage
        self._mode = self.agent.policy.mode

    def _command_display(self) -> OutputDisplay | None:
        """Return the best display for the output of commands that the editor supports."""
        if self._terminals is not None:
            self._terminals.close()
            self._terminals = None
        workspace = self.agent.tool_context.workspace
        if self._client.offers("_meta", "terminal_output"):
            return DrawnTerminal(lambda: workspace.cwd)
        if self._client.offers("terminal"):
            session_id = self.agent.session_id
            self._terminals = EditorTerminals(self._client, session_id, lambda: workspace.cwd, self.cancel)
        return self._terminals

    # Requests of the editor.

    def state(self) -> dict[str, Any]:
        """Return the modes and options, for the answer that opens the session."""
        return {"modes": choices.mode_state(self.agent), "configOptions": choices.config_options(self)}

    def announce(self) -> None:
        """Send the commands and the usage of the context window, after the response that opened the session."""
        try:
            self._announce_commands()
            self._updates.show_usage()
            for text in self._startup_notices:
                self.say(text)
            self._flush()
        except EditorError:
            self.cancel()
        # Servers start while the user writes.
        self.agent.start_background_work()

    def replay(self) -> None:
        """Send the conversation so far, as updates. Raises EditorError."""
        if self.agent.restored is None:
            return
        spent = self._updates.view.spent
        with self._terminals.replay() if self._terminals is not None else nullcontext():
            for exchange in self.agent.exchanges():
                for part in exchange.parts():
                    if isinstance(part, str):
                        self._send(message_chunk(part, "user_message_chunk"))
                    else:
                        self._updates(part)
        self._updates.view.spent = spent
        if plan := self.agent.tool_context.plan:
            self._send(plan_update(plan))

    def set_option(self, name: str, value: str) -> None:
        """Change the mode, the model or the effort. Raises UsageError."""
        choices.set_option(self, name, value)
        self._mode = self.agent.policy.mode

    def begin_prompt(self) -> None:
        """Prepare for a prompt; `cancel` from now on cancels it."""
        self._token = CancelToken()

    def prompt(self, blocks: Iterable[Any]) -> dict[str, Any]:
        """Run a prompt to the end of its turn and return the answer. Raises UsageError, PromptFailedError."""
        token, conversation = self._token, self.agent
        conversation.last = None
        try:
            token.check()
            self._ask_for_trust()
            self._prompt = read_prompt(blocks, self.agent.tool_context, self.agent.model.name)
            self._resume_suspended()
            if is_slash(self._prompt.text):
                self._run_command(self._prompt.text)
            else:
                self.run_turn(self._prompt.text)
        except (CancelledError, EditorError):
            token.cancel()
        finally:
            self._after_prompt()
        last = self.agent.history[-1] if self.agent.history else None
        return prompt_answer(conversation.last, last, cancelled=token.cancelled)

    def cancel(self) -> None:
        """Stop the running prompt and its question. Thread-safe."""
        self._token.cancel()
        self.agent.interrupt()

    def close(self) -> None:
        """End the session and everything that it started."""
        self.closed = True
        self.cancel()
        self._titles.close()
        self.agent.close("other")
        if self._terminals is not None:
            self._terminals.close()

    # Turns.

    def run_turn(self, text: str) -> None:
        """Send a message and run its turn. Raises UsageError."""
        prompt, self._prompt = self._prompt, EditorPrompt("")
        try:
            self.agent.send(text, self.show_event, prompt.media, append=prompt.files_block)
        except ToolError as error:
            raise UsageError(str(error)) from None
        self.agent.record_unsaid()

    def _run_command(self, line: str) -> None:
        name = line[1:].partition(" ")[0].partition("\n")[0]
        command = find_command(name)
        if command is not None and command.name in choices.TERMINAL_ONLY and name not in self.agent.commands:
            self.say(f"/{name} is for a terminal. {_THREADS}")
            return
        try:
            run_slash(self, line)
        except ExitRequestedError:
            self.say(_THREADS)
        except UsageError as mistake:
            if self.agent.last is None and self._prompt.text:
                self.say(str(mistake))
            else:
                raise

    def _ask_for_trust(self) -> None:
        """Before the first turn, ask whether to trust the project, if it has anything that needs trust."""
        if self._trust_asked:
            return
        trusted = ask_for_trust(self.config, self.run_env, self.layers, self)
        asked = trusted is not self.layers
        ask_about_servers(self.config, self.run_env, trusted, self)
        self._trust_asked = True
        if not asked or not trusted.trust.trusted:
            return
        # Its settings, hooks and servers are part of what a session is built from.
        self.layers = trusted
        mode, history = self.agent.policy.mode, bool(self.agent.history)
        self.agent.close("other")
        chosen = {"resume": self.id, "session_id": None} if history else {"resume": None, "session_id": self.id}
        self.agent = self._build(self.config.replace(fork=False, **chosen))
        self.agent.policy.mode = mode
        self._connect_editor()
        self._announce_commands()

    def _resume_suspended(self) -> None:
        """Ask about the open calls of a suspended turn, before the message."""
        waiting = self.agent.restored.waiting if self.agent.restored else None
        if waiting is None or not waiting.calls or not self.agent.suspended:
            return
        self.agent.store.claim_plan(self.agent.session_id)
        self.agent.resume(self.show_event, waiting.spent)
        self._token.check()

    def _after_prompt(self) -> None:
        try:
            self._flush()
            self._report_choices()
            self._announce_commands()
            self.measure_context()
            self._titles.turn_ended(self.agent)
            self._send_title()
        except EditorError:
            pass  # the connection is gone, which ends the session anyway

    # Updates.

    def _send(self, update: Update) -> None:
        self._client.update(self.agent.session_id, update)

    def show_event(self, event: Event) -> None:
        """Send an event of the conversation."""
        if self._token.cancelled:
            # The turn has a new token: cancel it too.
            self.agent.interrupt()
        try:
            self._flush()
            self._updates(event)
            if self.agent.policy.mode != self._mode:
                self._report_choices()
        except EditorError:
            self.cancel()

    def _report_choices(self) -> None:
        """Send the mode and the options if they have changed since they were sent."""
        if (mode := self.agent.policy.mode) != self._mode:
            self._mode = mode
            self._send({"sessionUpdate": "current_mode_update", "currentModeId": mode})
        now = (mode, self.agent.label, self.agent.options.effort)
        if self._shown.setdefault("options", now) != now:
            self._shown["options"] = now
            options = choices.config_options(self)
            self._send({"sessionUpdate": "config_option_update", "configOptions": options})

    def _announce_commands(self) -> None:
        """Send the commands if they have changed since they were sent: servers add theirs later."""
        offered = choices.available_commands(self)
        if self._shown.get("commands") != offered:
            self._shown["commands"] = offered
            self._send({"sessionUpdate": "available_commands_update", "availableCommands": offered})
        label = (self.agent.policy.mode, self.agent.label, self.agent.options.effort)
        self._shown.setdefault("options", label)

    def _on_title(self, usage: Usage) -> None:
        """Send the title that the small model has made, from its thread."""
        self.add_usage(usage)
        with suppress(EditorError):
            self._send_title()

    def _send_title(self) -> None:
        said = (m.title for m in self.agent.history if isinstance(m, UserMessage) and m.from_user)
        title = self.agent.name or next(said, "")
        if title and self._shown.get("title") != title and not self.closed:
            self._shown["title"] = title
            self._send({"sessionUpdate": "session_info_update", "title": title, "updatedAt": utc_stamp()})

    # Questions.

    def _answerers(self, on_ask: str) -> tuple[Approver, Asker]:
        return self._approve, self._ask

    def _approve(self, request: ApprovalRequested) -> Answer:
        shown = self._updates
        call: Update = {"toolCallId": request.call_id, "status": "pending"}
        call |= shown.call_fields(request.tool, request.arguments, request.summary)
        call["content"] = shown.user_content(request.preview)
        return ask_approval(
            request,
            lambda dialog: self._put(dialog, call),
            self.agent.tool_context.workspace,
            self.agent.traits_of,
            about=shown.view.asked_for(request.call_id),
        )

    def _ask(self, asked: QuestionAsked) -> QuestionReply | Defer:
        kind = "switch_mode" if asked.kind == "plan" else "think"
        call: Update = {"toolCallId": asked.call_id, "kind": kind}
        if asked.kind == "review":
            call["content"] = self._updates.user_content(review_diffs(asked.data))
        workspace, ttl = self.agent.tool_context.workspace, self.layers.settings().plan_ttl
        return ask_question(asked, lambda dialog: self._put(dialog, call), workspace, ttl, self.agent.check_mode)

    def put(self, dialog: Dialog) -> Any:
        return self._put(dialog, None)

    def _put(self, dialog: Dialog, call: dict[str, Any] | None) -> Any:
        self._flush()
        return self._questions.put(dialog, self._token, call)

    def ask(self, question: str, read: Callable[[str], Any], text: str = "") -> Any:
        """Ask for a line in a form; None where the editor has none."""
        answer = self._questions.ask_text(question, TextInput("> ", read, text), self._token)
        if answer is None:
            self.say(f"{question} Give it with the command, as in /help.")
        return answer

    def edit(self, text: str, suffix: str = ".md") -> str | None:
        self.say("This needs a terminal: run agent there.")
        return None

    def outside(self, run: Callable[[], Any]) -> Any:
        self.say("This needs a terminal: run agent there.")

    # The rest of SlashContext.

    def say(self, text: str) -> None:
        """Show a line; the lines of a command are shown together."""
        self._lines.append(text)

    def _warn(self, text: str) -> None:
        self._lines.append(f"warning: {text}")

    def _flush(self) -> None:
        lines, self._lines = self._lines, []
        if not lines:
            return
        text = "\n".join(line.rstrip() for line in lines)
        aligned = any(line.startswith("  ") for line in lines)
        self._send(message_chunk(f"\n```\n{text}\n```\n" if aligned else "\n" + text.replace("\n", "\n\n") + "\n\n"))

    def show_display(self, display: Display) -> None:
        if isinstance(display, Diff | Diffs):
            for diff in display.files if isinstance(display, Diffs) else (display,):
                self.show_markdown(f"`{diff.path}`\n```diff\n{diff.patch.rstrip()}\n```\n")
        elif isinstance(display, TodoView):
            self._send(plan_update(display.items))
        else:
            self.say(one_line(str(display)))

    def show_markdown(self, text: str) -> None:
        self._flush()
        self._send(message_chunk(f"\n{text}\n"))

    def show_plan(self) -> None:
        plan = self.agent.tool_context.plan
        self._send(plan_update(plan))
        for item in plan:
            self.say(f"  [{'x' if item.status == 'completed' else ' '}] {one_line(item.content)}")
        if not plan:
            self.say("There is no plan.")

    def watch(self, rows: Callable[[int, int], Sequence[str]]) -> None:
        self._lines += rows(80, 40)

    def send_sequence(self, sequence: str) -> bool:
        return False

    def switch_theme(self, theme: str) -> None:
        raise UsageError("Colours are the editor's.")

    def switch_vim(self) -> bool | None:
        return None

    @property
    def context_tokens(self) -> int:
        """Tokens of the model's window in use."""
        return self.agent.context.used()[0]

    @property
    def usage(self) -> Usage:
        """Usage of the session."""
        return self._updates.view.spent

    def add_usage(self, usage: Usage) -> None:
        self._updates.view.spent += usage

    def measure_context(self) -> None:
        self._updates.show_usage()

    def change_stage(self) -> None:
        raise UsageError("An editor's session cannot be staged: start `agent --stage` in a terminal.")

    def start_new_session(self) -> None:
        raise UsageError(_THREADS)

    def resume(self, session_id: str) -> None:
        raise UsageError(_THREADS)

    def fork(self) -> str:
        raise UsageError(_THREADS)

    def switch_model(self, name: str, source: str = "sdk") -> None:
        self.agent.use_model(name, source)

    def switch_mode(self, mode: str) -> None:
        self.agent.use_mode(mode)

    def run_interruptible(self, run: Callable[[], object]) -> None:
        run()
