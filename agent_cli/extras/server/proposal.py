"""The message that a model proposes for a commit of what its session changed."""

from __future__ import annotations

from agent_cli import Session, UsageError
from agent_cli.git.commit import CommitDraft, SessionChanges
from agent_cli.git.repository import Repository
from agent_cli.kernel.redact import Redactor
from agent_cli.models.base import ModelError


def propose_for_session(agent: Session) -> str:
    """Return a message with the trailers of the settings. Raises UsageError."""
    env = agent.run_env.env
    repo = Repository(agent.run_env.root, env)
    did = SessionChanges.of(agent.undo)
    draft = CommitDraft(repo, did.choose(repo.changes(), repo).take)
    try:
        model = agent.open_model(small=True)
        text, usage = draft.propose(
            model, agent.live_history, "", agent.policy.readable, Redactor(env), agent.tool_context.cancel
        )
    except ModelError as error:
        raise UsageError(f"The model proposes no message: {error.failure.message}") from None
    agent.charge(model.label, usage)
    return draft.signed(text, agent.settings.commit_trailers, agent.label)
