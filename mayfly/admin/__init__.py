"""What operators see and do. The CLI, the HTTP API and the console call nothing else for it."""

from mayfly.admin.actions import (
    CANCEL,
    DELAY,
    DISCARD,
    RETRY,
    Cancelled,
    cancel,
    count_old,
    delay,
    discard,
    prune_all,
    retry,
)
from mayfly.admin.audit import AuditView, list_audit
from mayfly.admin.bulk import MAX_MATCHING_COUNTED, BulkResult, OnProgress, Verb, count_matching
from mayfly.admin.charts import (
    PERIODS,
    ChartPoint,
    History,
    NewlyDead,
    Period,
    list_newly_dead,
    read_history,
    read_sparks,
)
from mayfly.admin.dead import WINDOWS, DeadGroup, DeadGroups, list_dead, newest
from mayfly.admin.filters import read_payloads
from mayfly.admin.fleet import (
    CyclesByMinute,
    CycleView,
    Gap,
    HostView,
    Regularity,
    RunnerView,
    is_overrun,
    list_cycles,
    list_ended,
    list_hosts,
    list_minutes,
    list_runners,
    read_regularity,
    runners_named,
)
from mayfly.admin.health import Status, read_status
from mayfly.admin.job import Family, JobView, Relative, read_family, read_job
from mayfly.admin.jobs import (
    MAX_COUNTED,
    MAX_PAGE_SIZE,
    MAX_ROWS_SEARCHED,
    CappedCount,
    JobLine,
    JobPage,
    count_statuses,
    list_jobs,
)
from mayfly.admin.lanes import LaneView, Resumed, list_lanes, pause, resume, set_lane

__all__ = [
    "CANCEL", "DELAY", "DISCARD", "MAX_COUNTED", "MAX_MATCHING_COUNTED", "MAX_PAGE_SIZE", "MAX_ROWS_SEARCHED",
    "PERIODS", "RETRY", "WINDOWS", "AuditView", "BulkResult", "Cancelled", "CappedCount", "ChartPoint",
    "CycleView", "CyclesByMinute", "DeadGroup", "DeadGroups", "Family", "Gap", "History", "HostView",
    "JobLine", "JobPage", "JobView", "LaneView", "NewlyDead", "OnProgress", "Period", "Regularity",
    "Relative", "Resumed", "RunnerView", "Status", "Verb", "cancel", "count_matching", "count_old",
    "count_statuses", "delay", "discard", "is_overrun", "list_audit", "list_cycles", "list_dead",
    "list_ended", "list_hosts", "list_jobs", "list_lanes", "list_minutes", "list_newly_dead", "list_runners",
    "newest", "pause", "prune_all", "read_family", "read_history", "read_job", "read_payloads",
    "read_regularity", "read_sparks", "read_status", "resume", "retry", "runners_named", "set_lane",
]  # fmt: skip
