"""What all areas speak of: people, the boards they are members of, posts, and the channels these are published to."""

from sqlalchemy import CheckConstraint, Column, String

from mayfly.schema.migrations.ddl import Id, LongText, UtcDateTime, create_index, create_table

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_people()
    create_boards()
    create_posts()


def create_people() -> None:
    create_table(
        "app_people",
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("email", String(190), nullable=False),
        Column("name", String(190), nullable=False),
        Column("created_at", UtcDateTime, nullable=False),
    )
    create_index("app_people_email", "app_people", "email", unique=True)


def create_boards() -> None:
    create_table(
        "app_boards",
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("title", String(190), nullable=False),
        Column("state", String(16), nullable=False),
        Column("created_at", UtcDateTime, nullable=False),
        Column("closed_at", UtcDateTime),
        Column("archived_at", UtcDateTime),
        Column("archive", String(190)),  # the zip file's name
        CheckConstraint("state IN ('open', 'closed', 'archived')", name="app_boards_state"),
    )
    create_table(
        "app_members",
        Column("board_id", Id, primary_key=True, autoincrement=False),
        Column("person_id", Id, primary_key=True, autoincrement=False),
        Column("joined_at", UtcDateTime, nullable=False),
    )
    create_index("app_members_person", "app_members", "person_id")


def create_posts() -> None:
    create_table(
        "app_channels",
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("kind", String(16), nullable=False),
        Column("url", String(500), nullable=False),
        Column("credential", String(64), nullable=False),  # the name of the setting that holds it, never itself
        CheckConstraint("kind IN ('mastodon', 'webhook')", name="app_channels_kind"),
    )
    create_table(
        "app_posts",
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("board_id", Id, nullable=False),
        Column("author_id", Id),  # NULL: the co-facilitator, who is no person
        Column("body", LongText, nullable=False),
        Column("state", String(16), nullable=False),
        Column("created_at", UtcDateTime, nullable=False),
        Column("channel_id", Id),  # where it goes besides its board
        Column("publish_at", UtcDateTime),
        Column("published_at", UtcDateTime),
        Column("remote_id", String(190)),  # as the channel calls it
        CheckConstraint("state IN ('draft', 'scheduled', 'published', 'withdrawn')", name="app_posts_state"),
    )
    create_index("app_posts_board", "app_posts", "board_id", "published_at")
    create_index("app_posts_due", "app_posts", "state", "publish_at")
