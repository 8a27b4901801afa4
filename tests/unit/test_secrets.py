"""Secrets in options: none is stored or shown, and a repeated run needs them again."""

from importlib import import_module

import pytest

from fencepost import registry
from fencepost.checks.run_folders import find_histories
from fencepost.commands import replay
from fencepost.registry import command_line
from harness.common.errors import FetchFailed, UnreadableInput, UsageError
from harness.common.wording import REDACTED, is_secret, redact_setting, redact_text
from harness.environment import kafka
from harness.settings.options import Options, from_toml, parse_set
from harness.settings.run_file import StoredPlan

SECRET = "hunter2"
WITH_SECRETS = Options(
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


def test_secrets_are_not_stored_and_other_options_are(tmp_path):
    StoredPlan(WITH_SECRETS, {"command": command_line(WITH_SECRETS)}).save(tmp_path / "run.toml")
    assert SECRET not in (tmp_path / "run.toml").read_text()
    stored = StoredPlan.load(tmp_path / "run.toml").options
    assert stored.missing_secrets == NAMES
    assert (stored.spark_conf["spark.driver.memory"], stored.settings["log.segment.bytes"]) == ("2g", "1024")
    assert stored.mirror == f"https://{REDACTED}@host/maven"


def test_the_repeat_command_shows_the_settings_whose_secrets_are_missing():
    command = command_line(WITH_SECRETS)
    assert SECRET not in command
    assert f"spark.hadoop.fs.s3a.secret.key={REDACTED}" in command
    assert f"broker.ssl.keystore.password={REDACTED}" in command


def test_stored_options_without_their_secrets_are_refused_by_name():
    stored = from_toml({"spark-conf": {"spark.a.token": REDACTED}, "mirror": f"https://{REDACTED}@host/"})
    with pytest.raises(UsageError, match=r"^mirror, spark\.a\.token must be given again[^\n]*$"):
        stored.validated(registry.known_names())
    complete = stored.updated(parse_set("spark.a.token=x")).updated(parse_set("mirror=https://a:b@host/"))
    assert complete.validated(registry.known_names()) == complete


def test_replay_needs_the_secrets_again(tmp_path, monkeypatch):
    (tmp_path / "run.toml").write_text(StoredPlan(WITH_SECRETS).text())
    with pytest.raises(UsageError, match="must be given again"):
        replay.command.main([str(tmp_path)], standalone_mode=False)
    with pytest.raises(UsageError, match="replay cannot change rate"):
        replay.command.main([str(tmp_path), "--set", "rate=1"], standalone_mode=False)
    started = []

    def run(options, *_, command, **__):
        started.append((options, command))
        raise UnreadableInput("far enough")

    monkeypatch.setattr(import_module("fencepost.runs.carry_out"), "run", run)
    words = [
        *("--set", f"mirror={WITH_SECRETS.mirror}", "--spark-conf", f"{NAMES[1]}={SECRET}"),
        *("--spark-conf", f"{NAMES[2]}={WITH_SECRETS.spark_conf[NAMES[2]]}", "--set", f"{NAMES[3]}={SECRET}"),
    ]
    with pytest.raises(UnreadableInput, match="far enough"):
        replay.command.main([str(tmp_path), *words], standalone_mode=False)
    ((options, command),) = started
    assert options == WITH_SECRETS
    assert command.startswith(f"fencepost replay {tmp_path} --set 'mirror=")
    assert SECRET not in command


@pytest.mark.parametrize("assignment", [f"mirror=ftp://me:{SECRET}@host", f"broker.a.password={SECRET}\n"])
def test_a_secret_in_a_refused_value_is_not_shown(assignment):
    with pytest.raises(UsageError) as error:
        parse_set(assignment)
    assert SECRET not in str(error.value)


def test_a_mirror_that_does_not_answer_is_named_without_its_password(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(f"401 for url https://me:{SECRET}@host/maven/x.jar")

    monkeypatch.setattr(kafka, "_download", fail)
    monkeypatch.setattr(kafka, "local_maven_folder", lambda: tmp_path / "none")
    with pytest.raises(FetchFailed) as error:
        kafka.fetch([kafka.Jar("g", "a", "1", "0")], tmp_path, WITH_SECRETS.mirror)
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
def test_a_setting_with_the_name_of_a_secret_is_redacted(name):
    assert is_secret(name)
    assert redact_setting(name, SECRET) == REDACTED


@pytest.mark.parametrize(
    ("name", "value"),
    [("spark.driver.memory", "2g"), ("log.cleaner.enable", "false"), ("use.token", "true"),
     ("fs.s3a.aws.credentials.provider", "org.Some"), ("spark.jars", "https://host/a@b.jar")],
)  # fmt: skip
def test_a_setting_that_is_no_secret_is_not_redacted(name, value):
    assert redact_setting(name, value) == value


def test_secrets_within_a_text_are_redacted():
    assert redact_text("see https://a:b@host/x?token=abc&n=1, or") == (
        f"see https://{REDACTED}@host/x?token={REDACTED}&n=1, or"
    )
