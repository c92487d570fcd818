"""Email: one message per job, sent once, from a pool of accounts; digests and invoices."""

from handlers.mail.accounts import limits_of, read_accounts
from handlers.mail.payloads import Digest, Invoice, Mail
from handlers.outages import SURVIVES_OUTAGE
from mayfly import Job, handler, setting

__handlers__ = ()  # all are declared here; the code that they need is imported when a job runs

ACCOUNTS = read_accounts(setting("SMTP_ACCOUNTS", ""))


@handler(
    "send_email",
    lane="send_email",
    timeout=45,
    ack="each",
    requires=("SMTP_ACCOUNTS",),
    takes=limits_of(ACCOUNTS),
    **SURVIVES_OUTAGE,
)
def send_email(job: Job, mail: Mail) -> dict[str, str]:
    from handlers.mail.delivery import deliver  # smtplib and email, for runners that send

    return deliver(job, mail, ACCOUNTS)


@handler("send_digest", lane="send_digest", requires=("UNSUBSCRIBE_URL", "UNSUBSCRIBE_SECRET"))
def send_digest(job: Job, digest: Digest) -> dict[str, int]:
    """Send the digest of one person, or enqueue one job per person with news."""
    from handlers.mail.digest import send_all, send_one

    return send_all(job) if digest.person is None else send_one(job, digest.person)


@handler("send_invoice", lane="send_email", timeout=40, requires=("INVOICE_SELLER", "MAIL_ATTACHMENTS"))
def send_invoice(job: Job, invoice: Invoice) -> dict[str, str]:
    from handlers.mail.invoice import send  # reportlab, for runners that print

    return send(job, invoice)
