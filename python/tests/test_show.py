"""Pictures of weights."""
import io

import numpy as np
import pytest

import vkattn


def test_figure(qkv):
    pytest.importorskip("matplotlib")
    query, key, value = qkv(query_heads=3, kv_heads=3, queries=3, keys=4)
    _, weights = vkattn.attention(query, key, value, return_weights="probabilities")
    figure = vkattn.show(weights, ["a", "b", "c"], ["p", "q", "r", "s"])
    maps = [axis.images[0] for axis in figure.axes if axis.images]
    assert len(maps) == 3
    for head, image in enumerate(maps):
        np.testing.assert_allclose(image.get_array(), weights[0, head], rtol=1e-6)
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["p", "q", "r", "s"]
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    assert picture.getvalue().startswith(b"\x89PNG")


def test_refusals():
    pytest.importorskip("matplotlib")
    with pytest.raises(ValueError, match="tokens has 2 words for 3 queries"):
        vkattn.show(np.ones((3, 4)), ["a", "b"])
    with pytest.raises(ValueError, match="weights has the shape"):
        vkattn.show(np.ones((2, 3, 4, 5)))
