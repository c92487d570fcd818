"""Outreach: one letter to many, as a batch of mails; nobody gets it twice, and everybody may leave."""

from handlers.outreach.payloads import Ended, Leaving, Outreach
from mayfly import Job, handler

__handlers__ = ()  # all are here; what they need is imported by who writes

LANE = "outreach"


@handler("send_outreach", lane=LANE, requires=("SMTP_ACCOUNTS", "UNSUBSCRIBE_URL", "UNSUBSCRIBE_SECRET"))
def send_outreach(job: Job, outreach: Outreach) -> dict[str, int]:
    from handlers.outreach.blast import fan_out

    return fan_out(job, outreach, LANE)


@handler("close_blast", lane=LANE)
def close_blast(job: Job, ended: Ended) -> dict[str, int]:
    from handlers.outreach.tables import close

    went = ended.batch
    close(job, ended.job, went.done, went.dead, went.cancelled)
    return {"sent": went.done, "failed": went.dead, "cancelled": went.cancelled}


@handler("unsubscribe", lane=LANE, requires=("UNSUBSCRIBE_SECRET",))
def unsubscribe(job: Job, leaving: Leaving) -> dict[str, str]:
    from handlers.outreach.leaving import leave

    return {"address": leave(job, leaving.token)}
