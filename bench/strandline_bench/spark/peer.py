"""Spark's Kafka connector: its jars, loaded by Maven and kept in the user's cache folder."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from strandline_cli.errors import CliError

GROUP: Final = "org.apache.spark"
ARTIFACT: Final = "spark-sql-kafka-0-10_2.13"
VERSION: Final = "4.0.0"
MAVEN_S: Final = 600.0
_POM: Final = f"""<project>
<modelVersion>4.0.0</modelVersion>
<groupId>peer</groupId><artifactId>connector</artifactId><version>1</version>
<dependencies><dependency>
<groupId>{GROUP}</groupId><artifactId>{ARTIFACT}</artifactId><version>{VERSION}</version>
</dependency></dependencies></project>
"""


def connector_jars() -> str:
    """The connector and those of its dependencies that Spark lacks, comma separated. Raises
    CliError with the remedy.
    """
    from pyspark.find_spark_home import _find_spark_home

    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "strandline-bench")
    saved = home / f"{ARTIFACT}-{VERSION}.classpath"
    if not saved.exists():
        _resolve(home, saved)
    own = {_artifact(jar.name) for jar in Path(_find_spark_home(), "jars").glob("*.jar")}
    jars = [jar for jar in saved.read_text("utf-8").strip().split(":") if jar]
    missing = [jar for jar in jars if not Path(jar).exists()]
    if missing or not jars:
        raise CliError(
            f"{saved} names jars that are not there ({', '.join(missing) or 'none at all'}): remove"
            " it, and Maven is asked again"
        )
    return ",".join(jar for jar in jars if _artifact(Path(jar).name) not in own)


def _resolve(home: Path, saved: Path) -> None:
    if shutil.which("mvn") is None:
        raise CliError(
            f"--peer-kafka needs the jars of {GROUP}:{ARTIFACT}:{VERSION}: install Maven, which"
            " brings them, or name them with --peer-jars"
        )
    home.mkdir(parents=True, exist_ok=True)
    pom = home / "pom.xml"
    pom.write_text(_POM, "utf-8")
    fresh = saved.with_suffix(".new")
    command = ["mvn", "-q", "-f", str(pom), "dependency:build-classpath"]
    try:
        subprocess.run(
            [*command, f"-Dmdep.outputFile={fresh}"],
            check=True,
            timeout=MAVEN_S,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError) as why:
        raise CliError(f"Maven does not bring {GROUP}:{ARTIFACT}:{VERSION}: {why}") from None
    fresh.replace(saved)


def _artifact(jar: str) -> str:
    """The name of a jar without its version."""
    words = jar.removesuffix(".jar").split("-")
    kept = [word for word in words if not word[:1].isdigit() or "_" in word]
    return "-".join(kept)
