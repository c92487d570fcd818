"""What a lane says of doubt reaches its handlers in real runners, wherever they run."""

import pytest

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


@pytest.mark.parametrize("order", ["handlers,shop", "shop,handlers"])
def test_an_application_with_a_send_email_of_its_own_is_told(embedded: Installation, order: str) -> None:
    """Both cannot be; the sentence names both and says what to do."""
    (embedded.home / "shop.py").write_text(
        "from mayfly import handler\n\n@handler('send_email')\ndef send_email(job):\n    pass\n"
    )

    said = embedded.run("mayfly", "doctor", HANDLERS=order).stdout

    assert "The handler for send_email (" in said
    assert ") is declared already, as " in said
    assert "handlers.mail.send_email" in said
    assert "shop.send_email" in said
    assert ": rename one, or remove its module from HANDLERS." in said
