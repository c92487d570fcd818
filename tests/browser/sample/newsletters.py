"""A table of the shop itself, whose rows become jobs."""

from datetime import datetime, timedelta

from sqlalchemy import Connection, text

SOURCE = """
[sources.newsletters]
table = "newsletters"
type = "send_newsletter"
lane = "mail"
run_at = "send_at"
pending = "scheduled"
processing = "sending"
done = "sent"
failed = "failed"
worker_id = "worker_id"
locked_at = "locked_at"
payload = ["subject"]
"""
TABLE = (
    "CREATE TABLE newsletters (id INTEGER PRIMARY KEY, subject VARCHAR(100), send_at DATETIME, status VARCHAR(20),"
    " worker_id VARCHAR(64), locked_at DATETIME)"
)
INSERT = "INSERT INTO newsletters (id, subject, send_at, status) VALUES (:id, :subject, :send_at, :status)"
MONTHS = ("June", "July", "August", "September", "October")


def insert_newsletters(connection: Connection, now: datetime) -> None:
    """Three are due, and one will be."""
    connection.execute(text(TABLE))
    rows = [
        {
            "id": number,
            "subject": f"Our offers in {month}",
            "send_at": (now - timedelta(minutes=40 * (3 - number))).strftime("%Y-%m-%d %H:%M:%S"),
            "status": "sent" if number < 1 else "scheduled",
        }
        for number, month in enumerate(MONTHS)
    ]
    connection.execute(text(INSERT), rows)
