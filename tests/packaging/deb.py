"""The Debian package: made by CPack, unpacked into an empty root, and run there with nothing but what it depends on.

deb.py BUILD [DEB]: with DEB that package instead of one that is made now. Exit code 77: this machine lacks Debian's tools.
As root the program runs within the root by chroot; else it is started from there by the root's own loader.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

build = pathlib.Path(sys.argv[1]).resolve()
EXPECTED = {
    "usr/bin/moetune": 0o755,
    "usr/lib/moetune/tune_shard": 0o755,
    "usr/lib/moetune/merge_shards": 0o755,
    "usr/lib/systemd/system/moetune-retune.service": 0o644,
    "usr/lib/systemd/system/moetune-retune.timer": 0o644,
    "usr/lib/sysusers.d/moetune.conf": 0o644,
    "usr/lib/systemd/system/moetune-serve.service": 0o644,
    "usr/share/moetune/kubernetes/retune-shards.yaml": 0o644,
    "usr/share/moetune/slurm/retune.sbatch": 0o755,
    "usr/share/doc/moetune/copyright": 0o644,
    "usr/share/doc/moetune/retune.md": 0o644,
}


def check(holds, what):
    if not holds:
        raise SystemExit(f"deb: {what}")


def output_of(*command, **more):
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True, **more)
    check(ended.returncode == 0, f"{' '.join(map(str, command))}: {ended.stdout}{ended.stderr}")
    return ended.stdout


def make_package(folder):
    output_of("cpack", "--config", build / "CPackConfig.cmake", "-G", "DEB", "-B", folder, cwd=build)
    made = list(folder.glob("*.deb"))
    check(len(made) == 1, f"CPack made {made}")
    return made[0]


def field(package, name):
    return output_of("dpkg-deb", "--field", package, name).strip()


def depends_of(package):
    return {re.split(r"[ (:]", word.strip())[0] for word in re.split(r"[,|]", field(package, "Depends")) if word.strip()}


def libraries_of(program):
    """Paths of all shared libraries, the loader included."""
    return re.findall(r"(/\S+) \(0x", output_of("ldd", program))


def package_of(library):
    for path in (library, os.path.realpath(library), library.removeprefix("/usr"), "/usr" + library):
        ended = subprocess.run(["dpkg", "-S", path], capture_output=True, text=True)
        if ended.returncode == 0:
            return ended.stdout.split(":")[0]
    return None


def closure(packages):
    """With what these depend on, by the machine's own list."""
    known, todo = set(), list(packages)
    while todo:
        name = todo.pop()
        if name in known:
            continue
        known.add(name)
        shown = subprocess.run(["dpkg-query", "-W", "-f", "${Depends}, ${Pre-Depends}", name], capture_output=True, text=True)
        todo += [re.split(r"[ (:]", word.strip())[0] for word in re.split(r"[,|]", shown.stdout) if word.strip()]
    return known


def fill(root, package):
    """The libraries of the program, each of a package that it depends on."""
    allowed = closure(depends_of(package))
    for library in libraries_of(root / "usr/bin/moetune"):
        owner = package_of(library)
        check(owner is None or owner in allowed, f"{library} is of {owner}, which it does not depend on")
        target = root / library.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(os.path.realpath(library), target)


def run_inside(root, *arguments):
    if os.geteuid() == 0:
        return output_of(shutil.which("chroot", path="/usr/sbin:/sbin:/usr/bin"), root, "/usr/bin/moetune", *arguments, env={"HOME": "/root", "PATH": "/usr/bin"})
    loader = next(path for path in libraries_of(root / "usr/bin/moetune") if "/ld-" in path)
    folders = sorted({str((root / path.lstrip("/")).parent) for path in libraries_of(root / "usr/bin/moetune")})
    return output_of(root / loader.lstrip("/"), "--library-path", ":".join(folders), root / "usr/bin/moetune", *arguments,
                     env={"HOME": str(root / "root")})


def main():
    if not all(map(shutil.which, ("dpkg-deb", "dpkg-shlibdeps", "file", "cpack"))):
        print("SKIPPED: dpkg-deb, dpkg-shlibdeps, file or cpack is not here; scripts/test brings them by apt")
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        package = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else make_package(folder / "made")
        check(field(package, "Package") == "moetune", "the package has another name")
        check("libc6" in depends_of(package), f"it depends on {field(package, 'Depends')}")
        root = folder / "root"
        output_of("dpkg-deb", "-x", package, root)
        for path, mode in EXPECTED.items():
            check((root / path).is_file(), f"{path} is missing")
            check((root / path).stat().st_mode & 0o777 == mode, f"{path} has another mode")
        check(not list(root.rglob("*.so")) and not (root / "usr/include").exists(), "what a server links is in it")
        fill(root, package)
        (root / "root").mkdir(mode=0o700)
        check(run_inside(root, "--version").startswith("moetune "), "--version says something else")
        check("decode_attention" in run_inside(root, "kernels"), "it knows no kernels")
        check(json.loads(run_inside(root, "kernels", "--json")), "its kernels are no document")
        check("There is no cache yet" in run_inside(root, "cache", "ls"), "a new root has a cache")
    print("deb: sound")
    return 0


sys.exit(main())
