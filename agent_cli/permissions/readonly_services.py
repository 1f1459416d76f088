"""Questions to services that change nothing there: GitHub by gh, containers by docker, a cluster by kubectl and helm.

These are the only commands that use a network or a socket without a question. The user's own configuration says whom
they ask and with which login; no word of a command can name another host, so that nothing can be carried elsewhere.
Of containers and clusters only tables of names and states are shown: logs, manifests and environments hold data and
passwords. Of GitHub, only what belongs to the repository of the workspace: other text is a stranger's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from agent_cli.permissions.options import Options, UnknownOptionError, read_options

# Neither an address nor a file of options.
_PLAIN = re.compile(r"(?!.*://)[\w#][\w./:#@,-]{0,199}")
# Filters of gh are jq's, which can read the environment.
_ENVIRONMENT = re.compile(r"\b(?:env|ENV|input_filename|import|include)\b")
# Words of a search that name another repository.
_ELSEWHERE = re.compile(r"\b(?:repo|org|user|owner|enterprise):\S", re.IGNORECASE)
# Verbs with fewer operands than any number: a repository for gh may be on any host, and options of ps print variables.
_MOST_OPERANDS: Mapping[tuple[str, str], int] = {("gh", "repo view"): 0, ("docker", "top"): 1, ("podman", "top"): 1}

_GH_LIST = Options(
    "da", "LsSlABHqtjuwebc",
    "draft archived all failed-only",
    "limit state search label assignee base head author json jq template user workflow event branch commit status "
    "created milestone mention order sort app",
)  # fmt: skip
_GH_VIEW = Options(
    "cvy", "qtja", "comments verbose exit-status log log-failed yaml required name-only patch",
    "json jq template job attempt color ref branch",
)  # fmt: skip
_GH: Mapping[str, Options] = {
    **dict.fromkeys(("pr list", "issue list", "run list", "release list", "workflow list", "label list"), _GH_LIST),
    **dict.fromkeys(("pr view", "pr diff", "pr checks", "pr status", "issue view", "issue status"), _GH_VIEW),
    **dict.fromkeys(("run view", "release view", "workflow view", "repo view"), _GH_VIEW),
    "auth status": Options(),
}
_DOCKER_LIST = Options("aqlns", "f", "all quiet latest no-trunc digests size no-stream", "filter format last")
_DOCKER: Mapping[str, Options] = {
    **dict.fromkeys(
        ("ps", "images", "image ls", "container ls", "volume ls", "network ls", "context ls"), _DOCKER_LIST
    ),
    **dict.fromkeys(("version", "info"), Options("", "f", "", "format")),
    "stats": _DOCKER_LIST,
    **dict.fromkeys(("top", "port"), Options()),
    "system df": Options("v", "", "verbose", "format"),
    "compose ls": Options("aq", "", "all quiet", "format filter"),
    "compose version": Options("", "f", "short", "format"),
}
_KUBECTL_SCOPE = "namespace context selector field-selector"
_KUBECTL: Mapping[str, Options] = {
    "get": Options(
        "Aw", "nloL", "all-namespaces show-labels no-headers ignore-not-found show-kind watch",
        f"{_KUBECTL_SCOPE} output sort-by label-columns chunk-size",
    ),
    "top": Options("A", "nl", "all-namespaces containers no-headers", f"{_KUBECTL_SCOPE} sort-by"),
    "events": Options("A", "n", "all-namespaces", f"{_KUBECTL_SCOPE} for types"),
    "version": Options("", "o", "client", "output context"),
    **dict.fromkeys(
        ("config current-context", "config get-contexts", "config get-clusters"), Options("", "o", "", "output")
    ),
    **dict.fromkeys(
        ("api-resources", "api-versions"), Options("", "o", "namespaced", "output api-group verbs context")
    ),
    "explain": Options("", "", "recursive", "api-version context"),
    **dict.fromkeys(
        ("rollout status", "rollout history"), Options("w", "n", "watch", "namespace context revision timeout")
    ),
}  # fmt: skip
_HELM: Mapping[str, Options] = {
    **dict.fromkeys(("list", "ls", "history"), Options(
        "aAqrd", "nomlf", "all all-namespaces short reverse date failed pending deployed",
        "namespace output max kube-context filter selector",
    )),
    "version": Options("", "", "short"),
}  # fmt: skip
SERVICES: Mapping[str, Mapping[str, Options]] = {
    "gh": _GH, "docker": _DOCKER, "podman": _DOCKER, "kubectl": _KUBECTL, "helm": _HELM,
}  # fmt: skip
_OUTPUTS = ("name", "wide")
_SECRET_KINDS = re.compile(r"(?:^|[,/])secrets?(?=$|[./,])", re.IGNORECASE)


def asks_service(name: str, words: tuple[str, ...]) -> str:
    """Return why a command of a service is not only a question to it; "" if it is."""
    known = SERVICES[name]
    # kubectl takes the options that say where before the verb, too.
    while name == "kubectl" and len(words) > 2 and words[0] in ("-n", "--namespace", "--context"):
        words = (*words[2:], *words[:2])
    size = next((n for n in (2, 1) if " ".join(words[:n]) in known), 0)
    if not size:
        return f"{name} {' '.join(words[:2])}".strip()
    try:
        read = read_options(words[size:], known[" ".join(words[:size])])
    except UnknownOptionError as error:
        return f"the option {error}"
    verb = " ".join(words[:size])
    for option, value in read.options:
        if name == "gh" and option in ("-q", "--jq") and _ENVIRONMENT.search(value):
            return f"the filter {value}"
        if name == "gh" and option in ("-S", "--search") and _ELSEWHERE.search(value):
            return f"the search {value}"
        if verb == "get" and option in ("-o", "--output") and value not in _OUTPUTS:
            return f"the output {value}"
    if odd := next((o for o in read.operands if not _PLAIN.fullmatch(o)), ""):
        return f"the word {odd}"
    if len(read.operands) > _MOST_OPERANDS.get((name, verb), 99):
        return f"{name} {verb} {read.operands[-1]}"
    if verb == "stats" and ("--no-stream", "") not in read.options:
        return "docker stats without an end"
    if name == "kubectl" and verb == "get" and any(_SECRET_KINDS.search(o) for o in read.operands):
        return "kubectl get of secrets"
    return ""
