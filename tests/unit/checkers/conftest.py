"""All cases are judged together, as runs of one store, in one Spark job."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import pytest
from cases import CASES
from histories import write
from pyspark.sql import SparkSession

from checkers.judge import StoredRun, judge
from harness.verdict import Judgement

for family in ("transactions", "records", "inputs", "reads", "order", "evidence", "log", "warnings"):
    import_module(f"case_{family}")


@pytest.fixture(scope="session")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Judgement]:
    """What the checkers say of each case, by its name."""
    histories = [(run, case.name, case.build()) for run, case in enumerate(CASES)]
    folders: dict[bool, Path] = {}
    for log in (True, False):
        folders[log] = tmp_path_factory.mktemp("store")
        write(folders[log], [(run, history) for run, _, history in histories if history.log is log], log=log)
    runs = [
        StoredRun(
            run,
            folders[h.log],
            h.wall_ms,
            allowed=dict.fromkeys(h.allowed, "the workload"),
            incomplete=h.incomplete,
            healed_ns=h.healed_ns,
            session_ms=h.session_ms,
        )
        for run, _, h in histories
    ]
    judgements = judge(spark, runs)
    return {name: judgements[run] for run, name, _ in histories}
