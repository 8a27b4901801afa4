"""Conclusions in words: shares, origins, the control, what to do next, how often a finding came."""

from msgspec import structs

from harness.results.conclusions import (
    Affected,
    Contrast,
    ControlRun,
    NotDecided,
    Origin,
    OriginKind,
    recurrences,
)
from harness.results.verdict import AnomalyFindings, FaultReport, Validity, Verdict
from reports.conclusions import (
    compare_with_control,
    conclusion,
    conclusions,
    describe_not_decided,
    describe_recurrence,
    for_others,
    next_step,
    of_all,
)
from tests.support.synthetic_store import make_verdict

FOUND = Contrast("partition", "in/2", "all 7 affected inputs are in in/2", 7, 9, 0, 20)
COMMAND = "fencepost run --seed 3"


def findings(kind: OriginKind | None = None, **more: object) -> AnomalyFindings:
    origin = Origin(kind, "after 2 faults") if kind else None
    about = Affected("inputs", 7, 29, [FOUND], ["partition", "key"])
    return structs.replace(AnomalyFindings(14, affected=about, origin=origin), **more)


def verdict(kind: OriginKind | None = None, control: ControlRun | None = None) -> Verdict:
    return structs.replace(
        make_verdict(Validity.INVALID),
        anomalies={"lost-input": findings(kind)},
        control=control,
        faults=[FaultReport("kill-broker", "broker 1", 3.0, 4.0, True, "killed", "broker 1 was killed")],
    )


def test_a_count_has_its_denominator() -> None:
    assert of_all(7, 29, "inputs") == "7 of 29 inputs (24 %)"
    assert of_all(29, 29, "inputs") == "all 29 inputs"
    assert of_all(1, 1, "groups") == "the only group"
    assert of_all(1, 2900, "inputs") == "1 of 2,900 inputs (less than 1 %)"
    assert of_all(2899, 2900, "inputs") == "2,899 of 2,900 inputs (99 %)"


def test_a_conclusion_has_the_share_the_contrast_and_the_origin() -> None:
    own = conclusion("lost-input", {"lost-input": findings(OriginKind.FAULT)})
    assert (own.counted, own.contrasts) == ("7 of 29 inputs (24 %)", ["All 7 affected inputs are in in/2"])
    assert (own.label, own.why) == ("They come with the faults", "After 2 faults")
    assert own.compared == ""


def test_without_a_contrast_the_compared_dimensions_are_named() -> None:
    about = Affected("inputs", 7, 29, [], ["partition", "key"])
    assert conclusion("x", {"x": findings(affected=about)}).compared == (
        "nothing that was compared tells them from the others (partition and key)"
    )


def test_if_all_are_affected_nothing_could_tell_them_apart() -> None:
    about = Affected("inputs", 29, 29, [], ["partition"])
    assert conclusion("x", {"x": findings(affected=about)}).compared == ""


def test_consequences_and_permitted_findings_have_no_conclusion() -> None:
    anomalies = {
        "lost-commit": findings(OriginKind.FAULT),
        "lost-input": findings(because="lost-commit"),
        "int-send-skip": findings(allowed=True),
    }
    assert [own.anomaly for own in conclusions(anomalies)] == ["lost-commit"]


def test_rows_that_are_not_decided_are_a_sentence() -> None:
    rows = NotDecided("lost-input", 411, 3761, "inputs", "the group had not gone past them", "wait")
    assert describe_not_decided(rows) == "lost-input is not decided for 411 of 3,761 inputs (11 %)"


CLEAN = ControlRun("../c/1", True, "nothing was found", {})


def test_both_runs_are_compared() -> None:
    control = ControlRun("../c/1", False, "", {"lost-input": 3, "duplicate": 1})
    rows = list(compare_with_control(verdict(OriginKind.PROGRAM, control), control))
    assert rows[:3] == [("verdict", "invalid", "invalid"), ("lost-input", "14", "3"), ("duplicate", "0", "1")]


def test_findings_go_to_others_only_if_they_need_a_fault_and_the_control_is_clean() -> None:
    assert for_others(verdict(OriginKind.FAULT, CLEAN))
    assert not for_others(verdict(OriginKind.FAULT))
    assert not for_others(verdict(OriginKind.PROGRAM, CLEAN))
    assert not for_others(verdict(OriginKind.NOT_KNOWN, CLEAN))
    assert not for_others(verdict(OriginKind.FAULT, structs.replace(CLEAN, valid="unknown")))
    assert not for_others(make_verdict(Validity.VALID))


def test_the_next_step_is_a_control_or_the_program() -> None:
    assert f"`{COMMAND} --control`" in next_step(verdict(OriginKind.FAULT), COMMAND)
    assert next_step(verdict(OriginKind.TEST), COMMAND).startswith("No finding comes from the faults.")
    mixed = {"duplicate": findings(OriginKind.PROGRAM), "lost-input": findings(OriginKind.FAULT)}
    both = structs.replace(verdict(), anomalies=mixed)
    assert next_step(both, COMMAND).startswith("Some findings do not come from the faults.")
    assert next_step(verdict(OriginKind.FAULT, CLEAN), COMMAND) == ""
    assert next_step(make_verdict(Validity.VALID), COMMAND) == ""


def test_a_control_is_proposed_only_with_the_command_that_makes_one() -> None:
    assert next_step(verdict(OriginKind.FAULT), "fencepost replay store/run") == ""
    assert next_step(structs.replace(verdict(), faults=[]), COMMAND) == ""


def test_a_finding_of_some_runs_is_counted_by_fault() -> None:
    kill, pause = {"kill-instance"}, {"pause-instance"}
    (row, rare) = recurrences(
        [(kill, {"lost-input"}), (kill, set()), (pause, set()), (kill | pause, {"lost-input", "corrupt"})]
    )
    assert describe_recurrence(row) == (
        "in 2 of 4 runs; with kill-instance in 2 of 3 and with pause-instance in 1 of 2"
    )
    assert (row.anomaly, rare.anomaly, rare.hits) == ("lost-input", "corrupt", 1)
    assert recurrences([(kill, set())]) == []


def test_a_finding_that_follows_the_faults_names_one_that_is_there_without_them() -> None:
    mixed = {
        "reprocessed-input": findings(OriginKind.FAULT),
        "offset-output-mismatch": findings(OriginKind.PROGRAM),
    }
    follows, without = conclusions(mixed)
    assert follows.why.endswith(
        "may only bring out what offset-output-mismatch shows without them: look there first"
    )
    assert "bring out" not in without.why
    (alone,) = conclusions({"reprocessed-input": findings(OriginKind.FAULT)})
    assert "bring out" not in alone.why
