"""Outreach: one email to many recipients (a blast). Each gets it once and can unsubscribe."""

from handlers.outreach.payloads import BlastCallback, Outreach, Unsubscribe
from mayfly import Job, handler

__handlers__ = ()  # all are declared here; the code that they need is imported when a job runs

LANE = "send_outreach"


@handler("send_outreach", lane=LANE, requires=("SMTP_ACCOUNTS", "UNSUBSCRIBE_URL", "UNSUBSCRIBE_SECRET"))
def send_outreach(job: Job, outreach: Outreach) -> dict[str, int]:
    from handlers.outreach.blast import fan_out

    return fan_out(job, outreach, LANE)


@handler("close_blast", lane=LANE)
def close_blast(job: Job, ended: BlastCallback) -> dict[str, int]:
    from handlers.outreach.tables import close

    counts = {"sent": ended.batch.done, "failed": ended.batch.dead, "cancelled": ended.batch.cancelled}
    close(job, ended.job, counts)
    return counts


@handler("unsubscribe", lane=LANE, requires=("UNSUBSCRIBE_SECRET",))
def unsubscribe_recipient(job: Job, wanted: Unsubscribe) -> dict[str, str]:
    from handlers.mail.bulk import unsubscribe_address

    return {"address": unsubscribe_address(job, wanted.token)}
