"""A suite file: its cells, and its mistakes, which are reported before anything runs."""

import json
from pathlib import Path

import pytest

from fencepost.cli import run_command_line
from fencepost.commands.options import settle
from fencepost.suites import plan
from fencepost.suites.plan import SuitePlan, SuiteRequest
from harness.common.documents import encode
from harness.common.errors import ExitStatus, UsageError
from tests.support.user_pipeline import write_pipeline

KNOWN = '[[known]]\nworkload = "shop"\nanomaly = "reprocessed-input"\nwhy = "a bug"\nuntil = 2027-01-31\n'


PLANTED = (
    '[[include]]\nworkload = "echo"\ndefect = "no-rewind"\n'
    '[[expected]]\ndefect = "no-rewind"\nanomaly = ["lost-input", "poll-skip"]\nwhy = "planted"\n'
)


def plan_of(tmp_path: Path, text: str, **options: object) -> SuitePlan:
    file = tmp_path / "night.toml"
    file.write_text(text)
    return plan.load(file, SuiteRequest(settle, **options))


def names(tmp_path: Path, text: str) -> list[str]:
    return [cell.name for cell in plan_of(tmp_path, text).suite.cells]


def test_each_client_version_is_a_cell_and_can_have_a_known_failure(tmp_path: Path) -> None:
    known = KNOWN.replace('workload = "shop"', 'client = "librdkafka:2.16.1"')
    text = f'[matrix]\nclient = ["librdkafka:2.16.1", "java:3.9.1", "librdkafka"]\n{known}'
    plan_ = plan_of(tmp_path, text)
    clients = [cell.client for cell in plan_.suite.cells]
    assert clients == ["librdkafka:2.16.1", "java:3.9.1", "librdkafka"]
    assert [plan_.failures.known[0].applies_to(cell) for cell in plan_.suite.cells] == [True, False, False]


def test_an_exploration_is_a_cell_to_which_known_failures_apply(tmp_path: Path) -> None:
    known = KNOWN.replace("shop", "explore").replace("reprocessed-input", "lost-input")
    table = '[[explore]]\nprograms = ["CC"]\nkinds = ["hold", "disconnect"]\nclient = "java"\nlimit = "2m"\n'
    plan_ = plan_of(tmp_path, f"{table}{known}")
    (cell,) = plan_.suite.cells
    assert cell.name == "explore java-4.4.0 CC kinds=hold,disconnect" and plan_.failures.known[0].applies_to(
        cell
    )
    assert (
        cell.command
        == "fencepost explore --client java --kafka 4.4.0 --programs CC --kinds hold,disconnect --limit 2m"
    )
    assert plan_.options[cell.name].time_limit_s == 120.0 and list(cell.explore["programs"]) == ["CC"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('programs = ["XY"]', r"\[\[explore\]\]: a program has the parts"),
        ('kinds = ["holt"]', 'did you mean "hold"'),
        ('colour = "red"', 'has an unknown key: .*"colour"'),
        ('client = "jaba"', 'did you mean "java"'),
        ('limit = "soon"', "limit"),
    ],
)
def test_a_wrong_exploration_is_refused_before_anything_runs(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plan_of(tmp_path, f"[[explore]]\n{line}\n")


def test_the_name_of_a_custom_pipelines_cell_has_no_client(tmp_path: Path) -> None:
    text = f'[matrix]\npipeline = ["{write_pipeline(tmp_path)}"]\nnemesis = ["kill-broker"]\n'
    (cell,) = plan_of(tmp_path, text).suite.cells
    assert cell.name == f"{tmp_path / 'pipeline'} kill-broker"
    assert cell.client == "its own client"


def test_lists_of_the_matrix_are_combined(tmp_path: Path) -> None:
    text = '[matrix]\nworkload = ["shop", "echo"]\nclient = ["librdkafka", "java"]\nnemesis = ["kill-broker", "drawn"]'
    cell_names = names(tmp_path, text)
    assert cell_names[:4] == [
        "shop librdkafka kill-broker",
        "shop librdkafka drawn",
        "shop java kill-broker",
        "shop java drawn",
    ]
    assert len(cell_names) == len(set(cell_names)) == 8


def test_a_cell_with_a_schedule_has_its_file_in_place_of_its_faults(tmp_path: Path) -> None:
    for name in ("early", "late"):
        (tmp_path / f"{name}.toml").write_text('[[schedule]]\nfault = "kill-broker"\nstart_s = 5\n')
    files = [str(tmp_path / "early.toml"), str(tmp_path / "late.toml")]
    cells = plan_of(tmp_path, f"[matrix]\nschedule = {files}\n").suite.cells
    assert [cell.nemesis for cell in cells] == [str(tmp_path / "early"), str(tmp_path / "late")]
    assert [cell.name for cell in cells] == [f"shop librdkafka {cell.nemesis}" for cell in cells]


def test_faults_of_one_run_are_one_entry_of_a_list(tmp_path: Path) -> None:
    text = '[matrix]\nnemesis = ["kill-broker,pause-worker", ["kill-broker", "kill-worker"], "none"]'
    assert [cell.nemesis for cell in plan_of(tmp_path, text).suite.cells] == [
        "kill-broker,pause-worker",
        "kill-broker,kill-worker",
        "none",
    ]


def test_a_default_applies_to_every_cell_and_is_not_in_its_name(tmp_path: Path) -> None:
    text = (
        '[defaults]\ntime-limit = 40\nnemesis = ["kill-broker", "kill-worker"]\n[matrix]\nworkload = ["echo"]'
    )
    plan_ = plan_of(tmp_path, text)
    assert [cell.name for cell in plan_.suite.cells] == ["echo librdkafka kill-broker,kill-worker"]
    assert plan_.options["echo librdkafka kill-broker,kill-worker"].time_limit_s == 40.0


def test_included_cells_are_added_and_excluded_cells_are_removed(tmp_path: Path) -> None:
    text = (
        '[matrix]\nworkload = ["shop", "echo"]\nclient = ["librdkafka", "java"]\nnemesis = "none"\n'
        '[[include]]\nworkload = "shop"\ndefect = "no-rewind"\n'
        '[[exclude]]\nworkload = ["echo", "txn"]\nclient = "java"\n'
    )
    assert names(tmp_path, text) == [
        "shop librdkafka none",
        "shop java none",
        "echo librdkafka none",
        "shop librdkafka drawn defect=no-rewind",
    ]


def test_a_cells_seed_depends_on_the_suites_seed_and_the_cells_name(tmp_path: Path) -> None:
    text = '[suite]\nseed = 7\n[matrix]\nworkload = ["shop", "echo"]\nseeds = 2'
    cells, more_cells = (
        plan_of(tmp_path, t).suite.cells for t in (text, text.replace('"echo"', '"echo", "orders"'))
    )
    assert [cell.seed for cell in cells] == [cell.seed for cell in more_cells[:4]]
    assert len({cell.seed for cell in more_cells}) == 6
    assert [cell.name for cell in cells[:2]] == ["shop librdkafka drawn #1", "shop librdkafka drawn #2"]
    other = plan_of(tmp_path, text, seed=8).suite
    assert other.seed == 8
    assert not {cell.seed for cell in other.cells} & {cell.seed for cell in cells}
    assert f"--seed {cells[0].seed}" in cells[0].command


def test_seeds_can_be_listed(tmp_path: Path) -> None:
    suite = plan_of(tmp_path, '[matrix]\nworkload = "echo"\nseed = [3, 4]').suite
    assert [(cell.name, cell.seed) for cell in suite.cells] == [
        ("echo librdkafka drawn seed=3", 3),
        ("echo librdkafka drawn seed=4", 4),
    ]


REFUSED = {
    "not TOML": ("[matrix", "is no TOML"),
    "another table": ("[matrices]\n", 'did you mean "matrix"'),
    "a table that is a list": ("[[matrix]]\n", "matrix must be a table"),
    "a list that is a table": ("[known]\n", "known must be a list of tables"),
    "nothing": ("", "it has no cell"),
    "another key of the suite": ("[suite]\nnames = 'x'\n", 'did you mean "name"'),
    "a name": ("[suite]\nname = 'a/b'\n", "name must be"),
    "a seed": ("[suite]\nseed = -1\n", "seed must be a whole number"),
    "a judge": ("[suite]\njudge = 'later'\n", "together or each"),
    "an option": (
        '[matrix]\nworkloads = ["shop"]\n',
        'there is no option "workloads"; did you mean "workload"',
    ),
    "an option that no cell has": ('[defaults]\nstore = "x"\n', "store cannot be set for a cell"),
    "an option of a known failure": (
        f'[matrix]\nworkload="shop"\n{KNOWN}clients="java"\n',
        'did you mean "client"',
    ),
    "an empty list": ("[matrix]\nworkload = []\n", "workload is an empty list"),
    "a workload": ('[matrix]\nworkload = ["shp"]\n', 'did you mean "shop"'),
    "a value": ('[matrix]\nworkers = [3, "many"]\n', "workers must be a whole number from 1 to 16"),
    "how many seeds": ("[matrix]\nseeds = 0\n", "seeds must be a whole number from 1 to 1000"),
    "seeds twice": ("[matrix]\nseeds = 2\nseed = [1]\n", "remove one of them"),
    "too many": ("[matrix]\nseeds = 1000\nworkers = [1,2,3,4,5,6,7,8,9,10,11]\n", "10,000 at most"),
    "a defect of another workload": (
        '[matrix]\nworkload = ["shop", "echo"]\ndefect = "mark-before-send"\n',
        'cell "shop librdkafka drawn defect=mark-before-send": the defect mark-before-send needs',
    ),
    "a defect that a client prevents": (
        '[matrix]\nworkload = "orders"\nclient = "java"\ndefect = "swallow-send-error"\n',
        "prevents the defect swallow-send-error",
    ),
    "a fault that the workload does not permit": (
        '[matrix]\nworkload = "shop"\nnemesis = "kill-postgres"\n',
        'cell "shop librdkafka kill-postgres": ',
    ),
    "a version of a client": (
        '[matrix]\nclient = ["java:3.9.1", "java:9.9.9"]\n',
        'cell "shop java:9.9.9 drawn": there is no pinned client "java:9.9.9"',
    ),
    "a Kafka": ('[matrix]\nkafka = ["4.3.1", "9.9.9"]\n', 'there is no Kafka version "9.9.9"'),
    "two cells of one name": (
        '[[include]]\nworkload = "shop"\n[[include]]\nworkload = "shop"\n',
        "two cells have the name",
    ),
    "an exclusion of nothing": (
        '[matrix]\nworkload = "shop"\n[[exclude]]\nworkload = "echo"\n',
        "exclude 1 matches no cell",
    ),
    "a known failure of no cell": (f'[matrix]\nworkload = "echo"\n{KNOWN}', "known 1 matches no cell"),
    "a planted defect of no cell": (
        '[matrix]\nworkload = "shop"\n[[expected]]\nworkload = "echo"\nanomaly = "G0"\nwhy = "x"\n',
        "expected 1 matches no cell",
    ),
    "a planted defect until a day": (f"{PLANTED}until = 2027-01-31\n", "expected 1 has an until"),
    "a planted defect without an anomaly": (
        PLANTED.replace('["lost-input", "poll-skip"]', "[]"),
        "expected 1: anomaly is an empty list",
    ),
    "a planted defect that names no anomaly": (
        PLANTED.replace("anomaly", "seeds"),
        "expected 1 has no anomaly",
    ),
    "a planted defect without a reason": (PLANTED.replace('why = "planted"', ""), "expected 1 has no why"),
    "a planted defect that is known": (
        PLANTED + KNOWN.replace('"shop"', '["shop", "echo"]'),
        'cell "echo librdkafka drawn defect=no-rewind" is in known 1 and in expected 1',
    ),
    "an option of a planted defect": (
        f'{PLANTED}clients = "java"\n',
        'expected 1: there is no option "clients"',
    ),
    "no reason": (
        '[matrix]\nworkload="shop"\n' + KNOWN.replace('why = "a bug"', 'why = " "'),
        "why must be a sentence",
    ),
    "no end": (
        '[matrix]\nworkload="shop"\n' + KNOWN.replace("until = 2027-01-31", ""),
        "known 1 has no until",
    ),
    "no day": (
        '[matrix]\nworkload="shop"\n' + KNOWN.replace("2027-01-31", '"31.1.2027"'),
        "until must be a day, as 2027-01-31, not 31.1.2027",
    ),
    "a moment": (
        '[matrix]\nworkload="shop"\n' + KNOWN.replace("2027-01-31", "2027-01-31T10:00:00"),
        "until must be a day",
    ),
    "an anomaly": (
        '[matrix]\nworkload="shop"\n' + KNOWN.replace("reprocessed", "repeated"),
        "there is no anomaly",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_suite_file_is_one_sentence_before_anything_runs(
    case: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text, message = REFUSED[case]
    file = tmp_path / "night.toml"
    file.write_text(text)
    status = run_command_line(["suite", str(file), "--store", str(tmp_path / "store")])
    out, err = capfd.readouterr()
    assert status == ExitStatus.USAGE
    assert out == ""
    assert message in err
    assert str(file) in err
    assert err.count("\n") == 1
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a suite file"),
        (["none.toml"], "cannot be read"),
        (["--resume", "nowhere"], "is not a suite"),
        (["none.toml", "--limit", "soon"], "limit must be a duration, such as"),
        (["none.toml", "--jobs", "0"], "jobs must be a whole number"),
        (["none.toml", "--judge", "never"], "there is no judge"),
        (["--resume", "nowhere", "--seed", "3"], "a resumed suite keeps its seed"),
    ],
)
def test_wrong_usage_is_one_sentence(
    arguments: list[str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["suite", *arguments]) == ExitStatus.USAGE
    err = capfd.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_a_suite_record_has_no_secrets(tmp_path: Path) -> None:
    file = tmp_path / "night.toml"
    file.write_text(
        '[[include]]\nworkload = "shop"\nbroker = {"ssl.keystore.password" = "hunter2"}\n'
        '[[include]]\nworkload = "shop"\nmirror = "https://joe:sekret@mirror.example/x"\n'
        '[[include]]\nworkload = "shop"\nbroker = {"log.segment.bytes" = "1048576"}\n'
    )
    suite = plan.load(file, SuiteRequest(settle, seed=1)).suite
    assert not any(secret in json.dumps(encode(suite)) for secret in ("hunter2", "sekret"))
    assert suite.cells[2].name.endswith("broker=log.segment.bytes=1048576")


def test_the_client_config_is_read_before_anything_runs(tmp_path: Path) -> None:
    text = '[defaults]\ncluster = "external"\nclient-config = "{}"\n[matrix]\nworkload = ["shop"]\n'
    file, config = tmp_path / "staging.toml", tmp_path / "staging.properties"
    file.write_text(text.format(config))
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        plan.load(file, SuiteRequest(settle, seed=1))
    config.write_text("security.protocol=SSL\nbootstrap.servers=x:9092\n")
    (cell,) = plan.load(file, SuiteRequest(settle, seed=1)).suite.cells
    assert cell.kafka == "the cluster's own"
    file.write_text(text.format(config) + 'prefix = ["team x"]\n')
    with pytest.raises(UsageError, match="prefix must be 1 to 60 letters"):
        plan.load(file, SuiteRequest(settle, seed=1))


def test_an_exclude_that_matches_no_cell_must_be_optional(tmp_path: Path) -> None:
    text = '[matrix]\nworkload = ["shop"]\n[[exclude]]\nkafka = "3.9.2"\n'
    file = tmp_path / "night.toml"
    for more, message in (
        ("", "exclude 1 matches no cell"),
        ("optional = 1\n", "optional must be true or false"),
    ):
        file.write_text(text + more)
        with pytest.raises(UsageError, match=message):
            plan.load(file, SuiteRequest(settle, seed=1))
    file.write_text(text.replace("3.9.2", "4.1.9") + "optional = true\n")
    with pytest.raises(UsageError, match=r"exclude 1: .*4\.1\.9"):
        plan.load(file, SuiteRequest(settle, seed=1))
    file.write_text(text + "optional = true\n")
    assert len(plan.load(file, SuiteRequest(settle, seed=1)).suite.cells) == 1
