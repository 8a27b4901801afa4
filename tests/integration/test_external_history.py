"""A user's folders may have the names of our packages (rooms) when a history is read."""

import subprocess
import sys
from pathlib import Path

READ = """
import sys
from pathlib import Path
from checkers.external.read_files import HistoryFile, read_histories
from checkers.spark.session import SparkSettings, session
with session(SparkSettings()) as spark:
    read = read_histories(spark, [HistoryFile(0, Path(sys.argv[1]))])
    print(read.ops.frame().count(), dict(read.errors))
"""


def test_a_users_folder_with_the_name_of_a_room_is_not_imported(tmp_path: Path) -> None:
    for room in ("harness", "checkers"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "__init__.py").write_text("raise SystemExit('the wrong room')")
    event = '{"process":0,"type":"%s","f":"poll","value":[["poll"]]}\n'
    (tmp_path / "h.jsonl").write_text(event % "invoke" + event % "ok")
    done = subprocess.run(
        [sys.executable, "-P", "-c", READ, "h.jsonl"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split("\n")[0] == "1 {}", done.stderr
