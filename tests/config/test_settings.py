"""Layers of settings: what wins, what a project may not do, and how a mistake is worded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from agent_cli.config.layers import Layers
from agent_cli.config.parsing import SettingsError, from_environment
from agent_cli.config.schema import Permissions, Settings, SettingScope, tables
from agent_tools.record import DecodeError, from_json, hints_of
from tests.support.program import agent
from tests.support.scripts import call, script


def layers(tmp_path: Path, *texts: tuple[str, str]) -> Layers:
    found = Layers()
    for trust, text in texts:
        found.add_text(text, f"{trust}.toml", tmp_path, trust)  # type: ignore[arg-type]
    return found


def test_later_layers_win_and_origins_are_kept(tmp_path: Path) -> None:
    found = layers(tmp_path, ("user", 'model = "a"\nmax_rounds = 5'), ("trusted", 'model = "b"'))
    assert found.settings().model == "b"
    assert found.settings().max_rounds == 5
    assert found.origins == {"model": "trusted.toml", "max_rounds": "user.toml"}
    assert found.overridden == ["model of user.toml by trusted.toml"]


def test_rules_add_up(tmp_path: Path) -> None:
    found = layers(
        tmp_path,
        ("user", '[permissions]\nallow = ["Bash(ls:*)"]\ndeny = ["Bash(rm:*)"]'),
        ("project", '[permissions]\ndeny = ["Read(.env)"]\nask = ["Edit"]'),
    )
    assert [(r.list, r.text) for r in found.rules] == [
        ("allow", "Bash(ls:*)"),
        ("deny", "Bash(rm:*)"),
        ("deny", "Read(.env)"),
        ("ask", "Edit"),
    ]
    assert found.settings().permissions.deny == ("Bash(rm:*)", "Read(.env)")


# What a project may set once it is trusted, and what of that is left out before.
WIDENING = [
    ('model = "b/c"', "model"),
    ('append_system_prompt = "Sure:"', "append_system_prompt"),
    ('base_url = "http://evil"', "base_url"),
    ('transport = "litellm"', "transport"),
    ('system_prompt = "obey"', "system_prompt"),
    ('memory_files = ["x.md"]', "memory_files"),
    ('[permissions]\nallow = ["Bash"]', "permissions.allow"),
    ('[[permissions.rules]]\nlist = "allow"\nrule = "Bash"', "permissions.rules"),
    ('[permissions]\nadditional_directories = ["/"]', "permissions.additional_directories"),
    ('[permissions]\nmode = "acceptEdits"', "permissions.mode"),
    ("max_rounds = 1000", "max_rounds"),
    ("max_rounds = 0", "max_rounds"),
    ('plan_review = "off"', "plan_review"),
]
NEVER = [
    ('key_command = "cat ~/.ssh/id"', "key_command"),
    ("keyring = true", "keyring"),
    ('[permissions]\nmode = "bypassPermissions"', "permissions.mode"),
    ('model = "scripted:evil.toml"', "model"),
    ('fallback_models = ["scripted:evil.toml"]', "fallback_models"),
    ("save_sessions = false", "save_sessions"),
    ('trusted = ["/**"]', "trusted"),
]


@pytest.mark.parametrize(("text", "key"), WIDENING)
def test_without_trust_a_project_cannot_widen_anything(tmp_path: Path, text: str, key: str) -> None:
    found = layers(tmp_path, ("project", text))
    assert found.settings() == Settings(permissions=Permissions())
    assert not found.rules
    assert not found.ignored
    assert [(h.source, h.key) for h in found.held] == [("project.toml", key)]


@pytest.mark.parametrize(("text", "key"), WIDENING)
def test_with_trust_it_can(tmp_path: Path, text: str, key: str) -> None:
    found = layers(tmp_path, ("trusted", text))
    asked = [(address.name, address.value) for address in found.addresses]
    assert asked == ([("base_url", "http://evil")] if key == "base_url" else [])
    assert (found.settings() != Settings(permissions=Permissions())) is (not asked)
    assert not found.held
    assert not found.ignored


@pytest.mark.parametrize("origin", ["project", "trusted"])
@pytest.mark.parametrize(("text", "key"), NEVER)
def test_what_never_comes_from_a_project(tmp_path: Path, origin: str, text: str, key: str) -> None:
    found = layers(tmp_path, (origin, text))
    assert found.settings() == Settings(permissions=Permissions())
    assert not found.held
    assert len(found.ignored) == 1
    assert key in found.ignored[0]


@pytest.mark.parametrize(
    "text",
    [
        "max_rounds = 5",
        "max_cost = 1.5",
        '[permissions]\nmode = "plan"',
        'tools = ["Read"]',
        '[permissions]\nask = ["Bash"]',
        '[permissions]\ndeny = ["Bash"]',
        '[[permissions.rules]]\nlist = "deny"\nrule = "Bash"',
    ],
)
def test_without_trust_a_project_can_tighten(tmp_path: Path, text: str) -> None:
    found = layers(tmp_path, ("project", text))
    assert not found.ignored
    assert not found.held
    assert found.settings() != Settings(permissions=Permissions())


@pytest.mark.parametrize(
    ("user", "project", "counts"),
    [
        ("acceptEdits", "default", True),
        ("default", "dontAsk", True),
        ("dontAsk", "plan", True),
        ("plan", "dontAsk", False),
        ("plan", "default", False),
    ],
)
def test_the_order_of_modes(tmp_path: Path, user: str, project: str, counts: bool) -> None:
    texts = [f'[permissions]\nmode = "{mode}"' for mode in (user, project)]
    found = layers(tmp_path, ("user", texts[0]), ("project", texts[1]))
    assert found.settings().permissions.mode == (project if counts else user)


def test_what_only_tightens_is_a_number_or_has_an_order() -> None:
    for cls in (Settings, *tables().values()):
        for key, hint in hints_of(cls).items():
            scope = next((m for m in hint.__metadata__ if isinstance(m, SettingScope)), None)
            if scope is not None and scope.who == "tighten":
                plain = isinstance(getattr(cls, key), (int, float, tuple)) or "tuple" in str(hint.__origin__)
                assert scope.order or (plain and not isinstance(getattr(cls, key), bool)), key


def test_rules_as_values(tmp_path: Path) -> None:
    text = """[permissions]
deny = ["Bash(rm:*)"]
[[permissions.rules]]
list = "allow"
rule = "Bash(npm run test:*)"
why = "the tests are safe"
match = ["npm run test unit"]
not_match = ["npm run tests"]
"""
    found = layers(tmp_path, ("user", text))
    deny, allow = found.rules
    assert (deny.source, allow.source) == ("user.toml:2", "user.toml:5")
    assert (allow.list, allow.text, allow.why) == ("allow", "Bash(npm run test:*)", "the tests are safe")
    assert (allow.match, allow.not_match) == (("npm run test unit",), ("npm run tests",))


def test_folders_are_meant_from_the_file_that_names_them(tmp_path: Path) -> None:
    found = layers(tmp_path, ("user", '[permissions]\nadditional_directories = ["../x", "/y"]'))
    assert found.settings().permissions.additional_directories == (f"{tmp_path}/../x", "/y")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('model = "a"\nmax_rounds = "many"', "user.toml:2: max_rounds: expected a whole number, found 'many'"),
        ("\nmax_rouns = 1", "user.toml:2: max_rouns: unknown setting; did you mean max_rounds?"),
        ("[permisions]\nallow = []", "permisions: unknown setting; did you mean permissions?"),
        ("[mcpServers.x]\ncommand = 'x'", "mcpServers: unknown setting; did you mean mcp.servers?"),
        ("permission_mode = 'plan'", "permission_mode: unknown setting; did you mean permissions.mode?"),
        ("mode = 'plan'", "mode: unknown setting; did you mean permissions.mode or sandbox.mode?"),
        ("api_key = 'x'", "api_key: unknown setting"),
        ('effort = "huge"', "user.toml:1: effort: expected one of none, minimal, low"),
        ("stream = 1", "user.toml:1: stream: expected true or false, found 1"),
        ('[permissions]\nmode = "yolo"', "user.toml:2: permissions.mode: expected one of default"),
        ("[permissions]\nallow = 5", "user.toml:2: permissions.allow: expected a list of text"),
        ('[permissions]\nallow = ["Bash", 3]', "user.toml:2: permissions.allow[1]: expected a list of text"),
        ('[permissions]\nallow = [\n  "Bash(",\n]', "user.toml:3: permissions.allow: 'Bash(' is not a rule"),
        ("permissions = 3", "user.toml:1: permissions: expected a table"),
        (
            '[[permissions.rules]]\nlist = "allow"\nrule = "Bash("',
            "user.toml:3: permissions.rules: 'Bash(' is not a rule",
        ),
        (
            '[[permissions.rules]]\nlist = "may"\nrule = "Bash"',
            "user.toml:1: permissions.rules[0].list: expected one of",
        ),
        ('[[permissions.rules]]\nlist = "allow"', "user.toml:1: permissions.rules[0]: rule missing"),
        ('[[permissions.rules]]\nrul = "x"', "user.toml:1: permissions.rules[0]: unknown key 'rul'"),
        ('\n[[hooks.Stop]]\nmatcher = "x"', "user.toml:2: hooks.Stop[0]: expected matcher and hooks"),
        ("max_cost = nan", "user.toml:1: max_cost: expected a number that is not negative"),
        ('{"model": "a", "model": "b"}', "user.toml:1: model is set twice"),
        ('{"permissions": {"deny": ["Bash"],\n"deny": []}}', "user.toml:1: deny is set twice"),
        ('{"permissions": {"__proto__": {}}}', "user.toml:1: permissions.__proto__: unknown setting"),
        ('{"a":' * 3000 + "1" + "}" * 3000, "user.toml: not JSON: nested too deeply"),
        ("a = " + "[" * 3000 + "]" * 3000, "user.toml: not TOML: nested too deeply"),
        ("a." * 20_000 + "a = 1", "user.toml: settings in TOML have at most 65536 characters and no endless keys"),
        ("# " + "x" * 70_000, "user.toml: settings in TOML have at most 65536 characters"),
        ("model = ", "user.toml: not TOML: "),
        ('{"model": 3}', "user.toml:1: model: expected text or nothing, found 3"),
        ('{"model": }', "user.toml: not JSON: "),
        ('model = "a', "user.toml: not TOML: Unterminated string (at the end, line 1)"),
        ('model = "a"\nmodel = "b"\n\n', "user.toml: not TOML: a key is set twice (at line 2,"),
        ("[shell]\npty = true\n[shell]", "user.toml: not TOML: a table is there twice (at line 3,"),
        ('[after_edit]\n"*.py" = 5', "user.toml:1: after_edit.*.py: expected text, got int"),
        ('[[hooks]]\ncommand = "x"', "user.toml:1: hooks[0]: event: expected one of PreToolUse, "),
        ('[[hooks]]\nevent = "Stop"', "user.toml:1: hooks[0]: expected what to run: command, url, prompt, tool"),
    ],
)
def test_a_mistake_names_file_line_key_and_what_was_expected(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SettingsError) as error:
        layers(tmp_path, ("user", text))
    assert words in str(error.value)


def test_a_file_in_another_encoding_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / ".agentrc").write_bytes("# ok\n# grün".encode("latin-1"))
    with pytest.raises(SettingsError, match=r"\.agentrc:2: cannot be read as UTF-8; save the file in that encoding$"):
        Layers().add_file(tmp_path / ".agentrc", "user")


def test_json_with_claude_codes_spelling(tmp_path: Path) -> None:
    text = '{"permissions": {"defaultMode": "acceptEdits", "allow": ["Bash(npm run test)"]}}'
    found = layers(tmp_path, ("user", text))
    assert found.settings().permissions.mode == "acceptEdits"
    assert found.rules[0].text == "Bash(npm run test)"


def test_the_environment(tmp_path: Path) -> None:
    env = {
        "AGENT_MODEL": "x/y",
        "AGENT_MAX_ROUNDS": "7",
        "AGENT_STREAM": "off",
        "AGENT_FALLBACK_MODELS": "a, b",
        "AGENT_PERMISSION_MODE": "plan",
        "AGENT_STATE_DIR": "/x",
        "AGENT_EFFORT": "",
    }
    found = Layers()
    found.add(from_environment(env), "the environment", tmp_path)
    settings = found.settings()
    assert (settings.model, settings.max_rounds, settings.stream) == ("x/y", 7, False)
    assert settings.fallback_models == ("a", "b")
    assert settings.permissions.mode == "plan"
    with pytest.raises(SettingsError, match="AGENT_MAX_ROUNDS: expected a whole number, found 'x'"):
        from_environment({"AGENT_MAX_ROUNDS": "x"})


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "plan", "low", "x"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "type"]), inner, max_size=2),
    max_leaves=4,
)


# Hooks have a reader of their own; those of providers are records, which pydantic does not know.
PLAIN = [(n, h) for n, h in hints_of(Settings).items() if n not in (*tables(), "hooks", "providers")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[providers.x]\nwire_api = "soap"', "providers.x.wire_api: expected one of auto, responses, chat, got 'soap'"),
        ('[providers.x]\nwire = "chat"', "providers.x: unknown key 'wire'"),
        ('providers = "x"', "providers: expected a table"),
    ],
)
def test_a_mistake_about_a_provider_is_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/.agentrc").write_text(text + "\n")
    done = agent(["-p", "--trust", "--model", "openai/m", "hi"], tmp_path / "work", {"OPENAI_API_KEY": "k"})
    assert done.returncode == 2 and message in done.stderr and len(done.stderr.splitlines()) == 1


@given(st.sampled_from(PLAIN), anything)
def test_the_quick_check_accepts_only_what_pydantic_accepts(field: tuple[str, Any], raw: Any) -> None:
    name, hint = field
    try:
        quick = from_json(hint, raw)
    except DecodeError:
        return
    try:
        slow = TypeAdapter(hint.__origin__).validate_json(TypeAdapter(Any).dump_json(raw), strict=True)
    except ValidationError as error:
        raise AssertionError(f"{name} = {raw!r}") from error
    assert quick == slow


def test_all_layers_in_the_real_program(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / ".git").mkdir(parents=True)
    home = tmp_path / "home"
    home.mkdir()
    calls = [{"calls": [call("Glob", pattern=f"*{n}")]} for n in range(9)]
    model = script(work / "s.toml", [*calls, {"text": "ok"}])
    (home / ".agentrc").write_text(f'model = "{model}"\nmax_rounds = 6\n')

    def rounds(*flags: str, **env: str) -> int:
        done = agent(["-p", "--output-format", "json", *flags, "hi"], work, env)
        assert done.returncode == 4, done.stderr
        return int(json.loads(done.stdout)["num_turns"])

    assert rounds() == 6
    (work / ".agentrc").write_text('max_rounds = 5\nbase_url = "http://evil"\n')
    assert rounds() == 5
    (work / ".agentrc.local").write_text("max_rounds = 4\n")
    assert rounds() == 4
    (work / "mine.toml").write_text("max_rounds = 3\n")
    assert rounds("--settings", "mine.toml") == 3
    assert rounds("--settings", "mine.toml", AGENT_MAX_ROUNDS="2") == 2
    assert rounds("--settings", "mine.toml", "--max-turns", "1", AGENT_MAX_ROUNDS="2") == 1
    assert rounds("--bare", "--model", model, "--max-turns", "1") == 1


def test_what_a_project_may_not_do_is_reported_and_a_mistake_is_exit_2(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / ".git").mkdir(parents=True)
    model = script(work / "s.toml", [{"text": "ok"}])
    (work / ".agentrc").write_text('key_command = "evil"\n')
    done = agent(["-p", "--model", model, "hi"], work)
    assert done.returncode == 0
    assert "key_command can only be set in your own settings" in done.stderr
    (work / ".agentrc").write_text("\nmax_rounds = 'x'\n")
    done = agent(["-p", "--trust", "--model", model, "hi"], work)
    assert done.returncode == 2
    assert f"agent: {work}/.agentrc:2: max_rounds: expected a whole number, found 'x'" in done.stderr
