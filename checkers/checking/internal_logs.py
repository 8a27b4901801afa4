"""Check that the tables made from Kafka's internal topics have all that the logs of these topics have.

If they lack a decided transaction or an offset commit, a checker would conclude that it never happened.
"""

from checkers.checking.evidence import EvidenceCounts, MissingEvidence
from checkers.stored.inputs import OFFSETS_TOPIC
from checkers.stored.producers import TRANSACTIONS_TOPIC
from checkers.stored.sources import StoredRun
from harness.model.promises import Promises
from harness.results.wording import plural


def check_transaction_log(facts: EvidenceCounts, promises: Promises, missing: MissingEvidence) -> None:
    """Note what the transaction log lacks of the transactions whose markers, records or offset commits are stored.

    Markers that repeat the one before them are not counted. On a shared cluster the markers in internal topics are not
    counted, because other users write them too.
    """
    for row in sorted(facts.markers, key=lambda marker: marker["tp"]):
        partition = facts.partitions.get(row["tp"])
        if partition is None or (partition["internal"] and not promises.replicas):
            continue
        name = facts.name(row["tp"])
        missing.add(
            "transactions",
            f"the transaction log lacks transactions that have markers in {name}: {plural(row['markers'], 'marker')} "
            f"of {plural(row['producers'], 'producer')} (for example producer id {row['producer_id']})",
            "transactions",
        )
    if doubtful := facts.numbers["doubtful_producers"]:
        missing.add(
            "repeated markers",
            f"the markers of {plural(doubtful, 'producer')} repeat the one before and contradict the transaction log: "
            "it is not known to which transactions they belong",
        )
    if merged := facts.numbers["merged"]:
        missing.add(
            "merged transactions",
            f"several operations wrote into one transaction of the transaction log: {plural(merged, 'transaction')}; "
            "the log lacks transactions, or requests arrived after their transactions had ended",
            "transactions",
        )


def check_internal_logs(facts: EvidenceCounts, run: StoredRun, missing: MissingEvidence) -> None:
    """Note what a table lacks of a log that is stored and not compacted.

    This is not checked on a shared cluster, where the tables have only the rows of the run.
    """
    if run.promises is not None and not run.promises.replicas:
        return
    for tp, row in sorted(facts.partitions.items()):
        if not row["logged"] or row["compacted"]:
            continue
        name = facts.name(tp)
        if row["topic"] == OFFSETS_TOPIC and row.get("unattributed_offsets"):
            missing.add(
                "offsets",
                f"the log of {name} holds {row['unattributed_offsets']} records of transactions "
                "that the table offsets lacks",
                "offsets",
            )
        expected, stored = row["log_end"] - row["log_start"], row.get("states", 0)
        if row["topic"] == TRANSACTIONS_TOPIC and stored != expected:
            missing.add(
                "transactions",
                f"the table transactions holds {stored} records of {name}, whose log goes from offset "
                f"{row['log_start']} to {row['log_end']}",
                "transactions",
            )
