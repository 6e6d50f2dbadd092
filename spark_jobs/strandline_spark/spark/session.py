"""The Spark session of our jobs: local by default, modest, and quiet.

The output of the JVM and of Spark's workers goes to a log file, so that the user sees only the
job's own output.
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

from strandline_spark.cluster.offsets import decimal
from strandline_spark.errors import EnvironmentProblem, OptionError
from strandline_spark.source import row_walk
from strandline_spark.spark import class_archive
from strandline_spark.stores import options as store_options

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
"""The number of a cluster. By default a local master ends the query at the first failure of a task.
"""
_LOCAL_MASTER: Final = re.compile(r"local(\[([1-9][0-9]*|\*)(,[1-9][0-9]*)?\])?")
_STANDALONE: Final = re.compile(r"spark://[^:/,\s]+:\d+(,[^:/,\s]+:\d+)*")
_LOCAL: Final = re.compile(r"local(?:\[(\d+|\*)\])?")
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_MEMORY_UNITS: Final = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_MEMORY_MIN: Final = 480 << 20
"""Spark does not start with less than 450 MiB, of which a collector keeps a part for itself."""
_JAVA_REMEDY: Final = (
    "install a Java 17 runtime (for instance: apt-get install default-jre-headless)"
    " or set JAVA_HOME to one"
)
_ARROW: Final = (
    "-Darrow.enable_unsafe_memory_access=true",
    "-Darrow.enable_null_check_for_get=false",
)
"""Options without which Arrow checks again what is certain. Spark asks whether a value is null
before it reads it, and rows come from buffers that pyarrow made.
"""
# The allocator keeps large buffers. Otherwise each buffer is mapped again, and decoding a kilobyte
# record costs twice as much. All threads share one arena. Otherwise gRPC's threads have their own
# ones, which free their memory after each message and take new pages for the next. Arrow's own
# allocator keeps its pages too: with new ones for each row group, a file of kilobyte records
# costs half as much again.
_MALLOC: Final = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "67108864",
    "MALLOC_TRIM_THRESHOLD_": "268435456",
    "MIMALLOC_PURGE_DELAY": "-1",
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
"""Settings that change the results of statements. `spark-defaults.conf` and the environment do not
set them, nor any other setting that begins like `_NOT_TAKEN`.
"""
_NOT_TAKEN: Final = (
    *("spark.sql.ansi.", "spark.sql.legacy.", "spark.sql.groupBy", "spark.sql.orderBy"),
    *("spark.sql.optimizer.excludedRules", "spark.sql.requireAllClusterKeys"),
)
# The commands of `spark-submit`, with two differences. Ctrl-C does not reach the JVM. The JVM does
# not know Spark's home. Otherwise its interpreters would import PySpark from the zip file there,
# which each of them compiles again, and not from the compiled package beside it.
_START: Final = """trap '' INT
exec() { unset SPARK_HOME; builtin exec "$@"; }
. "$0" "$@"
"""

_suitable: Final[set[str]] = set()
"""The programs that `check_java` has found suitable: a job asks before each of its steps."""
_jvms: list[subprocess.Popen[bytes]] = []
"""The JVM of this process, at most one: PySpark keeps one gateway."""


def check_java() -> None:
    """Raises EnvironmentProblem, with the remedy, unless a suitable Java is installed."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(os.path.join(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        raise EnvironmentProblem(f"Spark needs Java, and there is none {where}; {_JAVA_REMEDY}")
    if java in _suitable:
        return
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as why:
        raise EnvironmentProblem(f"{java} does not run ({why}); {_JAVA_REMEDY}") from why
    found = _VERSION.search(answer.stderr + answer.stdout)
    if found is not None and int(found[1]) < JAVA_VERSION_MIN:
        raise EnvironmentProblem(f"{java} is Java {found[1]}, Spark needs 17; {_JAVA_REMEDY}")
    _suitable.add(java)


def warn_of_slow_walks(*, is_compiled: bool = row_walk.IS_COMPILED) -> None:
    if not is_compiled:
        _logger.warning(
            "warning: records are found in Python, some hundred times slower than compiled; install"
            " a C compiler and Python's headers, then the package again"
        )


def is_local(master: str) -> bool:
    """True if everything runs on this machine, in the driver's JVM and its children."""
    return master.partition("[")[0] == "local"


def checked_master(text: str) -> str:
    """Raises OptionError for a master that the jobs cannot use."""
    if _LOCAL_MASTER.fullmatch(text) or _STANDALONE.fullmatch(text):
        return text
    raise OptionError(
        f"--master {text!r}: give local[N], N above 0, or a standalone master, spark://HOST:PORT"
        " (several, where one stands by: spark://HOST:PORT,HOST:PORT); other cluster managers are"
        " not supported"
    )


def checked_memory(text: str) -> str:
    """Raises OptionError for a heap with which the driver's JVM does not start."""
    number, unit = decimal(text[:-1]), _MEMORY_UNITS.get(text[-1:].lower())
    if number is None or unit is None or number * unit < _MEMORY_MIN:
        raise OptionError(
            f"--memory {text!r}: give a number with m or g, at least {_MEMORY_MIN >> 20}m, for"
            " instance 1g"
        )
    return text


def set_worker_python(python: str) -> None:
    """Makes Spark's workers run this interpreter: another one does not find the source."""
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
    """Returns a session, with `jars` (paths, comma separated) beside Spark's.

    The JVM maps the archive of `strandline-spark prepare` if there is one and no `java_options` are
    given. Raises EnvironmentProblem if Java or Spark cannot be started, or if no master answers.
    """
    check_java()
    warn_of_slow_walks()
    set_worker_python(worker_python)
    os.makedirs(os.path.dirname(os.path.abspath(log_path)), exist_ok=True)
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from strandline_spark.spark.java_names import keep_names

    # A failing micro-batch is an error of its query; the bridge would print its traceback as well.
    logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)
    # A statement that does not compile is an error of its caller.
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
    # PySpark connects to the JVM that these variables name, in place of forking one.
    os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
    os.environ["PYSPARK_GATEWAY_SECRET"] = secret
    try:
        session = builder.getOrCreate()
        keep_names(session.sparkContext._jvm)
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
    """Returns one Java option for Spark's list of them: a path may have blanks."""
    inner = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{inner}"'


def with_task_failures(master: str) -> str:
    """Returns `local[N]` as `local[N,4]`, and any other master unchanged."""
    found = _LOCAL.fullmatch(master)
    return master if found is None else f"local[{found[1] or 1},{TASK_FAILURES_MAX}]"


@contextlib.contextmanager
def interrupts() -> Iterator[threading.Event]:
    """Yields an event that Ctrl-C or SIGTERM sets while the block runs. Use it on the main thread,
    around a query.

    An exception raised by a signal would break off a call to the JVM half-way. After that the JVM
    accepts no further call, not even to stop. A second signal ends the process at once; a job
    survives that like any crash.
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
    """True if the JVM that `start_session` started has died.

    The connection closes before the process ends. So after a connection error this waits a little
    for the end. Another thread may have seen the end first, and have forgotten the JVM.
    """
    from py4j.protocol import Py4JError, Py4JJavaError

    lost = isinstance(why, OSError | Py4JError) and not isinstance(why, Py4JJavaError)
    if lost and not _jvms:
        return isinstance(why, ConnectionError | Py4JError)
    try:
        return any(jvm.wait(END_SECONDS if lost else 0) is not None for jvm in _jvms)
    except subprocess.TimeoutExpired:
        return False


def drop_other_meanings(session: SparkSession) -> None:
    """Resets the user's settings that change the results of SQL to Spark's own values."""
    for key in session.conf.getAll:
        if key.startswith(_NOT_TAKEN) and key not in _MEANING and session.conf.isModifiable(key):
            _logger.warning(
                "warning: %s is not taken from Spark's configuration: it changes what statements"
                " give",
                key,
            )
            session.conf.unset(key)


def end_session(session: SparkSession, *, seconds_max: float = START_SECONDS_MAX) -> None:
    """Stops the session, if its JVM still lives, and the JVM, which has `seconds_max` to end.

    Raises EnvironmentProblem for a JVM that does not end.
    """
    if all(jvm.poll() is None for jvm in _jvms):
        session.stop()
    stop_jvm(seconds_max=seconds_max)


def _end_accumulators_quietly(session: SparkSession) -> None:
    """Silences the traceback that Spark's server for accumulators prints when the JVM ends. The job
    reports the cause itself.
    """
    server: Any = session.sparkContext._accumulatorServer
    server.handle_error = lambda request, address: None


def _not_of_a_dead_jvm(record: logging.LogRecord) -> bool:
    """Drops the bridge's log of a dead JVM, with its traceback: that is an error of its caller."""
    return record.msg != "Exception while sending command."


def stop_jvm(*, seconds_max: float = START_SECONDS_MAX) -> None:
    """Ends the JVM that `start_session` started, if any; otherwise it ends with this process.

    A JVM that does not end within `seconds_max` is killed. Raises EnvironmentProblem then.
    """
    from pyspark import SparkContext

    while _jvms:
        jvm = _jvms.pop()
        SparkContext._gateway = None
        if jvm.stdin is not None:
            jvm.stdin.close()
        try:
            jvm.wait(timeout=seconds_max)
        except subprocess.TimeoutExpired:
            jvm.kill()
            jvm.wait()
            raise EnvironmentProblem(
                f"Spark's JVM did not end within {seconds_max:.0f} s and was killed: the machine is"
                " too busy, or its memory too small"
            ) from None


def _start_jvm(settings: dict[str, str], log_path: str) -> tuple[int, str]:
    """Starts Spark's gateway and returns its port and secret.

    PySpark would fork (it runs Python code in the child), and a fork of a process whose threads are
    inside gRPC fails. This start needs no code in the child. A shell ignores Ctrl-C for the JVM,
    because this process handles it, and then becomes the JVM. The JVM ends when its standard input
    does.
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
    """Returns settings that name files in UTF-8.

    Java uses the encoding of its locale. In another encoding it has no name for a folder that
    Python and delta-rs use.
    """
    is_utf_8 = codecs.lookup(locale.getencoding()).name == "utf-8"
    return {} if is_utf_8 else {"LC_ALL": "C.UTF-8"}


def _keep_checkpoints_without_forks(session: SparkSession) -> None:
    """Replaces Spark's way to write a checkpoint file, which starts `chmod` twice for each
    micro-batch.

    Checkpoints are on a local disk. The replacement writes the same files, also under their names
    by a rename.
    """
    from py4j.protocol import Py4JError

    jvm: Any = session.sparkContext._jvm
    with contextlib.suppress(Py4JError):  # another version of Spark may have it elsewhere
        jvm.java.lang.Class.forName(_CHECKPOINT_FILES)
        session.conf.set("spark.sql.streaming.checkpointFileManagerClass", _CHECKPOINT_FILES)


def _configuration(master: str, memory: str, *, direct: bool, worker_python: str) -> dict[str, str]:
    # In direct mode a JVM only plans and commits. The second compiler and a concurrent collector
    # would take more of the processor than they give, and double the cost of the start. The first
    # compiler alone has 48 MB for its code. Spark fills them, and HotSpot then looks for code to
    # drop: an eighth of the JVM's processor time.
    plain = (
        ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m", "-XX:+UseSerialGC")
        if direct
        else ()
    )
    java = " ".join((*_ARROW, *plain))
    log = f"-Dlog4j2.configurationFile={_LOG_CONFIGURATION.as_uri()}"
    settings = {
        "spark.driver.memory": memory,
        _DRIVER_OPTIONS: f"{log} {java}",
        "spark.pyspark.python": worker_python,
        "spark.pyspark.driver.python": sys.executable,
        # A worker process takes time to start on a busy machine.
        "spark.python.authenticate.socketTimeout": "60s",
        "spark.python.unix.domain.socket.enabled": "true",
        # Otherwise PySpark notes the caller of each function on columns, by ten calls to the JVM.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
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
    of_workers = _MALLOC | store_options.shared()
    return settings | {f"spark.executorEnv.{name}": value for name, value in of_workers.items()}
