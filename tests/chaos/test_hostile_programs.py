"""Programs that misbehave: each is reported in one sentence with the right status, and no process is left."""

import sys
from pathlib import Path

import psutil
import pytest

import fencepost
from fencepost import FencepostFailed, Result

BILLING = Path(__file__).resolve().parents[2] / "examples" / "billing"
IMPORTS = "import signal, threading; "
FILE = """
name = "hostile"
[[stage]]
name = "bad"
reads = ["purchases"]
writes = ["invoices", "shipments"]
group = "billing"
command = [PYTHON, "-c", CODE, "hostile-mark"]
instances = 1
ready_within_s = 8
stop_within_s = 3
MORE
[inputs.purchases]
make = "FOLDER/expect.py:purchase"
"""


def run(folder: Path, code: str, more: str = "") -> Result:
    """Run one instance of a program with this code, for a few seconds."""
    text = FILE.replace("PYTHON", f"'{sys.executable}'").replace("CODE", f"'''{code}'''")
    (folder / "pipeline.toml").write_text(text.replace("MORE", more).replace("FOLDER", str(BILLING)))
    result = fencepost.run(
        pipeline=str(folder / "pipeline.toml"),
        nemesis="none",
        time_limit=3,
        rate=20,
        seed=1,
        store=str(folder / "store"),
    )
    remaining = [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if "hostile-mark" in (process.info["cmdline"] or ())
    ]
    assert not remaining
    return result


def billing(folder: Path, *changes: tuple[str, str], program: str = "billing.py") -> Result:
    """Run a program of the example `billing` after these changes of its code (text before, text after)."""
    code = (BILLING / program).read_text()
    for before, after in changes:
        assert before in code
        code = code.replace(before, after)
    (folder / "altered.py").write_text(code)
    text = (BILLING / "pipeline.toml").read_text().replace("expect.py", str(BILLING / "expect.py"))
    text = text.replace('"python3", "billing.py"', f"'{sys.executable}', 'altered.py'")
    if program != "billing.py":
        text = text.replace(', "--transactional-id", "{transactional_id}"', "")
    (folder / "pipeline.toml").write_text(text.replace("instances = 3", "instances = 1\nready_within_s = 20"))
    return fencepost.run(
        pipeline=str(folder / "pipeline.toml"),
        nemesis="none",
        time_limit=5,
        rate=20,
        seed=1,
        store=str(folder / "store"),
    )


def unknown_because(result: Result) -> str:
    """Return why a run is unknown."""
    return "; ".join(reason["text"] for reason in result.verdict["unknown_because"])


def test_a_program_that_exits_at_once_is_unknown_with_its_last_output(tmp_path: Path) -> None:
    result = run(tmp_path, 'print("no licence"); raise SystemExit(3)')
    assert result.valid is None and result.exit_status == 3
    assert "did not start: bad-1.0 ended while it started: no licence" in unknown_because(result)


def test_a_program_that_never_becomes_ready_is_unknown(tmp_path: Path) -> None:
    result = run(tmp_path, IMPORTS + 'print("warming up", flush=True); threading.Event().wait()')
    assert result.valid is None
    assert "did not start" in unknown_because(result)
    assert "the last output of bad-1.0: warming up" in unknown_because(result)


def test_a_program_that_does_nothing_is_unknown(tmp_path: Path) -> None:
    code = IMPORTS + 'print("started", flush=True); threading.Event().wait()'
    result = run(tmp_path, code, 'ready = "line:started"')
    assert result.valid is None
    assert "no output is visible" in unknown_because(result)


def test_a_program_that_ignores_its_stop_signal_is_a_warning(tmp_path: Path) -> None:
    code = (
        IMPORTS + 'signal.signal(15, signal.SIG_IGN); print("started", flush=True); threading.Event().wait()'
    )
    result = run(tmp_path, code, 'ready = "line:started"')
    texts = [warning["text"] for warning in result.verdict["warnings"]]
    assert any("did not end within 3 s after SIGTERM" in text for text in texts)


def test_a_program_that_prints_without_end_does_not_fill_the_disk(tmp_path: Path) -> None:
    code = 'print("started", flush=True)\nfor n in range(12_000_000): print("x" * 80)'
    result = run(tmp_path, code, 'ready = "line:started"')
    assert result.valid is None
    assert sum(path.stat().st_size for path in (result.folder / "workers").iterdir()) < 8_000_000


def test_a_child_process_that_leaves_the_process_group_is_killed(tmp_path: Path) -> None:
    code = IMPORTS + "import os\nif os.fork() == 0:\n    os.setsid(); threading.Event().wait()"
    result = run(tmp_path, code)
    assert result.valid is None
    assert "bad-1.0 ended while it started" in unknown_because(result)


def test_a_program_with_another_group_never_becomes_ready(tmp_path: Path) -> None:
    result = billing(tmp_path, ('options.prefix + "billing"', '"another"'))
    assert result.valid is None
    assert "bill-1.0 is not ready, because its group billing has 0 members" in unknown_because(result)


def test_outputs_in_another_topic_are_lost_inputs(tmp_path: Path) -> None:
    result = billing(tmp_path, ('options.prefix + "invoices"', '"shipments"'))
    assert result.valid is False and "lost-input" in result.anomalies, result.explain()


def test_a_program_that_writes_to_a_missing_topic_is_unknown(tmp_path: Path) -> None:
    result = billing(tmp_path, ('options.prefix + "invoices"', '"bills"'))
    assert result.valid is None, result.explain()
    assert any("Unknown topic" in warning["text"] for warning in result.verdict["warnings"])


def test_a_program_without_its_promised_transactions_is_not_valid(tmp_path: Path) -> None:
    result = billing(tmp_path, program="auto_commit.py")
    assert result.valid is not True, result.explain()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('command = ["./not-there"]', "not-there, does not exist"),
        ('command = ["python3"]\nreads = ["x"]', "Cannot overwrite a value"),
        ('transactional_id = "{instnace}"', 'did you mean "instance"'),
    ],
)
def test_a_command_that_cannot_be_started_is_refused(line: str, words: str, tmp_path: Path) -> None:
    text = (
        FILE.replace("PYTHON", f"'{sys.executable}'")
        .replace("CODE", "'pass'")
        .replace("FOLDER", str(BILLING))
    )
    if line.startswith('command = ["./'):
        text = "\n".join(line if row.startswith("command") else row for row in text.splitlines())
        line = ""
    (tmp_path / "pipeline.toml").write_text(text.replace("MORE", line))
    with pytest.raises(FencepostFailed, match=words) as refused:
        fencepost.run(pipeline=str(tmp_path / "pipeline.toml"), store=str(tmp_path / "store"))
    assert refused.value.exit_status == 2
    assert not (tmp_path / "store").exists()
