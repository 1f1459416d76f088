"""Serve sessions over HTTP, with a page: start, watch and approve from a browser, on this machine or another.

See docs/web.md.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from agent_cli import Config, UsageError, find_environment, read_settings
from agent_cli.cli.app import AsJson, ListingGroup, check_choice
from agent_cli.cli.help import examples, one_of
from agent_cli.config.schema import Settings
from agent_cli.console import echo, print_json, print_notice, table
from agent_cli.extras.server.app import read_last_link
from agent_cli.extras.server.guard import ROLES, AccessTokenStore
from agent_cli.extras.server.start import LOCAL_HOSTS, ServerStart
from agent_cli.kernel.session.store import state_folder
from agent_tools.text import one_line

app = typer.Typer(invoke_without_command=True, add_completion=False)
tokens = typer.Typer(cls=ListingGroup, add_completion=False)
app.add_typer(tokens, name="token", help="Add, list and revoke the tokens that requests need.")
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the token, as decisions show it.")]


@app.callback(epilog=examples("agent serve", "agent serve --project ~/src/app --workers 8", "agent serve token list"))
def serve_sessions(
    context: typer.Context,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="N", help="Port; 0: any free one.", min=0, max=65535)] = 4096,
    project: Annotated[
        list[str] | None,
        typer.Option("--project", metavar="DIR", help="A folder to start sessions in (default: from the settings)."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            metavar="N",
            help="How many sessions run at the same time (default: one for each processor).",
            min=1,
        ),
    ] = None,
    certfile: Annotated[str, typer.Option("--certfile", metavar="FILE", help="Certificate chain (PEM), for TLS.")] = "",
    keyfile: Annotated[str, typer.Option("--keyfile", metavar="FILE", help="Its private key (PEM).")] = "",
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Allow an address other than loopback without TLS.")
    ] = False,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option("--allowed-host", metavar="NAME", help="A name that a reverse proxy passes on, with its port."),
    ] = None,
    allow_bypass: Annotated[
        bool, typer.Option("--allow-bypass", help="Let requests choose the mode bypassPermissions.")
    ] = False,
    no_schedules: Annotated[
        bool, typer.Option("--no-schedules", help="Do not start the runs of schedules (agent every).")
    ] = False,
    phone: Annotated[
        bool, typer.Option("--phone", help="Show a QR code that pairs a phone. It needs an https address.")
    ] = False,
) -> int:
    if context.invoked_subcommand is not None:
        return 0
    if host not in LOCAL_HOSTS and not certfile and not insecure:
        raise UsageError(
            f"{one_line(host)} can be reached by other machines, and the token would be sent unencrypted: give "
            "--certfile, or --insecure behind a proxy that speaks TLS."
        )
    if phone and not certfile and not allowed_host:
        raise UsageError(
            "--phone needs an https address: give --certfile, or start a tunnel such as tailscale serve 4096 and give "
            "its name with --allowed-host."
        )
    _check_files(certfile, keyfile)
    settings = _settings()
    folders = _folders(tuple(project or ()) or settings.serve.projects)
    start = ServerStart(
        host=host,
        port=port,
        folders=tuple(folders),
        allowed_hosts=tuple(allowed_host or ()),
        certfile=certfile,
        keyfile=keyfile,
        workers=workers or os.cpu_count() or 1,
        bypass=allow_bypass,
        private=settings.web.allow_private,
        notify=settings.serve.notify,
        ticks=not no_schedules,
        phone=phone,
    )
    return start.serve(os.environ)


def _check_files(certfile: str, keyfile: str) -> None:
    """Raise UsageError for a missing file, or a key without its certificate."""
    if keyfile and not certfile:
        raise UsageError("--keyfile needs --certfile.")
    for name in filter(None, (certfile, keyfile)):
        if not Path(name).is_file():
            raise UsageError(f"There is no file {one_line(name)}.")


def _settings() -> Settings:
    """Return the user's own settings; those of a project do not count."""
    run_env = find_environment(os.environ)
    return read_settings(Config(), run_env).settings()


def _folders(names: tuple[str, ...]) -> list[Path]:
    """Return the folders of the projects, links resolved. Raises UsageError."""
    found = []
    for name in names or (str(find_environment(os.environ).root),):
        path = Path(os.path.realpath(os.path.expanduser(name)))
        if not path.is_dir():
            raise UsageError(f"{one_line(name)} is not a folder (setting serve.projects, or --project).")
        if path not in found:
            found.append(path)
    return found


@tokens.command("add", epilog=examples("agent serve token add phone --role decide"))
def add_token(
    name: Name,
    role: Annotated[
        str,
        typer.Option(
            "--role", metavar="ROLE", callback=check_choice(ROLES),
            help=f"{one_of(ROLES).capitalize()}: see sessions; also decide waiting calls; also start, steer and undo.",
        ),
    ] = "read",
) -> int:  # fmt: skip
    """Add a token; its secret is printed once."""
    state = state_folder(os.environ)
    secret = AccessTokenStore(state).add(name, role)
    echo(secret)
    print_notice(f"It is shown once. As a link: {read_last_link(state)[0] or 'http://ADDRESS/'}#token={secret}")
    return 0


@tokens.command("list", epilog=examples("agent serve token list"))
def list_tokens(as_json: AsJson = False) -> int:
    """List the tokens: names, roles, and since when."""
    known = AccessTokenStore(state_folder(os.environ)).all()
    if as_json:
        print_json([{"name": token.name, "role": token.role, "created": token.created} for token in known])
        return 0
    rows = [(token.name, token.role, token.created) for token in known]
    echo("\n".join(table(("NAME", "ROLE", "SINCE"), rows)) if rows else "There are no tokens.")
    return 0


@tokens.command("revoke", epilog=examples("agent serve token revoke phone"))
def revoke_token(name: Name) -> int:
    """Revoke a token."""
    AccessTokenStore(state_folder(os.environ)).revoke(name)
    echo(f"{one_line(name)} is revoked; open pages of it end at their next request.")
    return 0
