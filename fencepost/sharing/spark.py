"""The client of the shared Spark: its requests and results."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from fencepost.sharing.client import send_request
from fencepost.sharing.process import SERVER_VARIABLE
from harness.common import errors
from harness.common.documents import decode, encode
from harness.common.errors import EnvironmentFailure, FencepostError
from harness.results.verdict import EXAMPLES, Verdict

START_TIMEOUT_S = 5.0
"""Short, because a run starts Spark while it also watches its faults."""
INSTALLATION = str(Path(__file__).resolve().parents[2])


class SparkParts(Struct, frozen=True):
    """The settings of the shared Spark. Only clients with equal settings can share it."""

    java_home: str
    master: str
    conf: Mapping[str, str]
    installation: str = INSTALLATION  # another installation may have other checkers


class SparkRequest(Struct, frozen=True):
    """Check these stored runs, in this order. Without runs, only start Spark."""

    parts: SparkParts
    runs: Sequence[str] = ()  # absolute paths of folders; each verdict has its path as `history`
    allow: Sequence[str] = ()  # anomalies that do not make a run invalid
    examples: int = EXAMPLES  # of each anomaly


class SharedSpark:
    """The Spark of the server with this socket. If a method raises `ServerRefused`, the caller starts its own Spark."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def start(self, parts: SparkParts) -> None:
        """Start Spark if it has not started. Returns before Spark is ready."""
        send_request(self._path, {"spark": encode(SparkRequest(parts))}, lambda name: None, START_TIMEOUT_S)

    def check(self, request: SparkRequest, phase: Callable[[str], None]) -> list[Verdict | FencepostError]:
        """Check the runs and decide their verdicts. If a run has no verdict, its result is the error."""
        answer = send_request(self._path, {"spark": encode(request)}, phase)
        return [result_from_json(body) for body in answer["results"]]


def shared_spark() -> SharedSpark | None:
    """The shared Spark that the environment names. None if there is none."""
    path = os.environ.get(SERVER_VARIABLE)
    return SharedSpark(Path(path)) if path else None


def result_as_json(result: Verdict | FencepostError) -> dict[str, Any]:
    """Encode a verdict or an error."""
    if isinstance(result, Verdict):
        return {"verdict": encode(result)}
    return {"error": type(result).__name__, "text": str(result)}


def result_from_json(body: Mapping[str, Any]) -> Verdict | FencepostError:
    """The inverse of `result_as_json`. An error class that takes more than a text becomes `EnvironmentFailure`."""
    if "verdict" in body:
        return decode(body["verdict"], Verdict)
    kind = getattr(errors, body["error"], EnvironmentFailure)
    try:
        error = kind(body["text"])
    except TypeError:
        error = EnvironmentFailure(body["text"])
    assert isinstance(error, FencepostError)
    return error
