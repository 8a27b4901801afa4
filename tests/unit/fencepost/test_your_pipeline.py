"""A pipeline that is said in Python is the file that it would be."""

import sys
import tomllib
from pathlib import Path
from random import Random

import pytest

from fencepost import Pipeline, Stage
from workloads.custom.read import read


def purchase(rng: Random, n: int) -> tuple[str, str]:
    return "k", str(n)


def outputs(topic: str, key: bytes, value: bytes, headers: object) -> list[tuple[str, bytes, bytes]]:
    return [("invoices", key, value)]


STAGE = Stage(
    "bill", ["purchases", "refunds"], ["invoices"], ["./billing", "{bootstrap}"], group="g", env={"A": "1"}
)
INPUTS = {"purchases": purchase, "refunds": purchase}


def test_what_was_said_is_what_is_read(tmp_path: Path) -> None:
    said = Pipeline(
        "billing",
        [STAGE],
        INPUTS,
        shares={"refunds": 0.1},
        outputs=outputs,
        correlate="key",
        final=["invoices"],
        topics={"invoices": {"partitions": 2}},
    )
    described = read(said.save(tmp_path / "pipelines"))
    (stage,) = described.stages
    assert (described.name, stage.command, stage.group) == ("billing", ("./billing", "{bootstrap}"), "g")
    assert stage.env == {"A": "1"} and stage.cwd == str(Path.cwd())
    assert described.expect is not None and described.expect.correlate == "key"
    assert described.expect.outputs is not None and described.expect.outputs.name == "outputs"
    assert described.inputs["purchases"].make is not None
    assert [described.inputs[topic].share for topic in ("purchases", "refunds")] == [1.0, 0.1]
    assert described.topics["invoices"].partitions == 2
    assert described.expect.final == ("invoices",)
    assert {function.file for function in described.functions} == {Path(__file__)}


def test_the_same_pipeline_has_the_same_file(tmp_path: Path) -> None:
    one, same = (Pipeline("p", [STAGE], INPUTS).save(tmp_path) for _ in range(2))
    other = Pipeline("p", [STAGE], INPUTS, guarantee="at-least-once").save(tmp_path)
    assert one == same != other
    assert "expect" not in tomllib.loads(one.read_text())


def test_a_function_that_no_other_process_could_load_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at the top level of a module"):
        Pipeline("p", [STAGE], {"purchases": lambda rng, n: ("k", "v")}).toml()


def test_a_share_of_no_input_is_refused() -> None:
    with pytest.raises(ValueError, match="shares: purchase is not in inputs"):
        Pipeline("p", [STAGE], INPUTS, shares={"purchase": 2}).toml()


def test_without_the_package_that_writes_it_the_sentence_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "tomli_w", None)
    with pytest.raises(ImportError, match=r"needs the package tomli-w: run `pip install tomli-w`, or name"):
        Pipeline("billing", [STAGE], INPUTS).toml()
