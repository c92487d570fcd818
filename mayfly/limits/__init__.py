"""Limits: at most so many at a time, or so many in a window of time, for each key and in the whole fleet."""
