"""The exceptions of Kafka's Java client have the meanings of the table. The classes are from the real jar."""

import subprocess
import sys
from pathlib import Path

import pytest

from harness.common.errors import EnvironmentFailure
from harness.environment.cache import cache_folder
from harness.environment.java import find_java, jvm_library
from harness.environment.kafka import fetch_kafka
from harness.environment.versions import DEFAULT_KAFKA

# A JVM lives as long as its process, so the test starts another process.
SCRIPT = """
import sys
from pathlib import Path
import jpype
from harness.clients import in_process_jvm as jvm
from harness.clients.error_table import JAVA_ROWS
from harness.clients.interface import ErrorMeaning
from harness.processes.specs import JvmSpec
library, folder, *jars = sys.argv[1:]
jvm.start(JvmSpec(Path(library), tuple(map(Path, jars)), Path(folder)))
made = 0
for row in JAVA_ROWS:
    kind = jvm.java_class(row.exception)
    try:
        error = kind("words")
    except (TypeError, jpype.JException):
        continue  # its constructor takes other arguments, or it is abstract
    jvm.java_class("java.lang.Thread").interrupted()  # to create an InterruptException interrupts the thread
    made += 1
    assert jvm.classify(error).meaning is row.java, row
    wrapped = jvm.java_class("org.apache.kafka.common.KafkaException")("wrapped", error)
    assert jvm.classify(wrapped).meaning is row.java, row
assert made > 25, made
JAVA_ROWS.insert(0, type(JAVA_ROWS[0])("NEW", "", "", exception="org.apache.kafka.Newer", java=ErrorMeaning.FATAL))
jvm._meanings.cache_clear()
error = jvm.java_class("org.apache.kafka.common.errors.TimeoutException")("an older client lacks a class")
assert jvm.classify(error).meaning is ErrorMeaning.RETRIABLE
other = jvm.java_class("java.io.IOException")("words")
assert jvm.classify(other).meaning is ErrorMeaning.UNKNOWN
assert jvm.classify(ValueError()) is None
"""


@pytest.mark.processes
def test_a_java_exception_has_the_meaning_of_its_row(tmp_path: Path) -> None:
    library = jvm_library(find_java("auto"))
    jars = fetch_kafka(DEFAULT_KAFKA, cache_folder()).class_path  # fetched if the cache does not have them
    command = [sys.executable, "-P", "-c", SCRIPT, str(library), str(tmp_path), *map(str, jars)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("lack", ["jpype", "library"])
def test_the_error_names_what_a_jvm_in_a_process_lacks(
    lack: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from harness.environment import java as java_module

    java = java_module.Java(tmp_path, tmp_path / "bin" / "java", 17, "17.0.1", "PATH")
    if lack == "jpype":
        monkeypatch.setitem(sys.modules, "jpype", None)
    with pytest.raises(EnvironmentFailure, match="jpype" if lack == "jpype" else "libjvm"):
        java_module.require_in_process(java)
