"""Campaigns: messages in steps by email, SMS and voice, in business hours, from accounts in warm-up."""

from handlers.campaigns.payloads import (
    CampaignStart,
    CancelledRun,
    ContactEvent,
    NoFields,
    SenderProblem,
    StepMessage,
    StepPlan,
)
from handlers.outages import SURVIVES_OUTAGE
from mayfly import Dead, Job, handler

__handlers__ = ()  # all are declared here; the code that they need is imported when a job runs
__commands__ = {"campaigns": "handlers.campaigns.cli"}

START_LANE, PLAN_LANE = "send_campaign", "send_campaign_step"


@handler("send_campaign", lane=START_LANE)
def send_campaign(job: Job, start: CampaignStart) -> dict[str, int]:
    from handlers.campaigns.enrolment import enrol

    return enrol(job, start.campaign)


@handler("send_campaign_step", lane=PLAN_LANE)
def send_campaign_step(job: Job, plan: StepPlan) -> dict[str, int]:
    from handlers.campaigns.planning import plan_step

    return plan_step(job, plan.campaign, plan.step)


@handler(
    "send_step_email",
    lane="email",
    timeout=45,
    ack="each",
    requires=("UNSUBSCRIBE_URL", "UNSUBSCRIBE_SECRET"),
    **SURVIVES_OUTAGE,
)
def send_step_email(job: Job, message: StepMessage) -> dict[str, str]:
    from handlers.campaigns.delivery import send_step  # smtplib, email and HTTP, for runners that send

    return send_step(job, message, "email")


@handler("send_step_sms", lane="sms", timeout=45, ack="each", **SURVIVES_OUTAGE)
def send_step_sms(job: Job, message: StepMessage) -> dict[str, str]:
    from handlers.campaigns.delivery import send_step

    return send_step(job, message, "sms")


@handler("send_step_voicemail", lane="voicemail", timeout=45, ack="each", **SURVIVES_OUTAGE)
def send_step_voicemail(job: Job, message: StepMessage) -> dict[str, str]:
    from handlers.campaigns.delivery import send_step

    return send_step(job, message, "voicemail")


@handler("cancel_active_step", lane=START_LANE)
def cancel_active_step(job: Job, cancelled: CancelledRun) -> dict[str, int]:
    from handlers.campaigns.closing import cancel_run

    return cancel_run(job, cancelled)


@handler("record_contact_event", lane=START_LANE)
def record_contact_event(job: Job, event: ContactEvent) -> dict[str, int]:
    from handlers.campaigns.contact_events import record_event

    return record_event(job, event)


@handler("report_sender", lane=START_LANE)
def report_sender(_job: Job, problem: SenderProblem) -> None:
    """Dead, so that operators are alerted."""
    raise Dead(f"the sender account {problem.sender} has a cooldown: {problem.reason}")


@handler("reset_warmup", lane=START_LANE)
def reset_warmup(job: Job, _fields: NoFields) -> dict[str, int]:
    from handlers.campaigns.warmup import reset_all

    return reset_all(job)


@handler("process_followups", lane=START_LANE)
def process_followups(job: Job, _fields: NoFields) -> dict[str, int]:
    from handlers.campaigns.planning import enqueue_followups

    return enqueue_followups(job)


@handler("close_campaigns", lane=START_LANE)
def close_campaigns(job: Job, _fields: NoFields) -> dict[str, int]:
    from handlers.campaigns.closing import close_all

    return close_all(job)
