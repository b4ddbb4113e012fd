"""Runs the program of README's section on Python with a virtual environment's package, and compares its output.

    python -I pip_program.py README.md FOLDER_OF_THE_ENVIRONMENT
"""
import pathlib
import re
import sys

import numpy as np
import vkattn

readme, environment = map(pathlib.Path, sys.argv[1:])
if environment not in pathlib.Path(vkattn.__file__).parents:
    sys.exit(f"vkattn was found at {vkattn.__file__}, not in {environment}")
parts = [pathlib.Path(vkattn.__file__).parent / name for name in (
    "py.typed", "torch/__init__.py", "torch/__init__.pyi", "third-party/pybind11-dev.txt")]
if not all(part.exists() for part in parts):
    sys.exit(f"the package lacks one of {', '.join(map(str, parts))}")
if all(device.rejected for device in vkattn.devices()):
    sys.exit(77)
(program,) = re.findall(r"```python\n(.*?)```", readme.read_text(), re.DOTALL)
names = {}
exec(program, names)
query, key, value = (names[name].astype("float64") for name in ("query", "key", "value"))
scores = query @ key.swapaxes(2, 3) / np.sqrt(query.shape[3])
scores[..., ~np.tri(*scores.shape[2:], dtype=bool)] = -np.inf
weights = np.exp(scores - scores.max(axis=3, keepdims=True))
expected = weights / weights.sum(axis=3, keepdims=True) @ value
difference = np.abs(names["output"] - expected).max()
if not difference < 1e-5:
    sys.exit(f"README's output is off by {difference}")
print(f"README's output {expected.shape} is right to {difference:.1e}")
