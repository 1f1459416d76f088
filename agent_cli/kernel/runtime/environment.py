"""Environment and settings of a run: the folders, the layers of settings in order, the flags on top."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_cli.config.config import Config
from agent_cli.config.layers import Declared, Layers, Origin, home_folder
from agent_cli.config.parsing import SettingsError, as_ignored, from_environment
from agent_cli.config.policy import NO_POLICY, ManagedPolicy, read_policy
from agent_cli.config.prompts import workspace_root
from agent_cli.config.schema import Settings
from agent_cli.kernel.rules import RuleError, RuleList, Trust, split_rules
from agent_cli.kernel.run_environment import RunEnvironment, UsageError, read_project
from agent_cli.kernel.session.store import state_folder
from agent_cli.kernel.user_text import begins_json_object
from agent_cli.knowledge.memory import Sources, user_folders
from agent_cli.models.catalog import SHORT_NAMES
from agent_cli.policy.trust import TrustStore, evaluate_trust, fingerprints, grant_trust
from agent_tools.fs import own_files
from agent_tools.lazy import lazy_imports
from agent_tools.text import one_line, shorten

if TYPE_CHECKING:
    from agent_cli.knowledge.plugins.manifest import Plugin

with lazy_imports():
    from agent_cli.config import (
        claude_settings,  # only if there are files
        rule_lists,  # only for rules of the caller
    )
    from agent_cli.kernel.runtime import addresses  # few projects set any
    from agent_cli.knowledge import withheld  # of a project that is not trusted
    from agent_cli.knowledge.plugins import obtain, store
    from agent_cli.policy import (
        command_rules,  # few rules have examples
        git_inspection,
        git_use,
    )
    from agent_cli.stage import protocol  # only in a stage
    from agent_tools.process import guarded_git


_PLUGINS = ".agent/plugins/installed.json"


def find_environment(env: Mapping[str, str], folder: str | os.PathLike[str] | None = None) -> RunEnvironment:
    """Return where a run happens: the folder, by default the working directory, and its workspace.

    Raises UsageError if it is gone, or not a folder.
    """
    try:
        cwd = Path(os.path.realpath(Path.cwd() if folder is None else os.path.expanduser(folder)))
    except FileNotFoundError:
        raise UsageError("The working directory no longer exists.") from None
    if folder is not None and not os.path.isdir(cwd):  # noqa: PTH112 - the method raises where a parent is closed
        raise UsageError(f"{folder} is not a folder.")
    home = home_folder(env)
    own_files.share_in(state_folder(env) / "sandbox")
    in_stage = "AGENT_STAGE" in os.environ or protocol.__name__ in sys.modules
    stage = protocol.current_stage() if in_stage else None
    return RunEnvironment(cwd, workspace_root(cwd, home), home, env, stage)


def read_settings(config: Config, run_env: RunEnvironment, mistakes: list[str] | None = None) -> Layers:
    """Read all layers in order, the project's as far as it is trusted. Raises UsageError.

    mistakes: collects errors in files and variables instead of raising them; the rest is read.
    """
    earlier = len(mistakes or ())

    def read() -> Layers:
        if mistakes is not None:
            del mistakes[earlier:]
        return _read_layers(config, run_env, mistakes)

    return read() if config.bare else read_project(run_env.root, read)


def _read_layers(config: Config, run_env: RunEnvironment, mistakes: list[str] | None) -> Layers:
    layers = Layers(mistakes)
    try:
        layers.managed = read_policy(run_env.env, config.managed, called=config.name_of("managed"))
        if not config.bare:
            if config.reads("user"):
                _add_user_files(layers, run_env)
            by_flag = config.trust or (config.sources is not None and config.reads("project"))
            evaluate_project_trust(layers, run_env, _trusted(layers, config, run_env), by_flag=by_flag)
            if run_env.root != run_env.home:
                _add_project(layers, config, run_env)
        if layers.project_env:
            addresses.withhold_addresses(layers, layers.project_env)
        for given in config.settings:
            _add_given(layers, given, config.name_of("settings"), run_env)
        if config.profile is not None:
            layers.use_profile(config.profile)
        if from_env := from_environment(run_env.env, mistakes):
            layers.add(from_env, "the environment", run_env.root)
        add_overrides(layers, config, run_env)
        if config.managed and layers.managed.notes:
            keys = shorten(", ".join(layers.managed.notes), 200)
            layers.ignored.append(f"{config.name_of('managed')} can only restrict, so this has no effect: {keys}")
        layers.ignored += config.notices
        if layers.addresses:
            addresses.report_addresses(layers, run_env)
        _use_key_helper(layers)
        if run_env.home is None and not (run_env.env.get("AGENT_STATE_DIR") or run_env.env.get("XDG_STATE_HOME")):
            layers.add({"save_sessions": False}, "the missing home folder", run_env.root)
            layers.ignored.append("There is no home folder, so this session is not saved")
        _add_policy(layers, run_env)
        _check_bypass(layers, config)
        _add_plugins(layers, config, run_env)
        _check_examples(layers, run_env)
    except (SettingsError, RuleError) as error:
        raise UsageError(str(error)) from None
    return layers


def _add_user_files(layers: Layers, run_env: RunEnvironment) -> None:
    if run_env.home is not None:
        folder = Path(run_env.env.get("CLAUDE_CONFIG_DIR") or run_env.home / ".claude")
        if _may_exist(folder / "settings.json"):
            claude_settings.add_claude_settings(layers, folder / "settings.json", "user", run_env.env)
        _add_hooks_file(layers, run_env.home, "user")
        layers.add_file(run_env.home / ".agentrc", "user")


def _add_hooks_file(layers: Layers, base: Path, origin: Origin) -> None:
    if _may_exist(base / ".agent/hooks.json"):
        claude_settings.add_hooks_file(layers, base / ".agent/hooks.json", origin)


def _may_exist(path: Path) -> bool:
    """Return True if there is a file, or that cannot be seen."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def evaluate_project_trust(layers: Layers, run_env: RunEnvironment, patterns: Iterable[str], *, by_flag: bool) -> None:
    """Set the trust of the project. Raises UsageError for an invalid pattern."""
    if run_env.root == run_env.home:
        layers.trust = Trust(str(run_env.root), "trusted", "your home folder")
        return
    try:
        layers.trust, problem = evaluate_trust(
            run_env.root, state_folder(run_env.env), patterns, run_env.home, by_flag=by_flag
        )
    except ValueError as error:
        raise UsageError(f"The setting trusted: {error}.") from None
    if problem:
        layers.ignored.append(problem)


def _add_project(layers: Layers, config: Config, run_env: RunEnvironment) -> None:
    """Read the project's files with the rights that its trust gives them.

    Errors in files of an untrusted project do not keep the program from starting: they are reported, the rest is read.
    """
    voice: Origin = "trusted" if layers.trust.trusted else "project"
    collected = layers.mistakes
    if voice == "project" and collected is None:
        layers.mistakes = []
    sources = [source for source in ("project", "local") if config.reads(source)]
    for source in sources:
        name = "settings.json" if source == "project" else "settings.local.json"
        if _may_exist(run_env.root / ".claude" / name):
            claude_settings.add_claude_settings(layers, run_env.root / ".claude" / name, voice, run_env.env)
    if "project" in sources:
        _add_hooks_file(layers, run_env.root, voice)
    named = {os.path.realpath(os.path.expanduser(text)) for text in config.settings if isinstance(text, str)}
    for source in sources:
        name = ".agentrc" if source == "project" else ".agentrc.local"
        # A file that the caller names is the caller's own, and is read below.
        if os.path.realpath(run_env.root / name) not in named:
            layers.add_file(run_env.root / name, voice)
    if layers.trust.trusted:
        return
    if collected is None:
        layers.ignored += map(as_ignored, layers.mistakes or ())
        layers.mistakes = None
    if layers.trust.needs_trust and "project" in sources:
        for source, hooks in withheld.withheld_hooks(run_env.root, fingerprints(run_env.root) or ()):
            layers.add_hooks(hooks, source, voice)
    state = layers.trust.state
    if state == "plain" and layers.held:
        state = "untrusted"
    elif not layers.trust.needs_trust and not layers.held:
        state = "plain"
    layers.trust = layers.trust.replace(state=state)
    if state != "plain":
        layers.ignored.append(layers.untrusted_notice())


def _trusted(layers: Layers, config: Config, run_env: RunEnvironment) -> tuple[str, ...]:
    """Return the patterns of trusted folders from the user's own layers, before the project is read."""
    own = list(layers.settings().trusted)
    if config.settings:
        named = Layers()
        for given in config.settings:
            _add_given(named, given, config.name_of("settings"), run_env)
        own += named.settings().trusted
    return (*own, *from_environment(run_env.env, []).get("trusted", ()))


def memory_sources(
    run_env: RunEnvironment,
    settings: Settings,
    trust: Trust,
    readable: Callable[[Path], bool] | None,
    config: Config | None = None,
) -> Sources:
    """Return where memory files are searched. readable: returns True if a file may be shown without a question."""
    config = config or Config()
    own = user_folders(run_env.home, run_env.env.get("XDG_CONFIG_HOME", "")) if config.reads("user") else ()
    project = config.reads("project")
    return Sources(
        run_env.cwd, run_env.root, settings.memory_files, run_env.home, own, trust.outside, readable, project
    )


class UserTrust:
    """The user's trust in a project: in its files that would take effect, as they are when this is made.

    files: their fingerprints; None if there are too many.
    """

    def __init__(self, run_env: RunEnvironment) -> None:
        self.files = fingerprints(run_env.root)
        self._root, self._state = run_env.root, state_folder(run_env.env)

    def remember(self) -> str:
        """Store that the user trusts the project as it was shown; return "" or why that failed."""
        return grant_trust(self._root, self._state, self.files)

    def decline(self) -> str:
        """Store that the user does not; return "" or why that failed."""
        if self.files is None:
            return "it has too many files to check"
        try:
            TrustStore(self._state).decline(self._root, self.files)
        except OSError as error:
            return f"it cannot be saved: {error.strerror or error}"
        return ""

    @property
    def declined(self) -> bool:
        """True if the user declined to trust the project as it is."""
        return self.files is not None and TrustStore(self._state).is_declined(self._root, self.files)

    @staticmethod
    def revoke(run_env: RunEnvironment) -> bool:
        """Stop trusting the project; return whether it was trusted. Raises OSError."""
        return TrustStore(state_folder(run_env.env)).forget(run_env.root)


def _add_policy(layers: Layers, run_env: RunEnvironment) -> None:
    """Add the rules of the policy; as the strictest rule wins, none of another layer is above them."""
    managed = layers.managed
    for name in ("deny", "ask"):
        if rules := getattr(managed, name):
            layers.add({"permissions": {name: list(rules)}}, f"the policy ({managed.origin})", run_env.root)


def _add_plugins(layers: Layers, config: Config, run_env: RunEnvironment) -> None:
    """Load the plugins of the user and of the command line: their hooks and servers count as the user's own."""
    found: list[Plugin] = []
    settings = layers.settings()
    if config.safe:
        return
    if not config.bare and run_env.home is not None and os.path.lexists(run_env.home / _PLUGINS):
        enabled = {**layers.claude_plugins, **settings.enabled_plugins}
        found = store.load_plugins(run_env.home, enabled, layers.managed.refuses_plugin, layers.ignored)
    if config.plugins or config.plugins_without_servers or config.plugin_addresses:
        called = config.name_of("plugins")
        given = [obtain.load_given(text, called, run_env) for text in config.plugins]
        without = (obtain.load_given(text, called, run_env) for text in config.plugins_without_servers)
        given += [plugin.replace(servers={}) for plugin in without]
        given += [obtain.load_from(url, config.name_of("plugin_addresses"), run_env) for url in config.plugin_addresses]
        for plugin in given:
            if why := layers.managed.refuses_plugin(plugin.name, plugin.source):
                raise UsageError(f"{config.name_of('plugins')}: {plugin.name}: {why}.")
        names = {plugin.name for plugin in given}
        found = [*(plugin for plugin in found if plugin.name not in names), *given]
    if not config.bare:
        wanted = [name for name, on in settings.enabled_plugins.items() if on]
        names = {plugin.source for plugin in found} | {plugin.name for plugin in found}
        for name in wanted:
            if name not in names and name.partition("@")[0] not in names:
                layers.ignored.append(_missing_plugin(name))
    for plugin in found:
        layers.plugins.append(plugin)
        layers.ignored += [f"the plugin {plugin.name}: {note}" for note in plugin.hook_notes]
        if plugin.hooks:
            layers.add_hooks(plugin.hooks, f"the plugin {plugin.name}", "user")
        where = f"the plugin {plugin.name}"
        layers.servers += [Declared(name, server, where, from_user=True) for name, server in plugin.servers.items()]


def _missing_plugin(name: str) -> str:
    """Return the message about a plugin that the settings switch on and that is not here."""
    return one_line(f"The settings want the plugin {name}, which was not added: agent plugin add {name}")


def _check_bypass(layers: Layers, config: Config) -> None:
    """Raise SettingsError for bypassPermissions from anywhere but this very command line; note if it is allowed."""
    origin = layers.origins.get("permissions.mode", "")
    files = (str(Path(os.path.expanduser(text))) for text in config.settings if isinstance(text, str))
    asked = {config.origin, config.name_of("settings"), *files}
    if layers.settings().permissions.mode == "bypassPermissions" and origin not in asked:
        raise SettingsError(
            f"{origin}: permissions.mode: bypassPermissions is taken from the command line only, as in "
            "--permission-mode bypassPermissions"
        )
    permissions = layers.settings().permissions
    layers.may_bypass = config.allow_bypass or permissions.allow_bypass or permissions.mode == "bypassPermissions"


def _check_examples(layers: Layers, run_env: RunEnvironment) -> None:
    """Raise SettingsError for a rule that does not match its own examples."""
    if not any(rule.match or rule.not_match for rule in layers.rules):
        return
    if mistakes := command_rules.check_examples(layers.rules, run_env.cwd, run_env.home or run_env.cwd):
        raise SettingsError("; ".join(mistakes))


def _add_given(layers: Layers, text: str | dict[str, Any], called: str, run_env: RunEnvironment) -> None:
    """Add what the caller gave as settings. called: what the caller calls it. Raises SettingsError."""
    if isinstance(text, dict):
        layers.add(text, called, run_env.root)
        return
    if begins_json_object(text):
        claude_settings.add_json_settings(layers, text, called, run_env.root)
        return
    if "\n" in text or "=" in text:
        layers.add_text(text, called, run_env.root)
        return
    path = Path(os.path.expanduser(text))
    if not os.path.isfile(path):  # noqa: PTH113 - the method raises where a parent is closed
        raise SettingsError(f"{called}: there is no file {text}")
    if path.suffix == ".json":
        try:
            found = layers.text_of(path, "user")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
        claude_settings.add_json_settings(layers, found or "{}", str(path), path.parent)
        return
    layers.add_file(path, "user")


def _use_key_helper(layers: Layers) -> None:
    """Let Claude Code's command for the key print it, if the model is Claude and no other command is set."""
    command, source = layers.key_helper
    settings = layers.settings()
    named = (settings.model or "").removeprefix("anthropic/")
    if command and not settings.key_command and (named.startswith("claude") or named in SHORT_NAMES):
        layers.add({"key_command": command}, source, Path())


def add_overrides(layers: Layers, config: Config, run_env: RunEnvironment) -> None:
    """Add the settings and rules that the caller set. Raises UsageError."""
    try:
        for kind in ("allow", "ask", "deny"):
            if rules := _rules(config, kind):
                layers.add({"permissions": {kind: rules}}, config.name_of(kind), run_env.root)
        layers.add(_overrides(config), config.origin, run_env.root)
    except (SettingsError, RuleError) as error:
        raise UsageError(str(error)) from None


def _rules(config: Config, kind: RuleList) -> list[str]:
    """Return the rules of a kind that the caller set, one by one. Raises RuleError."""
    texts = getattr(config, kind)
    listed = rule_lists.rule_list(texts) if texts else None
    try:
        return [rule for text in listed or () for rule in split_rules(text)]
    except RuleError as error:
        raise RuleError(f"{config.name_of(kind)}: {error}") from None


def _overrides(config: Config) -> dict[str, Any]:
    """Return the settings that the caller set, without rules."""
    data = dict(config.overrides)
    if config.model and config.model != "default":  # else that of the settings, or the first one found
        data["model"] = config.model
    permissions: dict[str, Any] = {"mode": config.mode} if config.mode else {}
    if config.folders:
        permissions["additional_directories"] = [str(Path(os.path.expanduser(d)).resolve()) for d in config.folders]
    return data | ({"permissions": permissions} if permissions else {})


def check_mode(
    mode: str, env: Mapping[str, str], managed: ManagedPolicy = NO_POLICY, *, may_bypass: bool = True
) -> None:
    """Raise UsageError for a mode that is refused in this environment, by a policy, or as the user has not allowed it.

    may_bypass: the user allowed bypassPermissions when the session began; see `Layers`.
    """
    if mode == "bypassPermissions":
        try:
            managed = managed if managed.no_bypass else read_policy(env)
        except SettingsError as error:
            raise UsageError(str(error)) from None
        if managed.no_bypass:
            raise UsageError(f"bypassPermissions is refused by the policy ({managed.origin}).")
        if not may_bypass:
            raise UsageError(
                "bypassPermissions has to be allowed when a session begins: --allow-dangerously-skip-permissions, or "
                "allow_bypass = true under [permissions] in your own settings."
            )
    if mode == "bypassPermissions" and hasattr(os, "geteuid") and os.geteuid() == 0 and not in_container(env):
        raise UsageError(
            "bypassPermissions is refused for root outside a container; set IS_SANDBOX=1 if this machine is a sandbox."
        )


def in_container(env: Mapping[str, str]) -> bool:
    """Return True if this machine is a container, or the user says that it is a sandbox."""
    return env.get("IS_SANDBOX") == "1" or bool(env.get("container")) or any(
        Path(p).exists() for p in ("/.dockerenv", "/run/.containerenv")
    )  # fmt: skip


def has_changes(run_env: RunEnvironment, layers: Layers) -> bool:
    """Return True if git has changes to commit in the project; False, too, if git may not run there. This takes a
    moment.
    """
    try:
        git = git_use.git_to_read(run_env.root, run_env.env, layers.trust.git_use)
        return bool(git.run("status", "--porcelain", "--untracked-files=normal", seconds=5.0).strip())
    except (git_use.NotUsableError, guarded_git.GitError):
        return False


def git_would_start(run_env: RunEnvironment, layers: Layers) -> str:
    """Describe what the user's own git would run of an untrusted project; "" for nothing."""
    if layers.trust.trusted:
        return ""
    found = git_inspection.inspect_repository(run_env.root)
    if layers.trust.git_use == "unknown":
        return "the hooks and programs that it configures"
    return ", ".join((*found.needs_trust, *(f"the hook {name}" for name in found.hooks)))
