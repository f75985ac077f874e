"""The Spark session that graphs run on: the one that is there, or one of our own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from penstock.errors import SessionError
from penstock.spark.driver import spark_settings as s
from penstock.spark.driver.gateway import start
from penstock.spark.driver.java import find_java
from penstock.spark.driver.usable import require_pyspark, usable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCES_MS = 60_000
"""How long it may take to make the sources of a query, before it goes on with the settings of the user."""


def session(
    master: str | None = None,
    *,
    cores: int | None = None,
    memory: str = "2g",
    quiet: bool = True,
    settings: Mapping[str, Any] | None = None,
) -> SparkSession:
    """The active Spark session, or a new embedded one with the settings that suit Penstock.

    An active session is taken as it is, and none of the arguments applies to it: a `SettingWarning` names each setting
    of it that will hurt and what to set, once a session. Without one, Spark starts in this process on all cores, or on
    `cores` of them, or on the cluster that `master` names.

    - `memory`: of the JVM that runs the tasks. The Python workers need some of their own beside it.
    - `quiet`: no log, no progress bar and no Java trace on the screen. Errors still come as exceptions.
    - `settings`: Spark's own settings, over ours.

    >>> import penstock.spark
    >>> spark = penstock.spark.session(cores=2)
    >>> spark.range(3).count()
    3
    """
    require_pyspark()
    forget_lost()
    active = _active()
    if active is not None:
        s.warn(active, master, cores, settings)
        return active
    return _start(s.session_settings(master, cores, memory, quiet, settings or {}), quiet)


VOLATILE = ("spark.app.", "spark.driver.port", "spark.executor.id", "spark.driver.extraJavaOptions", "spark.repl.")
"""How settings begin that Spark itself gives to each session anew."""


def settings_of(spark: SparkSession) -> dict[str, str]:
    """The settings that a session was made with, for another one like it."""
    return {key: value for key, value in spark.sparkContext.getConf().getAll() if not key.startswith(VOLATILE)}


def renew(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """The session, or where its JVM is lost, another one with the same settings."""
    if not forget_lost():
        return _active() or spark
    memory = settings.get("spark.driver.memory", "2g")
    return _start(s.session_settings(settings["spark.master"], None, memory, True, settings), True)


def forget_lost() -> bool:
    """Forget the session of a JVM that has ended, so that a new one can start; whether there was one."""
    from pyspark.core.context import SparkContext
    from pyspark.sql import SparkSession

    process = getattr(SparkContext._gateway, "proc", None)
    if process is None or process.poll() is None:
        return False
    with suppress(Exception):  # what it still holds of sockets to the JVM
        SparkContext._gateway.shutdown()  # type: ignore[union-attr]
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
    _block_sessions.clear()
    return True


def block_session(spark: SparkSession) -> SparkSession:
    """A session beside `spark`, on the same Spark, with the SQL settings that our jobs need; one for each `spark`.

    Its settings are its own: those of `spark` stay as the user has set them.
    """
    known = _block_sessions.get(_identity(spark)) if hasattr(spark, "_jsparkSession") else None
    if known is not None:
        return known[1]
    beside = usable(spark).newSession()
    for key, value in s.BLOCKS.items():
        beside.conf.set(key, value)
    for key in s.INHERITED:
        beside.conf.set(key, str(spark.conf.get(key)))
    _block_sessions[_identity(spark)] = (spark, beside)
    return beside


def stream_settings(spark: SparkSession, partitions: int, is_local: bool) -> dict[str, str]:
    """The settings of a running stream of a session, whose checkpoint is on a local filesystem or not."""
    found = s.BLOCKS | s.STREAMS | (s.LOCAL_CHECKPOINT if is_local else {})
    unless_set = s.STREAMS_UNLESS_SET | (s.LOCAL_UNLESS_SET if is_local else {})
    found |= {key: str(spark.conf.get(key, value)) for key, value in unless_set.items()}
    return found | {"spark.sql.shuffle.partitions": str(partitions)}


def await_sources(running: Any) -> None:
    """Wait until a query that was started has made its sources.

    A query takes the settings of its session in `start`, but its sources take them where its own thread makes them.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    with suppress(Py4JJavaError):  # a query that has failed tells by itself
        running._jsq.streamingQuery().awaitInitialization(SOURCES_MS)


@contextmanager
def with_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Other settings for a while; those of the user are as they were behind it."""
    before = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, held in before.items():
            spark.conf.unset(key) if held is None else spark.conf.set(key, held)


# By the identity of the user's session: that session and ours beside it.
_block_sessions: dict[str, tuple[SparkSession, SparkSession]] = {}


def _identity(spark: Any) -> str:
    """A name for a session that its several Python handles share."""
    if hasattr(spark, "_jsparkSession"):
        return str(spark._jsparkSession.sessionUUID())
    return str(spark.session_id)  # a session of Spark Connect


def active() -> SparkSession | None:
    """The session that the user works with, where there is one."""
    return _active() if "pyspark" in sys.modules else None


def _active() -> SparkSession | None:
    """The session that the user works with; never one of ours that stands beside it."""
    from pyspark.core.context import SparkContext
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is None and SparkContext._active_spark_context is not None:
        active = SparkSession.builder.getOrCreate()  # there is one, which this thread has not used yet
    if active is None:
        return None
    identity = _identity(active)
    return next((user for user, beside in _block_sessions.values() if _identity(beside) == identity), active)


def _start(wanted: dict[str, str], quiet: bool) -> SparkSession:
    """A new session, with its JVM if there is none yet."""
    from py4j.protocol import Py4JJavaError
    from pyspark.conf import SparkConf
    from pyspark.core.context import SparkContext
    from pyspark.sql import SparkSession

    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ["PYSPARK_PYTHON"] = wanted[s.PYTHON]
    if s.is_local(wanted["spark.master"]):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    _block_sessions.clear()
    conf = SparkConf().setAll(list(wanted.items()))
    gateway, relay = start(conf, quiet)
    try:
        context = SparkContext(conf=conf, gateway=gateway)
    except Py4JJavaError as error:
        raise SessionError(
            f"session: Spark must start on {wanted['spark.master']!r}, and did not: "
            f"{str(error.java_exception).splitlines()[0]}; check master= and settings="
        ) from None
    if relay is not None:
        relay.has_started = True
        _hush(getattr(context, "_accumulatorServer", None))
    s.trust(context)
    return SparkSession.builder.getOrCreate()


def _hush(server: Any) -> None:
    """Let the server to which the JVM reports say nothing when the JVM is gone; it would print a trace."""
    before = getattr(server, "handle_error", None)

    def handle_error(request: Any, address: Any) -> None:
        if before is not None and not isinstance(sys.exc_info()[1], (EOFError, OSError)):
            before(request, address)

    if server is not None:
        server.handle_error = handle_error
