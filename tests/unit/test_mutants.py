"""The mutants of a file, and the command that runs them."""

from pathlib import Path

import pytest

from tests.mutants import results
from tests.mutants.__main__ import main, report
from tests.mutants.mutate import mutants
from tests.mutants.selection import SelectionError, changed_since, checker_files
from tests.mutants.unit_tests import unit_tests_of


def changes(source: str) -> set[str]:
    """Return the mutants of a source text."""
    return {mutant.source for mutant in mutants("checkers/x.py", source)}


def test_a_comparison_includes_or_excludes_its_bound() -> None:
    assert changes("a < b") == {"a <= b"}
    assert changes("a == b") == {"a != b"}


def test_conditions_in_sql_are_changed_one_by_one() -> None:
    assert changes("x.where('a and not b')") == {
        "x.where('a or not b')",
        "x.where('a and  b')",
        "x.where('true')",
    }


def test_a_join_loses_a_key_or_changes_its_kind() -> None:
    assert changes("a.join(b, on=['run', 'op'], how='left')") == {
        "a.join(b, on=['run', 'op'], how='inner')",
        "a.join(b, on=['op'], how='left')",
        "a.join(b, on=['run'], how='left')",
    }


def test_a_negation_is_negated() -> None:
    assert changes("~a") == {"~~a"}


def test_a_comment_does_not_change_the_key_of_a_mutant() -> None:
    without, commented = (next(iter(mutants("x.py", text))) for text in ("a < b", "a < b  # why"))
    assert without.key == commented.key


def test_type_annotations_are_not_changed() -> None:
    source = "def f(a: int | None) -> int | str:\n    b: int | None = a\n    return b"
    assert changes(source) == set()
    assert changes(source + " + 1") == {source + " - 1"}


def test_the_words_of_an_anomaly_are_not_changed() -> None:
    source = "def find(t): return a < b\ndef _sentence(e: Example) -> str: return a < b\nWORDING = a < b"
    assert {mutant.line for mutant in mutants("checkers/x.py", source)} == {1}


def test_a_checker_file_is_selected_by_its_name_its_path_or_its_anomaly() -> None:
    assert checker_files("lost_input") == checker_files("lost-input") == ["checkers/anomalies/lost_input.py"]
    assert checker_files("stored/tables") == checker_files("checkers/stored/tables.py")
    assert {"checkers/stored/tables.py", "checkers/histories/tables.py"} <= {*checker_files("tables")}


def test_an_unknown_name_of_a_checker_file_shows_the_nearest_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["lost-imput"]) == 2
    message = capsys.readouterr().err
    assert (
        message.startswith('there is no checker file "lost-imput"; the nearest names are ')
        and "lost-input" in message
    )


def test_without_file_and_revision_the_message_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "make mutants FILE=duplicate" in capsys.readouterr().err


@pytest.mark.processes
def test_a_revision_that_git_does_not_know_selects_nothing() -> None:
    with pytest.raises(SelectionError, match='git knows no revision "no-such-revision"'):
        changed_since("no-such-revision")


def test_a_survivor_counts_only_until_the_tests_change(tmp_path: Path) -> None:
    path = tmp_path / "results" / "results.jsonl"
    killed, survivor = mutants("checkers/x.py", "a < b\nc == d")
    results.add(path, killed, "killed: a difference", "tests of yesterday")
    results.add(path, survivor, "survived", "tests of yesterday")
    assert results.load(path, "tests of yesterday").keys() == {killed.key, survivor.key}
    assert results.load(path, "tests of today").keys() == {killed.key}


def test_survivors_are_named_and_make_the_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    killed, survivor = mutants("checkers/x.py", "a < b\nc == d")
    assert report([killed, survivor], {killed.key: "killed: ValueError", survivor.key: "survived"}) == 1
    assert capsys.readouterr().out.splitlines() == [
        "checkers/x.py: 1 of 2 killed",
        "survived: checkers/x.py:2 Eq becomes NotEq",
    ]
    assert report([killed], {killed.key: "killed: ValueError"}) == 0


def test_unit_tests_that_import_the_mutated_file_run_first() -> None:
    assert unit_tests_of("checkers/catalogue.py")[0].name == "test_catalogue.py"


def test_texts_are_mutated_as_sql_except_their_quoted_parts() -> None:
    source = "Rule('x', where=f\"a < {b} and c = 'not it'\")\n'a sentence about it, and no more'"
    found = {mutant.change for mutant in mutants("checkers/anomalies/x.py", source)}
    assert found == {"in SQL: a <= ", "in SQL:  or c = 'not it'", "in SQL:  and c != 'not it'"}
