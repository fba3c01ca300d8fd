"""The session of the fixture `kafka_spark`: one for all tests, started again after a test has ended it or its JVM.

What a test leaves running in it, queries and listeners, ends with the test.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_offsets.errors import ConfigError
from kafka_offsets.spark import local_session
from kafka_offsets.spark.connector import row, start_advice, with_connector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME = "kafka_spark"
_REMOTE_FROM = (4, 0)  # before, a server keeps the listeners of its clients
_RENAMED_FROM = (4, 1)  # Spark's package of checkpoints
SERVER_SECONDS = 60.0
"""How long a server of Spark Connect may take to start beside the tests. PySpark itself waits for ten minutes."""
_GATEWAY_EXITED = "JAVA_GATEWAY_EXITED"
_NO_SOURCE = ("Failed to find data source", "Failed to find the data source", "DATA_SOURCE_NOT_FOUND")


class Running(NamedTuple):
    """Ids of queries, and listeners, that a session has."""

    queries: frozenset[str]
    listeners: list[Any]


@contextmanager
def for_tests(settings: Mapping[str, str], folder: Path) -> Iterator[SparkSession]:
    """Start a session of two threads with Spark's Kafka connector, for small queries; stop it afterwards.

    settings  of Spark; they replace those of this module, but for lists of jars and packages, which are joined
    folder    for the tables and the metadata that tests create
    With the address of a server of Spark Connect, in `spark.remote` or SPARK_REMOTE, it is a client of that server. A
    session that the process has already is used, and not stopped, if it has a Kafka connector. ConfigError if not, if
    PySpark is not served, if no server is there, and if the JVM does not start: the text says what to do.
    """
    active_session = _found()
    if active_session is not None:
        _check(active_session)
        yield active_session
        return
    session = _start(settings, folder)
    try:
        yield session
    finally:
        # Not if Python has stopped it: that would take the default from a session that was made afterwards.
        if _is_remote(session):
            _stop_client(session)
        elif not _forget_ended_jvm() and session.sparkContext._jsc is not None:
            session.stop()


def _start(settings: Mapping[str, str], folder: Path) -> SparkSession:
    server = settings.get("spark.remote", os.environ.get(local_session.REMOTE_VARIABLE, ""))
    if server and not server.startswith("local"):
        return _start_client(server, settings)
    own = with_connector({"spark.sql.warehouse.dir": str(folder), **checkpoints(), **settings})
    if shutil.which("java", path=local_session.java_folder()) is None:
        raise ConfigError("Spark needs Java 17: no `java` on the path and none in JAVA_HOME")
    try:
        return local_session.builder(_NAME, own, master="local[2]", is_small=True).getOrCreate()
    except Exception as error:
        if _GATEWAY_EXITED not in str(error):
            raise
        raise ConfigError(f"the JVM of Spark has ended at its start. {start_advice(own)}") from error


def checkpoints() -> dict[str, str]:
    """Return the setting with which streams write the same checkpoints through another one of Hadoop's two interfaces.

    The one that Spark prefers starts four processes, `readlink`, to rename a file of a local disk, and four for its
    checksum: 32 for a query of one batch, a quarter of its time.
    """
    from pyspark import __version__ as version

    package = "checkpointing." if row(version) >= _RENAMED_FROM else ""
    manager = f"org.apache.spark.sql.execution.streaming.{package}FileSystemBasedCheckpointFileManager"
    return {"spark.sql.streaming.checkpointFileManagerClass": manager}


def _start_client(server: str, settings: Mapping[str, str]) -> SparkSession:
    from pyspark import __version__ as version
    from pyspark.sql import SparkSession

    if row(version) < _REMOTE_FROM:
        raise ConfigError(
            f"PySpark {version} is not served as a client of Spark Connect: install 4.0 or later"
        )
    _wait_for_server(server)
    # The rest is for the server to say.
    chosen = {"spark.sql.shuffle.partitions": "2", **settings}
    builder = SparkSession.builder.remote(server)
    for key in chosen.keys() - {"spark.remote"}:
        builder = builder.config(key, chosen[key])
    session = builder.getOrCreate()
    _check(session)
    return session


def _wait_for_server(server: str) -> None:
    """Wait until a server accepts connections; ConfigError after SERVER_SECONDS."""
    from pyspark.sql.connect.client import DefaultChannelBuilder  # which says what to install for it

    # By itself gRPC tries again ever more rarely, at last every two minutes.
    builder = DefaultChannelBuilder(server, [("grpc.max_reconnect_backoff_ms", 1000)])
    import grpc

    with builder.toChannel() as channel:
        try:
            grpc.channel_ready_future(channel).result(SERVER_SECONDS)
        except grpc.FutureTimeoutError:
            raise ConfigError(
                f"no server of Spark Connect has answered at {builder.endpoint} for {SERVER_SECONDS:g} s: start it, or "
                f"unset {local_session.REMOTE_VARIABLE} or spark.remote for a session in this process"
            ) from None


def has_ended(session: SparkSession) -> bool:
    """Whether a session was stopped, by itself or by another one of the same JVM, or its JVM has ended.

    A client of Spark Connect asks its server, which has other sessions if it was started again, or is gone.
    """
    asked: Any = session
    if _is_remote(session):
        return bool(asked.is_stopped) or _is_lost(session)
    context = asked.sparkContext
    return _ended_jvm() is not None or context._jsc is None or bool(context._jsc.sc().isStopped())


def _is_lost(session: SparkSession) -> bool:
    """Whether a server does not know the session of this client; that client waits for it no longer then."""
    from pyspark.errors import PySparkException

    client: Any = session.client
    policies = client.get_retry_policies()
    client.set_retry_policies([])
    try:
        session.conf.get("spark.sql.shuffle.partitions")
    except PySparkException:
        return True
    client.set_retry_policies(policies)
    return False


def _stop_client(session: SparkSession) -> None:
    """Stop a client of Spark Connect, whether its server is there or not."""
    client: Any = session.client
    client.set_retry_policies([])
    session.stop()


def running(session: SparkSession) -> Running:
    """Return the queries and the listeners of a session."""
    return Running(frozenset(query.id for query in session.streams.active), _listeners(session))


def end_others(session: SparkSession, before: Running) -> None:
    """Stop the queries and remove the listeners that a session did not have before."""
    for query in session.streams.active:
        if query.id not in before.queries:
            query.stop()
    remove(session, [listener for listener in _listeners(session) if listener not in before.listeners])


def remove(session: SparkSession, listeners: list[Any]) -> None:
    """Remove listeners of a session.

    `removeListener` of a client of Spark Connect keeps the lock of its listeners while it waits for the thread that
    calls them. That thread needs the lock for an event which is there already, such as the end of a query: both wait
    for ever (SPARK-59623). So the client does not know its thread, and this waits without the lock.
    """
    streams: Any = session.streams
    if not _is_remote(session):
        for listener in listeners:
            streams._jsqm.removeListener(listener)
        return
    bus, thread = streams._sqlb, None
    if all(listener in listeners for listener in bus._listener_bus):
        thread, bus._execution_thread = bus._execution_thread, None
    for listener in listeners:
        streams.removeListener(listener)
    if thread is None:
        return
    if bus._listener_bus:  # the server has refused, as the warning says
        bus._execution_thread = thread
    else:
        thread.join()


def _listeners(session: SparkSession) -> list[Any]:
    """Return the listeners of Python in a client, or of Java; no public name of PySpark has them."""
    streams: Any = session.streams
    return list(streams._sqlb._listener_bus if _is_remote(session) else streams._jsqm.listListeners())


def _is_remote(session: SparkSession) -> bool:
    return type(session).__module__.startswith("pyspark.sql.connect")


def _ended_jvm() -> Any:
    """Return PySpark's gateway to a JVM of this process that has ended, such as one without memory; else None."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    process = getattr(gateway, "proc", None)  # none if this process was started by the JVM
    return None if process is None or process.poll() is None else gateway


def _forget_ended_jvm() -> bool:
    """Have PySpark start another JVM after one that has ended, which it takes for alive; return whether one has."""
    gateway = _ended_jvm()
    if gateway is None:
        return False
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context: Any = SparkContext._active_spark_context
    if context is not None:
        context._jsc = None  # which cannot be stopped
        context.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    return True


def _found() -> SparkSession | None:
    """Return the session that the process has, which `getOrCreate` would return whatever it was made for."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    _forget_ended_jvm()
    if SparkContext._active_spark_context is not None:
        return SparkSession.builder.getOrCreate()
    client = SparkSession.getActiveSession()
    if client is not None and has_ended(client):
        _stop_client(client)
        return None
    return client


def _check(session: SparkSession) -> None:
    try:
        session.read.format("kafka").load().schema  # noqa: B018 - a client asks its server only now
    except Exception as error:
        if not any(text in str(error) for text in _NO_SOURCE):
            return  # what is missing is an option
        name = session.conf.get("spark.app.name")
        raise ConfigError(
            f"the Spark session of this process or server, {name!r}, has no Kafka connector: use the fixture "
            "kafka_spark in its place, start kafka_spark first, or build that session with the settings that "
            "kafka_offsets.spark.connector.with_connector({}) returns"
        ) from error
