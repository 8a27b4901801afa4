"""What runs in the processes of a run: our own loop on either client, or a user's commands; and what is ours anyway."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.shapes import empty_share, txn_timeout_ms
from harness.cluster.kinds.registry import clients_are_proxied
from harness.pipeline import PipelineFacts
from harness.programs import Program
from harness.settings.client_choice import ClientChoice
from harness.settings.options import Options
from harness.stores.registry import STORES
from pipelines.command import Command
from pipelines.pipeline import UserPipeline
from pipelines.tagged import names_told
from workloads.loop.program import PythonProgram
from workloads.model.workload import Workload

if TYPE_CHECKING:
    from harness.environment import Prepared

PROCESS = "fencepost.process"
"""The module that every process of ours runs."""


def programs_of(
    options: Options,
    pipeline: Workload | UserPipeline,
    facts: PipelineFacts,
    folder: Path,
    prepared: "Prepared | None",
    tag: str,
) -> tuple[Mapping[str, Program], Program]:
    """The programs of the stages, by stage, and that of feeder, observer and readers."""
    if isinstance(pipeline, UserPipeline):
        described = pipeline.tagged(tag).described
        own = PythonProgram(PROCESS, {"pipeline": str(described.file), "tag": tag, **_for_all(options)})
        told = {**names_told(described), "client_config": _told_config(options)}
        return {stage.name: Command(stage, described.folder, folder, told) for stage in described.stages}, own
    ours = _loop(options, pipeline, facts, folder, prepared, tag)
    return {stage.name: ours for stage in facts.stages}, ours


def _for_all(options: Options) -> dict[str, Any]:
    """What every process of ours is told."""
    return {
        "compression": options.compression,
        "record_bytes": options.record_bytes,
        "seed": options.seed,
        "client_config": str(Path(options.client_config).expanduser().resolve())
        if options.client_config
        else None,
        "proxied": clients_are_proxied(options),
    }


def _told_config(options: Options) -> str:
    """The file of client properties that a user's program needs; empty: it connects without any."""
    told = _for_all(options)
    return "" if told["proxied"] else told["client_config"] or ""


def _loop(
    options: Options,
    workload: Workload,
    facts: PipelineFacts,
    folder: Path,
    prepared: "Prepared | None",
    tag: str,
) -> PythonProgram:
    """Our own loop: the same program for every role."""
    client = ClientChoice.of(options.client)
    return PythonProgram(
        PROCESS,
        {
            **_for_all(options),
            "workload": workload.name,
            "defect": options.defect,
            "client": client.name,
            "client_version": client.version,
            "membership": {
                "protocol": options.group_protocol,
                "assignor": options.assignor,
                "static": options.static_membership,
            },
            "txn_size": options.txn_size,
            "abort_share": options.abort_share,
            "txn_timeout_ms": txn_timeout_ms(options),
            "empty_share": empty_share(options, workload),
            "overrun_share": options.overrun_share,
            "partitions": workload.partitions(options),
            "tag": tag,
            "stores": {kind: STORES[kind].address(folder) for kind in facts.stores},
            **jvm_spec(client.name, folder, prepared),
        },
        prepared.client.environment() if prepared and prepared.client else {},
    )


def jvm_spec(client: str, folder: Path, prepared: "Prepared | None") -> dict[str, Any]:
    """What the JVM in a worker is started from."""
    if client != "java" or prepared is None:
        return {}
    from harness.clients.jvm import JvmParts
    from harness.environment.java import jvm_library
    from harness.environment.jvm import jvm_flags

    parts = JvmParts(
        jvm_library(prepared.java),
        (prepared.client and prepared.client.class_path) or tuple(prepared.kafka.class_path),
        folder / "workers",
        tuple(jvm_flags(prepared.java)),
    )
    return {"jvm": parts.as_spec()}
