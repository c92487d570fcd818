"""Recurring rules: read from files in crontab's syntax, and turned into one job for each time that is due."""
