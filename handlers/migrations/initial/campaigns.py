"""Campaigns, contacts, enrolments, executions of steps, and senders."""

from sqlalchemy import JSON, CheckConstraint, Column, Integer, SmallInteger, String

from handlers.migrations.ddl import create_index, create_table
from handlers.schema import Id, LongText, UtcTimestamp, tenant_column


def create_tables() -> None:
    create_campaigns()
    create_campaign_step_groups()
    create_campaign_steps()
    create_lead_groups()
    create_campaign_lead_groups()
    create_contacts()
    create_bans()
    create_enrolments()
    create_step_executions()
    create_sender_accounts()
    create_sender_days()
    create_gmail_tokens()


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


def create_campaign_step_groups() -> None:
    create_table(
        "app_campaign_step_groups",
        Column("id", Id, primary_key=True, autoincrement=True),
        tenant_column(),
        Column("campaign_id", Id, nullable=False),
        Column("day", Integer, nullable=False),
        CheckConstraint("day >= 0", name="app_campaign_step_groups_day"),
    )
    create_index("app_campaign_step_groups_campaign", "app_campaign_step_groups", "campaign_id")


def create_campaign_steps() -> None:
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


def create_lead_groups() -> None:
    create_table(
        "app_lead_groups",
        Column("id", Id, primary_key=True, autoincrement=True),
        tenant_column(),
        Column("name", String(190), nullable=False),
    )


def create_campaign_lead_groups() -> None:
    create_table(
        "app_campaign_lead_groups",
        tenant_column(),
        Column("campaign_id", Id, primary_key=True, autoincrement=False),
        Column("lead_group_id", Id, primary_key=True, autoincrement=False),
    )


def create_contacts() -> None:
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


def create_bans() -> None:
    create_table(
        "app_bans",
        tenant_column(primary_key=True),
        Column("kind", String(16), primary_key=True),
        Column("value", String(190), primary_key=True),
        Column("created_at", UtcTimestamp, nullable=False),
        CheckConstraint("kind IN ('address', 'domain', 'company')", name="app_bans_kind"),
        CheckConstraint("value = LOWER(value)", name="app_bans_lower_case"),
    )


def create_enrolments() -> None:
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


def create_step_executions() -> None:
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


def create_sender_accounts() -> None:
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


def create_sender_days() -> None:
    create_table(
        "app_sender_days",
        tenant_column(),
        Column("sender_id", Id, primary_key=True, autoincrement=False),
        Column("local_date", String(10), primary_key=True),
        Column("day_limit", Integer, nullable=False),
        Column("sends", Integer, nullable=False),
        CheckConstraint("sends BETWEEN 0 AND day_limit", name="app_sender_days_sends"),
    )


def create_gmail_tokens() -> None:
    create_table(
        "app_gmail_tokens",
        tenant_column(),
        Column("sender_id", Id, primary_key=True, autoincrement=False),
        Column("access_token", LongText),
        Column("expires_at", UtcTimestamp),
        Column("leased_by", String(64)),
        Column("lease_until", UtcTimestamp),
    )
