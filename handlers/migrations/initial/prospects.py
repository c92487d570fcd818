"""Prospects, how they were merged, and answers of providers."""

from sqlalchemy import CheckConstraint, Column, Float, Integer, String

from handlers.migrations.ddl import create_index, create_table
from handlers.schema import Id, LongText, UtcTimestamp


def create_tables() -> None:
    create_prospects()
    create_cached_answers()
    create_merges()
    create_merge_proposals()


def create_prospects() -> None:
    create_table(
        "app_prospects",
        Column("id", Id, primary_key=True, autoincrement=True),
        *(Column(name, String(190)) for name in ("email", "name", "company", "title", "phone")),
        *(Column(name, String(500)) for name in ("website", "linkedin")),
        *(Column(name, String(190)) for name in ("city", "country")),
        Column("notes", LongText),
        Column("email_status", String(32)),
        Column("email_score", Integer),
        *(Column(name, String(190)) for name in ("email_key", "by_name", "by_company")),
        Column("merged_into", Id),
        Column("import_id", Id),
        Column("line", Id),
        Column("created_at", UtcTimestamp, nullable=False),
        Column("updated_at", UtcTimestamp, nullable=False),
        Column("enriched_at", UtcTimestamp),
    )
    create_index("app_prospects_line", "app_prospects", "import_id", "line", unique=True)
    for name in ("email_key", "by_name", "by_company"):
        create_index(f"app_prospects_{name}", "app_prospects", "merged_into", name)


def create_cached_answers() -> None:
    create_table(
        "app_cached_answers",
        Column("provider", String(32), primary_key=True),
        Column("question_key", String(64), primary_key=True),
        Column("question", LongText, nullable=False),
        Column("answer", LongText, nullable=False),
        Column("answered_at", UtcTimestamp, nullable=False),
    )
    create_index("app_cached_answers_time", "app_cached_answers", "answered_at")


def create_merges() -> None:
    create_table(
        "app_merges",
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("winner_id", Id, nullable=False),
        Column("loser_id", Id, nullable=False),
        Column("rule", String(16), nullable=False),
        Column("score", Float, nullable=False),
        Column("changes", LongText, nullable=False),
        Column("job_id", Id, nullable=False),
        Column("merged_at", UtcTimestamp, nullable=False),
        Column("undone_at", UtcTimestamp),
        Column("undone_by", Id),
        CheckConstraint("rule IN ('mail', 'similarity', 'review')", name="app_merges_rule"),
    )
    create_index("app_merges_winner", "app_merges", "winner_id")
    create_index("app_merges_loser", "app_merges", "loser_id")
    create_index("app_merges_job", "app_merges", "job_id")


def create_merge_proposals() -> None:
    create_table(
        "app_merge_proposals",
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("winner_id", Id, nullable=False),
        Column("loser_id", Id, nullable=False),
        Column("score", Float, nullable=False),
        Column("state", String(16), nullable=False),
        Column("job_id", Id, nullable=False),
        Column("proposed_at", UtcTimestamp, nullable=False),
        Column("reviewed_at", UtcTimestamp),
        CheckConstraint("state IN ('open', 'merged', 'rejected', 'obsolete')", name="app_merge_proposals_state"),
    )
    create_index("app_merge_proposals_pair", "app_merge_proposals", "winner_id", "loser_id", unique=True)
    create_index("app_merge_proposals_state", "app_merge_proposals", "state", "proposed_at")
    create_index("app_merge_proposals_job", "app_merge_proposals", "job_id")
