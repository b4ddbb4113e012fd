"""Compares a layer with NumPy in float64, and with PyTorch's layer if PyTorch is installed."""
import numpy as np
import pytest

import reference
import vkattn


def rows_of(random, *shape, dtype=np.float32):
    return random.standard_normal(shape).astype(dtype)


def layer_with_biases(random, *arguments, **keywords):
    layer = vkattn.MultiHeadAttention(*arguments, seed=5, **keywords)
    state = layer.state_dict()
    for name, x in state.items():
        if x.ndim == 1:
            state[name] = rows_of(random, *x.shape, dtype=x.dtype)
    layer.load_state_dict(state)
    return layer, state


def test_self_attention(random):
    layer, state = layer_with_biases(random, 32, 4)
    assert list(state) == ["in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"]
    x, mask = rows_of(random, 2, 9, 32), rows_of(random, 9, 9)
    expected, weights = reference.multi_head_attention(x, x, x, state, 4, mask=mask, is_causal=True)
    for arguments in ((x,), (x, x, x)):
        output, averaged = layer(*arguments, attn_mask=mask, is_causal=True, need_weights=True)
        np.testing.assert_allclose(output, expected, atol=3e-5)
        np.testing.assert_allclose(averaged, weights.mean(axis=1), atol=3e-6)
    _, by_head = layer(x, attn_mask=mask, is_causal=True, need_weights=True, average_attn_weights=False)
    np.testing.assert_allclose(by_head, weights, atol=3e-6)
    alone, none = layer(x[0], attn_mask=mask, is_causal=True)
    assert none is None
    np.testing.assert_allclose(alone, expected[0], atol=3e-5)


def test_cross_attention_and_masks(random):
    layer, state = layer_with_biases(random, 32, 4, kv_heads=2, head_dim=12, value_dim=8)
    x, memory, other = rows_of(random, 2, 5, 32), rows_of(random, 2, 7, 32), rows_of(random, 2, 7, 32)
    expected, _ = reference.multi_head_attention(x, memory, memory, state, 4, kv_heads=2)
    np.testing.assert_allclose(layer(x, memory)[0], expected, atol=3e-5)
    swapped = reference.multi_head_attention(x, other[:, :5], x, state, 4, kv_heads=2)[0]
    np.testing.assert_allclose(layer(x, other[:, :5], x)[0], swapped, atol=3e-5)
    hidden, padding = random.random((8, 5, 7)) < 0.3, np.zeros((2, 7), bool)
    padding[1, 4:] = True
    takes_part = ~hidden.reshape(2, 4, 5, 7) & ~padding[:, None, None, :]
    expected, _ = reference.multi_head_attention(x, memory, other, state, 4, kv_heads=2, mask=takes_part)
    output, _ = layer(x, memory, other, attn_mask=hidden, key_padding_mask=padding)
    np.testing.assert_allclose(output, expected, atol=3e-5)
    bias = rows_of(random, 5, 7)
    expected, _ = reference.multi_head_attention(
        x, memory, other, state, 4, kv_heads=2, mask=np.where(padding[:, None, None, :], -np.inf, bias))
    output, _ = layer(x, memory, other, attn_mask=bias, key_padding_mask=padding)
    np.testing.assert_allclose(output, expected, atol=3e-5)


def test_only_infinity_hides_in_sums_of_masks(random):
    """Two finite masks add up to less than the lowest float32. All keys have the same weight."""
    layer, _ = layer_with_biases(random, 32, 4)
    x = rows_of(random, 2, 5, 32)
    expected, _ = layer(x, scale=0.0)
    for dtype, lowest in ((np.float32, -3e38), (np.float64, -1e300)):
        bias, padding = np.full((5, 5), lowest, dtype), np.full((2, 5), lowest, dtype)
        output, _ = layer(x, attn_mask=bias, key_padding_mask=padding)
        np.testing.assert_allclose(output, expected, atol=3e-5)


def test_what_changes_scores(random):
    layer, state = layer_with_biases(random, 32, 4)
    x = rows_of(random, 2, 9, 32)
    given = {"softcap": 4.0, "window": (3, 1), "alibi": [0.5, 0.25, 0.125, 0.0625], "sinks": [0.0, 1.0, -1.0, 0.5],
             "scale": 0.4, "kv_lengths": [9, 6]}
    expected, _ = reference.multi_head_attention(x, x, x, state, 4, **given)
    np.testing.assert_allclose(layer(x, **given)[0], expected, atol=3e-5)


def test_rotary(random):
    rotary = vkattn.Rotary("interleaved", base=100.0)
    layer, state = layer_with_biases(random, 32, 4, rotary=rotary)
    x = rows_of(random, 2, 9, 32)
    expected, _ = reference.multi_head_attention(x, x, x, state, 4, rotary=rotary, is_causal=True)
    np.testing.assert_allclose(layer(x, is_causal=True)[0], expected, atol=3e-5)


@pytest.mark.parametrize("keywords", [{}, {"ring": True}, {"page_size": 4}, {"dtype": "q8_0"}])
@pytest.mark.parametrize("rotary", [None, vkattn.Rotary()])
def test_decoding(random, keywords, rotary):
    """A prompt and then single steps with a cache give the rows of one causal pass."""
    layer, state = layer_with_biases(random, 64, 4, kv_heads=2, head_dim=32, rotary=rotary)
    x = rows_of(random, 2, 10, 64)
    expected, weights = reference.multi_head_attention(x, x, x, state, 4, kv_heads=2, rotary=rotary, is_causal=True)
    cache = layer.make_cache(2, 12, **keywords)
    for rows in (slice(0, 7), slice(7, 8), slice(8, 9), slice(9, 10)):
        output, averaged = layer(x[:, rows], cache=cache, is_causal=True, need_weights=True)
        tolerance = 5e-2 if "dtype" in keywords else 3e-5
        np.testing.assert_allclose(output, expected[:, rows], atol=tolerance)
        assert averaged.shape == (2, rows.stop - rows.start, rows.stop)
        np.testing.assert_allclose(averaged, weights.mean(axis=1)[:, rows, :rows.stop], atol=tolerance)
    assert len(cache) == 10


def test_decoding_of_different_lengths(random):
    layer, state = layer_with_biases(random, 32, 4)
    x, hidden = rows_of(random, 2, 6, 32), np.array([False, True, False, False, False, False])
    cache = layer.make_cache(2, 8)
    output, _ = layer(x, cache=cache, counts=[6, 3], is_causal=True, attn_mask=hidden)
    assert list(cache.lengths) == [6, 3] and not output[1, 3:].any()
    for entry, count in enumerate((6, 3)):
        part = x[entry:entry + 1, :count]
        expected, _ = reference.multi_head_attention(part, part, part, state, 4, mask=~hidden[:count], is_causal=True)
        np.testing.assert_allclose(output[entry, :count], expected[0], atol=3e-5)


def check_gradients(random, layer, state, inputs, **keywords):
    names = ("query", "key", "value")[:len(inputs)]
    output, _, saved = layer(*inputs, **keywords, return_saved=True)
    grad_output = rows_of(random, *output.shape)
    found = layer.backward(saved, grad_output)

    def loss(state, *inputs):
        three = (*inputs, *(inputs[-1],) * (3 - len(inputs)))
        result, _ = reference.multi_head_attention(*three, state, layer.num_heads, kv_heads=layer.kv_heads,
                                                   rotary=layer.rotary, **keywords)
        return (result * grad_output).sum()

    def check(gradient, array, loss_of):
        assert gradient.shape == array.shape and gradient.dtype == array.dtype
        for _ in range(6):
            index, ends = tuple(random.integers(size) for size in array.shape), []
            for step in (1e-4, -1e-4):
                moved = array.astype(np.float64)
                moved[index] += step
                ends.append(loss_of(moved))
            np.testing.assert_allclose(gradient[index], (ends[0] - ends[1]) / 2e-4, atol=1e-3, rtol=2e-3)

    for i, name in enumerate(names):
        check(getattr(found, name), inputs[i],
              lambda moved, i=i: loss(state, *inputs[:i], moved, *inputs[i + 1:]))
    assert all(getattr(found, name) is None for name in ("query", "key", "value") if name not in names)
    assert list(found.parameters) == list(state)
    for name, x in state.items():
        check(found.parameters[name], x, lambda moved, name=name: loss({**state, name: moved}, *inputs))


# Heads of 16, as in other tests, because a driver on the CPU needs seconds to compile a backward pass.
def test_gradients_of_self_attention(random):
    layer, state = layer_with_biases(random, 64, 4, rotary=vkattn.Rotary())
    check_gradients(random, layer, state, [rows_of(random, 2, 6, 64)], is_causal=True)


def test_gradients_of_separate_inputs(random):
    layer, state = layer_with_biases(random, 64, 4, kv_heads=2, kdim=20, vdim=12)
    assert list(state)[:3] == ["q_proj_weight", "k_proj_weight", "v_proj_weight"]
    inputs = [rows_of(random, 2, 5, 64), rows_of(random, 2, 6, 20), rows_of(random, 2, 6, 12)]
    check_gradients(random, layer, state, inputs)


def test_gradients_of_a_memory(random):
    layer, state = layer_with_biases(random, 64, 4, bias=False)
    assert list(state) == ["in_proj_weight", "out_proj.weight"]
    check_gradients(random, layer, state, [rows_of(random, 2, 5, 64), rows_of(random, 2, 6, 64)])


def test_it_learns(random):
    """A few steps of gradient descent. The layer learns to give each row the numbers of the next row."""
    layer = vkattn.MultiHeadAttention(32, 2, seed=1)
    x = rows_of(random, 4, 8, 32)
    target, losses = np.roll(x, 1, axis=1), []
    for _ in range(20):
        output, _, saved = layer(x, return_saved=True)
        losses.append(float(((output - target) ** 2).mean()))
        grads = layer.backward(saved, 2 * (output - target) / output.size).parameters
        layer.load_state_dict({name: value - 2 * grads[name] for name, value in layer.state_dict().items()})
    assert losses[-1] < 0.9 * losses[0]


def test_dropout_has_a_seed(random):
    layer, x = vkattn.MultiHeadAttention(32, 4, seed=0), rows_of(random, 2, 9, 32)
    first, same, other = (layer(x, dropout=0.5, dropout_seed=seed)[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, same)
    assert (first != other).any()


def test_neighbouring_seeds_share_no_numbers():
    """All weights have the same bound, so equal numbers of the generator would give equal values. A few are equal by chance."""
    states = [vkattn.MultiHeadAttention(32, 4, kdim=32, vdim=33, seed=seed).state_dict() for seed in range(4)]
    numbers = np.concatenate([x.ravel() for state in states for name, x in state.items()
                              if name in ("q_proj_weight", "k_proj_weight", "out_proj.weight")])
    assert numbers.size == 4 * 3 * 32 * 32 and np.unique(numbers).size > numbers.size - 30


def test_seeds_and_float16(random):
    one, same, other = (vkattn.MultiHeadAttention(32, 4, seed=seed, dtype="float16").state_dict() for seed in (1, 1, 2))
    for name, x in one.items():
        assert x.dtype == np.float16
        np.testing.assert_array_equal(x, same[name])
    assert (one["in_proj_weight"] != other["in_proj_weight"]).any() and not one["in_proj_bias"].any()
    for dtype in ("uint16", ">f4", "float64"):
        with pytest.raises(TypeError, match=f"dtype is {dtype} but must be float32, float16 or bfloat16"):
            vkattn.MultiHeadAttention(32, 4, dtype=dtype)
    layer = vkattn.MultiHeadAttention(32, 4, dtype=np.float16)
    layer.load_state_dict(one)
    x = rows_of(random, 2, 9, 32, dtype=np.float16)
    output, _ = layer(x)
    assert output.dtype == np.float16
    np.testing.assert_allclose(output, reference.multi_head_attention(x, x, x, one, 4)[0], atol=1e-2)


def test_safetensors(random, tmp_path):
    layer, state = layer_with_biases(random, 32, 4)
    path = tmp_path / "weights.safetensors"
    layer.save(path, prefix="block.0.")
    again = vkattn.MultiHeadAttention(32, 4)
    with pytest.raises(vkattn.Error, match="no parameter block.0"):
        again.load(path)
    again.load(str(path), "block.0.")
    for name, x in again.state_dict().items():
        np.testing.assert_array_equal(x, state[name])
    before = vkattn.MultiHeadAttention(32, 4, seed=1, bias=False)
    kept = before.state_dict()
    with pytest.raises(ValueError, match="no parameter"):
        before.load(path, "block.0.")
    with pytest.raises(ValueError, match="the shape .*, but the layer's is"):
        vkattn.MultiHeadAttention(16, 4).load(path, "block.0.")
    with pytest.raises(vkattn.Error, match="no-such-file"):
        before.load(tmp_path / "no-such-file")
    with pytest.raises(vkattn.Error) as raised:
        before.save(path / "no-folder")
    assert raised.value.code == "io"
    np.testing.assert_array_equal(before.state_dict()["in_proj_weight"], kept["in_proj_weight"])


@pytest.mark.parametrize("shape", [(0, 3, 16), (2, 0, 16)])
def test_empty(shape):
    layer, x = vkattn.MultiHeadAttention(16, 2), np.ones(shape, np.float32)
    output, weights, saved = layer(x, need_weights=True, return_saved=True)
    assert output.shape == shape and weights.shape == (shape[0], shape[1], shape[1])
    grads = layer.backward(saved, x)
    assert grads.query.shape == shape and not any(grad.any() for grad in grads.parameters.values())


def test_refusals(random):
    layer, x = vkattn.MultiHeadAttention(16, 2), rows_of(random, 1, 3, 16)
    with pytest.raises(ValueError, match="embed_dim is 15, which is no multiple of num_heads, 2; give head_dim"):
        vkattn.MultiHeadAttention(15, 2)
    with pytest.raises(ValueError, match="num_heads is 0"):
        vkattn.MultiHeadAttention(16, 0)
    with pytest.raises(ValueError, match="query has the shape"):
        layer(x[..., :8])
    with pytest.raises(ValueError, match="query has the shape"):
        layer(x[0, 0])
    with pytest.raises(ValueError, match="key has the shape"):
        layer(x, x[0])
    with pytest.raises(TypeError, match="key must be of the query's type"):
        layer(x, x.astype(np.float16))
    with pytest.raises(ValueError, match="attn_mask has the shape"):
        layer(x, attn_mask=np.zeros((3, 3, 3), bool))
    with pytest.raises(ValueError, match="key_padding_mask has the shape"):
        layer(x, key_padding_mask=np.zeros((2, 3), bool))
    for name in ("attn_mask", "key_padding_mask"):
        with pytest.raises(TypeError, match=rf"{name} is int64 but must be bool \(True hides\)"):
            layer(x, **{name: np.zeros((1, 3), int)})
        with pytest.raises(ValueError, match=rf"{name} has the shape .*4\), but its last dimension must be 3, the keys"):
            layer(x, **{name: np.zeros((1, 4), bool)})
    with pytest.raises(ValueError, match=r"do not broadcast to each other: .* \(3, 1, 3, 3\) and \(2, 1, 1, 3\)"):
        layer(np.repeat(x, 2, axis=0), attn_mask=np.zeros((3, 1, 3, 3), bool), key_padding_mask=np.zeros((2, 3), bool))
    with pytest.raises(ValueError, match="counts are of the rows that a cache takes"):
        layer(x, counts=[2])
    cache = layer.make_cache(1, 4)
    with pytest.raises(ValueError, match="give no key, value or kv_lengths"):
        layer(x, rows_of(random, 1, 3, 16), cache=cache)
    with pytest.raises(ValueError, match="make it by make_cache"):
        layer(x, cache=vkattn.Cache(1, 2, 4, 16))
    with pytest.raises(ValueError, match="a cache has no gradients"):
        layer(x, cache=cache, return_saved=True)
    with pytest.raises(ValueError, match=r"attn_mask has the shape \(3, 2\), but its last dimension must be 3, the keys"):
        layer(x, cache=cache, attn_mask=np.zeros((3, 2), bool))
    layer(x, cache=cache)
    with pytest.raises(ValueError, match="holds 3 keys and has room for 4; 3 more do not fit"):
        layer(x, cache=cache)
    assert len(cache) == 3
    state = layer.state_dict()
    with pytest.raises(ValueError, match="parameters out_proj.bias are not among"):
        layer.load_state_dict({name: x for name, x in state.items() if name != "out_proj.bias"})
    with pytest.raises(ValueError, match="the layer has no parameter bias; it has"):
        layer.load_state_dict({**state, "bias": np.zeros(1)})
    with pytest.raises(vkattn.Error, match="bias_k is a key .* not supported"):
        layer.load_state_dict({**state, "bias_k": np.zeros(1)})
    _, _, saved = layer(x, return_saved=True)
    layer.load_state_dict(state)
    with pytest.raises(ValueError, match="changed since the call"):
        layer.backward(saved, x)


@pytest.mark.parametrize("inputs", [1, 2, 3])
@pytest.mark.parametrize("keywords", [{}, {"bias": False}, {"kdim": 24, "vdim": 24}])
def test_against_pytorch(random, inputs, keywords):
    """Compares output, weights and all gradients with torch.nn.MultiheadAttention for the same parameters and masks."""
    torch = pytest.importorskip("torch")
    if inputs == 1 and "kdim" in keywords:
        pytest.skip("a layer with a kdim of its own is not for self-attention")
    torch.manual_seed(inputs)
    theirs = torch.nn.MultiheadAttention(32, 4, batch_first=True, **keywords)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    ours = vkattn.MultiHeadAttention(32, 4, **keywords)
    ours.load_state_dict({name: x.detach() for name, x in theirs.state_dict().items()})
    shapes = [(3, 6, 32), (3, 7, keywords.get("kdim", 32)), (3, 7, keywords.get("vdim", 32))][:inputs]
    arrays = [rows_of(random, *shape) for shape in shapes]
    tensors = [torch.tensor(x, requires_grad=True) for x in arrays]
    keys = 6 if inputs == 1 else 7
    hidden, padding = random.random((3 * 4, 6, keys)) < 0.3, np.zeros((3, keys), bool)
    hidden[..., 0], padding[1, 4:] = False, True
    output, weights, saved = ours(*arrays, attn_mask=hidden, key_padding_mask=padding, return_saved=True,
                                  need_weights=True)
    three = (*tensors, *(tensors[-1],) * (3 - inputs))
    expected, expected_weights = theirs(*three, attn_mask=torch.tensor(hidden),
                                        key_padding_mask=torch.tensor(padding))
    np.testing.assert_allclose(output, expected.detach(), atol=2e-5)
    np.testing.assert_allclose(weights, expected_weights.detach(), atol=2e-6)
    grad_output = rows_of(random, *output.shape)
    expected.backward(torch.tensor(grad_output))
    found = ours.backward(saved, grad_output)
    for gradient, tensor in zip(found[:3], tensors):
        np.testing.assert_allclose(gradient, tensor.grad, atol=5e-5, rtol=1e-4)
    for name, parameter in theirs.named_parameters():
        np.testing.assert_allclose(found.parameters[name], parameter.grad, atol=1e-4, rtol=1e-4)


def test_memory_of_others_is_refused():
    layer, other = vkattn.MultiHeadAttention(16, 2), vkattn.MultiHeadAttention(16, 2)
    x = np.ones((1, 3, 16), np.float32)
    saved = layer(x, return_saved=True)[2]
    with pytest.raises(vkattn.Error, match="another layer's"):
        other.backward(saved, x)
    with pytest.raises(vkattn.Error, match="another layer's"):
        layer.backward(other(x, return_saved=True)[2], x)
