"""Programs that talk to other machines and to services: transfers, logins, clouds, clusters and their questions.

Of services, the subcommands in `verbs` change nothing there, and are the only commands that use a network or a socket
without a question. The user's own configuration says whom they ask and with which login; no word of a command can name
another host, so that nothing can be carried elsewhere. Of clusters only tables of names and states are shown: logs,
manifests and environments hold data and passwords. Of GitHub, only what belongs to the repository of the workspace:
other text is a stranger's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from agent_cli.policy.programs.arguments import Arguments
from agent_cli.policy.programs.effects import Touch
from agent_cli.policy.programs.row import KEYS, Row, expand_rows, reading_row
from agent_cli.policy.shell.words import Word
from agent_tools.lazy import lazy_pattern

# Neither an address nor a file of options.
PLAIN_OPERAND = lazy_pattern(r"(?!.*://)[\w#][\w./:#@,-]{0,199}")
# Filters of gh are jq's, which can read the environment.
_ENVIRONMENT = lazy_pattern(r"\b(?:env|ENV|input_filename|import|include)\b")
# Words of a search that name another repository.
_ELSEWHERE = lazy_pattern(r"\b(?:repo|org|user|owner|enterprise):\S", re.IGNORECASE)
_SECRET_KINDS = lazy_pattern(r"(?:^|[,/])secrets?(?=$|[./,])", re.IGNORECASE)


def values_of(words: Sequence[Word]) -> Iterator[tuple[str, Word]]:
    """Yield every option with what may be its value: behind `=`, in the same word, or the next word."""
    for n, word in enumerate(words):
        name, equals, value = word.text.partition("=")
        if re.fullmatch(r"--\w[\w-]*", name) and equals:
            yield name, word.replace(text=value)
        elif re.fullmatch(r"--\w[\w-]*|-\w", word.text):
            yield word.text, words[n + 1] if n + 1 < len(words) else Word("")
        elif re.match(r"-\w", word.text) and not word.text.startswith("--"):
            yield word.text[:2], word.replace(text=word.text[2:].removeprefix("="))


def copied_across(operands: Sequence[Word]) -> Iterator[Touch]:
    """Yield the effects of a copy from or into a container, whose files have a colon in their names."""
    for word, read in zip(operands, (True, False), strict=False):
        if ":" not in word.text and word.text != "-":
            yield Touch("tree", word) if read else Touch("write", word, replaces=True)


def _curl(found: Arguments) -> Iterator[Touch]:
    operands = list(found.operands)
    names = [option.name for option in found.options]
    saves = any(n in ("-O", "-J") or (len(n) > 4 and "--remote-name-all".startswith(n)) for n in names)
    if saves and not any(option.role == "into" for option in found.options):
        for url in operands:
            yield Touch("write", Word(os.path.basename(url.text.rstrip("/")) or ".", url.why), replaces=True)
    for option in found.options:
        name, value, given = option.name, option.value, option.value.text
        if name in ("-w", "--write-out") and re.match(r"@|.*%output", given, re.DOTALL):
            yield Touch("run", Word(name))
        if name in ("-d", "--json", "-H", "--header", "-b", "--cookie") or name.startswith("--data"):
            at = given.find("@") if name == "--data-urlencode" else 0 if given.startswith("@") else -1
            if at >= 0 and name != "--data-raw":
                yield Touch("read", value.replace(text=given[at + 1 :]))
            elif name in ("-b", "--cookie") and "=" not in given:
                yield Touch("read", value)
        elif name in ("-F", "--form") and (match := re.search(r"=[@<]\"?([^;\"]+)", given)):
            yield Touch("read", value.replace(text=match[1]))
        elif name == "--url":
            operands.append(value)
    for url in operands:
        if url.text.casefold().startswith("file:"):
            yield Touch("read", url.replace(text=re.sub(r"^file:(?://[^/]*)?", "", url.text, flags=re.IGNORECASE)))


def _wget(found: Arguments) -> Iterator[Touch]:
    if found.has("-O", "--output-document", "--spider"):
        return
    into = next((option.value for option in found.options if option.role == "into"), Word("."))
    yield Touch("into", into)
    for url in found.operands:
        name = os.path.basename(url.text.rstrip("/")) or "."
        yield Touch("write", Word(os.path.join(into.text, name), url.why))
    many = "-r -m -p -x --recursive --mirror --page-requisites --force-directories --content-disposition"
    if found.has(*many.split()):
        yield Touch("names", Word("-"))


def _kubectl(found: Arguments) -> Iterator[Touch]:
    if found.texts[:1] == ("cp",):
        yield from copied_across(found.operands[1:])
    for option, value in values_of(found.words):
        if option in ("-f", "--filename", "-k", "--kustomize", "--from-file", "--from-env-file") and value.text != "-":
            yield Touch("read", value.replace(text=value.text.rpartition("=")[2]))


def _helm(found: Arguments) -> Iterator[Touch]:
    if found.texts[:2] in (("plugin", "install"), ("plugin", "update")):
        yield Touch("run", found.operands[0], starts=True)
    for option, value in values_of(found.words):
        if option in ("-f", "--values", "--set-file"):
            yield Touch("read", value.replace(text=value.text.rpartition("=")[2]))


# What changes how gh itself works from now on, runs code of others, or prints the token.
_GH_ACTS = frozenset(
    ("alias set", "alias import", "extension install", "extension upgrade", "extension exec", "config set",
     "auth token", "auth setup-git")
)  # fmt: skip
# Subcommands whose operands, from the third on, are files that are sent.
_GH_SENDS = {"gist create": 2, "release create": 3, "release upload": 3}
_GH_BODIES = frozenset("-F --body-file --notes-file --input --env-file".split())


def _gh(found: Arguments) -> Iterator[Touch]:
    operands = found.operands
    verb = " ".join(found.texts[:2])
    if verb in _GH_ACTS:
        yield Touch("run", operands[0])
    if verb == "auth status" and any(re.fullmatch(r"-\w*t\w*", w.text) for w in found.words):
        yield Touch("run", Word("-t"))
    if verb in ("repo clone", "gist clone"):
        yield from (Touch("write", w) for w in operands[3:4])
    if verb in _GH_SENDS:
        yield from (Touch("read", w) for w in operands[_GH_SENDS[verb] :] if w.text != "-")
    for option, value in values_of(found.words):
        if found.texts[:1] == ("api",) and option in ("-F", "--field"):
            if match := re.match(r"[^=]*=@(.+)", value.text, re.DOTALL):
                yield Touch("read", value.replace(text=match[1]))
        elif (option in _GH_BODIES or (verb == "secret set" and option == "-f")) and value.text != "-":
            yield Touch("read", value)


def _asks_gh(verb: str, found: Arguments) -> str:
    for option in found.options:
        if option.name in ("-q", "--jq") and _ENVIRONMENT.search(option.value.text):
            return f"the filter {option.value.text}"
        if option.name in ("-S", "--search") and _ELSEWHERE.search(option.value.text):
            return f"the search {option.value.text}"
    # A repository may be on any host.
    return f"{verb} {found.texts[-1]}" if verb == "repo view" and found.operands else ""


def _asks_kubectl(verb: str, found: Arguments) -> str:
    for value in found.values("-o", "--output"):
        if verb == "get" and value.text not in ("name", "wide"):
            return f"the output {value.text}"
    return "get of secrets" if verb == "get" and any(map(_SECRET_KINDS.search, found.texts)) else ""


def _placed_first(words: Sequence[Word]) -> list[Word]:
    """kubectl takes the options that say where before the verb, too."""
    rest = list(words)
    while len(rest) > 2 and rest[0].text in ("-n", "--namespace", "--context"):
        rest = [*rest[2:], *rest[:2]]
    return rest


_GH_LIST = reading_row(
    "text", "da", "LsSlABHqtjuwebc", "draft archived all failed-only",
    "limit state search label assignee base head author json jq template user workflow event branch commit status "
    "created milestone mention order sort app",
)  # fmt: skip
_GH_VIEW = reading_row(
    "text", "cvy", "qtja", "comments verbose exit-status log log-failed yaml required name-only patch",
    "json jq template job attempt color ref branch",
)  # fmt: skip
_KUBECTL_SCOPE = "namespace context selector field-selector"
_FETCHED = (
    "-X --request -H --header -A --user-agent -e --referer -m --max-time -u --user -w --write-out --retry -x --proxy"
)


def service_effects(found: Arguments) -> Iterator[Touch]:
    """Yield the effects of a service's command: values behind file:// or @, those of options for files, and operands.

    An absolute path is often a name of the service, unless files are copied.
    """
    copies = {"cp", "mv", "sync", "rsync", "upload"} & set(found.texts)
    for word in found.words:
        option, _, value = word.text.rpartition("=")
        if match := re.match(r"(?:fileb?://|@)(.+)", value, re.DOTALL):
            yield Touch("read", word.replace(text=match[1]))
        elif "file" in option:
            yield Touch("read", word.replace(text=value))
    yield from (Touch("maybe", w) for w in found.operands if copies or not w.text.startswith("/"))


def _terraform(found: Arguments) -> Iterator[Touch]:
    if found.texts[:1] == ("fmt",) and not any(re.fullmatch(r"--?(?:check|write=false)", w.text) for w in found.words):
        yield from (Touch("into", w) for w in found.operands[1:] or [Word(".")])


def by_verbs(rows: dict[str, Row]) -> dict[str, Row]:
    """Return the rows of subcommands; a key may name several, with commas between them."""
    return {verb.strip(): row for verbs, row in rows.items() for verb in verbs.split(",")}


NETWORK_ROWS = expand_rows({
    "curl": Row(
        "", write="-o --output -D --dump-header -c --cookie-jar --trace --trace-ascii --stderr --libcurl --hsts "
        "--alt-svc --etag-save", into="--output-dir",
        run="-K --config --proto-default --unix-socket --abstract-unix-socket", act="-n --netrc --netrc-optional",
        read="-T --upload-file --netrc-file --etag-compare -E --cert --key --cacert --capath --crlfile",
        value=f"{_FETCHED} -d --data --data-raw --data-binary --data-ascii --data-urlencode --json -F --form -b "
        "--cookie --connect-timeout --resolve --url --form-string --range -r --limit-rate --max-redirs "
        "--oauth2-bearer --retry-delay --retry-max-time --interface --speed-limit --speed-time -y -Y -z --time-cond "
        "--max-filesize -C --continue-at --ciphers --tls13-ciphers --proto --proto-redir --noproxy --tls-max "
        "--parallel-max --rate --keepalive-time --expect100-timeout -h --help",
        flags="-s -S -L -f -v -i -I -k -g -N -4 -6 -0 -1 -2 -3 -# -G -O -J -R -Z -q -l -j -V -M --silent --show-error "
        "--location --fail --verbose --include --head --insecure --compressed --globoff --no-buffer --http1.0 "
        "--http1.1 --http2 --http2-prior-knowledge --http3 --ipv4 --ipv6 --progress-bar --get --remote-name "
        "--remote-name-all --remote-header-name --remote-time --parallel --fail-with-body --fail-early --create-dirs "
        "--no-progress-meter --tlsv1 --tlsv1.2 --tlsv1.3 --ssl-reqd --retry-all-errors --retry-connrefused --raw "
        "--tcp-nodelay --no-keepalive --path-as-is --post301 --post302 --no-location --styled-output "
        "--no-styled-output --disable --next --version --basic --digest --anyauth --list-only --form-escape "
        "--suppress-connect-headers --trace-time --no-compressed",
        effects=_curl, versions="--version", network="*",
    ),
    "wget": Row(
        "", write="-O --output-document -o --output-file -a --append-output --save-cookies --warc-file "
        "--hsts-file --rejected-log", into="-P --directory-prefix", run="--config", starts="-e --execute --use-askpass",
        read="-i --input-file --post-file --body-file --load-cookies --certificate --private-key --ca-certificate",
        value="-U --user-agent --header --post-data -t --tries -T --timeout -w --wait -Q --quota -l --level -A -R "
        "-D --user --password --method --body-data --waitretry --limit-rate --connect-timeout --read-timeout "
        "--dns-timeout --accept --reject --domains --exclude-domains --referer --http-user --http-password "
        "--max-redirect --cut-dirs --progress --compression --secure-protocol --accept-regex --reject-regex -I -X",
        flags="-q -v -n -d -c -N -S -b -r -m -p -k -K -E -x -4 -6 -L -H -F -V -h --quiet --verbose --no-verbose "
        "--continue --timestamping --server-response --spider --no-check-certificate --no-clobber --no-directories "
        "--no-host-directories --no-parent --recursive --mirror --page-requisites --convert-links "
        "--adjust-extension --span-hosts --https-only --show-progress --content-disposition --no-cache --no-cookies "
        "--no-proxy --no-hsts --inet4-only --inet6-only --background --random-wait --retry-connrefused "
        "--force-directories --no-dns-cache --save-headers --unlink --version --help --debug",
        effects=_wget, network="*",
    ),
    "ssh": Row("", starts="-o -F -I -J -S -W", run="-D -L -R", act="-A -X -Y -f", write="-E",
        value="-p -l -c -m -b -B -e -Q -i", flags="-4 -6 -C -N -n -q -T -t -v -V -a -x -K -k -G", most=1,
        versions="-V", network="*", outside=KEYS, hides=True),
    "sftp": Row("", starts="-S -o -F -J -D", run="-b", value="-P -c -l -B -R -i",
        flags="-4 -6 -A -a -C -f -N -p -q -r -v", network="*", outside=KEYS),
    "nc ncat netcat socat": Row("", starts="-e -c --exec --sh-exec --lua-exec", network="*"),
    "http https xh ftp telnet ping dig host nslookup whois traceroute": Row("", partly=True, network="*"),
    "sshfs mosh ssh-add ssh-copy-id autossh hub oc gsutil bq doctl oci s3cmd rclone heroku fly flyctl vercel netlify "
    "wrangler pass vault sops age twine gpg2 glab": Row("", partly=True, effects=service_effects,
        outside=KEYS, local="--version"),
    "op": Row("", partly=True, effects=service_effects, outside=KEYS, local="--version", hides=True),
    "aws gcloud az pulumi ansible ansible-playbook": Row("", partly=True, others="value", effects=service_effects,
        network="*", outside=KEYS, local="--version version"),
    "terraform tofu": Row("", subcommands=1, partly=True,
        write="-out --out -state --state -state-out --state-out -backup --backup", read="-var-file --var-file",
        into="-chdir --chdir", run="-plugin-dir --plugin-dir", effects=_terraform, network="*", outside=KEYS,
        local="validate fmt providers graph version -version --version"),
    "gpg": Row("read", write="-o --output", starts="--exec-path --photo-viewer --agent-program",
        run="--options --homedir", value="-r -u", outside=KEYS),
    "openssl": Row("", subcommands=1, write="-out -keyout -writerand -rand", read="-in -inkey -key -CAfile -cert",
        value="-subj -days -newkey -addext -pkeyopt -algorithm", run="-engine -provider-path -config"),
    "kubectl": Row("", subcommands=2, partly=True, others="value", write="--profile-output", into="--cache-dir",
        run="-s --server --kubeconfig", effects=_kubectl, network="*", outside=KEYS, local="kustomize", hides=True,
        asks=_asks_kubectl, prepare=_placed_first, verbs=by_verbs({
            "get": reading_row("text", "Aw", "nloL",
                "all-namespaces show-labels no-headers ignore-not-found show-kind watch",
                f"{_KUBECTL_SCOPE} output sort-by label-columns chunk-size"),
            "top": reading_row("text", "A", "nl", "all-namespaces containers no-headers", f"{_KUBECTL_SCOPE} sort-by"),
            "events": reading_row("text", "A", "n", "all-namespaces", f"{_KUBECTL_SCOPE} for types"),
            "version": reading_row("text", "", "o", "client", "output context"),
            "config current-context, config get-contexts, config get-clusters": reading_row("text", "", "o", "",
            "output"),
            "api-resources, api-versions": reading_row("text", "", "o", "namespaced", "output api-group verbs context"),
            "explain": reading_row("text", "", "", "recursive", "api-version context"),
            "rollout status, rollout history": reading_row(
                "text", "w", "n", "watch", "namespace context revision timeout"),
        })),
    "helm": Row("", subcommands=2, partly=True, others="value", into="--output-dir -d --destination",
        starts="--post-renderer",
        run="--kubeconfig --kube-apiserver", effects=_helm, network="*", outside=KEYS,
        local="lint template create package", verbs=by_verbs({
            "list, ls, history": reading_row("text", "aAqrd", "nomlf",
                "all all-namespaces short reverse date failed pending deployed",
                "namespace output max kube-context filter selector"),
            "version": reading_row("text", "", "", "short"),
        })),
    "gh": Row("", subcommands=2, partly=True, others="value", write="-O", into="-D --dir", act="--show-token",
        repository=True,
        effects=_gh,
        versions="--version", network="*", outside=KEYS, asks=_asks_gh, verbs=by_verbs({
            "pr list, issue list, run list, release list, workflow list, label list": _GH_LIST,
            "pr view, pr diff, pr checks, pr status, issue view, issue status": _GH_VIEW,
            "run view, release view, workflow view, repo view": _GH_VIEW,
            "auth status": reading_row("text"),
        })),
})  # fmt: skip
