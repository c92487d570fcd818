"""The mail room: inbound mail, deliveries, bounces, warm-up, daily figures, webhooks."""

from typing import Any

from handlers.mail import ACCOUNTS
from handlers.mail.accounts import limits_of
from handlers.mailroom.payloads import (
    BounceReport,
    CampaignEmail,
    DailyRange,
    InboundEmail,
    MailboxPoll,
    MailPruning,
    ProviderEvents,
    WarmupPlan,
    WarmupStep,
    WebhookTask,
)
from handlers.outages import SURVIVES_OUTAGE, SURVIVES_THREE_DAYS
from mayfly import Dead, Job, concurrency, handler

__handlers__ = ()  # all are declared here; the code that they need is imported when a job runs
__commands__ = {"mailroom": "handlers.mailroom.cli"}
__routes__ = {"mail": "handlers.mailroom.routes"}

INBOUND_LANE, SENDING_LANE, BOUNCE_LANE = "email_processing", "email_sending", "bounce"
ANALYTICS_LANE, WEBHOOK_LANE, WARMUP_LANE = "analytics", "webhook", "warmup"


# --- inbound mail, deliveries, bounces --------------------------------------------------------------------


@handler("process_inbound_email", lane=INBOUND_LANE, timeout=45, **SURVIVES_OUTAGE)
def process_inbound_email(job: Job, email: InboundEmail) -> dict[str, Any]:
    try:
        from handlers.mailroom.inbound import process  # email, lxml and flufl.bounce
    except ModuleNotFoundError as error:
        raise missing_extra(error) from None
    return process(job, email)


@handler("poll_mailboxes", lane=INBOUND_LANE)
def poll_mailboxes(job: Job, poll: MailboxPoll) -> dict[str, int]:
    """Read new messages of one account over IMAP, or enqueue one job per account."""
    from handlers.mailroom.mailboxes import enqueue_polls, poll_account

    if poll.email_account_id is None:
        return enqueue_polls(job, poll.folder)
    return poll_account(job, poll.email_account_id, poll.folder)


@handler("process_bounce", lane=BOUNCE_LANE, timeout=45, **SURVIVES_OUTAGE)
def process_bounce(job: Job, report: BounceReport) -> dict[str, int]:
    try:
        from handlers.mailroom.bounces import process
    except ModuleNotFoundError as error:
        raise missing_extra(error) from None
    return process(job, report)


@handler(
    "send_campaign_email",
    lane=SENDING_LANE,
    timeout=45,
    ack="each",
    requires=("SMTP_ACCOUNTS", "UNSUBSCRIBE_URL", "UNSUBSCRIBE_SECRET"),
    takes=limits_of(ACCOUNTS),
    **SURVIVES_OUTAGE,
)
def send_campaign_email(job: Job, email: CampaignEmail) -> dict[str, Any]:
    from handlers.mailroom.campaign_mail import send  # smtplib and email, for runners that send

    return send(job, email, ACCOUNTS)


@handler("prune_mail", lane="vacuum_logs")
def prune_mail(job: Job, _nothing: MailPruning) -> dict[str, int]:
    from handlers.mailroom.retention import prune

    return prune(job)


# --- daily figures, webhooks, warm-up ---------------------------------------------------------------------


@handler("aggregate_daily", lane=ANALYTICS_LANE)
def aggregate_daily(job: Job, wanted: DailyRange) -> dict[str, int]:
    from handlers.mailroom.daily_figures import aggregate

    return aggregate(job, wanted)


@handler("process_webhook", lane=WEBHOOK_LANE, timeout=45, **SURVIVES_OUTAGE)
def process_webhook(job: Job, wanted: ProviderEvents) -> dict[str, int]:
    """Of a mail provider."""
    try:
        from handlers.mailroom.delivery_events import process
    except ModuleNotFoundError as error:
        raise missing_extra(error) from None
    return process(job, wanted)


@handler(
    "deliver_webhook",
    lane=WEBHOOK_LANE,
    timeout=40,
    threads=8,
    limits=concurrency("webhook:{endpoint}", 2),
    **SURVIVES_THREE_DAYS,
)
def deliver_webhook(job: Job, task: WebhookTask) -> dict[str, str]:
    """To an endpoint of a tenant."""
    from handlers.mailroom.tenant_webhooks import deliver

    return deliver(job, task)


@handler("process_warmup", lane=WARMUP_LANE, timeout=45, ack="each", **SURVIVES_OUTAGE)
def process_warmup(job: Job, step: WarmupStep) -> dict[str, int]:
    from handlers.mailroom.warmup import run_step  # smtplib and imaplib, for runners that use them

    return run_step(job, step)


@handler("plan_warmup", lane=WARMUP_LANE)
def plan_warmup(job: Job, _nothing: WarmupPlan) -> dict[str, int]:
    """Scheduled every hour: days begin at different times."""
    from handlers.mailroom.warmup_plan import plan_all

    return plan_all(job)


def missing_extra(error: ModuleNotFoundError) -> Dead:
    return Dead(f"the mail room needs {error.name}: pip install 'mayfly-jobs[mailroom]'")
