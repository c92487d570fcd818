"""People, boards and posts, notifications, summaries by AI, and the search index."""

from sqlalchemy import BigInteger, CheckConstraint, Column, Integer, String

from handlers.migrations.ddl import create_index, create_table
from handlers.schema import Id, LongText, UtcTimestamp


def create_tables() -> None:
    create_people()
    create_boards()
    create_members()
    create_channels()
    create_posts()
    create_subscriptions()
    create_llm_calls()
    create_llm_balance()
    create_board_summaries()
    create_suggestions()
    create_nudges()
    create_search_tables()
    create_search_pointer()


def create_people() -> None:
    create_table(
        "app_people",
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("email", String(190), nullable=False),
        Column("name", String(190), nullable=False),
        Column("created_at", UtcTimestamp, nullable=False),
    )
    create_index("app_people_email", "app_people", "email", unique=True)


def create_boards() -> None:
    create_table(
        "app_boards",
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("title", String(190), nullable=False),
        Column("state", String(16), nullable=False),
        Column("created_at", UtcTimestamp, nullable=False),
        Column("closed_at", UtcTimestamp),
        Column("archived_at", UtcTimestamp),
        Column("archive", String(190)),
        CheckConstraint("state IN ('open', 'closed', 'archived')", name="app_boards_state"),
    )


def create_members() -> None:
    create_table(
        "app_members",
        Column("board_id", Id, primary_key=True, autoincrement=False),
        Column("person_id", Id, primary_key=True, autoincrement=False),
        Column("joined_at", UtcTimestamp, nullable=False),
    )
    create_index("app_members_person", "app_members", "person_id")


def create_channels() -> None:
    create_table(
        "app_channels",
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("kind", String(16), nullable=False),
        Column("url", String(500), nullable=False),
        Column("credential", String(64), nullable=False),
        CheckConstraint("kind IN ('mastodon', 'webhook')", name="app_channels_kind"),
    )


def create_posts() -> None:
    create_table(
        "app_posts",
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("board_id", Id, nullable=False),
        Column("author_id", Id),
        Column("body", LongText, nullable=False),
        Column("state", String(16), nullable=False),
        Column("created_at", UtcTimestamp, nullable=False),
        Column("channel_id", Id),
        Column("publish_at", UtcTimestamp),
        Column("published_at", UtcTimestamp),
        Column("remote_id", String(190)),
        Column("queued_at", UtcTimestamp),
        CheckConstraint("state IN ('draft', 'scheduled', 'published', 'withdrawn')", name="app_posts_state"),
    )
    create_index("app_posts_board", "app_posts", "board_id", "published_at")
    create_index("app_posts_due", "app_posts", "state", "publish_at")
    create_index("app_posts_in_order", "app_posts", "board_id", "id")  # for exports, page by page


def create_subscriptions() -> None:
    create_table(
        "app_subscriptions",
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("person_id", Id, nullable=False),
        Column("kind", String(16), nullable=False),
        Column("url", String(750), nullable=False),
        Column("p256dh", String(190)),
        Column("auth", String(190)),
        Column("token", String(190)),
        Column("created_at", UtcTimestamp, nullable=False),
        CheckConstraint("kind IN ('webpush', 'webhook', 'ntfy')", name="app_subscriptions_kind"),
    )
    create_index("app_subscriptions_person", "app_subscriptions", "person_id", "url", unique=True)


def create_llm_calls() -> None:
    create_table(
        "app_llm_calls",
        Column("call_key", String(64), primary_key=True),
        Column("job_id", Id, nullable=False),
        Column("purpose", String(32), nullable=False),
        Column("board_id", Id, nullable=False),
        Column("model", String(190), nullable=False),
        Column("state", String(16), nullable=False),
        Column("prompt", LongText, nullable=False),
        Column("answer", LongText),
        Column("error", LongText),
        Column("input_tokens", Integer),
        Column("output_tokens", Integer),
        Column("cost_micros", BigInteger),
        Column("latency_ms", Integer),
        Column("asked_at", UtcTimestamp, nullable=False),
        CheckConstraint("state IN ('open', 'done', 'failed')", name="app_llm_calls_state"),
    )
    create_index("app_llm_calls_job", "app_llm_calls", "job_id")
    create_index("app_llm_calls_asked", "app_llm_calls", "asked_at")


def create_llm_balance() -> None:
    create_table(
        "app_llm_balance",
        Column("account", String(32), primary_key=True),
        Column("balance_micros", BigInteger, nullable=False),
    )


def create_board_summaries() -> None:
    create_table(
        "app_board_summaries",
        Column("board_id", Id, primary_key=True, autoincrement=False),
        Column("summary", LongText, nullable=False),
        Column("posts", Integer, nullable=False),
        Column("job_id", Id, nullable=False),
        Column("written_at", UtcTimestamp, nullable=False),
    )


def create_suggestions() -> None:
    create_table(
        "app_suggestions",
        Column("job_id", Id, primary_key=True, autoincrement=False),
        Column("post_id", Id, nullable=False),
        Column("written_at", UtcTimestamp, nullable=False),
    )
    create_index("app_suggestions_written", "app_suggestions", "written_at")


def create_nudges() -> None:
    create_table(
        "app_nudges",
        Column("board_id", Id, primary_key=True, autoincrement=False),
        Column("day", String(10), primary_key=True),
        Column("state", String(16), nullable=False),
        Column("job_id", Id, nullable=False),
        Column("changed_at", UtcTimestamp, nullable=False),
        CheckConstraint("state IN ('asked', 'silent', 'posted')", name="app_nudges_state"),
    )
    create_index("app_nudges_changed", "app_nudges", "changed_at")


def create_search_tables() -> None:
    create_table(
        "app_search_tables",
        Column("name", String(64), primary_key=True),
        Column("job_id", Id, nullable=False),
        Column("state", String(16), nullable=False),
        CheckConstraint("state IN ('standing', 'dropping')", name="app_search_tables_state"),
    )


def create_search_pointer() -> None:
    create_table(
        "app_search_pointer",
        Column("pointer", String(16), primary_key=True),
        Column("name", String(64), nullable=False),
        Column("entries", BigInteger, nullable=False),
        Column("swapped_at", UtcTimestamp, nullable=False),
    )
