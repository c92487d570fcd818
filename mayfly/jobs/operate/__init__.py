"""What people do to jobs and lanes by hand: the same verbs for the terminal, HTTP and Python, each with its deed."""

from mayfly.jobs.operate.cancelling import CANCEL, Cancelled, cancel
from mayfly.jobs.operate.delaying import DELAY, delay
from mayfly.jobs.operate.discarding import DISCARD, discard
from mayfly.jobs.operate.lanes import Resumed, pause, resume, set_lane
from mayfly.jobs.operate.pruning import count_old, prune_all
from mayfly.jobs.operate.retrying import RETRY, retry
from mayfly.jobs.operate.slices import MOST_COUNTED, Done, Tell, Verb, count_found

__all__ = [
    "CANCEL", "DELAY", "DISCARD", "MOST_COUNTED", "RETRY", "Cancelled", "Done", "Resumed", "Tell", "Verb", "cancel",
    "count_found", "count_old", "delay", "discard", "pause", "prune_all", "resume", "retry", "set_lane",
]  # fmt: skip
