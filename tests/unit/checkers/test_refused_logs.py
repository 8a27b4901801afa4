"""Reasons in `not_checked` if a cluster does not give the logs of its internal topics."""

from checkers.gaps.rule import EvidenceCounts
from checkers.needs import missing_needs
from harness.results.reasons import BY_ACLS

REFUSED = dict.fromkeys(("__transaction_state", "__consumer_offsets"), BY_ACLS)


def facts(*logged: str) -> EvidenceCounts:
    """A run with these logs."""
    counts = EvidenceCounts()
    for tp, topic in enumerate(("in", "__transaction_state", "__consumer_offsets")):
        row = {"topic": topic, "partition": 0, "internal": topic != "in", "logged": topic in logged}
        counts.partitions[tp] = {**row, "followers": 0}
    return counts


def test_the_reason_of_a_refused_log_names_the_acl() -> None:
    missing = missing_needs(facts("in"), refused_logs=REFUSED)
    assert missing["transactions"].text.startswith(f"{BY_ACLS}: allow this user Read and Describe")
    assert "--operation Describe --topic __transaction_state" in missing["transactions"].remedy
    assert missing["offsets"].subject == "__consumer_offsets"
    assert missing["offsets-within"] == missing["offsets"]
    assert missing["replicas"].code == "one-replica"
    assert "log" not in missing


def test_a_missing_log_without_refusal_has_the_usual_reason() -> None:
    missing = missing_needs(facts("in"))
    assert missing["transactions"].code == "no-transactions-log"
    assert missing["offsets-within"].code == "no-offsets-within"


def test_a_refusal_of_one_log_does_not_concern_the_other() -> None:
    missing = missing_needs(facts("in", "__consumer_offsets"), refused_logs={"__transaction_state": "no"})
    assert missing["transactions"].code == "log-refused"
    assert "offsets" not in missing
