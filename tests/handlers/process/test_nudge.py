"""Nudges with runners that are killed at random: exactly one per board."""

import time
from datetime import timedelta

from tests.handlers.ai.models import Asked, played_model
from tests.handlers.process.random_kills import drain_under_kills
from tests.process.installation import Installation

BOARDS = 8
KILLS = 2  # a third kill of the same job would make it dead


def test_random_kills_nudge_no_board_twice(embedded: Installation) -> None:
    """Before, during or after the call of the model."""
    with played_model() as model:
        embedded.settings = {
            "OPENAI_API_KEY": "k",
            "OPENAI_URL": model.url,
            "MAX_WORKERS": "2",
            "BATCH_SIZE": "2",
            "BACKOFF_BASE": "0.01",
        }
        at = f"{embedded.now() - timedelta(hours=30):%Y-%m-%d %H:%M:%S}"
        for number in range(1, BOARDS + 1):
            embedded.execute(
                f"INSERT INTO app_boards (id, title, state, created_at) VALUES ({number}, 'x', 'open', '{at}')"
            )
            embedded.execute(
                "INSERT INTO app_posts (board_id, author_id, body, state, created_at, published_at)"
                f" VALUES ({number}, 1, 'Beans?', 'published', '{at}', '{at}')"
            )
        embedded.enqueue("gpt_ai_cofac_nudging", lane="gpt_ai_cofac_nudging")

        def reply(_asked: Asked) -> str:
            time.sleep(0.02)  # long enough for a kill during the call
            return '{"nudge": true, "text": "And peas?"}'

        model.reply = reply
        killed = drain_under_kills(embedded, lambda: len(model.asked), kills=KILLS, within=0.04)

        posts = embedded.rows("SELECT board_id FROM app_posts WHERE author_id IS NULL ORDER BY board_id")
        open_calls = embedded.rows("SELECT call_key FROM app_llm_calls WHERE state = 'open'")
        assert killed
        assert [row.board_id for row in posts] == list(range(1, BOARDS + 1))
        assert embedded.statuses() == {"done": BOARDS + 1}
        assert len(open_calls) <= KILLS
