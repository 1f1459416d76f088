"""The AskUserQuestion tool: one to four questions to the user, with options and a free answer."""

from __future__ import annotations

from typing import Annotated

from agent_tools.base import Effect, Suspend, Tool, ToolContext, ToolError, ToolResult
from agent_tools.record import Value, to_json

MAX_QUESTIONS = 4


class Option(Value):
    """One answer to choose."""

    label: Annotated[str, "The answer in one to five words"]
    description: Annotated[str, "What choosing it means"] = ""


class Question(Value):
    """One question."""

    question: Annotated[str, "The whole question"]
    header: Annotated[str, "One or two words"] = ""
    options: Annotated[tuple[Option, ...], "Answers to choose from; none for a free answer"] = ()
    multiSelect: Annotated[bool, "Whether several may be chosen"] = False  # noqa: N815 - the name that models know


class AskUserQuestionArgs(Value):
    """The arguments of AskUserQuestion."""

    questions: Annotated[tuple[Question, ...], "One to four questions"]


class AskUserQuestion(Tool[AskUserQuestionArgs]):
    """Asks the user; the answer is the result."""

    name = "AskUserQuestion"
    Args = AskUserQuestionArgs
    asks_user = True
    of_conversation = True

    def read(self, arguments: dict[str, object]) -> AskUserQuestionArgs:
        args = super().read(arguments)
        if not 1 <= len(args.questions) <= MAX_QUESTIONS or any(not q.question.strip() for q in args.questions):
            raise ToolError(f"Ask one to {MAX_QUESTIONS} questions, each with a text.")
        return args

    def effects(self, args: AskUserQuestionArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("state"),)

    def summary(self, args: AskUserQuestionArgs, ctx: ToolContext) -> str:
        return f"Ask: {' '.join(args.questions[0].question.split())}"

    def run(self, args: AskUserQuestionArgs, ctx: ToolContext) -> ToolResult:
        questions = [to_json(q) for q in args.questions]
        return ToolResult("", suspend=Suspend("questions", {"questions": questions}))
