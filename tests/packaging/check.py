"""What packaging/ holds, checked as far as a machine without systemd, Kubernetes and Docker at work allows.

check.py SOURCE MOETUNE: the units by `systemd-analyze verify`, the CronJob by its structure, options by the tool itself.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import links

source, moetune = pathlib.Path(sys.argv[1]), str(pathlib.Path(sys.argv[2]).resolve())
packaging = source / "packaging"
WORKLOADS = {"moetune_workloads": 1, "workloads": []}


def check(holds, what):
    if not holds:
        raise SystemExit(f"packaging: {what}")


def run_with_own_files(arguments):
    """The packaged command line as a dry run, with files of a temporary folder: are all of its options known?"""
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "workloads.json").write_text(json.dumps(WORKLOADS))
        own = [re.sub(r"^/(etc|var/lib|var/log)/moetune/", folder + "/", word) for word in arguments]
        # A night takes a recording for a GPU only by name.
        ended = subprocess.run([moetune, *own, "--dry-run", "--device", "replay:shipped"], capture_output=True, text=True)
        check(ended.returncode == 0, f"{arguments} is refused: {ended.stderr}")


def check_retune_through_service(service):
    """The command line in the unit's comment: are its options known, and does it get as far as the service?"""
    command = re.search(r"^#   ExecStart=/usr/bin/moetune (retune .* --server \S+)$", service, re.M)
    check(command, "the unit does not say how the service retunes")
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "workloads.json").write_text(json.dumps(WORKLOADS))
        own = command[1].replace("/etc/moetune/", folder + "/").replace(":7878", ":1")  # where nobody listens
        ended = subprocess.run([moetune, *own.split()], capture_output=True, text=True)
        check(ended.returncode == 3 and "127.0.0.1:1" in ended.stderr, f"{command[1]} is refused: {ended.stderr}")


def hardening(unit):
    """What it may do: all lines that name a limit of what the process may reach."""
    names = "Device|Capability|NoNew|Private|Protect|Lock|RemoveIPC|Restrict|SystemCall"
    return re.findall(rf"^((?:{names})\w*=.*)$", unit, re.M)


def check_units():
    service = (packaging / "systemd/moetune-retune.service").read_text()
    command = re.search(r"^ExecStart=/usr/bin/moetune (.*)$", service, re.M)
    check(command, "the service does not start /usr/bin/moetune")
    run_with_own_files(command[1].split())
    users = (packaging / "systemd/moetune.sysusers").read_text()
    user = re.search(r"^User=(\S+)$", service, re.M)
    check(user and re.search(rf"^u {user[1]} - ", users, re.M), "the service's user is not that of moetune.sysusers")
    check("DynamicUser" not in service, "a dynamic user hides /var/lib/moetune from servers of other users")
    check(re.search(r"^SuccessExitStatus=.*\b143\b", service, re.M), "a stopped night would count as failed")
    if shutil.which("systemd-sysusers") is not None:
        ended = subprocess.run(["systemd-sysusers", "--dry-run", (packaging / "systemd/moetune.sysusers").resolve()],
                               capture_output=True, text=True)
        check(ended.returncode == 0, f"systemd-sysusers: {ended.stderr}")
    serve = (packaging / "systemd/moetune-serve.service").read_text()
    command = re.search(r"^ExecStart=/usr/bin/moetune (serve .*)$", serve, re.M)
    check(command, "the service's unit does not start /usr/bin/moetune serve")
    state = re.search(r"^StateDirectory=(.*)$", serve, re.M)[1].split()
    packs = re.search(r" --packs /var/lib/(\S+)", command[1])
    check(packs and packs[1] in state, "the service's packs are in no folder that systemd makes")
    caches = [re.search(r"^ExecStart=.* --cache (\S+)", unit, re.M)[1] for unit in (service, serve)]
    check(caches[0] == caches[1], "service and night have different caches, and so no lock beside the cache in common")
    check_retune_through_service(service)
    # Its options are known if nothing but the address is wrong.
    ended = subprocess.run([moetune, *command[1].split(), "--listen", "nowhere"], capture_output=True, text=True)
    check(ended.returncode == 2 and "nowhere" in ended.stderr, f"{command[1]} is refused: {ended.stderr}")
    timer = (packaging / "systemd/moetune-retune.timer").read_text()
    check("[Install]" not in service, "what the timer starts would be started at boot as well")
    check("[Install]" in timer and "[Install]" in serve, "the timer or the service cannot be enabled")
    for name, unit in (("retune", service), ("serve", serve)):
        check("\nDevicePolicy=closed\nDeviceAllow=char-nvidia* rw\n" in unit, f"{name} sees more than GPUs, or none")
        hides = re.search(r"^(PrivateDevices|MemoryDenyWriteExecute|ProcSubset)=", unit, re.M)
        check(not hides, f"{name} finds no GPU")
    check(hardening(service) and hardening(service) == hardening(serve), "night and service may do different things")
    if shutil.which("systemd-analyze") is None:
        print("SKIPPED: systemd-analyze is not here: the units are not verified")
        return
    with tempfile.TemporaryDirectory() as folder:
        units = []
        for name in ("moetune-retune.service", "moetune-retune.timer", "moetune-serve.service"):
            text = (packaging / "systemd" / name).read_text().replace("/usr/bin/moetune", moetune)
            units.append(pathlib.Path(folder) / name)
            units[-1].write_text(text)
        ended = subprocess.run(["systemd-analyze", "verify", *map(str, units)], capture_output=True, text=True)
        own = [line for line in ended.stderr.splitlines() if "moetune" in line and "man " not in line]
        check(not own, "systemd-analyze: " + "; ".join(own))
        calendar = re.search(r"^OnCalendar=(.*)$", units[1].read_text(), re.M)[1]
        ended = subprocess.run(["systemd-analyze", "calendar", calendar], capture_output=True, text=True)
        check(ended.returncode == 0, f"OnCalendar={calendar}: {ended.stderr}")
        for unit in units[0], units[2]:
            command = ["systemd-analyze", "security", "--offline=yes", "--no-pager", "--threshold=25", unit]
            exposed = subprocess.run(command, capture_output=True, text=True)
            if "Unknown" in exposed.stderr or "unrecognized" in exposed.stderr:
                print("SKIPPED: this systemd-analyze has no security --offline")
            else:
                check(exposed.returncode == 0, f"{unit.name}: {exposed.stdout[-200:]}{exposed.stderr}")


def check_pod(pod):
    """Of a Job's or a CronJob's template: what is mounted is there, and nobody may become more than it is."""
    check(pod["restartPolicy"] == "Never", "restartPolicy must be Never")
    container = pod["containers"][0]
    dockerfile = (packaging / "docker/Dockerfile").read_text()
    user = int(re.search(r"^USER (\d+):\1$", dockerfile, re.M)[1])
    own = pod["securityContext"]
    check((own["runAsUser"], own["runAsGroup"], own["fsGroup"]) == (user,) * 3, "the pod's user is not the image's")
    # What Kubernetes makes on a node is root's; of a claim it takes care by fsGroup.
    of_node = {volume["name"] for volume in pod["volumes"] if "hostPath" in volume}
    owned = {mount["name"] for first in pod.get("initContainers", []) for mount in first["volumeMounts"]
             if first["command"][:2] == ["chown", f"{user}:{user}"]}
    check(of_node == owned, f"the pod's user cannot write to {of_node - owned}")
    volumes = {volume["name"] for volume in pod["volumes"]}
    check({mount["name"] for mount in container["volumeMounts"]} == volumes, "mounts and volumes differ")
    check(container["securityContext"]["allowPrivilegeEscalation"] is False, "privileges may grow")
    check({"limits", "requests"} <= container["resources"].keys(), "resources are not bounded")
    return container


def check_jobs():
    try:
        import yaml
    except ImportError:
        print("SKIPPED: PyYAML is not here: the Jobs are not read")
        return
    shards = yaml.safe_load((packaging / "kubernetes/retune-shards.yaml").read_text())
    check((shards["apiVersion"], shards["kind"]) == ("batch/v1", "Job"), "the shards are of another kind")
    spec = shards["spec"]
    check(spec["completionMode"] == "Indexed", "completionMode must be Indexed")
    check(spec["backoffLimitPerIndex"] == 0, "backoffLimitPerIndex must be 0")
    check("backoffLimit" not in spec, "with a backoffLimit the first shard that fails ends all others")
    check(spec["parallelism"] <= spec["completions"], "more pods than shards")
    container = check_pod(spec["template"]["spec"])
    check("nvidia.com/gpu" in container["resources"]["limits"], "no GPU is asked for")
    environment = {one["name"]: one["value"] for one in container["env"]}
    check(environment["MOETUNE_SHARDS"] == str(spec["completions"]), "MOETUNE_SHARDS is not the number of completions")
    workloads, _, *options = container["args"]
    run_with_own_files(["retune", "--workloads", workloads, "--shard", "1/8", *options])
    merge = yaml.safe_load((packaging / "kubernetes/retune-merge.yaml").read_text())
    check((merge["apiVersion"], merge["kind"]) == ("batch/v1", "Job"), "the merge is of another kind")
    merging = check_pod(merge["spec"]["template"]["spec"])
    for name, one in (("tune_shard", container), ("merge_shards", merging)):
        check(one["command"] == [f"/usr/lib/moetune/{name}"], f"{name} is somewhere else")
    claims = [{v["persistentVolumeClaim"]["claimName"] for v in job["spec"]["template"]["spec"]["volumes"]
               if "persistentVolumeClaim" in v} for job in (shards, merge)]
    check(claims[0] == claims[1], "shards and merge see different volumes")


def check_scripts():
    for script in [*packaging.glob("fleet/*"), *packaging.glob("slurm/*")]:
        ended = subprocess.run(["bash", "-n", str(script)], capture_output=True, text=True)
        check(ended.returncode == 0, f"{script.name}: {ended.stderr}")
        check(script.stat().st_mode & 0o111, f"{script.name} is no program")
    for script in packaging.glob("slurm/*"):
        for line in script.read_text().splitlines():
            check(not line.startswith("#SBATCH") or re.fullmatch(r"#SBATCH --[a-z-]+(=\S+)?", line),
                  f"{script.name}: {line}")


# A night that ends in good order a moment after SIGTERM, and says what it found by the cache that it leaves.
NIGHT = """#!/usr/bin/env bash
set -eu
if [ "$1" = retune ]; then
  while [ "$1" != --cache ]; do shift; done
  trap 'sleep 0.3; echo found > "'"$2"'"; exit 143' TERM
  touch "$STARTED"
  while :; do sleep 0.05; done
fi
cp "$5" "$3"  # cache export PACK --cache CACHE
"""


def check_stopped_shard():
    """A scheduler's SIGTERM to tune_shard reaches the night, and what that had is exported before the shard ends."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        night, started = folder / "moetune", folder / "started"
        night.write_text(NIGHT)
        night.chmod(0o755)
        own = {"MOETUNE": str(night), "MOETUNE_SHARD": "2/4", "MOETUNE_WORK": str(folder / "work"),
               "STARTED": str(started)}
        shard = subprocess.Popen([packaging / "fleet/tune_shard", folder / "list.json", folder / "fleet"],
                                 env={**os.environ, **own})
        for _ in range(2400):
            if started.exists():
                break
            time.sleep(0.05)
        shard.send_signal(signal.SIGTERM)
        check(shard.wait(timeout=120) == 143, f"a shard that is stopped ends with {shard.returncode}")
        pack = folder / "fleet/shards/2-of-4.db"
        check(pack.exists() and pack.read_text() == "found\n", "a shard that is stopped leaves no pack")


def check_cronjob():
    try:
        import yaml
    except ImportError:
        print("SKIPPED: PyYAML is not here: the CronJob is not read")
        return
    job = yaml.safe_load((packaging / "kubernetes/retune-cronjob.yaml").read_text())
    check((job["apiVersion"], job["kind"]) == ("batch/v1", "CronJob"), "the CronJob is of another kind")
    spec = job["spec"]
    check(spec["concurrencyPolicy"] == "Forbid", "concurrencyPolicy must be Forbid")
    check(spec["jobTemplate"]["spec"]["backoffLimit"] == 0, "backoffLimit must be 0")
    check(len(spec["schedule"].split()) == 5, "the schedule has five fields")
    pod = spec["jobTemplate"]["spec"]["template"]["spec"]
    container = check_pod(pod)
    check("nvidia.com/gpu" in container["resources"]["limits"], "no GPU is asked for")
    run_with_own_files(container["args"])


def check_schemas():
    """The manifests against Kubernetes' own schemas, where scripts/test has brought them."""
    folder = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else None
    if folder is None or not folder.is_dir():
        print("SKIPPED: Kubernetes' schemas are not here; scripts/test brings them by pip")
        return
    sys.path.insert(0, str(folder))
    import kubernetes_validate
    import yaml
    manifests = sorted((packaging / "kubernetes").glob("*.yaml"))
    for file in manifests:
        for document in yaml.safe_load_all(file.read_text()):
            for version in ("1.29", "1.31"):  # the first that have backoffLimitPerIndex
                kubernetes_validate.validate(document, version, strict=True)
            wrong = json.loads(json.dumps(document))
            wrong["spec"]["backoffLimits"] = 0  # the schema must see a field that there is not
            try:
                kubernetes_validate.validate(wrong, version, strict=True)
            except kubernetes_validate.ValidationError:
                continue
            check(False, f"{file.name}: the schema sees no wrong field")
    check(manifests, "there are no manifests")


def check_health():
    """The health check of the image on a service that answers, on one that has stopped, and on another command."""
    def healthy(process):
        return subprocess.run([packaging / "docker/healthy", str(process.pid)], capture_output=True).returncode == 0

    with tempfile.TemporaryDirectory() as folder, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        command = [moetune, "serve", "--listen", f"127.0.0.1:{port}", "--cache", f"{folder}/cache.db", "--device",
                   "replay:decode_attention_h200_b8_c4096"]
        service = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            check("http" in service.stdout.readline(), "the service does not begin")
            check(healthy(service), "a service that answers counts as ill")
            service.send_signal(signal.SIGSTOP)
            check(not healthy(service), "a service that has stopped answering counts as healthy")
            service.send_signal(signal.SIGCONT)
        finally:
            service.kill()
            service.wait()
        refused = subprocess.Popen(["sleep", "60"])  # of no service there is nothing to ask
        check(healthy(refused), "another command counts as ill")
        refused.kill()
        refused.wait()


def check_dockerfile():
    text = re.sub(r"\\\n", " ", (packaging / "docker/Dockerfile").read_text())
    known = {"FROM", "RUN", "COPY", "ENV", "VOLUME", "ENTRYPOINT", "CMD", "USER", "WORKDIR", "HEALTHCHECK"}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            check(line.split()[0] in known, f"the Dockerfile has an instruction {line.split()[0]}")
    check(json.loads(re.search(r"^ENTRYPOINT (.*)$", text, re.M)[1]) == ["/usr/bin/moetune"], "another entry point")
    pinned = re.search(r"nvidia-cuda-nvrtc==(\d+)\.(\d+)", text)
    check(pinned, "NVRTC is not pinned")
    setup = re.search(r"^nvrtc_version=(\S+)$", (source / "scripts/setup").read_text(), re.M)
    check(setup and f"{pinned[1]}.{pinned[2]}" == setup[1], "NVRTC is of another version than scripts/setup brings")
    user = re.search(r"^USER (\d+):\d+$", text, re.M)
    check(user and int(user[1]) > 0 and f"useradd --uid {user[1]} " in text, "the container runs as root")
    check(text.index("useradd") < text.index("\nUSER ") < text.index("\nVOLUME "), "the volume is not the user's")
    health = re.search(r'^HEALTHCHECK .* CMD \["/usr/lib/moetune/(\w+)"\]$', text, re.M)
    check(health and (packaging / "docker" / health[1]).exists(), "there is no health check")
    rules = re.sub(r"\s+", " ", (source / "cmake/Package.cmake").read_text())
    copied = re.search(r"file\(COPY ([^)]*) DESTINATION", rules)
    check(f"packaging/docker/{health[1]}" in copied[1].split(), "the health check is not copied")
    check(f"MOETUNE_NVRTC=/opt/nvidia/cu{pinned[1]}/lib" in text, "MOETUNE_NVRTC is not where that NVRTC lies")


check(not (dead := links.dead_links(source)), "\n".join(dead))
check_units()
check_cronjob()
check_jobs()
check_schemas()
check_scripts()
check_stopped_shard()
check_dockerfile()
check_health()
print("packaging: sound")
