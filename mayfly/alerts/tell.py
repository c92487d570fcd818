"""After a cycle: look, write down what has changed, and tell it by the ways that the settings name."""

from collections.abc import Iterator, Sequence
from functools import partial

from mayfly import events
from mayfly.alerts.decide import Alert
from mayfly.alerts.look import look
from mayfly.alerts.store import give_back, note, note_told, take
from mayfly.engine import Database
from mayfly.errors import Undelivered
from mayfly.logs import Log
from mayfly.settings import Settings


def tell_alerts(settings: Settings, database: Database, log: Log) -> None:
    """Each by one host. What one way took is told, or the other's failure would bring it again every minute."""
    now = database.clock.now()
    found = database.read(lambda connection: look(connection, settings, now))
    wanted = database.run(lambda connection: note(connection, found, now))
    ours = [alert for alert in wanted if database.run(partial(take, alert=alert, now=now))]
    untold = {alert.fingerprint: alert for alert in ours}
    for alert in _delivered(settings, database, log, ours):
        if untold.pop(alert.fingerprint, None):
            log.say(events.alert_told(alert.state, alert.kind, alert.detail))
            database.run(partial(note_told, alert=alert, now=now))
    for alert in untold.values():
        database.run(partial(give_back, alert=alert))


def _delivered(settings: Settings, database: Database, log: Log, alerts: Sequence[Alert]) -> Iterator[Alert]:
    """As each way takes them."""
    for name, way in (("webhook", _by_webhook), ("mail", _by_mail)):
        try:
            if alerts:
                yield from way(settings, database, alerts)
        except Undelivered as error:
            log.say(events.alert_undelivered(name, str(error)))


def _by_webhook(settings: Settings, database: Database, alerts: Sequence[Alert]) -> Iterator[Alert]:
    """One a message. After the first that is not taken the others are not tried: they would wait as long."""
    url, secret = settings.alert_webhook_url, settings.alert_webhook_secret
    if url is None or secret is None:
        return
    from mayfly.alerts.webhook import send

    for alert in alerts:
        send(url.get_secret_value(), secret.get_secret_value(), alert, settings.host_name, database.clock.now())
        yield alert


def _by_mail(settings: Settings, database: Database, alerts: Sequence[Alert]) -> Iterator[Alert]:
    if not settings.alert_mail_to:
        return
    from mayfly.alerts.mail import default_sender, message_of, send

    sender = settings.alert_mail_from or default_sender(settings.host_name)
    message = message_of(alerts, sender, settings.alert_mail_to, settings.host_name, database.clock.now())
    send(settings.alert_smtp_url.get_secret_value(), message)
    yield from alerts
