"""Plugins through the real program: added after a question, used under their names, refused once they changed."""

from __future__ import annotations

import io
import json
import os
import shutil
import stat
import subprocess
import zipfile
from pathlib import Path

import pytest

from agent_cli.knowledge.plugins.install import read_marketplace
from agent_cli.knowledge.plugins.manifest import PluginError, read_plugin
from agent_cli.knowledge.plugins.obtain import extract_zip, parse_source
from tests.support.extension_files import home_of, put
from tests.support.plugin_folders import command_hook, marketplace_folder, plugin_folder
from tests.support.program import agent
from tests.support.pty_session import Terminal
from tests.support.scripts import call, script

BLOCK = 'grep -q forbidden && { echo "$CLAUDE_PLUGIN_ROOT says no" >&2; exit 2; }; exit 0'


def ok(work: Path, *words: str) -> str:
    done = agent(["plugin", *words], work)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_plugin_is_added_after_a_question_and_used(work: Path) -> None:
    folder = plugin_folder(work.parent, hooks={"PreToolUse": command_hook(BLOCK)})
    put(folder, ".mcp.json", json.dumps({"desk": {"command": "${CLAUDE_PLUGIN_ROOT}/none", "args": ["a b"]}}))
    shown = agent(["plugin", "add", str(folder)], work)
    assert shown.returncode == 2 and "repeat the command with --yes" in shown.stdout
    for part in (
        "/tidy:sweep", "tidy:dust", "critic", "terse", "PreToolUse: grep", "MCP server plugin_tidy_desk: ${CLAUDE_PL",
    ):  # fmt: skip
        assert part in shown.stdout, part
    assert "There are no plugins" in ok(work, "list")
    ok(work, "add", str(folder), "--yes")
    there = home_of(work) / ".agent/plugins/installed/tidy"
    replies = [
        {"text": "Swept.", "expect": f"Sweep the floor with {there}/b.txt"},
        {"calls": [call("Skill", skill="tidy:dust")]},
        {"calls": [call("Read", file_path=f"{there}/b.txt")], "expect": f"Dust: {there}"},
        {"calls": [call("Bash", command="echo forbidden")], "expect": "broom"},
        {"text": "Done.", "expect": f"{there} says no"},
    ]
    first = script(work.parent / "a.toml", replies[:1])
    assert agent(["-p", "--model", first, "/tidy:sweep the floor"], work).stdout == "Swept.\n"
    second = script(work.parent / "b.toml", replies[1:])
    done = agent(["-p", "--model", second, "--allowedTools", "Bash", "--output-format", "stream-json", "go"], work)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[-1]["result"] == "Done.", done.stdout
    init = lines[0]
    assert {"name": "tidy", "path": str(there)} in init["plugins"]
    assert "tidy:critic" in init["agents"] and "tidy:sweep" in init["slash_commands"]
    assert "tidy:dust" in init["skills"] and "plugin_tidy_desk" in {s["name"] for s in init["mcp_servers"]}
    bare = agent(["-p", "--bare", "--model", script(work.parent / "c.toml", []), "/tidy:sweep"], work)
    assert "Swept" not in bare.stdout


def test_a_plugin_that_changed_is_not_loaded_until_it_is_trusted_again(work: Path) -> None:
    ok(work, "add", str(plugin_folder(work.parent)), "--yes")
    file = home_of(work) / ".agent/plugins/installed/tidy/commands/sweep.md"
    file.write_text("Something else: $ARGUMENTS")
    model = script(work.parent / "s.toml", [{"text": "Ok.", "expect": "Something else: now"}])
    held = agent(["-p", "--model", model, "hi"], work)
    assert "the plugin tidy has changed since you trusted it: agent plugin trust tidy" in held.stderr
    assert "changed: agent plugin trust" in ok(work, "list")
    assert agent(["plugin", "trust", "tidy"], work).returncode == 2
    ok(work, "trust", "tidy", "--yes")
    assert agent(["-p", "--model", model, "/tidy:sweep now"], work).stdout == "Ok.\n"


def test_a_no_changes_nothing_and_has_the_same_exit_code_everywhere(work: Path) -> None:
    folder = plugin_folder(work.parent)
    _decline(work, "add", str(folder))
    assert "There are no plugins" in ok(work, "list")
    ok(work, "add", str(folder), "--yes")
    put(folder, "commands/wash.md", "Wash it.")
    _decline(work, "update")
    _decline(work, "update", "tidy")
    # One of several that cannot be updated does not hide the no.
    ok(work, "add", str(plugin_folder(work.parent, "zz")), "--yes")
    shutil.rmtree(work.parent / "zz")
    _decline(work, "update")
    put(home_of(work) / ".agent/plugins/installed/tidy", "commands/sweep.md", "Changed.")
    _decline(work, "trust", "tidy")


def _decline(work: Path, *words: str) -> None:
    terminal = Terminal(["plugin", *words], work)
    terminal.expect("? [y/N]")
    terminal.type("n")
    assert "Nothing was changed." in terminal.end()
    assert terminal.exit_code == 2


def test_update_shows_what_changed_and_asks_again(work: Path) -> None:
    folder = plugin_folder(work.parent)
    ok(work, "add", str(folder), "--yes")
    assert "tidy is up to date." in ok(work, "update")
    put(folder, "commands/wash.md", "Wash.")
    refused = agent(["plugin", "update", "tidy"], work)
    assert refused.returncode == 2 and "/tidy:wash" in refused.stdout
    installed = home_of(work) / ".agent/plugins/installed/tidy/commands/wash.md"
    assert not installed.exists()
    assert "tidy was updated" in ok(work, "update", "tidy", "--yes")
    assert installed.exists()
    assert not list((home_of(work) / ".agent/plugins/waiting").iterdir())
    ok(work, "remove", "tidy")
    assert not installed.exists() and "There are no plugins" in ok(work, "list")


def test_nothing_runs_while_a_plugin_is_added(work: Path) -> None:
    hooks = {event: command_hook(f"touch {work}/ran") for event in ("SessionStart", "PreToolUse")}
    folder = plugin_folder(work.parent, hooks=hooks)
    put(folder, ".mcp.json", json.dumps({"x": {"command": "touch", "args": [f"{work}/ran"]}}))
    ok(work, "add", str(folder), "--yes")
    ok(work, "show", "tidy")
    ok(work, "update", "--yes")
    assert not (work / "ran").exists()


def test_disabled_plugins_and_those_of_the_setting(work: Path) -> None:
    folder = plugin_folder(work.parent)
    ok(work, "add", str(folder), "--yes")
    ok(work, "disable", "tidy")
    assert " off " in ok(work, "list")
    ok(work, "enable", "tidy")
    (home_of(work) / ".agentrc").write_text('[enabled_plugins]\ntidy = false\n"lost@shop" = true\n')
    assert "off by the setting" in ok(work, "list")
    done = agent(["-p", "--model", script(work.parent / "s.toml", [{"text": "Ok."}]), "hi"], work)
    text = "The settings want the plugin lost@shop, which was not added: agent plugin add lost@shop"
    assert text in done.stderr and done.returncode == 0


def test_plugins_of_claude_code_count_where_they_were_added_here(work: Path) -> None:
    ok(work, "add", str(plugin_folder(work.parent)), "--yes")
    theirs = home_of(work) / ".claude/settings.json"
    theirs.parent.mkdir()
    markets = {"shop": {"source": {"source": "github", "repo": "o/shop"}}}
    theirs.write_text(
        json.dumps({"enabledPlugins": {"tidy": True, "lost@shop": True}, "extraKnownMarketplaces": markets})
    )
    model = script(work.parent / "s.toml", [{"text": "Ok."}])
    done = agent(["-p", "--model", model, "hi"], work)
    assert (done.returncode, done.stderr) == (0, "")
    assert " used " in ok(work, "list")
    found = agent(["doctor"], work).stdout
    assert "1 used: tidy" in found and "only in Claude Code: lost@shop" in found
    assert "agent plugin marketplace add o/shop" in found and "agent plugin add lost@shop" in found
    theirs.write_text(json.dumps({"enabledPlugins": {"tidy": False}}))
    assert "off by enabledPlugins in Claude Code's settings" in ok(work, "list")
    assert "not used: tidy" in agent(["doctor"], work).stdout
    # What one says here comes first.
    (home_of(work) / ".agentrc").write_text("[enabled_plugins]\ntidy = true\n")
    assert " used " in ok(work, "list")
    (home_of(work) / ".agentrc").unlink()
    theirs.unlink()
    # A project that is not trusted switches nothing off.
    put(work, ".claude/settings.json", json.dumps({"enabledPlugins": {"tidy": False}}))
    assert " used " in ok(work, "list")


def test_plugin_dir_loads_for_one_run_even_with_bare(work: Path) -> None:
    folder = plugin_folder(work.parent)
    model = script(work.parent / "s.toml", [{"text": "Ok.", "expect": f"Sweep x with {folder}/b.txt"}])
    args = ["-p", "--model", model, "--plugin-dir", str(folder), "/tidy:sweep x"]
    assert agent(args, work).stdout == "Ok.\n"
    assert agent([*args, "--bare"], work).stdout == "Ok.\n"
    packed = work.parent / "tidy.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for file in sorted(folder.rglob("*")):
            archive.write(file, f"tidy-1.0/{file.relative_to(folder)}")
    model = script(work.parent / "z.toml", [{"text": "Ok.", "expect": "Sweep x with "}])
    assert agent(["-p", "--model", model, "--plugin-dir", str(packed), "/tidy:sweep x"], work).stdout == "Ok.\n"
    wrong = agent(["-p", "--model", model, "--plugin-dir", str(work), "hi"], work)
    assert wrong.returncode == 2 and "is not a plugin" in wrong.stderr and "Traceback" not in wrong.stderr


def test_a_marketplace_in_git_and_its_plugins(work: Path) -> None:
    shop = marketplace_folder(
        work.parent / "shop",
        {"name": "tidy", "source": "./plugins/tidy", "description": "Tidies."},
        {"name": "bare", "source": "./plugins/bare", "skills": ["./extra"], "strict": False},
        {"name": "npm", "source": {"source": "npm", "package": "x"}},
        {"name": "../x", "source": "./"},
    )
    plugin_folder(shop / "plugins")
    put(shop, "plugins/bare/extra/wax/SKILL.md", "---\ndescription: Wax it.\n---\nWax.")
    (shop / "plugins/tidy/link.md").symlink_to("/etc/passwd")
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-C", str(shop)]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    url = f"file://{shop}"
    added = ok(work, "marketplace", "add", url)
    assert "ours was added, with 3 plugins" in added and "cannot be one" in added
    assert "Tidies." in ok(work, "marketplace", "list", "ours")
    absent = agent(["plugin", "add", "nosuch/"], work)
    assert absent.stderr.startswith("agent: nosuch/ is neither a folder nor a zip file"), absent.stderr
    hint = agent(["plugin", "add", "tidy"], work)
    assert hint.returncode == 2 and "agent plugin add tidy@ours" in hint.stderr
    ok(work, "add", "tidy@ours", "--yes")
    ok(work, "add", "bare@ours", "--yes")
    assert "bare:wax" in ok(work, "show", "bare")
    npm = agent(["plugin", "add", "npm@ours"], work)
    assert npm.returncode == 2 and "sources of kind 'npm' are not supported" in npm.stderr
    wrong = agent(["plugin", "add", f"{url}#no-such"], work)
    assert wrong.returncode == 2 and "no-such" in wrong.stderr and "Traceback" not in wrong.stderr
    assert not (home_of(work) / ".agent/plugins/installed/tidy/link.md").exists()
    assert {"tidy", "bare"} == {p["name"] for p in json.loads(ok(work, "list", "--json"))}
    ok(work, "marketplace", "update")
    ok(work, "marketplace", "remove", "ours")
    assert "tidy" in ok(work, "list")


def test_custom_paths_and_what_has_no_effect(tmp_path: Path) -> None:
    folder = plugin_folder(
        tmp_path,
        commands=["./more/", "./one.md"],
        agents="./agents/critic.md",
        skills="./lib",
        hooks={"Stop": command_hook("true"), "NoSuchEvent": command_hook("true")},
        mcpServers={"desk": {"url": "https://x.test/mcp", "type": "http"}},
        lspServers={"x": {}},
        surprise=1,
    )
    put(folder, "more/deep/a.md", "A")
    put(folder, "one.md", "One")
    put(folder, "lib/wax/SKILL.md", "---\ndescription: Wax.\n---\nWax.")
    found = read_plugin(folder, tmp_path / "data")
    assert set(found.commands) == {"deep:a", "one"}
    assert set(found.skills) == {"dust", "wax"}
    assert [hook.event for hook in found.hooks] == ["Stop"]
    assert found.hooks[0].env == {"CLAUDE_PLUGIN_ROOT": str(folder), "CLAUDE_PLUGIN_DATA": str(tmp_path / "data")}
    assert list(found.servers) == ["plugin_tidy_desk"]
    notes = "\n".join(found.notes)
    assert "lspServers: " in notes and "surprise: not known here" in notes and "NoSuchEvent" in notes


@pytest.mark.parametrize("text", ["../out", "/etc", "./link"])
def test_a_path_that_leads_out_of_a_plugin_is_not_followed(tmp_path: Path, text: str) -> None:
    folder = plugin_folder(tmp_path, commands=text, hooks=text, mcpServers=text, skills=text)
    put(tmp_path, "out/x.md", "X")
    (folder / "link").symlink_to(tmp_path / "out")
    found = read_plugin(folder, tmp_path / "data")
    assert not found.commands and not found.servers and not found.hooks
    assert any("leads out" in note for note in found.notes)


def zipped(*entries: tuple[str, bytes, int]) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data, mode in entries:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, data)
    file.seek(0)
    return file


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/x", "a\\..\\x", "a//x", "./x"])
def test_an_archive_cannot_write_elsewhere(tmp_path: Path, name: str) -> None:
    with pytest.raises(PluginError, match="leads elsewhere"):
        extract_zip(zipped(("ok.md", b"x", 0o644), (name, b"y", 0o644)), tmp_path / "t" / "u", [])
    assert not (tmp_path / "x").exists() and not (tmp_path / "t" / "x").exists()


def test_links_and_large_files_of_an_archive_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[str] = []
    entries = ("a", b"/etc/passwd", stat.S_IFLNK | 0o777), ("run", b"#!", 0o755), ("b", b"x", 0o644)
    extract_zip(zipped(*entries), tmp_path / "one", left)
    assert left == ["a: it is a link or no regular file"] and not os.path.lexists(tmp_path / "one/a")
    assert os.access(tmp_path / "one/run", os.X_OK) and not os.access(tmp_path / "one/b", os.X_OK)
    monkeypatch.setattr("agent_cli.knowledge.plugins.obtain.MAX_FILE_BYTES", 3)
    with pytest.raises(PluginError, match="has more than"):
        extract_zip(zipped(("b", b"xxxx", 0o644)), tmp_path / "two", [])
    monkeypatch.setattr("agent_cli.knowledge.plugins.obtain.MAX_FILES", 1)
    with pytest.raises(PluginError, match="too large"):
        extract_zip(zipped(("b", b"x", 0), ("c", b"x", 0)), tmp_path / "three", [])
    with pytest.raises(PluginError, match="cannot be read"):
        extract_zip(io.BytesIO(b"PK nonsense"), tmp_path / "four", [])


@pytest.mark.parametrize("text", ["-x", "--upload-pack=x", "ext::sh -c x", "https://x.test/a#-x", "nothing"])
def test_what_is_no_source_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(PluginError):
        parse_source(text, tmp_path)


def test_sources_of_a_marketplace_are_checked(tmp_path: Path) -> None:
    bad = [
        {"name": "a", "source": "../up"},
        {"name": "b", "source": {"source": "url", "url": "ext::sh"}},
        {"name": "c", "source": {"source": "git-subdir", "url": "https://x.test/r", "path": "../x"}},
        {"name": "d", "source": {"source": "url", "url": "--upload-pack=x"}},
        {"name": "e"},
    ]
    market = read_marketplace(marketplace_folder(tmp_path / "shop", *bad))
    for name in "abcde":
        with pytest.raises(PluginError):
            market.source(name)


def test_plugin_root_is_put_before_names_and_not_before_paths(tmp_path: Path) -> None:
    entries = [{"name": "a", "source": "tidy"}, {"name": "b", "source": "./plugins/tidy"}]
    folder = marketplace_folder(tmp_path / "shop", *entries)
    plugin_folder(folder / "plugins")
    file = folder / ".claude-plugin/marketplace.json"
    for root in ("./plugins", "plugins/"):
        file.write_text(json.dumps({**json.loads(file.read_text()), "metadata": {"pluginRoot": root}}))
        market = read_marketplace(folder)
        assert {market.source(name).location for name in "ab"} == {str(folder / "plugins/tidy")}


def test_the_words_of_other_programs_are_understood(work: Path) -> None:
    shop = marketplace_folder(work.parent / "shop", {"name": "tidy", "source": "./tidy"})
    plugin = plugin_folder(shop, oddity=1)
    for path in (plugin, plugin / ".claude-plugin/plugin.json", plugin / ".claude-plugin"):
        found = agent(["plugin", "validate", str(path)], work)
        assert found.returncode == 0 and "/tidy:sweep" in found.stdout and "oddity: not known here" in found.stdout
    assert "ours: 1 plugin" in agent(["plugin", "validate", str(shop)], work).stdout
    assert agent(["plugin", "validate", str(work)], work).returncode == 1
    ok(work, "marketplace", "add", str(shop))
    done = agent(["plugin", "install", "tidy@ours", "--scope", "project", "--yes"], work)
    assert done.returncode == 0 and "in every project" in done.stderr
    assert "tidy" in ok(work, "ls")
    ok(work, "uninstall", "tidy")
    assert "tidy" not in ok(work, "list")


def test_a_server_of_a_plugin_may_have_the_keys_of_other_programs(tmp_path: Path) -> None:
    servers = {
        "web": {"serverUrl": "http://127.0.0.1:9/mcp", "transport": "sse", "autoApprove": ["x"], "wat": 1},
        "off": {"command": "true", "enabled": False, "env": {"N": 1}},
    }
    plugin = read_plugin(plugin_folder(tmp_path, mcpServers=servers), tmp_path / "data")
    web, off = plugin.servers["plugin_tidy_web"], plugin.servers["plugin_tidy_off"]
    assert (web.url, web.type, off.disabled, off.env["N"]) == ("http://127.0.0.1:9/mcp", "sse", True, "1")
    assert any("wat is not a known key" in note for note in plugin.notes)
    assert any("autoApprove allows nothing here" in note for note in plugin.notes)


def test_metadata_of_a_marketplace_may_be_anything(tmp_path: Path) -> None:
    folder = marketplace_folder(tmp_path / "shop", {"name": "a", "source": "./a"})
    file = folder / ".claude-plugin/marketplace.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "metadata": "odd"}))
    assert read_marketplace(folder).entries


def test_others_cannot_write_the_list_of_plugins(work: Path) -> None:
    ok(work, "add", str(plugin_folder(work.parent)), "--yes")
    file = home_of(work) / ".agent/plugins/installed.json"
    file.chmod(0o666)
    done = agent(["-p", "--model", script(work.parent / "s.toml", [{"text": "Ok."}]), "hi"], work)
    assert "can be written by others than you" in done.stderr and done.returncode == 0
    file.chmod(0o600)
    file.write_text("{")
    assert "is damaged" in agent(["plugin", "list"], work).stderr


def test_an_empty_folder_is_named_with_a_likely_reason(work: Path) -> None:
    (work / "empty").mkdir()
    done = agent(["plugin", "add", "./empty", "--yes"], work)
    assert done.returncode == 2
    assert "empty; it may be a submodule of git" in " ".join(done.stderr.split())
