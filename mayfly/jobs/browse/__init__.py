"""What people and programs look at: every view is a value with `facts()` for JSON, and counts no whole table."""

from mayfly.jobs.browse.capped import MOST_COUNTED, Capped
from mayfly.jobs.browse.cycles import CycleView, HostView, cycles, hosts
from mayfly.jobs.browse.dead import DeadGroup, DeadGroups, dead_groups
from mayfly.jobs.browse.deeds import DeedView, deeds
from mayfly.jobs.browse.job import JobView, job_view
from mayfly.jobs.browse.jobs import LONGEST_PAGE, SEARCHED, JobLine, Page, list_jobs
from mayfly.jobs.browse.lanes import LaneView, lanes
from mayfly.jobs.browse.runners import RunnerView, runners
from mayfly.jobs.browse.status import Status, status

__all__ = [
    "LONGEST_PAGE", "MOST_COUNTED", "SEARCHED", "Capped", "CycleView", "DeadGroup", "DeadGroups", "DeedView",
    "HostView", "JobLine", "JobView", "LaneView", "Page", "RunnerView", "Status", "cycles", "dead_groups", "deeds",
    "hosts", "job_view", "lanes", "list_jobs", "runners", "status",
]  # fmt: skip
