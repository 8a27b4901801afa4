"""An exploration of a few cases on a real cluster: known bugs, right cases, and a rule that cannot act."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fencepost.exploration.space
from fencepost.exploration import explorer as module
from fencepost.exploration.explorer import explore
from fencepost.exploration.space import CaseVerdict, Exploration, cases_of, scope_of
from harness.common.progress import LineProgress
from harness.protocol.cases import Case, CaseFault
from harness.protocol.rules import Action, ProtocolRule, Selector
from harness.results.verdict import Validity
from harness.settings.options import Options

WRONG = {
    # A late EndTxn(commit) commits the outputs of the next transaction (KAFKA-17754), whose client gets a fatal error.
    "CC hold EndTxn#1 > Produce#4": {"ghost-commit", "reprocessed-input"},
    # It commits the first output only.
    "CC duplicate EndTxn#1 > AddPartitionsToTxn#4": {"torn-transaction"},
    # A late TxnOffsetCommit sets the group back.
    "CC hold TxnOffsetCommit#1 > EndTxn#2": {"group-offset-regression", "reprocessed-input"},
}
RIGHT = {
    "CC hold AddPartitionsToTxn#1 > Produce#2",
    "CC duplicate Produce#3 > now",
    "CC request-lost AddOffsetsToTxn#1",
    "CC response-lost EndTxn#1",
    "CC response-late Produce#1",
    "CC disconnect TxnOffsetCommit#2",
    "CC error-instead AddPartitionsToTxn#3 = CONCURRENT_TRANSACTIONS",
}
FENCED = "CC error-after EndTxn#2 = PRODUCER_FENCED"
NOT_MET = "CC drop OffsetCommit#1"


@pytest.fixture(scope="module")
def exploration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exploration]:
    def some_cases(*arguments: Any, **more: Any) -> Iterator[Case]:
        names = {*WRONG, *RIGHT, FENCED}
        yield from (case for case in cases_of(*arguments, **more) if case.name in names)
        never_sent = ProtocolRule("case", Selector("OffsetCommit"), Action.DROP)
        yield Case(0, NOT_MET, "CC", (CaseFault("1.end", never_sent),))

    store = tmp_path_factory.mktemp("explore")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "cases_of", some_cases)
        patch.setattr(
            fencepost.exploration.space, "TIMES_ALONE", 0
        )  # no case is tried alone, which takes most of the time
        options = Options(store=str(store), workers=8, seed=1)
        record, folder = explore(options, scope_of(["CC"]), LineProgress(io.StringIO()))
    assert (folder / "explore.json").is_file() and Path(folder / "batches").is_dir()
    yield record


def test_the_known_bugs_are_found_in_their_cases_and_in_no_other(exploration: Exploration) -> None:
    found = {name: set(case.anomalies) for name, case in exploration.cases.items() if case.anomalies}
    assert found.keys() == WRONG.keys()
    for name, anomalies in WRONG.items():
        assert anomalies <= found[name]


def test_a_case_is_right_if_its_rule_had_its_effect(exploration: Exploration) -> None:
    for name in RIGHT:
        case = exploration.cases[name]
        assert case.verdict is CaseVerdict.RIGHT and case.proof, (name, case)


def test_a_fatal_error_leads_to_a_new_producer(exploration: Exploration) -> None:
    case = exploration.cases[FENCED]
    assert case.verdict is CaseVerdict.FENCED and case.errors


def test_a_case_whose_rule_cannot_act_is_not_met_and_the_exploration_unknown(
    exploration: Exploration,
) -> None:
    assert exploration.cases[NOT_MET].verdict is CaseVerdict.NOT_MET
    assert exploration.validity is Validity.UNKNOWN  # nothing was wrong alone, as nothing was tried alone
    assert not exploration.unknown_because
