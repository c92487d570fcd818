"""People who may become customers: where each came from, who was merged into whom, and what others know of them."""

from sqlalchemy import CheckConstraint, Column, Float, Integer, String

from mayfly.schema.migrations.ddl import Id, LongText, UtcDateTime, create_index, create_table

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _create_prospects()
    create_table(
        "app_merges",
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("winner_id", Id, nullable=False),
        Column("loser_id", Id, nullable=False),
        Column("rule", String(16), nullable=False),
        Column("score", Float, nullable=False),  # 100: the same
        Column("changes", LongText, nullable=False),  # JSON: of the winner, each field before and after
        Column("job_id", Id, nullable=False),
        Column("merged_at", UtcDateTime, nullable=False),
        Column("undone_at", UtcDateTime),
        Column("undone_by", Id),  # the job
        CheckConstraint("rule IN ('mail', 'likeness')", name="app_merges_rule"),
    )
    create_index("app_merges_winner", "app_merges", "winner_id")
    create_index("app_merges_loser", "app_merges", "loser_id")
    create_index("app_merges_job", "app_merges", "job_id")
    create_table(
        "app_answers",
        Column("provider", String(32), primary_key=True),
        Column("question_key", String(64), primary_key=True),  # of the question: its SHA-256
        Column("question", LongText, nullable=False),
        Column("answer", LongText, nullable=False),  # JSON: as much of it as is used
        Column("answered_at", UtcDateTime, nullable=False),
    )


def _create_prospects() -> None:
    create_table(
        "app_prospects",
        Column("id", Id, primary_key=True, autoincrement=True),
        *(Column(name, String(190)) for name in ("email", "name", "company", "title", "phone")),
        *(Column(name, String(500)) for name in ("website", "linkedin")),
        *(Column(name, String(190)) for name in ("city", "country")),
        Column("notes", LongText),
        Column("email_status", String(32)),  # as the verifier calls it
        Column("email_score", Integer),
        # What likeness is looked for by: made of the fields above, NULL where they do not suffice.
        *(Column(name, String(190)) for name in ("email_key", "by_name", "by_company")),
        Column("merged_into", Id),  # another prospect: this one is kept, but no longer counts
        Column("import_id", Id),  # the job; NULL: came in some other way
        Column("line", Id),  # of its file
        Column("created_at", UtcDateTime, nullable=False),
        Column("updated_at", UtcDateTime, nullable=False),
        Column("enriched_at", UtcDateTime),
    )
    create_index("app_prospects_line", "app_prospects", "import_id", "line", unique=True)
    for name in ("email_key", "by_name", "by_company"):
        create_index(f"app_prospects_{name}", "app_prospects", "merged_into", name)
