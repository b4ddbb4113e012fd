#!/usr/bin/python3
"""Runs scripts/measure-gpu to its end with small problems, so that it works on the day when there is a GPU.

    tests/measure_gpu.py TOOL      exit code 1 if something is wrong, 77 if there is no device

The first run is as on a machine without PyTorch: all steps, but those of scripts/ablations. Its JSON must have each problem and
its tables must be as wide as the documents'. In the second one the tool crashes on products, which must cost no other figure.
The third has PyTorch beside it, if that is installed.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SKIPPED = 77
WIDTH = 140

sys.dont_write_bytecode = True  # it would go into the tree
sys.path.insert(0, str(ROOT / "scripts"))
import gpu_problems

NO_TORCH = "raise ImportError('a machine without PyTorch')\n"
CRASHES = """#!/bin/sh
case "$*" in *matmul*) kill -SEGV $$ ;; esac
exec "{tool}" "$@"
"""


def expect(condition, message):
    if not condition:
        sys.exit(f"measure_gpu.py: {message}")


def measure(tool, folder, *options, code=0, **environment):
    """The run's JSON and the lines of its tables."""
    command = [sys.executable, str(ROOT / "scripts/measure-gpu"), str(tool), "--device", "cpu", "--repeat", "3",
               "--output", str(folder), *options]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                         env={**os.environ, **environment})
    print(run.stdout, flush=True)
    expect(run.returncode == code, f"exit code {run.returncode} in place of {code}")
    text = (folder / "figures.txt").read_text(encoding="utf-8")
    expect(run.stdout.startswith(text), "figures.txt is not what was printed")
    return json.loads((folder / "figures.json").read_text(encoding="utf-8")), text.splitlines()


def rows_of(figure):
    """vkattn's rows of a figure, whatever its step."""
    rows = [*figure.get("vkattn", {}).get("results", []), *figure.get("tiles", [])]
    return rows + [row for rows in figure.get("forms", {}).values() for row in rows]


def expect_figures(data, lines, steps):
    """Each problem of the steps has figures that were measured or refused, and a line."""
    expect(not data["left_out"], f"no time was left for {data['left_out']}")
    for name, problems in steps.items():
        figures = [figure for figure in data["figures"] if figure["step"] == name]
        expect([figure["problem"] for figure in figures] == [gpu_problems.words_of(each) for each in problems],
               f"the figures of {name} are not those of its problems")
        for figure in figures:
            outcomes = {row["outcome"] for row in rows_of(figure)}
            expect(outcomes <= {"measured", "refused"}, f"{figure['problem']} was {outcomes}")
            expect("tuned" not in figure or len(figure["tuned"]) == 1, f"{figure['problem']} was not tuned")
            words = figure["vkattn"]["results"][0]["problem"] if "vkattn" in figure else figure["problem"]
            expect(any(line.startswith(f"    {words} ") for line in lines), f"no line has {words}")
    for line in lines:
        refusal = re.search(r"\b(refused|failed|wrong):", line)  # as long as the reason
        expect(not line.startswith("    ") or refusal or len(line) <= WIDTH, f"wider than {WIDTH}: {line}")


def main():
    tool = pathlib.Path(sys.argv[1]).resolve()
    if subprocess.run([tool, "devices"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode != 0:
        print("no device")
        sys.exit(SKIPPED)
    steps = {name: problems for name, problems in gpu_problems.CPU_STEPS.items() if name != "ablations"}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "torch.py").write_text(NO_TORCH, encoding="utf-8")
        without = {"PYTHONPATH": name, "VKATTN_CACHE_DIR": str(folder / "cache")}
        data, lines = measure(tool, folder / "alone", **without)
        expect_figures(data, lines, steps)
        expect(sum(line.startswith("vkattn alone: PyTorch") for line in lines) == 1, "nothing tells that PyTorch is missing")
        expect(data["peaks"]["copy"]["bytes_per_second"] > 0, "there is no peak")

        crashes = folder / "crashes"
        crashes.write_text(CRASHES.format(tool=tool), encoding="utf-8")
        crashes.chmod(0o755)
        data, lines = measure(crashes, folder / "crashed", "--no-peaks", "--step", "products,decode", code=1, **without)
        expect_figures(data, lines, {"decode": steps["decode"], "products": steps["products"]})
        expect([figure["step"] for figure in data["figures"] if "failure" in figure] == ["products"], "the crash is not told")

        if gpu_problems.pytorch_times.torch is not None:
            data, lines = measure(tool, folder / "beside", "--no-peaks", "--step", "forward",
                                  VKATTN_CACHE_DIR=without["VKATTN_CACHE_DIR"])
            expect_figures(data, lines, {"forward": steps["forward"]})
            peers = next(figure["pytorch"] for figure in data["figures"] if figure["step"] == "forward")
            expect(isinstance(peers["math"], float), f"PyTorch was not timed: {peers}")


main()
