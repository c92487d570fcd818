"""Read .env and mayfly.toml of one directory: what is set there, and in sentences what is wrong with them."""

import re
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from mayfly.settings.names import ACCOUNT, ACCOUNTS, HOME, Key, Names, nearest


class Given(NamedTuple):
    """A value that somebody wrote: as what, and where."""

    spelled: str  # BATCH_SIZE, LANES__MAIL__RANK, lanes.mail.rank, DATABASE_URL_FILE
    value: Any
    source: str  # "environment", or the path of the file
    from_file: bool = False  # the value stands in the file that NAME_FILE names

    @property
    def is_empty(self) -> bool:
        return isinstance(self.value, str) and not self.value.strip()


class DotenvFile:
    def __init__(self, file: Path) -> None:
        self.file = file
        self.variables: dict[str, str] = {}
        self.problems: list[str] = []

    def read(self) -> "DotenvFile":
        text = _text_of(self.file, self.problems)
        plain = plain_variables(text)
        if plain is None:
            self._parse(text)
        else:
            self.variables = plain
        return self

    def _parse(self, text: str) -> None:
        # Imported here because it brings half of the standard library along, which few files need.
        # The parser alone: dotenv_values() skips a broken line in silence and expands a $ in a password.
        from dotenv.parser import parse_stream

        for binding in parse_stream(StringIO(text)):
            if binding.error:  # not shown, it may well be the line with the password
                line = f"{self.file}, line {binding.original.line}"
                self.problems.append(f"{line}: is not of the form NAME=value")
            elif binding.key is not None:
                self.variables[binding.key] = binding.value or ""


def plain_variables(text: str) -> dict[str, str] | None:
    """What a .env file sets that has nothing but comments and NAME=value on one line; None for any other."""
    variables = {}
    for line in map(str.strip, text.split("\n")):
        if line and not line.startswith("#"):
            match = re.fullmatch(_PLAIN_LINE, line)
            if match is None:
                return None
            variables[match[1]] = match[2] or match[3] or match[4] or ""
    return variables


# A value in quotes without escapes, or without quotes and white space: all that most files have.
_PLAIN_LINE = r"""(?:export )?([A-Za-z_][A-Za-z0-9_]*)=(?:'([^'\\]*)'|"([^"\\]*)"|([^\s'"]\S*)?)"""


class TomlFile:
    def __init__(self, file: Path, names: Names) -> None:
        self.file = file
        self.names = names
        self.given: dict[Key, Given] = {}
        self.integrations: dict[str, Given] = {}  # what handlers ask for
        self.problems: list[str] = []

    def read(self) -> "TomlFile":
        for name, value in self._document().items():
            if name == "lanes":
                self._read_tables(name, value, "[lanes.send_email]", self.names.lane)
            elif name == ACCOUNTS:
                self._read_tables(name, value, "[console_accounts.ann]", ACCOUNT)
            elif name == "pools":
                self._read_pools(value)
            elif name == "integrations":
                self._read_integrations(value)
            elif name in self.names.plain:
                self._take((name,), value)
            elif name == "home":
                self._refuse((name,), f"can only be set in the environment, as {HOME}")
            else:
                known = self.names.plain | {"integrations", "lanes", "pools", ACCOUNTS}
                self._refuse((name,), f"is not a setting{_meant(name, known)}")
        return self

    def _document(self) -> dict[str, Any]:
        text = _text_of(self.file, self.problems)
        if not text:
            return {}
        import tomllib  # here because many have no such file

        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:  # its text ends with line and column
            self.problems.append(f"{self.file}: is not valid TOML: {error}")
            return {}

    def _read_tables(self, kind: str, tables: Any, example: str, known: frozenset[str]) -> None:
        if not isinstance(tables, dict):
            return self._refuse((kind,), f"must be tables such as {example}")
        for name, table in tables.items():
            if isinstance(table, dict):
                self._read_table((kind, name), table, known)
            else:
                self._refuse((kind, name), f"must be a table such as {example}")
        return None

    def _read_table(self, key: Key, table: dict[str, Any], known: frozenset[str]) -> None:
        self._take(key, {})  # the lane itself: an empty table makes it known
        for name, value in table.items():
            if name in known:
                self._take((*key, name), value)
            else:
                kind = "an account" if key[0] == ACCOUNTS else "a lane"
                self._refuse((*key, name), f"is not a setting of {kind}{_meant(name, known)}")

    def _read_pools(self, table: Any) -> None:
        if not isinstance(table, dict):
            return self._refuse(("pools",), "must be a table, [pools]")
        for pool, cap in table.items():
            self._take(("pools", pool), cap)
        return None

    def _read_integrations(self, table: Any) -> None:
        if not isinstance(table, dict):
            return self._refuse(("integrations",), "must be a table, [integrations]")
        for name, value in table.items():
            if isinstance(value, str | int | float) and name == name.lower():
                self.integrations[name] = Given(f"integrations.{name}", value, str(self.file))
            else:
                self._refuse(("integrations", name), "must be a text or a number, under a name in lower case")
        return None

    def _take(self, key: Key, value: Any) -> None:
        self.given[key] = Given(_dotted(key), value, str(self.file))

    def _refuse(self, key: Key, why: str) -> None:
        self.problems.append(f"{_dotted(key)} ({self.file}): {why}")


def _text_of(file: Path, problems: list[str]) -> str:
    try:
        return file.read_text("utf-8")
    except (FileNotFoundError, IsADirectoryError):  # a directory: some call their virtual environment .env
        return ""
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        problems.append(f"{file}, line {line}: is not UTF-8 text")
    except OSError as error:
        problems.append(f"{file}: cannot be read: {error.strerror}")
    return ""


def _dotted(key: Key) -> str:
    return ".".join(part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else ascii(part) for part in key)


def _meant(name: str, known: frozenset[str]) -> str:
    meant = nearest(name, known)
    return f"; did you mean {meant}?" if meant else ""
