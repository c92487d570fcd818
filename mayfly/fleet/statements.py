"""Statements about the fleet that an idle cycle sends too: kept where nothing dear is imported."""

# The runners whose end nobody has seen.
LIVE_RUNNERS = (
    "SELECT worker_id, cycle_id, lane, host, machine, pid, pid_started, lease_until, heartbeat_at"
    " FROM mayfly_runners WHERE finished_at IS NULL"
)

# The row by which hosts plan one after the other.
READ_PLAN_LOCK = "SELECT holder, lease_until, number FROM mayfly_locks WHERE name = 'plan'"
# Each who takes it raises the number, so of two who saw the same one only one does.
TAKE_PLAN_LOCK = (
    "UPDATE mayfly_locks SET holder = :holder, lease_until = :lease_until, number = :number"
    " WHERE name = 'plan' AND number = :last_number"
)
RELEASE_PLAN_LOCK = (
    "UPDATE mayfly_locks SET holder = NULL, lease_until = NULL WHERE name = 'plan' AND number = :number"
)
