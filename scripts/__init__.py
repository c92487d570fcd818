"""Chores, each a script of its own; what needs more than a screen of shell is Python beside it."""
