"""Serve an editor over the Agent Client Protocol (Zed, JetBrains, Neovim, VS Code).

The editor starts this; see docs/editors.md for its settings.
"""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from agent_cli import Config
from agent_cli.cli.app import with_run_options
from agent_cli.cli.commands.login import login
from agent_cli.cli.help import examples
from agent_cli.shells.acp.server import serve_editor

app = typer.Typer(add_completion=False)


@app.command(epilog=examples("agent acp", "agent acp --model anthropic/claude-sonnet-5 --permission-mode plan"))
@with_run_options(
    "model", "effort", "fallback_model", "permission_mode", "allow_dangerously_skip_permissions",
    "allowed_tools", "ask_tools", "disallowed_tools", "trust",
    "add_dir", "tools", "settings", "bare", "system_prompt", "append_system_prompt", "mcp_config", "strict_mcp_config",
    "max_turns", "max_budget_usd", "allow_unknown_cost", "no_session_persistence",
)  # fmt: skip
def acp(
    config: Config,
    what: Annotated[
        Literal["", "login"], typer.Argument(metavar="[login]", help="Log in, as an editor asks for in a terminal.")
    ] = "",
) -> int:
    # Some editors put the arguments of a login in place of `acp`, and some behind it.
    return login() if what else serve_editor(config)
