"""The schedules of the shop: the file, and the last due time of each."""

from datetime import datetime, timedelta

from sqlalchemy import Connection, insert

from mayfly.schedules.cron import last_due
from mayfly.schedules.parse import ScheduleEntry
from mayfly.schema.metadata import schedules

# In the directory of the installation: cron.d/schedule.
SCHEDULE = """\
*/5 * * * *   metric_rollup
30 2 * * *    build_report {"kind": "daily"} name=daily_report lane=reports tz=Europe/Berlin overlap=skip
0 7 * * 1-5   send_digest {"audience": "all"} lane=mail tz=Europe/Berlin jitter=5m
15 */6 * * *  import_orders {"source": "marketplace"} lane=imports overlap=skip
@weekly       name=vacuum timeout=30s run: bin/vacuum --quiet
"""
ENTRIES = (
    ScheduleEntry("metric_rollup", "*/5 * * * *", "metric_rollup"),
    ScheduleEntry("daily_report", "30 2 * * *", "build_report", tz="Europe/Berlin"),
    ScheduleEntry("send_digest", "0 7 * * 1-5", "send_digest", tz="Europe/Berlin"),
    ScheduleEntry("import_orders", "15 */6 * * *", "import_orders"),
)
DUE_WITHIN = timedelta(days=3)


def insert_past(connection: Connection, now: datetime) -> None:
    """The weekly one has not been due yet."""
    connection.execute(insert(schedules), [row_of(each, now) for each in ENTRIES])


def row_of(entry: ScheduleEntry, now: datetime) -> dict[str, object]:
    last = last_due(entry.expression, entry.zone, now - DUE_WITHIN, now)
    return {"name": entry.name, "rule": entry.rule, "dealt_until": now, "last_due_at": last}
