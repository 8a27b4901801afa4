"""A run without Kafka: a fake cluster, and real processes that only use the control line."""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.cluster import Cluster
from harness.common.errors import StartFailed
from harness.common.progress import ProgressSnapshot
from harness.model.pipeline import PipelineSpec, StageSpec, TopicPartition, TopicSpec
from harness.model.vocabulary import Role, WorkerStep
from harness.processes.spawn import Supervisor
from harness.processes.specs import CommandLine, ProcessSpec, Program, ProgramRules
from harness.results.run_metadata import StageProgress
from harness.runner.nemesis import FaultContext
from harness.runner.processes import Processes, RunClock
from harness.runner.run_log import RunLog
from harness.testing.fake_cluster import FakeCluster

# A process runs SCRIPT with one of the bodies below. `report` and `commands` are its control line.
SCRIPT = """
import json, socket, sys, time
line = socket.socket(fileno=int(sys.argv[1]))
report = lambda **body: line.sendall(json.dumps(body).encode() + b"\\n")
commands = (json.loads(text) for text in line.makefile("rb"))
{body}
"""
WORKS = """
report(ready=True, counts={"inputs": 10, "committed": 1})
for command in commands:
    if command.get("stop") or command.get("replaced"):
        break
    if command.get("arm"):
        report(step=command["arm"], claims={"in/0": [0, 10]})
"""
NEVER_COMMITS = """
import threading
def work():
    fenced = 0
    while True:
        fenced += 1
        report(counts={"fenced": fenced, "failed": fenced})
        time.sleep(0.01)
report(ready=True)
threading.Thread(target=work, daemon=True).start()
for command in commands:
    if command.get("stop"):
        break
"""
IDLE = """
report(ready=True)
for command in commands:
    if command.get("stop"):
        break
"""
EXITS_AT_START = """
print("Segmentation fault")
sys.exit(1)
"""
EXITS_WHEN_READY = """
report(ready=True)
print("Segmentation fault")
sys.exit(1)
"""
FENCED_ZOMBIE = """
report(ready=True, counts={"inputs": 10, "committed": 1, "fenced": 0})
for command in commands:
    if command.get("stop"):
        break
    if command.get("replaced"):
        report(counts={"inputs": 10, "committed": 1, "fenced": 1})
        break
    if command.get("arm"):
        report(step=command["arm"], claims={"in/0": [0, 10]})
"""
ABORTED_ZOMBIE = """
report(ready=True, counts={"inputs": 10, "committed": 1})
failed = 0
for command in commands:
    if command.get("stop"):
        break
    if command.get("arm"):
        report(step=command["arm"], claims={"in/0": [0, 10]})
    elif command.get("go"):
        failed += 1
        report(counts={"inputs": 10, "committed": 1, "failed": failed})
"""
READS = "report(ready=True, records_read=5, reached=1)"


@dataclass(frozen=True)
class Script:
    """A program whose workers run `body`; `others` are the bodies of other roles."""

    body: str = WORKS
    others: Mapping[Role, str] = field(default_factory=dict)

    def command_line(self, spec: ProcessSpec) -> CommandLine:
        default = IDLE if spec.role is not Role.FINAL else READS
        body = self.body if spec.role is Role.WORKER else self.others.get(spec.role, default)
        argv = [sys.executable, "-S", "-E", "-c", SCRIPT.replace("{body}", body), str(spec.control_fd)]
        assert spec.control_fd is not None
        return CommandLine(argv, pass_fds=(spec.control_fd,))


@dataclass(frozen=True)
class ShellProgram:
    """A custom pipeline: its instances are shell scripts without a control line."""

    body: str
    rules: ProgramRules = field(default_factory=ProgramRules)
    other_roles: Script = field(default_factory=Script)  # feeder, observers and final readers

    def command_line(self, spec: ProcessSpec) -> CommandLine:
        if spec.role is not Role.WORKER:
            return self.other_roles.command_line(spec)
        return CommandLine(["/bin/sh", "-c", self.body], rules=self.rules)


class RecordedProgress:
    """A progress that stores its lines and prints nothing."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def phase(self, name: str) -> None:
        self.lines.append(name)

    def say(self, text: str) -> None:
        self.lines.append(text)

    def update(self, snapshot: ProgressSnapshot) -> None:
        pass

    def hidden(self) -> AbstractContextManager[None]:
        return nullcontext()

    def close(self) -> None:
        pass


@dataclass
class FakeEndMarkers:
    """`EndMarkers` with answers that a test sets."""

    inputs_left_values: list[int | None] = field(
        default_factory=lambda: [0]
    )  # one a call; the last is repeated
    open_transactions_listed: list[str] = field(default_factory=list)
    marked: list[TopicPartition] = field(default_factory=list)
    end_offsets: dict[TopicPartition, int] = field(default_factory=dict)

    progress: dict[str, StageProgress] = field(default_factory=dict)

    def last_seen(self, stage: StageSpec) -> str:
        return ""

    def inputs_left(self, stage: StageSpec, starting: bool = False, ended: bool = False) -> int | None:
        values = self.inputs_left_values
        return values.pop(0) if len(values) > 1 else values[0]

    def unread(self, stage: StageSpec) -> list[TopicPartition]:
        return []

    def outputs_written(self, stage: StageSpec) -> int:
        return 0

    def open_transactions(self, topics: Any, groups: Any) -> list[str]:
        return self.open_transactions_listed

    def resolve_ends(self, topic_partitions: Any) -> None:
        pass

    def mark_ends(self, topic_partitions: Any) -> None:
        self.marked += topic_partitions


@dataclass
class FakeService:
    """A `Service` without a process."""

    ending: str = "process 7 ended by SIGKILL, and so did 3 processes that it had started"
    fails_to_start: bool = False
    name: str = "postgres"

    def kill(self) -> str:
        return self.ending

    def start(self) -> str:
        if self.fails_to_start:
            raise StartFailed("postgres ended at its start")
        return "it answered after 0.1 s"


PIPELINE = PipelineSpec(
    "fake",
    (TopicSpec("in", 1), TopicSpec("out", 1)),
    (
        StageSpec(
            "s",
            ("in",),
            "g",
            writes=("out",),
            transactional_ids={"s-1": "s-1"},
            steps=tuple(map(str, WorkerStep)),
        ),
    ),
)


CUSTOM_PIPELINE = PipelineSpec(
    "users",
    PIPELINE.topics,
    (StageSpec("s", ("in",), "g", writes=("out",), journaled=False, transactional_ids={"s-1": "s-1"}),),
)
"""`PIPELINE` as a custom pipeline: it keeps no journals."""


@dataclass
class FakeRun:
    """The parts of a run."""

    cluster: FakeCluster
    processes: Processes
    run_log: RunLog
    progress: RecordedProgress
    supervisor: Supervisor
    folder: Path
    service: FakeService = field(default_factory=FakeService)
    pipeline: PipelineSpec = PIPELINE
    time_scale: float = 0.01  # of the waits of a fault

    @property
    def context(self) -> FaultContext:
        real: Cluster = self.cluster
        return FaultContext(
            real,
            self.processes,
            ("in", "out"),
            self.pipeline.stages,
            {"postgres": self.service},
            time_scale=self.time_scale,
        )


@contextmanager
def fake_run(
    folder: Path,
    program: Program | None = None,
    cluster: FakeCluster | None = None,
    service: FakeService | None = None,
    pipeline: PipelineSpec = PIPELINE,
    time_scale: float = 0.01,
) -> Iterator[FakeRun]:
    """Make the parts of a run on a fake cluster. No process is started yet."""
    cluster = cluster or FakeCluster()
    cluster.create_topics(pipeline.topics, 1)
    clock = RunClock(time.monotonic_ns(), time.time() * 1000)
    program = program or Script()
    with Supervisor() as supervisor:
        processes = Processes(
            supervisor,
            folder,
            clock,
            lambda endpoint: cluster.bootstrap,
            ("w0", "w1", "w2"),
            pipeline.stages,
            {"s": program},
            program,
            cluster.members,
        )
        progress = RecordedProgress()
        yield FakeRun(
            cluster,
            processes,
            RunLog(progress, clock),
            progress,
            supervisor,
            folder,
            service or FakeService(),
            pipeline,
            time_scale,
        )
