"""The Debian packages: made by CPack, unpacked into an empty root, and run there with nothing but what they depend on.

deb.py BUILD [FOLDER]: with FOLDER the packages in it instead of ones that are made now. Exit code 77: this machine has
not got Debian's tools. As root the program runs within the root by chroot; else it is started from there by the root's
loader.
"""
import ctypes
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import links

build = pathlib.Path(sys.argv[1]).resolve()
PACKAGES = ("moetune", "libmoetune-runtime1", "libmoetune-dev")
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
    "usr/share/moetune/packs/h200.pack": 0o644,
    "usr/share/doc/moetune/copyright": 0o644,
    "usr/share/doc/moetune/README.md": 0o644,
    "usr/share/doc/moetune/docs/retune.md": 0o644,
    "usr/include/moetune.h": 0o644,
    "usr/lib/libmoetune_runtime.so.1": 0o644,
    "usr/lib/libmoetune_runtime.a": 0o644,
}
# What `moetune man` and `moetune completion` make, in a moetune that has them.
MADE = {
    "man": ["usr/share/man/man1/moetune.1.gz", "usr/share/man/man1/moetune-search.1.gz"],
    "completion": ["usr/share/bash-completion/completions/moetune", "usr/share/zsh/vendor-completions/_moetune",
                   "usr/share/fish/vendor_completions.d/moetune.fish"],
}
# Of lintian, what is CPack's doing, or wanted.
PARDONED = {"maintscript-calls-ldconfig", "pkg-config-unavailable-for-cross-compilation"}


def check(holds, what):
    if not holds:
        raise SystemExit(f"deb: {what}")


def output_of(*command, **more):
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True, **more)
    check(ended.returncode == 0, f"{' '.join(map(str, command))}: {ended.stdout}{ended.stderr}")
    return ended.stdout


def packages_in(folder):
    if len(sys.argv) > 2:
        folder = pathlib.Path(sys.argv[2])
    else:
        output_of("cpack", "--config", build / "CPackConfig.cmake", "-G", "DEB", "-B", folder, cwd=build)
    made = {field(package, "Package"): package for package in folder.glob("*.deb")}
    check(set(made) == set(PACKAGES), f"CPack made {made}")
    return made


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


def check_files(root):
    for path, mode in EXPECTED.items():
        check((root / path).is_file(), f"{path} is missing")
        check((root / path).stat().st_mode & 0o777 == mode, f"{path} has another mode")
    for command, files in MADE.items():
        known = subprocess.run([build / "moetune", command, "--help"], capture_output=True).returncode == 0
        for path in files:
            check((root / path).is_file() == known, f"{path}: `moetune {command}` is {'' if known else 'not '}there")
    check(not (dead := links.dead_links(root / "usr/share/doc/moetune")), "\n".join(dead))
    for unit in (root / "usr/lib/systemd/system").iterdir():
        for page in re.findall(r"file://(\S+)", unit.read_text()):
            check((root / page.lstrip("/")).is_file(), f"{unit.name} names {page}, which is not there")


def check_library(root):
    library = ctypes.CDLL(str(root / "usr/lib/libmoetune_runtime.so.1"))
    library.moetune_version.restype = ctypes.c_char_p
    check(library.moetune_version().decode() == run_inside(root, "--version").split()[1], "library and tool differ")


def check_program(root):
    check(run_inside(root, "--version").startswith("moetune "), "--version says something else")
    check("decode_attention" in run_inside(root, "kernels"), "it knows no kernels")
    check(json.loads(run_inside(root, "kernels", "--json")), "its kernels are no document")
    check("There is no cache yet" in run_inside(root, "cache", "ls"), "a new root has a cache")
    run_inside(root, "cache", "check", ("/" if os.geteuid() == 0 else f"{root}/") + "usr/share/moetune/packs/h100.pack")


class Scripts:
    """The package's maintainer scripts, with stand-ins for systemd's commands that write down how they are called."""

    KNOWN = "#!/bin/sh\n" + 'echo "$(basename "$0") $*" >>"$CALLS"\n'

    def __init__(self, package, folder):
        self.folder, self.calls = folder, folder / "calls"
        output_of("dpkg-deb", "--control", package, folder / "control")
        (folder / "bin").mkdir()
        for name in ("systemctl", "systemd-sysusers", "deb-systemd-helper", "deb-systemd-invoke"):
            (folder / "bin" / name).write_text(self.KNOWN)
        # No unit was installed or enabled before.
        (folder / "bin/deb-systemd-helper").write_text(
            self.KNOWN + 'case "$*" in *debian-installed* | *was-enabled*) [ -e "${0%/*}/was-enabled" ] ;; esac\n')
        for program in (folder / "bin").iterdir():
            program.chmod(0o755)

    def run(self, script, *arguments):
        """The calls of a script on a machine where systemd runs."""
        text = (self.folder / "control" / script).read_text().replace("/run/systemd/system", str(self.folder))
        text = text.replace("/var/log/moetune", str(self.folder / "log"))
        self.calls.write_text("")
        output_of("sh", "-c", text, script, *arguments,
                  env={"PATH": f"{self.folder}/bin:/usr/bin:/bin", "CALLS": str(self.calls)})
        return self.calls.read_text().splitlines()


def check_scripts(package, folder):
    folder.mkdir()
    scripts = Scripts(package, folder)
    stop = "deb-systemd-invoke stop moetune-retune.timer moetune-retune.service moetune-serve.service"
    restart = "deb-systemd-invoke try-restart moetune-serve.service moetune-retune.timer"
    first = scripts.run("postinst", "configure", "")
    for wanted in ("systemd-sysusers moetune.conf", "systemctl --system daemon-reload"):
        check(wanted in first, f"postinst: {first}")
    check(not any(" start " in one or "restart" in one or " enable " in one for one in first),
          f"installing starts or enables something: {first}")
    (folder / "bin/was-enabled").touch()
    later = scripts.run("postinst", "configure", "0.0.9")
    check(restart in later and "deb-systemd-helper enable moetune-retune.timer" in later, f"an upgrade: {later}")
    check(scripts.run("prerm", "upgrade", "0.2.0") == [], "an upgrade ends a night")
    check(scripts.run("prerm", "remove") == [stop], "removing leaves something running")
    check("deb-systemd-helper mask moetune-serve.service" in scripts.run("postrm", "remove"), "removed units start")
    (folder / "log").mkdir()
    check("deb-systemd-helper purge moetune-retune.timer" in scripts.run("postrm", "purge"), "purging remembers")
    check(not (folder / "log").exists(), "purging leaves the logs")


def check_by_lintian(packages):
    if shutil.which("lintian") is None:
        print("SKIPPED: lintian is not here; scripts/test brings it by apt")
        return
    said = subprocess.run(["lintian", "--allow-root", *map(str, packages)], capture_output=True, text=True).stdout
    # A moetune without `man` has no manual page, which check_files has looked for.
    faults = [line for line in said.splitlines() if line[:2] in ("E:", "W:") and line.split()[2] not in PARDONED
              and not (line.split()[2] == "no-manual-page" and "usr/bin/moetune]" in line)]
    check(not faults, "lintian: " + "\n".join(faults))


def main():
    if not all(map(shutil.which, ("dpkg-deb", "dpkg-shlibdeps", "file", "cpack"))):
        print("SKIPPED: dpkg-deb, dpkg-shlibdeps, file or cpack is not here; scripts/test brings them by apt")
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        packages = packages_in(folder / "made")
        root = folder / "root"
        for package in packages.values():
            output_of("dpkg-deb", "-x", package, root)
        check("libc6" in depends_of(packages["moetune"]), f"it depends on {field(packages['moetune'], 'Depends')}")
        check_files(root)
        fill(root, packages["moetune"])
        (root / "root").mkdir(mode=0o700)
        check_program(root)
        check_library(root)
        check_scripts(packages["moetune"], folder / "scripts")
        check_by_lintian(packages.values())
    print("deb: sound")
    return 0


sys.exit(main())
