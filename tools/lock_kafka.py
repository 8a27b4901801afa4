"""Write the lock file of one Kafka version: `python tools/lock_kafka.py 4.4.0` (needs Maven's `mvn`).

The jars are the run-time dependencies of a broker, as Maven resolves them, then `kafka-tools` without its dependencies
(which include all of Kafka Connect), then the library and the binding without which brokers log nothing. Never resolve
two roots at once: Maven may then choose another version of kafka-clients than that of the broker.
"""

import hashlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "harness" / "environment"
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>lock</groupId><artifactId>lock</artifactId><version>1</version><dependencies><dependency>
<groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency></dependencies></project>
"""
LINE = re.compile(r"^\s+([\w.-]+):([\w.-]+):jar:([\w.-]+):(?:compile|runtime):(/\S+\.jar)", re.M)

LOG4J_OF_4_0 = "2.25.4"
"""Kafka 4.0 logs with log4j2, but does not pin its version. This is the version in the lock file of Kafka 4.3.1."""
RELOAD4J = ("org.slf4j", "slf4j-reload4j")
"""Kafka 3.9 logs with reload4j, the maintained fork of log4j 1. Only the dependencies of its tools name it."""

Jars = dict[tuple[str, str], tuple[str, Path]]


def closure(group: str, artifact: str, version: str) -> Jars:
    """Return the version that Maven chooses and its file, for each (group, artifact)."""
    with tempfile.TemporaryDirectory() as folder:
        pom, answer = Path(folder, "pom.xml"), Path(folder, "answer")
        pom.write_text(POM.format(group, artifact, version), encoding="utf-8")
        goal = ["dependency:list", "-DincludeScope=runtime", "-DoutputAbsoluteArtifactFilename=true"]
        mvn = ["mvn", "--batch-mode", "--quiet", "--strict-checksums", "--file", str(pom)]
        subprocess.run([*mvn, *goal, f"-DoutputFile={answer}"], check=True)
        return {(g, a): (v, Path(file)) for g, a, v, file in LINE.findall(answer.read_text(encoding="utf-8"))}


def lock(version: str) -> str:
    """Return the text of the lock file."""
    jars = closure("org.apache.kafka", "kafka_2.13", version)
    tools = closure("org.apache.kafka", "kafka-tools", version)
    jars["org.apache.kafka", "kafka-tools"] = tools["org.apache.kafka", "kafka-tools"]
    jars = {**logging(jars, tools), **jars}
    for (group, artifact), (settled, _) in jars.items():
        assert group != "org.apache.kafka" or settled == version, f"{artifact} {settled}"
    lines = [f"# Kafka {version}: written by tools/lock_kafka.py; group:artifact:version, sha256"]
    for (group, artifact), (settled, file) in sorted(jars.items()):
        lines.append(f"{group}:{artifact}:{settled} {hashlib.sha256(file.read_bytes()).hexdigest()}")
    return "\n".join(lines) + "\n"


def logging(jars: Jars, tools: Jars) -> Jars:
    """Return the jars with which a broker logs. Versions from the broker's dependencies have priority."""
    if RELOAD4J in tools:
        return closure(*RELOAD4J, tools[RELOAD4J][0])
    group = "org.apache.logging.log4j"
    log4j, _ = jars.get((group, "log4j-core"), (LOG4J_OF_4_0, None))
    slf4j, _ = jars["org.slf4j", "slf4j-api"]
    binding = "log4j-slf4j-impl" if slf4j.startswith("1.") else "log4j-slf4j2-impl"
    available = closure(group, binding, log4j)
    return {jar: available[jar] for jar in ((group, binding), (group, "log4j-core"), (group, "log4j-api"))}


if __name__ == "__main__":
    (FOLDER / f"kafka-{sys.argv[1]}.lock").write_text(lock(sys.argv[1]), encoding="utf-8")
