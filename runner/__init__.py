"""One short life: claim a batch, run it, settle it, claim again, and be gone before the minute ends."""
