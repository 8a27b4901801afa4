"""pause-worker: a worker is stopped inside a transaction until others have gone on in its place.

Then it goes on, and believes that nothing has happened: a zombie. What it does next must have no
effect.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from random import Random

from harness.crew import Member
from harness.errors import WaitTimeout
from harness.history import Step
from harness.record.naming import split_partition
from harness.schedule import Acted, Grounds, Lane, Nemesis, Scene, Strike
from harness.waiting import wait_for
from nemeses.targets import any_worker, worker_in_role

STEPS = (Step.AFTER_SEND, Step.AFTER_OFFSETS, Step.BEFORE_COMMIT)
STEP_TIMEOUT_S = 45.0
TAKE_OVER_TIMEOUT_S = 60.0
COME_BACK_TIMEOUT_S = 60.0


def draw(rng: Random, grounds: Grounds) -> tuple[str, str | None]:
    """Any worker, at a step at which its transaction is open."""
    return any_worker(rng, grounds, STEPS)


@contextmanager
def pause_worker(scene: Scene, strike: Strike) -> Iterator[Acted]:
    """It acted if others had committed what it held when it came back."""
    member = worker_in_role(scene.crew, strike.target)
    step = Step(strike.step or Step.AFTER_SEND)
    acted = Acted(target=f"worker {member.journal} at {step.value}")
    # Only in a transaction that is to commit: a zombie that would abort anyway proves nothing.
    claims = scene.crew.bring_to(member, step, STEP_TIMEOUT_S, asked="commit")
    fenced_before = _fenced(member)
    begun_s = time.monotonic()
    stopped = member.child.pause()
    try:
        replacement = scene.crew.replace(member)
        scene.crew.await_ready([replacement])
        taken = _await_taken(scene, member, claims)
        if taken:
            acted.saw(
                f"it stood at {step.value}; {stopped}; {taken} after {time.monotonic() - begun_s:.1f} s"
            )
        else:
            acted.lacking["zombie"] = f"{member.journal} was paused, but nobody went on in its place"
        yield acted
    finally:
        member.send(replaced=True, go=True)
        member.child.resume()
    acted.proof.append(_came_back(member, fenced_before))


def _await_taken(scene: Scene, member: Member, claims: Mapping[str, list[int]]) -> str:
    """Wait until the group has committed past what the zombie holds; empty: it never did."""
    assert member.group is not None
    group = member.group

    def taken() -> str | None:
        committed = scene.cluster.committed(group)
        for key, (_, following) in claims.items():
            if committed.get(split_partition(key), -1) >= following:
                return f"others had committed {key} up to {committed[split_partition(key)]}"
        return None

    try:
        return wait_for(taken, f"{group} to go on without {member.journal}", TAKE_OVER_TIMEOUT_S, every_s=0.2)
    except WaitTimeout:
        return ""


def _fenced(member: Member) -> int:
    return int(member.told.get("counts", {}).get("fenced", 0))


def _came_back(member: Member, fenced_before: int) -> str:
    """What the zombie was told when it went on."""

    def told() -> str | None:
        if _fenced(member) > fenced_before:
            return f"{member.journal} came back and was fenced"
        if not member.alive:
            return f"{member.journal} came back and ended, having met no fence"
        return None

    return wait_for(
        told, f"{member.journal} to come back", COME_BACK_TIMEOUT_S, last_seen=lambda: member.told
    )


NEMESIS = Nemesis(
    name="pause-worker",
    summary="SIGSTOP a worker inside a transaction, SIGCONT once others have its partitions: a zombie",
    lane=Lane.WORKER,
    hold_s=1.0,
    recovery_s=14.0,
    keeps_slot=True,
    draw=draw,
    strike=pause_worker,
)
