"""The folder that `fencepost reproducer` makes: what it has, and what must not be in it."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
import tomli_w
from markupsafe import escape
from msgspec import structs

from checkers.registry import checker_of
from harness.common.documents import parse_toml
from harness.common.errors import UsageError
from harness.record.table_reader import RunTables
from harness.results.example import Example
from harness.results.verdict import Validity, Verdict
from reports.html.page import draw
from reports.pictures.trace_lines import trace_lines
from reports.reproducer.cleaning import Cleaning
from reports.reproducer.finding import shown_finding
from reports.reproducer.folder import require_reproducible, write_reproducer
from reports.reproducer.log_excerpts import broker_lines
from reports.story.by_logs import of_fault, of_record
from reports.story.run import Story
from tests.support.histories import WALL_MS
from tests.support.reproduced_run import (
    CONTENTS,
    PRIVATE,
    SECRETS,
    ReproducedRun,
    pipeline_document,
    reproduced_run,
)


def describe(anomaly: str, example: Example) -> str:
    return checker_of(anomaly).wording(anomaly).sentence(example)


@pytest.fixture
def run(tmp_path: Path) -> ReproducedRun:
    return reproduced_run(tmp_path)


def make(run: ReproducedRun, *, with_values: bool = False) -> Path:
    output = run.folder / "reproducer"
    write_reproducer(
        *(run.folder, run.verdict, output, describe, {"seed": 7, "workload": "other"}),
        with_values=with_values,
        machine=run.machine,
    )
    return output


def found(output: Path, *tables: dict[str, str]) -> set[tuple[str, str]]:
    """Return each plant that a file has: the file and the place of the plant."""
    files = [path for path in output.rglob("*") if path.is_file()]
    assert files
    return {
        (path.name, place)
        for path in files
        for table in tables
        for place, text in table.items()
        if text in path.read_text(encoding="utf-8")
    }


def test_no_secret_and_no_private_name_is_in_any_file(run: ReproducedRun) -> None:
    output = make(run)
    assert found(output, SECRETS, PRIVATE, CONTENTS, {"unknown content": "unknown-plant-17"}) == set()


def test_with_values_contents_are_shown_and_still_no_secret(run: ReproducedRun) -> None:
    output = make(run, with_values=True)
    assert found(output, SECRETS, PRIVATE) == set()
    assert {place for _, place in found(output, CONTENTS)} == set(CONTENTS)
    assert "unknown-plant-17" in (output / "README.md").read_text()


@pytest.mark.parametrize("rule", ["text", "code", "content", "printed", "example"])
def test_the_search_finds_plants_if_a_rule_is_left_out(
    run: ReproducedRun, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cleaning, rule, lambda self, value, *more: value)
    assert found(make(run), SECRETS, PRIVATE, CONTENTS)


@pytest.mark.parametrize("part", ["hosts", "users", "secret_values", "folders"])
def test_the_search_finds_plants_if_known_names_are_left_out(
    run: ReproducedRun, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = {"hosts": (), "users": (), "secret_values": (), "folders": {}}
    create = Cleaning.__init__
    monkeypatch.setattr(
        Cleaning, "__init__", lambda self, **given: create(self, **{**given, part: without[part]})
    )
    assert found(make(run), SECRETS, PRIVATE, CONTENTS)


def test_no_secret_setting_is_in_the_report_or_in_a_trace(
    run: ReproducedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_PASSWORD", SECRETS["environment of this machine"])
    tables = RunTables(run.folder, WALL_MS)
    steps = [*of_record(Story(tables), "x", 0, 0), *of_fault(Story(tables), 1)]
    secret_fault = structs.replace(run.verdict.faults[0], evidence=f"password={SECRETS['error']}")
    faulty = structs.replace(run.verdict, faults=[secret_fault])
    output = "\n".join([draw(run.folder, faulty), *trace_lines(steps)])
    assert [place for place, secret in SECRETS.items() if secret in output] == []
    assert CONTENTS["value"] in output


def test_the_readme_has_the_smallest_finding_and_how_to_run_it(run: ReproducedRun) -> None:
    text = (make(run) / "README.md").read_text()
    began = datetime.fromtimestamp(WALL_MS / 1000, UTC).isoformat(timespec="milliseconds")
    assert f"Times are in seconds since the run began, at {began}." in text
    assert "# corrupt: the pipeline billing on Kafka 4.4.0" in text
    assert (
        "The smallest finding: the content of the record at x/0 offset 0 is not what input a/0 offset 0"
        in text
    )
    assert (
        ".venv/bin/pip install 'fencepost[all] @ git+https://github.com/fencepost/fencepost' confluent-kafka==2.9.0\n"
        "npm install\n"
    ) in text
    assert (
        ".venv/bin/fencepost replay . --set broker.ssl.keystore.password=VALUE --set broker.log.dir=VALUE "
        "--set bootstrap=VALUE --set client-config=VALUE\n"
    ) in text
    assert "| java | 17 |" in text
    rule = "api=EndTxn,fields.Committed=false,action=hold,release.after=EndTxn response"
    for row in (
        f"rule | {rule}",
        "workload | shop",
        "nemesis | kill-broker",
        "broker.num.io.threads | 4",
        "seed | 7",
    ):
        assert f"| {row} |\n" in text
    assert "This is the trace of the record a/0@0." in text
    assert "offset 0 is written by producer 1 epoch 0 (" in text and "), and holds #" in text


def test_a_program_in_go_is_built_under_the_name_that_its_command_has(run: ReproducedRun) -> None:
    document = pipeline_document(run.project)
    document["stage"][0]["command"] = ["./billing", "{bootstrap}"]
    (run.project / "pipeline.toml").write_text(tomli_w.dumps(document))
    (run.project / "go.mod").write_text("module example.org/bill\n\ngo 1.26\n")
    text = (make(run) / "README.md").read_text()
    assert "You need Linux, Python 3.11 to 3.14, Node.js with npm and Go." in text
    assert "\ngo build -o billing .\n" in text


@pytest.mark.parametrize(("commit", "changed"), [("4" * 40, False), (f"{'4' * 40}-dirty", True)])
def test_fencepost_is_installed_from_the_commit_of_the_run(
    run: ReproducedRun, commit: str, changed: bool
) -> None:
    plan = (run.folder / "run.toml").read_text()
    (run.folder / "run.toml").write_text(plan.replace("[run]\n", f'[run]\ncommit = "{commit}"\n'))
    text = (make(run) / "README.md").read_text()
    assert f"git+https://github.com/fencepost/fencepost@{'4' * 40}' " in text
    assert ("a clone of Fencepost with changes that are not committed" in text) is changed


def test_an_option_with_its_default_is_only_shown_if_every_reader_needs_it(run: ReproducedRun) -> None:
    plan = (run.folder / "run.toml").read_text()
    (run.folder / "run.toml").write_text(plan.replace("seed = 7", "seed = 7\nreplicas = 1\nheap-mb = 256"))
    output = run.folder / "reproducer"
    defaults = {"heap-mb": 256, "seed": 7}
    write_reproducer(run.folder, run.verdict, output, describe, defaults, machine=run.machine)
    text = (output / "README.md").read_text()
    assert "| replicas | 1 |" in text and "| seed | 7 |" in text and "heap-mb" not in text


def test_a_log_line_with_an_id_and_a_partition_is_shown_though_others_are_nearer(run: ReproducedRun) -> None:
    begin = "1970-01-01T00:16:40.0"
    decisive = f"{begin}01Z INFO no leader for partitions Set(x-0) while sending markers for id-1"
    noise = [f"{begin}05Z WARN connection {n} of id-11 to x-01 is lost" for n in range(60)]
    (run.folder / "brokers" / "1" / "server.log").write_text("\n".join([decisive, *noise]) + "\n")
    text = (make(run) / "README.md").read_text()
    assert decisive in text and text.count("WARN connection") == 39


@pytest.mark.parametrize(
    ("words", "is_shown"), [("markers for id-1 in x-0", True), ("markers for id-1", False)]
)
def test_a_log_line_with_an_id_and_a_partition_counts_until_the_records_are_decided(
    tmp_path: Path, words: str, is_shown: bool
) -> None:
    (tmp_path / "brokers" / "1").mkdir(parents=True)
    line = f"1970-01-01T00:16:50.000Z INFO {words}"
    (tmp_path / "brokers" / "1" / "server.log").write_text(f"{line}\n")
    second_ns = 1_000_000_000
    shown = broker_lines(tmp_path, WALL_MS, (0, second_ns), {"id-1", "x-0"}, 20 * second_ns)
    assert [each.text for each in shown] == [line] * is_shown
    assert broker_lines(tmp_path, WALL_MS, (0, second_ns), {"id-1", "x-0"}) == []


def test_log_lines_have_their_file_and_line_and_the_names_of_brokers(run: ReproducedRun) -> None:
    text = (make(run) / "README.md").read_text()
    assert (
        "brokers/1/server.log:1: 1970-01-01T00:16:40.005Z INFO id-1 from <host>:45678 via broker-1:9092 and "
        "broker-1:9092\n"
    ) in text
    assert "password=<redacted> in brokers/1/data/x-0 and x.jks\n" in text
    assert 'workers/s-1.0.log:8:   File "billing.py", line 42, in send, by <user> error\n' in text
    assert "workers/s-1.0.log:2: ERROR of id-1: <redacted> <redacted>\n" in text


def test_the_same_content_has_the_same_digest_and_another_salt_another(run: ReproducedRun) -> None:
    first, second = Cleaning(), Cleaning()
    assert first.content("alice") == first.content("alice") != first.content("bob")
    assert first.content("alice") != second.content("alice")


def test_the_verdict_has_the_finding_alone(run: ReproducedRun) -> None:
    verdict = Verdict.load(make(run) / "verdict.json")
    assert (verdict.validity, verdict.history, list(verdict.anomalies)) == (
        Validity.INVALID,
        ".",
        ["corrupt"],
    )
    findings = verdict.anomalies["corrupt"]
    assert (findings.count, len(findings.examples), len(findings.sentences)) == (2, 1, 1)
    assert verdict.faults[0].details == {"broker": "2", "state": "PrepareCommit"}


def test_the_plan_keeps_what_the_run_does(run: ReproducedRun) -> None:
    before = parse_toml((run.folder / "run.toml").read_text())
    plan = parse_toml((make(run) / "run.toml").read_text())
    assert plan["schedule"] == before["schedule"]
    kept = {
        key: value for key, value in plan["options"].items() if key not in ("pipeline", "broker", "bootstrap")
    }
    assert kept == {key: before["options"][key] for key in ("workload", "seed", "nemesis", "rule")}
    assert plan["options"]["pipeline"] == "pipeline.toml"
    assert plan["options"]["bootstrap"] == "broker-1:9092,broker-2:9092"
    assert plan["options"]["broker"] == {
        "ssl.keystore.password": "<redacted>",
        "log.dir": "<redacted>",
        "num.io.threads": "4",
    }


def test_sources_are_copied_and_binaries_configurations_and_libraries_are_not(run: ReproducedRun) -> None:
    output = make(run)
    assert sorted(path.relative_to(output).as_posix() for path in output.rglob("*") if path.is_file()) == [
        "README.md",
        "billing.py",
        "diagram.svg",
        "expect.py",
        "package.json",
        "pipeline.toml",
        "run.toml",
        "verdict.json",
    ]
    assert (output / "expect.py").read_text() == (run.project / "expect.py").read_text()
    assert 'PASSWORD = "<redacted>"' in (output / "billing.py").read_text()
    assert json.loads((output / "package.json").read_text()) == {
        "version": "1.0.0",
        "dependencies": {"kafkajs": "2.2.4"},
    }
    readme = (output / "README.md").read_text()
    assert "`billing.py` was changed in lines 2, 3 and 4." in readme
    assert "Stage `s` needs values for `DATABASE`" in readme


def test_a_command_keeps_its_words_and_loses_its_secrets(run: ReproducedRun) -> None:
    (stage,) = parse_toml((make(run) / "pipeline.toml").read_text())["stage"]
    assert stage["command"] == [
        "python3",
        "billing.py",
        "{bootstrap}",
        "--password",
        "<redacted>",
        "-Dsasl.password=<redacted>",
    ]
    assert stage["env"] == {"DATABASE": "<redacted>", "BROKERS": "{bootstrap}"}


def test_a_function_in_another_folder_is_copied_beside_the_pipeline_file(run: ReproducedRun) -> None:
    other = run.project.parent / "common"
    other.mkdir()
    (run.project / "expect.py").rename(other / "expect.py")
    file = run.project / "pipeline.toml"
    file.write_text(file.read_text().replace("expect.py:purchase", "../common/expect.py:purchase"))
    output = make(run)
    assert (output / "expect.py").exists()
    document = parse_toml((output / "pipeline.toml").read_text())
    assert document["inputs"]["a"]["make"] == "expect.py:purchase"


def test_input_files_are_contents_of_records(run: ReproducedRun) -> None:
    (run.project / "inputs.jsonl").write_text('{"key": "k", "value": "plant-input-18"}\n')
    file = run.project / "pipeline.toml"
    file.write_text(file.read_text().replace('make = "expect.py:purchase"', 'file = "inputs.jsonl"'))
    with (run.folder / "workers" / "s-1.0.log").open("a") as log:
        log.write("ERROR plant-input-18 is unknown\n")
    output = make(run)
    assert found(output, {"input": "plant-input-18"}) == set()
    assert "The inputs in `inputs.jsonl` are left out" in (output / "README.md").read_text()


def test_program_logs_are_left_out_if_contents_are_stored_truncated(
    run: ReproducedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reports.reproducer.log_excerpts.EXCERPT_LENGTH", 20)
    text = (make(run) / "README.md").read_text()
    assert "The logs of the programs are left out" in text and "workers/s-1.0.log" not in text


def test_a_folder_that_exists_is_not_changed(run: ReproducedRun) -> None:
    output = run.folder / "reproducer"
    output.mkdir()
    with pytest.raises(UsageError, match="exists: name a new folder with --out"):
        make(run)
    assert list(output.iterdir()) == []


def test_a_valid_run_is_refused_and_an_unknown_one_needs_force(run: ReproducedRun) -> None:
    with pytest.raises(UsageError, match="is valid: there is nothing to reproduce"):
        require_reproducible(run.folder, Verdict("h", "n", 1, Validity.VALID.json, ""), force=True)
    unknown = Verdict("h", "n", 1, Validity.UNKNOWN.json, "a worker hangs")
    with pytest.raises(UsageError, match=r"proves nothing \(a worker hangs\): .* use --force"):
        require_reproducible(run.folder, unknown, force=False)
    require_reproducible(run.folder, unknown, force=True)


def test_an_unknown_run_has_a_readme_without_a_finding(run: ReproducedRun) -> None:
    unknown = structs.replace(
        run.verdict, valid=Validity.UNKNOWN, anomalies={}, summary="worker s-1 hangs in send_offsets"
    )
    output = run.folder / "unknown"
    write_reproducer(run.folder, unknown, output, describe, {}, machine=run.machine)
    text = (output / "README.md").read_text()
    assert "The verdict is unknown: worker s-1 hangs in send_offsets." in text
    assert "nothing is proven" in text and "The exit status is 3." in text


def test_a_planted_defect_is_no_bug_of_kafka(run: ReproducedRun) -> None:
    plan = (run.folder / "run.toml").read_text()
    (run.folder / "run.toml").write_text(
        plan.replace('workload = "shop"', 'workload = "shop"\ndefect = "no-rewind"')
    )
    assert "has the defect `no-rewind`, which was planted on purpose" in (make(run) / "README.md").read_text()


def test_the_finding_is_the_one_that_the_report_draws(run: ReproducedRun) -> None:
    finding = shown_finding(RunTables(run.folder), run.verdict)
    assert finding is not None and finding.diagram.messages
    report = draw(run.folder, run.verdict)
    assert f"<h3><bdi>{escape(finding.sentence)}</bdi></h3>" in report
    assert finding.cause and finding.cause[0] in report


def test_the_diagram_is_a_picture_of_its_own_without_contents(run: ReproducedRun) -> None:
    drawn = (make(run) / "diagram.svg").read_text()
    assert drawn.startswith("<svg") and 'xmlns="http://www.w3.org/2000/svg"' in drawn
    assert ">begins " in drawn and not [secret for secret in SECRETS.values() if secret in drawn]
