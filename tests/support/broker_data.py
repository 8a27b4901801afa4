"""The data folder of a broker with one partition, for faults that change files."""

from pathlib import Path

from kafka.record.memory_records import MemoryRecordsBuilder

from harness.cluster.storage import format_node, new_id

BATCHES = 5


def make_data(folder: Path, topic: str = "in") -> Path:
    """Format a data folder, write some batches of one record into partition 0 of the topic, and return the folder."""
    format_node(folder, new_id(), 1, {})
    partition = folder / f"{topic}-0"
    partition.mkdir()
    with (partition / f"{0:020}.log").open("wb") as segment:
        for offset in range(BATCHES):
            records = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1024)
            records.append(timestamp=0, key=None, value=b"value %d" % offset)
            records.close()
            segment.write(
                offset.to_bytes(8) + bytes(records.buffer())[8:]
            )  # the CRC does not cover the offset
    return folder
