"""A session of a host program: read messages and control requests, run turns, write frames.

A reading thread takes what the host sends; the main thread runs the turns, in a conversation built at the first of it.
"""

from __future__ import annotations

import os
import queue
import re
import threading
from collections.abc import Callable
from typing import Any

from agent_cli import Config, Event, Failed, Session, Suspended, TurnResult, UsageError, read_settings
from agent_cli.console import print_ignored, print_line, print_notice, print_warning
from agent_cli.kernel.messages import parse_media
from agent_cli.kernel.results import empty_end
from agent_cli.kernel.run_environment import OutputError
from agent_cli.kernel.runtime.session_commands import run_session_command
from agent_cli.kernel.version import CLAUDE_CODE_VERSION
from agent_cli.knowledge.loader import Embedded
from agent_cli.shells.headless.output import ProgressPrinter, RunListener
from agent_cli.shells.headless.result_object import result_object
from agent_cli.shells.headless.run import (
    HeadlessOptions,
    InputMessage,
    announce_turn,
    finish,
    open_decisions,
    open_lines,
    without_model,
)
from agent_cli.shells.headless.stream_json import StreamJson
from agent_cli.shells.host.callbacks import HostCallbacks, PromptTool
from agent_cli.shells.host.channel import BadLine, ControlRequest, Fields, HostChannel, lines_of
from agent_cli.shells.host.control_table import ControlError, HostSetup, OpenSession
from agent_cli.shells.host.controls import BETWEEN_TURNS, SLOW_CONTROLS, run_control, waits_for_hooks
from agent_cli.shells.host.initialize import Initialized, read_initialize
from agent_tools.base import ToolError
from agent_tools.process.child import StopSignals
from agent_tools.record import Value
from agent_tools.text import new_uuid


class UserLine(Value):
    """A message of the user from the host. fields: those of its line."""

    message: InputMessage
    uuid: str
    fields: Fields


def read_user_line(fields: Fields) -> UserLine:
    """Read a line of type user. Raises UsageError."""
    try:
        content = fields["message"]["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        uuid = str(fields["uuid"])
        text = "".join(b["text"] for b in blocks if b["type"] == "text")
        message = InputMessage(text, parse_media(blocks), uuid.lower() if re.fullmatch(_UUID, uuid.lower()) else "")
    except (ValueError, KeyError, TypeError):
        raise UsageError(
            f"Line {fields['line']} of standard input is not "
            '{"type":"user","message":{"role":"user","content":...}}.'
        ) from None
    return UserLine(message, uuid, fields)


_UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


# How often background commands are looked at while the host is silent.
_POLL_SECONDS = 0.2


class _End:
    """The host closed its input."""


class HostSession(OpenSession):
    """One connection with a host."""

    def __init__(self, setup: HostSetup) -> None:
        self._frames = setup.frames
        self._channel = HostChannel(lines_of(0), print_line if self._frames else lambda fields: None)
        super().__init__(setup, HostCallbacks(self._channel, self._report_state))
        self._queue: queue.SimpleQueue[Fields | ControlRequest | BadLine | _End] = queue.SimpleQueue()
        self._dropped: set[str] = set()
        self._message_ids: list[str] = []
        self._initialized = Initialized()
        self._stream: StreamJson | None = None
        self._code = 0
        self._ended = False
        # An interrupt applies to the message before it, even if that one's turn has not begun yet.
        self._interrupted = self._turning = False

    def run(self) -> int:
        """Serve the host until it closes its input; return the exit code. Raises UsageError, OutputError."""
        if self.setup.prompt:
            self._on_line({"type": "user", "line": 0, "message": {"content": self.setup.prompt}})
        threading.Thread(target=self._read, name="host", daemon=True).start()
        try:
            watch = StopSignals(self._interrupt)
            with watch:
                while not watch.caught and not self._ended:
                    item = self._next()
                    if isinstance(item, _End):
                        break
                    self._handle(item, watch)
            return 128 + watch.caught if watch.caught else self._code
        except UsageError as error:
            # Tell the host the reason for the exit.
            failed = Failed(empty_end("failed"), text=str(error))
            self._channel.send(result_object(failed, "failed", "", self.view, (None, None), structured=False))
            raise
        finally:
            if self._agent is not None:
                self._agent.close()

    def _next(self) -> Fields | ControlRequest | BadLine | _End:
        """Wait for the host, and report background commands that end meanwhile, which may start a turn."""
        while self._stream is not None and (self._stream.between_turns() or self._may_wake):
            try:
                return self._queue.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                if self._may_wake and self.agent.wakes(self.agent.settings.wake_turns):
                    uuid = new_uuid()
                    self._message_ids.append(uuid)
                    message = {"content": self.agent.take_reports()}
                    return {"type": "user", "line": 0, "uuid": uuid, "client_composed": True, "message": message}
        return self._queue.get()

    @property
    def _may_wake(self) -> bool:
        """True if something in the background may start a turn yet."""
        return self.agent.woken < self.agent.settings.wake_turns

    def end(self) -> None:
        """End the session after the running turn."""
        self._ended = True
        self._queue.put(_End())

    def _interrupt(self) -> None:
        self._queue.put(_End())
        if self._agent is not None:
            self._agent.interrupt()

    def _read(self) -> None:
        try:
            self._channel.read(self._on_line)
        except (OutputError, OSError):
            self._interrupt()
        finally:
            self._queue.put(_End())

    def _on_line(self, item: ControlRequest | BadLine | Fields) -> None:
        """Handle a line on the reading thread."""
        if not isinstance(item, ControlRequest):
            if isinstance(item, dict) and item["type"] == "user":
                item.setdefault("uuid", new_uuid())
                self._message_ids.append(str(item["uuid"]))
                if item.get("priority") == "now" and self._agent is not None:
                    self._agent.interrupt()
            self._queue.put(item)
        elif item.subtype == "initialize" or item.subtype in BETWEEN_TURNS or self._agent is None:
            self._queue.put(item)
        elif item.subtype in SLOW_CONTROLS or waits_for_hooks(self._agent, item.subtype):
            threading.Thread(target=self._answer, args=(item,), name=item.subtype, daemon=True).start()
        else:
            self._answer(item)

    def _answer(self, request: ControlRequest) -> None:
        try:
            self._channel.answer(request, run_control(self, request.subtype, request.fields))
        except ControlError as error:
            self._channel.refuse(request, str(error))

    def interrupt(self) -> None:
        """Stop the running turn, or the one that the first waiting message starts."""
        self._interrupted = self._turning or bool(self.queued())
        self.agent.interrupt()

    def queued(self) -> list[str]:
        """Return the IDs of the messages that wait for their turn."""
        return [name for name in self._message_ids if name not in self._dropped]

    def drop_queued(self, name: str = "") -> list[str]:
        """Drop a waiting message, or all of them; return the IDs of those dropped."""
        dropped = [known for known in self.queued() if name in ("", known)]
        self._dropped.update(dropped)
        return dropped

    def _handle(self, item: Fields | ControlRequest | BadLine, watch: StopSignals) -> None:
        if isinstance(item, BadLine):
            raise UsageError(f"Line {item.number} of standard input is not a JSON object.")
        if isinstance(item, ControlRequest):
            if item.subtype == "initialize":
                self._initialize(item)
            else:
                self._open()
                self._answer(item)
        elif item["type"] == "user":
            line = read_user_line(item)
            self._message_ids.remove(line.uuid)
            if line.uuid not in self._dropped and (line.message.text.strip() or line.message.media):
                self._open()
                self._turning = True
                try:
                    self._turn(line, watch)
                finally:
                    self._turning = self._interrupted = False
        elif item["type"] == "update_environment_variables" and isinstance(item.get("variables"), dict):
            os.environ.update({str(k): str(v) for k, v in item["variables"].items()})
        # Anything else, such as keep_alive, needs no answer.

    def _initialize(self, request: ControlRequest) -> None:
        if self._agent is not None:
            # A host that reconnects sends it again for the answer; the session does not change.
            self._channel.answer(request, self._about(request))
            return
        self._initialized = read_initialize(request.fields, self.callbacks)
        self._open()
        if self._initialized.title:
            self.agent.rename(self._initialized.title)
        self._channel.answer(request, self._about(request))

    def _about(self, request: ControlRequest) -> Fields:
        """Return the answer to `initialize`."""
        model = self.agent.model
        return {
            "commands": self.commands(),
            "agents": self.agents(),
            "output_style": self.output_style,
            "available_output_styles": self.output_styles(),
            "models": self.models(),
            "account": {"apiKeySource": model.key_source, "apiProvider": model.provider},
            **self._initialized.applied(request.fields),
            "hook_on_failure_supported": True,
            "claude_code_version": CLAUDE_CODE_VERSION,
        }

    def _open(self) -> None:
        """Build the agent if there is none yet. Raises UsageError."""
        if self._agent is not None:
            return
        self._build(self._initialized.change(self.setup.config))
        self.first_model = self.agent.model.name

    def _build(self, config: Config) -> None:
        layers = read_settings(config, self.run_env)
        print_ignored(layers.ignored)
        name = self.setup.prompt_tool
        asks_host = name == "stdio"
        approver, asker = (self.callbacks.approve, self.callbacks.ask) if asks_host else self.setup.unattended
        tool = PromptTool(name) if name and not asks_host else None
        if tool is not None:
            approver = tool.approve
        embedded = Embedded(
            hooks=self._initialized.hooks,
            agents=self._initialized.agents,
            skills=self._initialized.skills,
            tool_aliases=self._initialized.aliases, plan_workflow=self._initialized.plan_workflow,
            answers=asks_host, approves=asks_host or tool is not None,
            host=self.callbacks.servers,
            waits=False,
            mirror=self._mirror,
        )  # fmt: skip
        agent = Session.open(
            config, self.run_env, lambda on_ask: (approver, asker), print_warning, layers=layers, embedded=embedded
        )
        self._agent = agent
        if tool is not None:
            tool.attach(agent)
        self.callbacks.attach(agent)
        agent.start_background_work()
        self.setup.on_open(agent)

    def _report_state(self, state: str) -> None:
        if self._stream is not None:
            self._stream.state(state)

    def _mirror(self, path: str, entries: list[Fields]) -> None:
        """Send entries of the transcript to the host when they are written to its file."""
        self._channel.send({"type": "transcript_mirror", "filePath": path, "entries": entries})

    def _turn(self, line: UserLine, watch: StopSignals) -> None:
        """Send a message and report on its turn. Raises OutputError."""
        agent = self.agent
        if agent.mcp is not None:
            agent.mcp.wait_ready()
        options, report = self._headless_options(agent), self.setup.report(agent)
        if self._frames and self._stream is None:
            self._stream = open_lines(options, agent, report, self._channel.send)
        stream = self._stream
        if stream is not None:
            announce_turn(stream, options, report, line.fields)
        # Costs add up over the turns of a session.
        view, earlier = self.view, self.usage
        view.failed_hooks.clear()
        shown = stream.show if stream is not None else ProgressPrinter(print_notice, options.verbose).show
        listener = RunListener(shown, view=view, pieces=options.partial or options.verbose)

        def show(event: Event) -> None:
            if self._interrupted:
                agent.interrupt()
            listener(event)

        result = self._run(line, show)
        self.usage += result.end.usage
        self.api_ms += result.end.diagnostics.model_ms
        pending: list[dict[str, Any]] = []
        if isinstance(result, Suspended):
            pending = open_decisions(view, agent, report)
        agent.record_unsaid()
        servers = agent.mcp.outcome() if agent.mcp is not None else []
        # After /clear the frames belong to the new session.
        report = self.setup.report(self.agent)
        self._code = finish(options, report, result, view, stream, watch.caught, pending, line.fields, servers, earlier)

    def _headless_options(self, agent: Session) -> HeadlessOptions:
        options = self.setup.headless(agent)
        return options.replace(subagent_text=options.subagent_text or self._initialized.forward_subagents)

    def _run(self, line: UserLine, show: Callable[[Event], None]) -> TurnResult:
        """Run the turn for a message, or the session command in it."""
        agent = self.agent
        text, media = line.message.text, line.message.media
        self.messages[line.uuid] = len(agent.history)
        # The message was composed by a program, with the SDK's `verbatim_prompts`.
        verbatim = line.fields.get("client_composed") is True
        if text.startswith("/") and not verbatim:
            answer = run_session_command(self, text, show)
            if answer is not None:
                return without_model(answer)
        if agent.suspended and (resume := agent.deferred_step()) is not None:
            result = resume(show)
            if isinstance(result, Suspended):
                return result
            self.usage += result.end.usage
        try:
            if not verbatim:
                media = (*agent.attachments.mentioned(text), *media)
            return agent.send(text, show, media, line.message.uuid, verbatim=verbatim)
        except ToolError as error:
            return without_model(str(error))

    def clear(self) -> None:
        """Start a new conversation with the same configuration, in a new session."""
        old, config = self.agent, self._initialized.change(self.setup.config)
        model, mode = old.label, old.policy.mode
        old.close("clear")
        self.messages.clear()
        self._build(config.replace(resume=None, latest=False, fork=False, session_id=None, model=model))
        self.agent.policy.mode = mode
        self.agent.mark_cleared()
        if self._stream is not None:
            self._stream.reset(self.agent.session_id)
            self._stream = None
