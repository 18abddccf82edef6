"""The reference page says what the tables say, and each key is described."""

from pathlib import Path

import pytest

from ryle.config import tables
from ryle.config.observed import Observed
from ryle.config.reference import page, sections

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "observation-file.md"


def test_page_is_current():
    assert PAGE.read_text() == page(), "run: python -m ryle.config.reference > docs/reference/observation-file.md"


def test_every_table_has_a_section():
    shown = {model for _, model, _ in sections()}
    of_the_file = {t for t in tables.Table.__subclasses__() if t.__module__.startswith("ryle.config")}
    assert shown == of_the_file - {Observed}


@pytest.mark.parametrize("model", [m for _, m, _ in sections()], ids=lambda m: m.__name__)
def test_every_key_is_documented(model):
    heading, text = next((h, m) for h, m, _ in sections() if m is model)
    section = page().split(f"## `{heading}`")[1].split("\n## ")[0]
    for key, field in text.model_fields.items():
        assert field.description or field.annotation in {m for _, m, _ in sections()}, key
        nested = any(f".{key}]" in h for h, _, _ in sections())
        assert nested or f"| `{key}` |" in section
        assert not field.is_required() or nested or field.examples, f"{key}: what should its absence suggest?"
