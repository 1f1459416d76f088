"""Images for the first message from the command line, and images that a message mentions."""

from __future__ import annotations

from collections.abc import Iterable

from agent_cli.kernel.run_environment import UsageError
from agent_tools.base import ToolContext, ToolError
from agent_tools.lazy import lazy_imports
from agent_tools.results import Media
from agent_tools.text import one_line

with lazy_imports():
    from agent_cli.knowledge import template  # few messages mention files
    from agent_tools.documents import images


class Attachments:
    """Attaches images to messages for a model. All methods raise UsageError if it does not accept images.

    context: of the session, whose files and media they are. named: prefix of error messages.
    """

    def __init__(self, model: str, context: ToolContext, named: str = "") -> None:
        self._model, self._context, self._named = model, context, named

    def images(self, paths: Iterable[str]) -> tuple[Media, ...]:
        """Load the images at these paths. Raises UsageError for one that cannot be read."""
        return tuple(self._load(path) for path in paths)

    def mentioned(self, text: str) -> tuple[Media, ...]:
        """Return the images that a message mentions as `@path`."""
        return self.images(template.mentioned_images(text, self._context)) if "@" in text else ()

    def image(self, data: bytes, name: str) -> Media:
        """Return an image as an attachment. Raises UsageError if it is none."""
        self._check_accepted()
        try:
            image = images.sniff(data)
            if image is None:
                raise UsageError(f"{self._named}{name} is not an image.")
            return images.show_image(data, image, name)[0]
        except ToolError as error:
            raise UsageError(f"{self._named}{error}") from None

    def _check_accepted(self) -> None:
        if "image" not in self._context.input_modalities:
            raise UsageError(
                f"{self._named}{self._model} is not known to accept images. Choose a model that does, or set "
                'model_takes = ["image"].'
            )

    def _load(self, path: str) -> Media:
        self._check_accepted()
        workspace = self._context.workspace
        try:
            return self.image(workspace.read(workspace.resolve(path)), one_line(path))
        except ToolError as error:
            raise UsageError(f"{self._named}{error}") from None
