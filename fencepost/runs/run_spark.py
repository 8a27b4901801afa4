"""The Spark that checks one run: the shared one, or its own, which starts before the end of the run."""

import logging
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from checkers.spark.session import interruptible
from fencepost.checks.check_stored_runs import check_stored_run, open_evidence
from fencepost.checks.spark import LARGE_INPUTS, LARGE_WARM_UP_S, WARM_UP_S, start_early
from fencepost.sharing.client import ServerRefused
from fencepost.sharing.spark import SparkParts, SparkRequest, shared_spark
from harness.common.errors import FencepostError
from harness.environment.java import Java
from harness.results.verdict import EXAMPLES, Verdict
from harness.settings.options import Options

if TYPE_CHECKING:
    from checkers.spark.session import StartingSpark

log = logging.getLogger(__name__)

LEAST_S = 12.0
"""Minimum seconds from the start of Spark to the time limit."""
WAIT = "wait for Spark"


class RunSpark:
    """Uses the shared Spark if the environment names one and the run is small. Otherwise the run starts its own."""

    def __init__(self, options: Options, stack: ExitStack) -> None:
        self._options, self._stack = options, stack
        self._shared = None if is_large(options) else shared_spark()
        self._java: Java | None = None
        self._own: StartingSpark | None = None

    def lead_s(self) -> float:
        """Seconds before the time limit at which to call `start`: the warm-up time, or half of a shorter run."""
        warm_up_s = LARGE_WARM_UP_S if is_large(self._options) else WARM_UP_S
        return min(warm_up_s, max(self._options.time_limit_s / 2, LEAST_S))

    def start(self, java: Java) -> None:
        """Start Spark in the background. The run's own Spark ends with the exit stack."""
        self._java = java
        if self._shared is not None:
            try:
                self._shared.start(self._parts(java))
                return
            except ServerRefused as error:
                log.info("this run starts its own Spark: %s", error)
                self._shared = None
        self._own = self._start_own(java)

    def check(self, folder: Path, phase: Callable[[str], None], examples: int = EXAMPLES) -> Verdict:
        """Check the run and decide its verdict. `phase` gets the name of each step. Raises `FencepostError`."""
        assert self._java is not None, "`start` must be called before `check`"
        phase(WAIT)
        if self._shared is not None:
            request = SparkRequest(self._parts(self._java), [str(folder.absolute())], examples=examples)
            try:
                (result,) = self._shared.check(request, phase)
            except ServerRefused as error:
                log.warning("the shared Spark failed, so this run starts its own: %s", error)
            else:
                if isinstance(result, FencepostError):
                    raise result
                return structs.replace(result, history=str(folder))
        own = self._own or self._start_own(self._java)
        with interruptible(own):
            return check_stored_run(own.session(), open_evidence(str(folder), folder), phase, examples)

    def _start_own(self, java: Java) -> "StartingSpark":
        options = self._options
        pending = start_early(java, options.master, options.spark_conf, _inputs(options))
        self._stack.callback(pending.close)
        return pending

    def _parts(self, java: Java) -> SparkParts:
        return SparkParts(str(java.home), self._options.master, self._options.spark_conf)


def is_large(options: Options) -> bool:
    """Return True if a run with these options has a large history."""
    return _inputs(options) > LARGE_INPUTS


def _inputs(options: Options) -> float:
    return options.rate * options.time_limit_s
