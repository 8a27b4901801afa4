"""One JVM inside a worker's process, by JPype: started once, with the jars that a run fetched.

SIGSTOP and SIGKILL strike it like any process. `-Xrs` and `interrupt=False` leave all other signals to Python.
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
"""What consumers and producers are both told; as librdkafka's, where the two have the same setting."""
BYTE_ARRAY = "org.apache.kafka.common.serialization.ByteArray"
"""Begins the names of the serializer and the deserializer of plain bytes."""


def start(spec: JvmSpec) -> None:
    """Start it, unless it runs."""
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
    """A class of Java's, by its whole name."""
    return jpype.JClass(name)


def text(value: Any) -> str:
    """A Java string, or what a Java object says of itself."""
    return "null" if value is None else str(value.toString() if hasattr(value, "toString") else value)


def java_list(items: Sequence[Any]) -> Any:
    """A java.util.ArrayList of them."""
    made = java_class("java.util.ArrayList")()
    for item in items:
        made.add(item)
    return made


def java_map(items: dict[str, Any]) -> Any:
    """A java.util.HashMap of settings: text, whole numbers and truth as the client takes them, which is as text."""
    made = java_class("java.util.HashMap")()
    for key, value in items.items():
        made.put(key, str(value).lower() if isinstance(value, bool) else str(value))
    return made


def duration(seconds: float) -> Any:
    """A java.time.Duration."""
    return java_class("java.time.Duration").ofMillis(int(seconds * 1000))
