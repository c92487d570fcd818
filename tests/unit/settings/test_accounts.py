"""The accounts of the web console in the settings."""

from pathlib import Path

from tests.unit.settings.factories import HASH, load_in, problem_in, settings_in

ANN = {"CONSOLE_ACCOUNTS__ANN__ROLE": "operator", "CONSOLE_ACCOUNTS__ANN__PASSWORD_HASH": HASH}


def test_an_account_has_a_role_and_a_hash(tmp_path: Path) -> None:
    """From the environment and from mayfly.toml, part by part."""
    settings = settings_in(
        tmp_path,
        {**ANN, "CONSOLE_ACCOUNTS__BOB__ROLE": "admin"},
        toml=f'[console_accounts.bob]\nrole = "viewer"\npassword_hash = "{HASH}"',
    )

    assert {name: each.role for name, each in settings.console_accounts.items()} == {
        "ann": "operator",
        "bob": "admin",
    }
    assert settings.console_accounts["bob"].password_hash.get_secret_value() == HASH


def test_a_hash_is_never_shown(tmp_path: Path) -> None:
    """Neither by `mayfly config` nor by the sentence that refuses one."""
    shown = {each.name: each.value for each in load_in(tmp_path, {**ANN, "CONSOLE_PASSWORD_HASH": HASH}).origins}
    wrong = "correct horse battery staple"
    problem = problem_in(tmp_path, {**ANN, "CONSOLE_ACCOUNTS__ANN__PASSWORD_HASH": wrong})
    other = problem_in(tmp_path, {"CONSOLE_PASSWORD_HASH": wrong})
    other += problem_in(tmp_path, toml=f'console_accounts.ann = "{wrong}"')

    assert shown["CONSOLE_PASSWORD_HASH"] == shown["CONSOLE_ACCOUNTS__ANN__PASSWORD_HASH"] == "***"
    assert shown["CONSOLE_ACCOUNTS__ANN__ROLE"] == "operator"
    assert wrong not in problem + other
    assert "CONSOLE_ACCOUNTS__ANN__PASSWORD_HASH (environment): must be what `mayfly password` prints" in problem


def test_an_incomplete_account_is_refused(tmp_path: Path) -> None:
    """So is one with an unknown role or field."""
    no_role = problem_in(tmp_path, {"CONSOLE_ACCOUNTS__ANN__PASSWORD_HASH": HASH})
    odd_role = problem_in(tmp_path, {**ANN, "CONSOLE_ACCOUNTS__ANN__ROLE": "root"})
    more = problem_in(tmp_path, toml=f'[console_accounts.ann]\nrole = "viewer"\npasword_hash = "{HASH}"')
    name = problem_in(tmp_path, toml=f'[console_accounts."a b"]\nrole = "viewer"\npassword_hash = "{HASH}"')

    assert "must be viewer, operator or admin" in no_role
    assert "CONSOLE_ACCOUNTS__ANN__ROLE=root (environment): must be viewer, operator or admin" in odd_role
    assert "is not a setting of an account; did you mean password_hash?" in more
    assert "the name of an account must be 1 to 64 characters of" in name
