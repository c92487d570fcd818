"""What people do to jobs and lanes by hand: the same verbs for the terminal, HTTP and Python, each with its deed."""

from mayfly.jobs.operate.cancel import CANCEL, Cancelled, cancel
from mayfly.jobs.operate.delay import DELAY, delay
from mayfly.jobs.operate.discard import DISCARD, discard
from mayfly.jobs.operate.lanes import Resumed, pause, resume, set_lane
from mayfly.jobs.operate.retry import RETRY, retry
from mayfly.jobs.operate.slices import MOST_COUNTED, Done, Tell, Verb, count_found

__all__ = [
    "CANCEL", "DELAY", "DISCARD", "MOST_COUNTED", "RETRY", "Cancelled", "Done", "Resumed", "Tell", "Verb", "cancel",
    "count_found", "delay", "discard", "pause", "resume", "retry", "set_lane",
]  # fmt: skip
