"""The plan tools: ExitPlanMode proposes a plan; TodoWrite, TodoRead and PlanProgress maintain the todo list."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Annotated, Any, ClassVar, Literal

from agent_tools.base import Effect, Suspend, Tool, ToolContext, ToolError, ToolResult
from agent_tools.record import Value
from agent_tools.results import TodoItem, TodoView
from agent_tools.text import counted, one_line, parse_number, shorten

# Lists of a plan: arguments of ExitPlanMode to the headings of their sections in the text.
SECTIONS = {
    "steps": "Steps",
    "files_to_create": "Files to create",
    "files_to_modify": "Files to modify",
    "commands": "Commands",
    "dependencies": "Dependencies",
    "tests": "Tests",
}
# What an item of these lists says of its file, as an object: {"path": ..., "purpose": ...}. As text: "path: purpose".
FILE_NOTES = {"files_to_create": "purpose", "files_to_modify": "changes", "tests": "coverage"}
_ITEM_NAMES = (
    "path", "file", "file_path", "filename", "command", "cmd", "run", "name", "package", "step", "title", "content",
    "task", "test",
)  # fmt: skip
_TITLES = {title.lower(): name for name, title in SECTIONS.items()}
SECTION_MARKER = f"<!-- Sections below this line, one item a line: {', '.join(SECTIONS.values())} -->"


class PlanFormatError(ValueError):
    """An edited plan cannot be parsed; the message is for the user."""


class ExitPlanModeArgs(Value):
    """The arguments of ExitPlanMode: a plan as text, and lists of its parts."""

    # They repeat what the text has.
    UNLISTED: ClassVar = ("files_to_create", "files_to_modify", "commands", "dependencies", "tests")

    plan: Annotated[str, "The plan in markdown: the changes, their order, how they are verified"]
    steps: Annotated[tuple[str, ...], "The steps, in order, for the todo list"] = ()
    files_to_create: Annotated[tuple[str, ...], "path: purpose"] = ()
    files_to_modify: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    dependencies: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()


class ExitPlanMode(Tool[ExitPlanModeArgs]):
    """Proposes a plan to the user, who approves it, rejects it with comments, or cancels the work."""

    name = "ExitPlanMode"
    Args = ExitPlanModeArgs
    asks_user = True
    of_conversation = True
    ends_plan_mode = True
    composed = True

    def read(self, arguments: dict[str, Any]) -> ExitPlanModeArgs:
        named = _with_text({name: _decoded(value) for name, value in self.canonical(arguments).items()})
        lists = {name: _as_texts(name, value) for name, value in named.items() if name in SECTIONS}
        return super().read({**named, **lists})

    def effects(self, args: ExitPlanModeArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("state"),)

    def summary(self, args: ExitPlanModeArgs, ctx: ToolContext) -> str:
        return "Propose a plan"

    def run(self, args: ExitPlanModeArgs, ctx: ToolContext) -> ToolResult:
        data: dict[str, Any] = {"plan": args.plan.strip("\n")}
        data |= {name: _clean_items(getattr(args, name)) for name in SECTIONS}
        data["steps"] = data["steps"] or _clean_items(plan_items(args.plan))
        return ToolResult("", suspend=Suspend("plan", data))


def _with_text(named: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with all that has no list of its own in the text; it may be missing beside lists."""
    plan = named.get("plan")
    if isinstance(plan, dict):
        named = {**plan, **{name: value for name, value in named.items() if name != "plan"}}
        plan = plan.get("plan")
    kept = {name: value for name, value in named.items() if name in SECTIONS and value}
    others = {name: value for name, value in named.items() if name not in SECTIONS and name != "plan"}
    parts = ["\n".join(map(_flat, plan)) if isinstance(plan, list) else plan or ""]
    if not isinstance(parts[0], str) or not any((kept, others, parts[0])) or not all(map(_is_prose, others.values())):
        return named
    for name, value in others.items():
        lines = [_flat(_as_text(name, item)) for item in value] if isinstance(value, list) else []
        text = "\n".join(f"- {line}" for line in lines if line) if lines else _flat(value)
        parts += [f"## {name.replace('_', ' ').capitalize()}\n{text}"] if text else []
    return {**kept, "plan": "\n\n".join(filter(None, parts))}


def _is_prose(value: Any) -> bool:
    """Return True for text, and for lists and tables of it."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, str | dict | list) and all(map(_is_prose, inner))


def _as_texts(name: str, value: Any) -> Any:
    """Return a list of a plan with each object as a text: "path: purpose"."""
    if isinstance(value, dict):
        # By path, or a single item.
        single = any(isinstance(value.get(key), str) for key in _ITEM_NAMES)
        value = [value] if single else [{"path": key, "purpose": text} for key, text in value.items()]
    if isinstance(value, str):
        value = value.splitlines()
    return [_as_text(name, item) for item in value] if isinstance(value, (list, tuple)) else value


def _decoded(value: Any) -> Any:
    """Return the value of a text that is a JSON object or a list of them; anything else as it is."""
    if isinstance(value, str) and re.match(r"\s*(\{|\[\s*[{\"])", value):
        with suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


def _as_text(name: str, item: Any) -> Any:
    item = _decoded(item)
    if isinstance(item, list) and len(item) > 1 and all(isinstance(part, str) for part in item):
        return ": ".join(item)
    if not isinstance(item, dict):
        return item
    item = {key: value for key, value in item.items() if key not in ("id", "status")}
    key = next((key for key in _ITEM_NAMES if isinstance(item.get(key), str)), next(iter(item), ""))
    rest = [_flat(value) for other, value in item.items() if other != key]
    head, note = _flat(item.get(key)), "; ".join(filter(None, rest))
    if name == "commands":
        return f"{head}  # {one_line(note)}" if note else head
    return ": ".join(filter(None, (head, note)))


def _flat(value: Any) -> str:
    """Return a value of an object as text."""
    if isinstance(value, (list, tuple)):
        return "; ".join(filter(None, map(_flat, value)))
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_flat(inner)}" for key, inner in value.items())
    return "" if value is None else str(value).strip()


def plan_file(item: str) -> tuple[str, str]:
    """Split an item of a list of files, "path: purpose", into the path and what the plan says of it."""
    path, _, note = item.partition(": ")
    return path.strip(), note.strip()


def plan_text(data: dict[str, Any]) -> str:
    """Format a proposed plan (the data of its `Suspend`) as markdown: its text, then a section for each list.

    Steps that the text already lists are not repeated.
    """
    prose = _prose_of(data)
    return "\n\n".join(part for part in (prose, *_sections(data, prose)) if part)


def plan_for_editor(data: dict[str, Any]) -> str:
    """Format a plan with a marker line between text and sections, so that `parse_plan` can parse it."""
    prose = _prose_of(data)
    sections = list(_sections(data, prose))
    border = (
        [SECTION_MARKER] if sections or any(_is_marker(line) or _is_section(line) for line in prose.split("\n")) else []
    )
    return "\n\n".join(part for part in (prose, *border, *sections) if part) + "\n"


def parse_plan(text: str) -> dict[str, Any]:
    """Parse an edited plan. Raises PlanFormatError with a message for the user."""
    lines = text.split("\n")
    border = next((n for n in range(len(lines) - 1, -1, -1) if _is_marker(lines[n])), None)
    if border is None:
        if heading := next(filter(_is_section, lines), "").strip():
            raise PlanFormatError(f'"{heading}" is a section: put this line above the first section: {SECTION_MARKER}')
        border = len(lines)
    prose = "\n".join(lines[:border]).strip("\n")
    found: dict[str, list[str]] = {name: [] for name in SECTIONS}
    section: list[str] | None = None
    blank = 0
    for line in lines[border + 1 :]:
        if not line:
            blank += 1
            continue
        if title := _heading_title(line):
            if title not in _TITLES:
                known = ", ".join(SECTIONS.values())
                raise PlanFormatError(f'There is no section "{line.strip()}"; the sections are {known}.')
            section = found[_TITLES[title]]
        elif section is not None and (item := re.match(r"(?:\d+[.)]|[-*])(?:\s+|$)(?s:(.*))", line)):
            section.append(item[1])
        elif section and line[0] in " \t":
            section[-1] += "\n" * (blank + 1) + re.sub(r"^(?: {1,4}|\t)", "", line)
        elif line.strip():
            raise PlanFormatError(
                f'"{line.strip()}" is not a list item: start an item with "- " or "1. " below a heading, and indent '
                "the lines that continue it."
            )
        blank = 0
    data: dict[str, Any] = {"plan": prose} | {name: _clean_items(items) for name, items in found.items()}
    data["steps"] = data["steps"] or _clean_items(plan_items(prose))
    if not prose.strip() and not any(data[name] for name in SECTIONS):
        raise PlanFormatError("The plan is empty.")
    return data


def _prose_of(data: dict[str, Any]) -> str:
    return str(data.get("plan") or "").strip("\n")


def _sections(data: dict[str, Any], prose: str) -> Iterator[str]:
    for name, title in SECTIONS.items():
        items = _clean_items(item["content"] if isinstance(item, dict) else item for item in data.get(name, ()))
        if not items or (name == "steps" and items == _clean_items(plan_items(prose))):
            continue
        rows = (re.sub(r"\n(?=[^\n])", "\n    ", item) for item in items)
        marked = (f"{n}. {row}" if name == "steps" else f"- {row}" for n, row in enumerate(rows, 1))
        yield "\n".join((f"## {title}", *marked))


def _heading_title(line: str) -> str:
    """Return the title of a heading line in lower case; "" for any other line."""
    found = re.match(r"#+\s+(\S.*?)\s*#*\s*$", line)
    return found[1].lower().rstrip(":") if found else ""


def _is_section(line: str) -> bool:
    return _heading_title(line) in _TITLES


def _is_marker(line: str) -> bool:
    return line.rstrip() == SECTION_MARKER


def _clean_items(texts: Iterable[str]) -> list[str]:
    return [item for text in texts if (item := str(text).strip())]


def plan_items(plan: str) -> list[str]:
    """Return the numbered items of a plan without steps, else its bullets."""
    numbered = re.findall(r"^\d+[.)]\s+(.+)$", plan, re.MULTILINE)
    return numbered or re.findall(r"^[-*]\s+(.+)$", plan, re.MULTILINE)


class PlanProgressArgs(Value):
    """The arguments of PlanProgress."""

    step_id: Annotated[str, "Id of the finished step, or its number from 1"] = ""
    step_summary: Annotated[str, "What was done"] = ""
    next_step: Annotated[str, "Id or number of the step to begin"] = ""
    new_step: Annotated[str, "A step to add"] = ""
    plan_status: Annotated[Literal["in_progress", "completed"], "completed: the whole plan; call it alone"] = (
        "in_progress"
    )


class PlanProgress(Tool[PlanProgressArgs]):
    """Updates one step without sending the whole list."""

    name = "PlanProgress"
    rare = True
    Args = PlanProgressArgs
    of_conversation = True
    changes_plan = True
    composed = True

    def read(self, arguments: dict[str, object]) -> PlanProgressArgs:
        args = super().read(arguments)
        if not (args.step_id or args.next_step or args.new_step.strip() or args.plan_status == "completed"):
            raise ToolError(
                "Invalid arguments. Give the finished step (step_id), the step that starts now (next_step), a step to "
                'add (new_step), or plan_status "completed" for the whole plan.'
            )
        return args

    def effects(self, args: PlanProgressArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("state"),)

    def summary(self, args: PlanProgressArgs, ctx: ToolContext) -> str:
        if args.plan_status == "completed":
            return "Plan: completed"
        if args.new_step and not (args.step_id or args.next_step):
            return f"Plan: add {shorten(args.new_step)}"
        return f"Plan: step {args.step_id} done" if args.step_id else f"Plan: step {args.next_step} begins"

    def is_exclusive(self, args: PlanProgressArgs) -> bool:
        return args.plan_status == "completed"

    def run(self, args: PlanProgressArgs, ctx: ToolContext) -> ToolResult:
        if not ctx.plan and not args.new_step:
            make = ctx.workspace.advice("TodoWrite", "Make one with {} first.")
            raise ToolError(f"There is no plan yet.{make}")
        plan = list(ctx.plan)
        added = ""
        if args.new_step:
            names = {item.id for item in plan}
            number = next(n for n in range(len(plan) + 1, 2 * len(plan) + 3) if str(n) not in names)
            plan.append(TodoItem(args.new_step.strip(), id=str(number)))
            _validate(tuple(plan))
            added = f"Step {number} was added. "
        if args.plan_status == "completed":
            plan = [t if t.status == "cancelled" else t.replace(status="completed") for t in plan]
        if args.step_id:
            done = _find_step(plan, args.step_id)
            plan[done] = plan[done].replace(status="completed")
        if args.next_step:
            now = _find_step(plan, args.next_step)
            plan = [t.replace(status="pending") if t.status == "in_progress" else t for t in plan]
            plan[now] = plan[now].replace(status="in_progress")
        ctx.plan = tuple(plan)
        left = sum(t.status in ("pending", "in_progress") for t in plan)
        open_now = (
            f"{left} of {counted(len(plan), 'step')} {'is' if left == 1 else 'are'} open."
            if left
            else "All steps are done."
        )
        return ToolResult(f"{added or 'Noted. '}{open_now}", TodoView(ctx.plan))


def _find_step(plan: list[TodoItem], name: str) -> int:
    """Return the index of a step given its ID, number or text. Raises ToolError."""
    for index, item in enumerate(plan):
        if name in (item.id, item.content):
            return index
    if 1 <= parse_number(name) <= len(plan):
        return parse_number(name) - 1
    steps = ", ".join(f"{t.id or n}: {t.content}" for n, t in enumerate(plan, 1))
    raise ToolError(f"The plan has no step {name!r}. Its steps are: {steps}.")


_STATUS_SIGNS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]", "cancelled": "[-]"}


class TodoWriteArgs(Value):
    """The arguments of TodoWrite."""

    ALIASES: ClassVar = {"todos": ("items", "plan", "tasks")}

    todos: Annotated[tuple[TodoItem, ...], "The whole plan, in order; it replaces the old one"]


class TodoReadArgs(Value):
    """TodoRead has no arguments."""


class TodoWrite(Tool[TodoWriteArgs]):
    """Replaces the plan."""

    name = "TodoWrite"
    Args = TodoWriteArgs
    of_conversation = True
    changes_plan = True
    plan_argument = "todos"
    composed = True

    def effects(self, args: TodoWriteArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("state"),)

    def summary(self, args: TodoWriteArgs, ctx: ToolContext) -> str:
        done = sum(item.status == "completed" for item in args.todos)
        return f"Plan: {done} of {len(args.todos)} done"

    def run(self, args: TodoWriteArgs, ctx: ToolContext) -> ToolResult:
        _validate(args.todos)
        ctx.plan = args.todos
        if not ctx.plan:
            return ToolResult("The plan is empty now.", TodoView(()))
        now = next((item.content for item in ctx.plan if item.status == "in_progress"), None)
        left = sum(item.status in ("pending", "in_progress") for item in ctx.plan)
        text = f"Plan noted: {counted(len(ctx.plan), 'step')}, {left} open."
        return ToolResult(f"{text} In progress: {one_line(now)}." if now else text, TodoView(ctx.plan))


class TodoRead(Tool[TodoReadArgs]):
    """Returns the current plan."""

    name = "TodoRead"
    rare = True
    Args = TodoReadArgs
    of_conversation = True
    composed = True

    def effects(self, args: TodoReadArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("state"),)

    def summary(self, args: TodoReadArgs, ctx: ToolContext) -> str:
        return "Read the plan"

    def run(self, args: TodoReadArgs, ctx: ToolContext) -> ToolResult:
        lines = [f"{_STATUS_SIGNS[item.status]} {one_line(item.label)}" for item in ctx.plan]
        return ToolResult("\n".join(lines) or "There is no plan yet.", TodoView(ctx.plan))


def _validate(items: tuple[TodoItem, ...]) -> None:
    """Raise ToolError for an invalid plan."""
    running = [item.content for item in items if item.status == "in_progress"]
    if len(running) > 1:
        raise ToolError(f"Only one step can be in_progress at a time, not {len(running)}: {'; '.join(running)}.")
    if any(not item.content.strip() for item in items):
        raise ToolError("Every step needs content that describes what to do.")
    for what, names in (("content", [i.content.strip() for i in items]), ("id", [i.id for i in items if i.id])):
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ToolError(f"Two steps have the same {what}: {twice!r}. Each must be unique.")
