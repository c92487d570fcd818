"""The command `mayfly`."""
