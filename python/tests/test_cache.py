"""Decode loops over keys and values on the device."""
import threading

import numpy as np
import pytest

import reference
import vkattn


@pytest.mark.parametrize("dtype, tolerance", [("float32", 2e-5), ("float16", 4e-3), ("q8_0", 4e-2),
                                              (("float32", "q8_0"), 4e-2)])
def test_decode_loop(random, dtype, tolerance):
    """A prompt of five tokens and then three steps give the rows of causal attention over all tokens."""
    query, key, value = (random.standard_normal((2, heads, 8, 32)).astype(np.float32) for heads in (4, 2, 2))
    expected, expected_lse = vkattn.attention(query, key, value, is_causal=True, enable_gqa=True, return_lse=True)
    cache = vkattn.Cache(2, 2, 8, 32, dtype=dtype)
    for rows in (slice(0, 5), slice(5, 6), slice(6, 7), slice(7, 8)):
        cache.append(key[:, :, rows], value[:, :, rows])
        assert len(cache) == rows.stop
        output, lse = cache.attention(query[:, :, rows], return_lse=True)
        np.testing.assert_allclose(output, expected[:, :, rows], atol=tolerance)
        np.testing.assert_allclose(lse, expected_lse[:, :, rows], atol=tolerance)
    with pytest.raises(ValueError, match="holds 8 keys and has room for 8; 1 more do not fit"):
        cache.append(key[:, :, :1], value[:, :, :1])
    cache.clear()
    assert len(cache) == 0 and not cache.attention(query[:, :, :1]).any()
    cache.append(key[:, :, :5], value[:, :, :5])
    np.testing.assert_allclose(cache.attention(query[:, :, :5]), expected[:, :, :5], atol=tolerance)


def test_options_and_types(random):
    query, key = (random.standard_normal((1, 2, 6, 16)).astype(np.float16) for _ in range(2))
    value = random.standard_normal((1, 2, 6, 24)).astype(np.float16)
    cache = vkattn.Cache(1, 2, 10, 16, 24, dtype=np.float16)
    cache.append(key[:, :, ::-1], value[:, :, ::-1])
    output = cache.attention(query, is_causal=False, window=(2, 1), softcap=3.0, scale=0.2)
    expected = vkattn.attention(query, key[:, :, ::-1], value[:, :, ::-1], window=(2, 1), softcap=3.0, scale=0.2)
    assert output.dtype == np.float16
    np.testing.assert_allclose(output.astype(float), expected.astype(float), atol=4e-3)


def rows_of(random, *shape):
    return random.standard_normal(shape).astype(np.float32)


def test_float8_with_scales(random):
    """Numbers that 8-bit floats can hold exactly, times a scale for each head."""
    scales = np.array([0.25, 2.0], np.float32)
    query = rows_of(random, 1, 4, 3, 16)
    key, value = (random.integers(-8, 8, (1, 2, 3, 16)).astype(np.float32) * scales[:, None, None] for _ in range(2))
    cache = vkattn.Cache(1, 2, 8, 16, dtype="e4m3", key_scales=scales, value_scales=list(scales))
    cache.append(key, value)
    expected = reference.attention(query, key, value, is_causal=True)[0]
    np.testing.assert_allclose(cache.attention(query), expected, atol=2e-5)


def test_ring_keeps_the_newest(random):
    """Steps over three turns of a ring give causal attention with a window of the ring's length."""
    query, key, value = (rows_of(random, 1, 2, 25, 16) for _ in range(3))
    expected, lse, stages = reference.attention(query, key, value, is_causal=True, window=(7, None))
    cache = vkattn.Cache(1, 2, 8, 16, ring=True)
    for step in range(25):
        rows = slice(step, step + 1)
        cache.append(key[:, :, rows], value[:, :, rows])
        np.testing.assert_allclose(cache.attention(query[:, :, rows]), expected[:, :, rows], atol=2e-5)
    assert len(cache) == 25 and list(cache.lengths) == [25]
    mask = np.zeros(25, np.float32)
    output, weights = cache.attention(query[:, :, rows], mask, return_weights="probabilities")
    np.testing.assert_allclose(weights, stages["probabilities"][:, :, rows], atol=2e-6)
    mask[20] = -np.inf
    hidden = reference.attention(query, key, value, mask == 0, is_causal=True, window=(7, None))[0]
    np.testing.assert_allclose(cache.attention(query[:, :, rows], mask), hidden[:, :, rows], atol=2e-5)
    cache.clear()
    cache.append(key[:, :, :1], value[:, :, :1])
    np.testing.assert_allclose(cache.attention(query[:, :, :1]), expected[:, :, :1], atol=2e-5)


def test_pages(random):
    """Two batch entries share their first page. Then each continues in pages of its own, which are out of order."""
    begin, ends = rows_of(random, 1, 2, 4, 16), rows_of(random, 2, 2, 5, 16)
    key = np.concatenate([np.repeat(begin, 2, axis=0), ends], axis=2)
    query = rows_of(random, 2, 4, 9, 16)
    cache = vkattn.Cache(2, 2, 12, 16, page_size=4, page_count=6, page_table=[[3, -1, -1], [3, -1, -1]])
    cache.append(key[:, :, :4], key[:, :, :4])
    cache.set_page_table(np.array([[3, 5, 0], [3, 1, 2]]))
    cache.append(key[:, :, 4:], key[:, :, 4:])
    expected = reference.attention(query, key, key, is_causal=True)[0]
    np.testing.assert_allclose(cache.attention(query), expected, atol=2e-5)
    own = vkattn.Cache(2, 2, 10, 16, page_size=4, dtype="float16")
    own.append(key, key)
    np.testing.assert_allclose(own.attention(query), expected, atol=4e-3)


@pytest.mark.parametrize("rotary", [
    vkattn.Rotary(), vkattn.Rotary("interleaved", dims=8, base=500.0, position_scale=0.5, magnitude=1.5),
    vkattn.Rotary(dims=4, frequencies=[0.5, 0.01]),
])
def test_rotary(random, rotary):
    query, key, value = rows_of(random, 2, 4, 8, 16), *(rows_of(random, 2, 2, 8, 16) for _ in range(2))
    positions = np.tile(np.arange(8), (2, 1))
    turned = [reference.rotated(x, positions, **rotary._asdict()) for x in (query, key)]
    expected = reference.attention(*turned, value, is_causal=True)[0]
    cache = vkattn.Cache(2, 2, 8, 16, rotary=rotary)
    for rows in (slice(0, 5), slice(5, 6), slice(6, 8)):
        cache.append(key[:, :, rows], value[:, :, rows])
        np.testing.assert_allclose(cache.attention(query[:, :, rows]), expected[:, :, rows], atol=3e-5)
    again = cache.attention(query[:, :, 2:4], align=2)  # the position places these queries in the middle
    np.testing.assert_allclose(again, expected[:, :, 2:4], atol=3e-5)


def test_what_changes_scores(random):
    query, key, value = rows_of(random, 2, 4, 7, 16), *(rows_of(random, 2, 2, 7, 16) for _ in range(2))
    given = {"mask": rows_of(random, 4, 7, 7), "sinks": [0.5, -1.0, 0.25, 2.0],
             "alibi": np.array([0.5, 0.25, 0.125, 1.0], np.float32), "softcap": 5.0, "window": (3, 0), "scale": 0.3}
    expected, lse, stages = reference.attention(query, key, value, is_causal=True, **given)
    cache = vkattn.Cache(2, 2, 12, 16)
    cache.append(key, value)
    results = cache.attention(query, **given, return_lse=True, return_weights="probabilities")
    for got, wanted in zip(results, (expected, lse, stages["probabilities"])):
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, atol=3e-5)
    some = np.array([True] * 6 + [False])
    np.testing.assert_allclose(cache.attention(query, some), reference.attention(query, key, value, some,
                                                                                 is_causal=True)[0], atol=2e-5)


def test_entries_of_different_lengths(random):
    query, key = rows_of(random, 3, 2, 5, 16), rows_of(random, 3, 2, 5, 16)
    counts, cache = [5, 2, 0], vkattn.Cache(3, 2, 6, 16)
    cache.append(key, key, counts=counts)
    assert list(cache.lengths) == counts and len(cache) == 5
    output, lse = cache.attention(query, counts=counts, return_lse=True)
    for entry, count in enumerate(counts):
        part = (slice(entry, entry + 1), slice(None), slice(0, count))
        np.testing.assert_allclose(output[part], reference.attention(query[part], key[part], key[part],
                                                                     is_causal=True)[0], atol=2e-5)
        assert not output[entry, :, count:].any() and not lse[entry, :, count:].any()
    cache.clear([0])
    cache.append(key[:, :, :1], key[:, :, :1])
    assert list(cache.lengths) == [1, 3, 1]
    np.testing.assert_allclose(cache.attention(query[:, :, :1])[0], np.repeat(key[:1, :, :1], 1, axis=0)[0], atol=2e-5)


class Interrupted:
    """A native object. Its `method` works, but Ctrl-C arrives before Python continues."""

    def __init__(self, native, method):
        self._native, self._method = native, method

    def __getattr__(self, name):
        found = getattr(self._native, name)
        if name != self._method:
            return found

        def call(*arguments):
            found(*arguments)
            raise KeyboardInterrupt

        return call


def test_an_interrupted_append_has_been_made(random):
    """The next append continues after the interrupted one, as the device does."""
    query, key = rows_of(random, 1, 2, 4, 16), rows_of(random, 1, 2, 4, 16)
    cache = vkattn.Cache(1, 2, 8, 16, page_size=4)
    native, cache._native = cache._native, Interrupted(cache._native, "append")
    with pytest.raises(KeyboardInterrupt):
        cache.append(key[:, :, :3], key[:, :, :3])
    cache._native = native
    assert len(cache) == 3
    cache.append(key[:, :, 3:], key[:, :, 3:])
    expected = reference.attention(query, key, key, is_causal=True)[0]
    np.testing.assert_allclose(cache.attention(query), expected, atol=2e-5)
    cache._native = Interrupted(native, "set_lengths")
    with pytest.raises(KeyboardInterrupt):
        cache.clear()
    cache._native = native
    assert len(cache) == 0
    layer, x = vkattn.MultiHeadAttention(32, 2, seed=0), rows_of(random, 1, 4, 32)
    whole, used = layer(x, is_causal=True)[0], layer.make_cache(1, 4)
    native, layer._native = layer._native, Interrupted(layer._native, "forward")
    with pytest.raises(KeyboardInterrupt):
        layer(x[:, :3], cache=used, is_causal=True)
    layer._native = native
    np.testing.assert_allclose(layer(x[:, 3:], cache=used, is_causal=True)[0], whole[:, 3:], atol=2e-5)


def test_threads_append_to_one_cache():
    """The cache takes as many rows as fit, and loses none: the mean of its rows is that of the appended rows."""
    cache, query = vkattn.Cache(1, 1, 60, 16), np.zeros((1, 1, 1, 16), np.float32)
    taken = []

    def work(index):
        for _ in range(8):
            try:
                cache.append(query, np.full((1, 1, 1, 16), index, np.float32))
                taken.append(index)
            except ValueError:
                pass

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(cache) == len(taken) == 60
    np.testing.assert_allclose(cache.attention(query), np.mean(taken), atol=1e-5)


def test_refusals_of_pages(random):
    key = rows_of(random, 2, 1, 5, 16)

    def cache(table, **keywords):
        return vkattn.Cache(2, 1, 12, 16, page_size=4, page_table=table, **keywords)

    with pytest.raises(ValueError, match=r"page_table\[1, 2\] is 6 but must be the number of a page, 0 to 5, or -1"):
        cache([[0, 1, 2], [3, 4, 6]], page_count=6)
    for number in (2**32 + 1, 2**31):
        with pytest.raises(ValueError, match=rf"page_table\[0, 1\] is {number} but must be the number of a page"):
            cache([[0, number, 2], [3, 4, 5]])
    with pytest.raises(ValueError, match=r"page_table\[0, 0\] is -2 but must be"):
        cache([[-2, 1, 2], [3, 4, 5]])
    with pytest.raises(ValueError, match="page_table is a float64 array"):
        cache([[0.5, 1, 2], [3, 4, 5]])
    growing = cache([[0, 1, 2], [3, -1, -1]], page_count=6)
    missing = r"page_table\[1, 1\] is -1, none yet, but 5 keys of batch entry 1 take pages 0 to 1 of it"
    with pytest.raises(ValueError, match=missing):
        growing.append(key, key)
    assert len(growing) == 0
    growing.append(key, key, counts=[5, 4])
    growing.set_page_table([[0, 1, 2], [3, 5, -1]])
    growing.append(key[:, :, :1], key[:, :, :1])
    with pytest.raises(ValueError, match=missing):
        growing.set_page_table([[0, 1, 2], [3, -1, -1]])


def test_refusals_of_layouts(random):
    key = rows_of(random, 1, 2, 1, 16)
    with pytest.raises(ValueError, match="a ring or has pages, not both"):
        vkattn.Cache(1, 2, 8, 16, ring=True, page_size=4)
    with pytest.raises(ValueError, match="pages need page_size"):
        vkattn.Cache(1, 2, 8, 16, page_count=4)
    with pytest.raises(ValueError, match="page_size is 0"):
        vkattn.Cache(1, 2, 8, 16, page_size=0)
    with pytest.raises(ValueError, match="one integer for each page"):
        vkattn.Cache(1, 2, 8, 16, page_size=4, page_table=[[0]])
    with pytest.raises(ValueError, match="the cache has no pages"):
        vkattn.Cache(1, 2, 8, 16).set_page_table([[0]])
    with pytest.raises(ValueError, match="rotary.dims is 7"):
        vkattn.Cache(1, 2, 8, 16, rotary=vkattn.Rotary(dims=7))
    with pytest.raises(ValueError, match="a rotary style is"):
        vkattn.Cache(1, 2, 8, 16, rotary=vkattn.Rotary("other"))
    with pytest.raises(ValueError, match="frequencies has the shape"):
        vkattn.Cache(1, 2, 8, 16, rotary=vkattn.Rotary(frequencies=[1.0]))
    with pytest.raises(ValueError, match="key_scales"):
        vkattn.Cache(1, 2, 8, 16, dtype="e4m3").append(key, key)
    cache = vkattn.Cache(1, 2, 8, 16)
    with pytest.raises(TypeError, match="counts is float64"):
        cache.append(key, key, counts=[1.0])
    cache.append(key, key)
    cache.append(key, key)
    with pytest.raises(ValueError, match=r"mask has the shape \(5,\), but its last dimension must be 2, the keys"):
        cache.attention(key, np.zeros(5, np.float32))
    cache.clear(0)
    assert len(cache) == 0


def test_refusals():
    cache = vkattn.Cache(1, 2, 4, 16)
    array = np.zeros((1, 2, 1, 16), np.float32)
    with pytest.raises(ValueError, match=r"key has the shape .* but must be \(1, 2, new_length, 16\)"):
        cache.append(array[..., :8], array)
    with pytest.raises(ValueError, match="key and value differ in length: 1 and 0"):
        cache.append(array, array[:, :, :0])
    with pytest.raises(ValueError, match="query has the shape"):
        cache.attention(array[0])
    with pytest.raises(ValueError, match="query_heads is 3"):
        cache.attention(np.zeros((1, 3, 1, 16), np.float32))
    for dtype, said in (("int8", "int8"), (np.dtype(">f4"), ">f4"), ((np.float16, np.uint16), "uint16")):
        with pytest.raises(ValueError, match=f"a cache stores float32, float16, bfloat16, .*, not '{said}'"):
            vkattn.Cache(1, 2, 4, 16, dtype=dtype)
    with pytest.raises(ValueError, match="dtype names 3 types but must be one, or a pair"):
        vkattn.Cache(1, 2, 4, 16, dtype=["float32"] * 3)
    with pytest.raises(ValueError, match="blocks of 32"):
        vkattn.Cache(1, 2, 4, 16, dtype="q8_0")
    assert len(cache) == 0
    cache.append(array[:, :, :0], array[:, :, :0])
    assert len(cache) == 0
