"""What is looked at besides the database, each quickly: disks, memory, mail accounts, providers."""

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial

from handlers.care.findings import RED, Finding, Thresholds, read_thresholds
from handlers.mail.accounts import Account, read_accounts
from mayfly import Dead, Retry, setting

Probes = dict[str, Callable[[], Finding]]

# The settings whose URLs are called, where they are set; HEALTH_PROVIDERS names others.
PROVIDERS = "OPENAI_URL HUNTER_URL SCRAPERS"
SERVER_ERRORS = 500


def look_at_disks() -> Iterator[Finding]:
    """Full as `df` says it: what is kept for root counts as used."""
    thresholds = read_thresholds("HEALTH_DISK", "85,95")
    for path in setting("HEALTH_DISKS", "/").split():
        try:
            usage = shutil.disk_usage(path)
        except OSError as error:
            yield Finding(f"disk {path}", RED, f"cannot be looked at: {error.strerror}")
            continue
        percent = 100 * usage.used / (usage.used + usage.free or 1)  # some file systems have no size at all
        yield Finding(f"disk {path}", thresholds.judge(percent), f"{percent:.0f} % used")


def look_at_memory() -> Iterator[Finding]:
    import psutil

    percent = psutil.virtual_memory().percent
    yield Finding("memory", read_thresholds("HEALTH_MEMORY", "90,97").judge(percent), f"{percent:.0f} % used")


def smtp_probes(at_rest: Mapping[str, datetime]) -> Probes:
    thresholds = _answer_thresholds()
    probes: Probes = {}
    for each in read_accounts(setting("SMTP_ACCOUNTS", "")):
        what = f"mail {each.name}"
        if each.name in at_rest:  # one more wrong login could lock it for longer
            text = f"its login failed: left alone until {at_rest[each.name]:%H:%M} UTC"
            probes[what] = partial(Finding, what, RED, text)
        else:
            probes[what] = partial(_probe_account, what, each, thresholds)
    return probes


def _probe_account(what: str, account: Account, thresholds: Thresholds) -> Finding:
    from handlers.mail.smtp import LoginFailed, Passing, log_in

    begun = time.monotonic()
    try:
        log_in(account, thresholds.red)
    except (LoginFailed, Passing) as error:
        return Finding(what, RED, str(error))
    return _timed(what, "lets us in", begun, thresholds)


def provider_probes() -> Probes:
    """Whoever answers is there, be it with a refusal: we show no key."""
    thresholds = _answer_thresholds()
    probes: Probes = {}
    for name in setting("HEALTH_PROVIDERS", PROVIDERS).split():
        urls = setting(name, "").split()
        for place, url in enumerate(urls, 1):
            what = f"provider {name} {place}" if len(urls) > 1 else f"provider {name}"
            probes[what] = partial(_probe_provider, what, url, thresholds)
    return probes


def _probe_provider(what: str, url: str, thresholds: Thresholds) -> Finding:
    from handlers.outside import Outside

    begun = time.monotonic()
    try:
        seconds = thresholds.red
        outside = Outside(url, connect_seconds=seconds, answer_seconds=seconds)
        answer = outside.call("GET", expected=range(100, 600))
    except ValueError:
        return Finding(what, RED, "is no URL")
    except (Dead, Retry) as error:
        return Finding(what, RED, str(error))
    text = f"{answer.who} answered {answer.status}"
    return Finding(what, RED, text) if answer.status >= SERVER_ERRORS else _timed(what, text, begun, thresholds)


def _answer_thresholds() -> Thresholds:
    """Of whatever is called. Whoever takes longer than the second is not waited for."""
    return read_thresholds("HEALTH_ANSWER", "2,5")


def _timed(what: str, text: str, begun: float, thresholds: Thresholds) -> Finding:
    seconds = time.monotonic() - begun
    return Finding(what, thresholds.judge(seconds), f"{text} in {seconds * 1000:.0f} ms")
