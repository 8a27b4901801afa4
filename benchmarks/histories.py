"""Make valid histories of any size, in the form that Jepsen writes.

16 processes, 64 keys; each transaction sends 4 values and polls about as many records that earlier ones sent.
"""

import random
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import orjson

PROCESSES, KEYS, SENDS = 16, 64, 4


def history(transactions: int, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the events of this many transactions: two events and about 8 micro-operations (records) for each.

    Each process polls four keys that no other process polls. It polls them in order and to the end, so that no record
    is skipped or unseen.
    """
    rng = random.Random(seed)
    offsets = [0] * KEYS
    unread: list[deque[tuple[int, int, int]]] = [deque() for _ in range(PROCESSES)]
    index, value = 0, 0
    for number in range(transactions + PROCESSES):
        process = number % PROCESSES
        time_ns = 1_000_000 * number
        last = number >= transactions
        sent = [(rng.randrange(KEYS), value + n) for n in range(0 if last else SENDS)]
        value += len(sent)
        invoked = [["send", key, v] for key, v in sent]
        yield _event(index, time_ns, "invoke", process, [*invoked, ["poll"]])
        polled: dict[int, list[list[int]]] = {}
        for _ in range(len(unread[process]) if last else min(len(unread[process]), rng.randrange(9))):
            key, offset, v = unread[process].popleft()
            polled.setdefault(key, []).append([offset, v])
        done = []
        for key, v in sent:
            done.append(["send", key, [offsets[key], v]])
            unread[key % PROCESSES].append((key, offsets[key], v))
            offsets[key] += 1
        for key, _ in sent:
            offsets[key] += 1  # the commit marker takes an offset
        yield _event(index + 1, time_ns + 900_000, "ok", process, [*done, ["poll", polled]])
        index += 2


def _event(index: int, time_ns: int, kind: str, process: int, value: list[Any]) -> dict[str, Any]:
    return {"index": index, "time": time_ns, "type": kind, "process": process, "f": "txn", "value": value}


def write_jsonl(path: Path, transactions: int, seed: int = 0) -> None:
    """Write the history as JSON Lines."""
    with path.open("wb") as file:
        for event in history(transactions, seed):
            file.write(orjson.dumps(event, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_APPEND_NEWLINE))


def write_edn(path: Path, transactions: int, seed: int = 0) -> None:
    """Write the history as Jepsen's `history.edn`."""
    with path.open("w", encoding="utf-8") as file:
        for event in history(transactions, seed):
            _write_edn(file, event)


def _write_edn(file: TextIO, event: dict[str, Any]) -> None:
    fields = ", ".join(
        f":{name} {edn(value) if name == 'value' else _word(value)}" for name, value in event.items()
    )
    file.write(f"{{{fields}}}\n")


def _word(value: str | int) -> str:
    return f":{value}" if isinstance(value, str) else str(value)


def edn(value: Any) -> str:
    """Return a value of an event as Clojure prints it."""
    if isinstance(value, list):
        return f"[{' '.join(map(edn, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{edn(key)} {edn(entry)}' for key, entry in value.items())}}}"
    return "nil" if value is None else _word(value)
