"""What people and programs look at: every view is a value with `facts()` for JSON, and counts no whole table."""

from mayfly.jobs.browse.capped import MOST_COUNTED, Capped
from mayfly.jobs.browse.cycles import CycleView, HostView, list_cycles, list_hosts
from mayfly.jobs.browse.dead import DeadGroup, DeadGroups, list_dead
from mayfly.jobs.browse.deeds import DeedView, list_deeds
from mayfly.jobs.browse.history import PERIODS, History, Period, Point, read_history
from mayfly.jobs.browse.job import JobView, read_job
from mayfly.jobs.browse.jobs import LONGEST_PAGE, SEARCHED, JobLine, Page, list_jobs
from mayfly.jobs.browse.lanes import LaneView, list_lanes
from mayfly.jobs.browse.lately import NewlyDead, list_newly_dead, read_sparks
from mayfly.jobs.browse.minutes import Gap, Minutes, Regularity, is_overrun, list_minutes, read_regularity
from mayfly.jobs.browse.runners import RunnerView, list_runners
from mayfly.jobs.browse.status import Status, read_status

__all__ = [
    "LONGEST_PAGE", "MOST_COUNTED", "PERIODS", "SEARCHED", "Capped", "CycleView", "DeadGroup", "DeadGroups",
    "DeedView", "Gap", "History", "HostView", "JobLine", "JobView", "LaneView", "Minutes", "NewlyDead", "Page",
    "Period", "Point", "Regularity", "RunnerView", "Status", "is_overrun", "list_cycles", "list_dead", "list_deeds",
    "list_hosts", "list_jobs", "list_lanes", "list_minutes", "list_newly_dead", "list_runners", "read_history",
    "read_job", "read_regularity", "read_sparks", "read_status",
]  # fmt: skip
