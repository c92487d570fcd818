"""The READMEs of mail and outreach match the code: payloads are valid, tables have every field."""

import json
import re

import pytest
from pydantic import BaseModel

from handlers.mail.bounces import BAD_ADDRESS_CODES, UNKNOWN_RECIPIENT_CODES
from handlers.mail.payloads import Mail
from handlers.outreach.payloads import Outreach
from tests.process.installation import CHECKOUT

HANDLERS = CHECKOUT / "handlers"
MODELS: dict[str, type[BaseModel]] = {"mail": Mail, "outreach": Outreach}
TYPES = {"mail": "email", "outreach": "outreach"}


@pytest.mark.parametrize("name", MODELS)
def test_the_example_is_a_valid_payload(name: str) -> None:
    """As written in shell quotes."""
    [payload] = re.findall(
        rf"^mayfly enqueue send_{TYPES[name]} '(.+?)'$", page(name), flags=re.MULTILINE | re.DOTALL
    )

    assert isinstance(MODELS[name].model_validate(json.loads(payload)), BaseModel)


@pytest.mark.parametrize("name", MODELS)
def test_the_first_list_has_every_field(name: str) -> None:
    """And no other."""
    entries = page(name).split("\n\n- ")[1].split("\n\n")[0]
    named = re.findall(r"^(?:- )?((?:`\w+`(?:, )?)+): ", entries, flags=re.MULTILINE)
    fields = {field for names in named for field in re.findall(r"`(\w+)`", names)}

    assert fields == set(MODELS[name].model_fields)


def test_the_readme_lists_the_bounce_codes() -> None:
    """In the order of the code."""
    listed = page("outreach").split("is suppressed as `bounced`")[1]

    assert re.findall(r"5\.\d\.\d+", listed)[: len(BAD_ADDRESS_CODES)] == list(BAD_ADDRESS_CODES)
    assert re.findall(r"\b55\d\b", listed)[:3] == list(UNKNOWN_RECIPIENT_CODES)


def page(name: str) -> str:
    return (HANDLERS / name / "README.md").read_text("utf-8")
