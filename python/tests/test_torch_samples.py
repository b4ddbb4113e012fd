"""Runs PyTorch's own samples of scaled_dot_product_attention with vkattn.torch, forward and backward."""
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
