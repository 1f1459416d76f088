"""Files that run something or give rights: asked about in every mode, by every tool and command, wherever they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_cli.kernel.decisions import Decision, Level
from agent_cli.kernel.modes import Mode
from agent_cli.kernel.rules import read_rule
from agent_cli.policy.policy import Policy
from agent_tools.base import Effect
from agent_tools.fs.protected_names import HOME_NAMES, PROJECT_NAMES, plain_names
from agent_tools.fs.workspace import Workspace
from agent_tools.sandbox.profile import PROTECTED_HOME_NAMES as OF_HOME_IN_THE_SANDBOX
from agent_tools.sandbox.profile import PROTECTED_NAMES as OF_PROJECT_IN_THE_SANDBOX

# What the files of a project start, or what they allow.
OF_PROJECT = """
.agent/commands/x.md .agents/skills/x/SKILL.md .claude/settings.json .mcp.json .agentrc .agentrc.local
.cursor/mcp.json .cursor/rules/x.mdc .codex/config.toml .gemini/settings.json .opencode/agent/x.md opencode.json
opencode.jsonc .kimi/config.toml .windsurf/mcp.json .roo/mcp.json .continue/config.yaml .aider.conf.yml
.kiro/settings/mcp.json .qwen/settings.json .amazonq/mcp.json .github/hooks/x.json
.vscode/tasks.json .vscode/launch.json .vscode/settings.json .zed/settings.json .zed/tasks.json .idea/workspace.xml
.idea/runConfigurations/x.xml .devcontainer/devcontainer.json .devcontainer.json .fleet/run.json
.envrc .husky/pre-commit .pre-commit-config.yaml .mise.toml .cargo/config.toml .exrc .nvim.lua .dir-locals.el .gdbinit
.git/config sub/.git/hooks/x deep/down/.vscode/tasks.json .VSCode/tasks.json .Claude./settings.json
.hg/hgrc lefthook.yml .mise/config.toml .config/mise/config.toml
.Rprofile .octaverc .irbrc .github/workflows/x.yml sub/.gitlab-ci.yml .forgejo/workflows/x.yml .gitea/workflows/x.yml
.woodpecker/x.yml .drone.yml appveyor.yml .cirrus.yml buildspec.yml cloudbuild.yaml .tekton/x.yaml
""".split()
# Other names that they have on file systems of Windows and macOS.
OTHER_NAMES = """
GIT~1/hooks/x git~2/config AGENT~1/hooks.json CLAUDE~1/settings.json AGENTR~1 .git::$INDEX_ALLOCATION/config
.mcp.json::$DATA .g\u200cit/config .agent\ufeffrc .\u212aimi/config.toml .GIT./config sub/GITHUB~1/workflows/x.yml
""".split()
OF_HOME = """
.bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .inputrc
.zshrc .zshenv .zprofile .zlogin .zlogout .config/zsh/.zshrc .kshrc .mkshrc .shrc .shinit .cshrc .tcshrc .login .logout
.config/fish/config.fish .config/fish/conf.d/x.fish .config/fish/functions/ls.fish .config/nushell/config.nu
.config/nushell/env.nu .config/elvish/rc.elv .elvish/rc.elv .xonshrc .config/xonsh/rc.xsh .config/xonsh/rc.d/x.xsh
.config/powershell/Microsoft.PowerShell_profile.ps1 .config/powershell/profile.ps1
.config/git/config .config/git/attributes .gitconfig .ssh/config .ssh/authorized_keys
.claude/settings.json .claude.json .codex/config.toml .gemini/settings.json .config/opencode/opencode.json
.kimi/config.toml .cursor/mcp.json .aider.conf.yml .codeium/windsurf/mcp_config.json .config/goose/config.yaml
.copilot/mcp-config.json .config/Code/User/settings.json .config/zed/tasks.json
.config/nvim/init.lua .vimrc .vim/plugin/x.vim .emacs.d/init.el
.config/autostart/x.desktop .config/systemd/user/x.service .config/environment.d/x.conf .xprofile .pam_environment
.tmux.conf
""".split()
FREE = """
src/a.py README.md AGENTS.md .cursorrules .github/copilot-instructions.md Makefile package.json .editorconfig .gitignore
docs/claude.md git/config config/fish/x.fish .config/other/x.toml vscode/tasks.json profile.py .config/gitui/x.ron
src~1/a.py backup~1 a.py~ .mise/notes.md .forgejo/x.md .config/mise/notes.md hg/hgrc
""".split()
WRITERS = (
    "cp a {}", "tee -a {} < a", "sed -i s/a/b/ {}", "echo x >> {}", "rm -f {}", "mv a {}", "ln -sf a {}",
    "dd if=a of={}", "curl -o {} https://x.org",
)  # fmt: skip
MODES: tuple[Mode, ...] = ("default", "acceptEdits", "bypassPermissions")


class Place:
    def __init__(self, tmp_path: Path, **env: str) -> None:
        self.home, self.root, self.state = tmp_path / "home", tmp_path / "home/work", tmp_path / "home/st/agent"
        self.root.mkdir(parents=True)
        self.env = {"PATH": "/usr/bin:/bin", **env}

    def decide(
        self, effect: Effect, mode: Mode = "bypassPermissions", roots: tuple[Path, ...] = (), **lists: str
    ) -> Decision:
        rules = [read_rule(kind, text, "test", self.root) for kind, text in lists.items()]  # type: ignore[arg-type]
        gate = Policy(Workspace(self.root, roots), rules, mode, home=str(self.home), env=self.env, state=self.state)
        tool = "Bash" if effect.kind == "run" else "Edit"
        return gate.decide(tool, [effect])

    def holds(self, effect: Effect, mode: Mode = "bypassPermissions", **lists: str) -> bool:
        found = self.decide(effect, mode, **lists)
        return found.level is Level.ASK and found.final


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize("name", [*(f"work/{n}" for n in OF_PROJECT), *OF_HOME])
def test_a_protected_file_is_asked_about_in_every_mode_by_tools_and_commands(place: Place, name: str) -> None:
    path = place.home / name
    for mode in MODES:
        assert place.holds(Effect("write", str(path)), mode, allow="Edit"), mode
    assert place.decide(Effect("write", str(path)), "dontAsk", allow="Edit").level is Level.DENY
    for words in WRITERS:
        command = words.format(path)
        assert place.holds(Effect("run", command)), command
        assert place.holds(Effect("run", command), "default", allow=f"Bash({command.split()[0]}:*)"), command
        assert place.decide(Effect("run", command), "dontAsk", allow="Bash").level is Level.DENY, command


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_another_name_of_a_protected_file_is_protected(place: Place, name: str) -> None:
    for mode in MODES:
        assert place.holds(Effect("write", f"{place.root}/{name}"), mode, allow="Edit"), mode
        assert place.holds(Effect("run", f"cp a '{name}'"), mode, allow="Bash"), mode


@pytest.mark.parametrize("name", FREE)
def test_other_files_are_not(place: Place, name: str) -> None:
    path = place.root / name
    assert place.decide(Effect("write", str(path)), "acceptEdits").level is Level.ALLOW
    assert place.decide(Effect("run", f"cp a {path}")).level is Level.ALLOW


def test_variables_say_where_such_files_are_too(tmp_path: Path) -> None:
    home = tmp_path / "home"
    place = Place(
        tmp_path, XDG_CONFIG_HOME=f"{home}/cfg", ZDOTDIR=f"{home}/zsh", ENV=f"{home}/rc/ksh", CODEX_HOME=f"{home}/cx",
        GIT_CONFIG_GLOBAL=f"{home}/my-git",
    )  # fmt: skip
    for name in (
        "cfg/fish/config.fish",
        "cfg/git/config",
        "cfg/nushell/env.nu",
        "zsh/functions/x",
        "rc/ksh",
        "cx/a.toml",
        "my-git",
    ):
        assert place.holds(Effect("write", f"{home}/{name}")), name
        assert place.holds(Effect("run", f"cp a {home}/{name}"), "default", allow="Bash(cp:*)"), name
    assert place.decide(Effect("write", f"{home}/cfg/other/x")).level is Level.ALLOW


@pytest.mark.parametrize("link", [".claude", ".mcp.json", ".vscode", ".agents"])
def test_what_a_protected_link_leads_to_is_protected(place: Place, link: str) -> None:
    (place.root / "shared").mkdir()
    (place.root / link).symlink_to("shared")
    assert place.holds(Effect("write", f"{place.root}/shared/x"))
    assert place.holds(Effect("run", "cp a shared/x"), "default", allow="Bash(cp:*)")
    (place.root / link).unlink()
    assert place.decide(Effect("write", f"{place.root}/shared/x")).level is Level.ALLOW


def test_dotfiles_kept_elsewhere_are_protected_there(place: Place) -> None:
    (place.root / "dot").mkdir()
    (place.home / ".zshrc").symlink_to("work/dot/zshrc")
    assert place.holds(Effect("write", f"{place.root}/dot/zshrc"), "acceptEdits")
    assert place.decide(Effect("write", f"{place.root}/dot/other"), "acceptEdits").level is Level.ALLOW


def test_our_own_state_is_protected_but_for_a_worktree_in_it(place: Place) -> None:
    for name in ("trust.json", "sessions/x/y.jsonl", "undo/x/HEAD", "worktrees/x/other/a"):
        assert place.holds(Effect("write", f"{place.state}/{name}")), name
        assert place.holds(Effect("run", f"rm -rf {place.state}/{name}")), name
    place.root = place.state / "worktrees/x/mine"
    place.root.mkdir(parents=True)
    assert place.decide(Effect("write", f"{place.root}/a.py"), "acceptEdits").level is Level.ALLOW
    assert place.holds(Effect("write", f"{place.state}/worktrees/x/other/a"))


@pytest.mark.parametrize("agent", [".claude", ".codex", ".cursor"])
def test_a_workspace_in_the_worktrees_of_another_agent_is_as_free_as_any(place: Place, agent: str) -> None:
    trees, main = place.root / agent / "worktrees", place.root
    for root in (trees / "mine", trees / "id/project", trees / "mine/sub"):
        root.mkdir(parents=True, exist_ok=True)
        place.root = root
        assert place.decide(Effect("write", f"{root}/src/a.py"), "acceptEdits").level is Level.ALLOW
        for name in (".claude/settings.json", ".agentrc", ".git", ".git/hooks/x", "sub/.vscode/tasks.json"):
            assert place.holds(Effect("write", f"{root}/{name}")), name
        for other in (trees / "other/a.py", trees.parent / "settings.json", main / ".claude/settings.json"):
            assert place.holds(Effect("write", f"{other}")), other
    for root in (trees, trees.parent, main / ".git/worktrees/mine"):
        root.mkdir(parents=True, exist_ok=True)
        place.root = root
        assert place.holds(Effect("write", f"{root}/config")), root


@pytest.mark.parametrize(
    "command", ["rm -rf ~/.config", "mv ~/.config x", "tar xf a.tar -C ~", "unzip -d ~/.config a.zip"]
)
def test_a_folder_that_holds_protected_files_is_asked_about(place: Place, command: str) -> None:
    assert place.holds(Effect("run", command))
    assert place.holds(Effect("run", command), "default", allow=f"Bash({command.split()[0]}:*)")


def test_a_rule_of_the_users_that_names_a_file_opens_what_is_not_ours(place: Place) -> None:
    assert (
        place.decide(Effect("write", f"{place.root}/.vscode/tasks.json"), allow="Edit(/.vscode/tasks.json)").level
        is Level.ALLOW
    )
    assert place.holds(Effect("write", f"{place.root}/.vscode/tasks.json"), allow="Edit(/.vscode/**)")
    assert place.holds(Effect("write", f"{place.root}/.claude/settings.json"), allow="Edit(/.claude/settings.json)")


def test_the_sandbox_protects_what_the_gate_protects(place: Place) -> None:
    assert set(OF_PROJECT_IN_THE_SANDBOX) == set(plain_names(PROJECT_NAMES))
    assert set(OF_HOME_IN_THE_SANDBOX) == set(plain_names(HOME_NAMES))
    for base, names in ((place.root, OF_PROJECT_IN_THE_SANDBOX), (place.home, OF_HOME_IN_THE_SANDBOX)):
        for name in names:
            assert place.holds(Effect("write", f"{base}/{name}")), name
            assert place.holds(Effect("write", f"{base}/{name}/x")), name
