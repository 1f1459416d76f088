"""What a message may carry beside text: images and PDF documents, as the bytes that a provider is sent."""

from __future__ import annotations

from typing import Literal

from agent_tools.record import Value

MediaKind = Literal["image", "pdf"]


class Media(Value, tag="Media"):
    """One attachment. `mime`: such as image/png. `data`: base64 without line breaks. `name`: as it was given."""

    mime: str
    data: str
    name: str = ""

    @property
    def kind(self) -> MediaKind:
        return "pdf" if self.mime == "application/pdf" else "image"
