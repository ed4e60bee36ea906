"""The notebook runs from top to bottom, and is stored with the outputs of such a run."""

import json
import os
from pathlib import Path

import pytest

TOUR = Path(__file__).parents[1] / "docs/tour.ipynb"


def test_it_is_stored_with_its_outputs():
    cells = [cell for cell in json.loads(TOUR.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 2
    assert not any(output["output_type"] == "error" for output in outputs)
    assert str(Path.home()) not in TOUR.read_text("utf-8")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_it_runs(monkeypatch):
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TOUR.parents[1]), os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.read(TOUR, as_version=4)
    NotebookClient(notebook, timeout=1500, kernel_name="python3").execute()  # raises the first error of a cell
