"""The names of settings as people write them, and what a misspelled one was meant to be. Pure."""

from collections.abc import Iterable
from functools import cached_property

# ("batch_size",) or ("lanes", "send_email", "rank") or ("pools", "email") or ("console_accounts", "ann", "role")
Key = tuple[str, ...]

HOME = "MAYFLY_HOME"
# What may also be read from a file that NAME_FILE names: a heartbeat's and a webhook's URL are as good as a password.
SECRETS = (
    "database_url", "heartbeat_url", "alert_webhook_url", "alert_webhook_secret", "alert_smtp_url",
    "console_password_hash",
)  # fmt: skip
ACCOUNTS = "console_accounts"
ACCOUNT = frozenset({"role", "password_hash"})  # what is said of each

# One letter in ten. Looser, and UPLOAD_LIMIT would be taken for PAYLOAD_LIMIT.
_CLOSE = 0.9
# Close to a setting's name, and set by others: bash and Docker export HOSTNAME.
_INNOCENT = frozenset({"HOSTNAME"})


def variable_of(key: Key) -> str:
    return HOME if key == ("home",) else "__".join(key).upper()


def is_secret(key: Key) -> bool:
    return key[0] in SECRETS or (key[0] == ACCOUNTS and key[-1] == "password_hash")


SECRET_FILES = {(name,): f"{variable_of((name,))}_FILE" for name in SECRETS}


class Names:
    """All names of settings: `plain` are those of one value (not home, lanes, pools), `lane` what a lane has."""

    def __init__(self, plain: frozenset[str], lane: frozenset[str]) -> None:
        self.plain = plain
        self.lane = lane

    @cached_property
    def _variables(self) -> tuple[str, ...]:
        return HOME, *(variable_of((name,)) for name in sorted(self.plain)), *SECRET_FILES.values()

    def key_of(self, variable: str) -> Key | None:
        """LANES__SEND_EMAIL__RANK is ("lanes", "send_email", "rank"); None for a name that is no setting."""
        if variable.startswith("POOLS__"):
            pool = variable.removeprefix("POOLS__").lower()
            return ("pools", pool) if pool else None
        if variable.startswith("CONSOLE_ACCOUNTS__"):
            account, _, word = variable.removeprefix("CONSOLE_ACCOUNTS__").rpartition("__")
            return (ACCOUNTS, account.lower(), word.lower()) if account and _is_name(word, ACCOUNT) else None
        if variable.startswith("LANES__"):
            # From the right, so that a lane may have __ in its name.
            lane, _, word = variable.removeprefix("LANES__").rpartition("__")
            return ("lanes", lane.lower(), word.lower()) if lane and _is_name(word, self.lane) else None
        return (variable.lower(),) if _is_name(variable, self.plain) else None

    def doubt_about(self, variable: str) -> str | None:
        """What to say of a name that is no setting but was probably meant to be one."""
        head, separator, rest = variable.partition("__")
        if variable.startswith("LANES_"):
            return self._doubt_about_lane(variable)
        if variable.startswith("CONSOLE_ACCOUNTS"):
            return "write CONSOLE_ACCOUNTS__NAME__ and one of PASSWORD_HASH, ROLE"
        if separator and (heads := _close(head.upper(), ("LANES", "POOLS"), cutoff=0.85)):
            meant = f"{heads[0]}__{rest}"
            return f"did you mean {meant}?" if self.key_of(meant) else None
        if variable in ("LANES", "POOLS"):
            example = "LANES__SEND_EMAIL__MAX_WORKERS=8" if variable == "LANES" else "POOLS__EMAIL=3"
            return f"it is set one by one, as in {example}"
        return self._doubt_about_plain(variable)

    def _doubt_about_lane(self, variable: str) -> str | None:
        lane, _, word = variable.removeprefix("LANES__").rpartition("__")
        if variable.startswith("LANES__") and lane and (meant := nearest(word, self.lane)):
            return f"did you mean LANES__{lane}__{meant.upper()}?"
        # LANES__MAIL_MAX_WORKERS, LANES_MAIL__MAX_WORKERS, LANES_MAIL_MAX_WORKERS: an underscore short.
        for known in sorted(name.upper() for name in self.lane):
            if variable.endswith(f"_{known}"):
                lane = variable.removeprefix("LANES_").removesuffix(known).strip("_") or "NAME"
                return f"did you mean LANES__{lane}__{known}?"
        ours = variable.startswith("LANES__")
        return f"write LANES__NAME__ and one of {_listed(self.lane)}" if ours else None

    def _doubt_about_plain(self, variable: str) -> str | None:
        name = variable.upper().removeprefix("MAYFLY_")
        if name in self._variables:
            return f"did you mean {name}?"
        if variable in _INNOCENT:
            return None
        for meant in _close(variable.upper(), self._variables, cutoff=_CLOSE):
            # MAX_LOAD_1 and X_MAX_LOAD are names of other programs, however few letters they add.
            if not (variable.startswith(f"{meant}_") or variable.endswith(f"_{meant}")):
                return f"did you mean {meant}?"
        return None


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that a wrong one in mayfly.toml or in a lane was most likely meant to be."""
    return next(iter(_close(name.lower(), sorted(known), cutoff=0.6)), None)


def _close(word: str, known: Iterable[str], cutoff: float) -> list[str]:
    """difflib.get_close_matches, which is asked only about names that have enough letters in common."""
    likely = [name for name in known if _letters_in_common(word, name) >= cutoff]
    if not likely:
        return []
    from difflib import get_close_matches  # here because hardly anybody's environment comes so far

    return get_close_matches(word, likely, cutoff=cutoff)


def _letters_in_common(one: str, other: str) -> float:
    """A bound from above of difflib's ratio, by the same measure: 1 for words of the same letters."""
    length = len(one) + len(other)
    if 2 * min(len(one), len(other)) < 0.6 * length:
        return 0.0
    return 2 * sum(min(one.count(letter), other.count(letter)) for letter in {*one}) / length


def _is_name(word: str, known: frozenset[str]) -> bool:
    return word == word.upper() and word.lower() in known


def _listed(names: Iterable[str]) -> str:
    return ", ".join(name.upper() for name in sorted(names))
