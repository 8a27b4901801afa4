"""The data folder of a broker with one partition, for faults that change or read files."""

from pathlib import Path

from kafka.record.memory_records import MemoryRecordsBuilder

from harness.cluster.started_node import format_node, new_id

BATCHES = 5


def make_data(folder: Path, topic: str = "in") -> Path:
    """Format a data folder, write partition 0 of the topic, and return the folder."""
    format_node(folder, new_id(), 1, {})
    write_partition(folder, topic)
    return folder


def write_partition(folder: Path, topic: str, timestamp_ms: int = 0) -> None:
    """Write some batches of one record into partition 0 of a topic."""
    partition = folder / f"{topic}-0"
    partition.mkdir(parents=True)
    with (partition / f"{0:020}.log").open("wb") as segment:
        for offset in range(BATCHES):
            records = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1024)
            records.append(timestamp=timestamp_ms, key=None, value=b"value %d" % offset)
            records.close()
            segment.write(
                offset.to_bytes(8) + bytes(records.buffer())[8:]
            )  # the CRC does not cover the offset
