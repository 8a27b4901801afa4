"""What the mutants of a file are."""

import json
from pathlib import Path

from tests.mutants.judged import SUMMARY, load, save
from tests.mutants.mutate import mutants
from tests.mutants.reasons import reasons
from tests.mutants.subjects import ROOT, subjects_of
from tests.mutants.tested import TESTS


def changes(source: str) -> set[str]:
    """The mutants of a line, as text."""
    return {mutant.source for mutant in mutants("checkers/x.py", source)}


def test_a_comparison_loses_or_gains_its_bound() -> None:
    assert changes("a < b") == {"a <= b"}
    assert changes("a == b") == {"a != b"}


def test_conditions_in_sql_are_changed_one_by_one() -> None:
    assert changes("x.where('a and not b')") == {
        "x.where('a or not b')",
        "x.where('a and  b')",
        "x.where('true')",
    }


def test_a_join_loses_a_key_and_changes_its_kind() -> None:
    assert changes("a.join(b, on=['run', 'op'], how='left')") == {
        "a.join(b, on=['run', 'op'], how='inner')",
        "a.join(b, on=['op'], how='left')",
        "a.join(b, on=['run'], how='left')",
    }


def test_a_negation_goes() -> None:
    assert changes("~a") == {"~~a"}


def test_a_comment_changes_no_name() -> None:
    one, other = (next(iter(mutants("x.py", text))) for text in ("a < b", "a < b  # why"))
    assert one.key == other.key


def test_a_mutant_is_the_same_whatever_is_said_of_it() -> None:
    (one,) = mutants("checkers/x.py", '"""One thing."""\n\nSAID = a < b')
    (other,) = mutants("checkers/x.py", '"""Another."""\n\n# why\nSAID = (a <\n  b)')
    (third,) = mutants("checkers/x.py", '"""One thing."""\n\nSAID = a < c')
    assert one.key == other.key != third.key


def test_a_mutant_is_the_same_whatever_stands_beside_it() -> None:
    (one,) = mutants("checkers/x.py", "A = 1\ndef f(): return a < b")
    (other,) = mutants("checkers/x.py", "def g(): return 2\ndef f(): return a < b")
    (third,) = mutants("checkers/x.py", "A = 1\ndef g(): return a < b")
    assert one.key == other.key != third.key


def test_what_says_the_kind_of_a_thing_is_not_changed() -> None:
    source = "def f(a: int | None) -> int | str:\n    b: int | None = a\n    return b"
    assert changes(source) == set()
    assert changes(source + " + 1") == {source + " - 1"}


def test_the_words_of_an_anomaly_are_not_changed() -> None:
    source = "def find(t): return a < b\ndef _sentence(e: Example) -> str: return a < b\nTOLD = a < b"
    assert {mutant.line for mutant in mutants("checkers/x.py", source)} == {1}


def test_every_file_of_the_checkers_is_judged_by_something() -> None:
    for path in sorted((ROOT / "checkers").rglob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        if file not in subjects_of():
            assert not list(mutants(file, path.read_text())), f"nothing judges the mutants of {file}"


def test_the_tests_that_judge_a_file_are_there() -> None:
    here = Path(__file__).parent / "checkers"
    missing = [name for names in TESTS.values() for name in names if not (here / f"{name}.py").exists()]
    assert missing == []


def test_a_reason_is_of_a_mutant_that_survives() -> None:
    known = load(SUMMARY, Path("none.jsonl"))
    assert [key for key in reasons() if key in known and known[key]["fate"] != "survived"] == []


def test_what_is_judged_can_be_written_and_read_again(tmp_path: Path) -> None:
    rows = [
        {"key": "checkers/a.py:01", "file": "checkers/a.py", "fate": "killed: a difference"},
        {"key": "checkers/a.py:02", "file": "checkers/a.py", "fate": "survived"},
    ]
    save(tmp_path / "judged.txt", rows)
    assert (tmp_path / "judged.txt").read_text() == (
        "checkers/a.py killed 1: 01\ncheckers/a.py survived 1: 02\n"
    )
    (tmp_path / "results.jsonl").write_text(json.dumps(rows[1] | {"fate": "killed: later"}))
    known = load(tmp_path / "judged.txt", tmp_path / "results.jsonl")
    assert {key: row["fate"] for key, row in known.items()} == {
        "checkers/a.py:01": "killed",
        "checkers/a.py:02": "killed: later",
    }


def test_every_text_of_a_check_is_sql_but_for_what_is_quoted_in_it() -> None:
    """A rule of `checkers.findings.rules` is text, and its mutants are those of its conditions."""
    source = "Rule('x', where=f\"a < {b} and c = 'not it'\")\n'what is said of it, and no more'"
    found = {mutant.change for mutant in mutants("checkers/anomalies/x.py", source)}
    assert found == {"in SQL: a <= ", "in SQL:  or c = 'not it'", "in SQL:  and c != 'not it'"}
