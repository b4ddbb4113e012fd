#!/usr/bin/python3
"""Runs scripts/measure-gpu to its end with small problems, so that it works on the day when there is a GPU.

    tests/measure_gpu.py TOOL      exit code 1 if something is wrong, 77 if there is no device

The first run is as on a machine without PyTorch: all steps, but those of scripts/ablations. Its JSON must have each problem and
its tables must be as wide as the documents'. In the second one the tool crashes on products and on one block size of decode, which
must cost no other figure. Then come a PyTorch that is too old, one whose libraries are missing, one that fails at each call, no
time, no tool, and PyTorch beside vkattn, if it is installed.
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

# torch.py: what it does, and how the line begins that tells why vkattn is measured alone.
NO_TORCH = "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n", "PyTorch 2.5 or later is not installed"
OLD_TORCH = "__version__ = '2.4.1+cu121'\n", "PyTorch 2.4.1+cu121 is older than 2.5"
BROKEN_TORCH = "raise OSError('libcudnn.so.9: cannot open shared object file')\n", "PyTorch cannot be imported: libcudnn.so.9: "
FAILING_TORCH = """import sys
from unittest.mock import MagicMock
__version__ = "2.10.0"
backends = cuda = MagicMock()
sys.modules["torch.nn.attention"] = sys.modules["torch.nn.functional"] = MagicMock()
class Generator:
    def __init__(self, device):
        raise TypeError("no generator on " + device)
"""
CRASHED_TILE = "threads=128,rows=2,keys=4"  # the second of the step ahead
CRASHES = """#!/bin/sh
case "$*" in *matmul* | *{tile}) kill -SEGV $$ ;; esac
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


def refused_torch(tool, folder, torch_file, reason):
    """A run that stops at once tells why it has no PyTorch, and names the problems for which there is no time."""
    (folder / "torch.py").write_text(torch_file, encoding="utf-8")
    data, lines = measure(tool, folder / "refused", "--no-peaks", "--step", "decode,backward", "--minutes", "0.0001",
                          PYTHONPATH=str(folder))
    expect(sum(line.startswith(f"vkattn alone: {reason}") for line in lines) == 1, f"no line tells: {reason}")
    steps = [(name, problem.problem()) for name in ("decode", "backward") for problem in gpu_problems.CPU_STEPS[name]]
    expect([(each["step"], each["problem"]) for each in data["left_out"]] == steps, f"left out: {data['left_out']}")
    expect(all(f"    no time left for {words}" in lines for _, words in steps), "no line tells that no time was left")
    expect(not data["figures"], f"there are figures: {data['figures']}")


def missing_tool(folder):
    """A tool that is not there, or is no program, is told in a sentence."""
    (folder / "text").write_text("no program", encoding="utf-8")
    for name, reason in (("nothing", "No such file"), ("text", "Permission denied")):
        run = subprocess.run([sys.executable, str(ROOT / "scripts/measure-gpu"), str(folder / name)], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, check=False, cwd=folder)
        expect(run.returncode == 1 and f"{folder / name} does not run: {reason}" in run.stdout, run.stdout)


def main():
    tool = pathlib.Path(sys.argv[1]).resolve()
    if subprocess.run([tool, "devices"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode != 0:
        print("no device")
        sys.exit(SKIPPED)
    steps = {name: problems for name, problems in gpu_problems.CPU_STEPS.items() if name != "ablations"}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        missing_tool(folder)
        refused_torch(tool, folder, *OLD_TORCH)
        refused_torch(tool, folder, *BROKEN_TORCH)
        refused_torch(tool, folder, *NO_TORCH)
        without = {"PYTHONPATH": name, "VKATTN_CACHE_DIR": str(folder / "cache")}
        data, lines = measure(tool, folder / "alone", **without)
        expect_figures(data, lines, steps)
        expect(sum(line.startswith("vkattn alone: PyTorch") for line in lines) == 1, "nothing tells that PyTorch is missing")
        expect(data["peaks"]["copy"]["bytes_per_second"] > 0, "there is no peak")
        compared = [len(figure["forms"]) for figure in data["figures"] if figure["step"] == "combine"]
        expect(compared == [0, 2], f"combine has {compared} forms")

        crashes = folder / "crashes"
        crashes.write_text(CRASHES.format(tool=tool, tile=CRASHED_TILE), encoding="utf-8")
        crashes.chmod(0o755)
        data, lines = measure(crashes, folder / "crashed", "--no-peaks", "--step", "products,ahead,decode", code=1, **without)
        expect_figures(data, lines, {"decode": steps["decode"], "products": steps["products"]})
        expect([figure["step"] for figure in data["figures"] if "failure" in figure] == ["products"], "the crash is not told")
        tiles = [[row["outcome"] for row in figure["tiles"]] for figure in data["figures"] if figure["step"] == "ahead"]
        expect(tiles == [["measured", "failed", "measured"]], f"a crash on one of three block sizes is {tiles}")

        (folder / "torch.py").write_text(FAILING_TORCH, encoding="utf-8")
        data, lines = measure(tool, folder / "failing", "--no-peaks", "--step", "decode", **without)
        expect_figures(data, lines, {"decode": steps["decode"]})
        peers = data["figures"][0]["pytorch"]
        expect(set(peers.values()) == {"no generator on cpu"}, f"the failures of PyTorch are {peers}")
        (folder / "torch.py").unlink()

        if gpu_problems.pytorch_times.torch is not None:
            data, lines = measure(tool, folder / "beside", "--no-peaks", "--step", "forward",
                                  VKATTN_CACHE_DIR=without["VKATTN_CACHE_DIR"])
            expect_figures(data, lines, {"forward": steps["forward"]})
            peers = next(figure["pytorch"] for figure in data["figures"] if figure["step"] == "forward")
            expect(isinstance(peers["math"], float), f"PyTorch was not timed: {peers}")


main()
