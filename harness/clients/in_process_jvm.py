"""Start one JVM inside a worker's process, through JPype, with the jars of the run's client.

SIGSTOP and SIGKILL stop and end the JVM with the process. `-Xrs` and `interrupt=False` leave other signals to Python.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import jpype

from harness.processes.specs import JvmSpec

HEAP_MB = 128
COMMON: Mapping[str, Any] = {
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "retry.backoff.ms": 50,
    "metadata.max.age.ms": 5_000,
    "request.timeout.ms": 10_000,
}
"""Properties of all consumers and producers. librdkafka gets the same values, where it has the same settings."""
BYTE_ARRAY = "org.apache.kafka.common.serialization.ByteArray"
"""The common start of the names of the byte array serializer and deserializer."""


def start(spec: JvmSpec) -> None:
    """Start the JVM, unless it runs already."""
    if jpype.isJVMStarted():
        return
    jpype.startJVM(
        str(spec.library),
        "-Xrs",
        f"-Xmx{HEAP_MB}m",
        f"-Djava.io.tmpdir={spec.folder}",
        f"-XX:ErrorFile={spec.folder}/hs_err_%p.log",
        "-Dlog4j2.level=ERROR",
        *spec.flags,
        classpath=[str(jar) for jar in spec.class_path],
        convertStrings=False,
        interrupt=False,
    )


@cache
def java_class(name: str) -> Any:
    """Return a Java class by its full name."""
    return jpype.JClass(name)


def text(value: Any) -> str:
    """Return a Java string, or a Java object's `toString()`, as a Python string."""
    return "null" if value is None else str(value.toString() if hasattr(value, "toString") else value)


def java_list(items: Sequence[Any]) -> Any:
    result = java_class("java.util.ArrayList")()
    for item in items:
        result.add(item)
    return result


def java_map(items: dict[str, Any]) -> Any:
    """Return a java.util.HashMap of client properties. All values become strings, which the Java client parses."""
    result = java_class("java.util.HashMap")()
    for key, value in items.items():
        result.put(key, str(value).lower() if isinstance(value, bool) else str(value))
    return result


def duration(seconds: float) -> Any:
    return java_class("java.time.Duration").ofMillis(int(seconds * 1000))
