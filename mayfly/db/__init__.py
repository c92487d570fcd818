"""One database: connections, transactions with retries, and what differs between servers. Knows no table."""
