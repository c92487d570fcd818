"""Recurring jobs: rules in crontab syntax, read from files. Each due time becomes one job."""

COMMAND = "command"  # the type of jobs that run a command of a schedule file
