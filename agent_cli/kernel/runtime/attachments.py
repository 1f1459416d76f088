"""Images for the first message from the command line, and images that a message mentions."""

from __future__ import annotations

from collections.abc import Iterable

from agent_cli.kernel.run_environment import UsageError
from agent_tools.base import ToolContext, ToolError
from agent_tools.fs.workspace import Workspace
from agent_tools.lazy import lazy_imports
from agent_tools.results import Media, MediaKind
from agent_tools.text import one_line

with lazy_imports():
    from agent_cli.knowledge import template  # few messages mention files
    from agent_tools.documents import images


def attach_images(
    paths: Iterable[str], workspace: Workspace, model: str, takes: frozenset[MediaKind], named: str
) -> tuple[Media, ...]:
    """Load the images at these paths for a model.

    Raises UsageError for an image that cannot be read, or that the model does not accept.

    takes: the media that the model accepts.
    named: prefix of error messages.
    """
    return tuple(_attach(path, workspace, model, takes, named) for path in paths)


def attach_mentioned(text: str, context: ToolContext, model: str) -> tuple[Media, ...]:
    """Return the images that a message mentions as `@path`. Raises UsageError for one the model does not accept."""
    paths = template.mentioned_images(text, context) if "@" in text else ()
    return attach_images(paths, context.workspace, model, context.input_modalities, "")


def attach_bytes(data: bytes, name: str, model: str, takes: frozenset[MediaKind], named: str = "") -> Media:
    """Return an image as an attachment. Raises UsageError if it is none, or the model does not accept it."""
    _check_accepted(model, takes, named)
    try:
        image = images.sniff(data)
        if image is None:
            raise UsageError(f"{named}{name} is not an image.")
        return images.show_image(data, image, name)[0]
    except ToolError as error:
        raise UsageError(f"{named}{error}") from None


def _check_accepted(model: str, takes: frozenset[MediaKind], named: str) -> None:
    if "image" not in takes:
        raise UsageError(
            f'{named}{model} is not known to accept images. Choose a model that does, or set model_takes = ["image"].'
        )


def _attach(path: str, workspace: Workspace, model: str, takes: frozenset[MediaKind], named: str) -> Media:
    _check_accepted(model, takes, named)
    try:
        return attach_bytes(workspace.read(workspace.resolve(path)), one_line(path), model, takes, named)
    except ToolError as error:
        raise UsageError(f"{named}{error}") from None
