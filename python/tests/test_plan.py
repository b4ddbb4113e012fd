"""Arrays that stay on the device."""
import numpy as np
import pytest

import vkattn
from vkattn import _arrays


@pytest.mark.parametrize("dtype, shape", [("float32", (3, 5)), ("float16", (7,)), ("bool", (2, 3)), ("int32", (4,)),
                                          ("float32", (2, 0, 4))])
def test_arrays_come_back(dtype, shape, random):
    given = (random.standard_normal(shape) * 10).astype(dtype)
    array = vkattn.array(given)
    assert array.shape == shape and array.dtype == given.dtype and array.nbytes == given.nbytes
    np.testing.assert_array_equal(array.numpy(), given)
    np.testing.assert_array_equal(np.asarray(array), given)
    assert str(shape) in repr(array) and array.device in repr(array)


def test_arrays_are_written(random):
    given = random.standard_normal((4, 6)).astype(np.float32)
    array = vkattn.array(given)
    array.write(given.T.copy().T * 2)
    np.testing.assert_array_equal(array.numpy(), given * 2)
    with pytest.raises(ValueError, match="does not fit"):
        array.write(given[:2])
    with pytest.raises(ValueError, match="does not fit"):
        array.write(given.astype(np.float64))


def test_dlpack_gives_copies_in_host_memory(random):
    given = random.standard_normal((2, 3)).astype(np.float32)
    array = vkattn.array(given)
    copy = np.from_dlpack(array)
    array.write(given * 2)
    np.testing.assert_array_equal(copy, given)
    assert array.__dlpack_device__() == (1, 0)
    assert "dltensor" in repr(array.__dlpack__(max_version=(1, 0), dl_device=(1, 0), copy=True))
    with pytest.raises(ValueError, match="stream is 1 but must be None"):
        array.__dlpack__(stream=1)
    with pytest.raises(BufferError, match="without a copy"):
        array.__dlpack__(copy=False)
    with pytest.raises(BufferError, match=r"dl_device is \(2, 0\)"):
        array.__dlpack__(dl_device=(2, 0))
    with pytest.raises(ValueError, match="without a copy"):
        array.__array__(copy=False)


def test_dlpack_refuses_bfloat16():
    array = vkattn.array(np.zeros((2, 3), _arrays.bfloat16_type()))
    assert array.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match=r"has no bfloat16; use numpy\(\), or vkattn.torch.from_numpy\(\)"):
        array.__dlpack__()


def test_attention_on_arrays_on_the_device(qkv, monkeypatch):
    """The results stay there, and nothing of the arguments is read to the host."""
    query, key, value = qkv(batch=2, query_heads=4)
    keywords = dict(is_causal=True, enable_gqa=True, alibi=True, sinks=[1.0, 0, 0.5, 2], kv_lengths=[13, 5], window=(5, None))
    expected = vkattn.attention(query, key, value, return_lse=True, **keywords)
    arrays = [vkattn.array(x) for x in (query, key, value)]
    with monkeypatch.context() as patch:
        patch.setattr(vkattn.Array, "numpy", None)
        results = vkattn.attention(*arrays, return_lse=True, **keywords)
    for found, wanted in zip(results, expected):
        assert isinstance(found, vkattn.Array)
        np.testing.assert_allclose(found.numpy(), wanted, atol=1e-6)
    mixed = vkattn.attention(query, arrays[1], value, **keywords)
    np.testing.assert_allclose(mixed.numpy(), expected[0], atol=1e-6)
    flat = [vkattn.array(x[0]) for x in (query, key, value)]
    dropped = [vkattn.attention(*flat, enable_gqa=True, dropout=0.5, dropout_seed=3).numpy() for _ in range(2)]
    np.testing.assert_array_equal(*dropped)
    with pytest.raises(vkattn.RuleError, match="packed sequences must be in host memory"):
        vkattn.attention(*flat, cumulative_query_lengths=[0, 9], cumulative_kv_lengths=[0, 13], enable_gqa=True)
    with pytest.raises(vkattn.RuleError, match="heads"):
        vkattn.attention(*arrays)


def test_results_that_are_held_stay(qkv, random):
    """Memory of results that were dropped serves later ones, and memory of those that are held does not."""
    query, key, value = qkv()
    q, k, v = (vkattn.array(x) for x in (query, key, value))
    attend, held = vkattn.plan(q, k, v), []
    for i in range(60):
        q.write(query * np.float32(i / 30))
        result = attend(q, k, v)
        if random.random() < 0.5:
            held.append((i, result, np.asarray(result)))
    del result
    for i, result, host in held:
        expected = vkattn.attention(query * np.float32(i / 30), key, value)
        np.testing.assert_allclose(host, expected, atol=1e-6)
        np.testing.assert_array_equal(result.numpy(), host)


def test_plans_compute_what_attention_does(qkv, random):
    query, key, value = qkv(batch=2, query_heads=4, kv_heads=2)
    mask = random.random((2, 1, 9, 13)) > 0.2
    keywords = {"is_causal": True, "align": "bottom-right", "enable_gqa": True, "return_lse": True,
                "return_weights": "probabilities", "sinks": [0.5, 0.25, 0.125, 0.0], "kv_lengths": [13, 6]}
    expected = vkattn.attention(query, key, value, mask, **keywords)
    plan = vkattn.plan(query, key, value, mask, **keywords)
    assert plan.kernel in plan.describe() and plan.kernel in repr(plan)
    extra = {"sinks": keywords["sinks"], "kv_lengths": keywords["kv_lengths"]}
    from_host = plan(query, key, value, mask, **extra)
    on_device = [vkattn.array(x) for x in (query, key, value, mask)]
    extra = {"sinks": vkattn.array(np.float32(keywords["sinks"])), "kv_lengths": vkattn.array(np.int32([13, 6]))}
    from_device = plan(*on_device, **extra)
    for wanted, one, other in zip(expected, from_host, from_device):
        np.testing.assert_allclose(one.numpy(), wanted, atol=1e-6)
        np.testing.assert_array_equal(other.numpy(), one.numpy())


def test_masks_of_float64(qkv, random):
    arrays, mask = qkv(), random.standard_normal((9, 13))
    result = vkattn.plan(*arrays, mask)(*arrays, mask)
    np.testing.assert_allclose(result.numpy(), vkattn.attention(*arrays, mask), atol=1e-6)


def test_results_are_arguments(qkv):
    query, key, value = qkv(keys=9)
    q, k, v = (vkattn.array(x) for x in (query, key, value))
    attend = vkattn.plan(q, k, v)
    once = attend(q, k, v)
    twice = attend(once, k, v)
    np.testing.assert_allclose(twice.numpy(), vkattn.attention(once.numpy(), key, value), atol=1e-6)
    assert attend(q, k, v, out=twice) is twice
    np.testing.assert_array_equal(twice.numpy(), once.numpy())
    q.write(key)
    np.testing.assert_allclose(attend(q, k, v).numpy(), vkattn.attention(key, key, value), atol=1e-6)


@pytest.mark.parametrize("shapes", [
    [(5, 8), (7, 8), (7, 8)], [(2, 5, 8), (2, 7, 8), (2, 7, 8)], [(3, 2, 2, 5, 8), (2, 7, 8), (1, 1, 2, 7, 8)],
    [(0, 2, 5, 8), (0, 2, 7, 8), (0, 2, 7, 8)], [(1, 2, 5, 8), (1, 2, 0, 8), (1, 2, 0, 8)],
])
def test_shapes(shapes, random):
    arrays = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    broadcast = np.broadcast_to(arrays[1], arrays[1].shape)  # a plan only looks at the shape
    result = vkattn.plan(arrays[0], broadcast, arrays[2])(*arrays)
    expected = vkattn.attention(*arrays)
    assert result.shape == expected.shape
    np.testing.assert_allclose(result.numpy(), expected, atol=1e-6)


def test_dropout_has_a_seed_for_each_call(qkv):
    plan = vkattn.plan(*qkv(), dropout=0.5)
    arrays = qkv()
    first, same, other = (plan(*arrays, dropout_seed=seed).numpy() for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, same)
    assert (first != other).any()
    np.testing.assert_allclose(first, vkattn.attention(*arrays, dropout=0.5, dropout_seed=1), atol=1e-6)


def test_out_is_no_argument(qkv):
    q, k, v = (vkattn.array(x) for x in qkv(keys=9))
    attend = vkattn.plan(q, k, v)
    for name, out in (("query", q), ("key", k), ("value", v)):
        with pytest.raises(ValueError, match=f"the output tensor, bytes 0 to .* overlaps the {name} tensor"):
            attend(q, k, v, out=out)
    both = vkattn.array(np.zeros((1, 2, 9, 16), np.float32))
    q, k, v = (vkattn.array(x) for x in qkv(keys=16))
    with pytest.raises(ValueError, match="the output tensor, .* overlaps the weights tensor"):
        vkattn.plan(q, k, v, return_weights="probabilities")(q, k, v, out=(both, both))


def test_refusals(qkv):
    query, key, value = qkv()
    plan = vkattn.plan(query, key, value)
    with pytest.raises(ValueError, match="query is a float16 array"):
        plan(query.astype(np.float16), key, value)
    with pytest.raises(ValueError, match=r"key is a float32 array of shape \(1, 2, 12, 16\)"):
        plan(query, key[:, :, 1:], value)
    with pytest.raises(ValueError, match="made without mask"):
        plan(query, key, value, np.ones((9, 13), bool))
    with pytest.raises(ValueError, match="made with sinks"):
        vkattn.plan(query, key, value, sinks=[1, 2])(query, key, value)
    with pytest.raises(ValueError, match="out does not fit"):
        plan(query, key, value, out=vkattn.array(key))
    with pytest.raises(ValueError, match="repeat it, or call attention"):
        vkattn.plan(np.zeros((2, 3, 2, 4, 8), "f4"), np.zeros((2, 1, 2, 4, 8), "f4"), np.zeros((2, 3, 2, 4, 8), "f4"))
    with pytest.raises(vkattn.Error, match="kernel 'none'"):
        vkattn.plan(query, key, value, kernel="none")
