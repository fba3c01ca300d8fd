"""java/Client.java as a command: compiled once for a machine, with an archive of the classes that it loads.

Both lie beside the jars of kafka-clients, in a folder that is named after the source and the jars. With the archive a
JVM takes 0.5 s of CPU until it has read its first records; without it takes 1.4 s.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from kafka_offsets import Broker
from tests.conftest import missing

JAVA = Path(__file__).parent / "java"
JARS = Path(os.environ.get("KAFKA_OFFSETS_JARS", Path.home() / ".cache" / "kafka-offsets" / "jars"))
GET_JARS = f"mvn -q -B -f {JAVA / 'pom.xml'} dependency:copy-dependencies -DoutputDirectory={JARS}"
SOURCE = JAVA / "Client.java"
JAR, ARCHIVE = "client.jar", "client.jsa"
# A client's life here is a second or two: the JVM should not compile for the long run. It has no file of performance
# data: of one that a process with the same number in another namespace has locked, it writes a line into its output.
FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xshare:auto", "-Xmx256m")


def need_tools() -> None:
    """Skip, or fail where everything should be there, without a JDK or the jars."""
    if shutil.which("java") is None or shutil.which("javac") is None:
        missing("a JDK", "apt-get install -y openjdk-17-jdk-headless")
    if not list(JARS.glob("kafka-clients-*.jar")):
        missing("kafka-clients.jar", GET_JARS)


def command(scratch: Path) -> list[str]:
    """Return the command line that runs the client; `scratch` is used where nothing can be kept beside the jars."""
    jars = sorted(JARS.glob("*.jar"))
    version = hashlib.sha256(SOURCE.read_bytes() + repr(jars).encode()).hexdigest()[:16]
    home = JARS if os.access(JARS, os.W_OK) else scratch
    folder = home / f"client-{version}"
    with (home / "client.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several workers one builds it and the others wait
        if not (folder / JAR).exists():
            folder.mkdir(exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder) as building:
                _compile(Path(building), jars).rename(folder / JAR)
                _archive(folder, jars, Path(building) / ARCHIVE).rename(folder / ARCHIVE)
    return _java(folder, jars)


def _compile(folder: Path, jars: list[Path]) -> Path:
    classes = folder / "classes"
    options = ["-Werror", "-Xlint:all", "-proc:none", "-cp", _path(jars), "-d", str(classes)]
    subprocess.run(["javac", *options, str(SOURCE)], check=True)
    jar = folder / JAR
    subprocess.run(["jar", "cf", str(jar), "-C", str(classes), "."], check=True)
    return jar


def _archive(folder: Path, jars: list[Path], archive: Path) -> Path:
    """Have the client load what it needs as a shell and as a member, and leave that as an archive when it ends."""
    with Broker() as broker:
        loading = [
            *_java(folder, jars, f"-XX:ArchiveClassesAtExit={archive}"),
            "load",
            broker.bootstrap_servers,
        ]
        done = subprocess.run(loading, capture_output=True, text=True)
    assert "assigned 0 1 2" in done.stdout, done.stdout + done.stderr
    return archive


def _java(folder: Path, jars: list[Path], *flags: str) -> list[str]:
    archive = folder / ARCHIVE
    if archive.exists():
        flags = (*flags, f"-XX:SharedArchiveFile={archive}", "-Xlog:cds*=off")
    # The archive knows the jars by their paths and their order.
    return ["java", *FLAGS, *flags, "-cp", _path([folder / JAR, *jars]), "Client"]


def _path(jars: list[Path]) -> str:
    return os.pathsep.join(map(str, jars))
