"""Larger random histories: what clients of a correct broker see, with anomalies planted, or bent at random.

The small ones are in `plain.small`, and are given on here with the forms to write either in.
"""

import json
from random import Random
from typing import Any

from tests.reference.broker import Simulation
from tests.reference.forms import numbered, to_edn, to_jsonl
from tests.reference.history import Event
from tests.reference.plants import PLANTABLE, RECORDS, SHAPES, Planter, planted_cycle
from tests.reference.small import small

__all__ = ["PLANTABLE", "bent", "random_history", "small", "to_edn", "to_jsonl"]


def random_history(rng: Random, size: int, plant: set[str]) -> list[Event]:
    """About `size` operations, more for what is planted; with nothing planted all anomalies are allowed.

    The history is a function of the generator's state, the size and the set of names. What is planted is
    found; what follows from it may be too.
    """
    keys = [f"k{n}" for n in range(rng.randint(1, 4))]
    base = Simulation(rng, size, keys, rng.randint(1, 6))
    ends = {key: len(log) for key, log in base.broker.logs.items()}
    planter = Planter(rng, ends, base.processes, base.values + 1)
    for name in sorted(plant & RECORDS.keys()):
        RECORDS[name](planter)
    events = _dealt(rng, base.events, planter.events)
    planter.events = []
    for name in sorted(plant & SHAPES.keys()):
        planted_cycle(planter, name)
    return numbered(events + planter.events)


def _dealt(rng: Random, one: list[Event], other: list[Event]) -> list[Event]:
    """Both, each in its own order."""
    turns = [0] * len(one) + [1] * len(other)
    rng.shuffle(turns)
    sources = iter(one), iter(other)
    return [next(sources[turn]) for turn in turns]


def bent(rng: Random, events: list[Event], times: int) -> list[Event]:
    """The same history with that many things changed at random: still well-formed, true of no broker.

    It is for comparing two definitions, not for knowing what is in it.
    """
    events = json.loads(json.dumps(events))  # a record that is sent and given is one list, in a copy too
    open_at: dict[int, Event] = {}
    done = []  # each completion with its invocation
    for event in events:
        if isinstance(event["process"], int):
            if event["type"] == "invoke":
                open_at[event["process"]] = event
            else:
                done.append((open_at[event["process"]], event))
    for _ in range(times):
        invocation, event = rng.choice(done)
        roll = rng.random()
        if event["f"] in ("send", "poll", "txn") and event["value"] is None:
            continue
        if roll < 0.2:
            event["type"] = rng.choice(["ok", "info", "fail"])
        elif roll < 0.25:
            event["isolation"] = rng.choice(["read_committed", "read_uncommitted"])
        elif roll < 0.3 and event["f"] in ("send", "poll", "txn"):
            invocation["f"] = event["f"] = rng.choice(
                ["send", "poll", "txn", "sned", "debug-topic-partitions"]
            )
        elif roll < 0.35 and event["f"] in ("send", "poll", "txn") and event["type"] in ("info", "fail"):
            event["value"] = None  # then its invocation says what was sent
        elif event["f"] in ("send", "poll", "txn") and event["value"]:
            at = rng.randrange(len(event["value"]))
            _bend(rng, event["value"][at])
            if event["value"][at][0] == "send":
                invocation["value"][at][2] = event["value"][at][2][1]
    return events


def _bend(rng: Random, mop: list[Any]) -> None:
    """Another offset, another value, or other records in a poll."""
    if mop[0] == "send":
        value = mop[2][1] if isinstance(mop[2], list) else mop[2]
        mop[2] = [rng.choice([None, *range(8)]), rng.choice([value, value, value, value + 1])]
        return
    for records in mop[1].values() if len(mop) > 1 else ():
        roll = rng.randrange(6)
        if roll == 0:
            rng.shuffle(records)
        elif records and roll == 1:
            records.pop(rng.randrange(len(records)))
        elif records and roll == 2:
            records.append(list(rng.choice(records)))
        elif records and roll == 3:
            rng.choice(records)[0] = rng.choice([None, *range(8)])
        elif records and roll == 4:
            record = rng.choice(records)
            record[1] = max(1, record[1] + rng.choice([-1, 1]))
