"""Tell somebody, by webhook or mail, what a cycle has found: each alert once an hour; and a heartbeat each minute."""
