"""What a lane says of doubt reaches its handlers in real runners, wherever they run."""

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


def test_a_lanes_word_reaches_its_handlers(embedded: Installation) -> None:
    """By the environment or mayfly.toml, as all settings of lanes."""
    (embedded.home / "doubtful.py").write_text(MODULE)
    (embedded.home / "mayfly.toml").write_text('[lanes.blasts]\non_doubt = "hold"\n')
    embedded.settings = {"HANDLERS": "doubtful", "LANES__RECEIPTS__ON_DOUBT": "resend"}
    lanes = {"plain": "receipts", "thread": "receipts", "loop": "receipts", "elsewhere": "blasts"}
    jobs = {name: embedded.enqueue(name, lane=lane)[0] for name, lane in lanes.items()}

    embedded.dispatch()

    told = {name: embedded.job(job_id).result for name, job_id in jobs.items()}
    assert told == {"plain": '"resend"', "thread": '"resend"', "loop": '"resend"', "elsewhere": '"hold"'}
    assert "LANES__RECEIPTS__ON_DOUBT" in embedded.run("mayfly", "config").stdout
