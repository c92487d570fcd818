"""A torture test: real dispatchers, producers and servers under injected faults, then a check of every guarantee."""
