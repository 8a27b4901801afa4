"""Which properties tell the affected subjects from the others, and what findings come from."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from checkers.contrasts.conclude import conclude
from checkers.contrasts.contrast import Categories, Dimension, Scale, best_contrasts
from checkers.contrasts.dimensions import PARTITIONERS, RunFacts, fnv1a, murmur2
from checkers.contrasts.origin import with_control
from checkers.contrasts.subjects import INPUT, RECORD, RunSubjects, SampledSubjects
from harness.results.conclusions import Contrast, ControlRun, Origin, OriginKind
from harness.results.verdict import AnomalyFindings, FaultReport

ZERO_MS = 1_000_000.0
PARTITIONS = {tp: ("in", tp) for tp in range(4)}


def kill(at_s: float) -> FaultReport:
    details = {"worker": "bill-1.0"}
    return FaultReport(
        "kill-instance", "bill-1", at_s, at_s + 1, True, "killed", "bill-1 was killed", details
    )


def commits_each(width: int, per_s: float, size: int = 100) -> pa.Table:
    """Offset commits of each partition: after each `width` inputs, when the last of them was written."""
    rows = [(tp, end, end / per_s) for tp in PARTITIONS for end in range(width, size + 1, width)]
    return pa.table(
        {
            "group": ["g"] * len(rows),
            "tp": [tp for tp, _, _ in rows],
            "committed": [end for _, end, _ in rows],
            "log_offset": list(range(len(rows))),
            "timestamp_ms": [round(ZERO_MS + at_s * 1000) for _, _, at_s in rows],
            "producer_id": [tp for tp, _, _ in rows],
            "journal": pa.nulls(len(rows), pa.string()),
        }
    )


def inputs(
    affected: set[tuple[int, int]], anomaly: str = "lost-input", size: int = 100, **more: Any
) -> pa.Table:
    """`size` inputs of each partition, ten a second."""
    places = [(tp, offset) for tp in PARTITIONS for offset in range(size)]
    return pa.table(
        {
            "tp": [tp for tp, _ in places],
            "offset": [offset for _, offset in places],
            "timestamp_ms": [round(ZERO_MS + offset * 100) for _, offset in places],
            "weight": [1] * len(places),
            "anomalies": pa.array(
                [[anomaly] if place in affected else None for place in places], pa.list_(pa.string())
            ),
            **{name: [value(place) for place in places] for name, value in more.items()},
        }
    )


def concluded(
    affected: set[tuple[int, int]],
    faults: Sequence[FaultReport] = (),
    anomaly: str = "lost-input",
    width: int = 10,
    **more: Any,
) -> AnomalyFindings:
    rows = inputs(affected, anomaly, **more)
    sample = SampledSubjects(rows, {anomaly: len(affected)}, len(rows))
    subjects = RunSubjects({INPUT: sample}, commits_each(width, 10.0), None, {})
    return conclude(anomaly, AnomalyFindings(len(affected)), subjects, RunFacts(PARTITIONS, ZERO_MS, faults))


def excerpt(**fields: int) -> str:
    return f"c: {json.dumps(fields)}"


def contrasts_of(findings: AnomalyFindings) -> Sequence[Contrast]:
    assert findings.affected is not None
    return findings.affected.contrasts


def origin_of(findings: AnomalyFindings) -> Origin:
    assert findings.origin is not None
    return findings.origin


def best(dimensions: Sequence[Dimension], affected: Sequence[bool]) -> list[Contrast]:
    flags = np.array(affected)
    return best_contrasts(dimensions, flags, np.ones(len(flags)), "inputs")


def test_a_stuck_partition_is_the_best_contrast() -> None:
    (first, *_) = contrasts_of(concluded({(2, offset) for offset in range(30, 100)}))
    assert (first.dimension, first.value) == ("partition", "in/2")
    assert (first.affected, first.subjects, first.others_affected, first.others) == (70, 100, 0, 300)
    assert first.sentence == (
        "all 70 affected inputs are in in/2; of all such inputs, 70 of 100 (70 %) are affected, and of the others "
        "none of 300"
    )


def test_several_partitions_are_one_contrast() -> None:
    (first, *_) = contrasts_of(concluded({(tp, offset) for tp in (1, 3) for offset in range(0, 100, 2)}))
    assert first.value == "in/1 or in/3"


def test_the_last_input_of_each_commit_is_a_contrast() -> None:
    (first, *_) = contrasts_of(concluded({(tp, offset) for tp in PARTITIONS for offset in range(9, 100, 10)}))
    assert first.dimension == "place in a commit"
    assert "are the last input of a commit" in first.sentence


def test_inputs_in_work_at_a_fault_are_a_contrast() -> None:
    # The fault comes at 4.5 s. Until then the groups have committed up to 40, and the next commit is at 50.
    affected = {(tp, offset) for tp in PARTITIONS for offset in range(40, 50)}
    findings = concluded(affected, [kill(4.5)])
    (first, *_) = contrasts_of(findings)
    assert first.dimension == "work at faults" and first.others_affected == 0
    assert origin_of(findings).kind is OriginKind.FAULT


def test_a_wrong_partitioner_is_the_fault_of_the_test() -> None:
    """The inputs are where CRC32 puts their keys, and the program finds those where murmur2 puts them."""
    keys = [f"k{n}" for n in range(4000)]
    by_crc, by_murmur = PARTITIONERS["CRC32"][1], PARTITIONERS["murmur2"][1]
    own: dict[int, list[str]] = {tp: [] for tp in PARTITIONS}
    for key in keys:
        own[by_crc(key.encode(), 4)].append(key)
    affected = {(tp, n) for tp in PARTITIONS for n in range(100) if by_murmur(own[tp][n].encode(), 4) != tp}
    findings = concluded(affected, [kill(5)], key=lambda place: own[place[0]][place[1]])
    (first, *_) = contrasts_of(findings)
    assert first.dimension == "key by murmur2" and "puts in another partition" in first.sentence
    assert (first.affected, first.others_affected) == (len(affected), 0)
    assert origin_of(findings).kind is OriginKind.TEST and "partitioner" in origin_of(findings).sentence


def test_fields_of_the_expected_outputs_are_a_contrast() -> None:
    def pieces(place: tuple[int, int]) -> int:
        return place[1] % 9 + 1

    affected = {(tp, n) for tp in PARTITIONS for n in range(100) if pieces((tp, n)) >= 8}
    findings = concluded(
        affected,
        anomaly="corrupt",
        expected=lambda place: [excerpt(amount=5, id=place[1]), excerpt(pieces=pieces(place))],
    )
    (first, *_) = contrasts_of(findings)
    assert first.sentence.startswith(
        f"all {len(affected)} affected inputs must lead to an output whose `pieces` is 8 or more"
    )
    assert origin_of(findings).kind is OriginKind.DISAGREEMENT


def test_inputs_in_work_are_counted_at_each_fault() -> None:
    """One commit covers the inputs from 40 to 49, and two faults came before it."""
    affected = {(tp, offset) for tp in PARTITIONS for offset in range(40, 50)}
    counts = origin_of(concluded(affected, [kill(4.2), kill(4.6), kill(9)])).sentence
    assert counts.endswith(
        "of them were in work: 40 at fault 1, when bill-1 was killed, 40 at fault 2, when bill-1 was killed and none "
        "at fault 3, when bill-1 was killed"
    )


def test_a_record_took_effect_when_its_marker_was_written() -> None:
    """All records have the time stamps of old inputs. Those whose markers came after the fault are affected."""
    affected = {(tp, offset) for tp in PARTITIONS for offset in range(50, 100)}
    rows = inputs(affected, marker_ms=lambda place: ZERO_MS + place[1] * 100)
    old = pa.array([round(ZERO_MS) - 86_400_000] * len(rows))
    rows = rows.set_column(rows.schema.get_field_index("timestamp_ms"), "timestamp_ms", old)
    subjects = RunSubjects(
        {RECORD: SampledSubjects(rows, {"lost-input": len(affected)}, len(rows))}, None, None, {}
    )
    facts = RunFacts(PARTITIONS, ZERO_MS, [kill(5)])
    assert (
        origin_of(conclude("lost-input", AnomalyFindings(len(affected)), subjects, facts)).kind
        is OriginKind.FAULT
    )


def test_findings_from_the_first_record_on_do_not_come_from_the_faults() -> None:
    findings = concluded({(tp, offset) for tp in PARTITIONS for offset in range(0, 100, 5)}, [kill(5)])
    assert origin_of(findings).kind is OriginKind.PROGRAM
    assert origin_of(findings).sentence.startswith("not caused by the faults: the findings begin")


def test_a_run_without_faults_has_no_findings_by_faults() -> None:
    assert origin_of(concluded({(0, offset) for offset in range(20)})).kind is OriginKind.PROGRAM


@pytest.mark.parametrize("first", [40, 60])
def test_too_few_findings_do_not_tell_where_they_come_from(first: int) -> None:
    findings = concluded({(0, first + n) for n in range(4)}, [kill(2)])
    assert origin_of(findings).kind is OriginKind.NOT_KNOWN


def test_random_findings_have_no_contrast() -> None:
    chosen = np.random.default_rng(7).random((4, 100)) < 0.3
    affected = {(tp, n) for tp in PARTITIONS for n in range(100) if chosen[tp, n]}
    findings = concluded(affected, [kill(5)])
    assert contrasts_of(findings) == []
    assert findings.affected is not None and "partition" in findings.affected.compared


def test_all_instances_are_counted_over_time() -> None:
    findings = concluded({(0, offset) for offset in range(20, 60)})
    when = findings.affected.over_time if findings.affected else None
    assert when is not None and sum(when.counts) == 40 and when.from_s == 3.0


def test_two_contrasts_that_say_the_same_are_one() -> None:
    affected = [True] * 40 + [False] * 60
    codes = np.array([0] * 40 + [1] * 60)
    twins = [Categories("one", codes, ("a", "b"), "are {}"), Categories("other", codes, ("c", "d"), "are {}")]
    assert [each.dimension for each in best(twins, affected)] == ["one"]


def test_a_threshold_has_the_number_that_the_subjects_have() -> None:
    values = np.arange(100.0)
    (contrast,) = best([Scale("size", values, "have {} or more", "have less than {}")], list(values >= 60))
    assert contrast.value == "60" and (contrast.affected, contrast.subjects) == (40, 40)


def test_weights_scale_the_counts() -> None:
    flags, codes = np.array([True] * 40 + [False] * 60), np.array([0] * 40 + [1] * 60)
    (contrast,) = best_contrasts(
        [Categories("x", codes, ("a", "b"), "are {}")], flags, np.full(100, 3.0), "inputs"
    )
    assert (contrast.affected, contrast.others) == (120, 180)


def test_the_hashes_are_those_of_the_clients() -> None:
    """The values of Kafka's own test of murmur2 (UtilsTest), and of FNV's reference."""
    signed = {"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536}
    assert {text: murmur2(text.encode()) for text in signed} == {t: n & 0xFFFFFFFF for t, n in signed.items()}
    assert fnv1a(b"foobar") == 0xBF9CF968


def control(valid: bool | str, **anomalies: int) -> ControlRun:
    return ControlRun("../c", valid, "", {name.replace("_", "-"): count for name, count in anomalies.items()})


def test_a_control_with_the_same_finding_acquits_the_faults() -> None:
    found = {"lost-input": AnomalyFindings(2)}
    (findings,) = with_control(found, control(False, lost_input=3)).values()
    assert origin_of(findings).kind is OriginKind.PROGRAM


def test_a_clean_control_accuses_the_faults_where_counts_do_not_tell() -> None:
    found = {"lost-input": AnomalyFindings(2)}
    (findings,) = with_control(found, control(True)).values()
    assert origin_of(findings).kind is OriginKind.FAULT


def test_a_control_without_a_verdict_says_nothing() -> None:
    found = {"lost-input": AnomalyFindings(2)}
    assert with_control(found, control("unknown")) == found
    assert with_control(found, None) == found


def test_a_clean_control_does_not_accuse_faults_that_came_later() -> None:
    program = Origin(OriginKind.PROGRAM, "not caused by the faults: x")
    (findings,) = with_control({"lost-input": AnomalyFindings(2, origin=program)}, control(True)).values()
    assert origin_of(findings).kind is OriginKind.PROGRAM
