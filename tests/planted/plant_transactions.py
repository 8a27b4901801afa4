"""Plants: transactions that do not end as their worker decided, or that end only in part."""

from random import Random

from tests.planted.planted import Planted, of_input, of_operation, of_read, of_record, of_records
from tests.planted.run import Run


def lost_commit(h: Run, rng: Random) -> Planted:
    """Outputs or offsets of a transaction with outcome ok are aborted."""
    source, inputs = h.fed(rng.randint(1, 3))
    worker, pid = h.fresh()
    if rng.random() < 0.3:
        op = h.transact(*inputs, to="p", offsets_fate="abort", source=source, worker=worker, pid=pid)
        return {"lost-commit": [of_operation(op)], "offset-output-mismatch": [of_operation(op)]}
    op = h.transact(*inputs, to="p", fates={"p": "abort"}, source=source, worker=worker, pid=pid)
    records = of_records("p", h.sent_of(op, "p"))
    return {
        "lost-commit": [of_operation(op)],
        "offset-output-mismatch": [of_operation(op)],
        "lost-write": records,
        "unseen": records,
        "lost-input": [of_input(source, offset) for offset in inputs],
    }


def ghost_commit(h: Run, rng: Random) -> Planted:
    """A transaction that its worker aborted, or never tried to commit, is committed."""
    source, inputs = h.fed(rng.randint(1, 3))
    worker, pid = h.fresh()
    if rng.random() < 0.5:
        op = h.transact(
            *inputs, to="p", outcome="info", commit_ns=None, source=source, worker=worker, pid=pid
        )
        return {"ghost-commit": [of_operation(op)]}
    op = h.transact(*inputs, to="p", outcome="fail", fate="commit", source=source, worker=worker, pid=pid)
    records = h.sent_of(op, "p")
    return {
        "ghost-commit": [of_operation(op)],
        "aborted-read": [of_record("p", offset) for offset in records],
    }


def ghost_taken_again(h: Run, rng: Random) -> Planted:
    """Its inputs are processed a second time."""
    source, inputs = h.fed(rng.randint(1, 2))
    worker, pid = h.fresh()
    op = h.transact(
        *inputs,
        to="p",
        outcome="info",
        fate="commit",
        commit_ns=None,
        source=source,
        worker=worker,
        pid=pid,
    )
    worker, pid = h.fresh()
    h.transact(*inputs, to="p", source=source, worker=worker, pid=pid)
    return {
        "ghost-commit": [of_operation(op)],
        "reprocessed-input": [of_input(source, offset) for offset in inputs],
        "overlapping-commit": [of_input(source, inputs[0])],
    }


def torn_transaction(h: Run, rng: Random) -> Planted:
    """A transaction with outcome info is committed in one topic and aborted in the other."""
    source, inputs = h.fed(rng.randint(1, 3))
    worker, pid = h.fresh()
    op = h.transact(
        *inputs, to="pq", outcome="info", fates={"q": "abort"}, source=source, worker=worker, pid=pid
    )
    return {
        "torn-transaction": [of_operation(op)],
        "offset-output-mismatch": [of_operation(op)],
        "lost-write": of_records("q", h.sent_of(op, "q")),
    }


def torn_of_what_was_aborted(h: Run, rng: Random) -> Planted:
    """A transaction without inputs has outcome fail."""
    worker, pid = h.fresh()
    op = h.op(worker, "txn", "fail")
    for topic, fate in (("p", "abort"), ("q", "commit")):
        h.send(op, topic, h.append(topic, f"{op.name}:{len(op.values)}", pid, digest=7))
        h.append_marker(topic, pid, fate)
    h.log_transaction(pid, "pq", "Abort")
    return {
        "torn-transaction": [of_operation(op)],
        "ghost-commit": [of_operation(op)],
        "aborted-read": [of_record("q", h.sent_of(op, "q")[0])],
    }


def zombie_write(h: Run, rng: Random) -> Planted:
    """A worker that was replaced commits all the same."""
    source, inputs = h.fed(rng.randint(1, 3))
    (first, pid), (second, _) = h.fresh(), h.fresh()
    shared = {"transactional_id": f"shared-{pid}"}
    h.op(first, "init", **shared)
    h.op(second, "init", **shared)
    op = h.transact(*inputs, to="p", source=source, worker=first, pid=pid, **shared)
    return {"zombie-write": [of_operation(op)]}


def zombie_by_epoch(h: Run, rng: Random) -> Planted:
    """A committed batch is above a batch of a higher epoch."""
    _, pid = h.fresh()
    high = rng.randint(1, 5)
    h.append("m", None, pid, high)
    h.append_marker("m", pid, "abort", high)
    offset = h.append("m", None, pid, high - 1)
    h.append_marker("m", pid, "commit", high - 1)
    return {
        "zombie-write": [
            of_record("m", offset),
            of_record("m", offset + 1),
        ],  # the marker has this epoch, too
        "epoch-regression": [of_record("m", offset)],
    }


def hanging_transaction(h: Run, rng: Random) -> Planted:
    """A record stays open although its transaction is complete or too old. Records above it are never read."""
    worker, pid = h.fresh()
    op = h.op(worker, "txn", "fail")
    offsets = []
    for n in range(rng.randint(1, 3)):
        offsets.append(h.append("h", f"{op.name}:{n}", pid, digest=7))
        h.send(op, "h", offsets[-1])
    if rng.random() < 0.5:
        h.log_transaction(pid, "", "Abort")
    else:
        h.log_state(pid, "Ongoing", "h")
    h.sent("h", rng.randint(0, 2))
    return {"hanging-transaction": of_records("h", offsets)}


def read_above_lso(h: Run, rng: Random) -> Planted:
    """An observer reads past a record that is open until the end."""
    worker, pid = h.fresh()
    op = h.op(worker, "txn", "fail")
    held = h.append("l", f"{op.name}:0", pid, digest=7)
    h.send(op, "l", held)
    h.log_transaction(pid, "", "Abort")
    _, offsets = h.sent("l", rng.randint(1, 3))
    read = rng.choice(offsets)
    reader = h.shown("l", read)
    return {"hanging-transaction": [of_record("l", held)], "read-above-lso": [of_read("l", read, reader)]}


PLANTS = (
    lost_commit,
    ghost_commit,
    ghost_taken_again,
    torn_transaction,
    torn_of_what_was_aborted,
    zombie_write,
    zombie_by_epoch,
    hanging_transaction,
    read_above_lso,
)
