"""Load the settings through the model: read all sources, validate them, and report every problem at once.

Imports pydantic; most processes use a snapshot instead (snapshot.py).
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mayfly.errors import SettingsError
from mayfly.settings.model import (
    ONLY_IN_TOML,
    PLAIN,
    SECRET_FILES,
    TABLES,
    Key,
    LaneModel,
    SettingsModel,
    allowed_values,
    conflicts,
    field_of,
    is_secret,
    key_of,
    variable_of,
)
from mayfly.settings.sources import (
    DEFAULT,
    DOTENV,
    ENVIRONMENT,
    HOME,
    TOML,
    Given,
    content_of,
    dotenv_variables,
    find_home,
    find_integration,
    reason,
    secret_file,
    text_in,
    toml_document,
)
from mayfly.settings.types import SIZE, size_text
from mayfly.settings.values import NAME_RULE, SOURCE_RULE, Secret, Settings, mask_password

IN_KUBERNETES = "KUBERNETES_SERVICE_HOST"  # set in every container of a pod
ADDRESSES = ("database_url", "alert_smtp_url")  # secrets that are shown with their password masked


@dataclass(frozen=True)
class Origin:
    """One line of `mayfly config`."""

    name: str
    value: str  # secrets are masked
    source: str  # "default", "environment", "environment (DATABASE_URL_FILE)", or the path of the file


@dataclass(repr=False)  # contains secrets
class Reading:
    """The effective value of each setting, the problems of all sources, and everything that was read."""

    home: Path
    given: dict[Key, Given] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    variables: tuple[str, ...] = ()  # names of settings in the environment
    files: dict[Path, bytes | None] = field(default_factory=dict)  # None: does not exist


@dataclass(frozen=True)
class Loaded:
    settings: Settings
    origins: tuple[Origin, ...]
    warnings: tuple[str, ...]
    reading: Reading = field(repr=False)


def load(environ: Mapping[str, str]) -> Loaded:
    """Read all sources. Raises one SettingsError with one line per problem."""
    reading = _read_sources(environ)
    settings = _validated(reading)
    return Loaded(settings, tuple(_origins(settings, reading)), tuple(reading.warnings), reading)


def _validated(reading: Reading) -> Settings:
    empty = {key: given for key, given in reading.given.items() if given.is_empty}
    filled = {key: given for key, given in reading.given.items() if key not in empty}
    problems = reading.problems + [_empty_value(key, given) for key, given in empty.items()]
    try:
        settings = SettingsModel(home=reading.home, **_nested(filled)).as_plain()
        for rule, keys in conflicts(settings):
            values = [_quoted(key, reading.given, getattr(settings, key[-1], None)) for key in keys]
            problems.append(f"{' and '.join(values)}: {rule}")
    except ValidationError as error:
        # Not chained: pydantic's message does not help the reader.
        raise SettingsError("\n".join([*problems, *_sentences(error, reading.given)])) from None
    if problems:
        raise SettingsError("\n".join(problems))
    return settings


def _nested(given: Mapping[Key, Given]) -> dict[str, Any]:
    """{("lanes", "mail", "rank"): …} as {"lanes": {"mail": {"rank": …}}}."""
    tree: dict[str, Any] = {}
    for key in sorted(given, key=len):
        node: Any = tree
        for part in key[:-1]:
            node = node.setdefault(part, {}) if isinstance(node, dict) else None
        if isinstance(node, dict):  # None for `lanes = 5`, which the model refuses
            value = given[key].value
            node[key[-1]] = dict(value) if isinstance(value, dict) else value
    return tree


# --- sources ----------------------------------------------------------------------------------------------


def _read_sources(environ: Mapping[str, str]) -> Reading:
    reading = Reading(find_home(environ))
    if IN_KUBERNETES in environ:  # a pod's own name is that of one minute: each cycle would be a new host
        reading.given[("host_name",)] = Given("HOST_NAME", "kubernetes", f"{ENVIRONMENT}, {IN_KUBERNETES}")
    dotenv_file = reading.home / DOTENV
    dotenv = _read_dotenv(reading, dotenv_file, environ)
    _read_toml(reading, reading.home / TOML)

    # Later sources override earlier ones; within a source, NAME overrides NAME_FILE.
    for variables, source, file in ((dotenv, str(dotenv_file), dotenv_file), (environ, ENVIRONMENT, None)):
        for key, variable in SECRET_FILES.items():
            if variable in variables:
                reading.given[key] = Given(variable, variables[variable], source, from_file=True)
        for variable, value in variables.items():
            if found := key_of(variable):
                reading.given[found] = Given(variable, value, source, file=file)
        reading.warnings += _misspelled(variables, source)
    _open_secret_files(reading)
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


def _read_dotenv(reading: Reading, file: Path, environ: Mapping[str, str]) -> Mapping[str, str]:
    variables, broken = dotenv_variables(_text_of(reading, file))
    # The line is not shown: it may contain a password.
    reading.problems += [f"{file}, line {line}: must have the form NAME=value" for line in broken]
    stated = variables.get(HOME)
    # Without this error, Mayfly would continue with a second, empty database.
    if stated is not None and stated != environ.get(HOME) and Path(stated) != file.parent:
        reading.problems.append(f"{HOME} ({file}): can only be set in the environment: it is where .env is read from")
    return variables


def _read_toml(reading: Reading, file: Path) -> None:
    """Unknown names, and values in place of tables, are left to the model to refuse."""
    try:
        document = toml_document(_text_of(reading, file))
    except ValueError as error:  # its text ends with line and column
        reading.problems.append(f"{file}: is not valid TOML: {error}")
        return
    for key, value in _leaves(document):
        if key == ("integrations",):
            reading.problems += _wrong_integrations(value, file)
        elif key == ("home",):
            reading.problems.append(f"home ({file}): can only be set in the environment, as {HOME}")
        else:
            reading.given[key] = Given(_dotted(key), value, str(file), file=file)


def _leaves(value: Any, key: Key = ()) -> Iterator[tuple[Key, Any]]:
    """The values of a document by key. The table of a lane yields {} first, so that an empty one defines the lane."""
    depth = _DEPTHS.get(key[0], 1) if key else 1
    if len(key) >= depth or not isinstance(value, dict):
        yield key, value
        return
    if key:
        yield key, {}
    for name, each in value.items():
        yield from _leaves(each, (*key, name))


def _wrong_integrations(table: object, file: Path) -> Iterator[str]:
    if not isinstance(table, dict):
        yield f"integrations ({file}): must be a table, [integrations]"
        return
    for name, value in table.items():
        if not isinstance(value, str | int | float) or name != name.lower():
            yield f"integrations.{name} ({file}): must be text or a number, and its name in lower case"


def _open_secret_files(reading: Reading) -> None:
    """Replace the name of each file by its content. A file that NAME overrides is not opened."""
    for key, named in list(reading.given.items()):
        if named.from_file and not named.is_empty:
            try:
                file, content = secret_file(named, reading.home)
                reading.files[file] = content
                reading.given[key] = named._replace(value=content.decode().strip(), file=file)
            except SettingsError as error:
                del reading.given[key]
                reading.problems.append(str(error))


def _dotted(key: Key) -> str:
    return ".".join(part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else ascii(part) for part in key)


# --- names ------------------------------------------------------------------------------------------------

_DEPTHS = {"pools": 2, **dict.fromkeys(TABLES, 3)}  # of keys; all others have one part
_SINGULAR = {
    "lanes": "a lane",
    "pools": "a pool",
    "console_accounts": "an account",
    "sources": "a source",
    "launchers": "a launcher",
}
_VARIABLES = (HOME, *(variable_of((name,)) for name in PLAIN), *SECRET_FILES.values())
_EXAMPLES = {
    "LANES": "LANES__SEND_EMAIL__MAX_WORKERS=8",
    "POOLS": "POOLS__EMAIL=3",
    "CONSOLE_ACCOUNTS": "CONSOLE_ACCOUNTS__ANN__ROLE=viewer",
}
_MIN_SIMILARITY = 0.9  # one letter in ten differs; below that, UPLOAD_LIMIT would match PAYLOAD_LIMIT
_FOREIGN = ("HOSTNAME",)  # similar to a setting, but exported by bash and Docker


def _misspelled(variables: Mapping[str, str], source: str) -> Iterator[str]:
    for variable in sorted(variables):
        known = variable in _VARIABLES or key_of(variable)
        if not known and (hint := _hint(variable)):
            yield f"{variable} ({source}): is not a setting and has no effect; {hint}"


@cache
def _hint(variable: str) -> str | None:
    """For a name that is probably a misspelled setting."""
    name = variable.upper()
    if name.removeprefix("MAYFLY_") in _VARIABLES:
        return f"did you mean {name.removeprefix('MAYFLY_')}?"
    head, separator, rest = name.partition("__")
    lane = rest.partition("__")[0]
    known = (*_VARIABLES, f"POOLS__{lane}", *(f"LANES__{lane}__{each}".upper() for each in LaneModel.model_fields))
    for meant in get_close_matches(name, known, cutoff=_MIN_SIMILARITY):
        # BATCH_SIZE_2 and X_WORKER_TIMEOUT belong to other programs, although they are similar.
        if variable not in _FOREIGN and not (name.startswith(f"{meant}_") or name.endswith(f"_{meant}")):
            return f"did you mean {meant}?"
    is_ours = head in _EXAMPLES and (separator or head == name)
    return f"write it as in {_EXAMPLES[head]}" if is_ours else None


def _suggestion(name: str, known: Iterable[str]) -> str:
    found = get_close_matches(name.lower(), sorted(known), n=1)
    return f"; did you mean {found[0]}?" if found else ""


# --- problems ---------------------------------------------------------------------------------------------

_MAX_SHOWN = 60  # characters


def _empty_value(key: Key, given: Given) -> str:
    wanted = "the path of a file" if given.from_file else allowed_values(field_of(key))
    return f"{given.spelled}= ({given.source}): is empty; set it to {wanted}, or unset it"


def _sentences(error: ValidationError, given: Mapping[Key, Given]) -> Iterator[str]:
    for detail in error.errors(include_url=False, include_input=False):
        # Pydantic's path continues into the value: ("handlers", 0).
        key = tuple(map(str, detail["loc"][: _DEPTHS.get(str(detail["loc"][0]), 1)]))
        if detail["type"] == "extra_forbidden":
            yield f"{given[key].spelled} ({given[key].source}): {_no_setting(key)}"
        elif detail["loc"][-1] == "[key]":
            found = next(each for given_key, each in given.items() if given_key[:2] == key[:2])
            rule = SOURCE_RULE if key[0] == "sources" else NAME_RULE
            yield f"{found.spelled} ({found.source}): the name of {_SINGULAR[key[0]]} must be {rule}"
        elif detail["type"] == "missing" and key[0] in ONLY_IN_TOML:
            yield f"{_dotted(key)} ({given[key[:2]].source}): is missing; set it to {allowed_values(field_of(key))}"
        elif len(key) < _DEPTHS.get(key[0], 1):  # the value is not shown: it may be a secret
            yield f"{given[key].spelled} ({given[key].source}): must be a table"
        else:
            clause = str(detail.get("ctx", {}).get("error", "")) or f"must be {allowed_values(field_of(key))}"
            yield f"{_quoted(key, given)}: {clause}"


def _no_setting(key: Key) -> str:
    if len(key) == 1:
        return f"is not a setting{_suggestion(key[0], (*SettingsModel.model_fields, 'integrations'))}"
    return f"is not a setting of {_SINGULAR[key[0]]}{_suggestion(key[2], TABLES[key[0]].model_fields)}"


def _quoted(key: Key, given: Mapping[Key, Given], default: object = None) -> str:
    """As given, without secrets: BATCH_SIZE=0 (environment)."""
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


# --- origins ----------------------------------------------------------------------------------------------


def _origins(settings: Settings, reading: Reading) -> Iterator[Origin]:
    yield Origin(HOME, str(settings.home), ENVIRONMENT if HOME in reading.variables else DEFAULT)
    for name in PLAIN:
        given = reading.given.get((name,))
        yield Origin(variable_of((name,)), _display(settings, name), _source(given) if given else DEFAULT)
    for key, given in sorted(reading.given.items()):
        if key[0] == "pools" and len(key) == 2:
            yield Origin(given.spelled, str(settings.pools[key[1]]), given.source)
        elif len(key) == 3:
            value = getattr(getattr(settings, key[0])[key[1]], key[2])
            yield Origin(given.spelled, "***" if is_secret(key) else _displayed(key, value), given.source)


def integration_origins(names: Iterable[str]) -> Iterator[Origin]:
    """Of settings that handlers require. Any of them may be a secret, so no value is shown."""
    for name in names:
        given = find_integration(name)
        yield Origin(name, "***", _source(given)) if given else Origin(name, "none", DEFAULT)


def _source(given: Given) -> str:
    return f"{given.source} ({given.spelled})" if given.from_file else given.source


def _display(settings: Settings, name: str) -> str:
    value = getattr(settings, name)
    if isinstance(value, Secret):
        return mask_password(value.get_secret_value()) if name in ADDRESSES else "***"
    return _displayed((name,), value)


def _displayed(key: Key, value: Any) -> str:
    if value is None or value == ():
        return "none"
    if SIZE in field_of(key).metadata:
        return size_text(value)
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value) if isinstance(value, Path) else _shown(value)  # a path is not cut short
