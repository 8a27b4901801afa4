"""The options of a run applied to its pipeline, and the programs of its processes."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from harness.clients.driver import Driver
from harness.cluster.kinds.registry import clients_are_proxied
from harness.common.errors import UsageError
from harness.databases.registry import DATABASES
from harness.environment.java import jvm_flags, jvm_library
from harness.model.pipeline import PipelineSpec
from harness.model.promises import Goal
from harness.model.vocabulary import Exercise
from harness.processes.specs import (
    ClientSpec,
    ConnectionSpec,
    CustomPipelineSpec,
    JvmSpec,
    MembershipSpec,
    Program,
    ProgressCommand,
    PythonProgram,
    RunSpec,
    TransactionsSpec,
    WorkloadSpec,
)
from harness.runner import churn
from harness.runner.churn import PlannedChange
from harness.runner.nemesis import PlannedFault
from harness.settings.kinds import ClientChoice
from harness.settings.options import Options
from workloads.custom.command import ExternalProgram
from workloads.custom.names import placeholder_values
from workloads.custom.pipeline import CustomPipeline
from workloads.model.policy import Delivery
from workloads.model.workload import Workload, largest_bytes

if TYPE_CHECKING:
    from harness.environment import PreparedEnvironment

LONGER = "a longer --time-limit or a higher --rate helps"
PROCESS = "fencepost.runs.process"
"""The module that every Python process of a run executes."""


def txn_timeout_ms(options: Options) -> int:
    """The transaction time-out of the pipeline."""
    return round(1000 * options.txn_timeout_s)


def empty_share(options: Options, workload: "Workload") -> float:
    """The share of batches before which a worker commits an empty transaction."""
    return workload.empty_share if options.empty_share is None else options.empty_share


def draw_churn(
    options: Options, spec: PipelineSpec, planned_faults: Sequence[PlannedFault]
) -> tuple[PlannedChange, ...]:
    """Draw which workers join and leave, and when, from the seed. Targets of faults do not leave.

    Raises `UsageError` for a pipeline without consumer groups.
    """
    if not options.churn_s:
        return ()
    workers = {stage.name: stage.workers for stage in spec.stages if stage.group is not None}
    if not workers:
        raise UsageError(
            f"churn needs a workload with a consumer group, and {spec.name} has none: choose another --workload"
        )
    targets = {
        fault.target.name.rpartition("/")[2] for fault in planned_faults if fault.target.role == "worker"
    }
    rng = Random(f"{options.seed}/churn")
    return churn.draw(rng, options.churn_s, options.time_limit_s, workers, targets)


def apply_options(spec: PipelineSpec, options: Options, workload: "Workload") -> PipelineSpec:
    """Add what the options require to the spec of a workload. Raises `UsageError` if the workload cannot do it."""
    if options.record_bytes and not any(delivery.transforms for delivery in workload.deliveries):
        raise UsageError(
            f"record-bytes needs a workload that makes outputs from inputs, and {workload.name} does not: "
            "choose another --workload"
        )
    if options.replicas is not None:
        if options.replicas > options.brokers:
            raise UsageError(
                f"{options.replicas} replicas need as many brokers, and the cluster has {options.brokers}: "
                "choose fewer replicas, or more --brokers"
            )
        spec = spec.with_replicas(options.replicas)
    limit = largest_bytes(options.record_bytes)
    if limit is not None:
        spec = spec.with_topics({"max.message.bytes": str(limit)})
    has_transactions = any(delivery.transactional and delivery.transforms for delivery in workload.deliveries)
    for key, share in (("empty-share", options.empty_share), ("overrun-share", options.overrun_share)):
        if share and not has_transactions:
            raise UsageError(
                f"{key} needs a workload that delivers its outputs in transactions, and {workload.name} does not: "
                "choose another --workload"
            )
    return replace(spec, goals=(*spec.goals, *_goals(options, workload)))


def _goals(options: Options, workload: "Workload") -> list[Goal]:
    """The goals that each kind of unusual transaction in the options occurs."""
    exercises: list[tuple[Exercise, str]] = []
    if empty_share(options, workload) > 0:
        exercises += [
            (Exercise.EMPTY, "no transaction was committed with nothing in it"),
            (Exercise.OFFSETS_ONLY, "no transaction was committed with offsets alone"),
        ]
        if any(stage.notes for stage in workload.stages):
            exercises.append((Exercise.OUTPUTS_ONLY, "no transaction was committed with outputs alone"))
    if options.overrun_share > 0:
        exercises.append((Exercise.TIMED_OUT, "no transaction outlived its time-out"))
    return [Goal(exercise.value, exercise.value, text, LONGER) for exercise, text in exercises]


def programs_of(
    options: Options,
    pipeline: Workload | CustomPipeline,
    spec: PipelineSpec,
    folder: Path,
    prepared: "PreparedEnvironment | None",
    tag: str,
) -> tuple[Mapping[str, Program], Program]:
    """The program of each stage, and the program of the feeder, the observer and the final readers."""
    if isinstance(pipeline, CustomPipeline):
        described = pipeline.tagged(tag).description
        own = PythonProgram(PROCESS, _run_spec(options, spec, CustomPipelineSpec(described.file, tag)))
        placeholders = {
            **placeholder_values(described),
            "client_config": _client_config(options),
            "kafka_jars": os.pathsep.join(map(str, prepared.kafka.class_path)) if prepared else "",
        }
        commands = {
            stage.name: ExternalProgram(stage, described.folder, folder, placeholders)
            for stage in described.stages
        }
        return commands, own
    program = PythonProgram(
        PROCESS,
        _run_spec(options, spec, _workload_spec(options, pipeline, spec, folder, prepared, tag)),
        prepared.client.environment() if prepared and prepared.client else {},
    )
    return {stage.name: program for stage in spec.stages}, program


def progress_commands(
    options: Options, pipeline: Workload | CustomPipeline, programs: Mapping[str, Program]
) -> Mapping[str, ProgressCommand]:
    """By stage: the command of its `[stage.progress]`. It connects to the brokers themselves, and not to a proxy."""
    if not isinstance(pipeline, CustomPipeline):
        return {}
    config = _connection(options).client_config
    direct = {"client_config": "" if config is None else str(config)}
    return {
        name: replace(program, placeholders={**program.placeholders, **direct}).progress_command()
        for name, program in programs.items()
        if isinstance(program, ExternalProgram) and program.stage.progress is not None
    }


def _run_spec(options: Options, spec: PipelineSpec, pipeline: WorkloadSpec | CustomPipelineSpec) -> RunSpec:
    """The spec that every Python process of the run gets."""
    assert options.seed is not None, "a run is planned with a seed"
    return RunSpec(
        seed=options.seed,
        compression=options.compression,
        record_bytes=options.record_bytes,
        journaled=True,
        connection=_connection(options),
        partition_counts=spec.partition_counts,
        pipeline=pipeline,
    )


def _connection(options: Options) -> ConnectionSpec:
    config = Path(options.client_config).expanduser().resolve() if options.client_config else None
    return ConnectionSpec(config, proxied=clients_are_proxied(options))


def _client_config(options: Options) -> str:
    """Path of the client properties that a user's program needs. Empty if it needs none."""
    connection = _connection(options)
    return "" if connection.proxied or connection.client_config is None else str(connection.client_config)


def _workload_spec(
    options: Options,
    workload: Workload,
    spec: PipelineSpec,
    folder: Path,
    prepared: "PreparedEnvironment | None",
    tag: str,
) -> WorkloadSpec:
    return WorkloadSpec(
        name=workload.name,
        tag=tag,
        defect=options.defect,
        partitions_per_topic=workload.partitions(options),
        database_addresses={kind: DATABASES[kind].address(folder) for kind in spec.database_kinds},
        client=_client_spec(options, workload, folder, prepared),
        membership=MembershipSpec(options.group_protocol, options.assignor, options.static_membership),
        transactions=TransactionsSpec(
            txn_size=options.txn_size,
            abort_share=options.abort_share,
            timeout_ms=txn_timeout_ms(options),
            empty_share=empty_share(options, workload),
            overrun_share=options.overrun_share,
        ),
    )


def _client_spec(
    options: Options, workload: Workload, folder: Path, prepared: "PreparedEnvironment | None"
) -> ClientSpec:
    if options.driver is not None:
        if workload.delivery is not Delivery.PROGRAMS:
            raise UsageError("a driver is a client of `fencepost explore` only: leave driver out")
        driver_folder = Path(options.driver).expanduser().resolve()
        driver = Driver.read(driver_folder)
        return ClientSpec(driver.name, driver.version, driver=driver_folder)
    client = ClientChoice.of(options.client)
    return ClientSpec(client.name, client.version, jvm_spec(client.name, folder, prepared))


def jvm_spec(client: str, folder: Path, prepared: "PreparedEnvironment | None") -> JvmSpec | None:
    """The settings with which a worker starts a JVM. None if it does not use the Java client."""
    if client != "java" or prepared is None:
        return None

    return JvmSpec(
        jvm_library(prepared.java),
        tuple((prepared.client and prepared.client.class_path) or prepared.kafka.class_path),
        folder / "workers",
        tuple(jvm_flags(prepared.java)),
    )
