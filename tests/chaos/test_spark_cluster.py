"""`fencepost check --master spark://...` on a real standalone cluster: a master and two workers."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from benchmarks.cluster import spark_cluster
from benchmarks.scale import write
from checkers.spark.session import require_full_jdk
from harness.common.errors import EnvironmentFailure
from harness.environment.java import find_java
from tests.reference.generate import random_history, to_edn
from tests.support.needs import skip_or_fail


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a cluster. It ends with the tests, even if their process is killed."""
    try:
        require_full_jdk(find_java("auto").home / "bin" / "java")
    except EnvironmentFailure as error:
        skip_or_fail("jdk", str(error))
    with spark_cluster(tmp_path_factory.mktemp("spark")) as url:
        yield url


def check(*arguments: object) -> tuple[int, list[dict[str, Any]], str]:
    command = [sys.executable, "-P", "-m", "fencepost", "check", "--json", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def write_correct_history(folder: Path) -> Path:
    """Write a history without anomalies."""
    path = folder / "right.edn"
    path.write_text(to_edn(random_history(Random(3), 60, set())))
    return path


def test_a_spark_cluster_gives_the_same_verdict_as_this_machine(master: str, tmp_path: Path) -> None:
    write(tmp_path / "tables", 500)
    (tmp_path / "h.edn").write_text(to_edn(random_history(Random(1), 60, {"G1c"})))
    write_correct_history(tmp_path)
    (tmp_path / "wrong.edn").write_text("{:process 0\n")
    histories = (tmp_path / "tables", *sorted(tmp_path.glob("*.edn")))
    local, on_cluster = check(*histories), check("--master", master, *histories)
    assert on_cluster[:2] == local[:2], on_cluster[2]
    assert on_cluster[0] == 2
    assert [verdict["valid"] for verdict in on_cluster[1]] == [False, False, True, "unknown"]
    assert {"torn-transaction", "duplicate", "G1c"} <= {
        name for verdict in on_cluster[1] for name in verdict.get("anomalies", ())
    }


LOCATE_CODE = """
import sys
from importlib import import_module
from checkers.spark.session import SparkSettings, session
from harness.environment.java import find_java

with session(SparkSettings(java_home=find_java("auto").home, master=sys.argv[1])) as spark:
    tasks = spark.sparkContext.parallelize(range(8), 8)
    print(*tasks.map(lambda _: import_module("checkers.histories.blocks").__file__).collect())
"""


def test_the_workers_run_the_code_that_the_check_sends(master: str) -> None:
    # In another process, because a process has only one Spark, and ours may be local.
    done = subprocess.run(
        [sys.executable, "-P", "-c", LOCATE_CODE, master], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    # In the executor's own folder.
    assert done.stdout.split() == ["./fencepost-rooms.zip/checkers/histories/blocks.py"] * 8


def test_a_python_that_workers_lack_ends_with_one_sentence_and_status_4(master: str, tmp_path: Path) -> None:
    history = write_correct_history(tmp_path)
    python = f"spark.pyspark.python={tmp_path}/no-python"
    status, verdicts, errors = check("--master", master, "--spark-conf", python, history)
    assert (status, verdicts) == (4, [])
    last = errors.splitlines()[-1]
    assert last.startswith(f"fencepost: the workers of {master} cannot run Fencepost's tasks (")
    assert "No such file or directory" in last and "spark.pyspark.python=PATH" in last


def test_a_missing_master_ends_at_once_with_one_sentence_and_status_4(tmp_path: Path) -> None:
    status, verdicts, errors = check("--master", "spark://127.0.0.1:1", write_correct_history(tmp_path))
    assert (status, verdicts) == (4, [])
    assert errors.splitlines()[-1].startswith("fencepost: no Spark master answers at spark://127.0.0.1:1 (")


def test_a_master_without_a_port_is_wrong_usage() -> None:
    assert check("--master", "spark://somewhere", "h.jsonl")[0] == 2
