"""Whether the tables that are made of Kafka's own topics hold all that those topics' logs hold.

Without them nobody would know that a transaction was decided, or that an offset was committed: what they lack would be
taken for what never was.
"""

from checkers.checking.evidence import EvidenceCounts, MissingEvidence
from checkers.stored.inputs import OFFSETS_TOPIC
from checkers.stored.producers import TRANSACTIONS_TOPIC
from checkers.stored.sources import StoredRun
from harness.model.promises import Promises
from harness.results.wording import plural


def check_transaction_log(facts: EvidenceCounts, promises: Promises, found: MissingEvidence) -> None:
    """Note what the transaction log lacks of the transactions whose markers, records or offset commits are here.

    Markers that repeat the one before them are not counted. Where the logs hold what is the run's alone (a cluster
    that others use), Kafka's own topics are left out: others write to them as well.
    """
    for row in sorted(facts.markers, key=lambda one: one["tp"]):
        here = facts.partitions.get(row["tp"])
        if here is None or (here["internal"] and not promises.replicas):
            continue
        name = facts.name(row["tp"])
        found.add(
            "transactions",
            f"the transaction log lacks transactions that have markers in {name}: {plural(row['markers'], 'marker')} "
            f"of {plural(row['producers'], 'producer')} (producer id {row['producer_id']}, for instance)",
            "transactions",
        )
    if doubtful := facts.numbers["doubtful_producers"]:
        found.add(
            "repeated markers",
            f"the markers of {plural(doubtful, 'producer')} repeat the one before and contradict the transaction log: "
            "it is not known to which transactions they belong",
        )
    if merged := facts.numbers["merged"]:
        found.add(
            "merged transactions",
            f"several operations wrote into one transaction of the transaction log: {plural(merged, 'transaction')}",
            "transactions",
        )


def check_internal_logs(facts: EvidenceCounts, run: StoredRun, found: MissingEvidence) -> None:
    """Note what a table lacks of a log that is here, and was not compacted. What a leader was asked for is left out:
    of a cluster that others use as well the tables hold what is the run's.
    """
    if run.promises is not None and not run.promises.replicas:
        return
    for tp, row in sorted(facts.partitions.items()):
        if not row["logged"] or row["compacted"]:
            continue
        name = facts.name(tp)
        if row["topic"] == OFFSETS_TOPIC and row.get("untold_offsets"):
            found.add(
                "offsets",
                f"the log of {name} holds {row['untold_offsets']} records of transactions that the table offsets lacks",
                "offsets",
            )
        due, there = row["log_end"] - row["log_start"], row.get("states", 0)
        if row["topic"] == TRANSACTIONS_TOPIC and there != due:
            found.add(
                "transactions",
                f"the table transactions holds {there} records of {name}, whose log goes from offset "
                f"{row['log_start']} to {row['log_end']}",
                "transactions",
            )
