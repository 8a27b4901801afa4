"""A user's project with tests that use the pytest plugin, and a fake `fencepost` command that answers at once."""

import json
import sys

import pytest

from fencepost.sharing import SERVER_VARIABLE

COMMAND = """
import json, os, select, socket, sys
from pathlib import Path
if sys.argv[1] == "_serve":
    Path(os.environ["OPTIONS_FILE"] + f".server-{os.getpid()}").touch()
    cluster = Path(os.environ["OPTIONS_FILE"] + f".cluster-{os.getpid()}")
    listener = socket.socket(fileno=int(sys.argv[3]))
    while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
        channel, _ = listener.accept()
        with channel, channel.makefile("rw") as stream:
            line = stream.readline()
            if "brokers=9" in line:
                print(json.dumps({"refused": "brokers must be 1 to 7", "status": 2}), file=stream)
            elif line:
                cluster.write_text("up")
                address = {"bootstrap": "127.0.0.1:4711", "cluster": "local", "kafka": "3.9.2"}
                print(json.dumps({"cluster": address}), file=stream)
    if cluster.exists():
        cluster.write_text("ended")
    sys.exit(0)
options = dict(word.split("=", 1) for word in sys.argv[2:] if "=" in word)
with open(os.environ["OPTIONS_FILE"], "a") as file:
    print(json.dumps(options), file=file)
if options.get("workers") == "many":
    Path(os.environ["FENCEPOST_LAST_WORDS"]).write_text("workers must be a number")
    sys.exit(2)
store = Path(options["store"])
store.mkdir(parents=True, exist_ok=True)
(store / "report.html").touch()
command = "fencepost run --seed " + options["seed"]
if "bootstrap" in options:
    command += " --cluster external --rate 50 --set bootstrap=" + options["bootstrap"]
(store / "run.toml").write_text("[run]\\ncommand = '%s'" % command)
good = options.get("defect") is None
found = {} if good else {"lost-input": {"count": 2, "allowed": False, "sentences": ["input a/0 offset 1 is lost"]}}
summary = "all well" if good else "2 inputs were lost"
verdict = {"history": str(store), "valid": good, "summary": summary, "seed": int(options["seed"]), "anomalies": found}
print(json.dumps(verdict))
sys.exit(0 if good else 1)
"""
"""It answers as `fencepost run --json` does, and appends its options to the file in OPTIONS_FILE."""


class Project:
    """A user's project."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pytester = pytester
        self.options_file = pytester.path / "options.jsonl"
        command = pytester.path / "stand in.py"
        command.write_text(COMMAND)
        monkeypatch.setenv("OPTIONS_FILE", str(self.options_file))
        # The tests that run this one may share a server.
        monkeypatch.delenv(SERVER_VARIABLE, raising=False)
        self.command = f"{sys.executable} '{command}'"

    def run(self, code: str, *words: str) -> pytest.RunResult:
        self.options_file.unlink(missing_ok=True)
        self.pytester.makepyfile(test_shop="import pytest\n\n" + code)
        return self.pytester.runpytest(f"--fencepost-command={self.command}", *words)

    @property
    def servers(self) -> int:
        """The number of servers that were started."""
        return len(list(self.pytester.path.glob("options.jsonl.server-*")))

    @property
    def requested_options(self) -> list[dict[str, str]]:
        """The options of each run, in order."""
        return [json.loads(line) for line in self.options_file.read_text().splitlines()]

    @property
    def clusters(self) -> list[str]:
        """The state of each cluster that was started: up or ended."""
        return [state.read_text() for state in self.pytester.path.glob("options.jsonl.cluster-*")]
