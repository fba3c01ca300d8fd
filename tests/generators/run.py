"""Generators of clients, one function each: generate, compile, run. `python -m tests.generators.run [NAME ...]`.

Each downloads its generator from the registry of its language, so tests.http.test_generators runs only what is cheap.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from kafka_offsets.http.openapi import document
from kafka_offsets.http.operations import operations
from tests.conftest import REPOSITORY
from tests.http.conftest import Serving

CLIENTS = Path(__file__).parent / "clients"
DOCUMENT = "openapi.json"
MODULES = Path(
    os.environ.get("KAFKA_OFFSETS_NODE_MODULES", Path.home() / ".cache/kafka-offsets/node_modules")
)
OAPI_CODEGEN = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"
OGEN = "github.com/ogen-go/ogen/cmd/ogen@v1.24.0"
OPENAPI_GENERATOR = "org.openapitools:openapi-generator-cli:7.10.0"

EXPECTED = "orders 1 1700000000000 first\nthere is no broker 'none'\n"
"""What each client prints: a topic, an end offset, a timestamp of more than 32 bits, a value, and a problem."""


def run(*words: str | Path, cwd: Path) -> str:
    """Run a program; return its standard output. RuntimeError with all that it printed if it fails."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, cwd=cwd)
    if done.returncode:
        raise RuntimeError(f"{words[0]} {words[1]}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def typescript(folder: Path, url: str) -> str:
    """Types by openapi-typescript, checked by tsc."""
    (folder / "node_modules").symlink_to(MODULES)
    run(MODULES / ".bin" / "openapi-typescript", DOCUMENT, "-o", "schema.ts", cwd=folder)
    options = ["--strict", "--target", "es2022", "--module", "commonjs", "--moduleResolution", "node10"]
    run(MODULES / ".bin" / "tsc", *options, "--skipLibCheck", "--types", "node", "main.ts", cwd=folder)
    return run("node", "main.js", url, cwd=folder)


def oapi_codegen(folder: Path, url: str) -> str:
    """A client by oapi-codegen, with the compiler of Go."""
    run("go", "mod", "init", "example", cwd=folder)
    made = run(
        "go", "run", OAPI_CODEGEN, "-package", "client", "-generate", "types,client", DOCUMENT, cwd=folder
    )
    (folder / "client").mkdir()
    (folder / "client" / "client.go").write_text(made, encoding="utf-8")
    return _run_go(folder, url)


def ogen(folder: Path, url: str) -> str:
    """A client by ogen, with the compiler of Go."""
    run("go", "mod", "init", "example", cwd=folder)
    run("go", "run", OGEN, "--target", "client", "--package", "client", DOCUMENT, cwd=folder)
    return _run_go(folder, url)


def _run_go(folder: Path, url: str) -> str:
    run("go", "mod", "tidy", cwd=folder)
    return run("go", "run", ".", url, cwd=folder)


def java(folder: Path, url: str) -> str:
    """A client by openapi-generator for Java's own HTTP client, with Maven."""
    # Its tests of a method with a parameter `api`, the name of their own variable, do not compile.
    _openapi_generator(folder, "java", "--library", "native", "--global-property", "apiTests=false")
    shutil.copy(folder / "Main.java", folder / "made" / "src" / "main" / "java")
    made = folder / "made"
    maven = ["mvn", "-q", "-B", "-DskipTests", "-Dmaven.javadoc.skip=true"]
    run(*maven, "package", "dependency:copy-dependencies", cwd=made)
    return run("java", "-cp", f"target/classes{os.pathsep}target/dependency/*", "Main", url, cwd=made)


def rust(folder: Path, url: str) -> str:
    """A client by openapi-generator for Rust, with cargo."""
    _openapi_generator(folder, "rust")
    made = folder / "made"
    shutil.copy(folder / "main.rs", made / "src")
    with (made / "Cargo.toml").open("a", encoding="utf-8") as file:
        file.write('\n[dependencies.tokio]\nversion = "1"\nfeatures = ["macros", "rt-multi-thread"]\n')
    return run("cargo", "run", "--quiet", "--", url, cwd=made)


def _openapi_generator(folder: Path, language: str, *options: str) -> None:
    copy = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
    run("mvn", "-q", "-B", copy, f"-Dartifact={OPENAPI_GENERATOR}", "-DoutputDirectory=.", cwd=folder)
    (jar,) = folder.glob("openapi-generator-cli-*.jar")
    words = ["generate", "-g", language, "-i", DOCUMENT, "-o", "made"]
    run("java", "-jar", jar, *words, *options, cwd=folder)


GENERATORS: dict[str, Callable[[Path, str], str]] = {
    each.__name__: each for each in (typescript, oapi_codegen, ogen, java, rust)
}


def check(name: str, folder: Path, url: str) -> None:
    """Generate a client in an empty folder, compile it, and let it call a server. RuntimeError if something fails."""
    shutil.copytree(CLIENTS / name, folder, dirs_exist_ok=True)
    (folder / DOCUMENT).write_text(json.dumps(document(operations())), encoding="utf-8")
    printed = GENERATORS[name](folder, url)
    if printed != EXPECTED:
        raise RuntimeError(f"{name} printed {printed!r}, not {EXPECTED!r}")


def main(names: list[str]) -> int:
    """Check the generators of these names, or all; return 1 if one fails."""
    failed = 0
    with Serving() as client:
        for name in names or GENERATORS:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    check(name, Path(folder), client.url)
                except (RuntimeError, OSError) as error:
                    failed = 1
                    print(f"{name}: {error}", flush=True)
                else:
                    print(f"{name}: makes a broker and reads a record", flush=True)
    return failed


if __name__ == "__main__":
    os.chdir(REPOSITORY)
    sys.exit(main(sys.argv[1:]))
