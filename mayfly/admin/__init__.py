"""What operators see and do. The CLI, the HTTP API and the console call only this package for it."""

from mayfly.admin.actions import (
    CANCEL,
    DELAY,
    DISCARD,
    MAX_MATCHING_COUNTED,
    RETRY,
    BulkResult,
    Cancelled,
    OnProgress,
    Verb,
    cancel,
    count_matching,
    count_old,
    delay,
    discard,
    estimate_matching,
    prune_all,
    retry,
)
from mayfly.admin.audit import AuditView, list_audit
from mayfly.admin.batches import abandon_batch, list_batches
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
from mayfly.admin.filters import JobFilter, read_payloads
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
from mayfly.admin.health import (
    HealthSnapshot,
    Problem,
    ProblemKind,
    Severity,
    Status,
    latency_targets,
    problems,
    read_snapshot,
    read_status,
)
from mayfly.admin.job import Family, JobView, Relative, diagnose, read_family, read_job
from mayfly.admin.jobs import (
    MAX_COUNTED,
    MAX_PAGE_SIZE,
    MAX_ROWS_SEARCHED,
    WINDOWS,
    CappedCount,
    DeadGroup,
    DeadGroups,
    JobLine,
    JobPage,
    count_statuses,
    list_dead,
    list_jobs,
    newest,
)
from mayfly.admin.lanes import (
    LaneView,
    LimitView,
    Resumed,
    limits_page,
    list_lanes,
    list_limits,
    pause,
    resume,
    set_lane,
    used_up,
)
from mayfly.admin.why import explain

__all__ = [
    "CANCEL", "DELAY", "DISCARD", "MAX_COUNTED", "MAX_MATCHING_COUNTED", "MAX_PAGE_SIZE", "MAX_ROWS_SEARCHED",
    "PERIODS", "RETRY", "WINDOWS", "AuditView", "BulkResult", "Cancelled", "CappedCount", "ChartPoint",
    "CycleView", "CyclesByMinute", "DeadGroup", "DeadGroups", "Family", "Gap", "HealthSnapshot", "History",
    "HostView", "JobFilter", "JobLine", "JobPage", "JobView", "LaneView", "LimitView", "NewlyDead", "OnProgress",
    "Period", "Problem", "ProblemKind", "Regularity", "Relative", "Resumed", "RunnerView", "Severity", "Status",
    "Verb", "abandon_batch", "cancel", "count_matching", "count_old", "count_statuses", "delay", "diagnose",
    "discard", "estimate_matching", "explain", "is_overrun", "latency_targets", "limits_page", "list_audit",
    "list_batches", "list_cycles", "list_dead", "list_ended", "list_hosts", "list_jobs", "list_lanes",
    "list_limits", "list_minutes", "list_newly_dead", "list_runners", "newest", "pause", "problems", "prune_all",
    "read_family", "read_history", "read_job", "read_payloads", "read_regularity", "read_snapshot", "read_sparks",
    "read_status", "resume", "retry", "runners_named", "set_lane", "used_up",
]  # fmt: skip
