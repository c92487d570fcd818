"""Files in a page: together they are a project, and its tests pass."""

import re

import pytest


def files_of(page: str) -> dict[str, str]:
    """By the name in the first line of each."""
    return dict(re.findall(r"^```python\n# (\S+)\n(.+?)^```$", page, flags=re.MULTILINE | re.DOTALL))


def run_project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, files: dict[str, str]) -> None:
    """Unchanged: a module of handlers, its tests, and a third file that names the handlers."""
    [handlers] = (name.removesuffix(".py").replace("/", ".") for name in files if not name.startswith("tests/"))
    [tests] = (text for name, text in files.items() if name.startswith("tests/"))
    monkeypatch.setenv("MAYFLY_HOME", str(pytester.path))
    monkeypatch.setenv("PYTHONPATH", str(pytester.path))
    monkeypatch.delenv("HANDLERS", raising=False)  # the project's own file names them
    (pytester.path / "mayfly.toml").write_text(f'handlers = ["{handlers}"]\n')
    for name, text in files.items():
        path = pytester.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    # The plugin of our own environment is slow to import.
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:schemathesis", timeout=300)

    result.assert_outcomes(passed=tests.count("\ndef test_"))
