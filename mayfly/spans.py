"""A time as people say it: how long it is, and when it was. Pure."""

from datetime import UTC, datetime, timedelta


def span(time: timedelta) -> str:
    """In the largest unit of which there are two: 90 s, 7 min, 3 h, 2 days."""
    seconds = max(0, round(time.total_seconds()))
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 7200:
        return f"{seconds // 60} min"
    return f"{seconds // 3600} h" if seconds < 172_800 else f"{seconds // 86_400} days"


def moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
