"""A real JVM of Spark: it always ends with our process, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from checkers.spark.session import SparkSettings, start_spark
from harness.common.errors import EnvironmentFailure
from harness.common.waiting import wait_for

STARTING = """
import sys
from checkers.spark.session import SparkSettings, start_spark
pending = start_spark(SparkSettings())
if sys.argv[1] == "ready":
    pending.session()
print(pending._jvm.pid, pending._folder, flush=True)
sys.stdin.read()
"""


INTERRUPTED_JOB = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # our parent process may ignore the signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from checkers.spark.session import interruptible
from checkers.spark.session import SparkSettings, start_spark
from harness.common.waiting import wait_for
pending = start_spark(SparkSettings())
with closing(pending), interruptible(pending, lambda: None), ThreadPoolExecutor() as pool:
    spark = pending.session()
    job = pool.submit(lambda: spark.range(10**13).selectExpr("max(id % 7)").collect())
    wait_for(spark.sparkContext.statusTracker().getActiveJobsIds, "the job to run", 30)
    print(pending._jvm.pid, pending._folder, flush=True)
    job.result()
"""


def test_an_interrupt_ends_spark_in_the_middle_of_a_job() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED_JOB], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout
    pid, folder = child.stdout.readline().split()
    jvm = psutil.Process(int(pid))
    os.kill(child.pid, signal.SIGINT)
    _, errors = child.communicate(timeout=20)
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert "while sending command" not in errors
    assert "Unable to cleanly shutdown" not in errors
    wait_for(lambda: not jvm.is_running(), "Spark's JVM to end", 10)
    assert not Path(folder).exists()


@pytest.mark.parametrize("moment", ["starting", "ready"])
def test_a_killed_process_leaves_no_spark_process_and_no_folder(moment: str) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", STARTING, moment], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout
    pid, folder = child.stdout.readline().split()
    processes = [psutil.Process(int(pid)), *psutil.Process(int(pid)).children(recursive=True)]
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    wait_for(lambda: not any(p.is_running() for p in processes), "Spark's JVM to end", 30)
    wait_for(lambda: not Path(folder).exists(), "Spark's folder to be removed", 10)


def test_the_message_about_a_heap_that_is_too_small_names_spark() -> None:
    pending = start_spark(SparkSettings(conf={"spark.driver.memory": "16m"}))
    try:
        with pytest.raises(EnvironmentFailure, match="Spark"):
            pending.session()
    finally:
        pending.close()
    assert not pending._folder.exists()
