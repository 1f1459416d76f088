"""The built-in tools. A leaf: nothing here imports the rest of the program. `registry.py` lists them."""
