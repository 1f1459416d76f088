"""Containers: what docker and podman mount, send, write and show, and which of their questions change nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agent_cli.policy.programs.arguments import Arguments
from agent_cli.policy.programs.effects import Touch
from agent_cli.policy.programs.row import SERVICE, Row, expand_rows, reading_row
from agent_cli.policy.programs.rows.network import by_verbs, copied_across, values_of
from agent_cli.policy.shell.words import Word
from agent_tools.lazy import lazy_pattern

_GROUPS = ("container", "image", "buildx", "builder", "compose")
_BUILDS = ("build", "bake", "save", "export", "config")
_RUNS = ("run", "create", "exec")
# What gives a container the machine itself.
_POWERS = lazy_pattern(
    r"--privileged|--(?:pid|ipc|uts|userns|cgroupns|net|network)(?:=host)?|--cap-add.*|--device.*|--security-opt.*|--gpus.*"
)
_SOCKET = lazy_pattern(r"/(?:var/)?run/(?:docker|podman|containerd)\b.*")


def _docker(found: Arguments) -> Iterator[Touch]:
    verbs = [text for text in found.texts if text not in _GROUPS]
    if verbs[:1] == ["cp"]:
        yield from copied_across(found.operands[found.texts.index("cp") + 1 :])
    if verbs[:1] == ["build"] or verbs[:2] == ["buildx", "build"]:
        # All of the directory is sent to the builder.
        yield from (Touch("maybe", w) for w in found.operands[found.texts.index("build") + 1 :][-1:] if w.text != "-")
    for option, value in values_of(found.words):
        yield from _of_option(verbs[0] if verbs else "", option, value)
    if verbs[:1] and verbs[0] in _RUNS:
        options = [w.text for w in found.words]
        for n, text in enumerate(options):
            host = text.startswith(("--pid", "--ipc", "--net", "--uts", "--userns", "--cgroupns"))
            shared = "host" in (text.partition("=")[2], *options[n + 1 : n + 2])
            if _POWERS.fullmatch(text) and (not host or shared):
                yield Touch("run", Word(text.partition("=")[0]))


def _of_option(verb: str, option: str, value: Word) -> Iterator[Touch]:
    if option in ("-o", "--output") and verb in _BUILDS:
        for piece in value.text.split(","):
            if not re.match(r"(?!dest)\w+=", piece):
                yield Touch("write", value.replace(text=piece.removeprefix("dest=")), replaces=True)
    elif option == "--secret" and (source := re.search(r"(?:^|,)(?:src|source)=([^,]+)", value.text)):
        yield Touch("read", value.replace(text=source[1]))
    elif option in ("--env-file", "--label-file"):
        yield Touch("read", value)
    elif option in ("-v", "--volume") and verb in _RUNS:
        yield from _mounted(value, *(f"{value.text}::".split(":")[n] for n in (0, 1, 2)))
    elif option == "--mount" and verb in _RUNS:
        named = dict(piece.partition("=")[::2] for piece in value.text.split(","))
        origin = named.get("source", named.get("src", ""))
        if named.get("type", "bind") == "bind":
            yield from _mounted(value, origin, "x", "ro" if "readonly" in named or "ro" in named else "")


def _mounted(value: Word, source: str, target: str, how: str) -> Iterator[Touch]:
    """Yield the effects of a bind mount. A source without a slash names a volume of docker's own."""
    if not source or not target or not re.match(r"[./~$]", source):
        return
    place = value.replace(text=source)
    if _SOCKET.fullmatch(source):
        yield Touch("run", place)
    yield Touch("tree", place)
    if "ro" not in how.split(","):
        yield Touch("into", place)


def _asks(verb: str, found: Arguments) -> str:
    if verb == "stats" and not found.has("--no-stream"):
        return "stats without an end"
    # Options of ps print variables.
    return f"top {found.texts[-1]}" if verb == "top" and len(found.operands) > 1 else ""


_LIST = reading_row("text", "aqlns", "f", "all quiet latest no-trunc digests size no-stream", "filter format last")
DOCKER_ROWS = expand_rows({
    "docker podman": Row(
        "", subcommands=2, partly=True, others="value", write="--iidfile --cidfile --metadata-file", run="-H --host "
        "--config",
        effects=_docker, versions="--version", network="*", outside=SERVICE, hides=True, asks=_asks,
        verbs=by_verbs({
            "ps, images, image ls, container ls, volume ls, network ls, context ls, stats": _LIST,
            "version, info": reading_row("text", "", "f", "", "format"),
            "top, port": reading_row("text"),
            "system df": reading_row("text", "v", "", "verbose", "format"),
            "compose ls": reading_row("text", "aq", "", "all quiet", "format filter"),
            "compose version": reading_row("text", "", "f", "short", "format"),
        }),
    ),
    "docker-compose podman-compose buildah nerdctl": Row("", partly=True, outside=SERVICE),
})  # fmt: skip
