"""One runner: claim a batch, run it, settle it, claim again, and exit before the minute ends."""
