"""The entry of every process of a run that speaks Kafka; the run hands it a specification.

A user's workload is loaded here, in a worker, and never in the command's own process.
"""

import json
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from harness.clients.control import Control
from harness.clients.feeder import Feeder
from harness.clients.readers import Expectation, FinalReader, Observer
from harness.history import Isolation, Role
from harness.record.journal import Journal, NoJournal
from harness.record.naming import digest, output_headers
from workloads.defects import policy_of
from workloads.loop import Settings, Worker
from workloads.model import Output, Transform, Workload
from workloads.registry import WORKLOADS


def main(argv: Sequence[str] | None = None) -> None:
    """Be what the specification says until told to stop."""
    spec: dict[str, Any] = json.loads((argv or sys.argv[1:])[0])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which then says stop
    channel = spec.get("channel")
    control = Control(socket.socket(fileno=channel) if channel is not None else None)
    head: dict[str, Any] = {
        key: spec[key] for key in ("role", "stage", "worker", "process", "bootstrap") if key in spec
    }
    if spec.get("record", True):
        journal = Journal(Path(spec["path"]), spec["journal"], spec["zero_ns"], head)
    else:
        journal = NoJournal()
        journal.name = spec["journal"]
    with journal:
        build(spec, journal, control).run()


def build(
    spec: dict[str, Any], journal: Journal, control: Control
) -> Worker | Feeder | Observer | FinalReader:
    """The object that does the work of a role."""
    workload = renamed(WORKLOADS[spec["workload"]], spec.get("renamed"))
    places = [(topic, partition) for topic, partition in spec.get("places", ())]
    match Role(spec["role"]):
        case Role.WORKER:
            settings = Settings(
                bootstrap=spec["bootstrap"],
                worker=spec["worker"],
                process=spec["process"],
                txn_size=spec["txn_size"],
                abort_share=spec["abort_share"],
                seed=spec["seed"],
                policy=policy_of(spec["defect"]),
            )
            return Worker(workload.stage(spec["stage"]), settings, journal, control)
        case Role.FEEDER:
            return Feeder(
                spec["bootstrap"],
                workload.fed,
                workload.make_input,
                spec["rate"],
                spec["seed"],
                journal,
                control,
            )
        case Role.OBSERVER:
            return Observer(spec["bootstrap"], places, journal, control)
        case Role.FINAL:
            isolation = Isolation(spec["isolation"])
            return FinalReader(spec["bootstrap"], places, isolation, journal, control, expectation(workload))


def renamed(workload: Workload, prefix: str | None) -> Workload:
    """The same workload on topics of its own, for many rounds on one cluster."""
    if prefix is None:
        return workload

    def elsewhere(transform: Transform, key: bytes, value: bytes) -> list[Output]:
        return [replace(out, topic=f"{prefix}-{out.topic}") for out in transform(key, value)]

    return replace(
        workload,
        topics=tuple(f"{prefix}-{topic}" for topic in workload.topics),
        fed=f"{prefix}-{workload.fed}",
        stages=tuple(
            replace(
                stage,
                in_topic=f"{prefix}-{stage.in_topic}",
                transform=partial(elsewhere, stage.transform),
                aggregate=stage.aggregate
                and replace(stage.aggregate, topic=f"{prefix}-{stage.aggregate.topic}"),
            )
            for stage in workload.stages
        ),
    )


def expectation(workload: Workload) -> Expectation:
    """What the workload says of a record."""
    sums = {stage.aggregate.topic: stage.aggregate.state for stage in workload.stages if stage.aggregate}

    def outputs(topic: str, key: bytes, value: bytes) -> list[tuple[str, str, str, Any]]:
        return [
            (stage.name, out.slot, out.topic, partial(held, topic, out))
            for stage in workload.stages
            if stage.in_topic == topic
            for out in stage.transform(key, value)
        ]

    def adds(topic: str, key: bytes, value: bytes) -> list[tuple[str, str, bytes, int]]:
        return [
            (stage.name, stage.aggregate.topic, to, amount)
            for stage in workload.stages
            if stage.in_topic == topic and stage.aggregate
            for to, amount in stage.aggregate.adds(key, value)
        ]

    def state(topic: str, key: bytes, value: bytes) -> int | None:
        return sums[topic](key, value) if topic in sums else None

    return Expectation(outputs, adds, state)


def held(topic: str, out: Output, partition: int, offset: int) -> int:
    """The digest of the output that the input at that place must lead to."""
    return digest(out.key, out.value, output_headers("", out.slot, [(topic, partition, offset)]))


if __name__ == "__main__":
    main()
