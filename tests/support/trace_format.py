"""Check a trace against the Trace Event Format, as Perfetto reads it.

Perfetto sorts events by time. A slice must begin and end inside the slice that is open on its thread. A flow event
binds to the slice that began last on its thread, and only if this slice has not ended.
"""

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Event = Mapping[str, Any]
PHASES = set("XBEiCMstf")
FLOWS = {"s": "start", "t": "step", "f": "end"}


def read_trace(path: Path) -> dict[str, Any]:
    with gzip.open(path) as file:
        trace: dict[str, Any] = json.load(file)
    return trace


def problems(events: Sequence[Event]) -> list[str]:
    """What is wrong with the events of a trace. Empty: nothing."""
    found = [problem for event in events for problem in _fields(event)]
    if found:
        return found
    threads: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in events:
        if event["ph"] in "XBEistf":
            threads[event["pid"], event["tid"]].append(event)
    for thread, own in threads.items():
        found += [f"{thread}: {problem}" for problem in _nesting(own)]
    return [*found, *_flows(events), *_names(events)]


def _fields(event: Event) -> Iterator[str]:
    for key, kinds in (("ph", str), ("ts", (int, float)), ("pid", int), ("tid", int), ("name", str)):
        if not isinstance(event.get(key), kinds) or isinstance(event[key], bool):
            yield f"{key} is missing or wrong: {event}"
    phase = event.get("ph")
    if phase not in PHASES:
        yield f"unknown phase: {event}"
    if isinstance(event.get("ts"), int | float) and event["ts"] < 0:
        yield f"negative time: {event}"
    if phase == "X" and not (isinstance(event.get("dur"), int) and event["dur"] > 0):
        yield f"no dur: {event}"
    if phase == "i" and event.get("s") != "t":
        yield f"an instant that is not on its thread: {event}"
    if phase == "C" and not all(
        isinstance(value, int | float) for value in event.get("args", {"": ""}).values()
    ):
        yield f"a counter without numbers: {event}"
    if phase in FLOWS and not isinstance(event.get("id"), int):
        yield f"a flow without id: {event}"
    if phase == "f" and event.get("bp") != "e":
        yield f"the end of a flow binds to the next slice: {event}"


def _order(event: Event) -> tuple[float, float]:
    """By time. The longest of the slices that begin at one time is the outermost."""
    return event["ts"], -event.get("dur", 0)


def _nesting(events: Sequence[Event]) -> Iterator[str]:
    ends: list[float] = []  # of the open slices
    begun = 0
    last_end = -1.0  # the end of the slice or instant that began last
    for event in sorted(events, key=_order):
        at = event["ts"]
        while ends and ends[-1] <= at:
            ends.pop()
        if event["ph"] == "X":
            end = last_end = at + event["dur"]
            if ends and end > ends[-1]:
                yield f"a slice ends after its parent: {event}"
            ends.append(end)
        elif event["ph"] == "B":
            begun += 1
        elif event["ph"] == "E":
            begun -= 1
            if begun < 0:
                yield f"an end without a begin: {event}"
        elif event["ph"] == "i":
            last_end = at
            if not ends:
                yield f"an instant outside any slice: {event}"
        elif at >= last_end:
            yield f"a flow event binds to no slice: {event}"
    if begun > 0:
        yield f"{begun} begins without an end"


def _flows(events: Sequence[Event]) -> Iterator[str]:
    flows: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        if event["ph"] in FLOWS:
            flows[event["id"]].append(event)
    for number, own in flows.items():
        phases = "".join(event["ph"] for event in sorted(own, key=lambda event: event["ts"]))
        if len(phases) < 2 or phases != f"s{'t' * (len(phases) - 2)}f":
            yield f"flow {number} has the phases {phases}"
        if len({(event["name"], event["cat"]) for event in own}) > 1:
            yield f"flow {number} has several names"
        if len({event["ts"] for event in own}) < len(own):
            yield f"flow {number} has two events at one time"


def _names(events: Sequence[Event]) -> Iterator[str]:
    named = Counter((event["name"], event["pid"], event["tid"]) for event in events if event["ph"] == "M")
    yield from (f"named twice: {key}" for key, count in named.items() if count > 1)
    processes = {pid for name, pid, _ in named if name == "process_name"}
    threads = {(pid, tid) for name, pid, tid in named if name == "thread_name"}
    for event in events:
        if event["pid"] not in processes:
            yield f"the process has no name: {event}"
        if event["ph"] not in "MC" and (event["pid"], event["tid"]) not in threads:
            yield f"the thread has no name: {event}"


def process_names(events: Sequence[Event]) -> dict[int, str]:
    return {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}


def thread_names(events: Sequence[Event]) -> dict[int, str]:
    return {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}


def slices_of(events: Sequence[Event], process: str) -> list[Event]:
    """The slices of a process, in the order of their times."""
    names = process_names(events)
    own = [event for event in events if event["ph"] == "X" and names[event["pid"]] == process]
    return sorted(own, key=_order)


def paths_of(events: Sequence[Event]) -> dict[int, list[Event]]:
    """By flow: the slices to which its events bind, in the order of time."""
    by_thread: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            by_thread[event["tid"]].append(event)
    paths: dict[int, list[Event]] = defaultdict(list)
    for event in sorted((each for each in events if each["ph"] in FLOWS), key=lambda each: each["ts"]):
        begun = [each for each in by_thread[event["tid"]] if each["ts"] <= event["ts"]]
        paths[event["id"]].append(max(begun, key=_order))
    return paths
