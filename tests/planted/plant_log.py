"""Plants: broker logs with contradictions, contended ids, and producers that are fenced without cause."""

from random import Random

from tests.planted.planted import Planted, of_operation, of_record
from tests.planted.run import Run
from tests.support.histories import TRANSACTIONS
from tests.support.stored_tables import OFFSETS, Row


def epoch_regression(h: Run, rng: Random) -> Planted:
    """In a partition, a record or its marker has a lower epoch than the record below."""
    _, pid = h.fresh()
    low, high = sorted(rng.sample(range(6), 2))
    offset = h.append("m", None, pid, high)
    if rng.random() < 0.5:
        h.settle("m")
        offset = h.append("m", None, pid, low)
    else:
        offset += 1
    assert h.mark_now("m", pid, "abort", low) >= offset
    return {"epoch-regression": [of_record("m", offset)]}


def epoch_regression_of_states(h: Run, rng: Random) -> Planted:
    """In the transaction log, a state has a lower epoch than the state before."""
    _, pid = h.fresh()
    low, high = sorted(rng.sample(range(6), 2))
    h.log_transaction(pid, (), epoch=high)
    offset = len(h.entries[TRANSACTIONS])
    h.log_transaction(pid, (), epoch=low)
    return {"epoch-regression": [of_record(TRANSACTIONS, offset)]}


def sequence_violation(h: Run, rng: Random) -> Planted:
    _, pid = h.fresh()
    first = rng.choice([0, 7, 2**31 - 2])
    h.append("m", None, pid, seq=first)
    wrong = (first + rng.choice([-1, 0, 2, 5])) % 2**31
    offset = h.append("m", None, pid, seq=wrong)
    h.append("m", None, pid)
    h.append_marker("m", pid, "abort")
    return {"sequence-violation": [{**of_record("m", offset), "sequence": wrong}]}


def transaction_state_violation(h: Run, rng: Random) -> Planted:
    _, pid = h.fresh()
    *states, wrong = rng.choice(
        [
            ["Ongoing", "PrepareCommit", "CompleteAbort"],
            ["Empty", "Ongoing", "CompleteCommit"],
            ["Ongoing", "PrepareAbort", "CompleteCommit"],
            ["CompleteCommit", "PrepareCommit"],
        ]
    )
    for state in states:
        h.log_state(pid, state)
    h.log_state(pid, wrong)
    offset = len(h.entries[TRANSACTIONS]) - 1
    h.log_state(pid, {"PrepareCommit": "CompleteCommit"}.get(wrong, "Empty"))
    return {
        "transaction-state-violation": [{**of_record(TRANSACTIONS, offset), "transactional_id": f"id-{pid}"}]
    }


def stuck_completion(h: Run, rng: Random) -> Planted:
    """A transaction is prepared a minute before the end and never completed."""
    _, pid = h.fresh()
    h.log_state(pid, "Ongoing", "m")
    h.log_state(pid, rng.choice(["PrepareCommit", "PrepareAbort"]), "m")
    return {"stuck-completion": [{"transactional_id": f"id-{pid}"}]}


def unmarked_partition(h: Run, rng: Random) -> Planted:
    """One of several transactions has no marker. The marker of the next one ends its records."""
    _, pid = h.fresh()
    many = rng.randint(2, 3)
    missing = rng.randrange(many - 1)
    offsets = []
    for number in range(many):
        h.tick()
        offsets.append(h.append("m", None, pid))
        if number != missing:
            h.mark_now("m", pid, "abort")  # a transaction is complete only after its marker
        h.log_transaction(pid, "m", "Abort")
    counts = {"markers": many - 1, "completions": many}
    return {"unmarked-partition": [{**of_record("m", offsets[missing]), **counts}]}


def replica_divergence(h: Run, rng: Random) -> Planted:
    """A follower has a batch that differs from the leader's, or lacks it."""
    topic = rng.choice("pq")
    _, offsets = h.sent(topic, rng.randint(1, 3))
    offset = rng.choice(offsets)
    change = rng.choice([None, {"crc": 9}, {"leader_epoch": -1}])

    def bend(row: Row) -> Row | None:
        if row["broker"] != 2 or (row["tp"], row["base_offset"]) != (h.tp[topic], offset):
            return row
        return None if change is None else row | change

    h.alter("batches", bend)
    return {"replica-divergence": [of_record(topic, offset)]}


def contended_id(h: Run, rng: Random) -> Planted:
    """Two workers initialise the same id several times in turn."""
    workers = [h.fresh()[0], h.fresh()[0]]
    inits = [
        h.op(workers[number % 2], "init", transactional_id=f"mine-{workers[0]}")
        for number in range(rng.randint(3, 5))
    ]
    return {"contended-id": [of_operation(op) for op in inits[2:]]}


def undue_fencing(h: Run, rng: Random) -> Planted:
    """A producer is fenced, but no other producer initialised its id. Another worker processes its inputs."""
    source, inputs = h.fed(rng.randint(1, 2))
    worker, pid = h.fresh()
    h.op(worker, "init", transactional_id=f"id-{pid}")
    op = h.transact(
        *inputs, to="p", outcome="fail", fenced=True, transactional_id=f"id-{pid}",
        source=source, worker=worker, pid=pid,
    )  # fmt: skip
    worker, pid = h.fresh()
    h.transact(*inputs, to="p", source=source, worker=worker, pid=pid)
    return {"undue-fencing": [of_operation(op)]}


def offsets_of_a_ghost(h: Run, rng: Random) -> Planted:
    """A transaction with outcome fail commits its offsets. It has no outputs, and none are expected."""
    source, inputs = h.fed(rng.randint(1, 2), owes="")
    worker, pid = h.fresh()
    op = h.transact(*inputs, to="", outcome="fail", fate="commit", source=source, worker=worker, pid=pid)
    assert h.entries[OFFSETS]
    return {"ghost-commit": [of_operation(op)]}


PLANTS = (
    epoch_regression,
    epoch_regression_of_states,
    sequence_violation,
    transaction_state_violation,
    stuck_completion,
    unmarked_partition,
    replica_divergence,
    contended_id,
    undue_fencing,
    offsets_of_a_ghost,
)
