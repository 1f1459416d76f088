"""What the model knows beside the code: memory files, plugins, and extensions read from files."""
