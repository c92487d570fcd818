"""Where people are told, what grows by itself (sessions, log rows, figures), and what the last looks found."""

from sqlalchemy import CheckConstraint, Column, Double, Integer, SmallInteger, String

from mayfly.schema.migrations.ddl import Id, JsonText, LongText, UtcDateTime, create_index, create_table

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_subscriptions()
    create_growing()
    create_figures()
    create_table(
        "app_health",
        Column("job_id", Id, primary_key=True, autoincrement=False),  # a look that is run again finds its own row
        Column("checked_at", UtcDateTime, nullable=False),
        Column("host", String(64), nullable=False),
        Column("worst", String(8), nullable=False),
        Column("findings", JsonText, nullable=False),
        CheckConstraint("worst IN ('green', 'yellow', 'red')", name="app_health_worst"),
    )
    create_index("app_health_time", "app_health", "checked_at")


def create_subscriptions() -> None:
    create_table(
        "app_subscriptions",
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("person_id", Id, nullable=False),
        Column("kind", String(16), nullable=False),
        Column("url", String(750), nullable=False),  # whoever knows it can push: as good as a password
        Column("p256dh", String(190)),  # the browser's public key, base64url
        Column("auth", String(190)),  # the secret it shares with us, base64url
        Column("token", String(190)),  # of ntfy
        Column("created_at", UtcDateTime, nullable=False),
        CheckConstraint("kind IN ('webpush', 'webhook', 'ntfy')", name="app_subscriptions_kind"),
    )
    create_index("app_subscriptions_person", "app_subscriptions", "person_id", "url", unique=True)


def create_growing() -> None:
    create_table(
        "app_sessions",
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("person_id", Id, nullable=False),
        Column("token_hash", String(64), nullable=False),
        Column("created_at", UtcDateTime, nullable=False),
        Column("seen_at", UtcDateTime, nullable=False),  # used last
    )
    create_index("app_sessions_token", "app_sessions", "token_hash", unique=True)
    create_index("app_sessions_seen", "app_sessions", "seen_at")
    create_table(
        "app_log_rows",
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("logged_at", UtcDateTime, nullable=False),
        Column("level", String(16), nullable=False),
        Column("message", LongText, nullable=False),
    )
    create_index("app_log_rows_time", "app_log_rows", "logged_at")


def create_figures() -> None:
    create_table(
        "app_metric_points",
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("name", String(64), nullable=False),
        Column("measured_at", UtcDateTime, nullable=False),
        Column("value", Double, nullable=False),
        Column("counted", SmallInteger, nullable=False, server_default="0"),  # 1: it is in the rollups
    )
    create_index("app_metric_points_due", "app_metric_points", "counted", "id")
    create_index("app_metric_points_time", "app_metric_points", "measured_at")
    create_table(
        "app_metric_rollups",
        Column("span", String(8), primary_key=True),
        Column("name", String(64), primary_key=True),
        Column("begins_at", UtcDateTime, primary_key=True),
        Column("points", Integer, nullable=False),
        Column("total", Double, nullable=False),
        Column("lowest", Double),
        Column("highest", Double),
        CheckConstraint("span IN ('minute', 'hour', 'day')", name="app_metric_rollups_span"),
    )
    create_index("app_metric_rollups_time", "app_metric_rollups", "span", "begins_at")
