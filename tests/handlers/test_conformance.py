"""Tests of the handlers run on SQLite; each module with statements has tests that run on every database."""

import ast
import re
from pathlib import Path

import pytest

from tests.process.installation import CHECKOUT

HERE = Path(__file__).parent
STATEMENTS = re.compile(
    r"(?<![.\w])(?<!def )(select|insert|update|delete|text|insert_missing|upsert)\("  # no methods: imap.select()
    r"|\b(sqlite|postgresql|mysql)\.insert\(|\b(SELECT|INSERT) "
)
MARKER = "pytest.mark.every_database"
# Together these tests execute every statement of the module.
COVERED_BY = {
    "ai/tables.py": (
        "ai/test_nudge.py::test_a_board_is_asked_about_once_a_day",
        "ai/test_nudge.py::test_two_hosts_cannot_nudge_twice",
        "ai/test_suggestion.py::test_a_draft_is_written_once_however_often_it_is_tried",
        "ai/test_summary.py::test_a_board_is_summarised",
    ),
    "ai/ledger.py": ("ai/test_budget.py::test_the_unused_part_of_a_payment_is_returned",),
    "boards/tables.py": (
        "boards/test_archive_board.py::test_a_board_is_archived_whole_and_once",
        "boards/test_close_board.py::test_a_board_is_closed_once_and_its_members_get_a_mail",
        "boards/test_due_posts.py::test_a_due_post_becomes_one_job",
        "boards/test_publish_post.py::test_a_post_becomes_a_status_once",
        "boards/test_publish_post.py::test_doubt_is_resolved_by_the_key",
    ),
    "boards/publication.py": ("boards/test_due_posts.py::test_a_due_post_becomes_one_job",),
    "mailroom/blobs.py": (
        "mailroom/test_inbound.py::test_a_message_is_stored_with_its_parts",
        "mailroom/test_retention.py::test_expired_mail_is_deleted_and_the_rest_stays",
    ),
    "mailroom/bounces.py": (
        "mailroom/test_bounces.py::test_a_hard_bounce_suppresses_the_address_and_ends_its_campaigns",
        "mailroom/test_bounces.py::test_the_third_soft_bounce_within_30_days_is_hard",
        "mailroom/test_bounces.py::test_a_bounce_of_an_unknown_email_is_an_orphan",
    ),
    "mailroom/campaign_mail.py": (
        "mailroom/test_deliveries.py::test_an_email_of_a_campaign_is_sent_from_its_template",
    ),
    "mailroom/deliveries.py": (
        "mailroom/test_deliveries.py::test_each_sent_email_has_a_row",
        "mailroom/test_bounces.py::test_a_hard_bounce_suppresses_the_address_and_ends_its_campaigns",
        "mailroom/test_inbound.py::test_a_reply_stops_the_sequence_and_an_automatic_one_does_not",
        "mailroom/test_inbound.py::test_a_complaint_suppresses_the_recipient_of_the_email",
    ),
    "mailroom/inbound.py": (
        "mailroom/test_inbound.py::test_a_message_is_stored_with_its_parts",
        "mailroom/test_inbound.py::test_a_message_that_comes_twice_is_one",
    ),
    "mailroom/intake.py": ("mailroom/test_inbound.py::test_the_recipient_decides_to_whom_a_message_belongs",),
    "mailroom/mailboxes.py": ("mailroom/test_mailboxes.py::test_new_messages_are_stored_and_then_flagged",),
    "mailroom/retention.py": ("mailroom/test_retention.py::test_expired_mail_is_deleted_and_the_rest_stays",),
    "maintenance/health.py": (
        "maintenance/test_health.py::test_a_healthy_host_is_green",
        "maintenance/test_health.py::test_one_problem_is_reported_once",
    ),
    "maintenance/rollup.py": (
        "maintenance/test_rollup.py::test_late_points_change_completed_rollups",
        "maintenance/test_rollup.py::test_minutes_are_deleted_by_their_age",
        "maintenance/test_rollup.py::test_two_hosts_count_nothing_twice",
    ),
    "maintenance/purge.py": (
        "maintenance/test_purging.py::test_log_rows_are_vacuumed_by_their_age",
        "maintenance/test_purging.py::test_unused_sessions_are_purged_in_slices",
    ),
    "maintenance/retention.py": ("maintenance/test_retention.py::test_old_records_are_deleted_and_needed_ones_stay",),
    "campaigns/campaign.py": (
        "campaigns/test_sending.py::test_each_contact_gets_each_step_once_and_in_order",
        "campaigns/test_events.py::test_a_pause_cancels_what_is_pending_and_a_resume_plans_it_again",
    ),
    "campaigns/cli.py": ("campaigns/test_cli.py::test_campaigns_are_listed_and_shown",),
    "campaigns/closing.py": (
        "campaigns/test_events.py::test_jobs_that_end_without_their_handler_end_their_executions",
        "campaigns/test_events.py::test_the_figures_of_a_campaign_are_metrics",
        "campaigns/test_events.py::test_a_pause_cancels_what_is_pending_and_a_resume_plans_it_again",
    ),
    "campaigns/contact_events.py": (
        "campaigns/test_events.py::test_later_messages_to_a_stopped_contact_are_skipped_with_the_reason",
    ),
    "campaigns/delivery.py": ("campaigns/test_sending.py::test_each_contact_gets_each_step_once_and_in_order",),
    "campaigns/enrolment.py": ("campaigns/test_sending.py::test_a_person_is_enrolled_once_and_only_if_allowed",),
    "campaigns/gmail.py": (
        "campaigns/test_providers.py::test_one_runner_refreshes_a_token_while_others_use_the_old_one_or_wait",
    ),
    "campaigns/planning.py": (
        "campaigns/test_sending.py::test_each_contact_gets_each_step_once_and_in_order",
        "campaigns/test_events.py::test_a_pause_cancels_what_is_pending_and_a_resume_plans_it_again",
    ),
    "campaigns/senders.py": (
        "campaigns/test_sending.py::test_each_contact_gets_each_step_once_and_in_order",
        "campaigns/test_providers.py::test_a_revoked_account_has_a_cooldown_and_others_send_its_messages",
    ),
    "campaigns/warmup.py": ("campaigns/test_events.py::test_a_complaint_about_a_sent_message_counts_for_its_sender",),
    "idempotency.py": (
        "mail/test_send_email.py::test_the_same_effect_happens_once",
        "mail/test_send_email.py::test_two_runs_do_not_hand_over_the_same_effect",
        "notify/test_notify_push.py::test_a_lane_may_hold_unknown_answers",
    ),
    "mail/digest.py": (
        "mail/test_digest.py::test_each_person_with_news_gets_a_digest",
        "mail/test_digest.py::test_news_are_sent_once",
        "mail/test_digest.py::test_a_suppressed_address_gets_no_digest",
    ),
    "mail/invoice.py": (
        "mail/test_invoice.py::test_numbers_have_no_gaps_under_concurrency",
        "mail/test_invoice.py::test_a_repeated_invoice_is_the_same",
    ),
    "mail/templates.py": ("outreach/test_unsubscribe.py::test_an_unsubscribed_address_gets_no_more_mail",),
    "mail/tables.py": (
        "mail/test_digest.py::test_each_person_with_news_gets_a_digest",
        "mail/test_invoice.py::test_a_repeated_invoice_is_the_same",
    ),
    "notify/tables.py": (
        "notify/test_notify_push.py::test_a_lane_may_hold_unknown_answers",
        "notify/test_notify_push.py::test_a_subscription_that_is_gone_is_deleted",
    ),
    "outreach/audiences.py": (
        "outreach/test_unsubscribe.py::test_an_unsubscribed_address_gets_no_more_mail",
        "outreach/test_send_outreach.py::test_an_audience_may_be_a_board_or_a_list",
        "outreach/test_send_outreach.py::test_an_audience_may_be_prospects",
    ),
    "outreach/tables.py": (
        "outreach/test_unsubscribe.py::test_an_unsubscribed_address_gets_no_more_mail",
        "outreach/test_send_outreach.py::test_a_blast_is_closed_once",
        "outreach/test_send_outreach.py::test_recipients_of_other_blasts_may_be_excluded",
        "outreach/test_two_at_once.py::test_two_jobs_mail_no_address_twice",
    ),
    "prospects/answer_cache.py": (
        "prospects/test_enrich.py::test_an_address_is_found",
        "prospects/test_enrich.py::test_an_address_is_verified_once",
    ),
    "prospects/dedup.py": ("prospects/test_dedup.py::test_slices_find_what_one_run_finds",),
    "prospects/enrichment.py": (
        "prospects/test_enrich.py::test_not_found_is_an_answer",
        "prospects/test_enrich.py::test_a_merged_prospect_is_enriched_as_its_winner",
    ),
    "prospects/merge.py": (
        "prospects/test_dedup.py::test_a_merge_can_be_undone",
        "prospects/test_dedup.py::test_slices_find_what_one_run_finds",
        "prospects/test_dedup.py::test_later_merges_are_undone_first",
        "prospects/test_dedup.py::test_a_person_decides_about_a_proposal",
    ),
    "prospects/tables.py": (
        "prospects/test_enrich.py::test_a_merged_prospect_is_enriched_as_its_winner",
        "prospects/test_import.py::test_rows_become_prospects_and_bad_ones_are_rejected",
    ),
    "cooldown.py": ("mail/test_send_email.py::test_an_account_whose_login_fails_has_a_cooldown",),
    "search/fulltext.py": (
        "search/test_search.py::test_a_slice_that_is_added_twice_is_there_once",
        "search/test_search.py::test_no_input_can_break_a_query",
        "search/test_search.py::test_all_words_must_match",
    ),
    "search/query.py": (
        "search/test_search.py::test_a_search_in_a_dropped_table_is_repeated",
        "search/test_search.py::test_all_words_must_match",
    ),
    "search/rebuild.py": (
        "search/test_search.py::test_a_slice_that_is_added_twice_is_there_once",
        "search/test_search.py::test_all_words_must_match",
    ),
    "search/sources.py": (
        "search/test_search.py::test_merged_prospects_are_not_found",
        "search/test_search.py::test_all_words_must_match",
    ),
    "search/tables.py": (
        "search/test_search.py::test_a_job_whose_table_was_dropped_starts_again",
        "search/test_search.py::test_nothing_points_to_a_table_that_is_being_dropped",
    ),
    "mailroom/daily_figures.py": (
        "mailroom/test_daily_figures.py::test_late_events_correct_earlier_days",
        "mailroom/test_daily_figures.py::test_a_range_is_computed_again",
    ),
    "mailroom/delivery_events.py": ("mailroom/test_provider_events.py::test_a_repeated_event_changes_nothing",),
    "mailroom/event_intake.py": ("mailroom/test_provider_events.py::test_a_repeated_event_changes_nothing",),
    "mailroom/tenant_webhooks.py": (
        "mailroom/test_tenant_webhooks.py::test_an_event_is_delivered_once_to_each_endpoint",
        "mailroom/test_tenant_webhooks.py::test_an_endpoint_that_is_gone_is_disabled_at_once",
    ),
    "mailroom/warmup.py": (
        "mailroom/test_warmup.py::test_a_step_sends_one_email_to_a_partner",
        "mailroom/test_warmup.py::test_emails_are_moved_flagged_and_answered",
    ),
    "mailroom/warmup_plan.py": ("mailroom/test_warmup.py::test_each_account_has_one_plan_per_day",),
    "upsert.py": ("test_tables.py::test_an_upsert_overwrites_and_an_insert_of_missing_rows_does_not",),
    "suppressions.py": ("outreach/test_unsubscribe.py::test_an_unsubscribed_address_gets_no_more_mail",),
}


def modules_with_statements() -> set[str]:
    """Without migrations, which create every test database."""
    handlers = CHECKOUT / "handlers"
    found = {
        path.relative_to(handlers) for path in handlers.rglob("*.py") if STATEMENTS.search(path.read_text("utf-8"))
    }
    return {path.as_posix() for path in found if path.parts[0] != "migrations"}


def markers_of(test: str) -> list[str]:
    file, _, name = test.partition("::")
    tree = ast.parse((HERE / file).read_text("utf-8"))
    [function] = [each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == name]
    return [ast.unparse(each) for each in function.decorator_list]


def test_each_module_with_statements_is_tested_on_every_database() -> None:
    """A new module must be listed with the tests that execute its statements."""
    assert modules_with_statements() == COVERED_BY.keys()


@pytest.mark.parametrize("test", sorted({test for tests in COVERED_BY.values() for test in tests}))
def test_the_tests_of_statements_run_on_every_database(test: str) -> None:
    """They exist and have the marker, and no parameter chooses a database."""
    markers = markers_of(test)

    assert MARKER in markers
    assert not [each for each in markers if each == "SQLITE" or "engine_name" in each]
