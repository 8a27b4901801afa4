"""Stalled: a group had inputs to process, but committed nothing for too long.

A group committed nothing for longer than the bound, and during all of that time it had an input to process. The time
begins with a commit of the group, with the injection of a fault, or when the stages were ready. It ends with the next
commit, with the injection of the next fault, or when the stages were stopped. So a pipeline must go on within the bound
after each injection, also while the fault lasts, and after the last heal. A run replaces each worker and each instance
that ends, so one of them is always there to process the input.

The bound is the sum of the longest time-out of the run's transactions, the session time-out of its consumers, and 15 s.
If the session time-out is not known, it is Kafka's default, 45 s. Within the bound, every open transaction is aborted,
because a coordinator looks for them every 10 s by default. Every lost member is removed from its group, and a
coordinator and the leader of a partition have moved.

Some faults leave nothing that could go on. The time in which they last adds to the bound:

    kill-postgres          the database of the stage is gone
    lose-answers           the worker gets no responses, and keeps its partitions
    cut-txn-coordinator    the worker cannot end its transaction, and keeps its partitions
    late-produce           all records are held
    rule                   a rule of the user may do anything
    any fault at a state of a transaction (`kill-instance@prepare-commit`): it keeps the transaction in this state

Illegal because a pipeline must go on once everything works again. It is a warning, because no record is wrong.
Evidence: the logs of the input partitions and of `__consumer_offsets`, on one clock; the time-outs in the transaction
log; and the times of the faults. A marker or an aborted record behind the committed offset is no input.

    kill-broker from 20 s to 28 s; transaction time-out 30 s, session time-out 2 s
    feeder  send a=1                at 21 s
    group   commit a=1              at 70 s                       <- stalled: 49 s, the bound is 47 s

Blind spot: a stage that keeps its positions elsewhere, and a time in which faults are injected again and again.
Reference: KIP-98; KAFKA-14402; Jepsen on Bufstream 0.1.0 (2024), "stuck consumers".
"""

from checkers.findings import AnomalyWording
from harness.common.wording import printable
from harness.results.example import Example


def _sentence(e: Example) -> str:
    who = "the group" if e.rest.get("group") is None else f"group {printable(e.rest['group'], 60)}"
    still, bound = printable(e.rest.get("still_s")), printable(e.rest.get("bound_s"))
    to = printable(e.rest.get("to_s"))
    end = f"until {to} s" if e.rest.get("committed") is True else f"and still nothing at {to} s"
    fault = f" after {printable(e.rest['fault'], 60)}" if e.rest.get("fault") is not None else ""
    return f"{who} committed nothing for {still} s{fault} (the bound is {bound} s), {end}, though {e.input} was waiting"


WORDING = {
    "stalled": AnomalyWording(
        "group stalled",
        "groups stalled",
        "A group had inputs to process. But it committed nothing for longer than the time-outs explain.",
        _sentence,
    ),
}
