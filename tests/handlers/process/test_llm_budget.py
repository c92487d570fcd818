"""A budget with many concurrent runners: it is never exceeded."""

import pytest

from tests.handlers.ai.models import played_model
from tests.process.installation import Installation

JOBS = 60


@pytest.mark.slow
def test_many_runners_spend_no_more_than_the_budget(installation: Installation) -> None:
    """The other jobs wait for the next month, and none fails because of a lock. On every database."""
    with played_model() as model:
        model.reply = lambda _asked: '{"text": "Peas?"}'
        installation.settings = {
            "OPENAI_API_KEY": "k", "OPENAI_URL": model.url, "OPENAI_PRICES": "gpt-4o-mini=40/100",
            "OPENAI_BUDGET": "3", "MAX_WORKERS": "5", "BATCH_SIZE": "2",
        }  # fmt: skip
        installation.execute(
            "INSERT INTO app_boards (id, title, state, created_at) VALUES (1, 'x', 'open', '2026-05-04 00:00:00')"
        )
        installation.enqueue("ai_suggest_post", '{"board": 1}', count=JOBS, lane="ai_summarize_board")

        installation.dispatch()

        [[used, most]] = installation.rows("SELECT used, most FROM mayfly_limits")
        [[balance]] = installation.rows("SELECT balance_micros FROM app_llm_balance")
        [[spent, calls]] = installation.rows("SELECT SUM(cost_micros), COUNT(*) FROM app_llm_calls")
        attempts = installation.rows("SELECT error FROM mayfly_attempts")
        assert attempts == []
        assert (used, most) == (300, 300)
        assert int(spent) + balance <= 3_000_000
        assert len(model.asked) == calls == installation.statuses()["done"]
        assert installation.statuses()["pending"] == JOBS - calls
        assert 0 < JOBS - calls < JOBS
