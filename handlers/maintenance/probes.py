"""The probes of a health check besides the database: disks, memory, mail accounts, providers."""

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial

from handlers.mail.accounts import Account, read_accounts
from handlers.maintenance.findings import RED, Finding, Thresholds, read_thresholds
from mayfly import Dead, Retry, setting

Probes = dict[str, Callable[[], Finding]]

# The settings whose URLs are called if they are set; HEALTH_PROVIDERS overrides the list.
PROVIDERS = "OPENAI_URL HUNTER_URL SCRAPERS"
FIRST_SERVER_ERROR = 500


def check_disks() -> Iterator[Finding]:
    """Compute the percentage like `df`: blocks reserved for root count as used."""
    thresholds = read_thresholds("HEALTH_DISK", "85,95")
    for path in setting("HEALTH_DISKS", "/").split():
        try:
            usage = shutil.disk_usage(path)
        except OSError as error:
            yield Finding(f"disk {path}", RED, f"cannot be read: {error.strerror}")
            continue
        percent = 100 * usage.used / (usage.used + usage.free or 1)  # some file systems have size 0
        yield Finding(f"disk {path}", thresholds.judge(percent), f"{percent:.0f} % used")


def check_memory() -> Iterator[Finding]:
    import psutil  # slow to import, and only this probe needs it

    percent = psutil.virtual_memory().percent
    yield Finding("memory", read_thresholds("HEALTH_MEMORY", "90,97").judge(percent), f"{percent:.0f} % used")


def smtp_probes(cooldowns: Mapping[str, datetime]) -> Probes:
    thresholds = _response_thresholds()
    probes: Probes = {}
    for each in read_accounts(setting("SMTP_ACCOUNTS", "")):
        what = f"mail {each.name}"
        if each.name in cooldowns:  # another failed login could lock the account for longer
            text = f"its login failed: not used until {cooldowns[each.name]:%H:%M} UTC"
            probes[what] = partial(Finding, what, RED, text)
        else:
            probes[what] = partial(_probe_account, what, each, thresholds)
    return probes


def _probe_account(what: str, account: Account, thresholds: Thresholds) -> Finding:
    from handlers.mail.smtp import LoginFailed, TemporaryFailure, log_in  # slow to import

    begun = time.monotonic()
    try:
        log_in(account, thresholds.red)
    except (LoginFailed, TemporaryFailure) as error:
        return Finding(what, RED, str(error))
    return _timed(what, "login ok", begun, thresholds)


def provider_probes() -> Probes:
    """Any status below 500 is good: the probe sends no key, so the provider may refuse the request."""
    thresholds = _response_thresholds()
    probes: Probes = {}
    for name in setting("HEALTH_PROVIDERS", PROVIDERS).split():
        urls = setting(name, "").split()
        for number, url in enumerate(urls, 1):
            what = f"provider {name} {number}" if len(urls) > 1 else f"provider {name}"
            probes[what] = partial(_probe_provider, what, url, thresholds)
    return probes


def _probe_provider(what: str, url: str, thresholds: Thresholds) -> Finding:
    from handlers.http import HttpClient  # only this probe needs it

    begun = time.monotonic()
    try:
        seconds = thresholds.red
        client = HttpClient(url, connect_seconds=seconds, response_seconds=seconds)
        response = client.call("GET", expected=range(100, 600))
    except ValueError:
        return Finding(what, RED, "is not a URL")
    except (Dead, Retry) as error:
        return Finding(what, RED, str(error))
    status, text = response.status, f"{response.host} returned {response.status}"
    return Finding(what, RED, text) if status >= FIRST_SERVER_ERROR else _timed(what, text, begun, thresholds)


def _response_thresholds() -> Thresholds:
    """The thresholds for all called services. The second one is also the timeout."""
    return read_thresholds("HEALTH_ANSWER", "2,5")


def _timed(what: str, text: str, begun: float, thresholds: Thresholds) -> Finding:
    seconds = time.monotonic() - begun
    return Finding(what, thresholds.judge(seconds), f"{text} in {seconds * 1000:.0f} ms")
