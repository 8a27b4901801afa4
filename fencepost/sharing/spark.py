"""The shared Spark, as its clients see it, and what a request for it and its answer hold."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fencepost.sharing.client import send_request
from fencepost.sharing.process import SERVER_VARIABLE
from harness.common import errors
from harness.common.errors import EnvironmentFailure, FencepostError
from harness.results.verdict import Verdict

START_TIMEOUT_S = 5.0
"""A run asks for Spark while it watches its faults: it cannot wait long."""
INSTALLATION = str(Path(__file__).resolve().parents[2])


@dataclass(frozen=True)
class SparkParts:
    """What must be equal for two clients that share a Spark."""

    java_home: str
    master: str
    conf: Mapping[str, str]
    installation: str = INSTALLATION  # the checkers of another one may differ


@dataclass(frozen=True)
class SparkRequest:
    """Decide these stored runs, in this order. Without runs: start Spark."""

    parts: SparkParts
    runs: Sequence[str] = ()  # absolute paths of their folders, which their verdicts have as `history`
    allow: Sequence[str] = ()  # anomalies that make no run invalid

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "SparkRequest":
        """The inverse of `dataclasses.asdict`."""
        return cls(SparkParts(**body["parts"]), list(body["runs"]), list(body["allow"]))


class SharedSpark:
    """The Spark of the server with this socket. Where a method raises `ServerRefused`, the caller starts its own
    Spark.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def start(self, parts: SparkParts) -> None:
        """Let Spark start, if it has not. Returns before Spark is ready."""
        send_request(self._path, {"spark": asdict(SparkRequest(parts))}, lambda name: None, START_TIMEOUT_S)

    def decide(self, request: SparkRequest, phase: Callable[[str], None]) -> list[Verdict | FencepostError]:
        """For each run its verdict, or why it has none."""
        answer = send_request(self._path, {"spark": asdict(request)}, phase)
        return [result_from_json(one) for one in answer["results"]]


def shared_spark() -> SharedSpark | None:
    """The shared Spark that the environment names."""
    named = os.environ.get(SERVER_VARIABLE)
    return SharedSpark(Path(named)) if named else None


def result_as_json(result: Verdict | FencepostError) -> dict[str, Any]:
    """A verdict or an error."""
    if isinstance(result, Verdict):
        return {"verdict": result.as_json()}
    return {"error": type(result).__name__, "text": str(result)}


def result_from_json(body: Mapping[str, Any]) -> Verdict | FencepostError:
    """The inverse of `result_as_json`. An error class that takes more than a text becomes `EnvironmentFailure`."""
    if "verdict" in body:
        return Verdict.from_json(body["verdict"])
    kind = getattr(errors, body["error"], EnvironmentFailure)
    try:
        made = kind(body["text"])
    except TypeError:
        made = EnvironmentFailure(body["text"])
    assert isinstance(made, FencepostError)
    return made
