"""Compare our decoder with the classes that Kafka generates from the same schemas.

`python -P -m tests.support.kafka_messages FOLDER_OF_JARS` prints one line for each difference.
"""

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jpype

from harness.environment.cache import cache_folder
from harness.environment.kafka import fetch_kafka
from harness.model.kafka_protocol import error_codes
from harness.protocol.schemas import MessageSchema, Schemas
from tests.support.protocol_messages import every_message, is_same, random_message

ROUNDS = 5


def compare_with_kafka(version: str) -> None:
    """Compare with the classes of a version of Kafka, in a process of its own, because it can have only one JVM."""
    jar = fetch_kafka(version, cache_folder()).clients_jar
    command = [sys.executable, "-P", "-m", "tests.support.kafka_messages", str(jar.parent)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stderr.split("compared ")[1].split()[0]) > 1000


def differences(jars: Path) -> Iterator[str]:
    """Let Kafka's class read each message that we write, and write it again: the bytes must be the same."""
    jpype.startJVM(classpath=[str(jar) for jar in jars.glob("*.jar")], convertStrings=False)
    (clients,) = jars.glob("kafka-clients-*.jar")
    schemas, rng, count = Schemas.of_jar(clients), random.Random(1), 0
    for _, schema, version in every_message(schemas):
        for _ in range(ROUNDS):
            message = random_message(rng, schema, version)
            count += 1
            if problem := _difference(schema, message, version):
                yield f"{schema.name} version {version}: {problem}"
                break
    theirs = {
        str(error.name()): int(error.code())
        for error in jpype.JClass("org.apache.kafka.common.protocol.Errors").values()
    }
    ours = {name: code for name, code in error_codes().items() if name in theirs}
    if ours != theirs:
        yield f"error codes: Kafka has {theirs.items() - ours.items()}"
    if not count:
        yield "no message was compared"
    sys.stderr.write(f"compared {count} messages\n")


def _difference(schema: MessageSchema, message: dict[str, Any], version: int) -> str | None:
    encoded = schema.encode(message, version)
    kind = jpype.JClass(f"org.apache.kafka.common.message.{schema.name}Data")
    accessor = jpype.JClass("org.apache.kafka.common.protocol.ByteBufferAccessor")
    buffer = jpype.JClass("java.nio.ByteBuffer")
    try:
        theirs = kind(accessor(buffer.wrap(jpype.JArray(jpype.JByte)(encoded))), jpype.JShort(version))
        cache = jpype.JClass("org.apache.kafka.common.protocol.ObjectSerializationCache")()
        size = theirs.size(cache, jpype.JShort(version))
        out = buffer.allocate(size)
        theirs.write(accessor(out), cache, jpype.JShort(version))
    except jpype.JException as error:
        return f"Kafka cannot read it: {error}"
    again = bytes(out.array())
    if again == encoded:
        return None
    decoded, end = schema.decode(memoryview(again), version)
    unchanged = end == len(again) and is_same(schema.fields, decoded, message, version)
    return None if unchanged else "the bytes differ"


if __name__ == "__main__":
    found = list(differences(Path(sys.argv[1])))
    sys.stdout.write("\n".join(found))
    sys.exit(bool(found))
