"""The entry of every process of a run that speaks Kafka; the run hands it a specification.

A user's workload is loaded here, in a worker, and never in the command's own process.
"""

import atexit
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from harness.clients.call_watch import CallWatch
from harness.clients.client_properties import connect_with
from harness.clients.control import Control
from harness.clients.feeder import Feeder
from harness.clients.final_reader import FinalReader, Foreign
from harness.clients.interface import TRANSACTION_TIMEOUT_MS, Client, GroupSettings, ProducerSettings
from harness.clients.librdkafka_client import LibrdkafkaClient
from harness.clients.readers import Observer
from harness.clients.running import RunningClient, running_java, running_librdkafka
from harness.errors import ExitStatus, UsageError
from harness.history import Isolation, Role
from harness.record.events import Begun
from harness.record.journal import Journal, NoJournal
from harness.record.parts import PartWriter, folder_of, start_over
from harness.stores.feeder import TableFeeder
from harness.stores.interface import Inputs, Store
from harness.stores.reader import StoreReader
from harness.stores.registry import STORES
from pipelines.pipeline import UserPipeline
from workloads.defects.registry import policy_of
from workloads.loop.mixed import MixedWorker
from workloads.loop.relay import Relay
from workloads.loop.unusual import Shares
from workloads.loop.worker import Settings, Worker
from workloads.model.padding import largest_bytes, padded
from workloads.model.policy import Delivery
from workloads.model.workload import Workload
from workloads.registry import WORKLOADS

LOOPS: Mapping[Delivery, type[Worker] | type[MixedWorker]] = {Delivery.MIXED: MixedWorker}
"""The loop of a stage, by how it delivers; all others are the one that takes inputs and makes outputs of them."""


def client_of(spec: Mapping[str, Any]) -> Client:
    """The client that a worker is told to use."""
    if spec.get("client") != "java":
        return LibrdkafkaClient()
    from harness.clients.java_client import JavaClient
    from harness.clients.jvm import JvmParts

    return JavaClient(JvmParts.from_spec(spec["jvm"]))


def running_client(spec: Mapping[str, Any]) -> RunningClient:
    """The client that this process runs: a worker that of the pipeline, and all others librdkafka."""
    if spec["role"] != Role.WORKER.value or spec.get("client") != "java":
        return running_librdkafka()
    client_of(spec)
    return running_java()


def require_client(spec: Mapping[str, Any], running: RunningClient) -> None:
    """End the process where it runs another version of the pipeline's client than was asked for."""
    if running.name == spec.get("client"):
        running.require(spec.get("client_version"))


def member_of(spec: Mapping[str, Any]) -> GroupSettings:
    """How a worker belongs to its group: a static member goes by the worker's name, which its replacement has too."""
    told: dict[str, Any] = spec.get("membership", {})
    instance = spec.get("worker") if told.get("static") else None
    return GroupSettings(told.get("protocol", "classic"), told.get("assignor"), instance)


def store_of(spec: Mapping[str, Any]) -> Store | None:
    """The store that the pipeline writes, if it has one."""
    return next((STORES[kind].connect(address) for kind, address in spec.get("stores", {}).items()), None)


def inputs_of(spec: Mapping[str, Any], workload: Workload, table: str) -> Inputs:
    """A table whose rows are inputs."""
    kind = workload.tables[table]
    return STORES[kind].inputs(spec["stores"][kind])


def main(argv: Sequence[str] | None = None) -> None:
    """Be what the specification says until told to stop."""
    spec: dict[str, Any] = json.loads((argv or sys.argv[1:])[0])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which then says stop
    behind_proxies = spec.get("proxied") and spec["role"] != Role.FINAL.value  # which speak plaintext
    connect_with(None if behind_proxies else spec.get("client_config"))
    channel = spec.get("channel")
    control = Control(socket.socket(fileno=channel) if channel is not None else None)
    if spec["role"] == Role.FINAL.value:
        start_over(Path(spec["path"]))
    running = running_client(spec)
    require_client(spec, running)
    if spec.get("record", True):
        told = {key: spec[key] for key in ("role", "stage", "worker", "process", "bootstrap") if key in spec}
        begun = Begun(
            spec["journal"],
            **told,
            client=running.name,
            client_version=running.version,
            library_version=running.library,
        )
        journal = Journal(Path(spec["path"]), spec["zero_ns"], begun)
    else:
        journal = NoJournal()
        journal.name = spec["journal"]
    with journal, CallWatch(control, journal).watching():
        try:
            make = build_for_users if "pipeline" in spec else build
            make(spec, journal, control).run()
        except UsageError as error:  # of the user's functions, and of what they give
            print(error, file=sys.stderr)  # the last line of its log: it is told to whoever started the run
            sys.exit(ExitStatus.USAGE)


def end_at_once() -> NoReturn:
    """End with all said and done, and whoever was in a group gone from it: librdkafka often takes a second to take a
    client down, and Python would wait for that.
    """
    atexit._run_exitfuncs()  # of a user's workload, and of the Java client's JVM
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def build(
    spec: dict[str, Any], journal: Journal, control: Control
) -> Worker | MixedWorker | Relay | Feeder | TableFeeder | Observer | FinalReader | StoreReader:
    """The object that does the work of a role."""
    tag = spec.get("tag", "")
    record_bytes = spec.get("record_bytes", 0)
    workload = padded(WORKLOADS[spec["workload"]].tagged(tag), record_bytes)
    compression, limit = spec.get("compression", "none"), largest_bytes(record_bytes)
    places = [(topic, partition) for topic, partition in spec.get("places", ())]
    match Role(spec["role"]):
        case Role.WORKER:
            return worker_of(spec, workload, journal, control)
        case Role.FEEDER if workload.fed_table:
            (feed,) = workload.feeds()
            connect = partial(inputs_of, spec, workload, feed.topic)
            return TableFeeder(
                connect, feed, spec["rate"], spec["abort_share"], spec["seed"], journal, control
            )
        case Role.FEEDER:
            told = ProducerSettings(spec["bootstrap"], largest_bytes=limit, compression=compression)
            return Feeder(told, workload.feeds(), spec["rate"], spec["seed"], journal, control)
        case Role.OBSERVER:
            return Observer(spec["bootstrap"], places, journal, control)
        case Role.FINAL if "tables" in spec:
            store = store_of(spec)
            assert store is not None, "who reads tables is told of the store"
            parts = PartWriter(journal, folder_of(Path(spec["path"])))
            expect, stated = workload.expectation(), stated_topics(workload)
            read = {table for table in spec["tables"] if table in workload.read_tables}
            inputs_by = {table: inputs_of(spec, workload, table) for table in read}
            return StoreReader(store, spec["tables"], journal, parts, control, expect, stated, inputs_by)
        case Role.FINAL:
            isolation = Isolation(spec["isolation"])
            parts = PartWriter(journal, folder_of(Path(spec["path"])))
            return FinalReader(
                spec["bootstrap"],
                places,
                isolation,
                journal,
                parts,
                control,
                workload.expectation(),
                stated_topics(workload),
            )


def build_for_users(
    spec: Mapping[str, Any], journal: Journal, control: Control
) -> Feeder | Observer | FinalReader:
    """The same around a user's pipeline, whose workers are commands."""
    pipeline = UserPipeline.load(spec["pipeline"]).tagged(spec["tag"])
    places = [(topic, partition) for topic, partition in spec.get("places", ())]
    match Role(spec["role"]):
        case Role.FEEDER:
            told = ProducerSettings(spec["bootstrap"], compression=spec["compression"])
            return Feeder(told, pipeline.feeds(), spec["rate"], spec["seed"], journal, control)
        case Role.OBSERVER:
            return Observer(spec["bootstrap"], places, journal, control)
        case _:
            return FinalReader(
                spec["bootstrap"],
                places,
                Isolation(spec["isolation"]),
                journal,
                PartWriter(journal, folder_of(Path(spec["path"]))),
                control,
                pipeline.expectation(),
                pipeline.read,
                Foreign(pipeline.written, dict(zip(places, spec.get("until", ()), strict=False))),
            )


def worker_of(
    spec: Mapping[str, Any], workload: Workload, journal: Journal, control: Control
) -> Worker | MixedWorker | Relay:
    """A worker of a stage."""
    record_bytes = spec.get("record_bytes", 0)
    settings = Settings(
        bootstrap=spec["bootstrap"],
        group=spec.get("group"),
        transactional_id=spec.get("transactional_id"),
        process=spec["process"],
        txn_size=spec["txn_size"],
        abort_share=spec["abort_share"],
        seed=spec["seed"],
        policy=policy_of(spec.get("defect")),
        delivery=workload.delivery_of(workload.stage(spec["stage"])),
        place=workload.place_of(spec["stage"]),
        partitions=spec.get("partitions", 0),
        compression=spec.get("compression", "none"),
        largest_bytes=largest_bytes(record_bytes),
        txn_timeout_ms=spec.get("txn_timeout_ms", TRANSACTION_TIMEOUT_MS),
        shares=Shares(spec.get("empty_share", 0.0), spec.get("overrun_share", 0.0)),
        as_member=member_of(spec),
    )
    stage = workload.stage(spec["stage"])
    if settings.delivery is Delivery.RELAYED:
        inputs = inputs_of(spec, workload, stage.reads[0])
        return Relay(stage, settings, client_of(spec), journal, control, inputs)
    kind = LOOPS.get(settings.delivery, Worker)
    return kind(stage, settings, client_of(spec), journal, control, store_of(spec))


def stated_topics(workload: Workload) -> frozenset[str]:
    """The topics of whose records the workload says something: its inputs, and its sums."""
    inputs = {topic for stage in workload.stages for topic in stage.reads}
    return frozenset(inputs | {stage.aggregate.topic for stage in workload.stages if stage.aggregate})


if __name__ == "__main__":
    main()
    end_at_once()
