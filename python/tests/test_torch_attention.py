"""vkattn.torch.attention and varlen_attention: every keyword beside float64, with gradients."""
import warnings

import pytest

pytest.importorskip("torch.nn.attention.bias", reason="PyTorch 2.5 or later is not installed")

from torch_tensors import draw, sdpa, seeded, torch  # noqa: F401: the fixture is used by its name

import vkattn.torch


def exact(query, key, value, mask=None, *, is_causal=False, align="top-left", window=None, softcap=0, alibi=None,
          alibi_times_mask=False, sinks=None, kv_lengths=None, enable_gqa=False, scale=None):
    """(output, lse) by PyTorch's operators, as docs/semantics.md defines them."""
    group = query.shape[-3] // key.shape[-3]
    key, value = (x.repeat_interleave(group, dim=-3) for x in (key, value))
    queries, keys = query.shape[-2], key.shape[-2]
    scores = (query.shape[-1] ** -0.5 if scale is None else scale) * (query @ key.transpose(-1, -2))
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if mask is not None and mask.dim() > 2 and mask.shape[-3] > 1:  # its heads are taken in turn
        mask = torch.cat([mask] * (query.shape[-3] // mask.shape[-3]), dim=-3)
    if alibi_times_mask:
        mask = alibi[:, None, None] * mask
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    shown = torch.tensor(keys) if kv_lengths is None else kv_lengths[:, None, None, None]  # of each entry
    offset = {"top-left": 0, "bottom-right": shown - queries}.get(align, align)
    i, j = torch.arange(queries)[:, None] + offset, torch.arange(keys)[None]
    if alibi is not None and not alibi_times_mask:
        scores = scores - alibi[:, None, None] * (i - j).abs()
    hidden = (j > i) if is_causal else torch.zeros(queries, keys, dtype=torch.bool)
    if window is not None:
        hidden = hidden | (j < i - window[0]) | (j > i + window[1])
    if kv_lengths is not None:
        hidden = hidden | (j >= shown)
    scores = scores.masked_fill(hidden, -torch.inf)
    if sinks is not None:
        scores = torch.cat([scores, sinks[:, None, None].expand(*scores.shape[:-1], 1)], dim=-1)
    return scores.softmax(-1)[..., :keys] @ value, scores.logsumexp(-1)


def compare(tensors, keywords, tolerance=2e-5):
    """Output, lse and the gradients of all tensors that require one, of both, beside float64."""
    named = {**tensors, **{name: x for name, x in keywords.items() if isinstance(x, torch.Tensor)}}
    doubles = {name: x.detach().double().requires_grad_() if x.requires_grad else x for name, x in named.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        output, lse = vkattn.torch.attention(*tensors.values(), return_lse=True, **keywords)
    expected, expected_lse = exact(**{**keywords, **doubles})
    torch.testing.assert_close(output.double(), expected, atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(lse.double(), expected_lse, atol=tolerance, rtol=tolerance)
    wanted = [name for name, x in named.items() if x.requires_grad]
    grads = [torch.randn(output.shape).to(output.dtype), torch.randn(lse.shape)]
    found = torch.autograd.grad([output, lse], [named[name] for name in wanted], grads)
    right = torch.autograd.grad([expected, expected_lse], [doubles[name] for name in wanted], [x.double() for x in grads])
    for name, got, exactly in zip(wanted, found, right):
        assert got.dtype == named[name].dtype and got.shape == exactly.shape
        torch.testing.assert_close(got.double(), exactly, atol=10 * tolerance, rtol=10 * tolerance,
                                   msg=lambda text, name=name: name + text)
    assert vkattn.torch.calls() == {"device": 1, "device, gradients": 1}


CASES = {
    "window": dict(window=(3, 1), align="bottom-right"),
    "causal window": dict(window=(2, 0), is_causal=True, align=3, scale=0.4),
    "softcap": dict(softcap=2.0),
    "alibi": lambda: dict(alibi=torch.rand(4).requires_grad_(), is_causal=True, align="bottom-right"),
    "slopes times mask": lambda: dict(alibi=torch.rand(4).requires_grad_(), alibi_times_mask=True,
                                      mask=torch.randn(2, 4, 5, 7).requires_grad_()),
    "sinks": lambda: dict(sinks=torch.randn(4).requires_grad_(), mask=torch.rand(5, 7) > 0.3),
    "kv_lengths": lambda: dict(kv_lengths=torch.tensor([7, 3])),
    "all": lambda: dict(window=(5, 1), align="bottom-right", softcap=3.0, alibi=torch.rand(4).requires_grad_(),
                        sinks=torch.randn(4).requires_grad_(), kv_lengths=torch.tensor([6, 7]),
                        mask=torch.randn(2, 1, 5, 7).requires_grad_()),
}


@pytest.mark.parametrize("name", CASES)
def test_beside_float64(name):
    case = CASES[name]
    query, key, value = draw((2, 4, 5, 16), (2, 2, 7, 16), (2, 2, 7, 24))
    keywords = dict(case() if callable(case) else case, enable_gqa=True)
    tensors = {"query": query, "key": key, "value": value}
    if "mask" in keywords:
        tensors["mask"] = keywords.pop("mask")
    compare(tensors, keywords)


def test_a_mask_of_fewer_heads():
    query, key, value, mask = draw((2, 4, 5, 16), (2, 4, 7, 16), (2, 4, 7, 24), (1, 2, 5, 7))
    compare({"query": query, "key": key, "value": value, "mask": mask}, {})


def test_half_precision_of_everything():
    """Numbers for each head, and their gradients, have types of their own."""
    query, key, value, mask = draw((2, 2, 5, 16), (2, 2, 7, 16), (2, 2, 7, 16), (5, 7), dtype=torch.bfloat16)
    sinks = torch.randn(2, dtype=torch.bfloat16).requires_grad_()
    compare({"query": query, "key": key, "value": value, "mask": mask}, {"sinks": sinks}, tolerance=3e-2)


def test_gradcheck():
    """PyTorch's own check by differences, in float32."""
    tensors = draw((1, 2, 4, 8), (1, 2, 6, 8), (1, 2, 6, 8), (2,))

    def loss(query, key, value, sinks):
        return vkattn.torch.attention(query, key, value, sinks=sinks, window=(3, 1), softcap=4.0)

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*double precision")
        assert torch.autograd.gradcheck(loss, tensors, eps=1e-2, atol=1e-2, rtol=1e-2, fast_mode=True)
        doubled = [*tensors[:3], tensors[3]]
        with pytest.raises(RuntimeError, match="Jacobian"):  # the check can fail
            torch.autograd.gradcheck(lambda *x: loss(*x) + x[0].detach(), doubled, eps=1e-2, atol=1e-2, rtol=1e-2,
                                     fast_mode=True)


@pytest.mark.parametrize("create_graph", [False, True])
def test_gradients_of_lse_alone(create_graph):
    """By the device, and by PyTorch where they are to be differentiated again."""
    query, key, value = draw((1, 4, 5, 8), (1, 2, 6, 8), (1, 2, 6, 8))
    _, lse = vkattn.torch.attention(query, key, value, is_causal=True, scale=0.7, enable_gqa=True, return_lse=True)
    doubles = [x.detach().double().requires_grad_() for x in (query, key, value)]
    _, expected = exact(*doubles, is_causal=True, scale=0.7, enable_gqa=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if create_graph else "error")
        found = torch.autograd.grad(lse.square().sum(), (query, key), create_graph=create_graph)
    right = torch.autograd.grad(expected.square().sum(), doubles[:2], create_graph=create_graph)
    for got, exactly in zip(found, right):
        torch.testing.assert_close(got.double(), exactly, atol=1e-5, rtol=1e-4)
    if create_graph:
        second = [torch.autograd.grad(sum(x.square().sum() for x in first), x) for first, x in ((found, key), (right, doubles[1]))]
        torch.testing.assert_close(second[0][0].double(), second[1][0], atol=1e-4, rtol=1e-3)


def test_a_refused_call_counts_once():
    query, key, value = draw((1, 1, 3, 584), (1, 1, 4, 584), (1, 1, 4, 584))
    with pytest.warns(UserWarning, match="PyTorch computes"):
        vkattn.torch.scaled_dot_product_attention(query, key, value)
    assert list(vkattn.torch.calls().values()) == [1]


def test_sequences_need_their_lengths():
    query, key, value = draw((6, 1, 8), (6, 1, 8), (6, 1, 8))
    with pytest.raises(TypeError, match="cu_seqlens_k"):
        vkattn.torch.varlen_attention(query, key, value, torch.tensor([0, 6]), None)


def test_a_row_that_sees_nothing_has_no_second_derivative():
    query, key, value = draw((1, 1, 2, 8), (1, 1, 3, 8), (1, 1, 3, 8))
    mask = torch.tensor([[True, True, False], [False, False, False]])
    output, lse = vkattn.torch.attention(query, key, value, mask, return_lse=True)
    assert lse[0, 0, 1] == -torch.inf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (first,) = torch.autograd.grad(lse[..., :1].sum(), query, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), key)
    assert first.isfinite().all() and second.isfinite().all() and not first[0, 0, 1].any()


def test_lse_and_weights():
    query, key, value = draw((1, 2, 5, 8), (1, 2, 6, 8), (1, 2, 6, 8))
    output, lse, weights = vkattn.torch.attention(query, key, value, return_lse=True, return_weights="probabilities")
    assert weights.requires_grad
    _, scores = vkattn.torch.attention(query, key, value, return_weights="scores")
    assert not scores.requires_grad
    torch.testing.assert_close(scores.logsumexp(-1), lse)
    doubles = [x.detach().double().requires_grad_() for x in (query, key)]
    expected = (doubles[0] @ doubles[1].transpose(-1, -2) / 8**0.5).softmax(-1)
    torch.testing.assert_close(weights.double(), expected, atol=1e-5, rtol=1e-4)
    with pytest.warns(UserWarning, match="there is a gradient of its weights"):
        found = torch.autograd.grad(weights.square().sum(), (query, key))
    for got, right in zip(found, torch.autograd.grad(expected.square().sum(), doubles)):
        torch.testing.assert_close(got.double(), right, atol=1e-5, rtol=1e-4)


def test_dropout_follows_its_seed():
    query, key = draw((1, 2, 64, 16), (1, 2, 64, 16))
    value = torch.eye(64).expand(1, 2, 64, 64)

    def weights(**keywords):
        return vkattn.torch.attention(query, key, value, dropout=0.25, **keywords)

    assert torch.equal(weights(dropout_seed=2**64 - 1), weights(dropout_seed=-1))
    assert torch.equal(weights(dropout_seed=7).detach(), torch.from_numpy(vkattn.attention(
        *(x.detach().numpy() for x in (query, key, value)), dropout=0.25, dropout_seed=7)))
    assert not torch.equal(weights(), weights())
    torch.manual_seed(1)
    first = weights()
    torch.manual_seed(1)
    assert torch.equal(weights(), first)
    # The gradients know what the call dropped: the output is linear in value.
    value = torch.randn(1, 2, 64, 16).requires_grad_()
    output = vkattn.torch.attention(query.detach(), key.detach(), value, dropout=0.25)
    gradient, = torch.autograd.grad(output, value, torch.ones_like(output))
    torch.testing.assert_close((gradient * value).sum(), output.sum(), atol=1e-3, rtol=1e-3)


def sequences(*lengths, heads=2, dim=16):
    return torch.randn(sum(lengths), heads, dim).requires_grad_(), torch.tensor([0, *lengths]).cumsum(0)


def test_varlen():
    """Each sequence is as if it were alone; the result lies as FlashAttention's does."""
    (query, queries), (key, keys), (value, _) = sequences(5, 2, 3), sequences(6, 4, 3), sequences(6, 4, 3)
    keywords = dict(is_causal=True, align="bottom-right", window=(2, 0), sinks=torch.randn(2).requires_grad_())
    output, lse = vkattn.torch.varlen_attention(query, key, value, queries, keys.int(), 5, 6, return_lse=True, **keywords)
    assert output.shape == (10, 2, 16) and output.is_contiguous() and lse.shape == (2, 10)
    parts = [exact(*(x[a:b].transpose(0, 1) for x, a, b in (
        (query, *queries[i:i + 2]), (key, *keys[i:i + 2]), (value, *keys[i:i + 2]))), **keywords) for i in range(3)]
    expected = torch.cat([part.transpose(0, 1) for part, _ in parts])
    torch.testing.assert_close(output, expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(lse, torch.cat([part for _, part in parts], dim=1), atol=1e-5, rtol=1e-4)
    tensors, weights = (query, key, value, keywords["sinks"]), torch.randn(output.shape)
    found = torch.autograd.grad((output * weights).sum(), tensors)
    for got, right in zip(found, torch.autograd.grad((expected * weights).sum(), tensors)):
        torch.testing.assert_close(got, right, atol=1e-4, rtol=1e-4)


def test_wrong_arguments():
    (query, queries), (key, keys) = sequences(5, 2), sequences(6, 4)
    for wrong, error, sentence in (
        (dict(cu_seqlens_q=queries, cu_seqlens_k=queries), vkattn.RuleError, "cumulative_kv_lengths goes from 0 to 7 but"),
        (dict(cu_seqlens_q=queries, cu_seqlens_k=keys, max_seqlen_k=5), vkattn.RuleError,
         "max_seqlen_k is 5, but cumulative_kv_lengths has a sequence of 6 rows"),
        (dict(cu_seqlens_q=queries, cu_seqlens_k="0 6 10"), TypeError, "cu_seqlens_k is '0 6 10' but must be a tensor"),
    ):
        with pytest.raises(error, match=sentence):
            vkattn.torch.varlen_attention(query, key, key, **wrong)
    for wrong, error, sentence in (
        (dict(query=[1.0]), TypeError, "query is of type list but must be a tensor"),
        (dict(query=query.double()), TypeError, "query is float64 but must be float32, float16 or bfloat16"),
        (dict(window=5), vkattn.RuleError, "window is 5 but must be"),
        (dict(sinks=torch.zeros(3)), vkattn.RuleError, r"sinks has the shape \(3,\)"),
        (dict(copies="yes"), TypeError, "copies is 'yes' but must be True or False"),
        (dict(dropout_p=0.5, dropout=0.5), TypeError, "got both dropout and dropout_p"),
    ):
        tensors = {"query": query.transpose(0, 1), "key": key.transpose(0, 1), "value": key.transpose(0, 1)}
        with pytest.raises(error, match=sentence):
            vkattn.torch.attention(**{**tensors, **wrong})


def test_pytorch_computes_what_it_can():
    query = torch.randn(3, 2, 4, 8)
    with pytest.warns(UserWarning, match="not vkattn: it is transformed by torch.func"):
        mapped = torch.func.vmap(lambda x: vkattn.torch.attention(x, x, x, is_causal=True))(query)
    torch.testing.assert_close(mapped, sdpa(query, query, query, is_causal=True))
    with pytest.raises(vkattn.Error, match="because it is transformed by torch.func; PyTorch, which could, has no window"):
        torch.func.vmap(lambda x: vkattn.torch.attention(x, x, x, window=(1, 1)))(query)
    query.requires_grad_()
    output = vkattn.torch.attention(query, query, query, softcap=2.0)
    with pytest.raises(RuntimeError, match=r"create_graph=True\), and PyTorch has no softcap"):
        torch.autograd.grad(output.sum(), query, create_graph=True)
    assert vkattn.torch.calls() == {"it is transformed by torch.func": 1, "device": 1}


@pytest.mark.parametrize("shape, swap", [((2, 5, 4, 16), (1, 2)), ((2, 4, 5, 16), None), ((5, 2, 4, 16), (0, 2))])
def test_the_output_lies_as_the_query_does(shape, swap):
    query = torch.randn(shape)
    query = query.transpose(*swap) if swap else query
    for output in (vkattn.torch.scaled_dot_product_attention(query, query, query),
                   vkattn.torch.attention(query, query, query[..., :8])):
        order = sorted(range(4), key=lambda i: -output.stride(i))
        assert order == sorted(range(4), key=lambda i: -query.stride(i))
        torch.testing.assert_close(output, sdpa(query, query, query)[..., :output.shape[-1]], atol=1e-5, rtol=1e-4)


def test_negative_and_conjugate_bits():
    """Views that PyTorch negates when they are read."""
    base = torch.randn(1, 2, 4, 8, dtype=torch.complex64)
    query = base.conj().imag
    assert query.is_neg()
    torch.testing.assert_close(vkattn.torch.attention(query, query, query), sdpa(-base.imag, -base.imag, -base.imag),
                               atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("function", [vkattn.torch.attention, vkattn.torch.scaled_dot_product_attention])
def test_autocast(function):
    """Query, key, value and mask get autocast's type, and gradients their own, as with PyTorch."""
    tensors = draw((1, 2, 4, 8), (1, 2, 6, 8), (1, 2, 6, 8), (4, 6))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, expected = function(*tensors), sdpa(*tensors)
    assert output.dtype == expected.dtype == torch.bfloat16
    torch.testing.assert_close(output, expected, atol=3e-2, rtol=3e-2)
    for x, gradient in zip(tensors, torch.autograd.grad(output.float().sum(), tensors)):
        assert gradient.dtype == x.dtype
    assert vkattn.torch.calls() == {"device": 1, "device, gradients": 1}


@pytest.mark.parametrize("lengths", [(4, 6), (5, 5)])
@pytest.mark.parametrize("name", ["causal_upper_left", "causal_lower_right"])
def test_causal_biases(name, lengths):
    queries, keys = lengths
    bias = getattr(torch.nn.attention.bias, name)(queries, keys)
    query, key, value = draw((1, 2, queries, 8), (1, 2, keys, 8), (1, 2, keys, 8))
    expected = sdpa(query, key, value, bias._materialize())
    torch.testing.assert_close(vkattn.torch.scaled_dot_product_attention(query, key, value, bias), expected)
    assert vkattn.torch.calls() == {"device": 1}
    with pytest.raises(ValueError, match="causal=True"), pytest.warns(UserWarning, match="not vkattn"):
        vkattn.torch.scaled_dot_product_attention(query, key, value, bias, is_causal=True)
    doubles = [x.double() for x in (query, key, value)]
    with vkattn.torch.replaces_sdpa(), pytest.warns(UserWarning, match="not vkattn: query, key and value are not all"):
        left = torch.nn.functional.scaled_dot_product_attention(*doubles, bias)
    torch.testing.assert_close(left, expected.double(), atol=1e-5, rtol=1e-4)
    assert sum(vkattn.torch.calls().values()) == 3, "each call counts once"


def test_jagged_nested_tensors():
    parts = [torch.randn(n, 2, 8) for n in (5, 3, 4)]
    nested = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
    query = nested.transpose(1, 2)
    output = vkattn.torch.scaled_dot_product_attention(query, query, query, is_causal=True)
    assert output.layout == torch.jagged and (output + query).shape == query.shape
    for got, part in zip(output.unbind(), parts):
        part = part.transpose(0, 1)
        torch.testing.assert_close(got, sdpa(part, part, part, is_causal=True), atol=1e-5, rtol=1e-4)
    output.values().sum().backward()
    leaves = [part.clone().requires_grad_() for part in parts]
    for leaf in leaves:
        sdpa(*[leaf.transpose(0, 1)] * 3, is_causal=True).sum().backward()
    for got, leaf in zip(nested.grad.unbind(), leaves):
        torch.testing.assert_close(got, leaf.grad, atol=1e-5, rtol=1e-4)
    assert vkattn.torch.calls() == {"device": 1, "device, gradients": 1}


@pytest.mark.parametrize("names, who", [
    (["MATH"], "sdpa_kernel chooses among PyTorch's kernels"), (["MATH", "FLASH_ATTENTION"], "device"),
    (["FLASH_ATTENTION"], "sdpa_kernel chooses among PyTorch's kernels")])
@pytest.mark.filterwarnings("ignore:PyTorch computes this attention")
def test_sdpa_kernel_is_honoured(names, who):
    """Whoever names both kernels that PyTorch has for a CPU has excluded none."""
    query = torch.randn(1, 2, 4, 8)
    with torch.nn.attention.sdpa_kernel([getattr(torch.nn.attention.SDPBackend, name) for name in names]):
        vkattn.torch.scaled_dot_product_attention(query, query, query)
    assert vkattn.torch.calls() == {who: 1}


def test_tensors_on_another_device():
    """Left to PyTorch, or copied where asked for: a tensor of the device 'meta' has nothing to copy."""
    query = torch.randn(1, 2, 4, 8, device="meta")
    with pytest.warns(UserWarning, match="another device than the CPU"):
        assert vkattn.torch.attention(query, query, query).device.type == "meta"
    assert list(vkattn.torch.calls().values()) == [1]
    with pytest.raises(NotImplementedError, match="meta"):
        vkattn.torch.attention(query, query, query, copies=True)
    with vkattn.torch.replaces_sdpa(copies=True), pytest.raises(NotImplementedError, match="meta"):
        torch.nn.functional.scaled_dot_product_attention(query, query, query)


def test_bfloat16_tensors_in_numpys_functions():
    """Arrays, caches, layers and their parameters take them, and from_numpy() gives them back, without ml_dtypes too."""
    query, key, value = (torch.randn(1, 2, n, 16).bfloat16() for n in (5, 7, 7))
    expected = vkattn.torch.attention(query, key, value)
    assert torch.equal(vkattn.torch.from_numpy(vkattn.attention(query, key, value)), expected)
    on_device = [vkattn.array(x) for x in (query, key, value)]
    assert torch.equal(vkattn.torch.from_numpy(on_device[0]), query)
    assert torch.equal(vkattn.torch.from_numpy(vkattn.plan(*on_device)(*on_device)), expected)
    cache = vkattn.Cache(1, 2, 7, 16, dtype="bfloat16")
    cache.append(key.transpose(1, 2).contiguous().transpose(1, 2), value)
    assert torch.equal(vkattn.torch.from_numpy(cache.attention(query, is_causal=False)), expected)
    with pytest.raises(TypeError, match="x is of type list but must be a NumPy array or a vkattn.Array"):
        vkattn.torch.from_numpy([1.0])


@pytest.mark.parametrize("dtype", ["bfloat16", torch.bfloat16])
def test_bfloat16_state_dicts(dtype):
    theirs = torch.nn.MultiheadAttention(16, 2, batch_first=True).bfloat16()
    layer = vkattn.MultiHeadAttention(16, 2, dtype=dtype)
    layer.load_state_dict(theirs.state_dict())
    for name, array in layer.state_dict().items():
        assert torch.equal(vkattn.torch.from_numpy(array), theirs.state_dict()[name])
    x = torch.randn(2, 5, 16).bfloat16()
    output = vkattn.torch.from_numpy(layer(x)[0])
    torch.testing.assert_close(output, theirs(x, x, x)[0].detach(), atol=3e-2, rtol=3e-2)
    single = vkattn.MultiHeadAttention(16, 2, dtype=torch.float32)
    single.load_state_dict(theirs.state_dict())
    for name, array in single.state_dict().items():
        assert torch.equal(vkattn.torch.from_numpy(array), theirs.state_dict()[name].float())
