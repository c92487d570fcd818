"""The tables of campaigns: steps, contacts, enrolments, executions of steps, sender accounts.

Each row belongs to a tenant. What has the id of a campaign, contact or sender belongs to the same one.
"""

from sqlalchemy import Column, Integer, SmallInteger, String, Table
from sqlalchemy import column as light_column
from sqlalchemy import table as light_table

from handlers.schema import Id, Json, LongText, UtcTimestamp, metadata, tenant_column

# Statuses of campaigns, and of executions (the last two of the first line are shared).
DRAFT, ACTIVE, PAUSED, COMPLETED, CANCELLED = "DRAFT", "ACTIVE", "PAUSED", "COMPLETED", "CANCELLED"
PLANNED, QUEUED, SENT, SKIPPED, FAILED = "PLANNED", "QUEUED", "SENT", "SKIPPED", "FAILED"
OPEN_STATUSES = (PLANNED, QUEUED)
ENDED_STATUSES = (SENT, SKIPPED, FAILED)  # CANCELLED executions are planned again when the campaign is resumed

EMAIL, SMS, VOICEMAIL = "email", "sms", "voicemail"
CHANNELS = (EMAIL, SMS, VOICEMAIL)
MAX_REASON_LENGTH = 500

campaigns = Table(
    "app_campaigns",
    metadata,
    Column("id", Id, primary_key=True),
    tenant_column(),
    Column("name", String(60), nullable=False),  # unique per tenant
    Column("status", String(16), nullable=False),
    Column("zone", String(64), nullable=False),  # for contacts without a zone
    Column("hours", String(11), nullable=False),  # 09:00-17:00
    Column("weekdays", String(7), nullable=False),  # 12345: Monday to Friday
    Column("holidays", Json),  # a list of dates
    Column("slot_seconds", Integer, nullable=False),
    Column("per_slot", Integer, nullable=False),  # messages per slot and sender
    Column("run", Integer, nullable=False),  # incremented by each resume: jobs of earlier runs do nothing
    Column("launch_at", UtcTimestamp),
    Column("started_at", UtcTimestamp),  # when all contacts were enrolled and the steps scheduled
    Column("ended_at", UtcTimestamp),
    Column("figures", Json),  # counts by status and reason
    Column("created_at", UtcTimestamp, nullable=False),
)

step_groups = Table(
    "app_campaign_step_groups",
    metadata,
    Column("id", Id, primary_key=True),
    tenant_column(),
    Column("campaign_id", Id, nullable=False),
    Column("day", Integer, nullable=False),  # days after the launch
)

steps = Table(
    "app_campaign_steps",
    metadata,
    Column("id", Id, primary_key=True),
    tenant_column(),
    Column("group_id", Id, nullable=False),
    Column("position", Integer, nullable=False),  # within its group
    Column("channel", String(16), nullable=False),
    Column("template_key", String(190), nullable=False),  # of app_templates
    Column("wait_days", Integer, nullable=False),  # after the previous step of its group
    Column("scheduled_at", UtcTimestamp),  # set by send_campaign
    Column("planned_at", UtcTimestamp),  # when the last contact got its execution
)

lead_groups = Table(
    "app_lead_groups",
    metadata,
    Column("id", Id, primary_key=True),
    tenant_column(),
    Column("name", String(190), nullable=False),
)

campaign_lead_groups = Table(
    "app_campaign_lead_groups",
    metadata,
    tenant_column(),
    Column("campaign_id", Id, primary_key=True, autoincrement=False),
    Column("lead_group_id", Id, primary_key=True, autoincrement=False),
)

contacts = Table(
    "app_contacts",
    metadata,
    Column("id", Id, primary_key=True),
    tenant_column(),
    Column("lead_group_id", Id, nullable=False),
    Column("email", String(190)),  # in lower case
    Column("phone", String(32)),  # with the country code: +4930123456
    Column("name", String(190), nullable=False),
    Column("company", String(190)),
    Column("zone", String(64)),
    Column("banned", SmallInteger, nullable=False),
    Column("replied_at", UtcTimestamp),
    Column("fields", Json),  # an object: further values for templates
)

bans = Table(
    "app_bans",
    metadata,
    tenant_column(primary_key=True),
    Column("kind", String(16), primary_key=True),  # address, domain or company
    Column("value", String(190), primary_key=True),  # in lower case
    Column("created_at", UtcTimestamp, nullable=False),
)

enrolments = Table(
    "app_enrolments",
    metadata,
    tenant_column(),
    Column("campaign_id", Id, primary_key=True, autoincrement=False),
    Column("contact_id", Id, primary_key=True, autoincrement=False),
    Column("email_key", String(190)),  # canonical; unique within the campaign, like the next one
    Column("phone_key", String(32)),
    Column("stopped_at", UtcTimestamp),
    Column("stop_reason", String(16)),  # replied, bounced, unsubscribed or complained
)

executions = Table(
    "app_step_executions",
    metadata,
    tenant_column(),
    Column("campaign_id", Id, primary_key=True, autoincrement=False),
    Column("step_id", Id, primary_key=True, autoincrement=False),
    Column("contact_id", Id, primary_key=True, autoincrement=False),
    Column("status", String(16), nullable=False),
    Column("reason", String(MAX_REASON_LENGTH)),
    Column("template_key", String(190)),  # the texts at the time of planning
    Column("scheduled_at", UtcTimestamp),
    Column("slot_at", UtcTimestamp),  # the planned slot, then the instant of the reservation
    Column("sender_id", Id),  # planned, then used
    Column("reserved_on", String(10)),  # the sender's date on which it counts; NULL: it uses no quota
    Column("sent_at", UtcTimestamp),
    Column("answer", String(MAX_REASON_LENGTH)),  # of the provider
)

sender_accounts = Table(
    "app_sender_accounts",
    metadata,
    Column("id", Id, primary_key=True),
    tenant_column(),
    Column("name", String(60), nullable=False),  # unique per tenant
    Column("provider", String(16), nullable=False),
    Column("address", String(190), nullable=False),  # or the phone number
    Column("credential", String(64), nullable=False),  # the name of a setting
    Column("zone", String(64), nullable=False),
    Column("curve", Json, nullable=False),  # limits of the first days, such as [5, 10, 20]
    Column("warmup_day", Integer, nullable=False),
    Column("warmed_on", String(10)),  # the UTC date of the last reset_warmup
    Column("daily_limit", Integer, nullable=False),  # after the curve
    Column("current_limit", Integer, nullable=False),
    Column("health", Integer, nullable=False),  # 0–100
    Column("bounces", Integer, nullable=False),  # since the last reset_warmup, like the next one
    Column("complaints", Integer, nullable=False),
    Column("cooldown_until", UtcTimestamp),
    Column("cooldown_reason", String(MAX_REASON_LENGTH)),
)

sender_days = Table(
    "app_sender_days",
    metadata,
    tenant_column(),
    Column("sender_id", Id, primary_key=True, autoincrement=False),
    Column("local_date", String(10), primary_key=True),  # in the sender's zone
    Column("day_limit", Integer, nullable=False),  # the limit when the day's first message was sent
    Column("sends", Integer, nullable=False),
)

gmail_tokens = Table(
    "app_gmail_tokens",
    metadata,
    tenant_column(),
    Column("sender_id", Id, primary_key=True, autoincrement=False),
    Column("access_token", LongText),
    Column("expires_at", UtcTimestamp),
    Column("leased_by", String(64)),  # the run that refreshes it
    Column("lease_until", UtcTimestamp),
)

jobs = light_table(
    "mayfly_jobs", *map(light_column, ("id", "type", "payload", "status", "group_key", "last_error"))
)  # fmt: skip
