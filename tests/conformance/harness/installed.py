"""What the clients need on this machine: a Python environment, Java archives, compiled drivers.

Each is made once by its ordinary package client and kept under the user's cache folder.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from conformance.harness.versions import HERE, TESTS, kept, versions

INSTALL_TIMEOUT_S = 900
JVM = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class CannotInstallError(Exception):
    """A program is missing, or a package client failed."""


@cache
def python() -> list[str]:
    """The interpreter of an environment with the pinned Python clients and their codecs."""
    return _environment(_python_pins())


def has_python() -> bool:
    """True if that environment is made already."""
    return (_environment_folder(_python_pins()) / "ready").exists()


def _python_pins() -> list[str]:
    return [f"{name}=={pin}" for name, pin in versions()["python"].items()]


@cache
def spark() -> list[str]:
    """The interpreter of an environment with a Spark that its Kafka connector supports."""
    return _environment([f"pyspark=={versions()['spark']['pyspark']}"])


def connector() -> str:
    """The jars of Spark's Kafka connector, comma separated, without those that Spark has."""
    artifact = f"spark-sql-kafka-0-10_2.13:{versions()['spark']['connector']}"
    found = jars((f"org.apache.spark:{artifact}",)).split(os.pathsep)
    wanted = ("spark-sql-kafka", "spark-token-provider", "kafka-clients", "commons-pool2")
    return ",".join(each for each in found if Path(each).name.startswith(wanted))


def _environment(pins: list[str]) -> list[str]:
    folder = _environment_folder(pins)
    binary, ready = folder / "bin" / "python", folder / "ready"
    if not ready.exists():
        _run([sys.executable, "-m", "venv", "--clear", str(folder)])
        pip = [str(binary), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, *pins])
        ready.touch()
    return [str(binary)]


def _environment_folder(pins: list[str]) -> Path:
    key = hashlib.sha256(" ".join([sys.version, *pins]).encode()).hexdigest()[:12]
    return kept("python", key)


def download_source(name: str, version: str, folder: Path) -> None:
    """The source archive of a Python package."""
    pip = [*python(), "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--no-binary", name, "--dest", str(folder)]
    _run([*pip, *options, f"{name}=={version}"])


@cache
def jars(coordinates: tuple[str, ...]) -> str:
    """The class path of Maven coordinates `group:artifact:version` and all that they need."""
    _need("mvn", "maven")
    entries = "".join(
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>"
        "</dependency>".format(*each.split(":"))
        for each in coordinates
    )
    pom = (
        "<project><modelVersion>4.0.0</modelVersion>"
        "<groupId>conformance</groupId><artifactId>conformance</artifactId><version>1</version>"
        f"<dependencies>{entries}</dependencies></project>"
    )
    folder = kept("jars", hashlib.sha256(pom.encode()).hexdigest()[:12])
    saved = folder / "classpath"
    if not (saved.exists() and _all_there(saved.read_text("utf-8"))):
        (folder / "pom.xml").write_text(pom, "utf-8")
        build = ["mvn", "-q", "-B", "-f", str(folder / "pom.xml"), "dependency:build-classpath"]
        _run([*build, f"-Dmdep.outputFile={saved}"])
    return saved.read_text("utf-8").strip()


def _all_there(classpath: str) -> bool:
    return all(Path(each).is_file() for each in classpath.strip().split(os.pathsep))


def client_jars(version: str) -> str:
    slf4j = versions()["java"]["slf4j"]
    return jars((f"org.apache.kafka:kafka-clients:{version}", f"org.slf4j:slf4j-nop:{slf4j}"))


def java_with(source: str, *artifacts: str) -> list[str]:
    """The command of a Java source file that needs `artifact:version` of org.apache.kafka."""
    slf4j = versions()["java"]["slf4j"]
    wanted = [f"org.apache.kafka:{artifact}" for artifact in artifacts]
    return java(source, jars((*wanted, f"org.slf4j:slf4j-nop:{slf4j}")))


def tool(name: str) -> list[str]:
    """The command of one of Apache Kafka's tools by the name of its class."""
    pins = versions()["java"]
    classpath = jars(
        (
            f"org.apache.kafka:kafka_2.13:{pins['tools']}",
            f"org.apache.kafka:kafka-tools:{pins['tools']}",
            f"org.slf4j:slf4j-nop:{pins['slf4j']}",
        )
    )
    return ["java", *JVM, "-cp", classpath, name]


@cache
def java(source: str, classpath: str) -> list[str]:
    """The command of a Java source file of clients/java, compiled against this class path."""
    _need("javac", "openjdk-17-jdk-headless")
    file = HERE / "clients" / "java" / source
    key = hashlib.sha256(file.read_bytes() + classpath.encode()).hexdigest()[:12]
    folder = kept("classes", key)
    if not (folder / "ready").exists():
        _run(["javac", "-nowarn", "-d", str(folder), "-cp", classpath, str(file)])
        (folder / "ready").touch()
    return ["java", *JVM, "-cp", f"{folder}{os.pathsep}{classpath}", file.stem]


@cache
def go(source: str, module: str) -> list[str]:
    """A program of clients/go, built with one Go module."""
    _need("go", "golang")
    file = HERE / "clients" / "go" / source
    version = versions()["go"][module]
    folder = kept("go", hashlib.sha256(file.read_bytes() + version.encode()).hexdigest()[:12])
    binary = folder / file.stem
    if not binary.exists():
        shutil.copy(file, folder)
        if not (folder / "go.mod").exists():
            _run(["go", "mod", "init", "conformance"], folder)
        _run(["go", "get", f"{module}@v{version}"], folder)
        _run(["go", "build", "-o", str(binary), "."], folder)
    return [str(binary)]


def go_tests(module: str, package: str) -> tuple[str, str]:
    """The compiled tests of a package of a Go module, and the folder of its source."""
    _need("go", "golang")
    version = versions()["go"][module]
    folder = kept("go-tests", hashlib.sha256(f"{module} {version}".encode()).hexdigest()[:12])
    binary = folder / "tests"
    if not (folder / "go.mod").exists():
        _run(["go", "mod", "init", "conformance"], folder)
    if not binary.exists():
        _run(["go", "get", "-t", f"{module}/{package}@v{version}"], folder)
        _run(["go", "test", "-c", "-o", str(binary), f"{module}/{package}"], folder)
    source = _run(["go", "list", "-m", "-f", "{{.Dir}}", module], folder)
    return str(binary), str(Path(source.strip(), package))


@cache
def node(program: str) -> list[str]:
    """A program of clients/node, with the packages of npm and their runtime."""
    _need("npm", "npm")
    pins = versions()["node"]
    words = [f"{name}@{version}" for name, version in pins.items()]
    folder = kept("node", hashlib.sha256(" ".join(words).encode()).hexdigest()[:12])
    if not (folder / "ready").exists():
        (folder / "package.json").write_text('{"private": true}\n', "utf-8")
        options = ["--silent", "--no-audit", "--no-fund", "--save-exact"]
        _run(["npm", "install", *options, *words], folder)
        (folder / "ready").touch()
    runtime = folder / "node_modules" / "node" / "bin" / "node"
    file = HERE / "clients" / "node" / program
    return ["env", f"NODE_HOME={folder}", str(runtime), str(file)]


def kcat() -> list[str]:
    _need("kcat", "kcat")
    return [sys.executable]


def _need(program: str, package: str) -> None:
    if shutil.which(program) is None:
        raise CannotInstallError(f"{program} is missing: install the package {package}")


def _run(command: list[str], folder: Path | None = None) -> str:
    environ = {**os.environ, "PYTHONPATH": str(TESTS)}
    done = subprocess.run(
        command,
        env=environ,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=INSTALL_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise CannotInstallError(f"{command[:4]} failed: {(done.stdout + done.stderr)[-2000:]}")
    return done.stdout
