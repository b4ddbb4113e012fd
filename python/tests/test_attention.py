"""Compares every keyword with float64."""
import warnings

import numpy as np
import pytest

import reference
import vkattn

INF = float("inf")


def check(query, key, value, mask=None, tolerance=2e-5, kernel=None, **keywords):
    """Compares output and lse of a call with the reference."""
    output, lse = vkattn.attention(query, key, value, mask, return_lse=True, enable_gqa=True, kernel=kernel, **keywords)
    expected, expected_lse, _ = reference.attention(query, key, value, mask, **keywords)
    assert output.dtype == query.dtype and output.shape == expected.shape
    np.testing.assert_allclose(output.astype(np.float64), expected, atol=tolerance, rtol=tolerance)
    np.testing.assert_allclose(lse, expected_lse, atol=2e-5, rtol=2e-5)
    return output


@pytest.mark.parametrize("batch, query_heads, kv_heads, queries, keys, dim, value_dim", [
    (1, 1, 1, 1, 1, 1, 1),
    (2, 4, 2, 17, 33, 24, 40),
    (3, 6, 1, 1, 70, 64, 64),
])
def test_shapes(qkv, batch, query_heads, kv_heads, queries, keys, dim, value_dim):
    check(*qkv(batch, query_heads, kv_heads, queries, keys, dim, value_dim))


def test_float16(qkv):
    check(*qkv(dtype=np.float16), tolerance=2e-3)


def test_types_may_differ(qkv):
    query, key, value = qkv()
    check(query, key.astype(np.float16), value.astype(np.float16))


def test_bfloat16(qkv):
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    check(*qkv(dtype=bfloat16), tolerance=2e-2)


@pytest.mark.parametrize("keywords", [
    {"is_causal": True},
    {"is_causal": True, "align": "bottom-right", "scale": 0.3},
    {"is_causal": True, "align": 2, "window": (3, None)},
    {"window": (4, 1), "align": "bottom-right", "softcap": 2.0},
    {"alibi": [0.5, 0.25], "sinks": [0.5, -1.0]},
])
def test_keywords(qkv, keywords):
    check(*qkv(), **keywords)


def test_standard_alibi(qkv):
    query, key, value = qkv(query_heads=4, kv_heads=4)
    got = vkattn.attention(query, key, value, alibi=True)
    expected, _, _ = reference.attention(query, key, value, alibi=[2.0 ** (-2 * (h + 1)) for h in range(4)])
    np.testing.assert_allclose(got, expected, atol=2e-5)


@pytest.mark.parametrize("shape", [(9, 13), (2, 1, 9, 13), (3, 1, 13), (9, 1), (2, 3, 9, 13), ()])
@pytest.mark.parametrize("kind", ["bool", "float32"])
def test_masks_broadcast(qkv, random, shape, kind):
    arrays = qkv(batch=2, query_heads=3, kv_heads=3)
    mask = random.random(shape) > 0.4 if kind == "bool" else random.standard_normal(shape).astype(np.float32)
    check(*arrays, np.asarray(mask))


@pytest.mark.parametrize("shape", [(1, 2, 9, 13), (2, 3, 1, 13), (1, 3, 9, 1)])
def test_heads_of_masks_are_taken_in_turn(qkv, random, shape):
    mask = random.standard_normal(shape).astype(np.float32)
    for kv_heads in (6, 1):
        check(*qkv(batch=2, query_heads=6, kv_heads=kv_heads), mask)
        check(*qkv(batch=2, query_heads=6, kv_heads=kv_heads), mask > 0)
    for kv_heads, heads, words in ((1, 4, r"13\)$"), (6, 0, r"13\)$"), (3, 3, "not those of the keys"), (2, 2, "not those")):
        with pytest.raises(vkattn.RuleError, match=f"mask of shape .* does not broadcast to the scores, .*{words}"):
            vkattn.attention(*qkv(query_heads=6, kv_heads=kv_heads), np.zeros((1, heads, 9, 13), np.float32), enable_gqa=True)


def test_the_first_of_three_dimensions_of_a_mask_is_not_the_batch(qkv, random):
    """NumPy reads it as heads, so a mask of the batch is refused, also where the batch divides the query heads."""
    query, key, value = qkv(batch=2, query_heads=6, kv_heads=6)
    with pytest.raises(vkattn.RuleError, match="6 query heads; a mask of fewer heads, .*, needs 4 dimensions"):
        vkattn.attention(query, key, value, np.zeros((2, 9, 13), bool))
    check(query, key, value, random.random((6, 9, 13)) > 0.4)
    mask = random.standard_normal((2, 9, 13)).astype(np.float32)  # without a batch there are no more dimensions
    found = vkattn.attention(query[0], key[0], value[0], mask)
    np.testing.assert_array_equal(found, vkattn.attention(query[:1], key[:1], value[:1], mask[None])[0])


def test_slopes_that_multiply_the_mask(qkv, random):
    mask = random.standard_normal((9, 13)).astype(np.float32)
    mask[mask < -1] = -INF
    for shape in ((9, 13), (1, 9, 13), (1, 1, 9, 13)):
        check(*qkv(query_heads=4, kv_heads=4), mask.reshape(shape), alibi=[0.5, -0.25, 0.0, 3.0], alibi_times_mask=True)
    query, key, value = qkv(query_heads=4, kv_heads=4)
    for keywords, sentence in (
        ({"alibi": True}, "alibi_times_mask is True but alibi is no array of slopes"),
        ({}, "alibi_times_mask is True but alibi is no array of slopes"),
        ({"alibi": np.ones(4)}, "the mask is not there"),
        ({"alibi": np.ones(4), "mask": mask > 0}, "the mask is boolean"),
    ):
        with pytest.raises(vkattn.RuleError, match=sentence):
            vkattn.attention(query, key, value, alibi_times_mask=True, **keywords)


def test_masks_of_other_types(qkv, random):
    arrays = qkv()
    numbers = random.standard_normal((9, 13))
    numbers[:, 3] = -INF
    for mask in (numbers, numbers.astype(np.float16)):
        check(*arrays, mask)


def test_only_infinity_hides_in_float64(qkv):
    """Finite numbers beyond float32's range stay finite. Here all keys of a row have the same bias."""
    query, key, value = qkv()
    mask = np.full((9, 13), -1e300)
    mask[:, 12] = -np.inf
    mask[8] = -np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        output, lse = vkattn.attention(query, key, value, mask, return_lse=True)
    mean = value[:, :, np.newaxis, :12].mean(axis=3)
    np.testing.assert_allclose(output[:, :, :8], np.broadcast_to(mean, output[:, :, :8].shape), atol=2e-5)
    assert np.isfinite(lse[:, :, :8]).all() and np.isneginf(lse[:, :, 8]).all() and (output[:, :, 8] == 0).all()
    mask[0, 0] = np.nan
    assert np.isnan(vkattn.attention(query, key, value, mask)[:, :, 0]).all()
    # The sink outweighs all keys.
    assert (vkattn.attention(query, key, value, sinks=np.full(2, 1e300)) == 0).all()


def test_masks_with_strides(qkv, random):
    mask = random.random((13, 18)) > 0.5
    check(*qkv(), mask.T[::2])
    check(*qkv(), mask.T[::-2])


def test_mask_and_causality_both_hold(qkv, random):
    check(*qkv(), random.random((9, 13)) > 0.3, is_causal=True)


def test_rows_that_see_nothing_are_zero(qkv):
    query, key, value = qkv()
    output, lse = vkattn.attention(query, key, value, np.zeros((9, 13), bool), return_lse=True)
    assert not output.any() and np.isneginf(lse).all()


def test_kv_lengths(qkv):
    check(*qkv(batch=3), kv_lengths=np.array([13, 0, 5]))
    query, key, value = qkv(batch=2)
    output = vkattn.attention(query, key, value, kv_lengths=[1 << 40, -5])  # clamped
    expected, _, _ = reference.attention(query, key, value, kv_lengths=[13, 0])
    np.testing.assert_allclose(output, expected, atol=2e-5)


@pytest.mark.parametrize("stage", ["scores", "softcap", "masked", "probabilities"])
def test_weights(qkv, stage):
    query, key, value = qkv()
    keywords = {"softcap": 1.5, "is_causal": True}
    output, weights = vkattn.attention(query, key, value, return_weights=stage, **keywords)
    expected, _, stages = reference.attention(query, key, value, **keywords)
    np.testing.assert_allclose(output, expected, atol=2e-5)
    np.testing.assert_allclose(weights, stages[stage], atol=2e-5)
    _, lse, again = vkattn.attention(query, key, value, return_weights=stage, return_lse=True, **keywords)
    assert lse.shape == (1, 2, 9) and (again == weights).all()


def test_dropout(qkv):
    query, key, _ = qkv(queries=64, keys=64)
    value = np.broadcast_to(np.eye(64, dtype=np.float32), (1, 2, 64, 64))  # the output is the weights
    plain = vkattn.attention(query, key, value)
    one, same, other = (vkattn.attention(query, key, value, dropout=0.25, dropout_seed=seed) for seed in (1, 1, 2))
    assert (one == same).all() and (one != other).any()
    kept = one != 0
    assert abs(kept.mean() - 0.75) < 0.02  # 4.2 standard deviations of 8192 draws
    np.testing.assert_allclose(one[kept], plain[kept] / 0.75, rtol=1e-4)
    unseeded = [vkattn.attention(query, key, value, dropout=0.25) for _ in range(2)]
    assert (unseeded[0] != unseeded[1]).any()


@pytest.mark.parametrize("kernel", ["lane", "tile"])
def test_kernel(qkv, kernel):
    check(*qkv(), kernel=kernel)
    with pytest.raises(vkattn.Error):
        vkattn.attention(*qkv(queries=64), kernel="decode")


def packed(random, query_lengths, kv_lengths, heads=(4, 2), dim=16):
    """(query, key, value) with all sequences one after the other, and the rows at which they begin and end."""
    rows = [sum(query_lengths), sum(kv_lengths), sum(kv_lengths)]
    arrays = [random.standard_normal((h, n, dim)).astype(np.float32) for h, n in zip((heads[0],) + heads[1:] * 2, rows)]
    return arrays, [np.cumsum([0, *lengths]).astype(np.int32) for lengths in (query_lengths, kv_lengths)]


def test_packed_sequences(random):
    """Each sequence is as if it were alone, one without queries and one without keys too."""
    arrays, cumulative = packed(random, (5, 0, 3, 2), (7, 4, 0, 6))
    mask = random.standard_normal((4, 1, 5, 7)).astype(np.float32)
    keywords = dict(is_causal=True, align="bottom-right", enable_gqa=True, softcap=5.0)
    output, lse = vkattn.attention(*arrays, mask, cumulative_query_lengths=cumulative[0],
                                   cumulative_kv_lengths=cumulative[1], return_lse=True, **keywords)
    assert output.shape == (4, 10, 16) and lse.shape == (4, 10)
    for i in range(4):
        queries, keys = (slice(*x[i:i + 2]) for x in cumulative)
        alone = (arrays[0][:, queries], arrays[1][:, keys], arrays[2][:, keys],
                 mask[i, :, :queries.stop - queries.start, :keys.stop - keys.start])
        expected, expected_lse = vkattn.attention(*alone, return_lse=True, **keywords)
        np.testing.assert_allclose(output[:, queries], expected, atol=1e-5)
        np.testing.assert_allclose(lse[:, queries], expected_lse, atol=1e-5)


def test_wrong_packed_sequences(random):
    (query, key, value), (queries, keys) = packed(random, (5, 3), (7, 4))
    for wrong, sentence in (
        (dict(cumulative_query_lengths=queries), "need both"),
        (dict(cumulative_query_lengths=queries, cumulative_kv_lengths=keys[:2]), "end at 11"),
        (dict(cumulative_query_lengths=queries - 1, cumulative_kv_lengths=keys), "begin at 0"),
        (dict(cumulative_query_lengths=[0, 9, 8], cumulative_kv_lengths=keys), "never fall"),
        (dict(cumulative_query_lengths=[0, 8], cumulative_kv_lengths=keys), "1 sequences and cumulative_kv_lengths has 2"),
        (dict(cumulative_query_lengths=queries[None], cumulative_kv_lengths=keys), r"shape \(1, 3\)"),
        (dict(cumulative_query_lengths=queries, cumulative_kv_lengths=keys, kv_lengths=[3, 3]), "take no kv_lengths"),
    ):
        with pytest.raises(vkattn.RuleError, match=sentence):
            vkattn.attention(query, key, value, enable_gqa=True, **wrong)
    with pytest.raises(vkattn.RuleError, match=r"must be \(heads, rows, dim\)"):
        vkattn.attention(query[None], key[None], value[None], enable_gqa=True, cumulative_query_lengths=queries,
                         cumulative_kv_lengths=keys)
    with pytest.raises(TypeError, match="float64 but must hold integers"):
        vkattn.attention(query, key, value, enable_gqa=True, cumulative_query_lengths=[0.0, 5.0, 8.0],
                         cumulative_kv_lengths=keys)


def test_pytorchs_names_of_keywords(qkv):
    query, key, value = qkv()
    mask = np.zeros((9, 13), bool)
    mask[:, :4] = True
    expected = vkattn.attention(query, key, value, mask, dropout=0.5, dropout_seed=3)
    assert np.array_equal(vkattn.attention(query, key, value, attn_mask=mask, dropout_p=0.5, dropout_seed=3), expected)
    with pytest.raises(TypeError, match="got both mask and attn_mask, which are one argument"):
        vkattn.attention(query, key, value, mask=mask, attn_mask=mask)
    with pytest.raises(TypeError, match="dropout is 'x' but must be a number"):
        vkattn.attention(query, key, value, dropout_p="x")
    with pytest.raises(TypeError, match="unexpected keyword argument 'attention_mask'"):
        vkattn.attention(query, key, value, attention_mask=mask)
