"""Every screen of the console, each with an address that shows data."""

from tests.process.installation import Installation

# By the name of its screenshot; {dead}, {running} and {waiting} are ids of jobs.
SCREENS = {
    "overview": "/",
    "lanes": "/lanes",
    "jobs": "/jobs?status=pending",
    "job": "/jobs/{dead}",
    "dead": "/dead",
    "batches": "/batches",
    "types": "/types",
    "type": "/types?name=send_email",
    "schedules": "/schedules",
    "cycles": "/cycles",
    "runners": "/runners",
    "limits": "/limits",
    "sources": "/sources",
    "audit": "/audit",
    "settings": "/settings",
    "enqueue": "/enqueue?type=send_email",
}


def address_of(screen: str, installation: Installation) -> str:
    """With the newest job of each kind."""
    kinds = {"dead": "dead", "running": "processing", "waiting": "pending"}
    rows = installation.rows("SELECT status, MAX(id) AS newest FROM mayfly_jobs GROUP BY status")
    newest = {row.status: row.newest for row in rows}
    return SCREENS[screen].format(**{kind: newest.get(status) for kind, status in kinds.items()})
