"""Every table and every column has a meaning, and docs/tables.md shows it."""

from pathlib import Path

from harness.record.schema import HISTORY, LOG, meaning, null, page

PAGE = Path(__file__).resolve().parents[3] / "docs" / "tables.md"


def test_the_page_is_made_from_the_tables() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make docs`"


def test_every_table_and_column_has_a_meaning() -> None:
    for name, schema in (HISTORY | LOG).items():
        assert meaning(schema).endswith("."), name
        for column in schema:
            assert meaning(column), f"{name}.{column.name}"
            assert not null(column).endswith("."), f"{name}.{column.name}"
