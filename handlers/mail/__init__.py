"""Mail: one message a job, from a pool of accounts, and nobody gets it twice without being asked for."""

from handlers.mail.accounts import limits_of, read_accounts
from handlers.mail.payloads import Mail
from mayfly import Job, handler, setting

__handlers__ = ()  # all are here; what they need is imported by who sends

ACCOUNTS = read_accounts(setting("SMTP_ACCOUNTS", ""))


@handler(
    "send_email",
    lane="send_email",
    timeout=45,
    ack="each",
    requires=("SMTP_ACCOUNTS",),
    takes=limits_of(ACCOUNTS),
)
def send_email(job: Job, mail: Mail) -> dict[str, str]:
    from handlers.mail.delivery import deliver  # smtplib and email, for runners that send

    return deliver(job, mail, ACCOUNTS)
