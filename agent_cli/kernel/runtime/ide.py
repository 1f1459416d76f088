"""The editor beside a session: its connection, what goes from it to the model, and changes that it shows.

Nothing is imported or connected before an editor is found.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from agent_cli.config.config import Config
from agent_cli.ide import locks
from agent_cli.kernel.engine.conversation import Conversation
from agent_cli.kernel.messages import UserMessage
from agent_cli.kernel.run_environment import RunEnvironment
from agent_cli.kernel.runtime.edit_call import WholeChange, arguments_to_write, whole_change
from agent_cli.kernel.runtime.user_decision import UserDecision
from agent_tools.base import Tool, ToolContext
from agent_tools.fs.encoding import count_lines, split_lines
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.text import counted, one_line

if TYPE_CHECKING:
    from agent_cli.ide.client import IdeClient, Mention, Selection
    from agent_cli.kernel.events import ApprovalRequested

with lazy_imports():
    from agent_cli.ide import client as ide_client
    from agent_cli.ide import diagnostics
    from agent_cli.knowledge import template

MAX_SELECTION_CHARS = 20_000
# How long a message waits for a connection that is being made.
_WAIT_SECONDS = 2.0
KEPT_OLD = "The user took this change back in their editor, so the file is unchanged."


class Attached(Value):
    """What goes with a message. block: for the model. said: for the user; "" if it was said before."""

    block: str = ""
    said: str = ""


class SessionIde:
    """The editor of one session. wanted: look for one by itself. problem: why there is no connection; "" if unknown.

    on_mention: called, on another thread, with what the user sends from the editor; on_connected: on any thread.
    """

    def __init__(
        self, conversation: Conversation, config: Config, run_env: RunEnvironment, add_tool: Callable[[Tool[Any]], None]
    ) -> None:
        """add_tool: offers the model a tool."""
        self._conversation, self._config, self._run_env, self._add_tool = conversation, config, run_env, add_tool
        self._client: IdeClient | None = None
        self._starting: threading.Thread | None = None
        self._guard = threading.Lock()
        self._refused: Selection | None = None
        self.wanted = False
        self.problem = ""
        self.on_mention: Callable[[Mention], None] = lambda mention: None
        self.on_connected: Callable[[], None] = lambda: None

    def find(self) -> tuple[list[locks.RunningEditor], list[str]]:
        """Return the editors that run, and why other locks are not believed."""
        return locks.find_editors(self._run_env.env, self._run_env.home)

    def start(self) -> None:
        """Connect to the editor of the workspace on another thread, if one runs and the session may."""
        config, env = self._config, self._run_env.env
        self.wanted = config.ide or (not (config.bare or config.safe) and locks.connects_by_itself(env))
        if self.wanted and self._choose() is not None:
            self._starting = threading.Thread(target=self._connect_own, name="ide-start", daemon=True)
            self._starting.start()

    def require(self) -> str:
        """Connect for a run that asked for it; return why there is no editor, "" if there is one."""
        self.start()
        if self.ready() is not None:
            return ""
        return self.problem or "--ide: no editor that serves the IDE protocol has this folder open."

    def adopt(self, other: SessionIde) -> None:
        """Take over the connection of the session before this one."""
        self.wanted, self.on_mention, self.on_connected = other.wanted, other.on_mention, other.on_connected
        with other._guard:
            self._client, other._client = other._client, None

    def _choose(self) -> locks.RunningEditor | None:
        return locks.editor_of(self.find()[0], self._run_env.cwd.resolve(), self._run_env.env)

    def _connect_own(self) -> None:
        editor = self._choose()
        try:
            if editor is not None:
                self.connect(editor)
        except locks.IdeError as error:
            self.problem = str(error)

    def connect(self, editor: locks.RunningEditor) -> None:
        """Connect to an editor. Raises IdeError."""
        client = ide_client.IdeClient(editor, lambda mention: self.on_mention(mention))
        with self._guard:
            before, self._client = self._client, client
        if before is not None:
            before.close()
        self.problem, self.wanted = "", True
        self.on_connected()

    def disconnect(self) -> None:
        """End the connection; the session connects no more by itself."""
        self.wanted = False
        self.close()

    def close(self) -> None:
        """End the connection."""
        with self._guard:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    @property
    def client(self) -> IdeClient | None:
        """The connection, if there is one now."""
        client = self._client
        return client if client is not None and not client.closed else None

    @property
    def name(self) -> str:
        """The name of the connected editor; "" for none."""
        client = self.client
        return client.editor.name if client is not None else ""

    def ready(self) -> IdeClient | None:
        """Return the connection for a message: wait for one that is being made, or connect again after it ended."""
        if not self.wanted:
            return None
        if self._starting is not None:
            self._starting.join(_WAIT_SECONDS)
            self._starting = None
        if self.client is None and (self._client is not None or not self.problem):
            self._connect_own()
        return self.client

    def attach(self) -> Attached:
        """Return what goes with the next message: what is selected, or which file is open, if the model may read it.

        What it has already got, and still sees, is not sent again.
        """
        client = self.ready()
        if client is None:
            return Attached()
        self._offer_tools()
        selection = client.selection
        if selection is None:
            return Attached()
        context, where = self._conversation.deps.context, self.name
        path = _readable(selection.path, context)
        if not path:
            told, self._refused = self._refused == selection, selection
            said = f"not attached: {_short(selection.path)}, selected in {where}, may not be read without asking"
            return Attached(said="" if told or not selection.text else said)
        name = context.workspace.spell(path)
        block, lines = _block(name, selection, where)
        seen = self._conversation.deps.state.window.view(self._conversation.history)
        if any(isinstance(message, UserMessage) and block in message.text for message in seen):
            return Attached()
        said = f"attached {lines} of {name}, selected in {where}" if lines else f"{name} is open in {where}"
        return Attached(block, said)

    def spell(self, mention: Mention) -> str:
        """Return a file that the user sends from the editor as a mention in a message."""
        context = self._conversation.deps.context
        name = context.workspace.spell(mention.path)
        lines = f":{mention.first}" if mention.first else ""
        lines += f"-{mention.last}" if mention.last > mention.first else ""
        return f'@"{name}{lines}"' if any(c.isspace() or c in "`'<>|*" for c in name) else f"@{name}{lines}"

    def open_file(self, path: str) -> None:
        """Show a file in the editor. Raises IdeError."""
        client = self.client
        if client is None:
            raise locks.IdeError("No editor is connected.")
        client.call("openFile", {"filePath": path, "preview": False, "makeFrontmost": True})

    def _offer_tools(self) -> None:
        """Offer the model the tool that asks the editor, once."""
        client, deps = self.client, self._conversation.deps
        if client is not None and diagnostics.IN_EDITOR in client.tools and diagnostics.NAME not in deps.tools:
            self._add_tool(diagnostics.IdeDiagnostics(lambda: self.client, _readable))

    def propose(self, request: ApprovalRequested, decide: Callable[[UserDecision], None]) -> ProposedChange | None:
        """Show the change of a call in the editor; None if it cannot be shown there.

        decide: called, on another thread, with what the user decides there.
        """
        client, deps = self.client, self._conversation.deps
        if client is None or "openDiff" not in client.tools:
            return None
        change = whole_change(request, deps.context.workspace, deps.traits_of)
        if change is None or (change.old and not _readable(change.path, deps.context)):
            return None
        return ProposedChange(client, request, change, lambda text: decide(self._decision(request, change, text)))

    def _decision(self, request: ApprovalRequested, change: WholeChange, text: str | None) -> UserDecision:
        """Return the user's decision. text: as saved in the editor; None if the change was rejected there."""

        def decided(verdict: Literal["approve", "reject"], words: str = "") -> UserDecision:
            return UserDecision(request.call_id, "", verdict, words)

        if text is None:
            return decided("reject")
        if text == change.new:
            return decided("approve")
        if text == change.old:
            return decided("reject", KEPT_OLD)
        arguments = arguments_to_write(text, change, request.arguments, self._conversation.deps.context.workspace)
        # Without arguments for this text nothing is approved: what was saved is not what would be written.
        unfit = "The user changed this edit in their editor to a text that this call cannot write. Read the file again."
        return decided("approve").replace(arguments=arguments) if arguments is not None else decided("reject", unfit)


class ProposedChange:
    """A change that the editor shows until it is decided, there or here."""

    def __init__(
        self,
        client: IdeClient,
        request: ApprovalRequested,
        change: WholeChange,
        saved: Callable[[str | None], None],
    ) -> None:
        """saved: called with the text that the user saved, or None if they rejected the change."""
        self.editor = client.editor.name
        self._client, self._saved = client, saved
        self._tab = f"[agent] {one_line(change.path.rpartition('/')[2])} ({request.call_id[-8:]})"
        self._proposed = change.new
        self._over = False
        arguments = {
            "old_file_path": change.path,
            "new_file_path": change.path,
            "new_file_contents": change.new,
            "tab_name": self._tab,
        }
        self._future = client.begin_call("openDiff", arguments)

    def begin(self) -> None:
        """Wait for the user's decision in the editor."""
        self._future.add_done_callback(self._answered)

    def _answered(self, future: Any) -> None:
        try:
            verdict, *texts = ide_client.result_texts(future.result())
        except (locks.IdeError, ValueError):
            return  # the question stays open here
        if self._over:
            return
        if verdict == "FILE_SAVED":
            self._saved(texts[0] if texts else self._proposed)
        elif verdict == "DIFF_REJECTED":
            self._saved(None)

    def end(self) -> None:
        """Close the tab, as the call is decided or its turn has ended."""
        self._over = True
        self._client.begin_call("close_tab", {"tab_name": self._tab})


def _readable(path: str, context: ToolContext) -> str:
    """Return the resolved path of a file that a message may contain without asking; "" for any other."""
    return template.readable_path(path, context, named=False)


def _short(path: str) -> str:
    return one_line(path.rpartition("/")[2])


def _block(name: str, selection: Selection, editor: str) -> tuple[str, str]:
    """Return the text for the model, and the selected lines in words; "" if a file is only open."""
    if not selection.text:
        return f'\n\n<editor path="{name}">\nThe user has this file open in {editor}.\n</editor>', ""
    text, first, last = selection.text, selection.first, selection.last
    lines = f"line {first}" if first == last else f"lines {first}-{last}"
    if len(text) > MAX_SELECTION_CHARS:
        text = text[:MAX_SELECTION_CHARS]
        shown = counted(count_lines(text), "line")
        lines = f"the first {shown} of {lines}"
        text += f"\n[cut here, after {MAX_SELECTION_CHARS:,} of {len(selection.text):,} characters]"
    body = "".join(split_lines(text)).rstrip("\n")
    return (
        f'\n\n<editor path="{name}" lines="{first}-{last}">\nThe user has this selected in {editor}, which may have '
        f"nothing to do with the message:\n{body}\n</editor>",
        lines,
    )
