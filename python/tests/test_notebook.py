"""Runs the notebook's cells one after the other, and also with Jupyter if it is installed."""
import importlib.util
import json
import os
import pathlib

import pytest

import vkattn

NOTEBOOK = pathlib.Path(__file__).parents[2] / "examples" / "attention.ipynb"


def test_cells(monkeypatch):
    """Leaves out cells that draw if matplotlib is not installed. The cells check their own numbers."""
    has_matplotlib = importlib.util.find_spec("matplotlib") is not None
    names = {}
    ran = 0
    monkeypatch.setenv("VKATTN_TEST_UNROLLED_LOOPS", "1")  # the problems are long: see tests/support/unrolled_loops.hpp
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        draws = "matplotlib" in cell["metadata"].get("tags", [])
        if cell["cell_type"] == "code" and (has_matplotlib or not draws):
            exec("".join(cell["source"]), names)
            ran += 1
    assert ran >= 5


def test_in_jupyter(monkeypatch):
    # Jupyter starts a Python of its own, which must find this package, even if it is in a virtual environment.
    folders = [str(pathlib.Path(vkattn.__file__).parents[1]), os.environ.get("PYTHONPATH")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, folders)))
    for package in ("ipykernel", "matplotlib"):
        pytest.importorskip(package)
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    pictures = [output for cell in notebook.cells for output in cell.get("outputs", [])
                if "image/png" in output.get("data", {})]
    assert len(pictures) == 1
