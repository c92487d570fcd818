"""Maintenance scripts. Anything longer than a screen of shell is a Python module."""
