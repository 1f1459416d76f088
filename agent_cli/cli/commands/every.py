"""Run a prompt on a schedule; what needs your approval waits in `agent pending`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from agent_cli import Config, RunEnvironment, UsageError, find_environment, read_settings
from agent_cli.cli.app import AsJson, ListingGroup, check_choice, check_finite, with_run_options
from agent_cli.cli.help import examples
from agent_cli.cli.questions import can_ask, confirm
from agent_cli.cli.run_flags import to_flags
from agent_cli.cli.run_options import RunOptions, session_config
from agent_cli.console import echo, print_json, print_notice, table
from agent_cli.extras.schedules.install import Waker
from agent_cli.extras.schedules.items import Schedules
from agent_cli.kernel.runtime.models import ChosenModel
from agent_cli.kernel.session.schedules import Schedule
from agent_tools.text import dollars, one_line, shorten


class EveryGroup(ListingGroup):
    """A first word that names no command is the SPEC of a new schedule."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words = [word for word in args if not word.startswith("-")]
        if words and not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            args = ["add", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(cls=EveryGroup, add_completion=False, subcommand_metavar="[SPEC PROMPT... | COMMAND]")
Which = Annotated[str, typer.Argument(metavar="ID", help="ID of a schedule, or the beginning of it.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.command(
    epilog="SPEC is five cron fields, @daily and the like, 15m, 2h, 'weekdays 9:00' or 'monday,thursday 18:30'.\n\n"
    + examples(
        "agent every add 'weekdays 9:00' \"Update the dependencies\"",
        "agent every add '0 3 * * 1' --budget-per-day 2 \"Look for flaky tests\"",
    )
)
@with_run_options(
    "model", "effort", "permission_mode", "allowed_tools", "ask_tools", "disallowed_tools", "tools", "add_dir",
    "max_turns", "allow_unknown_cost", "settings", "profile", "agent", "append_system_prompt", "mcp_config",
)  # fmt: skip
def add(
    options: RunOptions,
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="When.")],
    words: Annotated[list[str], typer.Argument(metavar="PROMPT...", help="What to do.")],
    folder: Annotated[str, typer.Option("--in", metavar="DIR", help="Folder to work in (default: this one).")] = ".",
    budget: Annotated[
        float | None,
        typer.Option(
            "--budget-per-day", metavar="USD", min=0.0001, callback=check_finite,
            help="Start no more once a day's runs cost this.",
        ),
    ] = None,
    missed: Annotated[
        str,
        typer.Option(
            "--missed", metavar="HOW", callback=check_choice(("once", "skip")),
            help="After the machine was off: run once, late, or skip what was missed.",
        ),
    ] = "once",
    zone: Annotated[str, typer.Option("--zone", metavar="NAME", help="Time zone (default: this machine's).")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Also write the timer without asking.")] = False,
) -> int:  # fmt: skip
    """Add a schedule; the word add may be left out."""
    run_env = find_environment(os.environ, folder)
    schedules = Schedules(os.environ)
    schedule = schedules.new(
        spec, " ".join(words), run_env, zone=zone, flags=to_flags(options), budget=budget, missed=missed
    )
    waker = Waker.find(os.environ, _home(run_env))
    notes = _missing(run_env, session_config(options), waker, budget)
    schedules.store.create(schedule)
    first = _next(schedules, schedule)
    echo(f"Schedule {schedule.id}: first at {first} ({schedule.zone}), in {run_env.cwd}.")
    for note in notes:
        print_notice(note)
    _offer_waker(schedules, waker, yes=yes)
    return 0


def _missing(run_env: RunEnvironment, config: Config, waker: Waker | None, budget: float | None) -> list[str]:
    """Return what the runs will lack, a sentence each. Raises UsageError for a schedule that could not run here."""
    config = config.replace(overrides={**config.overrides, **({"max_cost": budget} if budget else {})})
    notes = []

    def model(env: Mapping[str, str]) -> ChosenModel:
        there = run_env.replace(env=env)
        settings = read_settings(config, there).settings()
        if not settings.save_sessions:
            raise UsageError("A schedule needs saved sessions, and the setting save_sessions is off.")
        return ChosenModel(settings.model, settings, there)

    here = model(run_env.env)
    try:
        model((waker or Waker("cron", os.environ)).run_environment())
    except UsageError:
        source = here.resolved.key_source
        notes.append(
            f"Runs will have no key: here it comes from {source}, which a timer does not have. Store it: "
            f"agent login {here.resolved.provider}"
        )
    if waker is not None and waker.kind == "cron" and "keyring" in here.resolved.key_source:
        notes.append("The key is in the system keyring, which cron cannot open: use a key_command, or agent serve.")
    if any(not part.startswith("/") for part in run_env.env.get("PATH", "").split(os.pathsep)):
        notes.append("PATH has relative folders; runs get it without them.")
    if waker is not None and waker.ends_at_logout:
        notes.append("Runs will stop when you log out. To let them go on: loginctl enable-linger")
    return notes


def _offer_waker(schedules: Schedules, waker: Waker | None, *, yes: bool) -> None:
    """Offer to write the timer, unless something ticks."""
    if schedules.is_ticking or (waker is not None and waker.is_installed):
        return
    if waker is None:
        print_notice(
            "Nothing wakes it yet, and there is neither systemd nor cron: run agent serve, or call agent every tick "
            "each minute."
        )
    elif not _write_waker(waker, yes=yes):
        print_notice("Nothing wakes it yet: agent every install, or run agent serve.")


def _write_waker(waker: Waker, *, yes: bool) -> bool:
    print_notice(f"To wake it each minute, this is written.\n\n{waker.shown()}")
    if not yes and not (can_ask() and confirm("Write it?")):
        return False
    waker.install()
    print_notice("Written. To take it out: agent every uninstall.")
    return True


def _home(run_env: RunEnvironment) -> Path:
    return run_env.home or Path.home()


def _next(schedules: Schedules, schedule: Schedule) -> str:
    """Return the next time with its day of the week; "paused" or "never" if there is none."""
    if not (coming := schedules.next_of(schedule)):
        return "paused" if schedule.paused else "never"
    return schedules.local(schedule, coming).strftime("%a %Y-%m-%d %H:%M")


@app.command("list", epilog=examples("agent every list", "agent every list --json"))
def list_schedules(as_json: AsJson = False) -> int:
    """List schedules: when, the next time, how the last run ended, what waits."""
    schedules = Schedules(os.environ)
    found = [(each, schedules.item(each)) for each in schedules.store.all()]
    if as_json:
        print_json([item for _, item in found])
        return 0
    if not found:
        echo("There are no schedules. To add one: agent every 'weekdays 9:00' PROMPT")
        return 0
    rows, notes = [], []
    for each, item in found:
        prompt = shorten(one_line(each.prompt), 40)
        rows.append((each.id, each.spec, _next(schedules, each), each.zone, _result(item["last"]), prompt))
        if item["state"] == "waiting":
            session = item["session_id"][:8]
            notes.append(f"{each.id}: session {session} waits for you, and no run starts before: agent pending --all")
        if item["rules"]:
            notes.append(f"{each.id}: always allowed: {', '.join(item['rules'])}")
    echo("\n".join(table(("ID", "WHEN", "NEXT", "ZONE", "LAST", "PROMPT"), rows)))
    for note in notes:
        echo(note)
    if not schedules.is_ticking:
        print_notice("Nothing wakes them now: agent every install, or run agent serve.")
    return 0


def _result(run: dict[str, Any] | None) -> str:
    if run is None:
        return "-"
    cost = f" {dollars(run['cost'])}" if run["cost"] else ""
    return f"{run['state']}: {run['why']}" if run["state"] == "skipped" else f"{run['state']}{cost}"


@app.command(epilog=examples("agent every log 3f2a91", "agent every log 3f2a91 --output"))
def log(
    which: Which,
    output: Annotated[bool, typer.Option("--output", help="Print what the runs have printed.")] = False,
    as_json: AsJson = False,
) -> int:
    """List the runs of a schedule, with state, session and cost."""
    schedules = Schedules(os.environ)
    schedule = schedules.store.find(which)
    if output:
        try:
            echo(schedules.read_output(schedule))
        except FileNotFoundError:
            echo("Nothing has run yet.")
        return 0
    runs = schedules.run_items(schedule)
    if as_json:
        print_json(runs)
        return 0
    rows = [
        (f"{schedules.local(schedule, r['at']):%Y-%m-%d %H:%M}", r["session_id"][:8] or "-", _result(r)) for r in runs
    ]
    echo("\n".join(table((f"AT ({schedule.zone})", "SESSION", "RESULT"), rows)) if rows else "Nothing has run yet.")
    return 0


@app.command(epilog=examples("agent every run 3f2a91"))
def run(which: Which) -> int:
    """Start a run now."""
    schedules = Schedules(os.environ)
    schedule = schedules.store.find(which)
    session_id = schedules.run_now(schedule)
    echo(f"Started session {session_id}. To follow it: agent every log {schedule.id} --output")
    return 0


@app.command(epilog=examples("agent every pause 3f2a91"))
def pause(which: Which) -> int:
    """Start no more runs, until it is resumed."""
    schedules = Schedules(os.environ)
    schedule = schedules.pause(schedules.store.find(which), paused=True)
    echo(f"Schedule {schedule.id} is paused. To go on: agent every resume {schedule.id}")
    return 0


@app.command(epilog=examples("agent every resume 3f2a91"))
def resume(which: Which) -> int:
    """End a pause; times during the pause are not made up for."""
    schedules = Schedules(os.environ)
    schedule = schedules.pause(schedules.store.find(which), paused=False)
    echo(f"Schedule {schedule.id}: next at {_next(schedules, schedule)} ({schedule.zone}).")
    return 0


@app.command(epilog=examples("agent every rm 3f2a91"))
def rm(which: Which, yes: Yes = False) -> int:
    """Remove a schedule with its rules; its sessions stay."""
    store = Schedules(os.environ).store
    schedule = store.find(which)
    waiting = store.open_run(schedule.id)
    store.remove(schedule.id)
    echo(f"Schedule {schedule.id} is removed.")
    if waiting is not None and waiting.session_id:
        echo(f"Its session {waiting.session_id[:8]} stays.")
    if not store.all():
        home = _home(find_environment(os.environ))
        waker = Waker.find(os.environ, home)
        if waker is not None and waker.is_installed:
            if yes or (can_ask() and confirm("It was the last one. Take out what wakes them?")):
                return uninstall_waker()
            print_notice("It was the last one. To take out what wakes them: agent every uninstall")
    return 0


@app.command("install", epilog=examples("agent every install", "agent every install --with cron"))
def install_waker(
    kind: Annotated[
        str, typer.Option("--with", metavar="WHAT", callback=check_choice(("", "systemd", "cron")),
                          help="Use systemd or cron (default: the first of them here).")
    ] = "",
    yes: Yes = False,
) -> int:  # fmt: skip
    """Wake the schedules each minute with a systemd timer or a line in the crontab, which is shown first."""
    waker = Waker.find(os.environ, _home(find_environment(os.environ)), kind)
    if waker is None:
        raise UsageError(f"{kind or 'Neither systemd nor cron'} can be used here. Run agent serve instead.")
    if waker.is_installed:
        echo("It is installed already.")
        return 0
    return 0 if _write_waker(waker, yes=yes) else 1


@app.command("uninstall", epilog=examples("agent every uninstall"))
def uninstall_waker() -> int:
    """Take out what `install` wrote; the schedules stay."""
    gone = Waker.uninstall(os.environ, _home(find_environment(os.environ)))
    echo(f"Taken out: {' and '.join(gone)}." if gone else "Nothing is installed.")
    return 0


@app.command(epilog=examples("agent every tick"))
def tick() -> int:
    """Start what is due now, and end; a timer calls this each minute."""
    for said in Schedules(os.environ).tick():
        print_notice(said)
    return 0
