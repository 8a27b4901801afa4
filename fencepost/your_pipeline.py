"""A pipeline of one's own, said in Python: it becomes the same file that `fencepost init` writes."""

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Function = Callable[..., Any]
"""At the top of a module: it is loaded from there by the processes that need it."""


@dataclass(frozen=True)
class Stage:
    """One program of the pipeline: see docs/your-pipeline.md for the meaning of each field."""

    name: str
    reads: Sequence[str]
    writes: Sequence[str]
    command: Sequence[str]
    group: str | None = None
    instances: int = 3
    transactional_id: str | None = None
    transactions: bool = True
    transaction_timeout_s: float = 60.0
    ordered: bool = False
    idle_s: float = 15.0
    ready: str | None = None
    ready_within_s: float = 60.0
    stop: str = "SIGTERM"
    stop_within_s: float = 30.0
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | Path = "."  # relative to the folder that the test runs in


@dataclass(frozen=True)
class Pipeline:
    """All of them, what goes in, and what must come out.

    `inputs`: by topic, a function (rng, n) -> (key, value), or the path of a file of JSON lines; `shares`: by topic,
    its part of the rate, 1.0 unless you say otherwise. `outputs`: (topic, key, value, headers) -> [(topic, key,
    value), ...]; or `fold`: (state, topic, key, value) -> (state, [...]), by key.
    """

    name: str
    stages: Sequence[Stage]
    inputs: Mapping[str, Function | str | Path]
    shares: Mapping[str, float] = field(default_factory=dict)
    outputs: Function | None = None
    fold: Function | None = None
    correlate: str | Function = "content"
    ignore: Sequence[str] = ()
    final: Sequence[str] = ()  # topics in which the last record of each key is judged, and no other
    guarantee: str = "exactly-once"
    topics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def toml(self) -> str:
        """The file. Raises ValueError for a function that no other process could load, or a share of no input, and
        ImportError where the package tomli-w is missing.
        """
        if strange := sorted(set(self.shares) - set(self.inputs)):
            raise ValueError(f"shares: {', '.join(strange)} is not in inputs")
        expect: dict[str, Any] = {}
        if self.outputs is not None or self.fold is not None:
            named = {"outputs": self.outputs, "fold": self.fold}
            expect = {key: _place(function) for key, function in named.items() if function is not None}
            expect["correlate"] = (
                self.correlate if isinstance(self.correlate, str) else _place(self.correlate)
            )
            expect |= {"ignore": list(self.ignore), "final": list(self.final)}
        inputs = {
            topic: {
                **({"make": _place(one)} if callable(one) else {"file": str(Path(one).absolute())}),
                "share": float(self.shares.get(topic, 1.0)),
            }
            for topic, one in self.inputs.items()
        }
        document = {
            "name": self.name,
            "guarantee": self.guarantee,
            "stage": [_stage(stage) for stage in self.stages],
            **({"expect": expect} if expect else {}),
            "inputs": inputs,
            "topics": {name: dict(body) for name, body in self.topics.items()},
        }
        return _as_toml(document)

    def save(self, folder: Path) -> Path:
        """Write it into a folder, under a name that is the same for the same pipeline; returns the file."""
        text = self.toml()
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{self.name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}.toml"
        file.write_text(text, encoding="utf-8")
        return file


def _as_toml(document: Mapping[str, Any]) -> str:
    """The text. The package is asked for only here: a plugin without its dependencies needs it for nothing else."""
    try:
        import tomli_w
    except ModuleNotFoundError as missing:
        raise ImportError(
            "fencepost.Pipeline needs the package tomli-w beside the plugin: pip install tomli-w, or name a "
            "pipeline.toml with pipeline=FILE"
        ) from missing
    return tomli_w.dumps(document)


def _stage(stage: Stage) -> dict[str, Any]:
    body = {key: value for key, value in vars(stage).items() if value is not None}
    lists = {key: list(body[key]) for key in ("reads", "writes", "command")}
    return {**body, **lists, "env": dict(stage.env), "cwd": str(Path(stage.cwd).absolute())}


def _place(function: Function) -> str:
    """`FILE.py:NAME`. Raises ValueError for what no other process could load."""
    function = inspect.unwrap(function)  # of what a decorator made of it the file is the decorator's
    code, name = getattr(function, "__code__", None), getattr(function, "__qualname__", "")
    if code is None or not name.isidentifier():
        raise ValueError(
            f"{function!r} must be a function at the top of a module: other processes load it from there"
        )
    return f"{Path(code.co_filename).absolute()}:{name}"
