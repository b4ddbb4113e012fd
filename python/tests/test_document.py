"""Runs the examples of docs/python.md one after the other, with fewer queries and keys."""
import pathlib
import re

import numpy as np

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "python.md"


def test_examples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    names = {}
    for block in blocks:
        if "model(batch)" not in block:  # test_torch.py tests such a model
            if "attention_backward" in block:  # heads of 16: the layer above has compiled their gradients
                names.update({name: names[name][..., :16] for name in ("query", "key", "value")})
            exec(block.replace("512, 64", "16, 64"), names)
    assert len(blocks) == 6 and names["grads"].query.shape == (1, 8, 16, 16)
    assert np.allclose(np.concatenate(names["steps"], axis=1), names["whole"], atol=1e-5)
    assert names["gradients"].query.shape == names["x"].shape
