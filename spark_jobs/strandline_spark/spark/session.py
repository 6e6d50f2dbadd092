"""The Spark session of our jobs: local unless asked otherwise, modest, and quiet.

What the JVM and Spark's workers print goes to a log file, so that a job's own output is what its
user sees.
"""

from __future__ import annotations

import codecs
import contextlib
import locale
import logging
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from strandline_spark.errors import EnvironmentProblem, OptionError
from strandline_spark.source import row_walk
from strandline_spark.source.offsets import decimal
from strandline_spark.spark import class_archive

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

JAVA_VERSION_MIN: Final = 17
_logger: Final = logging.getLogger(__name__)
START_SECONDS_MAX: Final = 120.0
POLL_SECONDS: Final = 0.05
END_SECONDS: Final = 5.0
_DRIVER_OPTIONS: Final = "spark.driver.extraJavaOptions"
_CHECKPOINT_FILES: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
_LOG_CONFIGURATION: Final = Path(__file__).resolve().with_name("log4j2.properties")
TASK_FAILURES_MAX: Final = 4
"""As on a cluster: a local master takes the first failure of a task for the end of the query."""
_LOCAL_MASTER: Final = re.compile(r"local(\[([1-9][0-9]*|\*)(,[1-9][0-9]*)?\])?")
_STANDALONE: Final = re.compile(r"spark://[^:/,\s]+:\d+(,[^:/,\s]+:\d+)*")
_LOCAL: Final = re.compile(r"local(?:\[(\d+|\*)\])?")
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_MEMORY_UNITS: Final = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_MEMORY_MIN: Final = 480 << 20
"""Spark does not start with less than 450 MiB, of which a collector keeps some for itself."""
_JAVA_REMEDY: Final = (
    "install a Java 17 runtime (for instance: apt-get install default-jre-headless)"
    " or set JAVA_HOME to one"
)
_ARROW: Final = (
    "-Darrow.enable_unsafe_memory_access=true",
    "-Darrow.enable_null_check_for_get=false",
)
"""Arrow looks at each value once more for what is sure: Spark asks whether a value is null before
it gets it, and rows are taken from buffers that pyarrow has made.
"""
# Large buffers are kept by the allocator: decoding a kilobyte record costs half of what it does
# when each buffer is mapped afresh. One arena for all threads: gRPC's have their own otherwise,
# which give their memory back after each message and take fresh pages for the next.
_MALLOC: Final = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "67108864",
    "MALLOC_TRIM_THRESHOLD_": "268435456",
}
_MEANING: Final = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
}
"""What a statement gives depends on these, so `spark-defaults.conf` and the environment do not set
them, nor what else begins as `_NOT_TAKEN`.
"""
_NOT_TAKEN: Final = (
    *("spark.sql.ansi.", "spark.sql.legacy.", "spark.sql.groupBy", "spark.sql.orderBy"),
    *("spark.sql.optimizer.excludedRules", "spark.sql.requireAllClusterKeys"),
)
# What `spark-submit` does, but that Ctrl-C is not the JVM's, and that the JVM is not told Spark's
# home: it would have its interpreters import PySpark from the zip file there, which each of them
# compiles anew, in place of the package beside it, which is compiled.
_START: Final = """trap '' INT
exec() { unset SPARK_HOME; builtin exec "$@"; }
. "$0" "$@"
"""

_jvms: list[subprocess.Popen[bytes]] = []
"""The JVM of this process, at most one: PySpark keeps one gateway."""


def check_java() -> None:
    """Raises EnvironmentProblem, with the remedy, unless a fitting Java is there."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(os.path.join(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        raise EnvironmentProblem(f"Spark needs Java, and there is none {where}; {_JAVA_REMEDY}")
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as why:
        raise EnvironmentProblem(f"{java} does not run ({why}); {_JAVA_REMEDY}") from why
    found = _VERSION.search(answer.stderr + answer.stdout)
    if found is not None and int(found[1]) < JAVA_VERSION_MIN:
        raise EnvironmentProblem(f"{java} is Java {found[1]}, Spark needs 17; {_JAVA_REMEDY}")


def warn_of_slow_walks(*, is_compiled: bool = row_walk.IS_COMPILED) -> None:
    if not is_compiled:
        _logger.warning(
            "warning: records are found in Python, some hundred times slower than compiled; install"
            " a C compiler and Python's headers, then the package again"
        )


def is_local(master: str) -> bool:
    """Whether everything runs on this machine, in the driver's JVM and its children."""
    return master.partition("[")[0] == "local"


def checked_master(text: str) -> str:
    """Raises OptionError for a master that the jobs cannot work with."""
    if _LOCAL_MASTER.fullmatch(text) or _STANDALONE.fullmatch(text):
        return text
    raise OptionError(
        f"--master {text!r}: give local[N], N above 0, or a standalone master, spark://HOST:PORT"
        " (several, where one stands by: spark://HOST:PORT,HOST:PORT); other cluster managers are"
        " not supported"
    )


def checked_memory(text: str) -> str:
    """Raises OptionError for a heap that the driver's JVM does not start with."""
    number, unit = decimal(text[:-1]), _MEMORY_UNITS.get(text[-1:].lower())
    if number is None or unit is None or number * unit < _MEMORY_MIN:
        raise OptionError(
            f"--memory {text!r}: give a number with m or g, at least {_MEMORY_MIN >> 20}m, for"
            " instance 1g"
        )
    return text


def set_worker_python(python: str) -> None:
    """Spark's workers must run this interpreter: with another they do not find the source."""
    os.environ["PYSPARK_PYTHON"] = python
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable


def start_session(
    app_name: str,
    *,
    master: str,
    memory: str,
    log_path: str,
    direct: bool,
    worker_python: str = sys.executable,
    jars: str | None = None,
    java_options: Sequence[str] | None = None,
) -> SparkSession:
    """A session, with `jars` (paths, comma separated) beside Spark's, in a JVM that maps the
    archive of `strandline-spark prepare` if there is one and no `java_options` are given. Raises
    EnvironmentProblem if Java or Spark cannot be started, or no master answers.
    """
    check_java()
    warn_of_slow_walks()
    set_worker_python(worker_python)
    os.makedirs(os.path.dirname(os.path.abspath(log_path)), exist_ok=True)
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    # A failing micro-batch is an error of its query; the bridge would print its traceback as well.
    logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)
    # So is a statement that does not compile of whoever asked for it.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    settings = _configuration(master, memory, direct=direct, worker_python=worker_python)
    own = class_archive.java_options() if java_options is None else java_options
    settings[_DRIVER_OPTIONS] = " ".join([settings[_DRIVER_OPTIONS], *map(_quoted, own)])
    settings |= {} if jars is None else {"spark.jars": jars}
    master = with_task_failures(master)
    builder = SparkSession.builder.appName(app_name).master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    if SparkContext._gateway is not None:
        return builder.getOrCreate()
    logging.getLogger().addFilter(_not_of_a_dead_jvm)
    port, secret = _start_jvm(settings | {"spark.master": master}, log_path)
    # PySpark connects to the JVM that these name in place of forking one.
    os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
    os.environ["PYSPARK_GATEWAY_SECRET"] = secret
    try:
        session = builder.getOrCreate()
        _end_accumulators_quietly(session)
        _keep_checkpoints_without_forks(session)
        drop_other_meanings(session)
        return session
    except Py4JError as why:
        raise EnvironmentProblem(
            f"Spark did not start on {master}: see whether that is the master's address and"
            f" whether it is up; {log_path} has the rest"
        ) from why
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]


def _quoted(option: str) -> str:
    """One of Java's options in Spark's list of them: a path may have blanks."""
    inner = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{inner}"'


def with_task_failures(master: str) -> str:
    """`local[N]` as `local[N,4]`; any other master as it is."""
    found = _LOCAL.fullmatch(master)
    return master if found is None else f"local[{found[1] or 1},{TASK_FAILURES_MAX}]"


@contextlib.contextmanager
def interrupts() -> Iterator[threading.Event]:
    """Set by Ctrl-C or SIGTERM while the block runs. Use it on the main thread, around a query.

    An exception raised by a signal would break off a call to the JVM half-way, after which nothing
    more can be asked of it, not even to stop. A second signal ends the process at once, which a job
    survives as it does any crash.
    """
    interrupted = threading.Event()

    def note(number: int, frame: object) -> None:
        if interrupted.is_set():
            os._exit(128 + number)
        interrupted.set()

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def jvm_has_ended(why: BaseException) -> bool:
    """Whether the JVM that `start_session` started has died. What it has closed is seen before its
    end, so after an error of the connection it is waited for a little.
    """
    from py4j.protocol import Py4JError, Py4JJavaError

    lost = isinstance(why, OSError | Py4JError) and not isinstance(why, Py4JJavaError)
    try:
        return any(jvm.wait(END_SECONDS if lost else 0) is not None for jvm in _jvms)
    except subprocess.TimeoutExpired:
        return False


def drop_other_meanings(session: SparkSession) -> None:
    """Settings of the user's that change what SQL gives have Spark's own values in this session."""
    for key in session.conf.getAll:
        if key.startswith(_NOT_TAKEN) and key not in _MEANING and session.conf.isModifiable(key):
            _logger.warning(
                "warning: %s is not taken from Spark's configuration: it changes what statements"
                " give",
                key,
            )
            session.conf.unset(key)


def end_session(session: SparkSession) -> None:
    """Stops the session, if its JVM still lives, and the JVM."""
    if all(jvm.poll() is None for jvm in _jvms):
        session.stop()
    stop_jvm()


def _end_accumulators_quietly(session: SparkSession) -> None:
    """Spark's server for accumulators prints a traceback when the JVM goes away, as a job does not
    that says what has happened.
    """
    server: Any = session.sparkContext._accumulatorServer
    server.handle_error = lambda request, address: None


def _not_of_a_dead_jvm(record: logging.LogRecord) -> bool:
    """The bridge logs with a traceback that the JVM is gone, which is an error of its caller."""
    return record.msg != "Exception while sending command."


def stop_jvm() -> None:
    """Ends the JVM that `start_session` started, if any; it would end with this process."""
    from pyspark import SparkContext

    while _jvms:
        jvm = _jvms.pop()
        SparkContext._gateway = None
        if jvm.stdin is not None:
            jvm.stdin.close()
        jvm.wait(timeout=START_SECONDS_MAX)


def _start_jvm(settings: dict[str, str], log_path: str) -> tuple[int, str]:
    """Starts Spark's gateway and returns its port and secret.

    PySpark would fork (it runs Python code in the child), and a fork of a process whose threads are
    inside gRPC fails. This start needs no code in the child: a shell ignores Ctrl-C for the JVM,
    which is this process's to handle, and becomes it. The JVM ends when its standard input does.
    """
    from pyspark.find_spark_home import _find_spark_home

    home = _find_spark_home()
    options = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    start = (os.path.join(home, "bin", "spark-class"), "org.apache.spark.deploy.SparkSubmit")
    command = ["bash", "-c", _START, *start, *options, "pyspark-shell"]
    with tempfile.TemporaryDirectory() as directory, open(log_path, "ab") as log:
        connection = os.path.join(directory, "connection")
        environment = {**_MALLOC, **os.environ, "SPARK_CONNECT_MODE": "0"}
        environment |= {"SPARK_HOME": home, "PYTHONHASHSEED": "0"} | _text_settings()
        environment["_PYSPARK_DRIVER_CONN_INFO_PATH"] = connection
        jvm = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment
        )
        _jvms.append(jvm)
        deadline = time.monotonic() + START_SECONDS_MAX
        while not os.path.isfile(connection):
            if jvm.poll() is not None or time.monotonic() > deadline:
                raise EnvironmentProblem(f"Spark's JVM did not start; {log_path} says why")
            time.sleep(POLL_SECONDS)
        with open(connection, "rb") as file:
            port, secret_size = struct.unpack(">ii", file.read(8))
            return port, file.read(secret_size).decode("utf-8")


def _text_settings() -> dict[str, str]:
    """Java names files in the encoding of its locale: in another than UTF-8 it has no name for a
    folder that Python and delta-rs use.
    """
    is_utf_8 = codecs.lookup(locale.getencoding()).name == "utf-8"
    return {} if is_utf_8 else {"LC_ALL": "C.UTF-8"}


def _keep_checkpoints_without_forks(session: SparkSession) -> None:
    """Checkpoints are on a local disk. Spark's usual way to write a file there starts `chmod`,
    twice for each micro-batch; this one writes the same files, whose names come by a rename too.
    """
    from py4j.protocol import Py4JError

    jvm: Any = session.sparkContext._jvm
    with contextlib.suppress(Py4JError):  # another version of Spark may have it elsewhere
        jvm.java.lang.Class.forName(_CHECKPOINT_FILES)
        session.conf.set("spark.sql.streaming.checkpointFileManagerClass", _CHECKPOINT_FILES)


def _configuration(master: str, memory: str, *, direct: bool, worker_python: str) -> dict[str, str]:
    # In direct mode a JVM only plans and commits: the second compiler and a concurrent collector
    # would take more of the processor than they give, and the start would cost twice as much.
    plain = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC") if direct else ()
    java = " ".join((*_ARROW, *plain))
    log = f"-Dlog4j2.configurationFile={_LOG_CONFIGURATION.as_uri()}"
    settings = {
        "spark.driver.memory": memory,
        _DRIVER_OPTIONS: f"{log} {java}",
        "spark.pyspark.python": worker_python,
        "spark.pyspark.driver.python": sys.executable,
        # A worker process takes its time to start on a busy machine.
        "spark.python.authenticate.socketTimeout": "60s",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.maxConcurrentOutputFileWriters": "64",
        # Spark's own default, INT96, is no Delta type, and has no statistics.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **_MEANING,
    }
    if is_local(master):
        return settings | {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
    settings["spark.executor.extraJavaOptions"] = java
    return settings | {f"spark.executorEnv.{name}": value for name, value in _MALLOC.items()}
