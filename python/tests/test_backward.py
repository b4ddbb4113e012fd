"""Compares gradients with differences of the float64 reference.

A driver on the CPU needs seconds to compile a backward pass, and compiles it again for other head dimensions, types and
features. So tests that are not about those have heads of 16, and tests about arrays alone use the kernel that compiles fastest.
"""
import numpy as np
import pytest

import reference
import vkattn
from vkattn import _arrays


def differences(loss, array, random, count=6, step=1e-4):
    """Pairs (index, derivative) for a few elements, by central differences."""
    for _ in range(count):
        index = tuple(random.integers(size) for size in array.shape)
        ends = []
        for sign in (1, -1):
            moved = array.astype(np.float64)
            moved[index] += sign * step
            ends.append(loss(moved))
        yield index, (ends[0] - ends[1]) / (2 * step)


def check(random, arrays, gradients=("query", "key", "value"), kernel=None, **keywords):
    """`arrays` has query, key and value, and those of mask, alibi and sinks that the problem has."""
    given = {**arrays, **keywords}
    output, lse = vkattn.attention(**given, return_lse=True, enable_gqa=True)
    grad_output = random.standard_normal(output.shape).astype(np.float32)
    found = vkattn.attention_backward(grad_output, output=output, lse=lse, **given, enable_gqa=True,
                                      gradients=gradients, kernel=kernel)
    for name in gradients:
        gradient = getattr(found, name)
        assert gradient.shape == arrays[name].shape and gradient.dtype == arrays[name].dtype

        def loss(moved):
            return (reference.attention(**{**given, name: moved})[0] * grad_output).sum()

        for index, expected in differences(loss, arrays[name], random):
            np.testing.assert_allclose(gradient[index], expected, atol=2e-4, rtol=2e-3)
    assert all(getattr(found, name) is None for name in found._fields if name not in gradients)


@pytest.mark.parametrize("keywords", [{"kernel": "tile"}, {"is_causal": True, "align": "bottom-right", "softcap": 2.0}])
def test_gradients(qkv, random, keywords):
    query, key, value = qkv(batch=2, query_heads=4, kv_heads=2, value_dim=24)
    check(random, {"query": query, "key": key, "value": value}, **keywords)


def test_of_mask_slopes_and_sinks(qkv, random):
    query, key, value = qkv(batch=2)
    arrays = {"query": query, "key": key, "value": value,
              "mask": random.standard_normal((2, 1, 13)).astype(np.float32),
              "alibi": np.array([0.5, 0.1], np.float32), "sinks": np.array([0.5, -0.5], np.float32)}
    check(random, arrays, ("query", "mask", "alibi", "sinks"))


@pytest.mark.parametrize("heads", [4, 2])
def test_of_slopes_that_multiply_the_mask(qkv, random, heads):
    query, key, value = qkv(batch=2, query_heads=4, kv_heads=1)
    arrays = {"query": query, "key": key, "value": value,
              "mask": random.standard_normal((1, heads, 9, 13)).astype(np.float32),
              "alibi": np.array([0.5, 0.1, -1.0, 2.0], np.float32)}
    check(random, arrays, ("query", "mask", "alibi"), alibi_times_mask=True)


@pytest.mark.parametrize("shape", [(2, 2, 9, 16), (9, 16)])
def test_of_a_loss_of_the_lse(random, shape):
    """In float64 by differences, with a sink, which the lse includes, where there are heads."""
    query, key, value = (random.standard_normal(shape).astype(np.float32) for _ in range(3))
    sinks = {"sinks": np.array([0.5, -0.5], np.float32)} if len(shape) == 4 else {}
    output, lse = vkattn.attention(query, key, value, return_lse=True, is_causal=True, **sinks)
    grad_output, grad_lse = (random.standard_normal(x.shape).astype(np.float32) for x in (output, lse))
    arrays = {"query": query, "key": key, "value": value, **sinks}
    found = vkattn.attention_backward(grad_output, **arrays, output=output, lse=lse, grad_lse=grad_lse, is_causal=True,
                                      gradients=tuple(arrays), kernel="tile")
    for name, array in arrays.items():

        def loss(moved):
            given = {each: x[None, None] if x.ndim == 2 else x for each, x in {**arrays, name: moved}.items()}
            output, lse, _ = reference.attention(**given, is_causal=True)
            return (output * grad_output).sum() + (lse * grad_lse).sum()

        for index, expected in differences(loss, array, random):
            np.testing.assert_allclose(getattr(found, name)[index], expected, atol=2e-4, rtol=2e-3)


def test_of_what_is_broadcast(random):
    query = random.standard_normal((2, 3, 2, 5, 16)).astype(np.float32)
    key = random.standard_normal((3, 2, 7, 16)).astype(np.float32)
    value = random.standard_normal((2, 7, 16)).astype(np.float32)
    mask = random.standard_normal((2, 1, 1, 5, 7)).astype(np.float32)
    output, lse = vkattn.attention(query, key, value, mask, return_lse=True)
    grad_output = random.standard_normal(output.shape).astype(np.float32)
    found = vkattn.attention_backward(grad_output, query, key, value, output, lse, mask,
                                      gradients=("query", "key", "value", "mask"), kernel="tile")
    whole = [np.ascontiguousarray(np.broadcast_to(array, query.shape[:2] + array.shape[-3:]))
             for array in (query, key, value, mask)]
    plain = vkattn.attention_backward(grad_output, *whole[:3], output, lse, whole[3],
                                      gradients=("query", "key", "value", "mask"), kernel="tile")
    np.testing.assert_allclose(found.query, plain.query, atol=1e-5)
    np.testing.assert_allclose(found.key, plain.key.sum(axis=0), atol=1e-5)
    np.testing.assert_allclose(found.value, plain.value.sum(axis=(0, 1)), atol=1e-5)
    np.testing.assert_allclose(found.mask, plain.mask.sum(axis=1, keepdims=True), atol=1e-5)


def test_broadcast_bfloat16_bits(random):
    """Arrays as vkattn.torch passes them. Sums must add the numbers and not their bits."""
    shapes = ((1, 2, 5, 16), (4, 2, 7, 16), (1, 2, 7, 16))
    numbers = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    bits = [_arrays.converted(x, _arrays.BFLOAT16_BITS) for x in numbers]
    numbers = [_arrays.converted(x, np.float32) for x in bits]
    output, lse = vkattn.attention(*numbers, return_lse=True)
    grad_output = np.ones_like(output)
    expected = vkattn.attention_backward(grad_output, *numbers, output, lse, kernel="tile")
    given = [_arrays.converted(x, _arrays.BFLOAT16_BITS) for x in (grad_output, output)]
    found = vkattn.attention_backward(given[0], *bits, given[1], lse, kernel="tile")
    for got, wanted in zip(found[:3], expected[:3]):
        assert got.dtype == _arrays.BFLOAT16_BITS and got.shape == wanted.shape
        np.testing.assert_allclose(_arrays.converted(got, np.float32), wanted, atol=5e-2, rtol=2e-2)


def test_two_dimensions(random):
    query, key = (random.standard_normal(shape).astype(np.float32) for shape in ((5, 16), (7, 16)))
    output, lse = vkattn.attention(query, key, key, return_lse=True)
    flat = vkattn.attention_backward(output, query, key, key, output, lse)
    whole = vkattn.attention_backward(*(x[None, None] for x in (output, query, key, key, output, lse)))
    for got, expected in zip(flat[:3], whole[:3]):
        np.testing.assert_array_equal(got, expected[0, 0])


def test_float16_and_strides(qkv):
    arrays = qkv(queries=12, keys=12)
    output, lse = vkattn.attention(*arrays, return_lse=True)
    ones = np.broadcast_to(np.float32(1), output.shape)  # the gradient of a sum, with strides of 0
    expected = vkattn.attention_backward(ones, *arrays, output, lse, kernel="tile")
    strided = [np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2) for x in arrays]
    for got, wanted in zip(vkattn.attention_backward(ones, *strided, output, lse, kernel="tile")[:3],
                           expected[:3]):
        np.testing.assert_allclose(got, wanted, atol=1e-6)
    halves = [x.astype(np.float16) for x in (ones, *arrays, output)]
    for got, wanted in zip(vkattn.attention_backward(*halves, lse, kernel="tile")[:3], expected[:3]):
        assert got.dtype == np.float16
        np.testing.assert_allclose(got, wanted, atol=2e-2)


def test_dropout_draws_the_same_bits(qkv):
    """The gradient of the values is the transposed weights, with dropout, times the gradient of the output."""
    query, key, _ = qkv(queries=16, keys=16)
    value = np.broadcast_to(np.eye(16, dtype=np.float32), (1, 2, 16, 16))
    weights, lse = vkattn.attention(query, key, value, dropout=0.5, dropout_seed=3, return_lse=True)
    grad_output = np.broadcast_to(np.eye(16, dtype=np.float32), weights.shape)
    found = vkattn.attention_backward(grad_output, query, key, value, weights, lse, dropout=0.5, dropout_seed=3,
                                      gradients=("value",), kernel="tile")
    np.testing.assert_allclose(found.value, weights.swapaxes(-1, -2), atol=1e-6)


@pytest.mark.parametrize("shape", [(1, 0, 3, 16), (0, 2, 3, 16), (1, 2, 0, 16)])
def test_empty(shape):
    array = np.ones(shape, np.float32)
    key = np.ones(shape[:2] + (5, 16), np.float32)
    mask = np.zeros((shape[2], 5), np.float32)
    output, lse = vkattn.attention(array, key, key, mask, return_lse=True)
    found = vkattn.attention_backward(output, array, key, key, output, lse, mask,
                                      gradients=("query", "key", "value", "mask"), kernel="tile")
    assert found.query.shape == shape and found.key.shape == key.shape
    assert not any(gradient.any() for gradient in found[:4])


def test_refusals(qkv):
    arrays = qkv()
    output, lse = vkattn.attention(*arrays, return_lse=True)
    with pytest.raises(ValueError, match="no gradient of 'scale'"):
        vkattn.attention_backward(output, *arrays, output, lse, gradients=("scale",))
    with pytest.raises(ValueError, match="dropout has no dropout_seed"):
        vkattn.attention_backward(output, *arrays, output, lse, dropout=0.5)
    with pytest.raises(ValueError, match="grad_output has the shape"):
        vkattn.attention_backward(output[:, :1], *arrays, output, lse)
    with pytest.raises(ValueError, match="grad_lse has the shape"):
        vkattn.attention_backward(output, *arrays, output, lse, grad_lse=lse[..., :1])
    with pytest.raises(TypeError, match="grad_lse is float16"):
        vkattn.attention_backward(output, *arrays, output, lse, grad_lse=lse.astype(np.float16))
    with pytest.raises(TypeError, match="lse is float64"):
        vkattn.attention_backward(output, *arrays, output, lse.astype(np.float64))
    with pytest.raises(vkattn.Error, match="mask"):
        vkattn.attention_backward(output, *arrays, output, lse, np.ones((9, 13), bool), gradients=("mask",))


def test_packed_sequences(random):
    """The gradients of each sequence are as if it were alone."""
    cumulative = [np.array(x, np.int32) for x in ([0, 5, 8], [0, 7, 11])]
    query, key, value, grad_output = (random.standard_normal((2, n, 16)).astype(np.float32) for n in (8, 11, 11, 8))
    sinks = random.standard_normal(2).astype(np.float32)
    keywords = dict(is_causal=True, align="bottom-right", sinks=sinks)
    names = dict(gradients=("query", "key", "value", "sinks"))
    packed = dict(cumulative_query_lengths=cumulative[0], cumulative_kv_lengths=cumulative[1], **keywords)
    output, lse = vkattn.attention(query, key, value, return_lse=True, **packed)
    found = vkattn.attention_backward(grad_output, query, key, value, output, lse, **packed, **names)
    sums = np.zeros(2)
    for i in range(2):
        queries, keys = (slice(*x[i:i + 2]) for x in cumulative)
        alone = query[:, queries], key[:, keys], value[:, keys]
        output, lse = vkattn.attention(*alone, return_lse=True, **keywords)
        expected = vkattn.attention_backward(grad_output[:, queries], *alone, output, lse, **keywords, **names)
        for name, rows in (("query", queries), ("key", keys), ("value", keys)):
            np.testing.assert_allclose(getattr(found, name)[:, rows], getattr(expected, name), atol=1e-5)
        sums += expected.sinks
    np.testing.assert_allclose(found.sinks, sums, atol=1e-5)
