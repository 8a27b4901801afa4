"""Secrets that a user hands in: none is stored or shown, and a repeated run asks for them again."""

from importlib import import_module

import pytest

from fencepost import registry
from fencepost.checks.run_folders import find_histories
from fencepost.command_line import command_line
from fencepost.commands import replay
from harness.common.errors import FetchFailed, UnreadableInput, UsageError
from harness.common.secrets import REDACTED, is_secret, redact_setting, redact_text
from harness.environment import kafka
from harness.settings.options import Options, from_toml, parse_set
from harness.settings.run_file import StoredPlan

SECRET = "hunter2"
HELD = Options(
    seed=1,
    mirror=f"https://me:{SECRET}@host/maven",
    spark_conf={
        "spark.hadoop.fs.s3a.secret.key": SECRET,
        "spark.driver.extraJavaOptions": f"-Da.password={SECRET} -Xss1m",
        "spark.driver.memory": "2g",
    },
    settings={"ssl.keystore.password": SECRET, "log.segment.bytes": "1024"},
)
NAMES = (
    "mirror",
    "spark.hadoop.fs.s3a.secret.key",
    "spark.driver.extraJavaOptions",
    "broker.ssl.keystore.password",
)


def test_no_secret_is_stored_and_the_rest_is(tmp_path):
    StoredPlan(HELD, {"command": command_line(HELD)}).save(tmp_path / "run.toml")
    assert SECRET not in (tmp_path / "run.toml").read_text()
    stored = StoredPlan.load(tmp_path / "run.toml").options
    assert stored.missing_secrets == NAMES
    assert (stored.spark_conf["spark.driver.memory"], stored.settings["log.segment.bytes"]) == ("2g", "1024")
    assert stored.mirror == f"https://{REDACTED}@host/maven"


def test_the_repeat_command_shows_which_setting_to_give_again():
    command = command_line(HELD)
    assert SECRET not in command
    assert f"spark.hadoop.fs.s3a.secret.key={REDACTED}" in command
    assert f"broker.ssl.keystore.password={REDACTED}" in command


def test_a_run_from_what_was_stored_names_what_is_missing():
    stored = from_toml({"spark-conf": {"spark.a.token": REDACTED}, "mirror": f"https://{REDACTED}@host/"})
    with pytest.raises(UsageError, match=r"^mirror, spark\.a\.token must be given again[^\n]*$"):
        stored.validated(registry.known_names())
    again = stored.updated(parse_set("spark.a.token=x")).updated(parse_set("mirror=https://a:b@host/"))
    assert again.validated(registry.known_names()) == again


def test_replay_refuses_without_its_secrets_and_takes_them_again(tmp_path, monkeypatch):
    (tmp_path / "run.toml").write_text(StoredPlan(HELD).text())
    with pytest.raises(UsageError, match="must be given again"):
        replay.command.main([str(tmp_path)], standalone_mode=False)
    with pytest.raises(UsageError, match="replay cannot change rate"):
        replay.command.main([str(tmp_path), "--set", "rate=1"], standalone_mode=False)
    asked = []

    def run(options, *_, command, **__):
        asked.append((options, command))
        raise UnreadableInput("far enough")

    monkeypatch.setattr(import_module("fencepost.runs.carry_out"), "run", run)
    words = [
        *("--set", f"mirror={HELD.mirror}", "--spark-conf", f"{NAMES[1]}={SECRET}"),
        *("--spark-conf", f"{NAMES[2]}={HELD.spark_conf[NAMES[2]]}", "--set", f"{NAMES[3]}={SECRET}"),
    ]
    with pytest.raises(UnreadableInput, match="far enough"):
        replay.command.main([str(tmp_path), *words], standalone_mode=False)
    ((options, command),) = asked
    assert options == HELD
    assert command.startswith(f"fencepost replay {tmp_path} --set 'mirror=")
    assert SECRET not in command


@pytest.mark.parametrize("assignment", [f"mirror=ftp://me:{SECRET}@host", f"broker.a.password={SECRET}\n"])
def test_a_value_that_is_refused_is_not_shown(assignment):
    with pytest.raises(UsageError) as error:
        parse_set(assignment)
    assert SECRET not in str(error.value)


def test_a_mirror_that_does_not_answer_is_named_without_its_password(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(f"401 for url https://me:{SECRET}@host/maven/x.jar")

    monkeypatch.setattr(kafka, "_download", fail)
    monkeypatch.setattr(kafka, "local_maven_folder", lambda: tmp_path / "none")
    with pytest.raises(FetchFailed) as error:
        kafka.fetch([kafka.Jar("g", "a", "1", "0")], tmp_path, HELD.mirror)
    assert SECRET not in str(error.value)
    assert "host/maven" in str(error.value)


def test_a_history_at_a_url_is_named_without_its_password():
    (found,) = find_histories(f"s3a://me:{SECRET}@bucket/night")
    assert SECRET not in found.history
    assert SECRET in str(found.file)


@pytest.mark.parametrize(
    "name",
    ["spark.authenticate.secret", "spark.ssl.keyPassword", "fs.s3a.access.key", "sasl.jaas.config",
     "fs.azure.account.key.me.dfs.core.windows.net", "spark.kafka.token", "fs.s3a.session.token", "api-key"],
)  # fmt: skip
def test_names_of_secrets(name):
    assert is_secret(name)
    assert redact_setting(name, SECRET) == REDACTED


@pytest.mark.parametrize(
    ("name", "value"),
    [("spark.driver.memory", "2g"), ("log.cleaner.enable", "false"), ("use.token", "true"),
     ("fs.s3a.aws.credentials.provider", "org.Some"), ("spark.jars", "https://host/a@b.jar")],
)  # fmt: skip
def test_what_is_no_secret_is_kept(name, value):
    assert redact_setting(name, value) == value


def test_secrets_within_a_text():
    assert redact_text("see https://a:b@host/x?token=abc&n=1, or") == (
        f"see https://{REDACTED}@host/x?token={REDACTED}&n=1, or"
    )
