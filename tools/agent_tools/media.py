"""Attachments of a message: images and PDF documents, in the form sent to a provider."""

from __future__ import annotations

from typing import Literal

from agent_tools.record import Value

MediaKind = Literal["image", "pdf"]


class Media(Value, tag="Media"):
    """One attachment. mime: such as image/png. data: base64 without line breaks. name: of the file, as given."""

    mime: str
    data: str
    name: str = ""

    @property
    def kind(self) -> MediaKind:
        return "pdf" if self.mime == "application/pdf" else "image"
