"""The part of `mayfly doctor` about those who watch: that what the settings name can be used."""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from mayfly.errors import MetricsMissing
from mayfly.finding import Finding, Health
from mayfly.settings import Settings


def examine_watchers(settings: Settings) -> Iterator[Finding]:
    """Nothing at all where nobody watches. Nobody is told anything by a mere look."""
    if settings.metrics_textfile is not None:
        yield _textfile(settings.metrics_textfile)
    if settings.heartbeat_url is not None:
        yield Finding("heartbeat", Health.OK, _told_at(settings.heartbeat_url.get_secret_value()))
    if settings.alert_webhook_url is not None:
        yield Finding("alerts", Health.OK, "webhook, " + _told_at(settings.alert_webhook_url.get_secret_value()))
    if settings.alert_mail_to:
        yield Finding("alerts", Health.OK, f"mail to {', '.join(settings.alert_mail_to)}")
    targets = [lane for lane, each in settings.lanes.items() if each.latency_target is not None]
    if targets and not (settings.has_alerts or settings.metrics_textfile):
        text = f"LATENCY_TARGET of {', '.join(targets)}: nobody is told by this host, see docs/alerts.md"
        yield Finding("alerts", Health.WARNING, text)


def _textfile(path: Path) -> Finding:
    if find_spec("prometheus_client") is None:
        return Finding("metrics", Health.PROBLEM, str(MetricsMissing()))
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        advice = "make that directory, and let the user that runs the dispatcher write there"
        return Finding("metrics", Health.PROBLEM, f"METRICS_TEXTFILE {path} cannot be written: {advice}.")
    return Finding("metrics", Health.OK, f"written to {path} by every cycle")


def _told_at(url: str) -> str:
    """Its host alone: the rest is as good as a password. In the open, others can read along."""
    scheme, _, rest = url.partition("://")
    host = rest.partition("/")[0].partition("?")[0]
    return f"at {host}" + (" (not encrypted)" if scheme == "http" else "")
