"""Read .env and mayfly.toml of one directory: what is set there, and in sentences what is wrong with them."""

import re
import tomllib
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

from dotenv.parser import parse_stream

from mayfly.settings.names import HOME, Key, Names, nearest


@dataclass(frozen=True)
class Given:
    """A value that somebody wrote: as what, and where."""

    spelled: str  # BATCH_SIZE, LANES__MAIL__RANK, lanes.mail.rank, DATABASE_URL_FILE
    value: Any
    source: str  # "environment", or the path of the file
    from_file: bool = False  # the value stands in the file that NAME_FILE names

    @property
    def is_empty(self) -> bool:
        return isinstance(self.value, str) and not self.value.strip()


@dataclass
class DotenvFile:
    file: Path
    variables: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def read(self) -> "DotenvFile":
        # The parser alone: dotenv_values() skips a broken line in silence and expands a $ in a password.
        for binding in parse_stream(StringIO(_text_of(self.file, self.problems))):
            if binding.error:  # not shown, it may well be the line with the password
                line = f"{self.file}, line {binding.original.line}"
                self.problems.append(f"{line}: is not of the form NAME=value")
            elif binding.key is not None:
                self.variables[binding.key] = binding.value or ""
        return self


@dataclass
class TomlFile:
    file: Path
    names: Names
    given: dict[Key, Given] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def read(self) -> "TomlFile":
        for name, value in self._document().items():
            if name == "lanes":
                self._read_lanes(value)
            elif name == "pools":
                self._read_pools(value)
            elif name in self.names.plain:
                self._take((name,), value)
            elif name == "home":
                self._refuse((name,), f"can only be set in the environment, as {HOME}")
            else:
                known = self.names.plain | {"lanes", "pools"}
                self._refuse((name,), f"is not a setting{_meant(name, known)}")
        return self

    def _document(self) -> dict[str, Any]:
        try:
            return tomllib.loads(_text_of(self.file, self.problems))
        except tomllib.TOMLDecodeError as error:  # its text ends with line and column
            self.problems.append(f"{self.file}: is not valid TOML: {error}")
            return {}

    def _read_lanes(self, tables: Any) -> None:
        if not isinstance(tables, dict):
            return self._refuse(("lanes",), "must be tables such as [lanes.send_email]")
        for lane, table in tables.items():
            if isinstance(table, dict):
                self._read_lane(lane, table)
            else:
                self._refuse(("lanes", lane), "must be a table such as [lanes.send_email]")
        return None

    def _read_lane(self, lane: str, table: dict[str, Any]) -> None:
        self._take(("lanes", lane), {})  # the lane itself: an empty table makes it known
        for name, value in table.items():
            if name in self.names.lane:
                self._take(("lanes", lane, name), value)
            else:
                why = f"is not a setting of a lane{_meant(name, self.names.lane)}"
                self._refuse(("lanes", lane, name), why)

    def _read_pools(self, table: Any) -> None:
        if not isinstance(table, dict):
            return self._refuse(("pools",), "must be a table, [pools]")
        for pool, cap in table.items():
            self._take(("pools", pool), cap)
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
