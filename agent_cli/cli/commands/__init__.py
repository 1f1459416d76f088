"""The commands of `agent`, one file each: `agent NAME` is the Typer `app` in NAME.py.

The first line of that file is the command's help. Lists and completion read only that line: a file is imported when
its command runs. A command's function returns the exit code.
"""
