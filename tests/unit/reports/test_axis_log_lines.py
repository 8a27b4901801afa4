"""Warnings and errors are found in logs of every common form, with their times."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from reports.story.logs import MOST_BYTES, TimedLogLine, near, read_logs

ZERO_MS = datetime(2026, 11, 27, 17, 26, tzinfo=UTC).timestamp() * 1000


def read(folder: Path, text: str, file: str = "workers/bill-1.0.log") -> list[TimedLogLine]:
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    lines, notes = read_logs(folder, ZERO_MS)
    assert notes == []
    return lines


LOCAL = datetime.fromtimestamp(ZERO_MS / 1000 + 3.25).strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]


@pytest.mark.parametrize(
    ("line", "level", "text"),
    [
        ("2026-11-27T17:26:03.250Z WARN slow (kafka.X)", "warning", "slow (kafka.X)"),
        ("2026-11-27T19:26:03.250+02:00 [main] ERROR c.App - no", "error", "[main] ERROR c.App - no"),
        (f"{LOCAL} - app - CRITICAL - no", "error", "- app - CRITICAL - no"),
        (f"{LOCAL.replace('-', '/').replace(',', '.')} ERROR: no", "error", "no"),
        (
            'time="2026-11-27T17:26:03.25Z" level=warning msg="slow"',
            "warning",
            'time="" level=warning msg="slow"',
        ),
        (
            "%4|1795800363.250|SESSTMOUT|rdkafka#consumer-1| late",
            "warning",
            "SESSTMOUT|rdkafka#consumer-1| late",
        ),
        ("%1|1795800363.250|TXNERR|rdkafka#producer-2| no", "error", "TXNERR|rdkafka#producer-2| no"),
        ('{"level":"ERROR","timestamp":"2026-11-27T17:26:03.250Z","message":"no"}', "error", "no"),
        ('{"level":"warn","ts":1795800363.25,"msg":"slow","id":7}', "warning", 'slow {"id":7}'),
        ('{"level":50,"time":1795800363250,"msg":"no"}', "error", "no"),
    ],
)
def test_a_line_has_its_time_its_level_and_its_text(tmp_path: Path, line: str, level: str, text: str) -> None:
    (found,) = read(tmp_path, f"started\n{line}\n")
    assert found.time_s == pytest.approx(3.25, abs=0.001)
    assert (found.level, found.source, found.number) == (level, "bill-1.0", 2)
    assert found.text == text


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-27T17:26:03.250Z INFO the ERRORS of others are gone",
        "2026-11-27T17:26:03.250Z INFO Updated the level of the logger to ERROR",
        "ERROR without a time",
        "2026-13-45T17:26:03.250Z ERROR at no time",
        '{"level":"error","timestamp":"soon"}',
        '{"level":"info","ts":1795800363,"msg":"an ERROR that is none"}',
        "%6|1795800363.250|INFO|rdkafka| all is well",
        '["ERROR"]',
        "{ERROR",
    ],
)
def test_other_lines_are_left_out(tmp_path: Path, line: str) -> None:
    assert read(tmp_path, f"{line}\n") == []


def test_a_secret_in_a_line_is_not_shown(tmp_path: Path) -> None:
    (line,) = read(tmp_path, "2026-11-27T17:26:01Z ERROR login failed: password=hunter2 of user app\n")
    assert line.text == "login failed: password=<redacted> of user app"


def test_the_exception_behind_an_error_is_part_of_it_and_the_next_entry_is_not(tmp_path: Path) -> None:
    text = (
        "2026-11-27T17:26:01.000Z ERROR append failed (kafka.ReplicaManager)\n"
        "org.apache.kafka.InvalidProducerEpochException: epoch 0 is old\n"
        "\tat kafka.Log\n"
        "2026-11-27T17:26:02.000Z WARN first\n"
        "2026-11-27T17:26:03.000Z WARN second\n"
    )
    lines = read(tmp_path, text, "brokers/2/server.log")
    assert [(line.source, line.text) for line in lines] == [
        (
            "broker 2",
            "append failed (kafka.ReplicaManager) org.apache.kafka.InvalidProducerEpochException: epoch 0 is old",
        ),
        ("broker 2", "first"),
        ("broker 2", "second"),
    ]


def test_a_very_long_line_is_cut_and_the_lines_behind_it_keep_their_numbers(tmp_path: Path) -> None:
    text = f"2026-11-27T17:26:01Z ERROR {'x' * 3_000_000}\n2026-11-27T17:26:02Z ERROR \udcff\x1b\u202e\n"
    first, second = read(tmp_path, text)
    assert len(first.text) < 400 and second.number == 2
    assert second.text == "\ufffd\\x1b\\u202e"


def test_a_log_that_is_too_long_is_noted(tmp_path: Path) -> None:
    (tmp_path / "workers").mkdir()
    (tmp_path / "workers" / "a.log").write_bytes(b"x" * MOST_BYTES + b"\n2026-11-27T17:26:02Z ERROR no\n")
    lines, (note,) = read_logs(tmp_path, ZERO_MS)
    assert lines == []
    assert note == "workers/a.log: only its first lines are on the time axis, because it is very long"


def test_the_lines_nearest_to_a_moment_are_kept_and_errors_before_warnings() -> None:
    lines = [
        TimedLogLine(time_s, "warning", "a", "a.log", n, "") for n, time_s in enumerate((1.0, 5.0, 9.0, 9.5))
    ]
    error = TimedLogLine(9.0, "error", "a", "a.log", 9, "")
    lines.insert(3, error)
    assert near(lines, [9.0, 50.0], 1) == [error]
    assert near(lines, [9.0, 50.0], 2) == [error, lines[2]]
    assert near(lines, [9.0], 5) == lines
    assert len(near(lines, [], 2)) == 2
