"""Recurring jobs: rules in crontab's syntax, read from files, that become one job per due time."""

COMMAND = "command"  # the type of jobs that run a command of a schedule file
