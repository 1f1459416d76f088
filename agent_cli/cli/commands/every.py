"""Run a prompt on a schedule; what needs your approval waits in `agent pending`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from agent_cli import Config, RunEnvironment, UsageError, find_environment, read_settings
from agent_cli.cli.app import AsJson, ListingGroup, check_choice, with_run_options
from agent_cli.cli.help import examples
from agent_cli.cli.questions import can_ask, confirm
from agent_cli.cli.run_flags import to_flags
from agent_cli.cli.run_options import RunOptions, session_config
from agent_cli.console import echo, print_json, print_notice, table
from agent_cli.extras.schedules.install import (
    UNIT,
    Waker,
    find_waker,
    install,
    is_waker_installed,
    lingers,
    uninstall,
    waker_environment,
)
from agent_cli.extras.schedules.items import coming_time, new_schedule, run_item, schedule_item
from agent_cli.extras.schedules.tick import Ticker, is_ticking, local_stamp, read_output, utc_now
from agent_cli.extras.schedules.times import find_zone
from agent_cli.kernel.runtime.models import ChosenModel
from agent_cli.kernel.session.schedules import Schedule, ScheduleStore
from agent_cli.kernel.session.store import state_folder
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
        typer.Option("--budget-per-day", metavar="USD", min=0.0001, help="Start no more once a day's runs cost this."),
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
    schedule, first = new_schedule(
        spec, " ".join(words), run_env, utc_now(), zone=zone, flags=to_flags(options), env=os.environ, budget=budget,
        missed=missed,
    )  # fmt: skip
    waker = find_waker(os.environ, _home(run_env))
    notes = _missing(run_env, session_config(options), waker, budget)
    state = state_folder(os.environ)
    ScheduleStore(state).create(schedule)
    echo(f"Schedule {schedule.id}: first at {_shown(first.isoformat(), schedule)} ({schedule.zone}), in {run_env.cwd}.")
    for note in notes:
        print_notice(note)
    _offer_waker(state, waker, yes=yes)
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
        model(waker_environment(waker, os.environ))
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
    if waker is not None and waker.kind == "systemd" and not lingers(os.environ):
        notes.append("Runs will stop when you log out. To let them go on: loginctl enable-linger")
    return notes


def _offer_waker(state: Path, waker: Waker | None, *, yes: bool) -> None:
    """Offer to write the timer, unless something ticks."""
    if is_ticking(state, utc_now()) or (waker is not None and is_waker_installed(waker, os.environ)):
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
    install(waker, os.environ)
    print_notice(f"Written. To take it out: agent every uninstall ({UNIT}).")
    return True


def _home(run_env: RunEnvironment) -> Path:
    return run_env.home or Path.home()


def _shown(moment: str, schedule: Schedule) -> str:
    """Return a time with its day of the week; "paused" or "never" if there is none."""
    if not moment:
        return "paused" if schedule.paused else "never"
    return datetime.fromisoformat(moment).astimezone(find_zone(schedule.zone)).strftime("%a %Y-%m-%d %H:%M")


@app.command("list", epilog=examples("agent every list", "agent every list --json"))
def list_schedules(as_json: AsJson = False) -> int:
    """List schedules: when, the next time, how the last run ended, what waits."""
    store = ScheduleStore(state_folder(os.environ))
    found = [(each, schedule_item(store, each, utc_now())) for each in store.all()]
    if as_json:
        print_json([item for _, item in found])
        return 0
    if not found:
        echo("There are no schedules. To add one: agent every 'weekdays 9:00' PROMPT")
        return 0
    rows, notes = [], []
    for each, item in found:
        prompt = shorten(one_line(each.prompt), 40)
        rows.append((each.id, each.spec, _shown(item["next"], each), each.zone, _result(item["last"]), prompt))
        if item["state"] == "waiting":
            session = item["session_id"][:8]
            notes.append(f"{each.id}: session {session} waits for you, and no run starts before: agent pending --all")
        if item["rules"]:
            notes.append(f"{each.id}: always allowed: {', '.join(item['rules'])}")
    echo("\n".join(table(("ID", "WHEN", "NEXT", "ZONE", "LAST", "PROMPT"), rows)))
    for note in notes:
        echo(note)
    if not is_ticking(store.state, utc_now()):
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
    store = ScheduleStore(state_folder(os.environ))
    schedule = store.find(which)
    if output:
        try:
            echo(read_output(store, schedule))
        except FileNotFoundError:
            echo("Nothing has run yet.")
        return 0
    runs = [run_item(store, schedule, run) for run in store.runs(schedule.id)]
    if as_json:
        print_json(runs)
        return 0
    rows = [(local_stamp(schedule, r["at"]), r["session_id"][:8] or "-", _result(r)) for r in runs]
    echo("\n".join(table((f"AT ({schedule.zone})", "SESSION", "RESULT"), rows)) if rows else "Nothing has run yet.")
    return 0


@app.command(epilog=examples("agent every run 3f2a91"))
def run(which: Which) -> int:
    """Start a run now."""
    state = state_folder(os.environ)
    schedule = ScheduleStore(state).find(which)
    session_id = Ticker(state, os.environ).run_now(schedule)
    echo(f"Started session {session_id}. To follow it: agent every log {schedule.id} --output")
    return 0


@app.command(epilog=examples("agent every pause 3f2a91"))
def pause(which: Which) -> int:
    """Start no more runs, until it is resumed."""
    store = ScheduleStore(state_folder(os.environ))
    schedule = store.find(which)
    store.pause(schedule, utc_now(), paused=True)
    echo(f"Schedule {schedule.id} is paused. To go on: agent every resume {schedule.id}")
    return 0


@app.command(epilog=examples("agent every resume 3f2a91"))
def resume(which: Which) -> int:
    """End a pause; times during the pause are not made up for."""
    store = ScheduleStore(state_folder(os.environ))
    schedule = store.pause(store.find(which), utc_now(), paused=False)
    coming = _shown(coming_time(schedule, utc_now()), schedule)
    echo(f"Schedule {schedule.id}: next at {coming} ({schedule.zone}).")
    return 0


@app.command(epilog=examples("agent every rm 3f2a91"))
def rm(which: Which, yes: Yes = False) -> int:
    """Remove a schedule with its rules; its sessions stay."""
    store = ScheduleStore(state_folder(os.environ))
    schedule = store.find(which)
    waiting = store.open_run(schedule.id)
    store.remove(schedule.id)
    echo(f"Schedule {schedule.id} is removed.")
    if waiting is not None and waiting.session_id:
        echo(f"Its session {waiting.session_id[:8]} stays.")
    if not store.all():
        home = _home(find_environment(os.environ))
        waker = find_waker(os.environ, home)
        if waker is not None and is_waker_installed(waker, os.environ):
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
    waker = find_waker(os.environ, _home(find_environment(os.environ)), kind)
    if waker is None:
        raise UsageError(f"{kind or 'Neither systemd nor cron'} can be used here. Run agent serve instead.")
    if is_waker_installed(waker, os.environ):
        echo("It is installed already.")
        return 0
    return 0 if _write_waker(waker, yes=yes) else 1


@app.command("uninstall", epilog=examples("agent every uninstall"))
def uninstall_waker() -> int:
    """Take out what `install` wrote; the schedules stay."""
    gone = uninstall(os.environ, _home(find_environment(os.environ)))
    echo(f"Taken out: {' and '.join(gone)}." if gone else "Nothing is installed.")
    return 0


@app.command(epilog=examples("agent every tick"))
def tick() -> int:
    """Start what is due now, and end; a timer calls this each minute."""
    for said in Ticker(state_folder(os.environ), os.environ).tick():
        print_notice(said)
    return 0
