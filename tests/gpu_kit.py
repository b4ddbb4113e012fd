#!/usr/bin/python3
"""Runs scripts/gpu-kit with stand-ins for the Debian 13 root and for binutils: it must delete no folder but its own.

    tests/gpu_kit.py      exit code 1 if something is wrong, 77 if this is not Linux, or has no bash
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SKIPPED = 77
# `run ROOT SOURCE WORK COMMAND...` makes the tool that the build would make, and the ablations' tools if they are asked for.
DEBIAN_ROOT = """#!/bin/sh
[ "$1" = run ] || exit 0
echo built >>"$(dirname "$2")/builds"
mkdir -p "$4/tool/cli" "$4/ablations"
echo tool >"$4/tool/cli/vkattn"
case "$*" in *scripts/ablations*) echo tool >"$4/ablations/softmax" ;; esac
"""
OBJDUMP = """#!/bin/sh
if [ "$1" = -T ]; then echo "GLIBC_${STAND_IN_GLIBC:-2.34}"; fi
case "$*" in *-p*libvulkan*) echo "  NEEDED ${STAND_IN_NEEDED:-libc.so.6}" ;; esac
"""


def expect(condition, message):
    if not condition:
        sys.exit(f"gpu_kit.py: {message}")


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def tree(folder):
    """What lies in a folder, with the text of its files."""
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") if path.is_file() else None
            for path in folder.rglob("*")}


class Place:
    """A copy of the scripts below `home`, in home/sources, with the stand-ins."""

    def __init__(self, home):
        self.home, self.sources = home, home / "sources"
        (self.sources / "scripts").mkdir(parents=True)
        for name in ("gpu-kit", "lib.sh", "measure-gpu", "gpu_problems.py", "pytorch_times.py"):
            shutil.copy(ROOT / "scripts" / name, self.sources / "scripts")
        write(self.sources / "scripts/debian13-root", DEBIAN_ROOT)
        write(home / "bin/objdump", OBJDUMP)
        write(home / "bin/strip", "#!/bin/sh\n")
        write(home / "cache/debian13/usr/lib/libvulkan.so.1", "loader\n")

    def make(self, folder, *options, **environment):
        """The finished process of gpu-kit."""
        return subprocess.run([self.sources / "scripts/gpu-kit", folder, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False, cwd=self.sources,
                              env={**os.environ, "PATH": f"{self.home / 'bin'}:{os.environ['PATH']}",
                                   "VKATTN_CI_CACHE": str(self.home / "cache"), **environment})

    def expect_refusal(self, folder, words):
        """Nothing is built, changed or deleted."""
        before = tree(self.home)
        run = self.make(folder)
        expect(run.returncode == 1 and words in run.stdout, f"{folder}: exit code {run.returncode}, {run.stdout}")
        expect(tree(self.home) == before, f"{folder} is refused, but something has changed")


def expect_refusals(place):
    """Folders that gpu-kit has not made."""
    place.expect_refusal(".", "has the sources")
    place.expect_refusal("..", "has the sources")
    (place.home / "link").symlink_to(place.home)
    place.expect_refusal(place.home / "link", "has the sources")
    place.expect_refusal("docs", "lies in the sources")
    place.expect_refusal("build", "lies in the sources")
    write(place.home / "results/figures.json", "figures\n")
    place.expect_refusal(place.home / "results", "has figures.json")
    write(place.home / "other/run", "another program\n")
    place.expect_refusal(place.home / "other", "was not made by gpu-kit")
    place.expect_refusal(place.home / "other/run", "is no folder")
    write(place.home / "kit.new/notes", "notes\n")
    place.expect_refusal(place.home / "kit", "kit.new has notes")
    shutil.rmtree(place.home / "kit.new")


def expect_kits(place):
    """A kit is made, replaced by a later one, and kept if the later one is not whole."""
    kit = place.home / "kit"
    kit.mkdir()
    run = place.make(kit)
    expect(run.returncode == 0, run.stdout)
    whole = {".vkattn-gpu-kit", "run", "vkattn", "scripts", "loader", "ablations", "ablations/softmax", "scripts/measure-gpu",
             "scripts/gpu_problems.py", "scripts/pytorch_times.py", "loader/libvulkan.so.1"}
    expect(set(tree(kit)) == whole, f"the kit is {set(tree(kit))}")
    run = place.make(kit, "--without-ablations")
    expect(run.returncode == 0 and not (kit / "ablations").exists(), run.stdout)
    before = tree(kit)
    for fault in ({"STAND_IN_GLIBC": "2.41"}, {"STAND_IN_NEEDED": "libX11.so.6"}):
        run = place.make(kit, **fault)
        expect(run.returncode == 1 and "needs" in run.stdout, f"{fault}: {run.stdout}")
        expect(tree(kit) == before, f"{fault} has changed the kit")
    write(kit / "figures/figures.json", "figures\n")
    place.expect_refusal(kit, "has figures, which gpu-kit did not put there")


def main():
    if sys.platform != "linux" or shutil.which("bash") is None:
        print("no Linux, or no bash")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as name:
        place = Place(pathlib.Path(name).resolve() / "home")
        expect_refusals(place)
        expect(not (place.home / "builds").exists(), "something was built for a folder that is refused")
        expect_kits(place)
    print("gpu-kit deletes no folder but its own")


main()
