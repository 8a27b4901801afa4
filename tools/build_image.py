"""Build the image that `--cluster docker --set image=bundled` uses, and print its name.

    python -P tools/build_image.py [KAFKA-VERSION]

The image contains Java, Kafka and a few programs of this machine. No image registry is needed. `docker save NAME`
writes the image to a file, for a machine without these programs.
"""

import sys

from harness.common.errors import FencepostError
from harness.containers.daemon import connect
from harness.environment.cache import cache_folder
from harness.environment.container_image import container_image
from harness.environment.kafka import fetch_kafka
from harness.environment.kafka_versions import DEFAULT_KAFKA


def main() -> int:
    version = sys.argv[1] if len(sys.argv) > 1 else DEFAULT_KAFKA
    try:
        cache = cache_folder()
        print(container_image(connect(), "bundled", fetch_kafka(version, cache), cache, print).name)
    except FencepostError as error:
        print(error, file=sys.stderr)
        return int(error.exit_status)
    return 0


if __name__ == "__main__":
    sys.exit(main())
