"""`python tools/refresh_models.py [FOLDER]` writes agent_cli/models/models.json from LiteLLM's data.

FOLDER: an unpacked `litellm` package; by default the installed one. `make catalog` fetches the newest.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from agent_cli.models.catalog import FILE, litellm_entries, litellm_providers


def generated(folder: Path | None = None) -> str:
    """Return the content of models.json: every model that answers in text on a line of its own, by name."""
    models = {
        key: entry
        for key, entry in sorted(litellm_entries(folder).items())
        if entry.get("mode", "completion") == "completion"
    }
    lines = (f"{json.dumps(key)}:{json.dumps(entry, separators=(',', ':'))}" for key, entry in models.items())
    providers = json.dumps(litellm_providers(folder), separators=(",", ":"))
    return '{"providers":' + providers + ',\n"models":{\n' + ",\n".join(lines) + "\n}}\n"


def main() -> int:
    """Write the file and say what changed."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    before = json.loads(FILE.read_text("utf-8"))["models"] if FILE.is_file() else {}
    text = generated(folder)
    after = json.loads(text)["models"]
    if not after:
        print("no models found: give the folder of an unpacked litellm package", file=sys.stderr)
        return 2
    FILE.write_text(text, "utf-8")
    changed = sum(before[key] != after[key] for key in before.keys() & after.keys())
    added, removed = len(after.keys() - before.keys()), len(before.keys() - after.keys())
    print(f"{FILE.name}: {len(after)} models, {added} added, {removed} removed, {changed} changed; {len(text):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
