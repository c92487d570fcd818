"""Limits: a maximum number of jobs at a time, or per window of time, for each key and in the whole fleet."""
