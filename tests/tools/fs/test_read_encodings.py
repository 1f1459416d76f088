"""Texts in older encodings: which one is guessed, that the guess is said, and that editing keeps every byte."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_tools.fs.encoding import decode_text
from tests.support.hypothesis_examples import examples
from tests.support.tool_bench import Bench

SAMPLES = [
    ("cp932", "設定ファイルを読み込む。\n# これはコメントです\n"),
    ("cp932", "// データベースの接続\nx = 1\n"),
    ("euc_jp", "設定ファイルを読み込む。\n"),
    ("cp949", "# 설정 파일을 읽는다.\nx = 1\n"),
    ("gb18030", "这是一个测试文件，我们在这里写中文。\n"),
    ("gb18030", "# 读取配置\nx = 1\n"),
    ("big5", "這是一個測試文件，我們在這裡寫中文。\n"),
    ("cp1251", "Привет, мир! Это тест.\n"),
    ("koi8-r", "# Чтение настроек из файла\n"),
    ("utf-16-le", "Привет, мир! Это тест без метки.\n"),
    ("utf-16-be", "这是一个没有字节顺序标记的测试文件。\n第二行也一样。\n"),
]
WESTERN = (
    "Größe ändern für Übermaß|été créée naïve œuvre|« élève »|AÇÃO SITUAÇÃO FUNÇÕES|señor niño ¿qué? ¡olé!"
    "|Ærø blåbærsyltetøj fjørd|Þórður og ég|“quoted” – it’s … fine|café|naïve|100 €|ÄÖÜ|ÀÈÌÒÙ|Ça déjà vu où âge îles"
    "|90° ± 2 µm|©®™|§ 12|ação são não corações à é|hyvää päivää|Crème brûlée|¹²³"
).split("|")


@pytest.mark.parametrize(("encoding", "text"), SAMPLES)
def test_the_encoding_is_guessed_and_reported_and_kept(bench: Bench, encoding: str, text: str) -> None:
    path = bench.file("f.txt", text.encode(encoding))
    seen = bench("Read", file_path="f.txt").text
    first = text.splitlines()[0]
    assert f"1\t{first}" in seen and f"encoding {encoding}" in seen
    assert ("a guess from its bytes" in seen) is not encoding.startswith("utf")
    bench("Edit", file_path="f.txt", old_string=first[:4], new_string=first[:4] + first[2:6])
    assert path.read_bytes() == text.replace(first[:4], first[:4] + first[2:6], 1).encode(encoding)


# The guess is one of likelihood: the same mixtures each time, so that a rare one does not fail by chance.
@settings(max_examples=examples(150), deadline=None, derandomize=True)
@given(st.lists(st.sampled_from([*WESTERN, "plain words", "x = 1;"]), min_size=1, max_size=8), st.sampled_from(" \n"))
def test_western_texts_are_taken_for_nothing_else(words: list[str], between: str) -> None:
    content = between.join(words)
    text = decode_text(content.encode("cp1252"))
    assert text is not None and text.content == content and text.encoding in ("utf-8", "cp1252")


@settings(max_examples=examples(100), deadline=None)
@given(st.binary(max_size=300), st.sampled_from([encoding for encoding, _ in SAMPLES]))
def test_a_guess_never_changes_a_byte(data: bytes, encoding: str) -> None:
    text = decode_text(data + "これ，중 это".encode(encoding, "ignore"))
    assert text is None or text.encode(text.content) == data + "これ，중 это".encode(encoding, "ignore")


def test_binary_data_is_no_text_by_chance() -> None:
    assert not any(decode_text(os.urandom(500) + b"\0\0") for _ in range(300))
