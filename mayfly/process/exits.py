"""The exit codes of every Mayfly process, one meaning each."""

SUCCESS = 0  # nothing to do, or all of it done; a failed job is the job's matter, not the process's
ERROR = 1  # the database, a handler module, or a process that crashed
TIMEOUT = 2  # a guard interrupted a job
USAGE = 64  # wrong options or settings (EX_USAGE; click's own 2 would look like a timeout)
