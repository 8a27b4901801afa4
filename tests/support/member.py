"""A member of a group with a transactional id of its own, as a process that can be paused: what it holds it tells, and
goes on when it is told to. `python -P -m tests.support.member SPECIFICATION`.

It answers each line of standard input with one of JSON: `poll` with the inputs that it then has in a transaction;
`send` with the error that sending their offsets and committing met, or null; `end` ends it.
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
from harness.processes.encoding import decode
from harness.processes.specs import ClientSpec, MembershipSpec
from harness.roles.batch_offsets import BatchOffsets

BATCH = 5
POLL_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class MemberSpec:
    """What such a process is told."""

    name: str
    worker: str
    bootstrap: str
    group: str
    client: ClientSpec
    membership: MembershipSpec
    thinks_s: float  # how long it waits before it sends


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
    met: list[str] = []

    class Unheeded:
        def on_assigned(self, places: Sequence[TopicPartition]) -> None:
            """It begins where the client says."""

        def on_revoked(self, places: Sequence[TopicPartition]) -> None:
            """Its next poll gives nothing of them."""

    def consumer() -> Any:
        return client.consumer(settings, ["in"], Unheeded(), noted)

    def noted(error: ClientError) -> None:
        met.append(f"{error.meaning.value}: {error}")
        if error.ends_client:
            ended.append(True)

    ended: list[bool] = []
    member = consumer()
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
                if ended:
                    member.close()
                    ended.clear()
                    member = consumer()
            positions = BatchOffsets.of(batch)
            producer.begin()
            answer = {"claims": positions.claims, "met": met}
        else:
            threading.Event().wait(spec.thinks_s)  # as a member does that has work to do
            try:
                producer.send("out", b"k", b"v", [], lambda *_: None)
                producer.flush(30)
                producer.send_offsets(positions.positions_to_commit(spec.name), member.membership(), 10)
                producer.commit(30)
                answer = {"failure": None}
            except ClientError as error:
                answer = {"failure": error.meaning.value, "words": str(error)}
        print(json.dumps(answer), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(decode(MemberSpec, sys.argv[1]))
