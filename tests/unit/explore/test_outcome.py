"""The verdict of an exploration, its record on the disk, and its texts."""

from pathlib import Path

import pytest
from msgspec import structs

from fencepost.checks.run_folders import sole_use
from fencepost.exploration.batch import anomalies_of_no_case, judge
from fencepost.exploration.outcome import badge, certificate, lines, outcome_of, verdict_of, write_page
from fencepost.exploration.space import FILE, TIMES_ALONE, CaseVerdict, Exploration, TriedCase, load, scope_of
from harness.common.errors import UnreadableInput, UsageError
from harness.protocol.cases import Case, CaseFault, CaseOutcome
from harness.protocol.rules import Action, ProtocolRule, Selector
from harness.results.example import Example
from harness.results.reasons import Reason, ReasonCode
from harness.results.verdict import AnomalyFindings, Validity, Verdict
from harness.runner.nemesis import InjectedFault
from nemeses.cases import prove

RIGHT, WRONG, FENCED = CaseVerdict.RIGHT, CaseVerdict.WRONG, CaseVerdict.FENCED
STUCK, NOT_MET = CaseVerdict.STUCK, CaseVerdict.NOT_MET
MISSING = Reason(ReasonCode.INCOMPLETE_EVIDENCE, "batches/001/x: a table is missing")


def tried(verdict: CaseVerdict, *alone: CaseVerdict) -> TriedCase:
    anomalies = ["torn-transaction"] if verdict is WRONG else []
    return TriedCase(verdict, "batches/001/x", 0, anomalies, alone=[tried(each) for each in alone])


def exploration(*cases: TriedCase) -> Exploration:
    names = [f"CC hold EndTxn#{n} > end" for n in range(1, len(cases) + 1)]
    record = Exploration("librdkafka-1", "4.4.0", 2, scope_of(["CC"], ["hold"]))
    record.command, record.ended = "fencepost explore --client java", "2026-11-30T01:02:03"
    record.sent = {"CC": [("EndTxn", n, f"{n}.end", 1) for n in range(1, len(cases) + 1)]}
    record.cases = dict(zip(names, cases, strict=True))
    record.all_cases = len(cases)
    return record


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (tried(RIGHT), Validity.VALID),
        (tried(FENCED), Validity.VALID),
        (tried(WRONG, WRONG, WRONG, WRONG), Validity.INVALID),
        (tried(WRONG, WRONG, WRONG), Validity.UNKNOWN),  # it was interrupted
        (tried(WRONG, WRONG, RIGHT, WRONG), Validity.UNKNOWN),  # a finding is never forgotten
        (tried(STUCK, RIGHT, WRONG, WRONG), Validity.UNKNOWN),
        (tried(WRONG, STUCK, NOT_MET, STUCK), Validity.UNKNOWN),
        (tried(STUCK, STUCK, STUCK, STUCK), Validity.UNKNOWN),
        (tried(STUCK, STUCK, RIGHT), Validity.VALID),
        (tried(NOT_MET, NOT_MET, NOT_MET, NOT_MET), Validity.UNKNOWN),
        (tried(NOT_MET, WRONG, WRONG, WRONG), Validity.INVALID),
        (tried(NOT_MET), Validity.UNKNOWN),
    ],
)
def test_the_verdict_depends_on_what_a_case_does_alone(case: TriedCase, expected: Validity) -> None:
    assert exploration(tried(RIGHT), case).validity is expected


def test_a_case_that_has_another_anomaly_each_time_is_not_confirmed() -> None:
    case = tried(WRONG, *[WRONG] * TIMES_ALONE)
    assert case.confirmed
    case.alone[1].anomalies = ["lost-commit"]
    assert not case.confirmed


def test_a_finding_of_no_case_is_named() -> None:
    of_log = Example.from_json({"log": {"topic": "__transaction_state", "partition": 0}})
    anomalies = {"stuck-completion": AnomalyFindings(1, examples=[of_log])}
    verdict = Verdict("h", "h", None, Validity.INVALID.json, "", anomalies)
    assert anomalies_of_no_case([outcome(0)], verdict) == ["stuck-completion"]
    (case,) = judge([outcome(0)], verdict, "b")
    assert case.verdict is RIGHT


@pytest.mark.parametrize("acted", [True, False])
def test_the_fault_of_a_batch_acts_only_if_a_rule_had_its_effect(acted: bool) -> None:
    effect = InjectedFault("2 cases")
    rule = ProtocolRule("case", Selector("EndTxn"), Action.DROP)
    faults = (CaseFault("1.end", rule),)
    prove(effect, [CaseOutcome(Case(n, "x", "CC", faults), 0, 1, acted=acted and n == 0) for n in (0, 1)])
    assert effect.acted is acted and bool(effect.unmet_goals) is not acted


def test_an_exploration_that_has_tried_nothing_is_unknown() -> None:
    assert exploration().validity is Validity.UNKNOWN


def test_a_batch_without_evidence_makes_a_right_exploration_unknown_and_a_wrong_one_invalid() -> None:
    for case, expected in (
        (tried(RIGHT), Validity.UNKNOWN),
        (tried(WRONG, *[WRONG] * TIMES_ALONE), Validity.INVALID),
    ):
        record = exploration(case)
        record.unknown_because = [MISSING]
        assert record.validity is expected


def test_the_verdict_for_suites_names_missing_evidence_beside_known_anomalies() -> None:
    record = exploration(tried(WRONG, *[WRONG] * TIMES_ALONE), tried(NOT_MET), tried(STUCK))
    record.unknown_because = [MISSING]
    verdict = verdict_of(record, Path("s"))
    assert verdict.validity is Validity.INVALID and verdict.anomalies["torn-transaction"].count == 1
    assert [reason.code for reason in verdict.unknown_because] == [
        "incomplete-evidence",
        "fault-did-not-act",
        "inputs-left",
    ]


def test_only_one_process_uses_a_folder(tmp_path: Path) -> None:
    with (
        sole_use(tmp_path / "lock", "taken"),
        pytest.raises(UsageError, match="taken"),
        sole_use(tmp_path / "lock", "taken"),
    ):
        pytest.fail("two processes have the lock")
    with sole_use(tmp_path / "lock", "taken"):
        pass


def test_a_case_that_is_wrong_only_sometimes_is_unsteady() -> None:
    assert tried(WRONG, WRONG, RIGHT, WRONG).unsteady
    assert not tried(WRONG, WRONG, WRONG, WRONG).unsteady and not tried(STUCK, RIGHT).unsteady


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    record = exploration(tried(RIGHT), tried(WRONG, WRONG))
    assert load(tmp_path / "none") is None
    record.save(tmp_path)
    assert load(tmp_path) == record


def test_a_damaged_record_is_reported_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"client": 1}', encoding="utf-8")
    with pytest.raises(UnreadableInput, match=r"explore\.json cannot be read: .*--again"):
        load(tmp_path)


def test_the_json_counts_cases_and_joins_findings_of_one_request() -> None:
    record = exploration(tried(RIGHT), tried(WRONG, WRONG, WRONG, WRONG), tried(STUCK))
    body = outcome_of(record, Path("s"))
    assert body["valid"] is False and body["folder"] == "s"
    counts = {"right": 1, "wrong": 1, "fenced": 0, "stuck": 1, "not_met": 0}
    assert body["cases"] == {"all": 3, "tried": 3, **counts, "not_offered": 0, "unsteady": 0}
    assert body["findings"] == [
        {
            "request": "CC EndTxn#2",
            "kind": "hold",
            "anomalies": ["torn-transaction"],
            "cases": 1,
            "smallest": "CC hold EndTxn#2 > end",
            "alone": "1 of 1 each time",
        }
    ]
    assert "two faults in one case" in body["not_in_it"]


def test_the_text_has_a_matrix_and_each_wrong_case() -> None:
    text = list(lines(exploration(tried(RIGHT), tried(WRONG, WRONG, RIGHT)), Path("s")))
    assert text[:3] == ["CC        hold", "EndTxn#1  1.", "EndTxn#2  1X"]
    assert "    CC hold EndTxn#2 > end (alone 1 of 2)" in text
    assert text[-2] == "reason   2 of 2 cases tried: 1 right, 1 wrong"


def test_a_case_is_due_alone_until_it_is_clear_or_was_wrong_often_enough() -> None:
    due = [
        (tried(RIGHT), 0),
        (tried(WRONG), 3),
        (tried(WRONG, WRONG, WRONG), 1),
        (tried(STUCK), 3),
        (tried(STUCK, RIGHT), 0),
        (tried(NOT_MET, RIGHT, WRONG), 1),
    ]
    assert [case.times_due for case, _ in due] == [times for _, times in due]


def test_a_record_goes_on_only_with_the_same_maker_and_scope_and_with_the_batches_that_are_there(
    tmp_path: Path,
) -> None:
    record, other = exploration(tried(RIGHT), tried(RIGHT)), exploration()
    record.cases["CC hold EndTxn#2 > end"].batch = "batches/002/x"
    (tmp_path / "batches/001/x").mkdir(parents=True)
    (tmp_path / "batches/001/x/verdict.json").touch()
    assert record.goes_on(other, tmp_path) and list(record.cases) == ["CC hold EndTxn#1 > end"]
    other.made_by = "another version"
    assert not record.goes_on(other, tmp_path)
    assert not exploration().goes_on(
        structs.replace(exploration(), scope=scope_of(["AC"], ["hold"])), tmp_path
    )
    assert exploration().goes_on(exploration(), tmp_path)


def test_the_certificate_says_what_was_tried_and_what_was_not() -> None:
    record = exploration(tried(RIGHT), tried(FENCED))
    record.finished = True
    record.not_offered = ["AC"]
    text = " ".join(certificate(record))
    for part in (
        "librdkafka-1 with Kafka 4.4.0, transaction version 2, 2026-11-30: valid.",
        "2 of 2 cases tried: 1 right, 1 fenced.",
        "Tried: the faults hold on the messages of the programs CC.",
        "the programs AC, for which the client lacks a step",
        "members of the group",
    ):
        assert part in text
    assert badge(record).endswith("2026-11-30: valid, 2 of 2 faults on the messages of transactions right")
    record.all_cases, record.finished = 9, False
    text = " ".join(certificate(record))
    assert "Tried: 2 of 9 cases of the faults hold" in text and "7 cases that were not tried" in text


def test_the_page_has_each_case_with_its_verdict_and_escapes_its_words(tmp_path: Path) -> None:
    record = exploration(tried(RIGHT), tried(WRONG, WRONG, RIGHT, WRONG), tried(NOT_MET))
    record.cases["CC hold EndTxn#3 > end"].proof = "<script>x</script>"
    write_page(record, tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("CC hold EndTxn#1 &gt; end") == 1 and "<script>" not in page
    assert "alone 2 of 3 wrong" in page and 'href="batches/001/x/cases/0.txt"' in page
    assert 'fencepost explore --client java --case "CC hold EndTxn#2 &gt; end"' in page


def outcome(number: int, *, acted: bool = True, errors: tuple[str, ...] = (), stuck: str = "") -> CaseOutcome:
    case = Case(number, f"case {number}", "CC")
    return CaseOutcome(case, 0, 1, errors=errors, acted=acted, proof="held", stuck=stuck)


def test_a_finding_is_of_the_case_of_its_partition_or_transactional_id() -> None:
    by_record = Example.from_json({"records": [{"topic": "first", "partition": 2, "offset": 4}]})
    by_id = Example.from_json({"operation": {"op": 3, "transactional_id": "tasks-1"}})
    state_log = Example.from_json(
        {
            "operation": {"op": 4, "transactional_id": "tasks-3"},
            "log": {"topic": "__transaction_state", "partition": 0},
        }
    )
    anomalies = {
        "torn-transaction": AnomalyFindings(2, examples=[by_record, by_id]),
        "lost-commit": AnomalyFindings(1, examples=[state_log]),
        "undue-fencing": AnomalyFindings(1, allowed=True, examples=[by_id]),
    }
    verdict = Verdict("h", "h", None, Validity.INVALID.json, "", anomalies)
    outcomes = [
        outcome(0),
        outcome(1),
        outcome(2, stuck="it did not end"),
        outcome(3, acted=False),
        outcome(4, acted=False),
    ]
    outcomes += [outcome(5, errors=("fenced",)), outcome(6, stuck="it did not end")]
    cases = list(judge(outcomes, verdict, "b"))
    found = [(case.verdict, case.anomalies) for case in cases]
    assert [sentence.partition(":")[0] for case in cases for sentence in case.why] == [
        name for case in cases for name in case.anomalies
    ]
    assert found == [
        (RIGHT, []),
        (WRONG, ["torn-transaction"]),
        (WRONG, ["torn-transaction"]),
        (WRONG, ["lost-commit"]),
        (NOT_MET, []),
        (FENCED, []),
        (STUCK, []),
    ]
