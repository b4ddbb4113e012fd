"""Further derivatives of vkattn.torch, and tools that trace it. They give PyTorch's results or an error, never a wrong result."""
import importlib.util
import io
import warnings

import pytest

from torch_tensors import draw, sdpa, seeded, torch  # noqa: F401: the fixture is used by its name

import vkattn.torch
from vkattn.torch import scaled_dot_product_attention as attend


def by_operators(*arguments, **keywords):
    """PyTorch's fused attention for the CPU has no second derivatives."""
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        return sdpa(*arguments, **keywords)


def inputs(dtype=torch.float32):
    """(query, key, value, mask): two batch entries of queries share the keys. The mask is broadcast over batch and heads."""
    return draw((2, 2, 5, 8), (1, 2, 6, 8), (1, 2, 6, 8), (5, 6), dtype=dtype)


def penalty_gradients(function, tensors, **keywords):
    """The derivatives of a gradient penalty: the loss contains the squares of the gradients of all inputs."""
    output = function(*tensors, **keywords)
    first = torch.autograd.grad(output.float().square().sum(), tensors, create_graph=True)
    loss = output.float().sum() + sum(x.float().square().sum() for x in first)
    return torch.autograd.grad(loss, tensors)


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-4), (torch.float16, 2e-2), (torch.bfloat16, 1e-1)])
def test_gradient_penalty(dtype, tolerance):
    tensors = inputs(dtype)
    with pytest.warns(UserWarning, match="PyTorch computes this attention, not vkattn: .*create_graph=True") as told:
        found = penalty_gradients(attend, tensors)
    assert len(told) == 1
    expected = penalty_gradients(by_operators, [x.detach().double().requires_grad_() for x in tensors])
    for got, right in zip(found, expected):
        assert got.dtype == dtype and got.shape == right.shape and right.abs().max() > 0.1
        torch.testing.assert_close(got.double(), right, atol=tolerance * right.abs().max().item(), rtol=0)


@pytest.mark.filterwarnings("ignore:PyTorch computes this attention")
@pytest.mark.parametrize("name", ["query", "key", "value", "mask"])
def test_gradient_penalty_of_one_input(name):
    """A linear loss. Its gradient depends on the inputs, but the gradient that autograd passes to the function does not."""
    found, expected = [], []
    for function, dtype, results in ((attend, torch.float32, found), (by_operators, torch.float64, expected)):
        torch.manual_seed(7)
        tensors = [x.detach().to(dtype).requires_grad_(n == name)
                   for x, n in zip(inputs(), ("query", "key", "value", "mask"))]
        one = next(x for x in tensors if x.requires_grad)
        weights = torch.randn(2, 2, 5, 8).to(dtype)
        first, = torch.autograd.grad((function(*tensors) * weights).sum(), one, create_graph=True)
        second = torch.autograd.grad(first.square().sum(), one, allow_unused=True)[0] if first.requires_grad else None
        results += [first.detach(), torch.zeros_like(one) if second is None else second]
    for got, right in zip(found, expected):
        torch.testing.assert_close(got.double(), right, atol=1e-4, rtol=1e-4)
    assert (expected[1].abs().max() > 1e-3) == (name != "value")  # the output is linear in value


@pytest.mark.filterwarnings("ignore:PyTorch computes this attention")
@pytest.mark.parametrize("kind", ["bool", "float", "causal"])
def test_what_is_hidden(kind):
    """Also for a whole row, and for grouped queries. vkattn computes the first derivatives."""
    tensors = draw((2, 4, 5, 8), (2, 2, 6, 8), (2, 2, 6, 8))
    keywords = {"enable_gqa": True, "is_causal": kind == "causal"}
    if kind != "causal":
        shown = torch.rand(5, 6) > 0.3
        shown[2] = False
        keywords["attn_mask"] = shown if kind == "bool" else torch.zeros(5, 6).masked_fill(~shown, -torch.inf)
    output = attend(*tensors, **keywords)
    once = torch.autograd.grad(output.sum(), tensors, retain_graph=True)
    first = torch.autograd.grad(output.sum(), tensors, create_graph=True)
    for got, right in zip(first, once):
        torch.testing.assert_close(got, right, atol=1e-5, rtol=1e-4)
    found = penalty_gradients(attend, tensors, **keywords)
    for got, right in zip(found, penalty_gradients(by_operators, tensors, **keywords)):
        assert right.isfinite().all()
        torch.testing.assert_close(got, right, atol=1e-3, rtol=1e-3)


@pytest.mark.filterwarnings("ignore:PyTorch computes this attention")
def test_inputs_made_of_one_another():
    """Each gets the derivative with respect to itself. Autograd also follows the path from one to the other."""
    def loss(function, x):
        key = 2 * x
        output = function(x, key, x, is_causal=True, scale=0.3)
        first = torch.autograd.grad(output.square().sum(), x, create_graph=True)[0]
        return first.square().sum()

    x, = draw((1, 2, 5, 8))
    double = x.detach().double().requires_grad_()
    found, = torch.autograd.grad(loss(attend, x), x)
    expected, = torch.autograd.grad(loss(by_operators, double), double)
    torch.testing.assert_close(found.double(), expected, atol=1e-3, rtol=1e-3)


@pytest.mark.filterwarnings("ignore:PyTorch computes this attention")
@pytest.mark.parametrize("vectorize", [False, True])
def test_hessian(vectorize):
    tensors = [x.detach() for x in draw((1, 2, 3, 4), (1, 1, 3, 4), (1, 1, 3, 4))]

    def loss(function):
        return lambda *given: function(*given, enable_gqa=True).pow(3).sum()

    found = torch.autograd.functional.hessian(loss(attend), tuple(tensors), vectorize=vectorize)
    expected = torch.autograd.functional.hessian(loss(by_operators), tuple(x.double() for x in tensors))
    for row, right_row in zip(found, expected):
        for got, right in zip(row, right_row):
            torch.testing.assert_close(got.double(), right, atol=2e-4, rtol=1e-3)


@pytest.mark.filterwarnings("ignore:PyTorch computes this attention")
def test_gradients_of_many_losses_at_once():
    tensors = inputs()
    many = torch.randn(3, 2, 2, 5, 8)
    found = torch.autograd.grad(attend(*tensors), tensors, many, is_grads_batched=True)
    doubles = [x.detach().double().requires_grad_() for x in tensors]
    for i, one in enumerate(many):
        for got, right in zip(found, torch.autograd.grad(by_operators(*doubles), doubles, one.double())):
            torch.testing.assert_close(got[i].double(), right, atol=1e-4, rtol=1e-4)


@pytest.mark.filterwarnings("ignore:PyTorch computes this attention")
def test_jvp_by_reverse_mode():
    tensors = tuple(x.detach() for x in inputs())
    directions = tuple(torch.randn_like(x) for x in tensors)
    _, found = torch.autograd.functional.jvp(attend, tensors, directions)
    _, expected = torch.autograd.functional.jvp(
        by_operators, tuple(x.double() for x in tensors), tuple(x.double() for x in directions))
    torch.testing.assert_close(found.double(), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("changed", [0, 1, 2, 3])
@pytest.mark.parametrize("needs_gradients", [False, True])
def test_forward_mode(changed, needs_gradients):
    tensors = [x.detach().requires_grad_(needs_gradients) for x in inputs()]
    direction = torch.randn_like(tensors[changed])

    def tangent(function, tensors, direction):
        with torch.autograd.forward_ad.dual_level():
            duals = [torch.autograd.forward_ad.make_dual(x, direction) if i == changed else x
                     for i, x in enumerate(tensors)]
            return torch.autograd.forward_ad.unpack_dual(function(*duals)).tangent

    with pytest.warns(UserWarning, match="not vkattn: it is differentiated in forward mode"):
        found = tangent(attend, tensors, direction)
    expected = tangent(by_operators, [x.detach().double() for x in tensors], direction.double())
    torch.testing.assert_close(found.double(), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.filterwarnings("ignore:PyTorch computes this attention")
def test_forward_mode_over_reverse_mode():
    """The gradients are linear in the gradient of the output, so the tangent is too."""
    tensors = inputs()
    output = attend(*tensors)
    direction = torch.randn_like(output)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(torch.ones_like(output), direction)
        found = [torch.autograd.forward_ad.unpack_dual(x).tangent for x in torch.autograd.grad(output, tensors, dual)]
    doubles = [x.detach().double().requires_grad_() for x in tensors]
    for got, right in zip(found, torch.autograd.grad(by_operators(*doubles), doubles, direction.double())):
        torch.testing.assert_close(got.double(), right, atol=1e-4, rtol=1e-4)


@pytest.mark.filterwarnings("ignore:PyTorch computes this attention")
def test_second_derivatives_with_dropout_are_refused():
    tensors = inputs()
    output = attend(*tensors, dropout_p=0.25)
    with pytest.raises(RuntimeError, match=r"create_graph.*, and PyTorch cannot.*dropout_p=0.25 dropped; set dropout_p=0"):
        torch.autograd.grad(output.sum(), tensors, create_graph=True)


@pytest.mark.filterwarnings("ignore:PyTorch computes this attention")
def test_torch_func():
    """Gives PyTorch's results or PyTorch's errors. On the CPU its fused attention lacks some derivatives."""
    query, key, value, mask = (x.detach() for x in inputs())

    def loss(function):
        return lambda x: function(x, key, value, mask).pow(3).sum()

    torch.testing.assert_close(torch.func.grad(loss(attend))(query), torch.func.grad(loss(sdpa))(query))
    for transform in (lambda f: torch.func.jvp(f, (query,), (query,))[1], lambda f: torch.func.hessian(f)(query)):
        try:
            expected = transform(loss(sdpa))
        except (NotImplementedError, RuntimeError) as e:
            with pytest.raises(type(e)):
                transform(loss(attend))
        else:
            torch.testing.assert_close(transform(loss(attend)), expected)


def other_inputs():
    return [x.detach() for x in draw((1, 2, 5, 8), (1, 2, 6, 8), (1, 2, 6, 8))]


class Model(torch.nn.Module):
    def forward(self, query, key, value):
        return torch.nn.functional.scaled_dot_product_attention(query, key, value) + 1


def test_traces_follow_their_inputs():
    first, second = other_inputs(), other_inputs()
    with vkattn.torch.replaces_sdpa():
        traced = torch.jit.trace(Model(), first)
    assert "vkattn::attention" in str(traced.graph)
    torch.testing.assert_close(traced(*second), sdpa(*second) + 1)


@pytest.mark.filterwarnings("ignore:PyTorch computes this attention")
@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_graphs_of_operators_follow_their_inputs(mode):
    from torch.fx.experimental.proxy_tensor import make_fx

    first, second = other_inputs(), other_inputs()
    graph = make_fx(lambda query, key, value: attend(query, key, value), tracing_mode=mode)(*first)
    torch.testing.assert_close(graph(*second), sdpa(*second))


@pytest.mark.filterwarnings("ignore:PyTorch computes this attention")
def test_symbolic_traces_and_exports_follow_their_inputs():
    first, second = other_inputs(), other_inputs()
    with vkattn.torch.replaces_sdpa():
        torch.testing.assert_close(torch.fx.symbolic_trace(Model())(*second), sdpa(*second) + 1)
        for strict in (False, True):
            exported = torch.export.export(Model(), tuple(first), strict=strict).module()
            torch.testing.assert_close(exported(*second), sdpa(*second) + 1)


@pytest.mark.filterwarnings("ignore")
def test_onnx_has_the_operators(monkeypatch):
    if importlib.util.find_spec("onnx") is None:
        # Only this last step needs the package onnxscript, for its functions. Here there are none.
        monkeypatch.setattr("torch.onnx._internal.onnx_proto_utils._add_onnxscript_fn", lambda model, functions: model)
    file = io.BytesIO()
    with vkattn.torch.replaces_sdpa():
        torch.onnx.export(Model(), tuple(other_inputs()), file, opset_version=17, dynamo=False)
    for operator in (b"MatMul", b"Softmax"):
        assert operator in file.getvalue()


def test_once_is_vkattn():
    """vkattn computes first derivatives itself, also of an output that is differentiated twice, one after the other."""
    tensors = inputs()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        output = attend(*tensors)
        first = torch.autograd.grad(output.sum(), tensors, retain_graph=True)
        again = torch.autograd.grad(output.sum(), tensors)
    for one, other in zip(first, again):
        assert torch.equal(one, other) and not one.requires_grad
