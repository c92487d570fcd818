"""Care: what grows by itself is cut back, figures are added up, and somebody looks whether all is well."""

from datetime import timedelta

from handlers.care.payloads import Figures, Logs, Look, Sessions
from mayfly import Job, handler

__handlers__ = ()  # all are here; what they need is imported by who does the work


@handler("purge_sessions", lane="misc")
def purge_sessions(job: Job, sessions: Sessions) -> dict[str, int]:
    from handlers.care.tables import remove_older

    return {"sessions": remove_older(job, "app_sessions", "seen_at", timedelta(days=sessions.days))}


@handler("vacuum_logs", lane="misc")
def vacuum_logs(job: Job, logs: Logs) -> dict[str, int]:
    from handlers.care.files import vacuum_files
    from handlers.care.tables import remove_older

    rows = remove_older(job, "app_log_rows", "logged_at", timedelta(days=logs.days))
    removed = vacuum_files(job, timedelta(days=logs.file_days), logs.file_bytes)
    return {"rows": rows, "files": len(removed), "bytes": sum(each.size for each in removed)}


@handler("metric_rollup", lane="misc")
def metric_rollup(job: Job, figures: Figures) -> dict[str, int]:
    from handlers.care.rollup import roll_up

    return roll_up(job, timedelta(days=figures.point_days), timedelta(days=figures.minute_days))


# One attempt: the next minute looks again, and what is red is to be told at once.
@handler("health_check", lane="misc", timeout=30, max_attempts=1)
def health_check(job: Job, look: Look) -> dict[str, str]:
    from handlers.care.health import check

    return check(job, look.only)
