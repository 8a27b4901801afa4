"""Plants: single records that are lost, doubled, changed, made up, or read when they must not be."""

from random import Random

from tests.planted.planted import Planted, of_operation, of_read, of_record, of_records, position
from tests.planted.run import Run
from tests.support.stored_tables import RU, Row

MARGIN_NS = 200_000_000


def lost_write(h: Run, rng: Random) -> Planted:
    """No reader reads an acknowledged and committed record, but readers read others of the topic."""
    h.sent("q", 1)
    op, offsets = h.sent("q", rng.randint(1, 3))
    _hide(h, op.values)
    found: Planted = {"lost-write": of_records("q", offsets)}
    if rng.random() < 0.5:
        return {**found, "unseen": of_records("q", offsets)}
    readers = [(offset, h.shown("q", offset)) for offset in offsets]
    return {**found, "vanished": [of_read("q", offset, reader) for offset, reader in readers]}


def _hide(h: Run, values: list[str]) -> None:
    """Remove these records from the reads of the final read-committed reader."""
    hidden = frozenset(values)
    h.alter("polls", lambda row: None if row["role"] == "final" and row["value"] in hidden else row)


def vanished(h: Run, rng: Random) -> Planted:
    """An observer reads a record at an offset that has none."""
    (worker, pid), topic = h.fresh(), rng.choice("pq")
    offset = h.mark_now(topic, pid, "commit")
    reader = h.shown(topic, offset, f"{worker}:0:0")
    return {"vanished": [of_read(topic, offset, reader)]}


def duplicate(h: Run, rng: Random) -> Planted:
    op, _ = h.sent("p", rng.randint(1, 2))
    value = rng.choice(op.values)
    h.append("p", value, digest=7)
    return {"duplicate": [{"value": value, **of_operation(op)}]}


def inconsistent_offsets(h: Run, rng: Random) -> Planted:
    op, offsets = h.sent("p", rng.randint(1, 2))
    offset = rng.choice(offsets)
    h.shown("p", offset)
    h.shown("p", offset, f"{op.name}:99")
    return {"inconsistent-offsets": [{"place": position("p", offset)}]}


def aborted_read(h: Run, rng: Random) -> Planted:
    """Two observers read a record of a failed transaction. One of them reads at read_uncommitted, which is legal."""
    source, inputs = h.fed(rng.randint(1, 2))
    worker, pid = h.fresh()
    op = h.transact(*inputs, to="p", outcome="fail", source=source, worker=worker, pid=pid)
    offset = rng.choice(h.sent_of(op, "p"))
    read = [of_read("p", offset, h.shown("p", offset)) for _ in range(rng.randint(1, 2))]
    h.shown("p", offset, promised=RU)
    h.transact(*inputs, to="p", source=source, worker=worker, pid=pid)
    return {"aborted-read": read, "dirty-read": read}


def refused_read(h: Run, rng: Random) -> Planted:
    """A send outside any transaction failed, but the final reader reads its record."""
    worker, _ = h.fresh()
    op = h.op(worker, "send", "fail")
    offset = h.append("p", h.send(op, "p"), digest=7)
    return {"aborted-read": [{**of_record("p", offset), **of_operation(op)}]}


def dirty_read(h: Run, rng: Random) -> Planted:
    """An observer reads an aborted record of a transaction with outcome info."""
    source, inputs = h.fed(rng.randint(1, 2))
    worker, pid = h.fresh()
    op = h.transact(*inputs, to="p", outcome="info", fate="abort", source=source, worker=worker, pid=pid)
    offset = rng.choice(h.sent_of(op, "p"))
    reader = h.shown("p", offset)
    h.transact(*inputs, to="p", source=source, worker=worker, pid=pid)
    return {"dirty-read": [of_read("p", offset, reader)]}


def early_read(h: Run, rng: Random) -> Planted:
    """An observer reads a record long before its commit marker is written."""
    worker, pid = h.fresh()
    op = h.op(worker)
    offset = h.append("p", f"{op.name}:0", pid, digest=7)
    h.send(op, "p", offset)
    reader = h.shown("p", offset)
    h.clock += MARGIN_NS
    h.mark_now("p", pid, "commit")
    h.log_transaction(pid, "p")
    return {"dirty-read": [of_read("p", offset, reader)]}


def precommitted_read(h: Run, rng: Random) -> Planted:
    """A transaction polls a record that it sent itself."""
    op, offsets = h.sent("p", rng.randint(1, 2))
    h.settle("p")
    offset = rng.choice(offsets)
    h.poll(op, "p", offset, h.entries["p"][offset]["value"])
    return {"precommitted-read": [{**of_record("p", offset), **of_operation(op)}]}


def unseen(h: Run, rng: Random) -> Planted:
    """A record was acknowledged without an offset, and no reader has read it."""
    worker, _ = h.fresh()
    op = h.op(worker, "send")
    h.send(op, "q")
    h.alter("sends", lambda row: row | {"acked": True} if row["op"] == op.op else row)
    return {"unseen": [of_operation(op)]}


def phantom(h: Run, rng: Random) -> Planted:
    """A record has no send. Its value is that of a worker, or unknown."""
    op, _ = h.sent("p", 1)
    offset = h.append("p", rng.choice([None, f"{op.name}:77"]))
    return {"phantom": [of_record("p", offset)]}


def output_of_nothing(h: Run, rng: Random) -> Planted:
    """A worker polls an aborted input and sends an output of it."""
    source, _ = h.fed(0)
    worker, pid = h.fresh()
    offset = h.append(source, None, pid)
    h.mark_now(source, pid, "abort")
    worker, pid = h.fresh()
    op = h.transact(offset, to="p", source=source, worker=worker, pid=pid)
    (output,) = h.sent_of(op, "p")
    return {
        "phantom": [{**of_record("p", output), "input": position(source, offset)}],
        "dirty-read": [of_record(source, offset)],
    }


def corrupt(h: Run, rng: Random) -> Planted:
    """The content of a record differs from its send and from the expected output."""
    source, inputs = h.fed(rng.randint(1, 2), owes="pq")
    worker, pid = h.fresh()
    topic = rng.choice("pq")
    op = h.transact(*inputs, to="pq", source=source, worker=worker, pid=pid)
    offset = rng.choice(h.sent_of(op, topic))
    value = h.entries[topic][offset]["value"]

    def bend(row: Row) -> Row:
        return row | {"digest": 8} if row["value"] == value else row

    h.alter("records", bend)
    return {"corrupt": of_records(topic, [offset] * 2)}


PLANTS = (
    lost_write,
    vanished,
    duplicate,
    inconsistent_offsets,
    aborted_read,
    refused_read,
    dirty_read,
    early_read,
    precommitted_read,
    unseen,
    phantom,
    output_of_nothing,
    corrupt,
)
