"""The built-in tools. A leaf: nothing here imports the rest of the program. The list of them is in `builtin.py`."""
