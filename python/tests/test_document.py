"""The examples of docs/python.md, one after the other, with fewer queries and keys."""
import pathlib
import re

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "python.md"


def test_examples():
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    names = {}
    for block in blocks:
        if "model(batch)" not in block:  # test_torch.py has one
            exec(block.replace("512, 64", "16, 64"), names)
    assert len(blocks) == 5 and names["output"].shape == names["grads"].query.shape == (1, 8, 16, 64)
