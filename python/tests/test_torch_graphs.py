"""torch.compile, torch.export and torch.jit.trace keep vkattn's operator in their graphs."""
import warnings

import pytest

from torch_tensors import draw, sdpa, seeded, torch  # noqa: F401: the fixture is used by its name

import vkattn.torch
from vkattn.torch import _operators


@pytest.fixture(autouse=True)
def without_graphs():
    torch._dynamo.reset()


def attend(query, key, value, sinks):
    return vkattn.torch.attention(query + 1, key, value, is_causal=True, window=(3, 0), sinks=sinks, softcap=5.0) * 2


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_compiled(dynamic, layout):
    """One whole graph, forward and backward, with another length too."""
    compiled = torch.compile(attend, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for length in (5, 6):
        tensors = draw((1, 2, length, 8), (1, 2, length, 8), (1, 2, length, 8), (2,))
        if layout == "bshd":
            tensors[0] = torch.randn(1, length, 2, 8).transpose(1, 2).requires_grad_()
        output, expected = compiled(*tensors), attend(*tensors)
        torch.testing.assert_close(output, expected)
        assert output.stride() == expected.stride()
        weights = torch.randn(output.shape)
        found = torch.autograd.grad((output * weights).sum(), tensors)
        for got, right in zip(found, torch.autograd.grad((expected * weights).sum(), tensors)):
            torch.testing.assert_close(got, right)
    assert vkattn.torch.calls() == {"device": 4, "device, gradients": 4}


def test_compiled_while_installed():
    """Models that call PyTorch's function: the graph has vkattn's operator, and a new seed in each run."""
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph

    def model(query):
        return torch.nn.functional.scaled_dot_product_attention(query, query, query, dropout_p=0.5).sin()

    query = torch.randn(1, 2, 32, 8)
    with vkattn.torch.replaces_sdpa():
        compiled = torch.compile(model, fullgraph=True, backend=backend)
        first, second = compiled(query), compiled(query)
    assert len(graphs) == 1 and not torch.equal(first, second)
    assert vkattn.torch.calls()["device"] == 2


def test_a_compiled_layer_while_installed():
    """Its default is to return weights, which are not used here."""
    layer, x = torch.nn.MultiheadAttention(32, 4, batch_first=True), torch.randn(2, 5, 32).requires_grad_()
    expected, = torch.autograd.grad(layer(x, x, x)[0].square().sum(), x)
    with vkattn.torch.replaces_sdpa():
        compiled = torch.compile(lambda x: layer(x, x, x)[0], fullgraph=True, backend="aot_eager")
        found, = torch.autograd.grad(compiled(x).square().sum(), x)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    assert vkattn.torch.calls() == {"device": 1, "device, gradients": 1}


def test_compiled_packed_sequences():
    query, key = draw((7, 2, 8), (9, 2, 8))
    queries, keys = torch.tensor([0, 4, 7]), torch.tensor([0, 3, 9])

    def packed(*tensors):
        return vkattn.torch.varlen_attention(*tensors, 4, 6, is_causal=True, align="bottom-right", return_lse=True)

    tensors = query, key, key, queries, keys
    for got, right in zip(torch.compile(packed, fullgraph=True, backend="aot_eager")(*tensors), packed(*tensors)):
        torch.testing.assert_close(got, right)
        assert got.stride() == right.stride()


@pytest.mark.parametrize("change, sentence", [
    (lambda x: x.double(), "query, key and value are not all"), (lambda x: torch.cat([x] * 73, dim=-1), "head_dim is 584"),
])
def test_a_compiled_fallback_tells(change, sentence):
    """What vkattn would refuse when the graph runs is PyTorch's operator in the graph."""
    query = change(torch.randn(1, 2, 4, 8))
    compiled = torch.compile(lambda x: vkattn.torch.scaled_dot_product_attention(x, x, x), fullgraph=True,
                             backend="aot_eager")
    with pytest.warns(UserWarning, match=f"not vkattn: {sentence}"):
        torch.testing.assert_close(compiled(query), sdpa(query, query, query))


def test_a_broken_rule_is_told_when_a_graph_is_made():
    """Also of lengths that are symbols, whose numbers are the example's."""
    query, mask = torch.randn(1, 2, 4, 8), torch.zeros(5, 4)
    compiled = torch.compile(lambda x, mask: vkattn.torch.attention(x, x, x, mask), fullgraph=True, dynamic=True,
                             backend="aot_eager")
    torch.testing.assert_close(compiled(query, mask[:4]), sdpa(query, query, query))
    torch._dynamo.reset()
    with pytest.raises(Exception, match="does not broadcast to the scores"):
        compiled(query, mask)
    assert vkattn.torch.calls() == {"device": 1}, "no graph was run"


def test_a_flag_that_is_a_symbol():
    def attend_where_long(x):
        return vkattn.torch.attention(x, x, x, is_causal=x.shape[-2] > 3)

    compiled = torch.compile(attend_where_long, fullgraph=True, dynamic=True, backend="aot_eager")
    for length in (2, 5, 6):
        x = torch.randn(1, 2, length, 8)
        torch.testing.assert_close(compiled(x), sdpa(x, x, x, is_causal=length > 3))


def test_exported():
    class Model(torch.nn.Module):
        def forward(self, query, key, value, sinks):
            return attend(query, key, value, sinks)

    first, second = ([x.detach() for x in draw((1, 2, 5, 8), (1, 2, 6, 8), (1, 2, 6, 8), (2,))] for _ in range(2))
    for strict in (False, True):
        exported = torch.export.export(Model(), tuple(first), strict=strict)
        assert "torch.ops.vkattn.attention" in str(exported.graph_module.code)
        torch.testing.assert_close(exported.module()(*second), attend(*second))


def test_traced():
    """Traced without gradients, and used with them."""
    first = [x.detach() for x in draw((1, 2, 5, 8), (1, 2, 6, 8), (1, 2, 6, 8), (2,))]
    traced = torch.jit.trace(attend, first)
    assert "vkattn::attention" in str(traced.graph)
    second = draw((1, 2, 5, 8), (1, 2, 6, 8), (1, 2, 6, 8), (2,))
    found, expected = (torch.autograd.grad(f(*second).square().sum(), second) for f in (traced, attend))
    for got, right in zip(found, expected):
        torch.testing.assert_close(got, right)


@pytest.mark.parametrize("kind", ["plain", "packed", "weights", "broadcast"])
def test_the_operator(kind):
    """PyTorch's own checks: the schema, the shapes for tracing, and that gradients are registered."""
    query, key, value = draw((2, 3, 5, 8), (2, 3, 6, 8), (2, 3, 6, 4))
    tensors, options = {"query": query, "key": key, "value": value}, '{"is_causal": true}'
    if kind == "packed":
        query, key, value = draw((2, 5, 8), (2, 6, 8), (2, 6, 4))
        cumulative = torch.tensor([0, 2, 5])
        tensors = {"query": query.transpose(0, 1).contiguous().transpose(0, 1), "key": key, "value": value,
                   "cumulative_query_lengths": cumulative, "cumulative_kv_lengths": cumulative + torch.tensor([0, 0, 1])}
    if kind == "weights":
        options = '{"return_weights": "masked"}'
    if kind == "broadcast":
        tensors["key"] = key[:1].detach().requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = torch.library.opcheck(
            torch.ops.vkattn.attention.default, (*(tensors.get(name) for name in _operators.TENSORS), options),
            test_utils=("test_schema", "test_faketensor", "test_autograd_registration", "test_aot_dispatch_static"))
    assert set(results.values()) == {"SUCCESS"}
