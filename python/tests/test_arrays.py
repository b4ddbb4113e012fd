"""Arrays in every memory layout and type."""
import numpy as np
import pytest

import reference
import vkattn


def check(query, key, value, mask=None, **keywords):
    output = vkattn.attention(query, key, value, mask, **keywords)
    expected, _, _ = reference.attention(query, key, value, mask, **keywords)
    np.testing.assert_allclose(output, expected, atol=2e-5)


def test_strides(random):
    """Arrays (batch, length, heads, dim), one tensor of Q, K and V, every second row, and Fortran order."""
    packed = random.standard_normal((2, 10, 3, 2, 16)).astype(np.float32)
    check(*(packed[:, :, i].swapaxes(1, 2) for i in range(3)))
    whole = random.standard_normal((2, 2, 20, 16)).astype(np.float32)
    check(whole[:, :, ::2], whole, whole)
    check(*(np.asfortranarray(whole[:, :, :10]),) * 3)
    check(whole[..., ::2], whole[..., ::2], whole)


def test_negative_strides(random):
    whole = random.standard_normal((1, 2, 10, 16)).astype(np.float32)
    check(whole[:, :, ::-1], whole[:, ::-1], whole[..., ::-1])


def test_overlapping_rows(random):
    signal = random.standard_normal(40).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(signal, 16)[None, None]
    check(windows, windows, windows)


def test_a_few_rows_of_a_large_array(random):
    """Only the elements are copied, not the 256 MiB between them, which no storage buffer of lavapipe can hold."""
    large = np.zeros((1, 1, 1 << 20, 64), np.float32)
    large[:, :, :: 1 << 18] = random.standard_normal((1, 1, 4, 64))
    rows = large[:, :, :: 1 << 18]
    check(rows, rows, rows)


def test_fields_of_a_structure(random):
    """The strides are not multiples of an element."""
    records = np.zeros((1, 1, 5, 8), [("a", "i1"), ("x", "f4")])
    records["x"] = random.standard_normal(records.shape)
    check(records["x"], records["x"], records["x"])


def test_read_only(qkv):
    arrays = qkv()
    for array in arrays:
        array.flags.writeable = False
    check(*arrays)


def test_broadcast_keys(random):
    query = random.standard_normal((3, 2, 5, 16)).astype(np.float32)
    key = np.broadcast_to(random.standard_normal((1, 2, 7, 16)).astype(np.float32), (3, 2, 7, 16))
    check(query, key, key)
    np.testing.assert_array_equal(vkattn.attention(query, key, key), vkattn.attention(query, key[:1], key[:1]))


def test_leading_dimensions(random):
    query = random.standard_normal((2, 3, 4, 5, 8)).astype(np.float32)
    key = random.standard_normal((1, 3, 4, 7, 8)).astype(np.float32)
    mask = random.random((2, 1, 1, 5, 7)) > 0.3
    output, lse = vkattn.attention(query, key, key, mask, return_lse=True, kv_lengths=[[7, 6, 5]])
    assert output.shape == (2, 3, 4, 5, 8) and lse.shape == (2, 3, 4, 5)
    for i in range(2):
        for j in range(3):
            expected, _, _ = reference.attention(query[i, j][None], key[0, j][None], key[0, j][None], mask[i],
                                                 kv_lengths=[7 - j])
            np.testing.assert_allclose(output[i, j], expected[0], atol=2e-5)


def test_two_and_three_dimensions(qkv):
    query, key, value = qkv(query_heads=1, kv_heads=1)
    expected = vkattn.attention(query, key, value)
    np.testing.assert_array_equal(vkattn.attention(query[0], key[0], value[0]), expected[0])
    output, lse = vkattn.attention(query[0, 0], key[0, 0], value[0, 0], return_lse=True)
    np.testing.assert_array_equal(output, expected[0, 0])
    assert lse.shape == (9,)


@pytest.mark.parametrize("shape, keys", [((0, 2, 4, 8), 4), ((1, 2, 0, 8), 4), ((1, 0, 4, 8), 4), ((1, 2, 4, 8), 0)])
def test_empty(shape, keys):
    query = np.ones(shape, np.float32)
    key = np.ones(shape[:2] + (keys, 8), np.float32)
    output, lse, weights = vkattn.attention(query, key, key, return_lse=True, return_weights="probabilities")
    assert output.shape == shape and not output.any()
    assert lse.shape == shape[:3] and np.isneginf(lse).all()
    assert weights.shape == shape[:3] + (keys,)


class OnlyDLPack:
    """Stands for an array of another library."""

    def __init__(self, array, device=None):
        self._array, self._device = array, device

    def __dlpack__(self, **keywords):
        return self._array.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self._device or self._array.__dlpack_device__()


def test_dlpack(qkv):
    arrays = qkv()
    np.testing.assert_array_equal(vkattn.attention(*map(OnlyDLPack, arrays)), vkattn.attention(*arrays))
    with pytest.raises(TypeError, match="query lies on a device"):
        vkattn.attention(OnlyDLPack(arrays[0], (2, 0)), *arrays[1:])


@pytest.mark.parametrize("dtype", ["float64", "int32", "uint16", ">f4", "complex64", "bool"])
def test_other_types_are_refused(dtype):
    wrong, right = np.zeros((1, 2, 3, 4), dtype), np.zeros((1, 2, 3, 4), np.float32)
    for position, name in enumerate(("query", "key", "value")):
        arguments = [right] * 3
        arguments[position] = wrong
        with pytest.raises(TypeError, match=f"{name} is .* must be float32"):
            vkattn.attention(*arguments)


def test_other_types_of_masks_are_refused():
    array = np.zeros((1, 2, 3, 4), np.float32)
    with pytest.raises(TypeError, match="mask is int64"):
        vkattn.attention(array, array, array, np.zeros((3, 3), np.int64))
    with pytest.raises(TypeError, match="kv_lengths is float64"):
        vkattn.attention(array, array, array, kv_lengths=[1.0])
    with pytest.raises(TypeError, match="sinks is"):
        vkattn.attention(array, array, array, sinks=["one", "two"])


def array_of(*shape):
    return np.zeros(shape, np.float32)


@pytest.mark.parametrize("arrays, keywords, sentence", [
    ([(1, 2, 3, 4), (1, 2, 3, 5), (1, 2, 3, 4)], {}, "query and key differ in head dimension: 4 and 5"),
    ([(1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 5, 4)], {}, "key and value differ in length: 3 and 5"),
    ([(1, 4, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4)], {}, "give enable_gqa=True"),
    ([(1, 4, 3, 4), (1, 2, 3, 4), (1, 4, 3, 4)], {"enable_gqa": True}, "key and value differ in heads: 2 and 4"),
    ([(1, 3, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4)], {"enable_gqa": True}, "query_heads is 3"),
    ([(2, 2, 3, 4), (3, 2, 3, 4), (3, 2, 3, 4)], {}, "do not broadcast"),
    ([(4,), (4,), (4,)], {}, r"query has the shape \(4,\)"),
    ([(1, 2, 3, 577)] * 3, {}, "head_dim is 577"),
    ([(1, 2, 3, 4)] * 3, {"dropout": 1.5}, "dropout is 1.5"),
    ([(1, 2, 3, 4)] * 3, {"align": "middle"}, "align is 'middle'"),
    ([(1, 2, 3, 4)] * 3, {"window": 3}, "window is 3"),
    ([(1, 2, 3, 4)] * 3, {"window": (-2, 0)}, "window"),
    ([(1, 2, 3, 4)] * 3, {"softcap": -1.0}, "softcap is -1"),
    ([(1, 2, 3, 4)] * 3, {"sinks": [1.0]}, r"sinks has the shape \(1,\) but must have one number for each query"),
    ([(1, 2, 3, 4)] * 3, {"kv_lengths": [1, 2]}, r"kv_lengths has the shape \(2,\)"),
    ([(1, 2, 3, 4)] * 3, {"mask": np.ones((3, 4), bool)}, "mask of shape .* does not broadcast to the scores"),
    ([(1, 2, 3, 4)] * 3, {"mask": np.ones((1, 1, 1, 3, 3), bool)}, "more dimensions"),
    ([(1, 2, 3, 4)] * 3, {"return_weights": "all"}, "return_weights is 'all'"),
])
def test_broken_rules(arrays, keywords, sentence):
    with pytest.raises(ValueError, match=sentence) as raised:
        vkattn.attention(*(array_of(*shape) for shape in arrays), **keywords)
    assert isinstance(raised.value, vkattn.Error) and raised.value.code == "invalid_argument"
