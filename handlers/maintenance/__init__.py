"""Maintenance jobs: delete old rows and log files, aggregate metrics, check the health of host and services."""

from datetime import timedelta

from handlers.maintenance.payloads import CheckHealth, PruneRecords, PurgeSessions, RollUpMetrics, VacuumLogs
from mayfly import Job, handler

__handlers__ = ()  # all are declared here; the code that they need is imported when a job runs


@handler("purge_sessions", lane="purge_sessions")
def purge_sessions(job: Job, wanted: PurgeSessions) -> dict[str, int]:
    from handlers.maintenance.purge import purge
    from handlers.maintenance.tables import sessions

    return {"sessions": purge(job, sessions, "seen_at", timedelta(days=wanted.days))}


@handler("vacuum_logs", lane="vacuum_logs")
def vacuum_logs(job: Job, wanted: VacuumLogs) -> dict[str, int]:
    from handlers.maintenance.log_files import delete_log_files
    from handlers.maintenance.purge import purge
    from handlers.maintenance.tables import log_rows

    rows = purge(job, log_rows, "logged_at", timedelta(days=wanted.days))
    deleted = delete_log_files(job, timedelta(days=wanted.file_days), wanted.file_bytes)
    return {"rows": rows, "files": len(deleted), "bytes": sum(each.size_bytes for each in deleted)}


@handler("prune_records", lane="vacuum_logs")
def prune_records(job: Job, _nothing: PruneRecords) -> dict[str, int]:
    from handlers.maintenance.retention import prune

    return prune(job)


@handler("metric_rollup", lane="metric_rollup")
def metric_rollup(job: Job, wanted: RollUpMetrics) -> dict[str, int]:
    from handlers.maintenance.rollup import roll_up

    return roll_up(job, timedelta(days=wanted.point_days), timedelta(days=wanted.minute_days))


# One attempt: the next job checks again, and a new problem is reported at once.
@handler("health_check", lane="health_check", timeout=30, max_attempts=1)
def health_check(job: Job, wanted: CheckHealth) -> dict[str, str]:
    from handlers.maintenance.health import check

    return check(job, wanted.only)
