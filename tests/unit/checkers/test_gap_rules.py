"""Every gap rule about stored tables fires, each on the smallest alteration of a complete run."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from checkers.gaps.agreement import COMPARISONS, IMPOSSIBLE
from checkers.gaps.facts import AGREEMENTS, BY_PARTITION
from checkers.gaps.registry import RULES, find_gaps
from checkers.gaps.rule import EvidenceCounts, GapRule, RunEvidence, apply_rules, once
from checkers.stored.sources import StoredRun
from harness.model.promises import INTERNAL_TOPICS, SEGMENTS, Promises, ReaderPromise
from harness.results.reasons import KILLED, ReasonCode, by_cause

Row = dict[str, Any]
A, X, OFFSETS, TRANSACTIONS = range(4)
"""The partitions: of the inputs, of the outputs, and of the internal topics."""
LEVELS = ("read_committed", "read_uncommitted")


def _partition(tp: int, topic: str, **more: Any) -> Row:
    internal = topic in INTERNAL_TOPICS
    row = {
        "tp": tp, "topic": topic, "partition": 0, "internal": internal, "is_input": topic == "a", "logged": True,
        "compacted": False, "sums_alone": False, "holes": 0, "log_start": 0, "log_end": 3, "high_watermark": 3,
        "expected": 0, "followers": 1,
    }  # fmt: skip
    if not internal:
        row |= {
            "rc_next": 3, "rc_first": 0, "ru_first": 0, "ru_next": 3, "delivered": 3, "found": 3, "read": 2,
            "visible": 2, "stable": 2, "first_stable": 0, "last_stable": 1,
        }  # fmt: skip
    return row | more


def _end(tp: int, isolation: str, role: str, journal: str, **more: Any) -> Row:
    row = {
        "tp": tp,
        "isolation": isolation,
        "role": role,
        "journal": journal,
        "first": 0,
        "next": 3,
        "read": 3,
    }
    return row | {"sentinel_offset": 2} | more


@dataclass
class Recorded:
    """The facts of a complete run, which an alteration changes."""

    facts: EvidenceCounts
    run: StoredRun

    def end(self, role: str, isolation: str, tp: int) -> Row:
        return next(
            row
            for row in self.facts.ends
            if (row["role"], row["isolation"], row["tp"]) == (role, isolation, tp)
        )

    def has(self, **numbers: Any) -> None:
        self.facts.numbers |= numbers

    def knows(self, **changes: Any) -> None:
        self.run = replace(self.run, **changes)


def complete(folder: Path) -> Recorded:
    """A run with a feeder, a worker, an observer and final readers, and the logs of two replicas."""
    journals = [
        {"journal": name, "role": role, "missing_lines": 0, "unbroken": True, "ended": True, "ops": 2, "counted": 2}
        for name, role in (("f", "feeder"), ("w", "worker"), ("o", "observer"), ("z", "final"))
    ]  # fmt: skip
    replicas = [
        {"tp": tp, "broker": broker, "leader": broker == 1, "agrees": True, "log_start": 0, "log_end": 3, "reached": 3,
         "high_watermark": 3, "topic_id": f"id-{tp}"}
        for tp in range(4) for broker in (1, 2)
    ]  # fmt: skip
    facts = EvidenceCounts(
        partitions={
            A: _partition(A, "a", inputs=2, stable_inputs=2, consumed=2, expected=2),
            X: _partition(X, "x", outputs=2, observed=3),
            OFFSETS: _partition(OFFSETS, INTERNAL_TOPICS[0], commits=2),
            TRANSACTIONS: _partition(TRANSACTIONS, INTERNAL_TOPICS[1], states=3),
        },
        journals=journals,
        ends=[
            *(_end(tp, level, "final", "z") for level in LEVELS for tp in (A, X)),
            _end(X, LEVELS[0], "observer", "o"),
        ],
        stages=[{"stage": "s", "group": "g", "in_topic": "a"}],
        replicas=replicas,
        progress={("g", A): 2},
        due={"s"},
        numbers=defaultdict(int, ops=8, sent=2, values=2, effective=2, effective_of_stages=2, expected=2),
    )  # fmt: skip
    facts.ends[2]["expected"] = 2
    facts.numbers |= {"assignments": 1, "claims": 2, "acknowledged": 2, "transactions": 3, "claiming": 2}
    (folder / "log").mkdir(exist_ok=True)
    reader = ReaderPromise("o", "observer", LEVELS[0], ("x",))
    promises = Promises(
        journaled=("s",), witness=SEGMENTS, internal_logs=INTERNAL_TOPICS, replicas=True, readers=(reader,)
    )
    return Recorded(facts, StoredRun(1, folder, had_log=True, healed=True, promises=promises))


def custom(folder: Path) -> Recorded:
    """A run of a custom pipeline, which keeps no journals."""
    recorded = complete(folder)
    recorded.facts.stages[0]["journaled"] = False
    recorded.facts.journals = [row for row in recorded.facts.journals if row["role"] != "worker"]
    recorded.knows(without_journals=True, correlated=True)
    return recorded


Alter = Callable[[Recorded], object]
JOURNALED: dict[str, Alter] = {
    "journals-empty": lambda r: r.facts.journals.clear(),
    "several-journals-lack-operations": lambda r: [row.update(unbroken=False) for row in r.facts.journals[:2]],
    "journal-lacks-lines": lambda r: r.facts.journals[0].update(missing_lines=2),
    "journal-lacks-operations": lambda r: r.facts.journals[0].update(unbroken=False),
    "journal-ends-early": lambda r: r.facts.journals[0].update(ended=False),
    "journal-not-stored": lambda r: r.has(unknown_journals=["v"]),
    "journal-cut-off": lambda r: r.has(cut_journals=["v"]),
    "sends-empty": lambda r: r.has(sent=0),
    "stages-empty": lambda r: r.facts.stages.clear(),
    "partitions-empty": lambda r: r.facts.partitions.clear(),
    "ends-empty": lambda r: r.facts.ends.clear(),
    "no-final-reader": lambda r: r.facts.ends.__delitem__(slice(0, 2)),
    "partition-not-read": lambda r: r.facts.ends.remove(r.end("final", LEVELS[0], A)),
    "final-read-unfinished": lambda r: r.end("final", LEVELS[0], A).update(sentinel_offset=None),
    "final-read-before-its-end": lambda r: r.end("final", LEVELS[0], A).update(next=2),
    "final-read-not-stored": lambda r: r.facts.partitions[A].update(found=0),
    "final-read-stopped": lambda r: r.facts.partitions[A].update(last_stable=3),
    "final-read-out-of-order": lambda r: r.facts.disorder.update({A: 1}),
    "final-read-count-differs": lambda r: r.facts.partitions[A].update(found=4),
    "expected-count-differs": lambda r: r.facts.partitions[A].update(expected=1),
    "nothing-read": lambda r: [row.update(read=0) for row in r.facts.partitions.values()],
    "nothing-committed": lambda r: r.has(effective_of_stages=0),
    "no-inputs": lambda r: r.facts.partitions[A].update(inputs=0),
    "nothing-consumed": lambda r: r.facts.partitions[A].update(consumed=0),
    "assignments-empty": lambda r: r.has(assignments=0),
    "expected-empty": lambda r: r.has(expected=0),
    "stage-without-expectation": lambda r: setattr(r.facts, "due", {"t"}),
    "claims-empty": lambda r: r.has(claims=0),
    "group-start-unknown": lambda r: r.facts.groups.append({"group": "g", "tp": A, "final": 2}),
    "group-beyond-the-end": lambda r: r.facts.progress.update({("g", A): 4}),
    "group-committed-nothing": lambda r: r.facts.progress.clear(),
    "group-behind": lambda r: r.facts.progress.update({("g", A): 1}),
    "logs-missing": lambda r: r.facts.partitions.pop(OFFSETS),
    "producer-ids-shared": lambda r: r.has(shared_producers=1),
    "leaders-differ": lambda r: r.facts.replicas[0].update(agrees=False),
    "several-leaders": lambda r: r.facts.replicas[1].update(leader=True),
    "topic-compacted": lambda r: r.facts.partitions[X].update(compacted=True),
    "log-begins-late": lambda r: r.facts.partitions[X].update(ru_first=1),
    "high-watermark-differs": lambda r: r.facts.partitions[X].update(high_watermark=4),
    "no-leader": lambda r: [row.update(logged=False) for row in r.facts.partitions.values()],
    "leader-log-missing": lambda r: r.facts.partitions[X].update(logged=False),
    "replica-unreadable": lambda r: r.facts.partitions[X].update(unreadable={"broker": 2, "log_end": 1}),
    "offsets-missing": lambda r: r.facts.partitions[X].update(holes=1, known_to_be_gone=1),
    "offsets-never-written": lambda r: r.facts.partitions[X].update(holes=1),
    "read-not-in-log": lambda r: r.facts.partitions[X].update(read_not_in_log=1),
    "names-differ": lambda r: r.facts.partitions[X].update(named_by_some=1),
    "log-not-read": lambda r: r.facts.partitions[X].update(unread=1),
    "written-after-sentinel": lambda r: r.facts.partitions[X].update(beyond=1),
    "transactions-empty": lambda r: r.has(transactions=0),
    "offsets-empty": lambda r: r.facts.partitions[OFFSETS].update(commits=0),
    "offsets-outside": lambda r: r.has(claiming_outside=1),
    "offset-commits-missing": lambda r: r.facts.partitions[OFFSETS].update(unattributed_offsets=1),
    "states-missing": lambda r: r.facts.partitions[TRANSACTIONS].update(states=2),
    "transactions-missing": lambda r: r.facts.markers.append({"tp": X, "markers": 1, "producers": 1, "producer_id": 7}),
    "markers-repeated": lambda r: r.has(doubtful_producers=1),
    "transactions-merged": lambda r: r.has(merged=1),
    "several-logs-end-early": lambda r: [row.update(reached=1) for row in r.facts.replicas],
    "log-ends-early": lambda r: r.facts.replicas[0].update(reached=1),
    "replica-incomplete": lambda r: r.facts.replicas[1].update(log_end=2, reached=2),
    "topic-ids-differ": lambda r: r.facts.replicas[1].update(topic_id="of another"),
    "observer-left-no-end": lambda r: r.facts.ends.remove(r.end("observer", LEVELS[0], X)),
    "observer-received-nothing": lambda r: r.end("observer", LEVELS[0], X).update(read=0),
    "observer-stopped-early": lambda r: r.end("observer", LEVELS[0], X).update(next=1),
    "observer-began-late": lambda r: r.end("observer", LEVELS[0], X).update(first=1),
    "observer-polls-differ": lambda r: r.facts.partitions[X].update(observed=2),
    "run-incomplete": lambda r: r.knows(incomplete=("it was cut short",)),
}  # fmt: skip
"""By rule, an alteration of a run whose workers keep journals."""
CUSTOM: dict[str, Alter] = {
    "no-visible-output": lambda r: r.facts.partitions[X].update(visible=0),
    "expected-empty": lambda r: r.has(expected=0),
    "stage-without-expectation": lambda r: setattr(r.facts, "due", {"t"}),
    "markers-not-identified": lambda r: r.has(spans_here=2, spans_whole=1, spans_ended=2),
    "stage-left-inputs": lambda r: r.facts.left.update(s=1),
    "group-committed-nothing": lambda r: r.facts.progress.clear(),
    "written-after-end": lambda r: r.facts.partitions[X].update(beyond=1),
}
"""By rule, an alteration of a run of a custom pipeline."""


def _found(recorded: Recorded) -> dict[str, str]:
    """Return the names of the rules that fire, with the first sentence of each."""
    gaps = apply_rules(RULES, RunEvidence(recorded.facts, recorded.run))
    return {gap.rule.name: gap.reason.text for gap in reversed(gaps)}


def _as_counted(name: str) -> Alter:
    """Return the alteration that counts a row for one of AGREEMENTS."""
    agreement = next(each for each in AGREEMENTS if each.rule.name == name)
    if agreement.table in BY_PARTITION:
        return lambda r: r.facts.partitions[X].update({agreement.name: 1})
    return lambda r: r.has(**{agreement.name: 1})


def _as_compared(name: str) -> Alter:
    """Return the alteration in which recorded tables disagree as one of COMPARISONS says."""
    columns = {
        "count": 2, "table": "polls", "what": "negative offsets", "journal": "w", "had": 1, "partitions": "7",
        "partition": "x/0", "broker": 2, "other": "journals", "names": "w", "end": 3, "found": 2,
    }  # fmt: skip
    return lambda r: r.facts.contradictions.append({"rule": name, **columns})


ALTERATIONS = (
    *((complete, name, alter) for name, alter in JOURNALED.items()),
    *((custom, name, alter) for name, alter in CUSTOM.items()),
    *((complete, each.rule.name, _as_counted(each.rule.name)) for each in AGREEMENTS),
    *((complete, each.name, _as_compared(each.name)) for each in COMPARISONS),
)


def test_a_complete_run_has_no_gap(tmp_path: Path) -> None:
    assert _found(complete(tmp_path)) == {}
    assert _found(custom(tmp_path)) == {}


@pytest.mark.parametrize(
    ("start", "name", "alter"),
    ALTERATIONS,
    ids=[f"{start.__name__}-{name}" for start, name, _ in ALTERATIONS],
)
def test_a_rule_fires_on_its_alteration(
    tmp_path: Path, start: Callable[[Path], Recorded], name: str, alter: Alter
) -> None:
    recorded = start(tmp_path)
    alter(recorded)
    found = _found(recorded)
    assert name in found
    assert "{" not in found[name]


def test_every_rule_has_an_alteration_and_a_name_of_its_own() -> None:
    names = [rule.name for rule in RULES]
    assert len(names) == len(set(names))
    assert {name for _, name, _ in ALTERATIONS} == set(names)


def test_every_cause_is_a_rule_or_a_code_and_no_rule_follows_from_itself() -> None:
    causes = {rule.name: set(rule.follows_from) for rule in RULES}
    assert not {cause for names in causes.values() for cause in names} - causes.keys() - set(ReasonCode)
    left = {name: names & causes.keys() for name, names in causes.items()}
    while first := {name for name, names in left.items() if not names}:
        left = {name: names - first for name, names in left.items() if name not in first}
    assert not left, "these rules follow from each other"
    contradictory = [rule for rule in RULES if rule.code is ReasonCode.CONTRADICTORY_EVIDENCE]
    assert {cause for rule in contradictory for cause in rule.follows_from} <= {
        rule.name for rule in contradictory
    }, "a contradiction is more than a consequence of missing evidence"


def test_the_gaps_of_a_killed_run_follow_from_the_kill(tmp_path: Path) -> None:
    recorded = complete(tmp_path)
    recorded.facts.ends.clear()
    recorded.facts.journals[0]["ended"] = recorded.facts.journals[2]["ended"] = False
    recorded.facts.journals.pop()
    for row in recorded.facts.partitions.values():
        row |= {"read": 0, "inputs": 0}
    recorded.has(expected=0)
    recorded.knows(drained=False, problems=(KILLED,))
    reasons = list(find_gaps(recorded.facts, recorded.run).reasons.values())
    assert len(reasons) > 5
    assert by_cause([KILLED, *reasons]) == [(KILLED, reasons)]


def test_a_gap_follows_only_from_a_gap_of_the_same_partition(tmp_path: Path) -> None:
    recorded = complete(tmp_path)
    recorded.end("final", LEVELS[1], X).update(sentinel_offset=None)
    recorded.facts.partitions[X]["unread"] = 1
    missing = find_gaps(recorded.facts, recorded.run)
    assert missing.reasons["records"].because == "final read_uncommitted read of x/0"
    recorded.facts.partitions[A]["unread"] = 1
    missing = find_gaps(recorded.facts, recorded.run)
    assert missing.reasons["records"].because == ""


def test_an_empty_table_is_one_cause(tmp_path: Path) -> None:
    recorded = complete(tmp_path)
    for row in recorded.facts.replicas:
        row["reached"] = 0
    recorded.facts.partitions[A] |= {"inputs": 0, "read_not_in_log": 2}
    missing = find_gaps(recorded.facts, recorded.run)
    ((cause, consequences),) = by_cause(list(missing.reasons.values()))
    assert cause.subject == "ends of logs" and len(consequences) == 7
    assert missing.contradiction == cause


def test_a_remedy_is_of_the_rule_or_else_of_the_code() -> None:
    rules: list[GapRule[int]] = [
        GapRule("own", once(lambda n: n), "{count:row/rows}", remedy="repair {count}"),
        GapRule("of-the-code", once(lambda n: n), "{count:batch/batches}"),
    ]
    own, other = (gap.reason for gap in apply_rules(rules, 2))
    assert (own.text, own.remedy) == ("2 rows", "repair 2")
    assert (other.text, other.remedy) == ("2 batches", ReasonCode.INCOMPLETE_EVIDENCE.remedy)


def test_a_batch_without_a_producer_may_have_epoch_0_and_no_other() -> None:
    batches = pa.table({"producer_id": [-1, -1, -1, 7, 7], "epoch": [-1, 0, 1, 0, -1]})
    (impossible,) = [condition for _, names, _, condition in IMPOSSIBLE if names == ("producer_id", "epoch")]
    assert batches.filter(impossible).to_pylist() == [
        {"producer_id": -1, "epoch": 1},
        {"producer_id": 7, "epoch": -1},
    ]
