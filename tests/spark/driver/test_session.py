"""Sessions: the embedded one, the one that is adopted, and the one beside it that our jobs use."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import penstock as ps
import penstock.spark
from penstock.errors import SessionError, SettingWarning
from penstock.spark.driver import java
from penstock.spark.driver import spark_settings as settings
from penstock.spark.driver.session import block_session, stream_settings, with_settings

LARGE, BYTES = "spark.sql.execution.arrow.maxRecordsPerBatch", "spark.sql.execution.arrow.maxBytesPerBatch"


def in_a_process(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a Python of its own: a process has but one JVM."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        timeout=300,
    )


def test_an_active_session_is_adopted(spark: SparkSession) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert penstock.spark.session() is spark
    with pytest.warns(SettingWarning, match="are for a new session, and one is active"):
        assert penstock.spark.session(cores=3) is spark


def test_the_embedded_session_has_the_settings_that_count(spark: SparkSession) -> None:
    assert spark.sparkContext.master.startswith("local[")  # of how many cores, the first test that started it said
    assert spark.conf.get("spark.sql.streaming.stateStore.providerClass") == settings.ROCKSDB
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.driver.host") == "127.0.0.1"
    assert conf.get("spark.shuffle.compress") == "false"
    assert spark.sparkContext.pythonExec == sys.executable
    assert list(settings.faults(spark.sparkContext)) == []


ENABLED, SOCKETS = "spark.python.unix.domain.socket.enabled", "spark.python.unix.domain.socket.dir"


def test_sockets_of_workers_are_in_a_folder_that_only_this_user_can_enter(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    folder = Path(str(conf.get(SOCKETS)))
    assert conf.get(ENABLED) == "true"
    assert folder.stat().st_mode & 0o777 == 0o700 and folder.stat().st_uid == os.geteuid()
    assert spark.range(3).rdd.map(lambda row: row.id).sum() == 3  # by a worker, so that its socket is there
    assert [path for path in folder.iterdir() if path.is_socket()]


def test_sockets_of_the_filesystem_need_a_short_private_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "_socket_folders", {})
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / ("long" * 20)))
    before = os.umask(0)
    try:
        found = settings.sockets(local=True)
    finally:
        os.umask(before)
    folder = Path(found[SOCKETS])
    assert found[ENABLED] == "true" and folder.parent == Path("/tmp") and folder.stat().st_mode & 0o777 == 0o700
    assert settings.sockets(local=True) == found  # one for all sessions of the process
    settings._remove(str(folder), os.getpid())
    assert not folder.exists()
    settings._socket_folders.clear()
    assert settings.sockets(local=False) == {}  # Spark's own way, with a secret
    monkeypatch.setattr(settings, "MOST_SOCKET_PATH", 10)
    assert settings.sockets(local=True) == {}


def test_sockets_are_not_in_a_folder_where_others_can_replace_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o777)
    monkeypatch.setattr(settings, "_socket_folders", {})
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = Path(settings.sockets(local=True)[SOCKETS])
    assert folder.parent == Path("/tmp")
    folder.rmdir()
    assert not list(tmp_path.iterdir())


def test_jobs_run_beside_the_users_session(spark: SparkSession) -> None:
    beside = block_session(spark)
    assert beside is block_session(spark)
    assert beside.sparkContext is spark.sparkContext
    assert (beside.conf.get(LARGE), beside.conf.get(BYTES)) == ("64", "8m")
    assert spark.conf.get(LARGE) == "10000"
    beside.createDataFrame(pa.table({"it": [1]})).collect()  # makes the session beside the active one
    assert penstock.spark.session() is spark
    assert block_session(penstock.spark.session()) is beside


def test_a_stream_keeps_few_versions_of_its_state_unless_the_user_wants_more(spark: SparkSession) -> None:
    versions = "spark.sql.streaming.minBatchesToRetain"
    interval = "spark.sql.streaming.stateStore.maintenanceInterval"
    ours = stream_settings(spark, 2, is_local=True)
    assert (ours[versions], ours[interval]) == ("10", "10s")
    assert interval not in stream_settings(spark, 2, is_local=False)
    with with_settings(spark, {versions: "50", interval: "2min"}):
        theirs = stream_settings(spark, 2, is_local=True)
    assert (theirs[versions], theirs[interval]) == ("50", "2min")
    assert stream_settings(spark, 2, is_local=True) == ours


def test_a_batch_of_large_rows_is_bounded(spark: SparkSession) -> None:
    def sizes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch({"bytes": [batch.nbytes]})

    rows = block_session(spark).range(0, 40, 1, 1).selectExpr("repeat('x', 1000000) as payload")
    found = [row.bytes for row in rows.mapInArrow(sizes, "bytes long").collect()]
    assert sum(found) > 40_000_000
    assert max(found) < 12_000_000


WARM = ("numba", "pyarrow.parquet", "penstock.engine.run", "penstock.spark.files.part", "penstock.spark.worker.task")


def test_workers_start_warm_and_are_used_again(spark: SparkSession) -> None:
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import sys

        warm = [name for name in WARM if name in sys.modules]
        threads = len(os.listdir("/proc/self/task"))
        for _ in batches:
            yield pa.record_batch({"pid": [os.getpid()], "threads": [threads], "warm": [warm]})

    def run() -> list[tuple[int, int, list[str]]]:
        found = spark.range(0, 1, 1, 1).mapInArrow(look, "pid long, threads long, warm array<string>").collect()
        return [(row.pid, row.threads, row.warm) for row in found]

    ((first, threads, warm),) = run()
    assert warm == list(WARM)
    assert threads == 1
    assert first in {pid for _ in range(3) for pid, _, _ in run()}


def test_arrow_and_numba_work_in_a_forked_worker(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "it.parquet")

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import numba
        import pyarrow.parquet

        table = pa.table({f"c{at}": range(100_000) for at in range(8)})
        pyarrow.parquet.write_table(table, path, row_group_size=10_000)
        read = pyarrow.parquet.read_table(path, use_threads=True)
        total = numba.njit(lambda values: values.sum())(read["c3"].to_numpy())
        for _ in batches:
            yield pa.record_batch({"total": [int(total)]})

    (row,) = spark.range(0, 1, 1, 1).mapInArrow(work, "total long").collect()
    assert row.total == 100_000 * 99_999 // 2


def test_an_embedded_session_says_nothing_but_what_the_user_prints() -> None:
    ran = in_a_process(
        """
        import penstock.spark
        spark = penstock.spark.session(cores=1)

        def say(batches):
            print("from a task")
            yield from batches

        def fail(batches):
            raise ValueError("planted")

        print(spark.range(3).mapInArrow(say, "id long").count())
        try:
            spark.range(3).mapInArrow(fail, "id long").count()
        except Exception as error:
            print("planted" in str(error))
        spark.stop()
        print(penstock.spark.session(cores=1).range(4).count())
        """,
        PYSPARK_PYTHON="/nowhere/python",
    )
    assert (ran.returncode, ran.stdout.split(), ran.stderr.strip()) == (0, ["3", "True", "4"], "from a task")


def test_settings_that_hurt_are_told_once(tmp_path: Path) -> None:
    (tmp_path / "python").symlink_to(sys.executable)
    ran = in_a_process(
        """
        from pyspark.sql import SparkSession
        import penstock.spark
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.driver.maxResultSize", "1m")
        mine = builder.config("spark.python.worker.reuse", "false").getOrCreate()
        assert penstock.spark.session() is mine
        assert penstock.spark.session() is mine
        """,
        PYSPARK_PYTHON=str(tmp_path / "python"),
        SPARK_LOCAL_IP="127.0.0.1",
    )
    assert ran.returncode == 0, ran.stderr
    told = [line.split("SettingWarning: ")[1] for line in ran.stderr.splitlines() if "SettingWarning: " in line]
    assert told == [
        f"session: the tasks must run the Python of this process, {sys.executable}; they run "
        f"{str(tmp_path / 'python')!r}, which may lack Penstock; set the environment variable PYSPARK_PYTHON to "
        "sys.executable before Spark starts",
        "session: every task starts a Python of its own; set spark.python.worker.reuse to true",
        "session: compressing a shuffle costs a fifth of a keyed job on one machine; "
        "set spark.shuffle.compress to false",
        "session: results above 1m cannot be collected; set spark.driver.maxResultSize to 1g or more",
    ]


def test_a_jvm_that_does_not_start_is_told() -> None:
    ran = in_a_process(
        """
        import penstock.spark
        penstock.spark.session(cores=1, memory="2 potatoes")
        """
    )
    last = ran.stderr.strip().splitlines()[-1]
    assert last.startswith("penstock.errors.SessionError: session: Java must start, and ended at once: ")
    assert "potatoes" in last


def test_without_pyspark_the_extra_is_named(tmp_path: Path) -> None:
    ran = in_a_process(
        """
        import sys
        sys.modules["pyspark"] = None
        import penstock.spark
        penstock.spark.session()
        """
    )
    assert ran.stderr.strip().splitlines()[-1] == (
        "penstock.errors.SessionError: session: running on Spark needs the package pyspark, which is not installed; "
        "pip install 'penstock[spark]'"
    )


# What cannot be used is refused at once, in one sentence

NUMBERS = "ps.from_items([{'v': 1}]).map(w=lambda v: v + 1)"
USES = {
    "collect": f"{NUMBERS}.collect(spark)",
    "to_spark": f"{NUMBERS}.to_spark(spark)",
    "write": f"{NUMBERS}.write_parquet('out', spark)",
}


@pytest.mark.parametrize("version", ["3.5.9", "4.0.5", "4.4.0", "5.0.0.dev1"])
def test_other_versions_of_pyspark_are_refused(version: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("pyspark.__version__", version)
    message = rf"session: PySpark must be 4.1, 4.2 or 4.3; it is {version}; pip install 'penstock\[spark\]'$"
    for use in (
        penstock.spark.session,
        lambda: ps.from_items([{"v": 1}]).collect(spark=object()),
        lambda: ps.from_spark(object()),
        lambda: ps.read_text(tmp_path).start(tmp_path / "out", checkpoint=tmp_path / "ck"),
    ):
        with pytest.raises(SessionError, match=message):
            use()


@pytest.mark.parametrize("use", USES)
def test_a_session_of_spark_connect_is_refused(use: str) -> None:
    class Session:
        """All that is looked at: which module the class is of. A server of Spark Connect is a process of its own."""

        __module__ = "pyspark.sql.connect.session"

    with pytest.raises(
        SessionError, match=r"must have its driver in this process, .*; got one of Spark Connect; make one"
    ):
        eval(USES[use], {"ps": ps, "spark": Session()})
    with pytest.raises(SessionError, match="source 'frame': a session must have its driver in this process"):
        ps.from_spark(Session())


def test_what_is_no_session_is_refused() -> None:
    with pytest.raises(SessionError, match=r"session: spark= must be a SparkSession, True or False; got 'local'$"):
        ps.from_items([{"v": 1}]).collect("local")


def test_the_python_of_the_workers_of_a_session_that_is_passed(tmp_path: Path) -> None:
    """Three ways to use it, and each time one sentence, which names the variable to set; and no trace of Java's."""
    (tmp_path / "python").write_text("#!/bin/sh\necho \"No module named 'penstock'\" >&2\nexit 1\n")
    (tmp_path / "python").chmod(0o755)
    ran = in_a_process(
        f"""
        from pyspark.sql import SparkSession
        import penstock as ps
        spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
        for use in {list(USES.values())!r}:
            try:
                eval(use)
            except ps.SessionError as error:
                print(error)
        """,
        PYSPARK_PYTHON=str(tmp_path / "python"),
        SPARK_LOCAL_IP="127.0.0.1",
    )
    assert ran.returncode == 0, ran.stderr
    version = ".".join(map(str, sys.version_info[:2]))
    assert ran.stdout.splitlines() == 3 * [
        f"session: the workers must run a Python {version} that has Penstock, as {sys.executable} does; they run "
        f"{str(tmp_path / 'python')!r}, where No module named 'penstock'; set the environment variable PYSPARK_PYTHON "
        f"to sys.executable before Spark starts"
    ]


# Settings


def test_a_cluster_is_not_taken_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/there/python")
    found = settings.session_settings("spark://host:7077", 4, "3g", True, {"spark.ui.enabled": True})
    assert "spark.driver.host" not in found
    assert found[settings.PYTHON] == "/there/python"
    assert found["spark.cores.max"] == "4"
    assert found["spark.executor.memory"] == "3g"
    assert found["spark.ui.enabled"] == "True"


@pytest.mark.parametrize(
    ("master", "cores", "message"),
    [
        (None, 0, "cores must be a whole number of at least 1; got 0"),
        ("local[2]", 2, "master and cores must not both say how many cores; got master='local\\[2\\]' and cores=2"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(master: str | None, cores: int, message: str) -> None:
    with pytest.raises(SessionError, match=message):
        settings.session_settings(master, cores, "2g", True, {})


# Java


def fake_java(home: Path, release: str) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    (home / "bin" / "java").chmod(0o755)
    (home / "release").write_text(release)
    return home


def only(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setattr(java, "_commands", lambda: iter([home / "bin" / "java"]))


GOOD = 'JAVA_VERSION="21.0.2"\nMODULES="java.base jdk.incubator.vector"\n'


def test_java_is_known_by_its_release_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, fake_java(tmp_path / "jdk", GOOD))
    assert java.find_java() == java.Java(tmp_path / "jdk", 21, True)


@pytest.mark.parametrize(
    ("release", "fault"),
    [
        ('JAVA_VERSION="1.8.0_392"\nMODULES="java.base"\n', "jdk is Java 8;"),
        ('JAVA_VERSION="17.0.1"\nMODULES="java.base"\n', "jdk has no module jdk.incubator.vector;"),
        ("", "java does not run;"),
    ],
)
def test_a_java_that_does_not_serve_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str, fault: str
) -> None:
    only(monkeypatch, fake_java(tmp_path / "jdk", release))
    with pytest.raises(SessionError, match=r"Spark needs Java 17 or later with the module .*; ") as caught:
        java.find_java()
    assert fault in str(caught.value)


def test_java_itself_is_asked_where_there_is_no_release_file(tmp_path: Path) -> None:
    home = java.find_java().home
    (tmp_path / "bin").mkdir()
    shim = tmp_path / "bin" / "java"
    shim.write_text(f'#!/bin/sh\nexec "{home}/bin/java" "$@"\n')
    shim.chmod(0o755)
    assert java._describe(shim) == java.find_java()
