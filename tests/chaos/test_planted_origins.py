"""Verdicts say whether the faults, the program or the test is wrong: a defect of each kind is planted and found."""

import shutil
from pathlib import Path
from typing import Any

import pytest

import fencepost

BILLING = Path(__file__).resolve().parents[2] / "examples" / "billing"
FIRST_LOOP = "        for message in batch:\n            purchase ="
CUT_LOOP = FIRST_LOOP.replace("batch:", "batch[: max(1, len(batch) - len(batch) % 2)]:")
TAKE = "    if not batch:\n"
TAKE_LITTLE_OF_2 = (
    "    batch = [message for message in batch if message.partition() != 2 or message.offset() < 15]\n" + TAKE
)
AMOUNT = '"amount": purchase["pieces"] * purchase["price"]'
DISCOUNT = AMOUNT + ' * (0.5 if purchase["pieces"] >= 8 else 1)'


pytestmark = pytest.mark.usefixtures("python_of_examples")


def planted(folder: Path, file: str, **changes: tuple[str, str]) -> Path:
    """Copy the example, change its files, and return its pipeline `file`. By file without `.py`: what becomes what."""
    own = folder / "billing"
    shutil.copytree(BILLING, own)
    for name, (old, new) in changes.items():
        program = own / f"{name}.py"
        text = program.read_text()
        assert text.count(old) == 1, f"{program} has {old!r} {text.count(old)} times"
        program.write_text(text.replace(old, new))
    return own / file


def run(folder: Path, pipeline: Path) -> fencepost.Result:
    return fencepost.run(
        pipeline=str(pipeline), nemesis="kill-instance", time_limit=30, seed=6, store=str(folder / "store")
    )


def origin(result: fencepost.Result, anomaly: str) -> dict[str, Any]:
    assert anomaly in result.anomalies, result.explain()
    found: dict[str, Any] = result.verdict["anomalies"][anomaly]["origin"]
    return found


def contrasts(result: fencepost.Result, anomaly: str) -> str:
    return "; ".join(
        each["sentence"] for each in result.verdict["anomalies"][anomaly]["affected"]["contrasts"]
    )


def test_a_program_that_is_wrong_without_faults(tmp_path: Path) -> None:
    """It bills an even number of the purchases of a batch, and commits the offsets of all."""
    result = run(tmp_path, planted(tmp_path, "pipeline.toml", billing=(FIRST_LOOP, CUT_LOOP)))
    assert origin(result, "lost-input")["kind"] == "program", result.explain()
    assert "are the last input of a commit" in contrasts(result, "lost-input")


def test_a_program_that_is_wrong_only_after_kills(tmp_path: Path) -> None:
    """It commits offsets every five seconds, so its successor processes again what came since."""
    result = run(tmp_path, planted(tmp_path, "auto-commit.toml"))
    assert origin(result, "reprocessed-input")["kind"] == "fault", result.explain()


def test_an_expectation_that_is_wrong(tmp_path: Path) -> None:
    """It discounts eight pieces and more. Nothing shows that the program is right, so the two disagree."""
    result = run(tmp_path, planted(tmp_path, "pipeline.toml", expect=(AMOUNT, DISCOUNT)))
    assert origin(result, "corrupt")["kind"] == "program or test", result.explain()
    assert "whose `pieces` is 8 or more" in contrasts(result, "corrupt")


def test_a_partition_that_stops(tmp_path: Path) -> None:
    """Nobody processes purchases/2 from offset 15 on. The outputs may only be late, so this is not decided."""
    result = run(tmp_path, planted(tmp_path, "pipeline.toml", billing=(TAKE, TAKE_LITTLE_OF_2)))
    assert result.valid is None, result.explain()
    undecided = {row["check"]: row for row in result.verdict["not_decided"]}
    assert set(undecided["lost-input"]["partitions"]) == {"purchases/2"}
    assert "undecided inputs are in purchases/2" in undecided["lost-input"]["contrasts"][0]["sentence"]
    (standstill,) = undecided["stalled"]["sentences"]
    assert "billing in purchases/2: " in standstill and "in its other partitions until" in standstill


def test_redelivery_that_the_guarantee_permits(tmp_path: Path) -> None:
    """The program commits offsets after its outputs. At least once permits that, so nothing has to be explained."""
    file = planted(tmp_path, "offsets-after.toml")
    text = file.read_text()
    assert 'guarantee = "exactly-once"' in text
    file.write_text(text.replace('guarantee = "exactly-once"', 'guarantee = "at-least-once"'))
    result = run(tmp_path, file)
    assert result.valid is True, result.explain()
    found = result.verdict["anomalies"]
    assert found["offset-output-mismatch"]["allowed"]
    assert all(each["allowed"] and each.get("origin") is None for each in found.values())
