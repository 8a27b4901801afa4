"""A pipeline that is described in Python is saved as an equal pipeline.toml."""

import sys
from pathlib import Path
from random import Random

import pytest

from fencepost.api_types import Pipeline, Stage
from harness.common.documents import parse_toml
from workloads.custom.read import read


def purchase(rng: Random, n: int) -> tuple[str, str]:
    return "k", str(n)


def outputs(topic: str, key: bytes, value: bytes, headers: object) -> list[tuple[str, bytes, bytes]]:
    return [("invoices", key, value)]


STAGE = Stage(
    "bill", ["purchases", "refunds"], ["invoices"], ["./billing", "{bootstrap}"], group="g", env={"A": "1"}
)
INPUTS = {"purchases": purchase, "refunds": purchase}


def test_a_saved_pipeline_is_read_back_completely(tmp_path: Path) -> None:
    pipeline = Pipeline(
        "billing",
        [STAGE],
        INPUTS,
        shares={"refunds": 0.1},
        partitioners={"refunds": "consistent_random"},
        outputs=outputs,
        correlate="key",
        final=["invoices"],
        topics={"invoices": {"partitions": 2}},
    )
    described = read(pipeline.save(tmp_path / "pipelines"))
    (stage,) = described.stages
    assert (described.name, stage.command, stage.group) == ("billing", ("./billing", "{bootstrap}"), "g")
    assert stage.env == {"A": "1"} and stage.cwd == str(Path.cwd())
    assert described.expect is not None and described.expect.correlate == "key"
    assert described.expect.outputs is not None and described.expect.outputs.name == "outputs"
    assert described.inputs["purchases"].make is not None
    assert [described.inputs[topic].share for topic in ("purchases", "refunds")] == [1.0, 0.1]
    partitioners = [described.inputs[topic].partitioner for topic in ("purchases", "refunds")]
    assert partitioners == ["murmur2_random", "consistent_random"]
    assert described.topics["invoices"].partitions == 2
    assert described.expect.final == ("invoices",)
    assert {function.file for function in described.functions} == {Path(__file__)}


def total(state: int, topic: str, key: bytes, value: bytes) -> tuple[int, list[tuple[str, bytes, bytes]]]:
    return state, [("invoices", key, value)]


def test_the_key_of_a_fold_and_the_compared_parts_are_saved(tmp_path: Path) -> None:
    pipeline = Pipeline(
        "p", [STAGE], INPUTS, fold=total, fold_key=purchase, compare={"invoices": ["headers"]}
    )
    expect = read(pipeline.save(tmp_path)).expect
    assert expect is not None and expect.fold_key is not None and expect.fold_key.name == "purchase"
    assert expect.compare == {"invoices": ("headers",)}


def test_equal_pipelines_have_the_same_file(tmp_path: Path) -> None:
    first, second = (Pipeline("p", [STAGE], INPUTS).save(tmp_path) for _ in range(2))
    other = Pipeline("p", [STAGE], INPUTS, guarantee="at-least-once").save(tmp_path)
    assert first == second != other
    assert "expect" not in parse_toml(first.read_text())


def test_a_function_that_is_not_at_the_top_level_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at the top level of a module"):
        Pipeline("p", [STAGE], {"purchases": lambda rng, n: ("k", "v")}).toml()


def test_a_share_or_a_partitioner_of_an_unknown_input_is_refused() -> None:
    with pytest.raises(ValueError, match="shares: purchase is not in inputs"):
        Pipeline("p", [STAGE], INPUTS, shares={"purchase": 2}).toml()
    with pytest.raises(ValueError, match="partitioners: purchase is not in inputs"):
        Pipeline("p", [STAGE], INPUTS, partitioners={"purchase": "random"}).toml()


def test_without_tomli_w_the_error_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "tomli_w", None)
    with pytest.raises(ImportError, match=r"needs the package tomli-w: run `pip install tomli-w`, or name"):
        Pipeline("billing", [STAGE], INPUTS).toml()
