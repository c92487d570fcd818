"""Mayfly's programs: imported from Mayfly's own directory, whatever packages an application has."""

import sys
from pathlib import Path

import pytest

from mayfly.errors import PackageNameTaken
from mayfly.process.programs import OWN_PACKAGES, ROOT, import_own, taken_names


@pytest.fixture
def application(tmp_path: Path) -> Path:
    """A directory with packages that have the names of Mayfly's."""
    for name in OWN_PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise AssertionError('the package of the application')\n")
    return tmp_path


@pytest.fixture
def nothing_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.partition(".")[0] in OWN_PACKAGES]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.usefixtures("nothing_imported")
@pytest.mark.parametrize("package", OWN_PACKAGES)
def test_mayflys_package_is_imported_although_another_is_found_first(
    application: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    """Further modules of it come from Mayfly too."""
    monkeypatch.syspath_prepend(application)

    import_own(package)

    assert sys.modules[package].__file__ == str(ROOT / package / "__init__.py")


@pytest.mark.usefixtures("nothing_imported")
def test_a_process_that_has_imported_the_other_package_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replacing it would break the application; the sentence names the file."""
    (tmp_path / "runner.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    __import__("runner")

    with pytest.raises(PackageNameTaken, match=rf"needs its own package runner, .* {tmp_path}/runner\.py\. Rename"):
        import_own("runner")


def test_taken_names_are_found_in_the_home_and_on_the_import_path(
    application: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With the path of the package."""
    other_home = tmp_path_factory.mktemp("home")
    everything = [(name, str(application / name / "__init__.py")) for name in OWN_PACKAGES]

    assert (taken_names(application), taken_names(other_home)) == (everything, [])

    monkeypatch.syspath_prepend(application)

    assert taken_names(other_home) == everything


def test_mayflys_own_packages_and_plain_directories_take_no_name(tmp_path: Path) -> None:
    """The home may be the checkout; a directory without modules is not a package."""
    (tmp_path / "console").mkdir()
    (tmp_path / "console/index.html").touch()

    assert taken_names(ROOT) == taken_names(tmp_path) == []
