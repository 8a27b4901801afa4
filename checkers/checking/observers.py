"""Check that each observer read every partition that it was promised to read, from the first record to the last.

An observer that stops early or receives nothing finds nothing wrong. At its end it writes a row of `ends` for each
partition: where it began, where it stopped, and how many records it received.
"""

from collections import defaultdict

from checkers.checking.run_facts import EvidenceCounts, MissingEvidence
from checkers.stored.sources import StoredRun
from checkers.stored.tally import Row
from harness.model.vocabulary import Role


def check_observers(facts: EvidenceCounts, run: StoredRun, missing: MissingEvidence) -> None:
    """Note an observer that wrote no row, received nothing, stopped early, began late, or whose records are missing."""
    _check_rows(facts, run, missing)
    received: dict[int, int] = defaultdict(int)
    for row in facts.ends:
        partition = facts.partitions.get(row["tp"])
        if row.get("role") != Role.OBSERVER.value or partition is None:
            continue
        received[row["tp"]] += row["read"]
        if (visible := partition.get("visible", 0)) and not row["read"]:
            name = facts.name(row["tp"])
            missing.add(
                f"observer of {name}",
                f"the observer ({row['journal']}) received nothing from {name}, where {visible} records are "
                "visible",
                "polls",
            )
        elif row["read"]:
            _check_range(facts.name(row["tp"]), partition, row, missing)
    for tp, count in sorted(received.items()):
        stored, name = facts.partitions[tp].get("observed", 0), facts.name(tp)
        if stored != count:
            missing.add(
                f"observer of {name}",
                f"the table polls has {stored} records of {name} for observers, and they received {count}",
                "polls",
            )


def _check_rows(facts: EvidenceCounts, run: StoredRun, missing: MissingEvidence) -> None:
    """Note each promised observer and partition with visible records that has no row in `ends`."""
    promised = (
        [reader for reader in run.promises.readers if reader.role == Role.OBSERVER.value]
        if run.promises
        else []
    )
    rows = {(row["journal"], row["tp"]) for row in facts.ends if row.get("role") == Role.OBSERVER.value}
    for reader in promised:
        for tp, row in sorted(facts.partitions.items()):
            if row["topic"] in reader.topics and row.get("stable") and (reader.journal, tp) not in rows:
                name = facts.name(tp)
                missing.add(
                    f"observer of {name}",
                    f"the observer ({reader.journal}) does not say how far it read {name}, where {row['stable']} "
                    "records are visible",
                    "ends",
                )


def _check_range(name: str, partition: Row, row: Row, missing: MissingEvidence) -> None:
    """Note that an observer stopped before the last visible record, or began after the first one."""
    if row["next"] <= partition.get("last_stable", -1):
        missing.add(
            f"observer of {name}",
            f"the observer ({row['journal']}) stopped at offset {row['next']} of {name}, whose last visible record "
            f"is at offset {partition['last_stable']}",
        )
    elif row["first"] > partition.get("first_stable", row["first"]):
        missing.add(
            f"observer of {name}",
            f"the observer ({row['journal']}) began at offset {row['first']} of {name}, whose first visible record "
            f"is at offset {partition['first_stable']}",
        )
