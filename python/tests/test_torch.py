"""Compares vkattn.torch with PyTorch's own attention, forward and backward."""
import itertools
import math
import os
import warnings

import pytest

from torch_tensors import draw, sdpa, seeded, torch  # noqa: F401: the fixture is used by its name

import vkattn.torch

# float32 of vkattn is compared with float64 of PyTorch, so the remaining error is that of float32.
TOLERANCES = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def compare(query, key, value, mask=None, **keywords):
    """Compares output and gradients with PyTorch's in float64. vkattn must not fall back to PyTorch."""
    tensors = [query, key, value] + ([mask] if mask is not None and mask.requires_grad else [])
    doubles = [x.detach().double().requires_grad_() for x in tensors]
    double_mask = mask if len(doubles) == 3 else doubles[3]
    if double_mask is not None and double_mask.dtype not in (torch.bool, torch.float64):
        double_mask = double_mask.double()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        output = vkattn.torch.scaled_dot_product_attention(query, key, value, mask, **keywords)
    expected = sdpa(*doubles[:3], double_mask, **keywords)
    assert output.dtype == query.dtype and output.shape == expected.shape
    tolerance = TOLERANCES[query.dtype]
    torch.testing.assert_close(output.double(), expected, atol=tolerance, rtol=tolerance)
    weights = torch.randn(output.shape)
    found = torch.autograd.grad((output.float() * weights).sum(), tensors)
    wanted = torch.autograd.grad((expected * weights).sum(), doubles)
    for got, right in zip(found, wanted):
        assert got.shape == right.shape
        torch.testing.assert_close(got.double(), right, atol=10 * tolerance, rtol=10 * tolerance)


HEADS = {"equal": (2, 2), "grouped": (4, 2)}
LAYOUTS = {
    "bhsd": lambda *shape: torch.randn(shape),
    "bshd": lambda b, h, n, d: torch.randn(b, n, h, d).transpose(1, 2),
    "3d": lambda b, h, n, d: torch.randn(h, n, d),
    "5d": lambda b, h, n, d: torch.randn(b, 3, h, n, d),
}
MASKS = {
    "none": lambda *shape: None,
    "causal": lambda *shape: "causal",
    "bool": lambda *shape: torch.rand(shape[-2:]) > 0.3,
    "float": lambda *shape: torch.randn(shape[-2:]),
    "grad": lambda *shape: torch.randn(1, *shape[-2:]).requires_grad_(),
}
CASES = [
    # Every value of a column meets every value of another column.
    ("equal", "bhsd", "none", torch.float32, None), ("equal", "bhsd", "causal", torch.bfloat16, 0.2),
    ("grouped", "bshd", "bool", torch.float32, 0.2), ("grouped", "bhsd", "float", torch.float16, None),
    ("equal", "3d", "causal", torch.float32, 0.2), ("equal", "5d", "bool", torch.bfloat16, None),
    ("grouped", "5d", "grad", torch.float32, None), ("equal", "bshd", "grad", torch.float16, 0.2),
    ("grouped", "bshd", "causal", torch.float16, None), ("equal", "3d", "float", torch.bfloat16, None),
]


@pytest.mark.parametrize("heads, layout, mask, dtype, scale", CASES)
def test_beside_pytorch(heads, layout, mask, dtype, scale):
    query_heads, kv_heads = HEADS[heads]
    make = LAYOUTS[layout]
    query, key, value = (
        make(2, h, n, d).to(dtype).requires_grad_()
        for h, n, d in ((query_heads, 7, 16), (kv_heads, 11, 16), (kv_heads, 11, 24))
    )
    mask = MASKS[mask](7, 11)
    causal = isinstance(mask, str)
    if mask is not None and not causal and mask.dtype != torch.bool:
        mask = mask.detach().to(dtype).requires_grad_(mask.requires_grad)
    compare(query, key, value, None if causal else mask, is_causal=causal, scale=scale, enable_gqa=heads == "grouped")


def test_cases_cover_every_value():
    for column, values in zip(zip(*CASES), (HEADS, LAYOUTS, MASKS, TOLERANCES, (None, 0.2))):
        assert set(column) == set(values)


# A part of the grid on which FlashAttention publishes its errors: type, causality, lengths, head_dim.
GRID = list(itertools.product(
    (torch.float16, torch.bfloat16), (False, True), ((113, 203), (128, 217), (108, 256), (256, 512), (1023, 1024)),
    (40, 59, 64, 80, 96, 111, 128)))
# These seven have every type and head_dim, with and without causality.
THINNED = GRID if os.environ.get("VKATTN_LONG_TESTS") == "1" else GRID[::23]


def in_steps(query, key, value, causal):
    """Attention computed with PyTorch's operators one by one. Each result has the type of its operands."""
    scores = query @ (key / math.sqrt(key.shape[-1])).transpose(-2, -1)
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).tril().logical_not(), -math.inf)
    return scores.softmax(-1) @ value


@pytest.mark.parametrize("dtype, causal, lengths, head_dim", THINNED)
def test_errors_beside_those_of_pytorch(dtype, causal, lengths, head_dim):
    """The largest errors of output and gradients are at most three times those of PyTorch in the same precision."""
    queries, keys = lengths
    tensors = draw(*((2, 4, length, head_dim) for length in (queries, keys, keys)), dtype=dtype)
    doubles = [x.detach().double().requires_grad_() for x in tensors]
    grad_output = torch.randn(2, 4, queries, head_dim).to(dtype)

    def results(function, inputs):
        output = function(*inputs)
        return output, *torch.autograd.grad(output, inputs, grad_output.to(output.dtype))

    exact = results(lambda *inputs: in_steps(*inputs, causal), doubles)
    theirs = results(lambda *inputs: in_steps(*inputs, causal), tensors)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = results(
            lambda *inputs: vkattn.torch.scaled_dot_product_attention(*inputs, is_causal=causal), tensors)
    for name, our, their, right in zip(("output", "dQ", "dK", "dV"), ours, theirs, exact):
        error, beside = ((x.double() - right).abs().max().item() for x in (our, their))
        assert error <= 3 * beside + 1e-5, name


def test_the_thinned_grid_covers_types_and_dims():
    for column in (0, 1, 3):
        assert {case[column] for case in THINNED} == {case[column] for case in GRID}


def test_gradients_of_some_inputs_only():
    query, key, value = draw((1, 2, 5, 8), (1, 2, 5, 8), (1, 2, 5, 8))
    value = value.detach()
    output = vkattn.torch.scaled_dot_product_attention(query, key.detach(), value)
    gradient, = torch.autograd.grad(output.sum(), query)
    expected, = torch.autograd.grad(sdpa(query, key.detach(), value).sum(), query)
    torch.testing.assert_close(gradient, expected, atol=1e-5, rtol=1e-4)


def test_without_gradients():
    tensors = [x.detach() for x in draw((1, 2, 5, 8), (1, 2, 6, 8), (1, 2, 6, 8))]
    output = vkattn.torch.scaled_dot_product_attention(*tensors)
    assert not output.requires_grad
    torch.testing.assert_close(output, sdpa(*tensors), atol=1e-5, rtol=1e-4)


def test_differences():
    """Checks as gradcheck does, with the tolerances of float32 and along directions instead of elements."""
    tensors = draw((1, 2, 6, 8), (1, 2, 6, 8), (1, 2, 6, 8))
    weights = torch.randn(1, 2, 6, 8)

    def loss(*tensors):
        return (vkattn.torch.scaled_dot_product_attention(*tensors, is_causal=True) * weights).sum()

    gradients = torch.autograd.grad(loss(*tensors), tensors)
    for _ in range(5):
        directions = [torch.randn_like(x) for x in tensors]
        step = 1e-2
        with torch.no_grad():
            ends = [loss(*(x + sign * step * d for x, d in zip(tensors, directions))) for sign in (1, -1)]
        slope = sum((g * d).sum() for g, d in zip(gradients, directions))
        torch.testing.assert_close((ends[0] - ends[1]) / (2 * step), slope, atol=2e-2, rtol=1e-2)


def test_dropout():
    """Keeps the right share, the same elements with the same seed, and in the backward pass those of the forward pass."""
    query, key = draw((1, 2, 64, 16), (1, 2, 64, 16))
    value = torch.eye(64).expand(1, 2, 64, 64).requires_grad_()  # the output is the weights

    def weights():
        return vkattn.torch.scaled_dot_product_attention(query, key, value, dropout_p=0.25)

    torch.manual_seed(1)
    first = weights()
    assert abs((first != 0).float().mean() - 0.75) < 0.02
    other = weights()
    torch.manual_seed(1)
    assert torch.equal(weights(), first) and not torch.equal(other, first)


def test_dropout_in_training():
    """Uses differences, because PyTorch has nothing to compare with. The seed is set before each pass."""
    tensors = draw((1, 1, 6, 8), (1, 1, 6, 8), (1, 1, 6, 8))
    weights = torch.randn(1, 1, 6, 8)

    def loss(*tensors):
        torch.manual_seed(1)
        return (vkattn.torch.scaled_dot_product_attention(*tensors, dropout_p=0.3) * weights).sum()

    gradients = torch.autograd.grad(loss(*tensors), tensors)
    directions = [torch.randn_like(x) for x in tensors]
    with torch.no_grad():
        ends = [loss(*(x + sign * 1e-2 * d for x, d in zip(tensors, directions))) for sign in (1, -1)]
    slope = sum((g * d).sum() for g, d in zip(gradients, directions))
    torch.testing.assert_close((ends[0] - ends[1]) / 2e-2, slope, atol=2e-2, rtol=1e-2)


class Subclass(torch.Tensor):
    pass


@pytest.mark.parametrize("change, sentence", [
    (lambda q: (q.double(),) * 3, "not all float32"),
    (lambda q: (q.as_subclass(Subclass),) * 3, "class or layout"),
    (lambda q: (torch.cat([q] * 73, dim=-1),) * 3, "head_dim is 584"),
])
def test_falls_back_with_one_warning(change, sentence):
    query = torch.randn(1, 2, 4, 8)
    tensors = change(query)
    with pytest.warns(UserWarning, match=sentence) as told:
        for _ in range(3):
            output = vkattn.torch.scaled_dot_product_attention(*tensors)
    assert len(told) == 1
    torch.testing.assert_close(output, sdpa(*tensors))


@pytest.mark.filterwarnings("ignore:PyTorch computes this attention")
def test_calls_that_pytorch_refuses_stay_refused():
    query = torch.randn(1, 2, 4, 8)
    mask = torch.ones(4, 4, dtype=torch.int32)
    for arguments in ((query, query.double(), query), (query, query[..., :4], query), (query, query, query, mask)):
        for function in (sdpa, vkattn.torch.scaled_dot_product_attention):
            with pytest.raises(RuntimeError):
                function(*arguments)


@pytest.mark.filterwarnings("ignore:PyTorch computes this attention")
def test_transforms_and_autocast():
    query = torch.randn(3, 2, 4, 8)
    mapped = torch.func.vmap(lambda x: vkattn.torch.scaled_dot_product_attention(x, x, x))(query)
    torch.testing.assert_close(mapped, sdpa(query, query, query))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert vkattn.torch.scaled_dot_product_attention(query, query, query).dtype == torch.bfloat16


def test_replacement_ends():
    with pytest.raises(KeyError), vkattn.torch.replaces_sdpa():
        assert torch.nn.functional.scaled_dot_product_attention is not sdpa
        raise KeyError
    assert torch.nn.functional.scaled_dot_product_attention is sdpa


def losses(steps):
    """Trains a transformer of two layers, which learns to reverse sequences."""
    torch.manual_seed(3)
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    model = torch.nn.Sequential(torch.nn.Embedding(10, 32), torch.nn.TransformerEncoder(layer, 2),
                                torch.nn.Linear(32, 10))
    positions = torch.randn(6, 32)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    history = []
    for _ in range(steps):
        tokens = torch.randint(10, (16, 6))
        logits = model[2](model[1](model[0](tokens) + positions))
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flip(1).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    return torch.tensor(history)


def test_a_transformer_learns_the_same():
    expected = losses(50)
    with vkattn.torch.replaces_sdpa(), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        found = losses(50)
    assert vkattn.torch.calls() == {"device": 100, "device, gradients": 100}  # two layers, 50 steps
    assert expected[-1] < 0.05 * expected[0]
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)
