"""Runs PyTorch's own samples of its attention and of layers that attend with vkattn.torch, forward and backward."""
import contextlib
import functools
import warnings

import pytest

torch = pytest.importorskip("torch", minversion="2.5", reason="PyTorch 2.5 or later is not installed")

import vkattn.torch  # noqa: E402

NAME = "nn.functional.scaled_dot_product_attention"
TOLERANCES = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


@functools.cache
def samples_of(dtype):
    """(operator, its samples). The operator looks the function up when it is called."""
    try:
        from torch.testing._internal.common_methods_invocations import op_db
    except ImportError as e:
        pytest.skip(f"this PyTorch comes without its samples: {e}")
    operator = next(one for one in op_db if one.name == NAME)
    torch.manual_seed(5)
    return operator, list(operator.sample_inputs("cpu", dtype, requires_grad=True))


def doubled(x):
    if not isinstance(x, torch.Tensor) or not x.is_floating_point():
        return x
    return x.detach().double().requires_grad_(x.requires_grad)


def results(operator, arguments, keywords, weights):
    """The output, and the gradients of all inputs that have one, by PyTorch or its replacement."""
    output = operator(*arguments, **keywords)
    tensors = [x for x in (*arguments, *keywords.values()) if isinstance(x, torch.Tensor) and x.requires_grad]
    return output, torch.autograd.grad((output.double() * weights(output)).sum(), tensors)


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_samples(dtype):
    operator, samples = samples_of(dtype)
    tolerance = TOLERANCES[dtype]
    broadcast = fallbacks = 0
    for sample in samples:
        arguments, keywords = (sample.input, *sample.args), sample.kwargs

        def weights(output):
            return torch.linspace(-1, 1, output.numel(), dtype=torch.float64).reshape(output.shape)

        vkattn.torch.calls(clear=True)
        with vkattn.torch.replaces_sdpa(), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            output, gradients = results(operator, arguments, keywords, weights)
        fallbacks += any("not vkattn" in str(one.message) for one in told)
        exact_output, exact_gradients = results(
            operator, [doubled(x) for x in arguments], {name: doubled(x) for name, x in keywords.items()}, weights)
        assert output.dtype == dtype and output.shape == exact_output.shape
        batches = {tuple(x.shape[:-3]) for x in arguments if isinstance(x, torch.Tensor)}
        broadcast += len(batches) > 1
        if keywords.get("dropout_p", 0) > 0:  # PyTorch and vkattn drop other elements
            assert all(x.isfinite().all() for x in (output, *gradients))
            continue
        torch.testing.assert_close(output.double(), exact_output, atol=tolerance, rtol=tolerance)
        for got, right in zip(gradients, exact_gradients, strict=True):
            assert got.dtype == dtype and got.shape == right.shape
            torch.testing.assert_close(got.double(), right, atol=10 * tolerance, rtol=10 * tolerance)
    assert len(samples) >= 10 and broadcast and not fallbacks


def errors_of(operator):
    """The invalid calls that PyTorch's own tests have for it, if this version has some."""
    return list(operator.error_inputs("cpu")) if operator.error_inputs_func else []


@pytest.mark.parametrize("change", [
    dict(key=torch.randn(1, 2, 5, 7)), dict(key=torch.randn(1, 2, 5, 8).double()), dict(attn_mask=torch.ones(4, 5, dtype=torch.int64)),
    dict(query=torch.randn(4)), dict(attn_mask=torch.ones(3, 5)), dict(query=torch.randn(1, 3, 4, 8), enable_gqa=True),
])
@pytest.mark.filterwarnings("ignore")
def test_invalid_calls_fail_as_without_vkattn(change):
    """PyTorch decides about them, so that they raise what they raise without vkattn."""
    given = dict(query=torch.randn(1, 2, 4, 8), key=torch.randn(1, 2, 5, 8), value=torch.randn(1, 2, 5, 8))
    given.update(change)
    raised = []
    for context in (contextlib.nullcontext(), vkattn.torch.replaces_sdpa()):
        with context, pytest.raises(Exception) as error:
            torch.nn.functional.scaled_dot_product_attention(**given)
        raised.append((error.type, str(error.value)))
    assert raised[0] == raised[1]


def test_samples_of_errors():
    operator, _ = samples_of(torch.float32)
    errors = errors_of(operator)
    if not errors:
        pytest.skip("this PyTorch has no invalid calls for it")
    with vkattn.torch.replaces_sdpa(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for error in errors:
            sample = error.sample_input
            with pytest.raises(error.error_type, match=error.error_regex):
                operator(sample.input, *sample.args, **sample.kwargs)


def module_samples(name, training):
    """(a layer, its arguments and keywords) of each of PyTorch's samples of a class."""
    try:
        from torch.testing._internal.common_modules import module_db
    except ImportError as e:
        pytest.skip(f"this PyTorch comes without its samples: {e}")
    info = next(one for one in module_db if one.module_cls.__name__ == name)
    torch.manual_seed(5)
    for sample in info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=True, training=training):
        torch.manual_seed(6)
        layer = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs)
        yield layer.train(training), sample.forward_input.args, sample.forward_input.kwargs


def drops(layer):
    """True if two calls of the layer differ."""
    return layer.training and any(getattr(x, "dropout", 0) and not isinstance(x.dropout, torch.nn.Module) or
                                  isinstance(x, torch.nn.Dropout) and x.p for x in layer.modules())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", ["MultiheadAttention", "TransformerEncoderLayer", "TransformerDecoderLayer"])
def test_samples_of_layers(name, training):
    compared = 0
    vkattn.torch.calls(clear=True)
    for layer, arguments, keywords in module_samples(name, training):
        if drops(layer):
            continue

        def run():
            found = layer(*arguments, **keywords)
            tensors = [x for x in (found if isinstance(found, tuple) else (found,)) if x is not None]
            loss = sum((x * torch.linspace(-1, 1, x.numel()).reshape(x.shape)).sum() for x in tensors)
            return tensors, torch.autograd.grad(loss, list(layer.parameters()), allow_unused=True)

        expected = run()
        if not all(x.isfinite().all() for x in expected[0]):  # of rows that see no key
            continue
        with vkattn.torch.replaces_sdpa():
            found = run()
        compared += 1
        for got, right in zip((*found[0], *found[1]), (*expected[0], *expected[1]), strict=True):
            torch.testing.assert_close(got, right, atol=1e-4, rtol=1e-4)
    counts = vkattn.torch.calls()
    assert compared >= 8 and counts["device"] >= compared
    assert not set(counts) - {"device", "device, gradients", "there is a gradient of its weights"}
