"""The transcript in Claude Code's shape: who gets one, where it is, what it says, and how it is caught up."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tests.support.claude_transcripts import chain_of, entries_of, transcript, visible_lines
from tests.support.program import agent
from tests.support.scripts import bash, script, task

WORDS = [{"text": "One."}]
CLAUDE = {"AGENT_TRANSCRIPT": "claude"}


def run(work: Path, replies: list[dict[str, Any]], *args: str, ok: bool = True, **env: str) -> Any:
    model = script(work.parent / "script.toml", replies)
    done = agent(["-p", "--model", model, "--allowedTools", "Bash", *args], work, env)
    assert not ok or done.returncode == 0, done.stderr
    return done


def frames(done: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def hook(home: Path, event: str, command: str) -> None:
    path = home / ".claude/settings.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"hooks": {event: [{"hooks": [{"type": "command", "command": command}]}]}}))


def test_nobody_pays_for_a_transcript_that_nobody_wants(work: Path, home: Path) -> None:
    run(work, WORDS, "hi")
    assert not (home / ".claude").exists() and not list(home.rglob("*.transcript"))


def test_a_hook_of_a_later_step_finds_all_that_was_written_before(work: Path, home: Path) -> None:
    hook(home, "Stop", f"cat > {work}/given; cp $(jq -r .transcript_path {work}/given) {work}/copy")
    run(work, [bash("echo hi", description="Say hi"), *WORDS], "Say “one” please")
    given = json.loads((work / "given").read_text())
    path = Path(given["transcript_path"])
    assert path.name == f"{given['session_id']}.jsonl" and path.parent.name == f"{given['session_id']}.transcript"
    assert visible_lines(entries_of(work / "copy")) == [
        "user: Say “one” please",
        "assistant: Bash",
        "user: hi",
        "assistant: One.",
    ]
    # A quotation mark is to be found by grep, so nothing is escaped.
    assert "Say “one” please" in (work / "copy").read_text("utf-8")
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700


def test_the_setting_off_gives_hooks_the_log(work: Path, home: Path) -> None:
    hook(home, "Stop", f"cat > {work}/given")
    run(work, WORDS, "hi", AGENT_TRANSCRIPT="off")
    path = Path(json.loads((work / "given").read_text())["transcript_path"])
    assert json.loads(path.read_text().splitlines()[0])["type"] == "Header"


def test_a_stop_hook_loops_until_the_last_answer_in_the_transcript_has_its_promise(work: Path, home: Path) -> None:
    """As the plugin ralph-loop does: the last assistant text decides, and the prompt comes again until it is there."""
    loop = work / "loop.sh"
    loop.write_text(
        "path=$(jq -r .transcript_path)\n"
        'grep -q \'"role":"assistant"\' "$path" || exit 0\n'
        'text=$(grep \'"role":"assistant"\' "$path" | tail -n 100 |\n'
        '  jq -rs \'map(.message.content[]? | select(.type == "text") | .text) | last // ""\')\n'
        'case $text in *"<promise>DONE</promise>"*) exit 0;; esac\n'
        'echo "$text" >> rounds\n'
        'jq -n \'{decision: "block", reason: "Make it better.", systemMessage: "again"}\'\n'
    )
    hook(home, "Stop", f"bash {loop}")
    replies = [{"text": "First."}, bash("echo x"), {"text": "Second."}, {"text": "<promise>DONE</promise>"}]
    assert run(work, replies, "Make it good.").stdout == "<promise>DONE</promise>\n"
    assert (work / "rounds").read_text() == "First.\nSecond.\n"


def test_frames_mirror_and_file_agree(work: Path, home: Path) -> None:
    replies = [{"text": "I look.", **bash("echo hi")}, *WORDS]
    lines = frames(run(work, replies, "--output-format", "stream-json", "--session-mirror", "hi"))
    path = transcript(home)
    entries = entries_of(path)
    mirrored = [e for line in lines if line["type"] == "transcript_mirror" for e in line["entries"]]
    assert mirrored == entries
    assert {line["filePath"] for line in lines if line["type"] == "transcript_mirror"} == {str(path)}
    texts = [line["uuid"] for line in lines if line["type"] in ("assistant", "user")]
    assert texts == [e["uuid"] for e in entries[1:]] and len(set(texts)) == 4
    # What a host has of a turn is whole when its result comes.
    assert lines[-1]["type"] == "result"
    shared = {"sessionId": lines[0]["session_id"], "cwd": str(work), "isSidechain": False, "userType": "external"}
    assert all(shared.items() <= e.items() for e in entries)
    assert entries[3]["toolUseResult"]["stdout"] == "hi"
    assert len({e["message"]["id"] for e in entries if e["type"] == "assistant"}) == 2


def test_a_uuid_that_a_host_gave_is_kept_in_all_places(work: Path, home: Path) -> None:
    uuid = "11111111-2222-4333-8444-555555555555"
    line = {"type": "user", "message": {"role": "user", "content": "hi"}, "uuid": uuid}
    model = script(work.parent / "script.toml", WORDS)
    args = ["-p", "--model", model, "--input-format", "stream-json", "--output-format", "stream-json"]
    done = agent([*args, "--session-mirror"], work, stdin=json.dumps(line) + "\n")
    assert done.returncode == 0, done.stderr
    assert entries_of(transcript(home))[0]["uuid"] == uuid


def test_a_session_without_a_transcript_is_caught_up_when_one_is_wanted(work: Path, home: Path) -> None:
    run(work, [bash("echo hi"), *WORDS], "first")
    run(work, [bash("echo hi"), *WORDS, *WORDS], "-c", "second", **CLAUDE)
    entries = entries_of(transcript(home))
    assert visible_lines(entries) == [
        "user: first", "assistant: Bash", "user: hi", "assistant: One.", "user: second", "assistant: One.",
    ]  # fmt: skip
    assert len({e["uuid"] for e in entries}) == len(entries)
    # Times are those of the log.
    assert [e["timestamp"] for e in entries] == sorted(e["timestamp"] for e in entries)


def test_a_torn_line_and_lines_of_others_stay_and_nothing_is_there_twice(work: Path, home: Path) -> None:
    run(work, WORDS, "first", **CLAUDE)
    path = transcript(home)
    before = path.read_bytes()
    title = '{"type":"custom-title","customTitle":"Mine","sessionId":"x"}\n'
    # The program was killed within a line; somebody named the session; an entry was lost.
    kept = before.splitlines(keepends=True)[0] + title.encode() + before.splitlines()[1][:40]
    path.write_bytes(kept)
    run(work, WORDS * 2, "-c", "second", **CLAUDE)
    assert path.read_bytes().startswith(kept + b"\n")
    whole = [json.loads(line) for line in path.read_bytes()[len(kept) + 1 :].splitlines()]
    every = [json.loads(kept.splitlines()[0]), *whole]
    assert visible_lines(every) == ["user: first", "assistant: One.", "user: second", "assistant: One."]


def test_a_transcript_that_cannot_be_written_is_one_warning_and_no_end(work: Path, home: Path) -> None:
    (home / ".claude").mkdir()
    (home / ".claude/projects").write_text("a file")
    done = run(work, [bash("echo hi"), *WORDS], "hi", **CLAUDE)
    assert done.stdout == "One.\n" and done.stderr.count("The transcript ") == 1


def test_a_fork_has_a_transcript_of_its_own(work: Path, home: Path) -> None:
    run(work, WORDS, "first", **CLAUDE)
    first = transcript(home)
    before = first.read_bytes()
    run(work, WORDS * 2, "-c", "--fork-session", "second", **CLAUDE)
    [fork] = [p for p in first.parent.iterdir() if p != first]
    assert visible_lines(entries_of(fork)) == ["user: first", "assistant: One.", "user: second", "assistant: One."]
    assert first.read_bytes() == before and {e["sessionId"] for e in entries_of(fork)} == {fork.stem}


def test_sub_agents_have_files_of_their_own(work: Path, home: Path) -> None:
    # The sub-agent gets the same script, and no Task.
    replies = [{"calls": [task("explore", "Find x.")]}, {"text": "It is x."}]
    lines = frames(run(work, replies, "--output-format", "stream-json", "--session-mirror", "go"))
    path = transcript(home)
    [file] = (path.with_suffix("") / "subagents").glob("agent-*.jsonl")
    about = json.loads(file.with_suffix(".meta.json").read_text())
    own = [line for line in lines if line["type"] == "assistant" and not line["parent_tool_use_id"]]
    [call] = [b["id"] for line in own for b in line["message"]["content"] if b["type"] == "tool_use"]
    assert about == {"agentType": "explore", "toolUseId": call}
    entries = entries_of(file)
    assert [line.partition(":")[0] for line in visible_lines(entries)] == ["user", "assistant", "user", "assistant"]
    assert visible_lines(entries)[0] == "user: Find x." and visible_lines(entries)[-1] == "assistant: It is x."
    assert all(e["isSidechain"] and e["agentId"] == file.stem.removeprefix("agent-") for e in entries)
    assert not any(e["isSidechain"] for e in entries_of(path))
    mirrored = [e for line in lines if line.get("filePath") == str(file) for e in line["entries"]]
    assert mirrored == [{"type": "agent_metadata", **about}, *entries]
    texts = [line["uuid"] for line in lines if line.get("parent_tool_use_id") == call and line["type"] != "system"]
    # The last words of a sub-agent are the result of its call, and no line of their own.
    assert texts == [e["uuid"] for e in entries[1:-1]]


def test_what_the_program_adds_to_a_message_is_no_words_of_the_user(work: Path, home: Path) -> None:
    (work / "a.txt").write_text("inside\n")
    hook(home, "UserPromptSubmit", "echo from the hook")
    run(work, WORDS, "see @a.txt", **CLAUDE)
    entries = entries_of(transcript(home))
    assert visible_lines(entries) == ["user: see @a.txt", "assistant: One."]
    hidden = [e["message"]["content"] for e in entries if e.get("isMeta")]
    assert any("inside" in text for text in hidden) and any("from the hook" in text for text in hidden)
    assert chain_of(entries) == entries


def test_removing_a_session_removes_the_transcript_beside_it(work: Path, home: Path) -> None:
    hook(home, "Stop", "true")
    replies = [{"calls": [task("explore", "Find x.")]}, {"text": "It is x."}]
    run(work, replies, "go")
    [folder] = home.rglob("*.transcript")
    assert list(folder.rglob("agent-*.jsonl"))
    done = agent(["sessions", "rm", "--yes", folder.stem], work)
    assert done.returncode == 0, done.stderr
    assert not folder.exists()


def test_a_run_has_a_transcript_where_programs_read_them(work: Path, home: Path) -> None:
    (home / ".claude/projects").mkdir(parents=True)
    run(work, [bash("echo hi"), *WORDS], "hello")
    [path] = (home / ".claude/projects").rglob("*.jsonl")
    lines = entries_of(path)
    assert visible_lines(lines)[0] == "user: hello" and visible_lines(lines)[-1] == "assistant: One."
    assert all("usage" in line["message"] for line in lines if line["type"] == "assistant")
    run(work, WORDS, "again", "--bare")
    run(work, WORDS, "again", "--settings", 'transcript = "off"')
    assert list((home / ".claude/projects").rglob("*.jsonl")) == [path]
    assert agent(["sessions", "rm", "--yes", path.stem], work).returncode == 0
    assert not path.exists() and not list(home.rglob("*.elsewhere"))


def test_counters_of_usage_can_tell_the_blocks_of_one_answer_from_two_answers(work: Path, home: Path) -> None:
    """ccusage counts an answer once only if its entries have the ID of the message and of the request in common."""
    (home / ".claude/projects").mkdir(parents=True)
    run(work, [{"text": "I look.", **bash("echo hi")}, *WORDS], "hello")
    [path] = (home / ".claude/projects").rglob("*.jsonl")
    answers = [line for line in entries_of(path) if line["type"] == "assistant"]
    ids = [(line["message"]["id"], line["requestId"]) for line in answers]
    assert len(ids) == 3 and ids[0] == ids[1] != ids[2]


def test_the_folder_of_claude_code_may_be_elsewhere(work: Path, home: Path) -> None:
    (work.parent / "logs/projects").mkdir(parents=True)
    run(work, WORDS, "hello", CLAUDE_CONFIG_DIR=str(work.parent / "logs"))
    assert len(list((work.parent / "logs/projects").rglob("*.jsonl"))) == 1


def test_a_transcript_of_claude_code_stays_when_the_session_that_continued_it_is_removed(
    work: Path, home: Path
) -> None:
    (home / ".claude/projects").mkdir(parents=True)
    run(work, WORDS, "hello")
    [path] = (home / ".claude/projects").rglob("*.jsonl")
    theirs = path.read_text()
    assert agent(["sessions", "rm", "--yes", path.stem], work).returncode == 0
    path.write_text(theirs)
    run(work, [*WORDS, *WORDS], "go on", "--resume", path.stem)
    assert agent(["sessions", "rm", "--yes", path.stem], work).returncode == 0
    assert path.exists()


def test_what_a_host_deletes_is_gone_at_once(work: Path, home: Path) -> None:
    """The Agent SDK removes a transcript and the folder of its sub-agents; no process of ours runs then."""
    frame = json.dumps({"type": "user", "message": {"role": "user", "content": "my secret plan"}}) + "\n"
    host = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
    replies = [bash("for i in $(seq 9000); do echo line $i of the secret plan; done")]
    model = ["--model", script(work.parent / "script.toml", [*replies, {"text": "Done."}, {"text": "Again."}])]
    assert agent([*host, *model, "--allowedTools", "Bash"], work, stdin=frame).returncode == 0
    [path] = (home / ".claude/projects").glob("*/*.jsonl")
    again = agent([*host, *model, "--resume", path.stem], work, stdin=frame)
    assert again.returncode == 0 and "Again." in again.stdout
    assert "my secret plan" in agent(["show", path.stem], work).stdout
    kept = [file for file in home.rglob("*") if file.is_file() and b"secret plan" in file.read_bytes()]
    assert len(kept) > 1
    path.unlink()
    shutil.rmtree(path.with_suffix(""))
    assert not [file for file in home.rglob("*") if file.is_file() and b"secret plan" in file.read_bytes()]
    # Other sessions are listed, and this one is not known any more.
    run(work, WORDS, "hello")
    assert len(json.loads(agent(["sessions", "list", "--json"], work).stdout)) == 1
    assert agent(["-p", *model, "--resume", path.stem, "x"], work).returncode == 2
    assert agent([*host, *model], work, stdin=frame).returncode == 0
    assert not list(home.rglob(f"{path.stem}*"))


def test_a_session_of_a_host_is_removed_with_all_its_files(work: Path, home: Path) -> None:
    frame = json.dumps({"type": "user", "message": {"role": "user", "content": "my secret plan"}}) + "\n"
    host = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
    model = ["--model", script(work.parent / "script.toml", WORDS)]
    assert agent([*host, *model], work, stdin=frame).returncode == 0
    [path] = (home / ".claude/projects").glob("*/*.jsonl")
    assert agent(["sessions", "rm", "--yes", path.stem], work).returncode == 0
    assert not list(home.rglob(f"{path.stem}*"))


def test_a_session_whose_transcript_its_host_deleted_is_deleted(work: Path, home: Path) -> None:
    """The Agent SDK deletes a session by removing its transcript."""
    frame = json.dumps({"type": "user", "message": {"role": "user", "content": "hello"}}) + "\n"
    host = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
    model = ["--model", script(work.parent / "script.toml", [*WORDS, *WORDS])]
    for how in ("resumed", "another"):
        assert agent([*host, *model], work, stdin=frame).returncode == 0
        [path] = (home / ".claude/projects").rglob("*.jsonl")
        path.unlink()
        if how == "resumed":
            done = agent([*host, *model, "--resume", path.stem], work, stdin=frame)
            assert done.returncode != 0 and "was deleted" in done.stdout + done.stderr
        else:
            assert agent([*host, *model], work, stdin=frame).returncode == 0
            [new] = (home / ".claude/projects").rglob("*.jsonl")
            new.unlink()
        assert path.stem not in agent(["sessions", "list"], work).stdout
        assert not list(home.rglob(f"{path.stem}*"))
