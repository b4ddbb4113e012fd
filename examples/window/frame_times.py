"""Prints a table of the window's times, under Xvfb and from a cold cache. For an idle machine.

    frame_times.py PROGRAM [RUNS]
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from xvfb import display_server

SCRIPT = """pace
click text
key ctrl+a
type the query meets every key, and the keys that fit it are weighed.
wait ready
wait 250
check
click crowd_tab
wait 250
wait ready
check
"""


def times_of(program):
    """The numbers of one run, by their rows in the table."""
    with tempfile.TemporaryDirectory() as folder, display_server() as (_, display):
        script = pathlib.Path(folder, "script.txt")
        script.write_text(SCRIPT, encoding="utf-8")
        caches = {name: folder for name in ("MESA_SHADER_CACHE_DIR", "XDG_CACHE_HOME", "VKATTN_CACHE_DIR")}
        said = subprocess.run([program, "--script", str(script)], env={**os.environ, **caches, "DISPLAY": display,
                              "WAYLAND_DISPLAY": ""}, stdout=subprocess.PIPE, check=True, encoding="utf-8").stdout
    rows = {"device": re.search("device: (.*)", said)[1]}
    for name, line in ("8 heads of 64 tokens", "text: "), ("a slice of the crowd's, budget 2 ms", "crowd: "):
        found = re.search(line + ".*median ([0-9.]+) ms, 99 % below ([0-9.]+) ms", said)
        rows[name + ": median"], rows[name + ": p99"] = found[1] + " ms", found[2] + " ms"
    for name in "the first frame", "the first weights":
        rows[name + ", after the start"] = re.search(name + ": ([0-9.]+ s)", said)[1]
    rows["allocations in record()"] = re.search(r"allocations in record\(\): ([0-9]+)", said)[1]
    return rows


def main():
    """Runs the program and prints the table."""
    runs = [times_of(sys.argv[1]) for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 3)]
    print("| Times of attention on the device | " + " | ".join(f"run {i + 1}" for i in range(len(runs))) + " |")
    print("| --- |" + " --- |" * len(runs))
    for name in runs[0]:
        print(f"| {name} | " + " | ".join(run[name] for run in runs) + " |")


main()
