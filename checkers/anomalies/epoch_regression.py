"""Epoch regression: the epoch of a producer id went down.

In one partition a batch, or the marker just above it, has a lower epoch than what its producer id had
written just below. Or a marker has a lower coordinator epoch than the marker of that producer id before it. Or, in
the transaction log, a transactional id went on with a lower epoch of the same producer id.

Illegal because a higher epoch fences the lower one: whoever still has it must not write any more.
Evidence: the order of batches and markers in the leader's log, and that of the states in the transaction
log. There a state counts only if the coordinator went on from it: one that its
replicas did not confirm in time stands in the log too, and may raise the epoch for nothing.

    log of x: record of producer 7, epoch 3, at offset 4
    log of x: record of producer 7, epoch 2, at offset 5         <- epoch-regression

Blind spot: two markers one upon the other, with no record between them.
Reference: KIP-98, "fencing zombies"; KIP-360; KIP-890.
"""

from collections.abc import Mapping

from checkers.findings.build import state
from checkers.findings.rules import Rule
from checkers.findings.wording import AnomalyWording
from harness.results.example import Example, describe_place
from harness.results.wording import printable

NAME = "epoch-regression"


def _entry(offset: str, epoch: str) -> str:
    return f"struct(tp as tp, {offset} as offset, producer_id as producer_id, {epoch} as epoch)"


RULES = (
    Rule(
        NAME,
        "batches",
        where="epoch < entry_before.epoch",
        order=["tp", "base_offset"],
        detail={
            "record": _entry("base_offset", "epoch"),
            "record_before": _entry("entry_before.offset", "entry_before.epoch"),
            "marker_before": "entry_before.marker",
            "producer_id": "producer_id",
            "epoch": "epoch",
            "epoch_before": "entry_before.epoch",
        },
    ),
    Rule(
        NAME,
        "batches",
        where="marker_next.epoch < epoch",
        order=["tp", "marker_next.offset"],
        detail={
            "record": _entry("marker_next.offset", "marker_next.epoch"),
            "record_before": _entry("base_offset", "epoch"),
            "marker": "marker_next.type",
            "producer_id": "producer_id",
            "epoch": "marker_next.epoch",
            "epoch_before": "epoch",
        },
    ),
    Rule(
        NAME,
        "batches",
        where="entry_before.marker is not null and marker_coordinator_epoch < entry_before.coordinator_epoch",
        order=["tp", "marker_offset"],
        detail={
            "record": _entry("marker_offset", "marker_epoch"),
            "record_before": _entry("entry_before.offset", "entry_before.epoch"),
            "producer_id": "producer_id",
            "coordinator_epoch": "marker_coordinator_epoch",
            "coordinator_epoch_before": "entry_before.coordinator_epoch",
        },
    ),
    Rule(
        NAME,
        "states",
        where="before.producer_id = producer_id and epoch < before.epoch "
        "and (before.state in ('Ongoing', 'CompleteCommit', 'CompleteAbort') "
        "or before_2.producer_id = producer_id and before_2.epoch > epoch)",
        order=["log_tp", "log_offset"],
        detail={
            "record": state(),
            "record_before": state("before."),
            "transactional_id": "transactional_id",
            "producer_id": "producer_id",
            "epoch": "epoch",
            "epoch_before": "before.epoch",
        },
    ),
)
"""One finding for each step down: of a batch, of a marker, of a state."""


def _sentence(e: Example) -> str:
    before = e.body.get("record_before")
    if (lower := e.rest.get("coordinator_epoch")) is not None:
        there = f" at {describe_place(before)}" if isinstance(before, Mapping) else ""
        return (
            f"the marker at {describe_place(e.inner('record'))} has coordinator epoch {printable(lower)}, "
            f"and the marker of that producer before it{there} had {printable(e.rest.get('coordinator_epoch_before'))}"
        )
    below = f" at {describe_place(before)}" if isinstance(before, Mapping) else ""
    what = "the marker" if e.rest.get("marker") is not None else "the record"
    at = describe_place(e.inner("record"))
    epoch, higher = printable(e.rest.get("epoch")), printable(e.rest.get("epoch_before"))
    return f"{what} at {at} is {e.producer}, epoch {epoch}, which had epoch {higher}{below} before"


WORDING = {
    "epoch-regression": AnomalyWording(
        "epoch of a producer went down",
        "epochs of producers went down",
        "A higher epoch fences off the lower one. Here the log goes on with the lower one.",
        _sentence,
    ),
}
