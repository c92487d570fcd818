"""The ON_DOUBT setting of a lane reaches its handlers in real runners."""

from tests.process.installation import Installation

MODULE = """
from mayfly import handler

@handler("plain", lane="receipts")
def plain(job):
    return job.on_doubt

@handler("thread", lane="receipts", threads=2)
def thread(job):
    return job.on_doubt

@handler("loop", lane="receipts")
async def loop(job):
    return job.on_doubt

@handler("elsewhere", lane="blasts")
def elsewhere(job):
    return job.on_doubt
"""


def test_on_doubt_reaches_the_handlers_of_a_lane(embedded: Installation) -> None:
    """In plain functions, threads and tasks; from the environment or mayfly.toml."""
    (embedded.home / "doubtful.py").write_text(MODULE)
    (embedded.home / "mayfly.toml").write_text('[lanes.blasts]\non_doubt = "hold"\n')
    embedded.settings = {"HANDLERS": "doubtful", "LANES__RECEIPTS__ON_DOUBT": "resend"}
    lanes = {"plain": "receipts", "thread": "receipts", "loop": "receipts", "elsewhere": "blasts"}
    jobs = {name: embedded.enqueue(name, lane=lane)[0] for name, lane in lanes.items()}

    embedded.dispatch()

    results = {name: embedded.job(job_id).result for name, job_id in jobs.items()}
    assert results == {"plain": '"resend"', "thread": '"resend"', "loop": '"resend"', "elsewhere": '"hold"'}
    assert "LANES__RECEIPTS__ON_DOUBT" in embedded.run("mayfly", "config").stdout
