"""A run without Kafka: a fake cluster, and real processes that speak the control line and nothing else."""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.cluster import Cluster
from harness.common.errors import StartFailed
from harness.model.pipeline import PipelineSpec, StageSpec, TopicPartition, TopicSpec
from harness.model.vocabulary import Role, WorkerStep
from harness.processes.program import CommandLine, Program, ProgramRules
from harness.processes.spawn import Supervisor
from harness.processes.specs import ProcessSpec
from harness.runner.nemesis import FaultContext
from harness.runner.processes import Processes, RunClock
from harness.runner.progress import Tick
from harness.runner.run_log import RunLog
from harness.testing.fake_cluster import FakeCluster

# What each kind of process does after it has said that it is ready. `report` and `commands` are its control line.
SCRIPT = """
import json, socket, sys, time
line = socket.socket(fileno=int(sys.argv[1]))
report = lambda **body: line.sendall(json.dumps(body).encode() + b"\\n")
commands = (json.loads(one) for one in line.makefile("rb"))
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
def toil():
    fenced = 0
    while True:
        fenced += 1
        report(counts={"fenced": fenced, "failed": fenced})
        time.sleep(0.01)
report(ready=True)
threading.Thread(target=toil, daemon=True).start()
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
DIES = """
print("Segmentation fault")
sys.exit(1)
"""
DIES_LATER = """
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
READS = "report(ready=True, records_read=5, reached=1)"


@dataclass(frozen=True)
class Script:
    """A program: by role, what it does."""

    body: str = WORKS
    others: Mapping[Role, str] = field(default_factory=dict)

    def command_line(self, spec: ProcessSpec) -> CommandLine:
        """In a Python that loads nothing."""
        own = self.others.get(spec.role, IDLE if spec.role is not Role.FINAL else READS)
        body = self.body if spec.role is Role.WORKER else own
        argv = [sys.executable, "-S", "-E", "-c", SCRIPT.replace("{body}", body), str(spec.control_fd)]
        assert spec.control_fd is not None
        return CommandLine(argv, pass_fds=(spec.control_fd,))


@dataclass(frozen=True)
class Plain:
    """A program of a user's, in the words of a shell; whoever is no worker is one of ours."""

    body: str
    rules: ProgramRules = field(default_factory=ProgramRules)
    ours: Script = field(default_factory=Script)

    def command_line(self, spec: ProcessSpec) -> CommandLine:
        """It knows nothing of a control line."""
        if spec.role is not Role.WORKER:
            return self.ours.command_line(spec)
        return CommandLine(["/bin/sh", "-c", self.body], rules=self.rules)


class Silent:
    """A progress that keeps what it is told."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def phase(self, name: str) -> None:
        self.said.append(name)

    def say(self, text: str) -> None:
        self.said.append(text)

    def tick(self, tick: Tick) -> None:
        pass

    def close(self) -> None:
        pass


@dataclass
class FakeEnds:
    """`EndMarkers` that say what they were told to."""

    lefts: list[int | None] = field(default_factory=lambda: [0])
    open_at: list[str] = field(default_factory=list)
    marked: list[TopicPartition] = field(default_factory=list)
    end_offsets: dict[TopicPartition, int] = field(default_factory=dict)

    def inputs_left(self, stage: StageSpec, starting: bool = False) -> int | None:
        return self.lefts.pop(0) if len(self.lefts) > 1 else self.lefts[0]

    def outputs_written(self, stage: StageSpec) -> int:
        return 0

    def open_transactions(self, topics: Any, groups: Any) -> list[str]:
        return self.open_at

    def resolve_ends(self, places: Any) -> None:
        pass

    def mark_ends(self, places: Any) -> None:
        self.marked += places


@dataclass
class FakeService:
    """A `Service` of which nothing is real."""

    ending: str = "process 7 ended by SIGKILL, and so did 3 processes that it had started"
    dies: bool = False  # it does not come back
    well: bool = True
    name: str = "postgres"

    def kill(self) -> str:
        return self.ending

    def start(self) -> str:
        if self.dies:
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


USERS = PipelineSpec(
    "users",
    PIPELINE.topics,
    (StageSpec("s", ("in",), "g", writes=("out",), journaled=False, transactional_ids={"s-1": "s-1"}),),
)
"""The same as the pipeline of a user's."""


@dataclass
class FakeRun:
    """What the parts of a run are tested on."""

    cluster: FakeCluster
    processes: Processes
    run_log: RunLog
    progress: Silent
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
    """Processes of a program, and a cluster of which nothing is real."""
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
        progress = Silent()
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
