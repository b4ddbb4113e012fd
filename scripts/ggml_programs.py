"""Runs the programs of integrations/ggml. For scripts/measure-peers and measure-decoders."""
import os
import subprocess
import sys


def run(command, environment):
    finished = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, check=False)
    if finished.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with code {finished.returncode}: {finished.stderr.strip()}")
    return finished.stdout


def backends_of(build):
    """The folder of ggml's own back ends, as the build has found it."""
    for line in (build / "CMakeCache.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("VKATTN_GGML_BACKENDS:"):
            return line.partition("=")[2]
    return ""


def environment_of(build):
    """The environment of a program that loads ggml's own back ends."""
    return {"GGML_VK_VISIBLE_DEVICES": "0", **os.environ, "VKATTN_GGML_BACKENDS": backends_of(build)}
