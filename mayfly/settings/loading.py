"""Load the settings through the model: gather them from all sources, validate them, and report every problem at once.

Imports pydantic; snapshot.py spares most processes this module.
"""

import json
import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from mayfly.errors import SettingsError
from mayfly.settings.model import (
    CONFLICTS,
    SECRETS,
    SIZE,
    TABLES,
    Key,
    LaneModel,
    SettingsModel,
    allowed_values,
    field_of,
    is_secret,
    size_text,
)
from mayfly.settings.sources import (
    DEFAULT,
    ENVIRONMENT,
    HOME,
    Given,
    Home,
    content_of,
    dotenv_file,
    dotenv_variables,
    find_home,
    find_integration,
    reason,
    secret_in,
    text_in,
    toml_document,
    toml_file,
)
from mayfly.settings.values import NAME_RULE, Secret, Settings, mask_password, under_home

ADDRESSES = ("database_url", "alert_smtp_url")  # secrets that are shown, without the password in them


@dataclass(frozen=True)
class Origin:
    """One line of `mayfly config`."""

    name: str
    value: str  # secrets are masked
    source: str  # "default", "environment", "environment (DATABASE_URL_FILE)", or the path of the file


@dataclass(repr=False)  # it has the secrets
class Reading:
    """The strongest value of each setting, what is wrong in any source, and everything that was read for that."""

    home: Home
    given: dict[Key, Given] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    variables: tuple[str, ...] = ()  # of the environment, those that are settings
    files: dict[Path, bytes | None] = field(default_factory=dict)  # None: does not exist


@dataclass(frozen=True)
class Loaded:
    settings: Settings
    origins: tuple[Origin, ...]
    warnings: tuple[str, ...]
    reading: Reading = field(repr=False)


def load(environ: Mapping[str, str] | None = None) -> Loaded:
    """Read all sources; whatever is wrong in any of them is one SettingsError with a line for each problem."""
    reading = read_sources(os.environ if environ is None else environ)
    settings = _validated(reading)
    return Loaded(settings, tuple(_origins(settings, reading)), tuple(reading.warnings), reading)


def _validated(reading: Reading) -> Settings:
    empty = {key: given for key, given in reading.given.items() if given.is_empty}
    problems = reading.problems + [_empty_value(key, given) for key, given in empty.items()]
    filled = {key: given for key, given in reading.given.items() if key not in empty}
    try:
        settings = SettingsModel(home=reading.home.path, **_nested(filled)).as_plain()
    except ValidationError as error:
        # Not chained: pydantic's own text does not help the reader.
        raise SettingsError("\n".join([*problems, *_sentences(error, reading.given)])) from None
    if problems:
        raise SettingsError("\n".join(problems))
    return settings


def _nested(given: Mapping[Key, Given]) -> dict[str, Any]:
    """{("lanes", "mail", "rank"): …} as {"lanes": {"mail": {"rank": …}}}."""
    tree: dict[str, Any] = {}
    for key in sorted(given, key=len):
        node = tree
        for part in key[:-1]:
            node = node.setdefault(part, {})
        value = given[key].value
        node[key[-1]] = dict(value) if isinstance(value, dict) else value
    return tree


# --- sources ----------------------------------------------------------------------------------------------


def read_sources(environ: Mapping[str, str]) -> Reading:
    reading = Reading(find_home(environ))
    home = reading.home.path
    dotenv = _read_dotenv(reading, dotenv_file(home), environ)
    _TomlReader(reading, toml_file(home)).read()

    # From the weakest source to the strongest; in one source, NAME beats NAME_FILE.
    for variables, source, file in (
        (dotenv, str(dotenv_file(home)), dotenv_file(home)),
        (environ, ENVIRONMENT, None),
    ):
        for key, variable in SECRET_FILES.items():
            if variable in variables:
                reading.given[key] = Given(variable, variables[variable], source, from_file=True)
        for variable, value in variables.items():
            if found := key_of(variable):
                reading.given[found] = Given(variable, value, source, file=file)
    _open_secret_files(reading)
    reading.warnings += [*_misspelled(environ, ENVIRONMENT), *_misspelled(dotenv, str(dotenv_file(home)))]
    known = {HOME, *SECRET_FILES.values()}
    reading.variables = tuple(name for name in environ if name in known or key_of(name))
    return reading


def _text_of(reading: Reading, file: Path) -> str:
    try:
        reading.files[file] = content_of(file)
        return text_in(reading.files[file])
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        reading.problems.append(f"{file}, line {line}: is not UTF-8 text")
    except OSError as error:
        reading.problems.append(f"{file}: {reason(error)}")
    return ""


def _read_dotenv(reading: Reading, file: Path, environ: Mapping[str, str]) -> dict[str, str]:
    variables, broken = dotenv_variables(_text_of(reading, file))
    # The line is not shown: it may be the one with the password.
    reading.problems += [f"{file}, line {line}: is not of the form NAME=value" for line in broken]
    stated = variables.get(HOME)
    # Without this error, Mayfly would go on with a second, empty database.
    if stated is not None and stated != environ.get(HOME) and Path(stated) != file.parent:
        reading.problems.append(f"{HOME} ({file}): can only be set in the environment: .env is read from there")
    return variables


def _open_secret_files(reading: Reading) -> None:
    """Replace the name of each file by its content. A file that a plain NAME overrides is not opened."""
    for key, named in list(reading.given.items()):
        if named.from_file and not named.is_empty:
            try:
                file = under_home(Path(named.value), reading.home.path)
                reading.files[file] = content = file.read_bytes()
                reading.given[key] = named._replace(value=secret_in(content), file=file)
            except (OSError, ValueError) as error:
                del reading.given[key]
                path = mask_password(named.value)  # an easy mistake is to write the URL itself there
                reading.problems.append(f"{named.spelled}={path} ({named.source}): {reason(error)}")


class _TomlReader:
    def __init__(self, reading: Reading, file: Path) -> None:
        self.reading = reading
        self.file = file

    def read(self) -> None:
        for name, value in self._document().items():
            if name in TABLES:
                self._read_tables(name, value)
            elif name == "pools":
                self._read_pools(value)
            elif name == "integrations":
                self._check_integrations(value)
            elif name in PLAIN:
                self._take((name,), value)
            elif name == "home":
                self._refuse((name,), f"can only be set in the environment, as {HOME}")
            else:
                self._refuse((name,), f"is not a setting{_meant(name, (*PLAIN, *TABLES, 'integrations', 'pools'))}")

    def _document(self) -> dict[str, Any]:
        try:
            return toml_document(_text_of(self.reading, self.file))
        except ValueError as error:  # its text ends with line and column
            self.reading.problems.append(f"{self.file}: is not valid TOML: {error}")
            return {}

    def _read_tables(self, kind: str, tables: Any) -> None:
        example = _EXAMPLES[kind]
        if not isinstance(tables, dict):
            return self._refuse((kind,), f"must be tables such as {example}")
        for name, table in tables.items():
            if isinstance(table, dict):
                self._read_table((kind, name), table)
            else:
                self._refuse((kind, name), f"must be a table such as {example}")
        return None

    def _read_table(self, key: Key, table: dict[str, Any]) -> None:
        self._take(key, {})  # an empty table makes the lane known
        known = TABLES[key[0]].model_fields
        for name, value in table.items():
            if name in known:
                self._take((*key, name), value)
            else:
                self._refuse((*key, name), f"is not a setting of {_SINGULAR[key[0]]}{_meant(name, known)}")

    def _read_pools(self, table: Any) -> None:
        if not isinstance(table, dict):
            return self._refuse(("pools",), "must be a table, [pools]")
        for pool, cap in table.items():
            self._take(("pools", pool), cap)
        return None

    def _check_integrations(self, table: Any) -> None:
        if not isinstance(table, dict):
            return self._refuse(("integrations",), "must be a table, [integrations]")
        for name, value in table.items():
            if not isinstance(value, str | int | float) or name != name.lower():
                self._refuse(("integrations", name), "must be a text or a number, under a name in lower case")
        return None

    def _take(self, key: Key, value: Any) -> None:
        self.reading.given[key] = Given(_dotted(key), value, str(self.file), file=self.file)

    def _refuse(self, key: Key, why: str) -> None:
        self.reading.problems.append(f"{_dotted(key)} ({self.file}): {why}")


_EXAMPLES = {"lanes": "[lanes.send_email]", "console_accounts": "[console_accounts.ann]"}
_SINGULAR = {"lanes": "a lane", "pools": "a pool", "console_accounts": "an account"}


def _dotted(key: Key) -> str:
    return ".".join(part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else ascii(part) for part in key)


# --- names ------------------------------------------------------------------------------------------------


def variable_of(key: Key) -> str:
    return HOME if key == ("home",) else "__".join(key).upper()


PLAIN = tuple(name for name in SettingsModel.model_fields if name not in ("home", "pools", *TABLES))  # one value each
LANE = tuple(LaneModel.model_fields)
SECRET_FILES = {(name,): f"{variable_of((name,))}_FILE" for name in SECRETS}
_VARIABLES = (HOME, *(variable_of((name,)) for name in PLAIN), *SECRET_FILES.values())
_CLOSE = 0.9  # one letter in ten. Looser, and UPLOAD_LIMIT would be taken for PAYLOAD_LIMIT
_OTHERS = ("HOSTNAME",)  # close to the name of a setting, and exported by bash and Docker


def key_of(variable: str) -> Key | None:
    """LANES__SEND_EMAIL__RANK is ("lanes", "send_email", "rank"); None for a name that is no setting."""
    head, separator, rest = variable.partition("__")
    kind = head.lower() if separator and head == head.upper() else ""
    if kind == "pools":
        return (kind, rest.lower()) if rest else None
    if kind in TABLES:
        name, _, word = rest.rpartition("__")  # from the right: a lane may have __ in its name
        return (kind, name.lower(), word.lower()) if name and _is_name(word, TABLES[kind].model_fields) else None
    return (variable.lower(),) if _is_name(variable, PLAIN) else None


def _is_name(word: str, known: Container[str]) -> bool:
    return word == word.upper() and word.lower() in known


def _misspelled(variables: Mapping[str, str], source: str) -> Iterator[str]:
    for variable in sorted(variables):
        known = variable in _VARIABLES or key_of(variable)
        if not known and (hint := _hint(variable)):
            yield f"{variable} ({source}): is not a setting and has no effect; {hint}"


def _hint(variable: str) -> str | None:
    """For a name that is no setting but was probably meant to be one."""
    head, separator, rest = variable.partition("__")
    if variable.startswith("LANES_"):
        return _lane_hint(variable)
    if variable.startswith("CONSOLE_ACCOUNTS"):
        return "write CONSOLE_ACCOUNTS__NAME__ and one of PASSWORD_HASH, ROLE"
    if separator and (heads := get_close_matches(head.upper(), ("LANES", "POOLS"), cutoff=0.85)):
        meant = f"{heads[0]}__{rest}"
        return f"did you mean {meant}?" if key_of(meant) else None
    if variable in ("LANES", "POOLS"):
        example = "LANES__SEND_EMAIL__MAX_WORKERS=8" if variable == "LANES" else "POOLS__EMAIL=3"
        return f"it is set one by one, as in {example}"
    return _plain_hint(variable)


def _lane_hint(variable: str) -> str | None:
    lane, _, word = variable.removeprefix("LANES__").rpartition("__")
    if variable.startswith("LANES__") and lane and (meant := _nearest(word, LANE)):
        return f"did you mean LANES__{lane}__{meant.upper()}?"
    # LANES__MAIL_MAX_WORKERS, LANES_MAIL__MAX_WORKERS, LANES_MAIL_MAX_WORKERS: an underscore is missing.
    for known in sorted(name.upper() for name in LANE):
        if variable.endswith(f"_{known}"):
            lane = variable.removeprefix("LANES_").removesuffix(known).strip("_") or "NAME"
            return f"did you mean LANES__{lane}__{known}?"
    names = ", ".join(sorted(name.upper() for name in LANE))
    return f"write LANES__NAME__ and one of {names}" if variable.startswith("LANES__") else None


def _plain_hint(variable: str) -> str | None:
    name = variable.upper().removeprefix("MAYFLY_")
    if name in _VARIABLES:
        return f"did you mean {name}?"
    if variable in _OTHERS:
        return None
    for meant in get_close_matches(variable.upper(), _VARIABLES, cutoff=_CLOSE):
        # MAX_LOAD_1 and X_MAX_LOAD are names of other programs, however few letters they add.
        if not (variable.startswith(f"{meant}_") or variable.endswith(f"_{meant}")):
            return f"did you mean {meant}?"
    return None


def _nearest(name: str, known: Iterable[str]) -> str | None:
    return next(iter(get_close_matches(name.lower(), sorted(known), cutoff=0.6)), None)


def _meant(name: str, known: Iterable[str]) -> str:
    meant = _nearest(name, known)
    return f"; did you mean {meant}?" if meant else ""


# --- problems ---------------------------------------------------------------------------------------------

_MAX_SHOWN = 60  # characters


def _empty_value(key: Key, given: Given) -> str:
    wanted = "the path of a file" if given.from_file else allowed_values(field_of(key))
    return f"{given.spelled}= ({given.source}): is empty; give {wanted}, or unset it"


def _sentences(error: ValidationError, given: Mapping[Key, Given]) -> Iterator[str]:
    for detail in error.errors(include_url=False, include_input=False):
        if detail["type"] == CONFLICTS:
            for conflict in detail["ctx"]["conflicts"]:
                values = " and ".join(_quoted(key, given, value) for key, value in conflict.values.items())
                yield f"{values}: {conflict.rule}"
        elif detail["loc"][-1] == "[key]":
            yield _wrong_name(detail, given)
        else:
            key = _key_in(detail)
            clause = str(detail.get("ctx", {}).get("error", "")) or f"must be {allowed_values(field_of(key))}"
            yield f"{_quoted(key, given)}: {clause}"


def _quoted(key: Key, given: Mapping[Key, Given], default: object = None) -> str:
    """As it was written, without secrets: BATCH_SIZE=0 (environment)."""
    found = given.get(key) or Given(variable_of(key), default, DEFAULT)
    value = "" if is_secret(key) or found.value is None else f"={_shown(found.value)}"
    return f"{found.spelled}{value} ({found.source})"


def _shown(value: object) -> str:
    """On one line, short, and without anything that could be a password."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = mask_password(value if isinstance(value, str) else json.dumps(value, default=str))
    text = text if text.isprintable() else ascii(text)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def _wrong_name(detail: ErrorDetails, given: Mapping[Key, Given]) -> str:
    kind, name = str(detail["loc"][0]), str(detail["loc"][1])
    found = next(each for key, each in given.items() if key[:2] == (kind, name))
    return f"{found.spelled} ({found.source}): the name of {_SINGULAR[kind]} must be {NAME_RULE}"


def _key_in(detail: ErrorDetails) -> Key:
    # Pydantic's path goes on into the value: ("handlers", 0).
    depth = {"pools": 2, **dict.fromkeys(TABLES, 3)}.get(str(detail["loc"][0]), 1)
    return tuple(str(part) for part in detail["loc"][:depth])


# --- origins ----------------------------------------------------------------------------------------------


def _origins(settings: Settings, reading: Reading) -> Iterator[Origin]:
    yield Origin(HOME, str(settings.home), reading.home.source)
    for name in PLAIN:
        given = reading.given.get((name,))
        yield Origin(variable_of((name,)), _display(settings, name), _source(given) if given else DEFAULT)
    for key, given in sorted(reading.given.items()):
        if key[0] == "pools":
            yield Origin(given.spelled, str(settings.pools[key[1]]), given.source)
        elif len(key) == 3:
            value = getattr(getattr(settings, key[0])[key[1]], key[2])
            yield Origin(given.spelled, "***" if is_secret(key) else _shown(value), given.source)


def integration_origins(names: Iterable[str]) -> Iterator[Origin]:
    """Of settings that handlers require. Only the handler knows whether one is a secret, so none is shown."""
    for name in names:
        given = find_integration(name)
        yield Origin(name, "***", _source(given)) if given else Origin(name, "none", DEFAULT)


def _source(given: Given) -> str:
    return f"{given.source} ({given.spelled})" if given.from_file else given.source


def _display(settings: Settings, name: str) -> str:
    value = getattr(settings, name)
    if isinstance(value, Secret):
        return mask_password(value.get_secret_value()) if name in ADDRESSES else "***"
    if value is None or value == ():
        return "none"
    if SIZE in field_of((name,)).metadata:
        return size_text(value)
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value) if isinstance(value, Path) else _shown(value)  # a path is not cut short
