"""A member of a stage, as the target of a fault: a worker of a workload, or an instance of a custom pipeline.

Each fault on members is written once. What a fault can do to a member, and what it can know, is the interface:

| ability | worker | instance |
| --- | --- | --- |
| is held at a moment | at a step: it waits there if the run asks for it | by SIGSTOP, in a state of its transaction |
| its transactional id is known | from the pipeline spec | if it is declared, or seen in a request |
| its inputs are known | it reports them at a step | no: the group's committed offsets show them |
| what it does later is known | it reports how its transactions end | its requests, its end and its group show it |
| can be killed, paused and replaced, and can have another clock | yes | yes |
| can leave its group cleanly and join it (`membership`) | yes | yes |
"""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import ClassVar, Self

from harness.common.errors import FaultFailed
from harness.model.pipeline import StageSpec
from harness.runner.nemesis import FaultContext, InjectedFault, PlannedFault
from harness.runner.run_process import RunProcess
from nemeses.aiming.in_transaction import stage_of

ZOMBIE = "zombie"
"""The goal of faults that pause a member: it continues after others have taken over."""


class Member(ABC):
    """The target of one fault, and the effect of the fault.

    `process` is the process of the member. It can change until the injection, if the process ends by itself.
    """

    noun: ClassVar[str]

    def __init__(
        self, context: FaultContext, planned: PlannedFault, process: RunProcess, unready: str = ""
    ) -> None:
        self.context = context
        self.planned = planned
        self.effect = InjectedFault(target="")
        self.moment = ""  # says when it was injected, if the proof does not say so yet
        self._unready = unready  # the reason why the stage was not seen to write before the fault
        self._aim_at(process)

    @classmethod
    @abstractmethod
    def find(cls, context: FaultContext, planned: PlannedFault) -> Self:
        """Return the member that a fault names. If it is not suitable, return another one of its stage.

        Raises `FaultFailed` or `TargetMissing` if there is none.
        """

    @abstractmethod
    def held(self) -> AbstractContextManager[bool]:
        """Hold the member at the moment of the injection, such as a step or a state of its transaction.

        Yields whether it is held. If it is not, it runs, and the effect has the reason.
        """

    @abstractmethod
    def held_with_inputs(self, replaced: bool) -> AbstractContextManager[bool]:
        """As `held`, but with inputs that others can take over. `replaced`: whether it is then replaced."""

    @abstractmethod
    def pause(self) -> None:
        """Stop the member with SIGSTOP. It is held."""

    @abstractmethod
    def replace(self) -> RunProcess:
        """Start the next incarnation of the member, which is dead or paused, and return it."""

    @abstractmethod
    def await_others(self, replaced: bool) -> str:
        """Let others take over from the paused member, and return the proof as a sentence; "" if they did not in time.

        With `replaced`, the next incarnation is started.
        """

    @abstractmethod
    def observe(self) -> None:
        """Note the state of the paused member, so that `prove_return` can see what it does when it is resumed."""

    @abstractmethod
    def resume(self, replaced: bool) -> None:
        """Resume the member with SIGCONT. With `replaced`, another process has its name then."""

    @abstractmethod
    def prove_return(self, progress: str) -> None:
        """Wait for what the resumed member does, and add it to the effect. `progress` is what `await_others` returned.

        The effect has an unmet goal if others did not take over, or if the member did nothing.
        """

    @abstractmethod
    def await_recovery(self) -> None:
        """Wait until the cluster has recovered from what held the member. Raises `WaitTimeout`."""

    @property
    def stage(self) -> StageSpec:
        """The stage of the member."""
        return stage_of(self.context, self.process)

    def kill(self) -> None:
        """Kill the member, which is held, with SIGKILL, and add the proof. Raises `FaultFailed`."""
        self.process.expected_to_end = True
        if self.effect.injected_ns is None:
            self.effect.mark_injected()
        ending = self.process.child.kill()
        if "SIGKILL" not in ending:
            raise FaultFailed(f"{self.process.journal} was not killed by the fault: {ending}")
        self.effect.add_proof("; ".join(filter(None, (self.moment, ending))))

    def note_unready(self) -> None:
        """Add to the effect that the stage was not seen to write before the fault. Do nothing if it was."""
        if not self._unready:
            return
        unready = f"the stage was not seen to write before the fault: {self._unready}"
        self.effect.proof.append(unready)
        self.effect.unmet_goals.update(
            {goal: f"{why}; {unready}" for goal, why in self.effect.unmet_goals.items()}
        )

    def _aim_at(self, process: RunProcess) -> None:
        self.process = process
        self.effect.target = self.effect.short_target = f"{self.noun} {process.journal}"
        self.effect.details["worker"] = process.journal
