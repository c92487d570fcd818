"""Who does something by hand, and through which door."""

import os
import pwd
from typing import NamedTuple

from mayfly.schema import NAME_LENGTH

TERMINAL, HTTP, PAGE, PYTHON = "terminal", "http", "page", "python"


class Actor(NamedTuple):
    name: str
    via: str = PYTHON


def this_user(via: str) -> Actor:
    """The user of this process, or its number where it has no name, as in a container."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = f"uid {os.getuid()}"
    return Actor(name[:NAME_LENGTH], via)
