"""A member of a group with a transactional producer, as a process that a test can pause.

Start it with `python -P -m tests.support.member SPECIFICATION`. It reads commands from standard input, one a line, and
answers each with a line of JSON:

- `poll`: begin a transaction and poll inputs; the answer has their offsets.
- `send`: send the offsets and commit; the answer has the error, or null.
- `end`: exit.
"""

import json
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.runs.process import client_of, group_settings
from harness.clients.interface import ClientError, ConsumerSettings, ProducerSettings
from harness.model.pipeline import TopicPartition
from harness.model.vocabulary import Isolation
from harness.processes.messages import decode
from harness.processes.specs import ClientSpec, MembershipSpec
from harness.roles.batch_offsets import BatchOffsets

BATCH = 5
POLL_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class MemberSpec:
    """The argument of the process."""

    name: str
    worker: str
    bootstrap: str
    group: str
    client: ClientSpec
    membership: MembershipSpec
    delay_s: float  # how long it waits before it sends


def main(spec: MemberSpec) -> None:
    client = client_of(spec.client)
    settings = ConsumerSettings(
        spec.bootstrap,
        spec.group,
        spec.name,
        Isolation.READ_COMMITTED,
        max_records=BATCH,
        group_settings=group_settings(spec.membership, spec.worker),
    )
    errors: list[str] = []

    class IgnoreAssignments:
        def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            """Do nothing: the client chooses the start position."""

        def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            """Do nothing: the next poll has no records of these partitions."""

    def make_consumer() -> Any:
        return client.consumer(settings, ["in"], IgnoreAssignments(), on_error)

    def on_error(error: ClientError) -> None:
        errors.append(f"{error.meaning.value}: {error}")
        if error.ends_client:
            client_ended.append(True)

    client_ended: list[bool] = []
    member = make_consumer()
    producer = client.producer(ProducerSettings(spec.bootstrap), f"own-{spec.name}-{time.time_ns()}")
    producer.init(30)
    positions = BatchOffsets.of([])
    for command in sys.stdin:
        answer: dict[str, Any] = {}
        if command.strip() == "end":
            break
        if command.strip() == "poll":
            deadline = time.monotonic() + POLL_TIMEOUT_S
            batch: list[Any] = []
            while not batch and time.monotonic() < deadline:
                batch = member.poll(BATCH, 0.2)
                if client_ended:
                    member.close()
                    client_ended.clear()
                    member = make_consumer()
            positions = BatchOffsets.of(batch)
            producer.begin()
            answer = {"claims": positions.claims, "errors": errors}
        else:
            threading.Event().wait(spec.delay_s)  # as if it processed its inputs
            try:
                producer.send("out", b"k", b"v", [], lambda *_: None)
                producer.flush(30)
                producer.send_offsets(positions.positions_to_commit(spec.name), member.membership(), 10)
                producer.commit(30)
                answer = {"failure": None}
            except ClientError as error:
                answer = {"failure": error.meaning.value, "message": str(error)}
        print(json.dumps(answer), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(decode(MemberSpec, sys.argv[1]))
