"""The table of reasons: complete, used, and the source of docs/reasons.md."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.common.documents import decode, encode
from harness.results.reasons import CODES, Consequence, Reason, ReasonCode, by_cause, page

ROOT = Path(__file__).parents[3]
PRODUCT = ("fencepost", "harness", "workloads", "pipelines", "nemeses", "checkers", "reports")


def product_nodes(words: str) -> Iterator[ast.AST]:
    """Yield the nodes of the files of the product in which the words are. To parse all of them takes seconds."""
    for room in PRODUCT:
        for path in (ROOT / room).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            if re.search(words, text):
                yield from ast.walk(ast.parse(text))


def test_every_code_is_used_in_the_product() -> None:
    used = {
        node.attr
        for node in product_nodes("ReasonCode")
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "ReasonCode"
    }
    assert used == {code.name for code in ReasonCode}


def test_no_reason_is_made_with_a_code_as_text() -> None:
    calls = [
        node
        for node in product_nodes(r"\b(Reason|problem)\(")
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", getattr(node.func, "attr", "")) in ("Reason", "problem")
    ]
    assert len(calls) >= len(ReasonCode) / 2
    assert not [node.lineno for node in calls if node.args and isinstance(node.args[0], ast.Constant)]


@pytest.mark.parametrize(
    ("code", "setting"),
    [
        (ReasonCode.NEVER_CAME_UP, "ready_within_s"),
        (ReasonCode.DID_NOT_STOP, "stop_within_s"),
        (ReasonCode.FAULTS_LATE, "works_within_s"),
        (ReasonCode.FAULTS_LATE, "--time-limit"),
        (ReasonCode.FAULT_NOT_PLANNED, "--time-limit"),
        (ReasonCode.NOT_DRAINED, "works_within_s"),
        (ReasonCode.NOT_DRAINED, "idle_s"),
        (ReasonCode.INPUTS_LEFT, "idle_s"),
        (ReasonCode.TRANSACTION_OPEN, "transaction_timeout_s"),
        (ReasonCode.NO_GROUP_OFFSETS, "`group`"),
    ],
)
def test_a_remedy_names_the_setting_that_would_help(code: ReasonCode, setting: str) -> None:
    assert setting in code.remedy and "another `--seed`" not in code.remedy


def test_a_reason_needs_a_code_of_the_table() -> None:
    with pytest.raises(ValueError, match=r"^code: there is no 'cheese'$"):
        decode({"code": "cheese", "text": "it is out of cheese"}, Reason)


def test_a_reason_has_the_remedy_of_its_code_unless_it_has_another() -> None:
    plain = Reason(ReasonCode.NOT_DRAINED, "it did not finish")
    assert plain.remedy == ReasonCode.NOT_DRAINED.remedy
    changed = Reason(ReasonCode.NOT_DRAINED, "it did not finish", "s", "wait")
    assert encode(changed) == {
        "code": "not-drained",
        "subject": "s",
        "text": "it did not finish",
        "remedy": "wait",
    }
    assert decode(encode(changed), Reason) == changed and decode(encode(plain), Reason) == plain


@pytest.mark.parametrize("code", ReasonCode)
def test_every_code_has_meaning_occasion_and_remedy(code: ReasonCode) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", code) and code.name == code.upper().replace("-", "_")
    assert CODES[code.value] is code and code.consequences
    assert code.meaning.endswith(".") and code.when.endswith(".")
    assert not code.remedy.endswith(".") and bool(code.remedy) is code.applicable


def test_a_code_of_checks_that_do_not_apply_has_no_other_consequence() -> None:
    kinds = {code.consequences for code in ReasonCode if not code.applicable}
    assert kinds == {(Consequence.NOT_APPLICABLE,)}


def test_the_page_is_made_from_the_table() -> None:
    text = (ROOT / "docs" / "reasons.md").read_text(encoding="utf-8")
    assert text == page(), "run `make docs`"
    assert all(f"\n### `{code}`\n" in text for code in ReasonCode)


def _reason(subject: str, because: str = "") -> Reason:
    return Reason(ReasonCode.INCOMPLETE_EVIDENCE, f"{subject} is missing", subject, because=because)


def test_reasons_are_grouped_by_their_first_cause() -> None:
    far, near, cause, other = (
        _reason("far", "near"),
        _reason("near", "cause"),
        _reason("cause"),
        _reason("other"),
    )
    assert by_cause([far, other, near, cause]) == [(other, []), (cause, [far, near])]
    assert by_cause([]) == []


def test_a_reason_whose_cause_is_not_listed_is_a_first_cause() -> None:
    orphan = _reason("orphan", "not there")
    assert by_cause([orphan]) == [(orphan, [])]


def test_no_reason_is_lost_if_reasons_follow_from_each_other() -> None:
    a, b, c = _reason("a", "b"), _reason("b", "a"), _reason("c", "a")
    grouped = by_cause([a, b, c])
    assert {reason for cause, others in grouped for reason in (cause, *others)} == {a, b, c}


def test_a_code_names_a_cause_without_a_subject() -> None:
    cause = Reason(ReasonCode.RUN_KILLED, "it was killed")
    consequence = _reason("a", "run-killed")
    assert by_cause([cause, consequence]) == [(cause, [consequence])]
    assert decode(encode(consequence), Reason) == consequence
    assert "because" not in encode(cause)
