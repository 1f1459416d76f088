"""Which variables decide where requests, keys and conversations go.

A project sets none of them by itself: `runtime.addresses` asks the user.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from agent_cli.models.catalog import is_provider
from agent_cli.models.registry import PROVIDERS, find_provider
from agent_tools.record import Value

BASE_URL = "base_url"  # the setting, which stands for the address of every provider
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "WS_PROXY", "WSS_PROXY", "SOCKS_PROXY")
_CERTIFICATES = (
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "SSL_VERIFY",
    "NODE_TLS_REJECT_UNAUTHORIZED", "SSLKEYLOGFILE", "SSL_CERTIFICATE", "AWS_CA_BUNDLE", "GIT_SSL_NO_VERIFY",
)  # fmt: skip
# Variables of Google and Amazon that become a part of the host, or replace it.
_HOSTS = {
    **dict.fromkeys(("VERTEXAI_LOCATION", "GOOGLE_CLOUD_LOCATION", "CLOUD_ML_REGION"), "vertex_ai"),
    **dict.fromkeys(("AWS_REGION_NAME", "AWS_BEDROCK_RUNTIME_ENDPOINT"), "bedrock"),
}
_ADDRESS = (
    r"(?P<owner>[A-Z0-9_]+?)_(?:API_BASE|API_BASE_URL|BASE_URL|API_ENDPOINT|ENDPOINT|ENDPOINT_URL\w*|API_HOST|HOST)"
)
# Beginnings of such variables that are no provider's name.
_OWNERS = {
    "ANTHROPIC_BEDROCK": "anthropic", "ANTHROPIC_VERTEX": "anthropic", "AWS": "bedrock", "AZURE_OPENAI": "azure",
    "AZURE_AI": "azure", "GOOGLE_GEMINI": "gemini", "GOOGLE_VERTEX": "vertex_ai", "GOOGLE": "gemini",
    "LITELLM": "litellm", "LITELLM_PROXY": "litellm", "VERTEX": "vertex_ai", "VERTEXAI": "vertex_ai",
}  # fmt: skip


class Steering(Value):
    """What a variable decides.

    providers: the providers whose requests it leads elsewhere; () for all requests.
    """

    kind: Literal["address", "proxy", "certificates"]
    providers: tuple[str, ...] = ()

    def key_variable(self, env: Mapping[str, str]) -> str:
        """Return the variable with the key that would go there; "" if there is none in the environment."""
        rows = [row for name in self.providers if (row := find_provider(name)) is not None]
        names = (name for row in (rows or PROVIDERS) for name in row.keys)
        return next((name for name in names if env.get(name, "").strip()), "")


def steering_of(name: str) -> Steering | None:
    """Return what a variable, or the setting `base_url`, decides; None if it leads no request elsewhere."""
    upper = name.upper()
    if name == BASE_URL:
        return Steering("address")
    if upper in _PROXIES:
        return Steering("proxy")
    if upper in _CERTIFICATES:
        return Steering("certificates")
    if found := tuple(row.name for row in PROVIDERS if name in row.base_url_vars):
        return Steering("address", found)
    if upper in _HOSTS:
        return Steering("address", (_HOSTS[upper],))
    match = re.fullmatch(_ADDRESS, upper)
    if match is None:
        return None
    owner = match["owner"].lower()
    row = find_provider(_OWNERS.get(match["owner"], owner))
    if row is not None or match["owner"] in _OWNERS:
        return Steering("address", (row.name if row is not None else _OWNERS[match["owner"]],))
    # LiteLLM has providers such as GitHub's, whose HOST is a name that projects use for themselves.
    bases = not upper.endswith("_HOST") and is_provider(owner)
    return Steering("address", (owner,)) if bases else None
