"""The commands of `agent`: `agent NAME` is the Typer `app` in NAME.py.

Some share the file of a related command (`SHARED` in `agent_cli.cli`) and are commands of its Typer `shared`. The first
line of NAME.py is the help of its command. Lists and completion read only that line: a file is imported when its
command runs. A command's function returns the exit code.
"""
