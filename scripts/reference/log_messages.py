"""docs/reference/log-messages.md, from mayfly/log_messages.py."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import get_type_hints

from mayfly import log_messages
from mayfly.log_messages import LogMessage, Phrase
from scripts.reference.markdown import GENERATED, table

HEAD = f"""# Log messages

{GENERATED}
With `LOG_FORMAT=json` a line has `event`, the name in this table, and the fields. The text is that of
`LOG_FORMAT=text`; words in braces are values, `…` and `3` stand for others.
[Operating](../how-to/operate.md#log-messages) explains the messages that operators search for.

"""
SAMPLES = {
    str: "…", int: 3, float: 3.0, bool: False,
    datetime: datetime(2026, 1, 1, tzinfo=UTC), timedelta: timedelta(seconds=3),
    Sequence[str]: ["…"], tuple[str, ...]: ("…",),
    Mapping[str, int]: {"done": 3, "failed": 3}, Mapping[str, object]: {"lane": "…", "done": 3},
    str | None: "…", int | None: 3,
}  # fmt: skip

SIZES = {"memory": 512 << 20, "limit": 256 << 20}  # in bytes, shown in MB


def page(_current: str) -> str:
    return HEAD + table(("event", "level", "fields", "text"), rows())


def rows() -> Iterator[tuple[str, str, str, str]]:
    """In the order of the module: dispatcher, producers, console, runner."""
    for name, value in vars(log_messages).items():
        if isinstance(value, Phrase):
            names = value.field_names
            yield f"`{name}`", value.level, ", ".join(names), f"`{_template(value.text)}`"
        elif (
            inspect.isfunction(value)
            and not name.startswith("_")
            and get_type_hints(value).get("return") is LogMessage
        ):
            message = _sample(value)
            yield f"`{name}`", message.level, ", ".join(message.fields), f"`{message.text}`"


def _template(text: str) -> str:
    """{jobs:job} becomes {jobs} jobs: as printed for most numbers."""
    with_nouns = re.sub(r"{(\w+):([a-z ]{2,})}", r"{\1} \2s", text)
    return re.sub(r"{(\w+)[:!][^}]*}", r"{\1}", with_nouns)


def _sample(function: Callable[..., LogMessage]) -> LogMessage:
    hints = get_type_hints(function)
    names = inspect.signature(function).parameters
    return function(**{name: SIZES.get(name, SAMPLES[hints[name]]) for name in names})
