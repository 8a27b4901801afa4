"""Who judges a run: its own Spark, begun while its last seconds pass, or the shared judge."""

import logging
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from checkers.spark.interrupts import interruptible
from fencepost.judges.client import Client, Refused, shared_client
from fencepost.judges.protocol import Request
from fencepost.judging import judge_one, open_evidence
from fencepost.spark import LARGE_INPUTS, begin_early, remember_warm_up, warm_up_s
from harness.errors import FencepostError
from harness.settings.options import Options
from harness.verdict import Verdict

if TYPE_CHECKING:
    from checkers.spark.session import Pending
    from harness.environment import Prepared
    from harness.environment.java import Java

log = logging.getLogger(__name__)

LEAST_S = 12.0
"""Before the time limit, Spark is begun at the latest."""
WAIT = "wait for Spark"


class Judge(Protocol):
    """What judges a run, and is begun before the run is over."""

    def by_s(self, prepared: "Prepared") -> float:
        """How long before the time limit it is begun."""
        ...

    def begin(self, prepared: "Prepared") -> None:
        """Have it come up."""
        ...

    def judge(self, folder: Path, phase: Callable[[str], None]) -> Verdict:
        """The verdict on what a run left; `phase` is told what begins. Raises `FencepostError`."""
        ...


class OwnJudge:
    """A Spark of the run's own, which ends with it."""

    def __init__(self, options: Options, stack: ExitStack) -> None:
        self._options = options
        self._stack = stack
        self._begun: tuple[Java, Pending] | None = None

    def by_s(self, prepared: "Prepared") -> float:
        """As long as the last one took, and half a run at most."""
        took_s = warm_up_s(prepared.java, large=is_large(self._options))
        return min(took_s, max(self._options.time_limit_s / 2, LEAST_S))

    def begin(self, prepared: "Prepared") -> None:
        """Start it; it ends with the stack."""
        options = self._options
        pending = begin_early(prepared.java, options.master, options.spark_conf, _inputs(options))
        self._stack.callback(pending.close)
        self._begun = prepared.java, pending

    def judge(self, folder: Path, phase: Callable[[str], None]) -> Verdict:
        """In the session that was begun."""
        assert self._begun is not None, "no run has come near its end"
        found, pending = self._begun
        phase(WAIT)
        with interruptible(pending):
            verdict = judge_one(pending.session(), open_evidence(str(folder), folder), phase)
        remember_warm_up(found, pending, large=is_large(self._options))
        return verdict


class JudgedLater:
    """None: the run is judged with others, once all are over."""

    def by_s(self, prepared: "Prepared") -> float:
        """Nothing is begun."""
        return 0.0

    def begin(self, prepared: "Prepared") -> None:
        """Nothing."""

    def judge(self, folder: Path, phase: Callable[[str], None]) -> Verdict:
        """There is nobody to ask."""
        raise AssertionError(f"{folder} is to be judged with others")


class SharedJudge:
    """The one that is there already; `own` instead, if that one refuses."""

    def __init__(self, shared: Client, options: Options, own: OwnJudge) -> None:
        self._shared = shared
        self._options = options
        self._own = own
        self._prepared: Prepared | None = None

    def by_s(self, prepared: "Prepared") -> float:
        """The first that asks waits for it to come up."""
        return self._own.by_s(prepared)

    def begin(self, prepared: "Prepared") -> None:
        """Ask whether it will."""
        try:
            self._shared.get_ready(self._request(prepared))
        except Refused as error:
            log.info("this run starts a Spark of its own: %s", error)
            self._own.begin(prepared)
        else:
            self._prepared = prepared

    def judge(self, folder: Path, phase: Callable[[str], None]) -> Verdict:
        """Its answer."""
        if self._prepared is None:
            return self._own.judge(folder, phase)
        phase(WAIT)
        try:
            (answer,) = self._shared.judge(self._request(self._prepared, folder), phase)
        except Refused as error:
            log.warning("this run starts a Spark of its own after all: %s", error)
            self._own.begin(self._prepared)
            return self._own.judge(folder, phase)
        if isinstance(answer, FencepostError):
            raise answer
        return answer

    def _request(self, prepared: "Prepared", *folders: Path) -> Request:
        named = ((str(folder), folder) for folder in folders)
        return Request.of(prepared.java, self._options.master, self._options.spark_conf, named)


def judge_for(options: Options, stack: ExitStack) -> Judge:
    """The judge of a run with these options; what it starts ends with the stack."""
    own = OwnJudge(options, stack)
    shared = None if is_large(options) else shared_client()
    return SharedJudge(shared, options, own) if shared else own


def is_large(options: Options) -> bool:
    """Whether a run with these options leaves a large history."""
    return _inputs(options) > LARGE_INPUTS


def _inputs(options: Options) -> float:
    """How many inputs the run is fed."""
    return options.rate * options.time_limit_s
