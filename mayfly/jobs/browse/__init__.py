"""What people and programs look at: every view is a value with `facts()` for JSON, and counts no whole table."""

from mayfly.jobs.browse.capped import MOST_COUNTED, Capped
from mayfly.jobs.browse.cycles import CycleView, HostView, list_cycles, list_hosts
from mayfly.jobs.browse.dead import WINDOWS, DeadGroup, DeadGroups, list_dead, newest
from mayfly.jobs.browse.deeds import DeedView, list_deeds
from mayfly.jobs.browse.family import Family, Relative, read_family
from mayfly.jobs.browse.fields import read_payloads
from mayfly.jobs.browse.history import PERIODS, History, Period, Point, read_history
from mayfly.jobs.browse.job import JobView, read_job
from mayfly.jobs.browse.jobs import LONGEST_PAGE, SEARCHED, JobLine, Page, list_jobs
from mayfly.jobs.browse.lanes import LaneView, list_lanes
from mayfly.jobs.browse.lately import NewlyDead, list_newly_dead, read_sparks
from mayfly.jobs.browse.minutes import Gap, Minutes, Regularity, is_overrun, list_minutes, read_regularity
from mayfly.jobs.browse.runners import RunnerView, list_ended, list_runners, runners_named
from mayfly.jobs.browse.status import Status, read_status
from mayfly.jobs.browse.tabs import count_statuses

__all__ = [
    "LONGEST_PAGE", "MOST_COUNTED", "PERIODS", "SEARCHED", "WINDOWS", "Capped", "CycleView", "DeadGroup",
    "DeadGroups", "DeedView", "Family", "Gap", "History", "HostView", "JobLine", "JobView", "LaneView", "Minutes",
    "NewlyDead", "Page", "Period", "Point", "Regularity", "Relative", "RunnerView", "Status", "count_statuses",
    "is_overrun", "list_cycles", "list_dead", "list_deeds", "list_ended", "list_hosts", "list_jobs", "list_lanes",
    "list_minutes", "list_newly_dead", "list_runners", "newest", "read_family", "read_history", "read_job",
    "read_payloads", "read_regularity", "read_sparks", "read_status", "runners_named",
]  # fmt: skip
