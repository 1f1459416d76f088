"""Commands that destroy what is no file of the project: data of services, clusters, accounts and machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from agent_cli.policy.programs.danger import Danger
from agent_cli.policy.programs.invocation import Invocation
from agent_tools.lazy import lazy_pattern

_MAX_VERBS = 6
_SQL = lazy_pattern(r"(?is)(?:^|;)\s*(drop|truncate|delete\s+from|alter\s+\S.*\bdrop)\b")
_MONGO = lazy_pattern(r"\.(drop\w*|deleteMany|deleteOne|remove)\(")
_CODE = {
    **dict.fromkeys("psql mysql mariadb cqlsh sqlcmd clickhouse-client bq snowsql cockroach".split(), _SQL),
    **dict.fromkeys("mongo mongosh".split(), _MONGO),
}
# Nothing is changed with these.
_ONLY_SHOWS = lazy_pattern(r"--help|--dry-?run(?:=(?!none$|false$).*)?")

_VOLUMES = "deletes volumes and the data in them"
_CLUSTER = "deletes objects of the cluster, with all that depends on them"
_INFRASTRUCTURE = "destroys infrastructure and the data in it"
_ACCOUNT = "deletes resources of the account and the data in them"
_BUCKET = "deletes files in the bucket"
_DATABASE = "deletes all data of the database"
_MACHINE = "deletes virtual machines and their disks"
_DEVICE = "destroys all data on the device"
_STOPS = "ends all that runs on this machine"
# By program: words that say that it destroys something, and what. The first entry whose words are all there counts.
# Alternatives are separated by bars. Options may be anywhere, other words follow each other; ... matches any words.
_LOSSES: Mapping[str, Mapping[str, str]] = {
    "docker podman nerdctl": {
        "volume rm|remove|prune": _VOLUMES,
        "system prune --volumes": "deletes stopped containers, unused images, and volumes with the data in them",
        "system prune": "deletes stopped containers and unused images",
        "compose down|rm -v|--volumes": _VOLUMES,
        "rm": "deletes containers and what was written in them",
        "container rm|remove|prune": "deletes containers and what was written in them",
    },
    "docker-compose podman-compose": {"down|rm -v|--volumes": _VOLUMES},
    "kubectl oc": {"delete": _CLUSTER, "replace --force": _CLUSTER},
    "helm": {"uninstall|delete|del|un": "removes a release, with its objects in the cluster"},
    "minikube kind k3d": {"delete": "deletes a cluster and its volumes", "cluster delete": "deletes a cluster"},
    "terraform tofu terragrunt": {
        "destroy": _INFRASTRUCTURE,
        "apply -destroy|--destroy": _INFRASTRUCTURE,
        "apply -auto-approve|--auto-approve": "changes or destroys infrastructure without a look at the plan",
        "state rm": "forgets resources, which then exist without a state",
        "workspace delete": "deletes a state",
    },
    "pulumi": {"destroy": _INFRASTRUCTURE, "stack rm": "deletes a stack and its history"},
    "cdk serverless sls sst": {"destroy|remove": _INFRASTRUCTURE},
    "redis-cli valkey-cli": {"flushall|flushdb": "deletes all keys", "del|unlink": "deletes keys"},
    "dropdb": {"": _DATABASE},
    "dropuser": {"": "deletes a role of the database server"},
    "mysqladmin": {"drop": _DATABASE},
    "rails rake": {"db:drop|db:reset|db:purge|db:schema:load|db:migrate:reset": _DATABASE},
    "prisma": {"migrate reset": _DATABASE, "db push --force-reset|--accept-data-loss": _DATABASE},
    "supabase": {"db reset": _DATABASE, "projects delete": _ACCOUNT},
    "python python3 django-admin": {"*manage.py flush|reset_db": _DATABASE, "flush": _DATABASE},
    "php": {"artisan migrate:fresh|migrate:reset|migrate:refresh|db:wipe": _DATABASE},
    "mix": {"ecto.drop|ecto.reset": _DATABASE},
    "flyway": {"clean": _DATABASE},
    "crontab": {"-r": "deletes all cron jobs of the user", "*": "replaces all cron jobs of the user"},
    "aws": {
        "s3 rm|rb": _BUCKET, "s3 sync --delete": _BUCKET,
        "* delete-*|terminate-*|purge-*|batch-delete-*|deregister-*": _ACCOUNT,
    },
    "gcloud": {"... delete": _ACCOUNT, "storage rm": _BUCKET},
    "az": {"... delete|purge|delete-batch": _ACCOUNT},
    "doctl": {"... delete|rm": _ACCOUNT},
    "fly flyctl": {"... destroy|delete": _ACCOUNT},
    "heroku": {"*:destroy|*:reset": _ACCOUNT},
    "gsutil s3cmd mc": {"rm|rb|del": _BUCKET, "rsync -d": _BUCKET},
    "rclone": {"delete|deletefile|purge|cleanup|sync|rmdirs": "deletes files of the remote, or in the folder given"},
    "vercel netlify wrangler": {"... remove|rm|delete": _ACCOUNT},
    "gh glab": {"api ... DELETE": "deletes what the API names", "... delete": "deletes it at the hosting service"},
    "npm pnpm yarn": {"unpublish": "removes a package that others may use from the registry"},
    "vagrant": {"destroy": _MACHINE},
    "multipass lxc incus": {"delete": _MACHINE},
    "virsh": {"undefine|vol-delete|pool-delete": _MACHINE},
    "systemctl": {"poweroff|reboot|halt|kexec": _STOPS},
    "shutdown reboot poweroff halt": {"": _STOPS},
    "zfs zpool": {"destroy|rollback": "destroys file systems or snapshots, and the data in them"},
    "mkfs mkfs.ext4 mkfs.xfs mkfs.btrfs mkfs.vfat wipefs blkdiscard lvremove vgremove pvremove": {"": _DEVICE},
}  # fmt: skip


def service_losses(found: Invocation) -> Iterator[Danger]:
    """Yield what a command destroys outside the files of this machine that undo could restore."""
    texts = [word.text for word in found.words[1:] if not word.why]
    if not found.words or any(_ONLY_SHOWS.fullmatch(text) for text in texts):
        return
    code = _CODE.get(found.name)
    if code is not None and (match := next(filter(None, map(code.search, texts)), None)):
        verb = " ".join(match[1].split()[:1])
        yield _danger(found, (verb,), f"deletes data of the database ({verb})")
        return
    for words, lost in _by_program().get(found.name, {}).items():
        names = _named(words.split(), texts)
        if names is not None:
            yield _danger(found, names, lost)
            return


def _danger(found: Invocation, names: Sequence[str], lost: str) -> Danger:
    return Danger(found.part, "service", (found.name, *names), lost=lost)


def _by_program() -> Mapping[str, Mapping[str, str]]:
    if not _expanded:
        _expanded.update({name: losses for names, losses in _LOSSES.items() for name in names.split()})
    return _expanded


_expanded: dict[str, Mapping[str, str]] = {}


def _named(wanted: Sequence[str], texts: Sequence[str]) -> tuple[str, ...] | None:
    """Return the words of a command that fit an entry; None if some of it are missing.

    Words that may be values of options are skipped where they do not fit.
    """
    names: list[str] = []
    at, anywhere = 0, False
    for alternatives in wanted:
        if alternatives == "...":
            anywhere = True
            continue
        choices = alternatives.split("|")
        if alternatives.startswith("-"):
            name = next((t for t in texts if any(_is_option(t, choice) for choice in choices)), None)
        else:
            at, name = _next_word(choices, texts, at, anywhere=anywhere)
        if name is None:
            return None
        names.append(name)
    return tuple(names)


def _is_option(text: str, option: str) -> bool:
    joined = len(option) == 2 and len(text) > 1 and text[0] == "-" and text[1] != "-" and option[1] in text[1:]
    return text.partition("=")[0] == option or joined


def _next_word(choices: Sequence[str], texts: Sequence[str], at: int, *, anywhere: bool) -> tuple[int, str | None]:
    """Return the place behind the next word that is one of the choices, and the word; None without one."""
    verbs = 0
    for n in range(at, len(texts)):
        text = texts[n]
        if not text.startswith("-") and any(fnmatchcase(text.casefold(), choice.casefold()) for choice in choices):
            return n + 1, text
        value = n > 0 and texts[n - 1].startswith("-") and "=" not in texts[n - 1]
        verbs += not (text.startswith("-") or value)
        if verbs and not (anywhere and verbs < _MAX_VERBS):
            break
    return at, None
