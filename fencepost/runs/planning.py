"""From options to a run plan: the pipeline, the schedule of faults, and what is stored in `run.toml`."""

import json
import secrets
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import datetime
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from fencepost import registry
from fencepost.registry import aim, weights_of
from fencepost.runs.programs import apply_options, draw_churn, programs_of, txn_timeout_ms
from fencepost.runs.protocol_rules import (
    decoded_links,
    planned_rules,
    require_known_names,
    require_sent,
    require_time_to_give_up,
)
from fencepost.runs.written_schedule import written_faults
from harness.clients.interface import SESSION_TIMEOUT_MS
from harness.cluster import Ability
from harness.cluster.config import count_ports
from harness.cluster.kinds.registry import CLUSTERS, abilities_of
from harness.common.errors import UsageError
from harness.databases.registry import DATABASES
from harness.environment.resources import SIZE
from harness.environment.versions import kafka_version
from harness.model.fault_names import has_weights, is_drawn
from harness.model.pipeline import PipelineSpec
from harness.model.promises import (
    FETCH,
    OFFSETS,
    SEGMENTS,
    SENTINELS,
    Promises,
    final_readers,
    observer,
    store_reader,
)
from harness.model.vocabulary import Premise
from harness.network import ApplyRule
from harness.runner import schedule as schedules
from harness.runner.churn import extra_endpoints, joining_workers
from harness.runner.nemesis import FaultTargets
from harness.runner.processes import RunClock
from harness.runner.run import RunPlan
from harness.runner.schedule import Choice, Schedule
from harness.settings.kinds import ClientChoice, new_tag
from harness.settings.options import Options
from harness.settings.run_file import StoredPlan
from workloads.custom.command import require_executable
from workloads.custom.names import require_names_passed
from workloads.custom.pipeline import CustomPipeline
from workloads.custom.trial import require_working
from workloads.defects import Defect, policy_of
from workloads.model.workload import Workload

if TYPE_CHECKING:
    from harness.environment import PreparedEnvironment

WORKLOAD_OPTIONS = (
    "defect", "churn_s", "overrun_share", "workers", "client", "txn_size", "abort_share", "empty_share", "record_bytes",
    "replicas", "group_protocol", "assignor", "static_membership", "txn_timeout_s",
)  # fmt: skip
"""Options that apply only to workloads."""
AnyPipeline = Workload | CustomPipeline
"""A workload or a custom pipeline."""
SPARE_ENDPOINTS = 2
"""Client endpoints for the replacements of workers that end by themselves. Faults and churn add theirs."""


def custom_pipeline_spec(options: Options, pipeline: CustomPipeline, tag: str) -> PipelineSpec:
    """The spec of a custom pipeline. Raises `UsageError` if an option applies only to workloads."""
    default = Options()
    if changed := [key for key in WORKLOAD_OPTIONS if getattr(options, key) != getattr(default, key)]:
        key = changed[0].removesuffix("_s").replace("_", "-")
        instead = (
            "set `instances` in the file" if key == "workers" else "leave it out of a run with --pipeline"
        )
        raise UsageError(f"{key} applies only to workloads of Fencepost: {instead}")
    if CLUSTERS[options.cluster].shared:
        require_names_passed(pipeline.description)
    return pipeline.spec(options, tag)


def require_ready(pipeline: AnyPipeline, options: Options) -> None:
    """Raise `UsageError` if a custom pipeline cannot run. Call it before anything starts."""
    if isinstance(pipeline, CustomPipeline):
        for stage in pipeline.description.stages:
            require_executable(stage, pipeline.description.folder)
        require_working(pipeline.description, options.partitions)


def defect_of(options: Options) -> Defect | None:
    """The defect that the options name. None if they name none."""
    return registry.defects()[options.defect] if options.defect else None


def pipeline_spec(options: Options, workload: AnyPipeline, tag: str = "") -> PipelineSpec:
    """The spec of the pipeline in a run with these options. Raises `UsageError` if the pipeline cannot have them."""
    if isinstance(workload, CustomPipeline):
        return custom_pipeline_spec(options, workload, tag)
    if options.defect:
        client = ClientChoice.of(options.client).name
        registry.defects()[options.defect].require(workload, client, registry.workloads().values())
    policy, timeout_ms = policy_of(options.defect), txn_timeout_ms(options)
    return apply_options(
        workload.spec(options, tag, policy=policy, txn_timeout_ms=timeout_ms), options, workload
    )


def draw_schedule(options: Options, workload: AnyPipeline) -> Schedule:
    """Draw the schedule. It depends only on the options, which contain the seed. Raises `UsageError`."""
    nemeses = registry.nemeses()
    spec = pipeline_spec(options, workload)
    names, targets = _requested(options), _targets(options, workload, spec)
    witness_of(options)  # raises if the cluster kind cannot provide it
    rng = Random(f"{options.seed}/schedule")
    choices = [
        Choice(tuple(aim(part, nemeses) for part in name.split("+")), weight)
        for name, weight in weights_of(names, spec, nemeses).items()
    ]
    schedule = schedules.draw(
        choices,
        *(targets, options.time_limit_s, rng),
        chosen_by_user=not is_drawn(options.nemesis) or options.defect is not None,
        by_weight=has_weights(names),
    )
    written = [] if options.schedule is None else written_faults(options, targets)
    churn = draw_churn(options, spec, (*schedule.planned_faults, *written))
    faults = (*schedule.planned_faults, *written, *planned_rules(options))
    require_sent(options, spec, faults)
    require_time_to_give_up(spec, faults)
    if options.rule:
        tag = tag_for(options)
        pipeline = pipeline_spec(options, workload, tag).with_workers(
            joining_workers(churn), shared=policy_of(options.defect).shared_id
        )
        require_known_names(options, pipeline, faults, tag)
    return replace(
        schedule, planned_faults=tuple(sorted(faults, key=lambda fault: fault.start_s)), churn=churn
    )


def _requested(options: Options) -> Sequence[str]:
    """The faults that the user has chosen, or else those that are drawn by default."""
    if options.nemesis is not None:
        return options.nemesis
    if options.rule or options.schedule is not None:
        return []
    if (defect := defect_of(options)) is not None:
        return defect.nemesis
    return [name for name, nemesis in registry.nemeses().items() if nemesis.by_default]


def _targets(options: Options, workload: AnyPipeline, spec: PipelineSpec) -> FaultTargets:
    defect = defect_of(options) if options.nemesis is None else None
    workers = workers_of(spec)
    return FaultTargets(
        brokers=tuple(range(1, options.brokers + 1)),
        topic_partitions=tuple(spec.topic_partitions),
        workers=workers,
        steps={stage.name: stage.steps for stage in spec.stages},
        zombie_steps={stage.name: stage.zombie_steps for stage in spec.stages},
        groups={stage.name: stage.group for stage in spec.stages if stage.group is not None},
        transactional_ids={stage.name: tuple(stage.transactional_ids.values()) for stage in spec.stages},
        writes={stage.name: stage.writes for stage in spec.stages},
        reads={stage.name: stage.reads for stage in spec.stages},
        tables=tuple(table.name for table in spec.tables),
        fixed_topics=workload.fixed_topics if isinstance(workload, Workload) else {},
        endpoints=tuple(f"w{n}" for n in range(sum(map(len, workers.values())))),
        abilities=abilities_of(options),
        stages_with_unknown_ids=tuple(
            stage.name
            for stage in spec.stages
            if stage.has_unknown_ids and ApplyRule in abilities_of(options)
        ),
        stage=defect.stage_of(workload) if defect and isinstance(workload, Workload) else None,
        step=defect.step.value if defect and defect.step else None,
        services=tuple(kind for kind in spec.database_kinds if DATABASES[kind].has_server),
        replicas={topic.name: topic.replication for topic in spec.topics},
        kafka=options.kafka,
        reserved_s={stage.name: stage.reserved_s for stage in spec.stages if not stage.journaled},
        transaction_version=kafka_version(options.kafka).transaction_level(options.transaction_version),
    )


def tag_for(options: Options) -> str:
    """A new tag for a run on a shared cluster. Empty if the run starts its own cluster."""
    return (
        new_tag(options.prefix, keep_topics=options.keep == "topics")
        if CLUSTERS[options.cluster].shared
        else ""
    )


def workers_of(spec: PipelineSpec) -> dict[str, tuple[str, ...]]:
    """For each stage, the names of its workers."""
    return {stage.name: stage.workers for stage in spec.stages}


def joining_instances(workers: Mapping[str, Sequence[str]], schedule: Schedule) -> Mapping[str, int]:
    """By stage, how many instances faults start in addition. They are the targets that are not in `workers`."""
    targets = {fault.target.name for fault in schedule.planned_faults if fault.target.role == "worker"}
    added = targets - {f"{stage}/{worker}" for stage, names in workers.items() for worker in names}
    return Counter(target.partition("/")[0] for target in added)


def plan_run(
    options: Options,
    workload: AnyPipeline,
    schedule: Schedule,
    folder: Path,
    prepared: "PreparedEnvironment | None" = None,
    tag: str = "",
) -> RunPlan:
    """The run plan: everything that is fixed before the run begins.

    Args:
        prepared: Needed for the Java client, and for faults on the clocks of workers.
        tag: The tag of the run on a shared cluster.
    """
    spec = pipeline_spec(options, workload, tag)
    workers = workers_of(spec)
    if isinstance(workload, CustomPipeline):
        spec = pipeline_spec(options, workload.with_instances(joining_instances(workers, schedule)), tag)
    spec = spec.with_workers(joining_workers(schedule.churn), shared=policy_of(options.defect).shared_id)
    nemeses = registry.planned_nemeses()
    kept_endpoints = sum(nemeses[planned.fault].keeps_endpoint for planned in schedule.planned_faults)
    endpoints = (
        sum(map(len, workers.values())) + kept_endpoints + extra_endpoints(schedule.churn) + SPARE_ENDPOINTS
    )
    require_ports(options, endpoints + 1, decoded_links(options, spec, schedule.planned_faults))
    programs, harness_program = programs_of(options, workload, spec, folder, prepared, tag)
    return RunPlan(
        options=options,
        folder=folder,
        pipeline=spec,
        workers=workers,
        worker_endpoints=tuple(f"w{n}" for n in range(endpoints)),
        faults=schedule.planned_faults,
        churn=schedule.churn,
        nemeses=nemeses,
        programs=programs,
        harness_program=harness_program,
        preload=prepared.preload if prepared else None,
    )


def require_ports(options: Options, endpoints: int, decoded: tuple[str, ...]) -> None:
    """Raise `UsageError` if the brokers and client endpoints need more ports than a run has."""
    needed = count_ports(options.brokers, endpoints, decoded)
    if needed > SIZE:
        raise UsageError(
            f"{options.brokers} brokers and {endpoints} client endpoints need {needed} ports; a run has {SIZE}: "
            "choose fewer --brokers, fewer --workers, or fewer faults that replace workers"
        )


def session_timeout_ms(options: Options) -> int:
    """The session time-out of group members. In the consumer protocol, a broker setting defines it."""
    setting = options.settings.get("group.consumer.session.timeout.ms", "")
    return (
        int(setting) if options.group_protocol == "consumer" and setting.isdecimal() else SESSION_TIMEOUT_MS
    )


def source_commit(clone: Path = Path(__file__).parents[2]) -> str | None:
    """Return the git commit of the clone that runs, or from which Fencepost was installed. None: it is not known.

    It ends with `-dirty` if the clone has changes that are not committed. Source of `vcs_info`: PEP 610.
    """
    if (clone / ".git").exists():
        command = ["git", "-C", str(clone), "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"]
        with suppress(OSError, subprocess.SubprocessError):
            return subprocess.run(
                command,
                capture_output=True,
                text=True,
                check=True,
                timeout=10,
                encoding="utf-8",
                errors="replace",
            ).stdout.strip()
    with suppress(PackageNotFoundError, ValueError):
        installed = json.loads(distribution("fencepost").read_text("direct_url.json") or "{}")
        commit = installed.get("vcs_info", {}).get("commit_id")
        return str(commit) if commit else None
    return None


def stored_plan(
    options: Options, plan: RunPlan, schedule: Schedule, command: str, started: datetime, clock: RunClock
) -> StoredPlan:
    """The content of `run.toml`: what is needed to repeat the run, and both clocks at run time zero."""
    return StoredPlan(
        options,
        {
            "id": secrets.randbits(62),
            "started": started.isoformat(timespec="seconds"),
            "seed": options.seed,
            "command": command,
            **({"commit": commit} if (commit := source_commit()) else {}),
            "wall_ms_at_zero": clock.wall_ms_at_zero,
            "monotonic_ns_at_zero": clock.zero_ns,
            "session_timeout_ms": session_timeout_ms(options),
            "promises": asdict(promises_of(options, plan)),
            **({"churn": [change.as_table() for change in schedule.churn]} if schedule.churn else {}),
        },
        [planned.as_table() for planned in schedule.planned_faults],
        plan.pipeline.as_table(),
    )


def witness_of(options: Options) -> str:
    """How broker logs are read: as the options say, else from segment files if the cluster kind permits it."""
    segments = Ability.SEGMENTS in CLUSTERS[options.cluster].abilities
    if options.witness == SEGMENTS and not segments:
        raise UsageError(
            f"the segment files of a cluster of kind {options.cluster} cannot be read: leave out witness=segments"
        )
    return options.witness or (SEGMENTS if segments else FETCH)


def promises_of(options: Options, plan: RunPlan) -> Promises:
    """The evidence that the run promises to leave."""
    kind = CLUSTERS[options.cluster]
    topics = [topic.name for topic in plan.pipeline.topics]
    tables = tuple(table.name for table in plan.pipeline.tables)
    witness = witness_of(options)
    broken = {premise for planned in plan.faults for premise in plan.nemeses[planned.fault].broken_premises}
    if schedules.lack_leaders(plan.faults, plan.nemeses):
        broken.add(Premise.LEADER_ALWAYS)
    return Promises(
        journaled=tuple(stage.name for stage in plan.pipeline.stages if stage.journaled),
        witness=witness,
        internal_logs=plan.pipeline.internal_topics,
        transactions=plan.pipeline.transactional,
        offsets_within=any(
            stage.group and (stage.transactional_ids or (not stage.journaled and stage.txn_timeout_ms))
            for stage in plan.pipeline.stages
        ),
        ends=SENTINELS if plan.pipeline.journaled else OFFSETS,
        replicas=witness == SEGMENTS,
        readers=(
            *final_readers(topics),
            *((store_reader(tables),) if tables else ()),
            observer(plan.pipeline.output_topics),
        ),
        tables=tables,
        free_stages=plan.pipeline.free_stages,
        history=bool(plan.pipeline.free_stages),
        broken_premises=tuple(sorted(broken)),
        one_clock=kind.one_clock,
    )
