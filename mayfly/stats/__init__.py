"""Figures about settled jobs and finished cycles: per cycle, per period, and since installation."""
