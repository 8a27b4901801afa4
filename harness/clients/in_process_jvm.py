"""Start one JVM inside a worker's process, through JPype, and translate its values and exceptions.

SIGSTOP and SIGKILL stop and end the JVM with the process. `-Xrs` and `interrupt=False` leave other signals to Python.

The first row of the error table whose class matches the exception, or one of its causes, decides. Fatal classes come
before abortable classes in the table, because the client wraps the first error in a `KafkaException`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import jpype

from harness.clients.error_table import JAVA_ROWS
from harness.clients.interface import ClientError, ErrorMeaning, PartitionOffset
from harness.processes.specs import JvmSpec
from harness.record.naming import Headers

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


def byte_array(content: str | bytes | None) -> Any:
    if content is None:
        return None
    return jpype.JArray(jpype.JByte)(content.encode() if isinstance(content, str) else content)


def plain_bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


class JavaRecord:
    """A `ClientRecord` made from a Java ConsumerRecord."""

    def __init__(self, record: Any) -> None:
        self._topic = text(record.topic())
        self._partition = int(record.partition())
        self._offset = int(record.offset())
        self._key = plain_bytes(record.key())
        self._value = plain_bytes(record.value())
        self._headers: Headers = [
            (text(header.key()), plain_bytes(header.value())) for header in record.headers()
        ]
        self._timestamp = (1, int(record.timestamp()))

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> Headers | None:
        return self._headers

    def timestamp(self) -> tuple[int, int]:
        return self._timestamp


def topic_partitions(partitions: Any) -> list[tuple[str, int]]:
    return [(text(java.topic()), int(java.partition())) for java in partitions]


def partition(topic: str, number: int) -> Any:
    return java_class("org.apache.kafka.common.TopicPartition")(topic, number)


def offsets_of(positions: Sequence[PartitionOffset]) -> Any:
    """Return the argument of a commit: a Map of TopicPartition to OffsetAndMetadata."""
    offsets = java_class("java.util.HashMap")()
    offset_and_metadata = java_class("org.apache.kafka.clients.consumer.OffsetAndMetadata")
    for p in positions:
        value = offset_and_metadata(jpype.JLong(p.offset), p.metadata)
        offsets.put(partition(p.topic, p.partition), value)
    return offsets


def classify(error: BaseException) -> ClientError | None:
    """Translate a Java exception. Return None for any other exception."""
    if not isinstance(error, jpype.JException):
        return None
    chain = [error]
    while (cause := chain[-1].getCause()) is not None and len(chain) < 10:
        chain.append(cause)
    meaning = next(
        (meaning for kind, meaning in _meanings() if any(isinstance(link, kind) for link in chain)),
        ErrorMeaning.UNKNOWN,
    )
    message = "; caused by ".join(
        f"{text(link.getClass().getSimpleName())}: {text(link.getMessage())}" for link in chain
    )
    return ClientError(meaning, message)


@cache
def _meanings() -> list[tuple[Any, ErrorMeaning]]:
    """Return class and meaning of each row. Rows whose class is not in this version of the client are left out."""
    rows = ((_class(row.exception), row.java) for row in JAVA_ROWS)
    return [(kind, meaning) for kind, meaning in rows if kind is not None and meaning is not None]


def _class(name: str | None) -> Any:
    try:
        return name and java_class(name)
    except TypeError:
        return None


@contextmanager
def translate_errors() -> Iterator[None]:
    """Inside a `with` block, translate Java exceptions into `ClientError`."""
    try:
        yield
    except jpype.JException as error:
        client_error = classify(error)
        assert client_error is not None
        raise client_error from None
