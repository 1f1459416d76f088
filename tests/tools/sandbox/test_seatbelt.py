"""The rules for Seatbelt, read as macOS reads them. Whether macOS does so is tested in `test_seatbelt_macos`."""

from __future__ import annotations

import re
import sys
import unicodedata
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_tools.base import ToolError
from agent_tools.sandbox import sandbox as sandbox_module
from agent_tools.sandbox.bwrap import Shared
from agent_tools.sandbox.conditions import SandboxLimits
from agent_tools.sandbox.denials import explain_refusal
from agent_tools.sandbox.profile import Profile, make_profile
from agent_tools.sandbox.runner import SandboxRunner
from agent_tools.sandbox.sandbox import Sandbox, select_sandbox
from agent_tools.sandbox.seatbelt import PROGRAM, SeatbeltRules, any_case, prepare_seatbelt
from agent_tools.sandbox.session import LoopbackSession
from agent_tools.sandbox.temporary import TemporaryMount
from tests.support.seatbelt_rules import Rules

# Folders of tests are in /tmp, which is a link on macOS.
ODD = ['we"ir(d) ', "back\\slash", "new\nline", '") (allow default) ("', "tab\t;#|", "é", "[a-z]+.*$^", "a=b", "ſ"]


def rules_of(profile: Profile, shared: Shared = Shared()) -> Rules:  # noqa: B008 - never changed
    made = SeatbeltRules(profile, shared)
    return Rules(made.text, made.parameters)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace in a home folder, with a repository and files of the user's."""
    root = tmp_path / "home/work"
    for folder in (".git/hooks", "src", ".claude"):
        (root / folder).mkdir(parents=True)
    for name in ("work/.git/config", "work/src/a.py", "work/.claude/settings.json", "notes.txt", ".netrc"):
        (tmp_path / "home" / name).write_text("x")
    (tmp_path / "home/.ssh").mkdir()
    (tmp_path / "home/.ssh/id").write_text("x")
    return root


def test_the_workspace_is_written_and_its_settings_are_not(workspace: Path) -> None:
    rules = rules_of(make_profile([workspace], workspace.parent))
    for name in ("src/a.py", "new.py", ".git/index", ".git/objects/ab/cd"):
        assert rules.writes(f"{workspace}/{name}"), name
    for name in (".git/config", ".git/hooks/pre-commit", ".claude/settings.json", ".mcp.json", ".git/config.worktree"):
        assert not rules.writes(f"{workspace}/{name}"), name
        assert rules.reads(f"{workspace}/{name}"), name
    for path in ("/etc/hosts", f"{workspace.parent}/new", f"{workspace}2/x", "/private/tmp/x"):
        assert not rules.writes(path), path


def test_the_home_folder_is_hidden_and_so_are_secrets(workspace: Path) -> None:
    home = workspace.parent
    (home / ".cargo/bin").mkdir(parents=True)
    rules = rules_of(make_profile([workspace], home))
    assert rules.reads("/usr/lib/x") and rules.reads(f"{workspace}/src/a.py") and rules.reads(f"{home}/.cargo/bin/x")
    for name in ("notes.txt", ".ssh/id", ".ssh", ".netrc", "", ".cargo2/x"):
        assert not rules.reads(f"{home}/{name}".rstrip("/")), name
    # On the way to the workspace, only what says that a folder is there.
    assert rules.allows("file-read-metadata", str(home))
    assert not rules.allows("file-read-metadata", f"{home}/notes.txt")


def test_secrets_of_a_home_folder_that_is_the_workspace_are_hidden_and_cannot_be_moved(workspace: Path) -> None:
    home = workspace.parent
    (home / ".config/gh").mkdir(parents=True)
    rules = rules_of(make_profile([home], home))
    assert rules.reads(f"{home}/notes.txt") and rules.writes(f"{home}/notes.txt")
    for name in (".ssh/id", ".config/gh/hosts.yml"):
        assert not rules.reads(f"{home}/{name}") and not rules.writes(f"{home}/{name}")
    assert not rules.allows("file-write-unlink", f"{home}/.config")
    # A folder that is moved to a missing name would bring its files along.
    assert not rules.writes(f"{home}/.vim") and not rules.writes(f"{home}/Library")
    assert rules.writes(f"{home}/.config/other")


def test_nothing_that_leads_to_a_protected_file_can_be_renamed_and_nothing_gets_a_second_name(workspace: Path) -> None:
    rules = rules_of(make_profile([workspace], workspace.parent))
    for path in (workspace, workspace / ".git", workspace / ".git/hooks", workspace / ".claude"):
        assert not rules.allows("file-write-unlink", str(path)), path
    assert rules.allows("file-write-unlink", f"{workspace}/src")
    for operation in ("file-link", "file-clone", "file-write-setugid"):
        assert not rules.allows(operation, f"{workspace}/src/a.py")


def test_a_protected_name_is_denied_in_upper_and_lower_case(workspace: Path) -> None:
    rules = rules_of(make_profile([workspace], workspace.parent))
    for name in (".MCP.JSON", ".Git/Hooks/pre-commit", ".CLAUDE/settings.json", ".git/CONFIG", ".VSCODE"):
        assert not rules.writes(f"{workspace}/{name}"), name
    assert rules.writes(f"{workspace}/xmcp.json") and rules.writes(f"{workspace}/.mcp.json5")


@pytest.mark.parametrize("name", ODD)
def test_a_path_with_characters_of_the_language_is_no_rule(tmp_path: Path, name: str) -> None:
    root = tmp_path / name
    (root / ".git/hooks").mkdir(parents=True)
    plain = SeatbeltRules(make_profile([_plain(tmp_path / "plain")], None))
    made = SeatbeltRules(make_profile([root], None))
    rules = Rules(made.text, made.parameters)
    assert rules.writes(f"{root}/a") and not rules.writes(f"{root}/.git/hooks/x")
    assert not rules.writes(f"{tmp_path}/other") and not rules.allows("default", "/")
    assert name not in made.text or re.fullmatch(r"[A-Za-z0-9._/-]+", name)
    # The rules are those for a plain name, apart from sockets under more spellings of a path.
    assert _kinds(rules) == _kinds(Rules(plain.text, plain.parameters))
    assert f"{root}/.git/hooks" in "\0".join(made.definitions())


def _kinds(rules: Rules) -> list[list[str]]:
    return [rule[:2] for rule in rules.parsed if not str(rule[1]).startswith("network-")]


def _plain(root: Path) -> Path:
    (root / ".git/hooks").mkdir(parents=True)
    return root


def test_a_path_is_known_however_its_characters_are_composed(tmp_path: Path) -> None:
    composed, split = (unicodedata.normalize(form, f"{tmp_path}/café") for form in ("NFC", "NFD"))
    for first, second in ((composed, split), (split, composed)):
        rules = rules_of(Profile((Path(first),), hidden=(Path(f"{first}/secret"),)))
        assert rules.writes(f"{second}/a") and not rules.reads(f"{second}/secret")


parts = st.lists(st.sampled_from(["a", "b", "Z", "x y", '"', "\\", "(", "é", "\n", "*"]), min_size=1, max_size=4)
paths = parts.map(lambda names: Path("/nowhere", *names))
few = st.lists(paths, max_size=3).map(tuple)


@given(few, few, few, few, few, paths)
def test_no_more_is_allowed_than_by_the_profile(
    writable: tuple[Path, ...],
    protected: tuple[Path, ...],
    covered: tuple[Path, ...],
    hidden: tuple[Path, ...],
    shown: tuple[Path, ...],
    path: Path,
) -> None:
    hidden = tuple(h for h in hidden if h not in writable)
    profile = Profile(writable, protected=protected, covered=covered, hidden=hidden, shown=shown)
    rules = rules_of(profile)
    text = str(path)
    assert rules.reads(text) <= profile.is_readable(path)
    assert rules.writes(text) <= profile.is_writable(path)
    # What is denied is so in any case, and with any character for one that would need quotes.
    if not re.search(r'["\\\n]', "".join(map(str, (*protected, *covered, *hidden)))):
        assert rules.reads(text) == profile.is_readable(path)
        assert rules.writes(text) == profile.is_writable(path)
    for folder in writable:
        assert not rules.allows("file-write-unlink", str(folder))


@given(st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1))
def test_every_name_is_covered_in_any_case_and_needs_no_quotes(name: str) -> None:
    pattern = any_case(f"/a/{name}")
    assert re.fullmatch(r"[ !#-\[\]-~]+", pattern)
    for text in (name, name.upper(), name.swapcase()) if name.isascii() else (name,):
        assert re.search(pattern, f"/a/{text}", re.DOTALL) and re.search(pattern, f"/a/{text}/below", re.DOTALL)
    assert not re.search(pattern, "/a") and not re.search(pattern, f"/b/{name}")


def test_without_network_only_the_allowed_ports_and_sockets_are_reached(tmp_path: Path) -> None:
    profile = Profile((tmp_path,), sockets=(Path("/private/var/run/db"),))
    assert rules_of(profile).connects() == []
    rules = rules_of(profile, Shared(ports=(5432, 8080)))
    assert rules.connects() == ["localhost:5432", "localhost:8080"]
    assert rules.sockets() == [str(tmp_path), "/private/var/run/db"]
    open_ = rules_of(profile.replace(network=True), Shared(ports=(5432,)))
    assert open_.connects() == ["*:*"]
    # Not the sockets of other services, such as that of Docker.
    assert set(open_.sockets()) == {*rules.sockets(), "/private/var/run/mDNSResponder"}


def test_keychains_events_and_other_programs_are_out_of_reach(tmp_path: Path) -> None:
    text = SeatbeltRules(Profile((tmp_path,), network=True)).text
    for name in ("SecurityServer", "securityd", "appleevent", "launchservices", "lsd", "pasteboard", "procargs"):
        assert name not in text, name
    assert "(deny default)" in text.splitlines()[1]


def test_the_command_gets_a_folder_for_temporary_files_and_nothing_else_there(tmp_path: Path) -> None:
    own = tmp_path / "own"
    profile = Profile((tmp_path / "work",), temp=(TemporaryMount(Path("/private/tmp"), own),))
    wrapped = prepare_seatbelt(["true", "-D", "x"], {"A": "b"}, profile)
    assert wrapped.env == {"A": "b", "TMPDIR": str(own)} and wrapped.kind == "seatbelt" and wrapped.pass_fds == ()
    assert wrapped.argv[:2] == [PROGRAM, "-p"] and wrapped.argv[-4:] == ["--", "true", "-D", "x"]
    rules = rules_of(profile)
    assert rules.writes(f"{own}/x") and not rules.writes("/private/tmp/x")


def test_caches_are_written_only_if_commands_share_them(tmp_path: Path) -> None:
    cache = tmp_path / ".cache"
    cache.mkdir()
    profile = Profile((tmp_path / "work",), covered=(tmp_path,), shown=(cache,), caches=(cache,))
    for caches in ("session", "shared"):
        session = LoopbackSession(profile.caches, SandboxLimits(caches=caches), {})
        rules = rules_of(profile, session.shared(network=False))
        assert rules.reads(f"{cache}/x") and rules.writes(f"{cache}/x") == (caches == "shared")


def test_the_proxy_of_a_session_is_the_only_way_out() -> None:
    session = LoopbackSession((), SandboxLimits(domains=("example.org",), ports=(5432,)), {})
    try:
        other, port = session.shared(network=False).ports
        assert other == 5432 and session.environment(network=False)["HTTPS_PROXY"] == f"http://127.0.0.1:{port}"
        assert session.shared(network=True).ports == () and session.environment(network=True) == {}
        assert session.refused() == ()
    finally:
        session.close()


@pytest.fixture
def macos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    # There is no sandbox-exec here.
    monkeypatch.setattr(sandbox_module, "try_seatbelt", lambda profile: "")


def test_it_is_off_unless_the_user_enables_it_and_is_called_experimental(macos: None) -> None:
    off = select_sandbox("auto", Profile(()), {})
    assert off.kind == "none" and "experimental" in off.text() and "sandbox.seatbelt = true" in off.text()
    on = select_sandbox("auto", Profile(()), {}, seatbelt=True)
    assert on.text() == "Seatbelt (experimental)" and on.limits[0].startswith("experimental: ")


def test_it_is_never_a_reason_to_run_a_command_without_asking(macos: None, tmp_path: Path) -> None:
    runner = SandboxRunner(
        "auto", lambda temp, network: make_profile([tmp_path], None), {}, SandboxLimits(seatbelt=True)
    )
    try:
        assert runner.sandbox.kind == "seatbelt" and runner.is_active
        assert not runner.is_boundary and runner.session is None
    finally:
        runner.close()


def test_if_macos_refuses_the_rules_there_is_no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(sandbox_module, "try_seatbelt", lambda profile: "sandbox-exec: unbound variable: x")
    none = select_sandbox("require", Profile(()), {}, seatbelt=True)
    assert none.text() == "none, so no command will run: Seatbelt: sandbox-exec: unbound variable: x"


def test_a_workspace_that_is_the_whole_machine_is_refused() -> None:
    whole = Profile((Path("/"),))
    assert Sandbox("seatbelt").obstacle(whole)
    with pytest.raises(ToolError, match="the whole machine"):
        prepare_seatbelt(["true"], {}, whole)


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("touch: /etc/x: Operation not permitted", 1, "writing outside the workspace, a protected or hidden file"),
        ("sandbox-exec: sandbox_apply: Operation not permitted", 71, "could not be set up: sandbox_apply: Operation"),
        ("curl: (6) Could not resolve host: example.org", 6, "there is no network in it"),
    ],
)
def test_its_refusals_are_explained(line: str, code: int, words: str) -> None:
    assert words in explain_refusal("seatbelt", [line], code, network=False)


def test_paths_of_the_rules_themselves_are_resolved_ones() -> None:
    text = SeatbeltRules(Profile((), network=True)).text
    for path in re.findall(r'\((?:literal|subpath) "([^"]+)"\)', text):
        assert PurePosixPath(path).parts[1] in ("dev", "private"), path
