"""A program that is a client: what its answers mean, and what is said about a program that is wrong."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.clients import driver as module
from harness.clients.driver import Driver, DriverClient, DriverProducer
from harness.clients.interface import ClientError, ErrorMeaning, PartitionOffset, ProducerSettings
from harness.common.errors import UsageError

GOOD = """
import json, sys
log = open("log", "a")
for line in sys.stdin:
    command = json.loads(line)
    log.write(line)
    log.flush()
    answer = {"ok": True}
    if command["do"] == "init":
        answer["version"] = "1.0"
    if command["do"] == "send":
        answer["offsets"] = [7 + n for n, _ in enumerate(command["records"])]
    if command["do"] == "commit":
        answer = {"error": "fenced by another", "meaning": "fenced"}
    print(json.dumps(answer), flush=True)
"""
ANSWERS = "import sys\nfor line in sys.stdin: print({answer!r}, flush=True)"


@pytest.fixture
def producer(tmp_path: Path) -> Callable[[str], DriverProducer]:
    """A function that returns a producer of the client whose program has this source."""

    def with_program(source: str) -> DriverProducer:
        (tmp_path / "program.py").write_text(source, encoding="utf-8")
        (tmp_path / "driver.toml").write_text(
            f'name = "x"\nversion = "1.0"\ncommand = ["{sys.executable}", "program.py"]\n', encoding="utf-8"
        )
        return DriverClient(tmp_path).producer(ProducerSettings("b:1", topics=("first",)), "tasks-3")

    return with_program


@pytest.mark.processes
def test_a_transaction_is_a_line_for_each_step(
    producer: Callable[[str], DriverProducer], tmp_path: Path
) -> None:
    own = producer(GOOD)
    acks: list[tuple[int | None, int | None, str | None]] = []
    own.init(5.0)
    own.begin()
    for key in (b"a", b"b"):
        own.send("first", key, b"v", [("h", b"x")], lambda *ack: acks.append(ack), partition=3)
    assert own.flush(5.0) == 0 and acks == [(3, 7, None), (3, 8, None)]
    own.send_offsets([PartitionOffset("tasks", 3, 1, "op")], "group", 5.0)
    with pytest.raises(ClientError, match="fenced by another") as error:
        own.commit(5.0)
    assert error.value.meaning is ErrorMeaning.FENCED
    own.discard()  # its transaction is open, so the program is killed
    own.init(5.0)
    own.abort(5.0)
    own.discard()
    said = [json.loads(line) for line in (tmp_path / "log").read_text(encoding="utf-8").splitlines()]
    assert [line["do"] for line in said] == ["init", "begin", "send", "offsets", "commit", "init", "abort"]
    assert said[0]["transactional_id"] == "tasks-3" and said[0]["topics"] == ["first"]
    record = {"topic": "first", "partition": 3, "key": "a", "value": "v", "headers": [["h", "x"]]}
    assert said[2]["records"][0] == record
    assert said[3]["offsets"] == [{"topic": "tasks", "partition": 3, "offset": 1, "metadata": "op"}]


@pytest.mark.processes
@pytest.mark.parametrize(
    ("source", "message"),
    [
        (ANSWERS.format(answer="what"), "the program of x answered init with what: JSON is malformed"),
        (ANSWERS.format(answer="{}"), 'answered init with neither "ok": true nor an "error"'),
        (ANSWERS.format(answer='{"ok": true}'), 'answered init with version "", and driver.toml says "1.0"'),
        (
            'import sys\nfor line in sys.stdin: print(\'{"ok": true, "version": "1.0"}\\n{}\', flush=True)',
            "answered begin with more than one line",
        ),
        (
            "input(); print('x' * 2_000_000, flush=True)",
            "answered init with a line of more than 1,000,000 bytes",
        ),
        ("raise SystemExit(3)", "the program of x ended with status 3 before its first answer"),
        ("import time; time.sleep(60)", "did not answer its first command within 1 s"),
        (
            ANSWERS.format(answer='{"error": "x", "meaning": "bad luck"}'),
            "answered init with .*Invalid enum value 'bad luck'",
        ),
    ],
)
def test_a_program_that_is_no_driver_is_reported_in_a_sentence(
    producer: Callable[[str], DriverProducer], source: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_ANSWER_S", 1.0)
    own = producer(source)
    with pytest.raises(UsageError, match=message):
        own.init(5.0)
        own.begin()


@pytest.mark.processes
def test_a_program_that_ends_later_is_a_client_that_has_failed(
    producer: Callable[[str], DriverProducer],
) -> None:
    own = producer(GOOD.replace('command["do"] == "commit"', 'command["do"] == "begin" and sys.exit(9)'))
    own.init(5.0)
    with pytest.raises(ClientError, match="ended with status 9") as error:
        own.begin()
    assert error.value.meaning is ErrorMeaning.FATAL
    own.discard()
    own.init(5.0)  # another program begins


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"command": '["./missing"]', "build": '"make"'},
            r"the command ./missing does not exist; run `cd \S+ && make`",
        ),
        ({"command": "[]"}, "command"),
        ({"name": '"Kafka JS"'}, "name must be up to 64 small letters"),
        ({"name": '"java"'}, "name must be .*not librdkafka or java"),
        ({"lacks": '["commit"]'}, "lacks"),
        ({"colour": '"red"'}, 'has an unknown key: .*"colour"'),
    ],
)
def test_a_wrong_driver_toml_is_reported_in_a_sentence(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    table = {"name": '"x"', "version": '"1.0"', "command": f'["{sys.executable}"]', **change}
    (tmp_path / "driver.toml").write_text("\n".join(f"{k} = {v}" for k, v in table.items()), encoding="utf-8")
    with pytest.raises(UsageError, match=message) as error:
        Driver.read(tmp_path)
    assert str(tmp_path) in str(error.value) and "\n" not in str(error.value)


def test_a_folder_without_driver_toml_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=re.escape("driver.toml cannot be read: No such file or directory")):
        Driver.read(tmp_path)


def test_a_client_offers_the_programs_whose_steps_it_has() -> None:
    driver = Driver("x", "1", ("c",), lacks=("abort",))
    assert [driver.offers(program) for program in ("CC", "CKC", "AC", "ca", "BC")] == [
        True,
        True,
        False,
        False,
        False,
    ]
