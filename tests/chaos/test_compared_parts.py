"""A program that writes outputs with a wrong header, time stamp or partition: found if `compare` names that part."""

import shutil
from pathlib import Path

import pytest

import fencepost

BILLING = Path(__file__).resolve().parents[2] / "examples" / "billing"
RIGHT = {
    "headers": '{"type": "invoice", "of": message.key()}',
    "timestamp": "message.timestamp()[1]",
    "partition": "message.partition()",
}
WRONG = {
    "headers": '{"type": "shipment", "of": message.key()}',
    "timestamp": "message.timestamp()[1] + 1",
    "partition": "(message.partition() + 1) % 6",
}
EXPECT = """

def parts(topic, key, value, headers, timestamp_ms, partition):
    invoice, shipment = outputs(topic, key, value, headers)
    topic, key, value = invoice
    compared = {"headers": {"of": key, "type": "invoice"}, "timestamp_ms": timestamp_ms, "partition": partition}
    return [{"topic": topic, "key": key, "value": value, **compared}, shipment]
"""


def run(folder: Path, arguments: dict[str, str]) -> fencepost.Result:
    shutil.copytree(BILLING, folder / "billing")
    file = folder / "billing" / "pipeline.toml"
    file.write_text(
        file.read_text()
        .replace("expect.py:outputs", "expect.py:parts")
        .replace("[expect]", '[expect]\ncompare.invoices = ["headers", "timestamp_ms", "partition"]')
    )
    with (folder / "billing" / "expect.py").open("a") as expect:
        expect.write(EXPECT)
    program = folder / "billing" / "billing.py"
    sent = "json.dumps(invoice), message.key()"
    given = ", ".join(f"{name}={value}" for name, value in arguments.items())
    assert sent in program.read_text()
    program.write_text(program.read_text().replace(sent, f"{sent}, {given}"))
    return fencepost.run(
        pipeline=str(file), nemesis="none", time_limit=6, rate=50, seed=1, store=str(folder / "store")
    )


pytestmark = pytest.mark.usefixtures("python_of_examples")


def test_outputs_with_the_expected_parts_are_valid(tmp_path: Path) -> None:
    run(tmp_path, RIGHT).assert_valid()


@pytest.mark.parametrize("part", WRONG)
def test_an_output_with_a_wrong_part_is_corrupt(part: str, tmp_path: Path) -> None:
    result = run(tmp_path, RIGHT | {part: WRONG[part]})
    assert result.anomalies == {"corrupt"}, result.explain()
    sentence = result.verdict["anomalies"]["corrupt"]["sentences"][0]
    assert "it holds " in sentence and "timestamp_ms 1" in sentence, sentence
