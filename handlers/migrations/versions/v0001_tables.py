"""The app_ tables of all areas. The columns are described in handlers/*/tables.py."""

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    Column,
    Double,
    Float,
    Integer,
    SmallInteger,
    String,
)

from handlers.migrations.ddl import create_index, create_table, tenant_column
from handlers.schema import Id, LongText, UtcTimestamp

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_shared_tables()
    create_boards()
    create_mail()
    create_outreach()
    create_notify()
    create_maintenance()
    create_metrics()
    create_prospects()
    create_ai()
    create_search()
    create_campaigns()
    create_contacts()
    create_senders()


def create_shared_tables() -> None:
    create_table(
        "app_idempotency",
        Column("effect_key", String(190), primary_key=True),
        Column("kind", String(32), nullable=False),
        Column("state", String(16), nullable=False),
        Column("job_id", Id, nullable=False),
        Column("claims", Integer, nullable=False),
        Column("provider", String(190)),
        Column("answer", LongText),
        Column("changed_at", UtcTimestamp, nullable=False),
        CheckConstraint("state IN ('open', 'handed over', 'done')", name="app_idempotency_state"),
    )
    create_index("app_idempotency_doubts", "app_idempotency", "state", "changed_at")
    create_table(
        "app_cooldowns",
        Column("provider", String(190), primary_key=True),
        Column("until_at", UtcTimestamp, nullable=False),
        Column("reason", LongText, nullable=False),
    )
    create_table(
        "app_suppressions",
        tenant_column(primary_key=True),
        Column("address", String(190), primary_key=True),
        Column("reason", String(16), nullable=False),
        Column("detail", LongText),
        Column("created_at", UtcTimestamp, nullable=False),
        CheckConstraint(
            "reason IN ('bounced', 'unsubscribed', 'complained', 'by hand')", name="app_suppressions_reason"
        ),
        # An address that is inserted by plain SQL must be canonical, or it would have no effect.
        CheckConstraint("address = LOWER(address)", name="app_suppressions_lower_case"),
    )


def create_boards() -> None:
    create_table(
        "app_people",
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("email", String(190), nullable=False),
        Column("name", String(190), nullable=False),
        Column("created_at", UtcTimestamp, nullable=False),
    )
    create_index("app_people_email", "app_people", "email", unique=True)
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
    create_table(
        "app_members",
        Column("board_id", Id, primary_key=True, autoincrement=False),
        Column("person_id", Id, primary_key=True, autoincrement=False),
        Column("joined_at", UtcTimestamp, nullable=False),
    )
    create_index("app_members_person", "app_members", "person_id")
    create_posts()


def create_posts() -> None:
    create_table(
        "app_channels",
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("kind", String(16), nullable=False),
        Column("url", String(500), nullable=False),
        Column("credential", String(64), nullable=False),
        CheckConstraint("kind IN ('mastodon', 'webhook')", name="app_channels_kind"),
    )
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


def create_mail() -> None:
    create_table(
        "app_templates",
        tenant_column(primary_key=True),
        Column("template_key", String(190), primary_key=True),
        Column("subject", String(500), nullable=False),
        Column("text_body", LongText),
        Column("html_body", LongText),
        Column("created_at", UtcTimestamp, nullable=False),
    )
    create_table(
        "app_digests",
        Column("person_id", Id, primary_key=True, autoincrement=False),
        Column("until_at", UtcTimestamp, nullable=False),
        Column("number", Integer, nullable=False),
    )
    create_table(
        "app_invoice_years",
        Column("year", Integer, primary_key=True, autoincrement=False),
        Column("last_number", Integer, nullable=False),
    )
    create_table(
        "app_invoices",
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("reference", String(190), nullable=False),
        Column("year", Integer, nullable=False),
        Column("number", Integer, nullable=False),
        Column("currency", String(3), nullable=False),
        Column("net", Id, nullable=False),
        Column("vat", Id, nullable=False),
        Column("total", Id, nullable=False),
        Column("content", LongText, nullable=False),
        Column("issued_at", UtcTimestamp, nullable=False),
    )
    create_index("app_invoices_reference", "app_invoices", "reference", unique=True)
    create_index("app_invoices_number", "app_invoices", "year", "number", unique=True)


def create_outreach() -> None:
    create_table(
        "app_recipients",
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("list_key", String(190), nullable=False),
        Column("email", String(190), nullable=False),
        Column("name", String(190), nullable=False),
        Column("fields", JSON),
    )
    create_index("app_recipients_list", "app_recipients", "list_key", "id")
    figures = ("mails", "suppressed", "written", "unfit", "sent", "failed", "cancelled")
    create_table(
        "app_blasts",
        Column("job_id", Id, primary_key=True, autoincrement=False),
        Column("blast", String(60), nullable=False),
        Column("state", String(16), nullable=False),
        *(Column(name, Integer, nullable=False) for name in figures),
        Column("started_at", UtcTimestamp, nullable=False),
        Column("finished_at", UtcTimestamp),
        CheckConstraint("state IN ('sending', 'sent')", name="app_blasts_state"),
    )
    create_index("app_blasts_blast", "app_blasts", "blast")
    create_table(
        "app_blast_mails",
        Column("blast", String(60), primary_key=True),
        Column("address", String(190), primary_key=True),
        Column("job_id", Id, nullable=False),
        Column("written_by", String(32), nullable=False),
    )
    create_index("app_blast_mails_job", "app_blast_mails", "job_id")


def create_notify() -> None:
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


def create_maintenance() -> None:
    create_table(
        "app_sessions",
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("person_id", Id, nullable=False),
        Column("token_hash", String(64), nullable=False),
        Column("created_at", UtcTimestamp, nullable=False),
        Column("seen_at", UtcTimestamp, nullable=False),
    )
    create_index("app_sessions_token", "app_sessions", "token_hash", unique=True)
    create_index("app_sessions_seen", "app_sessions", "seen_at")
    create_table(
        "app_log_rows",
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("logged_at", UtcTimestamp, nullable=False),
        Column("level", String(16), nullable=False),
        Column("message", LongText, nullable=False),
    )
    create_index("app_log_rows_time", "app_log_rows", "logged_at")
    create_table(
        "app_health",
        Column("job_id", Id, primary_key=True, autoincrement=False),
        Column("checked_at", UtcTimestamp, nullable=False),
        Column("host", String(64), nullable=False),
        Column("worst", String(8), nullable=False),
        Column("findings", JSON, nullable=False),
        CheckConstraint("worst IN ('green', 'yellow', 'red')", name="app_health_worst"),
    )
    create_index("app_health_time", "app_health", "checked_at")
    create_table(
        "app_health_problems",
        Column("subject", String(190), primary_key=True),
        Column("since_at", UtcTimestamp, nullable=False),
        Column("job_id", Id, nullable=False),
        Column("recovered_at", UtcTimestamp),
    )


def create_metrics() -> None:
    create_table(
        "app_metric_points",
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("name", String(64), nullable=False),
        Column("measured_at", UtcTimestamp, nullable=False),
        Column("value", Double, nullable=False),
        Column("counted", SmallInteger, nullable=False, server_default="0"),
    )
    create_index("app_metric_points_due", "app_metric_points", "counted", "id")
    create_index("app_metric_points_time", "app_metric_points", "measured_at")
    create_table(
        "app_metric_rollups",
        Column("span", String(8), primary_key=True),
        Column("name", String(64), primary_key=True),
        Column("begins_at", UtcTimestamp, primary_key=True),
        Column("points", Integer, nullable=False),
        Column("total", Double, nullable=False),
        Column("lowest", Double),
        Column("highest", Double),
        CheckConstraint("span IN ('minute', 'hour', 'day')", name="app_metric_rollups_span"),
    )
    create_index("app_metric_rollups_time", "app_metric_rollups", "span", "begins_at")


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
    create_merges()
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


def create_ai() -> None:
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
    create_table(
        "app_llm_balance",
        Column("account", String(32), primary_key=True),
        Column("balance_micros", BigInteger, nullable=False),
    )
    create_ai_texts()


def create_ai_texts() -> None:
    create_table(
        "app_board_summaries",
        Column("board_id", Id, primary_key=True, autoincrement=False),
        Column("summary", LongText, nullable=False),
        Column("posts", Integer, nullable=False),
        Column("job_id", Id, nullable=False),
        Column("written_at", UtcTimestamp, nullable=False),
    )
    create_table(
        "app_suggestions",
        Column("job_id", Id, primary_key=True, autoincrement=False),
        Column("post_id", Id, nullable=False),
        Column("written_at", UtcTimestamp, nullable=False),
    )
    create_index("app_suggestions_written", "app_suggestions", "written_at")
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


def create_search() -> None:
    create_table(
        "app_search_tables",
        Column("name", String(64), primary_key=True),
        Column("job_id", Id, nullable=False),
        Column("state", String(16), nullable=False),
        CheckConstraint("state IN ('standing', 'dropping')", name="app_search_tables_state"),
    )
    create_table(
        "app_search_pointer",
        Column("pointer", String(16), primary_key=True),
        Column("name", String(64), nullable=False),
        Column("entries", BigInteger, nullable=False),
        Column("swapped_at", UtcTimestamp, nullable=False),
    )


def create_campaigns() -> None:
    create_table(
        "app_campaigns",
        Column("id", Id, primary_key=True, autoincrement=True),
        tenant_column(),
        Column("name", String(60), nullable=False),
        Column("status", String(16), nullable=False, server_default="DRAFT"),
        Column("zone", String(64), nullable=False),
        Column("hours", String(11), nullable=False, server_default="09:00-17:00"),
        Column("weekdays", String(7), nullable=False, server_default="12345"),
        Column("holidays", JSON),
        Column("slot_seconds", Integer, nullable=False, server_default="900"),
        Column("per_slot", Integer, nullable=False, server_default="5"),
        Column("run", Integer, nullable=False, server_default="1"),
        Column("launch_at", UtcTimestamp),
        Column("started_at", UtcTimestamp),
        Column("ended_at", UtcTimestamp),
        Column("figures", JSON),
        Column("created_at", UtcTimestamp, nullable=False),
        CheckConstraint(
            "status IN ('DRAFT', 'ACTIVE', 'PAUSED', 'COMPLETED', 'CANCELLED')", name="app_campaigns_status"
        ),
        CheckConstraint("slot_seconds >= 1 AND per_slot >= 1", name="app_campaigns_slots"),
    )
    create_index("app_campaigns_name", "app_campaigns", "tenant_id", "name", unique=True)
    create_index("app_campaigns_by_status", "app_campaigns", "status")
    create_table(
        "app_campaign_step_groups",
        Column("id", Id, primary_key=True, autoincrement=True),
        tenant_column(),
        Column("campaign_id", Id, nullable=False),
        Column("day", Integer, nullable=False),
        CheckConstraint("day >= 0", name="app_campaign_step_groups_day"),
    )
    create_index("app_campaign_step_groups_campaign", "app_campaign_step_groups", "campaign_id")
    create_table(
        "app_campaign_steps",
        Column("id", Id, primary_key=True, autoincrement=True),
        tenant_column(),
        Column("group_id", Id, nullable=False),
        Column("position", Integer, nullable=False),
        Column("channel", String(16), nullable=False),
        Column("template_key", String(190), nullable=False),
        Column("wait_days", Integer, nullable=False, server_default="0"),
        Column("scheduled_at", UtcTimestamp),
        Column("planned_at", UtcTimestamp),
        CheckConstraint("channel IN ('email', 'sms', 'voicemail')", name="app_campaign_steps_channel"),
        CheckConstraint("wait_days >= 0", name="app_campaign_steps_wait"),
    )
    create_index("app_campaign_steps_group", "app_campaign_steps", "group_id", "position", unique=True)
    create_executions()


def create_executions() -> None:
    create_table(
        "app_enrolments",
        tenant_column(),
        Column("campaign_id", Id, primary_key=True, autoincrement=False),
        Column("contact_id", Id, primary_key=True, autoincrement=False),
        Column("email_key", String(190)),
        Column("phone_key", String(32)),
        Column("stopped_at", UtcTimestamp),
        Column("stop_reason", String(16)),
    )
    create_index("app_enrolments_email", "app_enrolments", "campaign_id", "email_key", unique=True)
    create_index("app_enrolments_phone", "app_enrolments", "campaign_id", "phone_key", unique=True)
    create_index("app_enrolments_contact", "app_enrolments", "contact_id")
    create_table(
        "app_step_executions",
        tenant_column(),
        Column("campaign_id", Id, primary_key=True, autoincrement=False),
        Column("step_id", Id, primary_key=True, autoincrement=False),
        Column("contact_id", Id, primary_key=True, autoincrement=False),
        Column("status", String(16), nullable=False),
        Column("reason", String(500)),
        Column("template_key", String(190)),
        Column("scheduled_at", UtcTimestamp),
        Column("slot_at", UtcTimestamp),
        Column("sender_id", Id),
        Column("reserved_on", String(10)),
        Column("sent_at", UtcTimestamp),
        Column("answer", String(500)),
        CheckConstraint(
            "status IN ('PLANNED', 'QUEUED', 'SENT', 'SKIPPED', 'CANCELLED', 'FAILED')",
            name="app_step_executions_status",
        ),
    )
    create_index("app_step_executions_by_status", "app_step_executions", "campaign_id", "status", "step_id")
    create_index("app_step_executions_slot", "app_step_executions", "sender_id", "slot_at")
    create_index("app_step_executions_contact", "app_step_executions", "contact_id")


def create_contacts() -> None:
    create_table(
        "app_lead_groups",
        Column("id", Id, primary_key=True, autoincrement=True),
        tenant_column(),
        Column("name", String(190), nullable=False),
    )
    create_table(
        "app_campaign_lead_groups",
        tenant_column(),
        Column("campaign_id", Id, primary_key=True, autoincrement=False),
        Column("lead_group_id", Id, primary_key=True, autoincrement=False),
    )
    create_table(
        "app_contacts",
        Column("id", Id, primary_key=True, autoincrement=True),
        tenant_column(),
        Column("lead_group_id", Id, nullable=False),
        Column("email", String(190)),
        Column("phone", String(32)),
        Column("name", String(190), nullable=False),
        Column("company", String(190)),
        Column("zone", String(64)),
        Column("banned", SmallInteger, nullable=False, server_default="0"),
        Column("replied_at", UtcTimestamp),
        Column("fields", JSON),
        # Replies and bans are found by the canonical form.
        CheckConstraint("email = LOWER(email)", name="app_contacts_lower_case"),
        CheckConstraint("phone LIKE '+%'", name="app_contacts_country_code"),
    )
    create_index("app_contacts_group", "app_contacts", "lead_group_id", "id")
    create_index("app_contacts_email", "app_contacts", "tenant_id", "email")
    create_index("app_contacts_phone", "app_contacts", "tenant_id", "phone")
    create_table(
        "app_bans",
        tenant_column(primary_key=True),
        Column("kind", String(16), primary_key=True),
        Column("value", String(190), primary_key=True),
        Column("created_at", UtcTimestamp, nullable=False),
        CheckConstraint("kind IN ('address', 'domain', 'company')", name="app_bans_kind"),
        CheckConstraint("value = LOWER(value)", name="app_bans_lower_case"),
    )


def create_senders() -> None:
    create_table(
        "app_sender_accounts",
        Column("id", Id, primary_key=True, autoincrement=True),
        tenant_column(),
        Column("name", String(60), nullable=False),
        Column("provider", String(16), nullable=False),
        Column("address", String(190), nullable=False),
        Column("credential", String(64), nullable=False),
        Column("zone", String(64), nullable=False),
        Column("curve", JSON, nullable=False),
        Column("warmup_day", Integer, nullable=False, server_default="0"),
        Column("warmed_on", String(10)),
        Column("daily_limit", Integer, nullable=False),
        Column("current_limit", Integer, nullable=False),
        Column("health", Integer, nullable=False, server_default="100"),
        Column("bounces", Integer, nullable=False, server_default="0"),
        Column("complaints", Integer, nullable=False, server_default="0"),
        Column("cooldown_until", UtcTimestamp),
        Column("cooldown_reason", String(500)),
        CheckConstraint("provider IN ('smtp', 'gmail', 'twilio')", name="app_sender_accounts_provider"),
        CheckConstraint("health BETWEEN 0 AND 100", name="app_sender_accounts_health"),
    )
    create_index("app_sender_accounts_name", "app_sender_accounts", "tenant_id", "name", unique=True)
    create_table(
        "app_sender_days",
        tenant_column(),
        Column("sender_id", Id, primary_key=True, autoincrement=False),
        Column("local_date", String(10), primary_key=True),
        Column("day_limit", Integer, nullable=False),
        Column("sends", Integer, nullable=False),
        CheckConstraint("sends BETWEEN 0 AND day_limit", name="app_sender_days_sends"),
    )
    create_table(
        "app_gmail_tokens",
        tenant_column(),
        Column("sender_id", Id, primary_key=True, autoincrement=False),
        Column("access_token", LongText),
        Column("expires_at", UtcTimestamp),
        Column("leased_by", String(64)),
        Column("lease_until", UtcTimestamp),
    )
