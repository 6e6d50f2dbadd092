"""Apache Kafka's own dump tool, run on files that Strandline wrote."""

import os
import re
import shutil
import subprocess
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For a process of a second or two: what starts it soonest."""
POM = Path(__file__).parents[1] / "integration" / "kafka" / "pom.xml"
RESOLVE_TIMEOUT_S = 900
"""The first time, Maven fetches some fifty archives."""
DUMP_TIMEOUT_S = 300
COMPLAINTS = re.compile(
    r"mismatch|isvalid: false|exception|error|corrupt|out of order|not found|could not|unexpected"
    r"|warn|fail|invalid",
    re.IGNORECASE,
)

Fields = dict[str, str]


@dataclass
class Dump:
    """What the tool printed, by file name."""

    output: str
    batches: list[Fields] = field(default_factory=list)
    records: list[Fields] = field(default_factory=list)
    index_entries: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """(offset, position) of an offset index, (timestamp, offset) of a time index."""
    producers: dict[str, list[Fields]] = field(default_factory=dict)

    @property
    def complaints(self) -> list[str]:
        return [line for line in self.output.splitlines() if COMPLAINTS.search(line)]


class KafkaTools:
    def __init__(self, classpath: str) -> None:
        self._classpath = classpath

    @classmethod
    def resolve(cls, folder: Path) -> "KafkaTools":
        """With the archives that Maven has or fetches; RuntimeError if it cannot.

        A note in the user's cache folder spares the next run Maven, while the archives are there.
        """
        kept = _note()
        if kept.exists() and all(map(os.path.exists, kept.read_text("utf-8").split(os.pathsep))):
            return cls(kept.read_text("utf-8"))
        saved = folder / "classpath"
        options = [*JVM_OPTIONS, os.environ.get("MAVEN_OPTS", "")]  # a proxy may stand in these
        command = ["mvn", "-q", "-B", "-f", str(POM), "dependency:build-classpath"]
        done = subprocess.run(
            [*command, f"-Dmdep.outputFile={saved}"],
            env={**os.environ, "MAVEN_OPTS": " ".join(options)},
            capture_output=True,
            text=True,
            timeout=RESOLVE_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"Maven does not resolve {POM.name}: {done.stdout[-2000:]}")
        classpath = saved.read_text("utf-8").strip()
        kept.parent.mkdir(parents=True, exist_ok=True)
        saved.write_text(classpath, "utf-8")
        shutil.move(saved, kept)
        return cls(classpath)

    def dump(self, files: Iterable[Path], *options: str) -> Dump:
        """The tool's words on `files`, with `options` of its own."""
        java = ["java", *JVM_OPTIONS, "-cp", self._classpath]
        tool = [
            "org.apache.kafka.tools.DumpLogSegments",
            *options,
            "--files",
            ",".join(map(str, files)),
        ]
        done = subprocess.run(
            [*java, *tool],
            capture_output=True,
            text=True,
            timeout=DUMP_TIMEOUT_S,
            check=False,
        )
        return _read(done.stdout + done.stderr)


def _note() -> Path:
    """The file with the paths of the archives that the POM of now names."""
    cache_home = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(cache_home) if cache_home else Path.home() / ".cache"
    return base / "strandline-kafka-tools" / f"{zlib.crc32(POM.read_bytes()):08x}"


def _read(output: str) -> Dump:
    dump = Dump(output)
    name = ""
    for line in output.splitlines():
        if line.startswith("Dumping "):
            name = Path(line.removeprefix("Dumping ")).name
        elif line.startswith("baseOffset: "):
            dump.batches.append(_fields(line))
        elif line.startswith("| "):
            dump.records.append(_fields(line[2:]))
        elif line.startswith("producerId: "):
            dump.producers.setdefault(name, []).append(_fields(line))
        elif (pair := re.fullmatch(r"\w+: (-?\d+) \w+: (-?\d+)", line)) is not None:
            dump.index_entries.setdefault(name, []).append((int(pair[1]), int(pair[2])))
    return dump


def _fields(line: str) -> Fields:
    """`name: value` pairs; a value has no colon behind its last blank."""
    return dict(re.findall(r"(\w+): ((?:(?!\s\w+: ).)*)", line))
