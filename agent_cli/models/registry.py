"""The providers: which protocol each speaks, where, and which environment variables contain its key and address.

A row here makes a provider reachable without LiteLLM. A provider without a row, or whose row says "litellm", goes
through LiteLLM. The addresses and variables are those that LiteLLM uses for the same name, so that an environment set
up for it works unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

from agent_tools.record import Value

Wire = Literal["openai", "responses", "anthropic", "gemini", "ollama", "litellm", "scripted"]
WireApi = Literal["auto", "responses", "chat"]
Reasoning = Literal["", "reasoning_content", "reasoning", "reasoning_details", "think"]


class Provider(Value):
    """One provider.

    wire: the protocol that it speaks, or "litellm".
    keys: variables that may contain its key, the usual one first.
    base_url_vars: variables that may contain its address.
    needs_key: False if calls work without one, or with another kind of credentials.
    local: it runs on the user's own machine and costs nothing.
    litellm: LiteLLM's name for it; "openai" if LiteLLM has to call it as any compatible server.
    default: the model to use when none is named; for Claude, the family of which the newest is used.
    model_prefix: put before a model name that has no slash.
    name_prefixes: beginnings of model names that imply this provider.
    effort: models that reason take a level of effort.
    max_tokens_optional: without a limit in the request, answers are as long as the model allows.
    reasoning: the form in which the reasoning of earlier answers is sent back; empty: not at all.
    key_page: where its users create and delete keys.
    key_path: path below its address that needs a valid key, if its list of models does not.
    """

    name: str
    wire: Wire
    base_url: str = ""
    keys: tuple[str, ...] = ()
    base_url_vars: tuple[str, ...] = ()
    needs_key: bool = True
    local: bool = False
    litellm: str = ""
    default: str = ""
    model_prefix: str = ""
    name_prefixes: tuple[str, ...] = ()
    effort: bool = False
    max_tokens_optional: bool = False
    reasoning: Reasoning = ""
    key_page: str = ""
    key_path: str = ""


def _direct(name: str, base_url: str, *keys: str, base: str = "", **more: Any) -> Provider:
    base_url_vars = (base or f"{name.upper()}_API_BASE",)
    return Provider(**{"litellm": name, "name": name, "wire": "openai", "base_url": base_url, "keys": keys,
                       "base_url_vars": base_url_vars, **more})  # fmt: skip


def _local(
    name: str,
    port: int,
    *base_url_vars: str,
    wire: Wire = "openai",
    keys: tuple[str, ...] = (),
    litellm: str = "",
    reasoning: Reasoning = "",
) -> Provider:
    return Provider(name=name, wire=wire, base_url=f"http://localhost:{port}/v1", keys=keys,
                    base_url_vars=base_url_vars, needs_key=False, local=True, litellm=litellm or name,
                    reasoning=reasoning)  # fmt: skip


def _via_litellm(name: str, *keys: str, **more: Any) -> Provider:
    return Provider(**{"litellm": name, "name": name, "wire": "litellm", "keys": keys, **more})


# In the order of preference for keys in the environment when no model is configured.
PROVIDERS: tuple[Provider, ...] = (
    Provider(
        name="anthropic",
        wire="anthropic",
        base_url="https://api.anthropic.com",
        keys=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
        base_url_vars=("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"),
        litellm="anthropic",
        default="sonnet",
        key_page="https://console.anthropic.com/settings/keys",
        name_prefixes=("claude-",),
        effort=True,
    ),
    _direct(
        "openai",
        "https://api.openai.com/v1",
        "OPENAI_API_KEY",
        wire="responses",
        base_url_vars=("OPENAI_BASE_URL", "OPENAI_API_BASE"),
        default="gpt-5.6",
        key_page="https://platform.openai.com/api-keys",
        name_prefixes=("gpt-", "chatgpt-", "codex-", "o1", "o3", "o4", "ft:gpt"),
        effort=True,
        max_tokens_optional=True,
    ),
    _direct(
        "openrouter",
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
        default="anthropic/claude-sonnet-4.6",
        key_page="https://openrouter.ai/settings/keys",
        key_path="/key",
        effort=True,
        reasoning="reasoning_details",
    ),
    _direct(
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        wire="gemini",
        base_url_vars=("GEMINI_API_BASE", "GOOGLE_GEMINI_BASE_URL"),
        default="gemini-pro-latest",
        key_page="https://aistudio.google.com/apikey",
        name_prefixes=("gemini-",),
        effort=True,
        max_tokens_optional=True,
    ),
    _direct(
        "deepseek",
        "https://api.deepseek.com/v1",
        "DEEPSEEK_API_KEY",
        default="deepseek-v4-pro",
        key_page="https://platform.deepseek.com/api_keys",
        name_prefixes=("deepseek-",),
        reasoning="reasoning_content",
    ),
    _direct("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY", default="openai/gpt-oss-120b"),
    _direct(
        "mistral",
        "https://api.mistral.ai/v1",
        "MISTRAL_API_KEY",
        default="devstral-latest",
        name_prefixes=("mistral-", "ministral-", "magistral-", "codestral-", "devstral-", "pixtral-"),
    ),
    _direct("xai", "https://api.x.ai/v1", "XAI_API_KEY", default="grok-4.6", name_prefixes=("grok-",)),
    _direct("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY", default="zai-glm-4.7", reasoning="think"),
    _direct(
        "moonshot",
        "https://api.moonshot.ai/v1",
        "MOONSHOT_API_KEY",
        default="kimi-k3",
        name_prefixes=("kimi-", "moonshot-"),
        reasoning="reasoning_content",
    ),
    _direct(
        "zai",
        "https://api.z.ai/api/paas/v4",
        "ZAI_API_KEY",
        default="glm-5.3",
        name_prefixes=("glm-",),
        reasoning="reasoning_content",
    ),
    _direct(
        "together_ai",
        "https://api.together.ai/v1",
        "TOGETHER_API_KEY",
        "TOGETHER_AI_API_KEY",
        "TOGETHERAI_API_KEY",
        default="moonshotai/Kimi-K3",
    ),
    _direct(
        "fireworks_ai",
        "https://api.fireworks.ai/inference/v1",
        "FIREWORKS_API_KEY",
        "FIREWORKS_AI_API_KEY",
        "FIREWORKSAI_API_KEY",
        base="FIREWORKS_API_BASE",
        default="glm-5p2",
        model_prefix="accounts/fireworks/models/",
        reasoning="reasoning_content",
    ),
    _direct(
        "dashscope",
        "https://dashscope.aliyuncs.com/compatible-mode/v1",
        "DASHSCOPE_API_KEY",
        default="qwen3.8-max",
        reasoning="reasoning_content",
    ),
    _direct(
        "minimax",
        "https://api.minimax.io/v1",
        "MINIMAX_API_KEY",
        default="MiniMax-M3",
        name_prefixes=("MiniMax-",),
        reasoning="think",
    ),
    _direct("deepinfra", "https://api.deepinfra.com/v1/openai", "DEEPINFRA_API_KEY"),
    _direct("sambanova", "https://api.sambanova.ai/v1", "SAMBANOVA_API_KEY"),
    _direct("nebius", "https://api.studio.nebius.ai/v1", "NEBIUS_API_KEY"),
    _direct("novita", "https://api.novita.ai/v3/openai", "NOVITA_API_KEY"),
    _direct("nvidia_nim", "https://integrate.api.nvidia.com/v1", "NVIDIA_NIM_API_KEY"),
    # LiteLLM reads neither tool calls nor the end of Cohere's own stream. COHERE_API_BASE is for Cohere's own protocol.
    _direct(
        "cohere",
        "https://api.cohere.ai/compatibility/v1",
        "COHERE_API_KEY",
        "CO_API_KEY",
        base_url_vars=(),
        litellm="openai",
        name_prefixes=("command-",),
    ),
    _direct("hyperbolic", "https://api.hyperbolic.xyz/v1", "HYPERBOLIC_API_KEY"),
    _direct(
        "perplexity",
        "https://api.perplexity.ai",
        "PERPLEXITYAI_API_KEY",
        "PERPLEXITY_API_KEY",
        name_prefixes=("sonar",),
    ),
    _local("ollama", 11434, "OLLAMA_API_BASE", "OLLAMA_HOST", wire="ollama", keys=("OLLAMA_API_KEY",)),
    _local("lm_studio", 1234, "LM_STUDIO_API_BASE", keys=("LM_STUDIO_API_KEY",)),
    _local("hosted_vllm", 8000, "HOSTED_VLLM_API_BASE", keys=("HOSTED_VLLM_API_KEY",), reasoning="reasoning"),
    _local(
        "vllm",
        8000,
        "HOSTED_VLLM_API_BASE",
        "VLLM_API_BASE",
        keys=("HOSTED_VLLM_API_KEY",),
        litellm="hosted_vllm",
        reasoning="reasoning",
    ),
    _local("llama_cpp", 8080, "LLAMA_CPP_API_BASE", litellm="llamafile", reasoning="reasoning_content"),
    _local("llamafile", 8080, "LLAMAFILE_API_BASE", keys=("LLAMAFILE_API_KEY",)),
    # Gemini only; other models there, and credentials that are not supported here, go through LiteLLM.
    _direct(
        "vertex_ai",
        "",
        wire="gemini",
        base_url_vars=("VERTEXAI_API_BASE", "GOOGLE_VERTEX_BASE_URL"),
        needs_key=False,
        effort=True,
        max_tokens_optional=True,
    ),
    _via_litellm("bedrock", needs_key=False),
    _via_litellm("sagemaker", needs_key=False),
    _via_litellm(
        "azure", "AZURE_API_KEY", base_url_vars=("AZURE_API_BASE",), needs_key=False, max_tokens_optional=True
    ),
    _via_litellm("azure_ai", "AZURE_AI_API_KEY", base_url_vars=("AZURE_AI_API_BASE",), needs_key=False),
    _via_litellm("ai21", "AI21_API_KEY", name_prefixes=("jamba-",)),
    _via_litellm("replicate", "REPLICATE_API_KEY", "REPLICATE_API_TOKEN"),
    _via_litellm("huggingface", "HUGGINGFACE_API_KEY", "HF_TOKEN"),
    _via_litellm("vercel_ai_gateway", "VERCEL_AI_GATEWAY_API_KEY"),
    _via_litellm("github", "GITHUB_API_KEY"),
    _via_litellm("volcengine", "VOLCENGINE_API_KEY"),
    _via_litellm("databricks", "DATABRICKS_API_KEY", base_url_vars=("DATABRICKS_API_BASE",), needs_key=False),
    _via_litellm("meta_llama", "LLAMA_API_KEY"),
)
_BY_NAME = {p.name: p for p in PROVIDERS}
_BY_NAME["cohere_chat"] = _BY_NAME["cohere"]
_BY_NAME["vertex"] = _BY_NAME["vertex_ai"]
# Local servers to look for, in this order.
LOCAL_SERVERS = {"ollama": "Ollama", "lm_studio": "LM Studio", "hosted_vllm": "vLLM", "llama_cpp": "llama.cpp"}


def find_provider(name: str) -> Provider | None:
    """Return the row of a provider, or None."""
    return _BY_NAME.get(name)


def provider_by_prefix(model: str) -> Provider | None:
    """Return the provider that a model name implies (`claude-...`, `gpt-...`); None if in doubt."""
    return next((p for p in PROVIDERS if model.startswith(p.name_prefixes)), None)


def base_url_of(provider: Provider, env: Mapping[str, str]) -> str:
    """Return the address of a provider: that of the environment (for a local server, host or host:port will do), or the
    usual one.
    """
    variable = base_url_variable(provider, env)
    return normalize_url(env[variable].strip(), provider) if variable else provider.base_url


def base_url_variable(provider: Provider, env: Mapping[str, str]) -> str:
    """Return the environment variable that holds the provider's address; "" if none does."""
    return next((name for name in provider.base_url_vars if env.get(name, "").strip()), "")


def is_web_url(url: str) -> bool:
    """Return True if a base URL has a scheme, a host and a port that a request can be sent to."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def normalize_url(value: str, provider: Provider) -> str:
    """Complete an address that a user wrote: scheme, port and `/v1` for a local server, no slash at the end."""
    url = value.rstrip("/")
    if not provider.local:
        return url
    if "://" not in url:
        url = "http://" + url
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    name, colon, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
    if not colon:
        name, port = host, ""
    if name in ("", "0.0.0.0", "[::]"):
        name = "localhost"  # a server listens on these; a client cannot connect to them
    if not port and scheme == "http":
        port = provider.base_url.rsplit(":", 1)[1].partition("/")[0]
    return f"{scheme}://{name}{':' + port if port else ''}/{path if slash and path else 'v1'}"


def native_url(url: str) -> str:
    """Return the root of Ollama's own API, given its address or that of its OpenAI endpoint."""
    return url.rstrip("/").removesuffix("/v1").removesuffix("/api")


def is_loopback_url(url: str) -> bool:
    """Return True if a base URL is that of a server on this machine."""
    host = url.partition("://")[2].partition("/")[0]
    if not host.endswith("]"):
        host = host.rpartition(":")[0] or host
    return host in ("localhost", "[::1]") or host.startswith("127.")
