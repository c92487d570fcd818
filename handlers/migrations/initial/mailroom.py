"""Stored and sent mail, mail accounts and their warm-up, daily figures, webhooks of tenants."""

from sqlalchemy import JSON, CheckConstraint, Column, Double, Integer, LargeBinary, SmallInteger, String
from sqlalchemy.dialects.mysql import MEDIUMBLOB

from handlers.migrations.ddl import create_index, create_table
from handlers.schema import MYSQL, Id, LongText, UtcTimestamp, tenant_column

Bytes = LargeBinary().with_variant(MEDIUMBLOB(), *MYSQL)


def create_tables() -> None:
    create_mail_blobs()
    create_mail_chunks()
    create_mail_contents()
    create_mail_attachments()
    create_mail_messages()
    create_mail_deliveries()
    create_indexes_of_deliveries()
    create_mail_bounces()
    create_mail_events()
    create_mail_accounts()
    create_mail_mailboxes()
    create_mail_warmups()
    create_mail_warmup_steps()
    create_mail_warmup_mails()
    create_mail_daily()
    create_mail_days()
    create_webhook_endpoints()
    create_webhook_deliveries()


def create_mail_blobs() -> None:
    create_table(
        "app_mail_blobs",
        tenant_column(primary_key=True),
        Column("blob_hash", String(64), primary_key=True),
        Column("place", String(16), nullable=False),
        Column("size_bytes", Id, nullable=False),
        Column("stored_at", UtcTimestamp, nullable=False),
        CheckConstraint("place IN ('database', 'directory')", name="app_mail_blobs_place"),
    )
    create_index("app_mail_blobs_stored", "app_mail_blobs", "stored_at")


def create_mail_chunks() -> None:
    create_table(
        "app_mail_chunks",
        tenant_column(primary_key=True),
        Column("blob_hash", String(64), primary_key=True),
        Column("number", Integer, primary_key=True, autoincrement=False),
        Column("content", Bytes, nullable=False),
    )


def create_mail_contents() -> None:
    create_table(
        "app_mail_contents",
        Column("id", Id, primary_key=True, autoincrement=True),
        tenant_column(),
        Column("storage_key", String(190), nullable=False),
        Column("raw_hash", String(64)),
        Column("text_body", LongText),
        Column("html_body", LongText),
        Column("generated", String(8)),
        Column("headers", JSON, nullable=False),
        Column("defects", JSON, nullable=False),
        Column("size_bytes", Id, nullable=False),
        Column("created_at", UtcTimestamp, nullable=False),
        Column("expires_at", UtcTimestamp, nullable=False),
        CheckConstraint("generated IN ('text', 'html')", name="app_mail_contents_generated"),
    )
    create_index("app_mail_contents_storage_key", "app_mail_contents", "storage_key", unique=True)
    create_index("app_mail_contents_raw", "app_mail_contents", "tenant_id", "raw_hash")
    create_index("app_mail_contents_expires", "app_mail_contents", "expires_at")


def create_mail_attachments() -> None:
    create_table(
        "app_mail_attachments",
        Column("id", Id, primary_key=True, autoincrement=True),
        tenant_column(),
        Column("content_id", Id, nullable=False),
        Column("position", Integer, nullable=False),
        Column("name", String(255), nullable=False),
        Column("content_type", String(190), nullable=False),
        Column("size_bytes", Id, nullable=False),
        Column("blob_hash", String(64)),
        Column("refusal", String(190)),
    )
    create_index("app_mail_attachments_content", "app_mail_attachments", "content_id")
    create_index("app_mail_attachments_blob", "app_mail_attachments", "tenant_id", "blob_hash")


def create_mail_messages() -> None:
    create_table(
        "app_mail_messages",
        Column("id", Id, primary_key=True, autoincrement=True),
        tenant_column(),
        Column("message_key", String(64), nullable=False),
        Column("email_account_id", Id),
        Column("content_id", Id, nullable=False),
        Column("direction", String(16), nullable=False),
        Column("type", String(16), nullable=False),
        Column("message_id", String(255), nullable=False),
        Column("in_reply_to", String(255)),
        Column("thread_key", String(255), nullable=False),
        Column("from_address", String(320), nullable=False),
        Column("to_addresses", JSON, nullable=False),
        Column("subject", String(500), nullable=False),
        Column("delivery_id", Id),
        Column("campaign_id", Id),
        Column("contact_id", Id),
        Column("status", String(16), nullable=False),
        Column("received_at", UtcTimestamp, nullable=False),
        Column("processed_at", UtcTimestamp),
        CheckConstraint("direction IN ('inbound', 'outbound')", name="app_mail_messages_direction"),
        CheckConstraint("status IN ('received', 'processed')", name="app_mail_messages_status"),
        CheckConstraint(
            "type IN ('plain', 'reply', 'auto_reply', 'bounce', 'complaint', 'warmup')", name="app_mail_messages_type"
        ),
    )
    create_index("app_mail_messages_key", "app_mail_messages", "tenant_id", "message_key", unique=True)
    create_index("app_mail_messages_message_id", "app_mail_messages", "tenant_id", "message_id")
    create_index("app_mail_messages_content", "app_mail_messages", "content_id")
    create_index("app_mail_messages_thread", "app_mail_messages", "tenant_id", "thread_key")


def create_mail_deliveries() -> None:
    create_table(
        "app_mail_deliveries",
        Column("id", Id, primary_key=True, autoincrement=True),
        tenant_column(),
        Column("effect_key", String(190), nullable=False),
        Column("job_id", Id, nullable=False),
        Column("campaign_id", Id),
        Column("contact_id", Id),
        Column("step_id", Id),
        Column("recipient", String(190), nullable=False),
        Column("sender", String(190), nullable=False),
        Column("provider", String(190), nullable=False),
        Column("message_id", String(255), nullable=False),
        Column("token", String(64), nullable=False),
        Column("provider_message_id", String(190)),
        Column("status", String(16), nullable=False),
        Column("response", String(500)),
        Column("created_at", UtcTimestamp, nullable=False),
        Column("sent_at", UtcTimestamp),
        Column("delivered_at", UtcTimestamp),
        Column("bounced_at", UtcTimestamp),
        Column("bounce_type", String(8)),
        Column("bounce_reason", String(500)),
        Column("replied_at", UtcTimestamp),
        Column("complained_at", UtcTimestamp),
        Column("opened_at", UtcTimestamp),
        Column("clicked_at", UtcTimestamp),
        Column("changed_at", UtcTimestamp, nullable=False),
        Column("counted", SmallInteger, nullable=False, server_default="0"),
        CheckConstraint(
            "status IN ('open', 'sent', 'delivered', 'bounced', 'complained', 'failed')",
            name="app_mail_deliveries_status",
        ),
        CheckConstraint("bounce_type IN ('hard', 'soft')", name="app_mail_deliveries_bounce"),
    )


def create_indexes_of_deliveries() -> None:
    create_index("app_mail_deliveries_effect", "app_mail_deliveries", "effect_key", unique=True)
    create_index("app_mail_deliveries_message_id", "app_mail_deliveries", "message_id")
    create_index("app_mail_deliveries_token", "app_mail_deliveries", "token")
    create_index("app_mail_deliveries_provider_id", "app_mail_deliveries", "provider_message_id")
    create_index("app_mail_deliveries_recipient", "app_mail_deliveries", "recipient", "sent_at")
    create_index("app_mail_deliveries_campaign", "app_mail_deliveries", "campaign_id", "contact_id")
    create_index("app_mail_deliveries_sent", "app_mail_deliveries", "tenant_id", "sent_at")
    create_index("app_mail_deliveries_uncounted", "app_mail_deliveries", "counted", "id")


def create_mail_bounces() -> None:
    create_table(
        "app_mail_bounces",
        Column("id", Id, primary_key=True, autoincrement=True),
        tenant_column(),
        Column("bounce_key", String(64), nullable=False),
        Column("message_id", Id),
        Column("delivery_id", Id),
        Column("original_id", String(255)),
        Column("address", String(190)),
        Column("kind", String(8), nullable=False),
        Column("code", String(16)),
        Column("reason", String(500)),
        Column("bounced_at", UtcTimestamp, nullable=False),
        CheckConstraint("kind IN ('hard', 'soft')", name="app_mail_bounces_kind"),
    )
    create_index("app_mail_bounces_key", "app_mail_bounces", "tenant_id", "bounce_key", unique=True)
    create_index("app_mail_bounces_address", "app_mail_bounces", "tenant_id", "address", "bounced_at")
    create_index("app_mail_bounces_delivery", "app_mail_bounces", "delivery_id", "id")


def create_mail_events() -> None:
    create_table(
        "app_mail_events",
        Column("id", Id, primary_key=True, autoincrement=True),
        tenant_column(),
        Column("event_key", String(64), nullable=False),
        Column("provider", String(16), nullable=False),
        Column("kind", String(16), nullable=False),
        Column("status", String(16), nullable=False),
        Column("delivery_id", Id),
        Column("details", JSON, nullable=False),
        Column("occurred_at", UtcTimestamp, nullable=False),
        Column("received_at", UtcTimestamp, nullable=False),
        CheckConstraint("status IN ('received', 'applied', 'orphan')", name="app_mail_events_status"),
    )
    create_index("app_mail_events_key", "app_mail_events", "tenant_id", "event_key", unique=True)
    create_index("app_mail_events_received", "app_mail_events", "received_at")


def create_mail_accounts() -> None:
    create_table(
        "app_mail_accounts",
        Column("id", Id, primary_key=True, autoincrement=True),
        tenant_column(),
        Column("address", String(190), nullable=False),
        Column("smtp_credential", String(64)),
        Column("imap_credential", String(64)),
        Column("is_active", SmallInteger, nullable=False, server_default="1"),
        Column("created_at", UtcTimestamp, nullable=False),
        CheckConstraint("address = LOWER(address)", name="app_mail_accounts_lower_case"),
    )
    create_index("app_mail_accounts_address", "app_mail_accounts", "address", unique=True)


def create_mail_mailboxes() -> None:
    create_table(
        "app_mail_mailboxes",
        tenant_column(),
        Column("email_account_id", Id, primary_key=True, autoincrement=False),
        Column("folder", String(190), primary_key=True),
        Column("uid_validity", Id, nullable=False),
        Column("last_uid", Id, nullable=False),
        Column("polled_at", UtcTimestamp, nullable=False),
    )


def create_mail_warmups() -> None:
    create_table(
        "app_mail_warmups",
        Column("email_account_id", Id, primary_key=True, autoincrement=False),
        tenant_column(),
        Column("is_active", SmallInteger, nullable=False, server_default="1"),
        Column("start_per_day", Integer, nullable=False, server_default="5"),
        Column("increase_per_day", Integer, nullable=False, server_default="2"),
        Column("max_per_day", Integer, nullable=False, server_default="40"),
        Column("reply_percent", Integer, nullable=False, server_default="30"),
        Column("flag_percent", Integer, nullable=False, server_default="20"),
        Column("zone", String(64), nullable=False, server_default="UTC"),
        Column("started_at", UtcTimestamp, nullable=False),
        Column("planned_on", String(10)),
    )


def create_mail_warmup_steps() -> None:
    create_table(
        "app_mail_warmup_steps",
        Column("email_account_id", Id, primary_key=True, autoincrement=False),
        Column("warmup_type", String(16), primary_key=True),
        Column("sequence_step", Integer, primary_key=True, autoincrement=False),
        tenant_column(),
        Column("result", JSON),
        Column("created_at", UtcTimestamp, nullable=False),
        Column("done_at", UtcTimestamp),
        CheckConstraint("warmup_type IN ('outbound', 'inbound', 'engagement')", name="app_mail_warmup_steps_type"),
    )


def create_mail_warmup_mails() -> None:
    create_table(
        "app_mail_warmup_mails",
        Column("id", Id, primary_key=True, autoincrement=True),
        tenant_column(),
        Column("mail_key", String(190), nullable=False),
        Column("from_account_id", Id, nullable=False),
        Column("to_account_id", Id, nullable=False),
        Column("message_id", String(255), nullable=False),
        Column("answers_id", Id),
        Column("subject", String(500), nullable=False),
        Column("created_at", UtcTimestamp, nullable=False),
        Column("sent_at", UtcTimestamp),
        Column("found_at", UtcTimestamp),
        Column("was_spam", SmallInteger),
        Column("engaged_at", UtcTimestamp),
    )
    create_index("app_mail_warmup_mails_key", "app_mail_warmup_mails", "mail_key", unique=True)
    create_index("app_mail_warmup_mails_id", "app_mail_warmup_mails", "message_id")
    create_index("app_mail_warmup_mails_to", "app_mail_warmup_mails", "to_account_id", "sent_at")


def create_mail_daily() -> None:
    create_table(
        "app_mail_daily",
        tenant_column(primary_key=True),
        Column("day", String(10), primary_key=True),
        Column("campaign_id", Id, primary_key=True, autoincrement=False),
        Column("sender", String(190), primary_key=True),
        Column("sent", Integer, nullable=False),
        Column("delivered", Integer, nullable=False),
        Column("bounced", Integer, nullable=False),
        Column("soft_bounced", Integer, nullable=False),
        Column("replied", Integer, nullable=False),
        Column("complained", Integer, nullable=False),
        Column("delivery_rate", Double, nullable=False),
        Column("bounce_rate", Double, nullable=False),
        Column("reply_rate", Double, nullable=False),
        Column("complaint_rate", Double, nullable=False),
        Column("computed_at", UtcTimestamp, nullable=False),
    )


def create_mail_days() -> None:
    create_table(
        "app_mail_days",
        Column("day", String(10), primary_key=True),
        tenant_column(primary_key=True),
        Column("is_stale", SmallInteger, nullable=False),
    )
    create_index("app_mail_days_stale", "app_mail_days", "is_stale", "day", "tenant_id")


def create_webhook_endpoints() -> None:
    create_table(
        "app_webhook_endpoints",
        Column("id", Id, primary_key=True, autoincrement=True),
        tenant_column(),
        Column("url", String(500), nullable=False),
        Column("credential", String(64), nullable=False),
        Column("events", JSON),
        Column("failing_since", UtcTimestamp),
        Column("failures", Integer, nullable=False, server_default="0"),
        Column("retry_at", UtcTimestamp),
        Column("disabled_at", UtcTimestamp),
        Column("disabled_reason", String(500)),
        Column("contact", String(190)),
        Column("created_at", UtcTimestamp, nullable=False),
    )
    create_index("app_webhook_endpoints_tenant", "app_webhook_endpoints", "tenant_id")


def create_webhook_deliveries() -> None:
    create_table(
        "app_webhook_deliveries",
        Column("id", Id, primary_key=True, autoincrement=True),
        tenant_column(),
        Column("endpoint_id", Id, nullable=False),
        Column("event_key", String(190), nullable=False),
        Column("event_type", String(64), nullable=False),
        Column("content", JSON, nullable=False),
        Column("status", String(16), nullable=False),
        Column("response", String(500)),
        Column("created_at", UtcTimestamp, nullable=False),
        Column("delivered_at", UtcTimestamp),
        CheckConstraint("status IN ('open', 'delivered', 'failed')", name="app_webhook_deliveries_status"),
    )
    create_index("app_webhook_deliveries_event", "app_webhook_deliveries", "endpoint_id", "event_key", unique=True)
    create_index("app_webhook_deliveries_created", "app_webhook_deliveries", "created_at")
