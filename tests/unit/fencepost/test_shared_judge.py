"""The shared judge: who may ask, what is told, and that nothing stays behind."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import fencepost
from fencepost.judges.client import Asking, Refused, asking
from fencepost.judges.lifetime import VARIABLE
from fencepost.judges.protocol import Request, Spark, answer_as_json, answer_from_json, short_name
from harness.errors import UnreadableInput, WaitTimeout
from harness.verdict import Validity, Verdict
from harness.waiting import wait_for

READY = Request(Spark("/java", "local[2]", {}))
RUN = Request(Spark("/java", "local[2]", {"spark.x": "y"}), (("store/a", "/store/a"),), ("unseen",))
VERDICT = Verdict("store/a", "shop", 7, Validity.VALID, "all well")


@contextmanager
def answering(folder: Path, *lines: dict[str, object]) -> Iterator[tuple[Asking, list[dict[str, object]]]]:
    """A judge that says these lines, and what it was asked."""
    folder.mkdir(0o700, parents=True)
    asked: list[dict[str, object]] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server, short_name(folder / "socket") as name:
        server.bind(name)
        server.listen()

        def serve() -> None:
            channel, _ = server.accept()
            with channel, channel.makefile("rw") as stream:
                asked.append(json.loads(stream.readline()))
                stream.writelines(json.dumps(line) + "\n" for line in lines)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield Asking(folder / "socket"), asked
        thread.join(5)


def test_a_question_and_its_answer_keep_all_they_say(tmp_path: Path) -> None:
    phases: list[str] = []
    told = ({"phase": "checks"}, {"answers": [answer_as_json(VERDICT)]})
    with answering(tmp_path / ("long" * 40) / "judge", *told) as (
        judge,
        asked,
    ):  # longer than a socket's name
        (answer,) = judge.judge(RUN, phases.append)
    assert isinstance(answer, Verdict)
    assert answer.as_json() == VERDICT.as_json()
    assert phases == ["checks"]
    assert [Request.from_json(body) for body in asked] == [RUN]


def test_an_error_comes_back_as_what_it_was() -> None:
    back = answer_from_json(answer_as_json(UnreadableInput("a table is gone")))
    assert (type(back), str(back)) == (UnreadableInput, "a table is gone")
    other = answer_from_json(answer_as_json(WaitTimeout("Spark", 3, "nothing")))
    assert str(other) == "waited 3 s for Spark; last seen: nothing"


@pytest.mark.parametrize("lines", [(), ({"phase": "checks"},), ({"refused": "another Java"},)])
def test_one_that_refuses_or_ends_is_not_waited_for(
    lines: tuple[dict[str, object], ...], tmp_path: Path
) -> None:
    with (
        answering(tmp_path / "judge", *lines) as (judge, _),
        pytest.raises(Refused, match=r"another Java|without an answer"),
    ):
        judge.judge(RUN, lambda name: None)


def test_a_folder_that_is_open_to_others_is_not_trusted(tmp_path: Path) -> None:
    with answering(tmp_path / "judge", {"answers": []}) as (judge, _):
        (tmp_path / "judge").chmod(0o755)
        with pytest.raises(Refused, match="open to others"):
            judge.get_ready(READY)
        (tmp_path / "judge").chmod(0o700)
        judge.get_ready(READY)


def test_none_is_asked_where_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert asking() is None


def test_it_is_there_within_its_with_and_gone_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with fencepost.shared_judge():
        named = Path(os.environ[VARIABLE])
        with fencepost.shared_judge():  # the same
            assert os.environ[VARIABLE] == str(named)
        with pytest.raises(Refused, match="does not run"):  # it listens, and says why it will not
            Asking(named).get_ready(Request(Spark("/no/java", "local[2]", {})))
        with pytest.raises(Refused, match="another installation's"):  # whose checkers may be others
            Asking(named).get_ready(Request(Spark("/no/java", "local[2]", {}, house="/elsewhere")))
    assert VARIABLE not in os.environ
    assert not named.parent.exists()


def test_it_ends_with_whoever_started_it_whatever_ends_him() -> None:
    code = (
        "import fencepost, os, sys, time\n"
        "with fencepost.shared_judge():\n"
        "    print(os.environ['FENCEPOST_JUDGE'], flush=True)\n"
        "    time.sleep(600)\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    starter = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert starter.stdout is not None
    named = Path(starter.stdout.readline().strip())
    wait_for(named.exists, "the judge to listen", 20)
    starter.kill()
    starter.communicate()
    wait_for(lambda: not _named_in_processes(named), f"no process to name {named}", 20)
    assert not named.parent.exists()


def _named_in_processes(path: Path) -> bool:
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(path) in command.read_bytes().decode(errors="replace"):
                return True
        except OSError:  # it has ended
            continue
    return False
