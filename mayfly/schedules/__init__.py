"""Recurring rules: read from files in crontab's syntax, and turned into one job for each time that is due."""

COMMAND = "command"  # the type of jobs that run what a schedule file names
