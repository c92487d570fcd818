"""The HTTP API, and later the web page beside it. What it may import of ours: mayfly."""
