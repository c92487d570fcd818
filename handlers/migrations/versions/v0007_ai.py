"""What language models were asked and what that cost; what they wrote; and where the search index lies."""

from sqlalchemy import BigInteger, CheckConstraint, Column, Integer, String

from mayfly.schema.migrations.ddl import Id, LongText, UtcDateTime, create_index, create_table

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _traces()
    _texts()
    _search()


def _traces() -> None:
    create_table(
        "app_llm_traces",
        Column("trace_key", String(64), primary_key=True),  # job, claim and number of the call: one a call
        Column("job_id", Id, nullable=False),
        Column("purpose", String(32), nullable=False),
        Column("board_id", Id, nullable=False),
        Column("model", String(190), nullable=False),
        Column("state", String(16), nullable=False),
        Column("prompt", LongText, nullable=False),  # the messages, as JSON
        Column("answer", LongText),
        Column("error", LongText),
        Column("input_tokens", Integer),
        Column("output_tokens", Integer),
        Column("cost_micros", BigInteger),  # millionths; while open, the most that it can cost
        Column("latency_ms", Integer),
        Column("asked_at", UtcDateTime, nullable=False),
        CheckConstraint("state IN ('open', 'done', 'failed')", name="app_llm_traces_state"),
    )
    create_index("app_llm_traces_job", "app_llm_traces", "job_id")
    create_index("app_llm_traces_asked", "app_llm_traces", "asked_at")
    create_table(
        "app_llm_purse",  # what was taken of the budget, and not yet spent
        Column("purse", String(32), primary_key=True),
        Column("balance_micros", BigInteger, nullable=False),
    )


def _texts() -> None:
    create_table(
        "app_board_summaries",
        Column("board_id", Id, primary_key=True, autoincrement=False),
        Column("summary", LongText, nullable=False),
        Column("posts", Integer, nullable=False),
        Column("job_id", Id, nullable=False),
        Column("written_at", UtcDateTime, nullable=False),
    )
    create_table(
        "app_suggestions",  # a draft each: whoever runs the job again finds that it is there
        Column("job_id", Id, primary_key=True, autoincrement=False),
        Column("post_id", Id, nullable=False),
    )
    create_table(
        "app_nudges",  # one a board and day, written before the model is asked
        Column("board_id", Id, primary_key=True, autoincrement=False),
        Column("day", String(10), primary_key=True),  # of UTC, as 2026-05-04
        Column("state", String(16), nullable=False),
        Column("job_id", Id, nullable=False),
        Column("changed_at", UtcDateTime, nullable=False),
        CheckConstraint("state IN ('asked', 'silent', 'posted')", name="app_nudges_state"),
    )


def _search() -> None:
    create_table(
        "app_search_tables",  # each is named here before it is made, so that none is forgotten
        Column("name", String(64), primary_key=True),
        Column("job_id", Id, nullable=False),  # who fills it
        Column("state", String(16), nullable=False),
        CheckConstraint("state IN ('standing', 'dropping')", name="app_search_tables_state"),
    )
    create_table(
        "app_search_pointer",
        Column("pointer", String(16), primary_key=True),
        Column("name", String(64), nullable=False),  # of the table that is searched
        Column("entries", BigInteger, nullable=False),
        Column("swapped_at", UtcDateTime, nullable=False),
    )
