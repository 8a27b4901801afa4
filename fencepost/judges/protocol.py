"""What is said between a shared judge and those who ask it: a line of JSON each.

Asked: a `Request`. Answered: any number of `{"phase": ...}`, then `{"answers": [...]}`, each a verdict or an error;
or `{"refused": why}`, and whoever asked judges for himself.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness import errors
from harness.environment.java import Java
from harness.errors import EnvironmentFailure, FencepostError
from harness.verdict import Verdict


@dataclass(frozen=True)
class Spark:
    """What must be the same for two who share a Spark."""

    java_home: str
    master: str
    conf: Mapping[str, str]
    house: str = str(Path(__file__).resolve().parents[2])
    """Where the checkers are: another installation has others."""


@dataclass(frozen=True)
class Request:
    """To judge these stored runs, in this order; without runs, to come up and be ready."""

    spark: Spark
    runs: tuple[tuple[str, str], ...] = ()  # each as it was named, and its folder
    allow: tuple[str, ...] = field(default=())

    @classmethod
    def of(
        cls,
        java: Java,
        master: str,
        conf: Mapping[str, str],
        runs: Iterable[tuple[str, Path]] = (),
        allow: Iterable[str] = (),
    ) -> "Request":
        """A request; `runs`: each as it was named, and its folder."""
        named = tuple((name, str(folder.absolute())) for name, folder in runs)
        return cls(Spark(str(java.home), master, dict(conf)), named, tuple(sorted(allow)))

    def as_json(self) -> dict[str, Any]:
        """The line."""
        return asdict(self)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "Request":
        """The inverse of `as_json`."""
        runs = tuple((name, folder) for name, folder in body["runs"])
        return cls(Spark(**body["spark"]), runs, tuple(body["allow"]))


def answer_as_json(answer: Verdict | FencepostError) -> dict[str, Any]:
    """A verdict or an error."""
    if isinstance(answer, Verdict):
        return {"verdict": answer.as_json()}
    return {"error": type(answer).__name__, "text": str(answer)}


def answer_from_json(body: Mapping[str, Any]) -> Verdict | FencepostError:
    """The inverse of `answer_as_json`; an error of a kind that cannot be made of a text becomes the plain one."""
    if "verdict" in body:
        return Verdict.from_json(body["verdict"])
    kind = getattr(errors, body["error"], EnvironmentFailure)
    try:
        made = kind(body["text"])
    except TypeError:
        made = EnvironmentFailure(body["text"])
    assert isinstance(made, FencepostError)
    return made


LONGEST_NAME = 100
"""Bytes in the name of a socket. macOS takes 103, Linux 107."""


@contextmanager
def short_name(path: Path) -> Iterator[str]:
    """A name of the socket that is short enough. Of a longer path, the name goes through `/proc`, as only Linux has."""
    if len(os.fsencode(path)) <= LONGEST_NAME:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
