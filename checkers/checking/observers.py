"""Check that each observer read every partition that it was promised, from the first record to the last.

An observer that stops early, or that is given nothing, finds nothing wrong. At its end it writes a row of `ends` for
each partition that it was promised: where it began, where it stopped, and how many records it was given.
"""

from collections import defaultdict

from checkers.checking.evidence import EvidenceCounts, MissingEvidence
from checkers.stored.sources import StoredRun
from checkers.stored.tally import Row
from harness.model.vocabulary import Role


def check_observers(facts: EvidenceCounts, run: StoredRun, found: MissingEvidence) -> None:
    """Note where an observer is silent, was given nothing, stopped early or began late, or lacks records."""
    _promised(facts, run, found)
    given: dict[int, int] = defaultdict(int)
    for row in facts.ends:
        here = facts.partitions.get(row["tp"])
        if row.get("role") != Role.OBSERVER.value or here is None:
            continue
        given[row["tp"]] += row["read"]
        if (visible := here.get("visible", 0)) and not row["read"]:
            name = facts.name(row["tp"])
            found.add(
                f"observer of {name}",
                f"the observer ({row['journal']}) was given nothing of {name}, where {visible} records are "
                "visible",
                "polls",
            )
        elif row["read"]:
            _reach(facts.name(row["tp"]), here, row, found)
    for tp, count in sorted(given.items()):
        there, name = facts.partitions[tp].get("observed", 0), facts.name(tp)
        if there != count:
            found.add(
                f"observer of {name}",
                f"the table polls holds {there} records of {name} for observers, and they were given {count}",
                "polls",
            )


def _promised(facts: EvidenceCounts, run: StoredRun, found: MissingEvidence) -> None:
    """Note each promised observer and partition with visible records that has no row in `ends`."""
    promised = (
        [one for one in run.promises.readers if one.role == Role.OBSERVER.value] if run.promises else []
    )
    there = {(row["journal"], row["tp"]) for row in facts.ends if row.get("role") == Role.OBSERVER.value}
    for reader in promised:
        for tp, row in sorted(facts.partitions.items()):
            if row["topic"] in reader.topics and row.get("stable") and (reader.journal, tp) not in there:
                name = facts.name(tp)
                found.add(
                    f"observer of {name}",
                    f"the observer ({reader.journal}) does not say how far it read {name}, where {row['stable']} "
                    "records are visible",
                    "ends",
                )


def _reach(name: str, here: Row, row: Row, found: MissingEvidence) -> None:
    """Note that an observer stopped before the last visible record, or began after the first one."""
    if row["next"] <= here.get("last_stable", -1):
        found.add(
            f"observer of {name}",
            f"the observer ({row['journal']}) stopped at offset {row['next']} of {name}, whose last visible record "
            f"is at offset {here['last_stable']}",
        )
    elif row["first"] > here.get("first_stable", row["first"]):
        found.add(
            f"observer of {name}",
            f"the observer ({row['journal']}) began at offset {row['first']} of {name}, whose first visible record "
            f"is at offset {here['first_stable']}",
        )
