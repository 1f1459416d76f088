"""The commands of `agent` as Typer reads them, by topic; what each does is in `commands/`."""
