"""Print up to which offset Spark has processed each partition, from its checkpoint: lines TOPIC PARTITION OFFSET.

Spark writes the end offsets of batch N to offsets/N before it runs the batch, and commits/N when the batch is over.
"""

import json
import sys
from pathlib import Path

checkpoint = Path(sys.argv[1])
finished = [int(file.name) for file in checkpoint.glob("commits/*") if file.name.isdecimal()]
if finished:
    # The lines are: the version of the format, settings, and the offsets of each source.
    source = (checkpoint / "offsets" / str(max(finished))).read_text().splitlines()[2]
    for partition, following in json.loads(source).items():
        print("purchases", partition, following)
