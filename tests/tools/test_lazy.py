"""Lazy imports: nothing is loaded before it is used, and then it is the real module."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agent_tools.lazy import LazyModule, lazy_imports


def run(tmp_path: Path, code: str, **modules: str) -> str:
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").write_text("print('shop')\n")
    (package / "till.py").write_text("print('till')\nPRICE = 3\ndef pay(): return PRICE\n")
    (package / "stock.py").write_text("from agent_tools.lazy import lazy_imports\nwith lazy_imports():\n"
                                      "    from shop import till\ndef worth(): return till.pay() * 2\n")  # fmt: skip
    for name, text in modules.items():
        (package / f"{name}.py").write_text(text)
    tools = Path(__file__).parents[2] / "tools"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = [{str(tools)!r}, {str(tmp_path)!r}]\n{code}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


def test_a_module_is_loaded_when_it_is_first_used(tmp_path: Path) -> None:
    code = """
from agent_tools.lazy import lazy_imports
with lazy_imports():
    from shop import till
    from shop import till as again
print("imported")
print(till.pay(), again.PRICE)
"""
    assert run(tmp_path, code).split() == ["imported", "shop", "till", "3", "3"]


def test_modules_may_use_each_other(tmp_path: Path) -> None:
    code = "from shop import stock\nprint('loaded')\nprint(stock.worth())"
    assert run(tmp_path, code).split() == ["shop", "loaded", "till", "6"]


def test_what_is_set_is_set_in_the_module(tmp_path: Path) -> None:
    code = (
        "from shop import stock\nstock.till.PRICE = 5\nprint(stock.worth())\nimport shop.till\nprint(shop.till.PRICE)"
    )
    assert run(tmp_path, code).split() == ["shop", "till", "10", "5"]


def test_a_missing_module_is_reported_when_it_is_used(tmp_path: Path) -> None:
    code = """
from agent_tools.lazy import lazy_imports
with lazy_imports():
    from shop import attic
print("imported")
attic.open
"""
    assert "imported\nshop\n" in (out := run(tmp_path, code))
    assert "No module named 'shop.attic'" in out


def test_a_thread_waits_for_a_module_that_another_is_loading(tmp_path: Path) -> None:
    code = """
import threading
from agent_tools.lazy import lazy_imports
with lazy_imports():
    from shop import till
    from shop import slow
found = []
threads = [threading.Thread(target=lambda: found.append(slow.LAST)) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(found)
"""
    slow = "import time\nFIRST = 1\nfor _ in range(50): time.sleep(0.001)\nLAST = 2\n"
    assert run(tmp_path, code, slow=slow).splitlines()[-1] == str([2] * 8)


def test_only_modules_of_a_package_can_be_lazy() -> None:
    with pytest.raises(ImportError, match="from package import module"), lazy_imports():
        import json  # noqa: F401
    import json as real

    assert not isinstance(real, LazyModule)


def test_imports_of_other_threads_are_as_always() -> None:
    found: list[object] = []

    def other() -> None:
        namespace: dict[str, object] = {}
        exec("import colorsys", namespace)
        found.append(namespace["colorsys"])

    with lazy_imports():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert not isinstance(found[0], LazyModule)
