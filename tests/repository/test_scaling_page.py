"""The manifest for Kubernetes in docs/scaling.md: what it says fits together, and its command runs."""

import json
import os
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "scaling.md").read_text()
HOST = "mount --bind {hosts} /etc/hosts && ip link set lo up && {commands} wait"
KEYS = (
    "--set data.labeled_fraction=0.1 --set space.channels=2 --set search.epochs=2 --set search.steps_per_epoch=2 "
    "--hypergradient first-order"
)


def manifest() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the service and the job."""
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)
    service, job = yaml.safe_load_all(block)
    return service, job


def command() -> str:
    """Return what a pod runs."""
    (container,) = manifest()[1]["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["sh", "-c"]
    (text,) = container["args"]
    return str(text)


def test_the_manifest_fits_together() -> None:
    service, job = manifest()
    assert (service["apiVersion"], service["kind"], job["apiVersion"], job["kind"]) == (
        "v1", "Service", "batch/v1", "Job"
    )  # fmt: skip
    assert service["spec"]["clusterIP"] == "None"  # only then do pods have names of their own
    name, spec = job["metadata"]["name"], job["spec"]
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": name}
    pod = spec["template"]["spec"]
    assert pod["subdomain"] == service["metadata"]["name"]
    assert spec["completionMode"] == "Indexed"
    words = shlex.split(command().replace("\\\n", " "), comments=True)
    given = dict(pairwise(words))
    assert spec["completions"] == spec["parallelism"] == int(given["--nnodes"])
    assert given["--node-rank"] == "$JOB_COMPLETION_INDEX"
    assert given["--master-addr"] == f"{name}-0.{pod['subdomain']}"
    (container,) = pod["containers"]
    assert container["ports"] == [{"containerPort": int(given["--master-port"])}]
    (mount,), (volume,) = container["volumeMounts"], pod["volumes"]
    assert mount["name"] == volume["name"]
    assert Path(given["--out"]).is_relative_to(mount["mountPath"])
    assert int(given["--learners"]) >= int(given["--nnodes"]) * int(given["--nproc-per-node"])


@pytest.mark.slow  # four processes that load torch
def test_the_command_of_the_manifest_in_two_pods_is_one_process(tmp_path: Path) -> None:
    """Two agents of torchrun in a network of their own, in which the name of the first pod leads to loopback."""
    if subprocess.run(["unshare", "-rmn", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no namespaces can be made here")
    (tmp_path / "hosts").write_text("127.0.0.1 localhost smallgroup-0.smallgroup\n")
    text = command().replace("/runs/group", str(tmp_path / "group")).replace(" $resume", f" {KEYS} $resume")
    pods = " ".join(f"(JOB_COMPLETION_INDEX={index} sh -c {shlex.quote(text)}) &" for index in (0, 1))
    script = HOST.format(hosts=shlex.quote(str(tmp_path / "hosts")), commands=pods)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    pipes: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 600}
    done = subprocess.run(["unshare", "-rmn", "bash", "-c", script], check=False, cwd=ROOT, env=environment, **pipes)
    assert (tmp_path / "group" / "result.json").exists(), done.stderr
    alone = [sys.executable, "-m", "smallgroup", "search", "--learners", "2", "--set", "run.threads=1", *KEYS.split()]
    subprocess.run([*alone, "--out", str(tmp_path / "one")], cwd=ROOT, env=environment, capture_output=True, check=True)
    metrics = [(tmp_path / name / "metrics.jsonl").read_bytes() for name in ("group", "one")]
    assert metrics[0] == metrics[1] != b""
    results = [json.loads((tmp_path / name / "result.json").read_text())["genotype"] for name in ("group", "one")]
    assert results[0] == results[1]
