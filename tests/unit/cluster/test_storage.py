"""The data folders of new nodes, with the features that Kafka's StorageTool writes."""

import sys
from pathlib import Path

import pytest
from kafka.record import MemoryRecordsBuilder

from harness.cluster.started_node import feature_files, feature_levels
from harness.common.errors import StartFailed

pytestmark = pytest.mark.processes

TOOL = """
import sys
from pathlib import Path
config = dict(line.split("=", 1) for line in Path(sys.argv[sys.argv.index("--config") + 1]).read_text().split())
data = Path(config["log.dirs"])
for name in {names}:
    (data / name).parent.mkdir(parents=True, exist_ok=True)
    (data / name).write_text(" ".join(sys.argv[5:]))
sys.exit("no format of that kind" if {status} else 0)
"""
OF_4_3 = "bootstrap.checkpoint"
OF_4_4 = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"


def tool(*names: str, status: int = 0) -> list[str]:
    """A command in place of StorageTool that writes these files."""
    return [sys.executable, "-c", TOOL.format(names=names, status=status)]


@pytest.mark.parametrize("checkpoint", [OF_4_3, OF_4_4])
def test_the_features_are_stored_where_the_tool_has_written_them(checkpoint: str, tmp_path: Path) -> None:
    def made_once(folder: Path) -> list[str]:
        calls.append(folder)
        return tool("meta.properties", checkpoint)

    calls: list[Path] = []
    for _ in range(2):
        files = feature_files(tmp_path, "4", made_once, transaction_version=1)
        assert files == {checkpoint: b"--feature transaction.version=1"}
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (tool("meta.properties"), r"wrote no \*.checkpoint, but \['meta.properties'\]"),
        (tool(OF_4_4, status=1), "could not format a data folder: no format of that kind"),
    ],
)
def test_a_tool_that_writes_no_features_is_an_error(command: list[str], words: str, tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match=words):
        feature_files(tmp_path, "4", lambda folder: command)
    assert not (tmp_path / "features-4").exists()


def test_the_levels_of_features_are_read_from_the_files_of_the_tool() -> None:
    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=4096)
    for offset, value in enumerate(
        (
            b"\x01\x0c\x00\x11metadata.version\x00\x21\x00",
            b"\x01\x15\x00?",
            b"\x01\x0c\x00\x0egroup.version\x00\x01\x00",
        )
    ):
        builder.append(timestamp=offset, key=None, value=value)
    builder.close()
    assert feature_levels({OF_4_4: builder.buffer()}) == {"metadata.version": 33, "group.version": 1}
