"""vkattn in PyTorch's place: contexts, threads, layers, counts."""
import contextlib
import subprocess
import sys
import threading
import warnings

import pytest

torch = pytest.importorskip("torch", minversion="2.5", reason="PyTorch 2.5 or later is not installed")

import torch.utils.checkpoint  # noqa: E402
import vkattn.torch  # noqa: E402

functional = torch.nn.functional
PYTORCHS = {name: getattr(functional, name) for name in ("scaled_dot_product_attention", "multi_head_attention_forward")}


@pytest.fixture(autouse=True)
def restored():
    torch.manual_seed(5)
    vkattn.torch.calls(clear=True)
    yield
    vkattn.torch.uninstall()
    assert is_pytorchs()


def is_pytorchs():
    places = [getattr(functional, name) is function for name, function in PYTORCHS.items()]
    places.append(torch.backends.mha.get_fastpath_enabled())
    assert all(places) or not any(places)
    return all(places)


def test_importing_does_not_load_the_compiler():
    """torch._dynamo, which takes a second; once it is loaded it knows the functions."""
    program = (
        "import importlib.util, sys, torch\nassert 'torch._dynamo' not in sys.modules\nimport vkattn.torch\n"
        "assert importlib.util.find_spec('torch._dynamo')\n"
        "vkattn.torch.install()\nx = torch.randn(1, 2, 4, 8, requires_grad=True)\n"
        "expected = torch.nn.functional.scaled_dot_product_attention(x, x, x)\nexpected.sum().backward()\n"
        "assert 'torch._dynamo' not in sys.modules, 'loaded'\n"
        "both = [torch.nn.functional.scaled_dot_product_attention, vkattn.torch.attention]\n"
        "for f in both:\n"
        "    compiled = torch.compile(lambda x: f(x, x, x), fullgraph=True, backend='aot_eager')\n"
        "    torch.testing.assert_close(compiled(x), expected)\n"
        "assert vkattn.torch.calls() == {'device': 3, 'device, gradients': 1}, vkattn.torch.calls()\n")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_install_and_uninstall():
    vkattn.torch.uninstall()
    assert is_pytorchs()
    vkattn.torch.install()
    vkattn.torch.install()
    query = torch.randn(1, 2, 4, 8)
    output = functional.scaled_dot_product_attention(query, query, query)
    torch.testing.assert_close(output, PYTORCHS["scaled_dot_product_attention"](query, query, query))
    with vkattn.torch.replaces_sdpa():
        vkattn.torch.uninstall()
        assert not is_pytorchs()
    assert is_pytorchs()
    assert vkattn.torch.calls() == {"device": 1}


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0)])
def test_contexts_end_in_any_order(order):
    contexts = [vkattn.torch.replaces_sdpa() for _ in order]
    for context in contexts:
        context.__enter__()
    for place in order:
        assert not is_pytorchs()
        contexts[place].__exit__(None, None, None)
    assert is_pytorchs()


def test_a_mask_of_fewer_heads_is_left_to_pytorch():
    """PyTorch refuses it, and goes on doing so."""
    query, mask = torch.randn(1, 4, 5, 16), torch.randn(2, 5, 5)
    for install in (False, True):
        with vkattn.torch.replaces_sdpa() if install else contextlib.nullcontext():
            with pytest.raises(RuntimeError, match="must match the size"):
                torch.nn.functional.scaled_dot_product_attention(query, query, query, mask)


def test_contexts_of_threads():
    """The places are vkattn's from the first context of any thread until the last one ends."""
    began, ends = threading.Barrier(5), [threading.Event() for _ in range(4)]
    states = []

    def hold(end):
        with vkattn.torch.replaces_sdpa():
            began.wait()
            end.wait()

    threads = [threading.Thread(target=hold, args=(end,)) for end in ends]
    for thread in threads:
        thread.start()
    began.wait()
    for thread, end in zip(threads, ends):
        states.append(is_pytorchs())
        end.set()
        thread.join()
    assert states == [False] * 4 and is_pytorchs()


def test_threads_begin_and_end_at_once():
    query = torch.randn(1, 2, 4, 8)
    failures = []

    def run():
        try:
            for _ in range(30):
                with vkattn.torch.replaces_sdpa():
                    functional.scaled_dot_product_attention(query, query, query)
        except Exception as e:
            failures.append(e)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and is_pytorchs()
    assert vkattn.torch.calls() == {"device": 120}


def test_what_others_put_there_stays(monkeypatch):
    """Somebody wraps the function while vkattn is installed. Afterwards the wrapper calls PyTorch's."""
    query = torch.randn(1, 2, 4, 8)
    with vkattn.torch.replaces_sdpa():
        inner = functional.scaled_dot_product_attention
        functional.scaled_dot_product_attention = wrapper = lambda *arguments: inner(*arguments)
    try:
        assert functional.scaled_dot_product_attention is wrapper
        wrapper(query, query, query)
        assert vkattn.torch.calls() == {}
        with vkattn.torch.replaces_sdpa():
            functional.scaled_dot_product_attention(query, query, query)
        assert functional.scaled_dot_product_attention is wrapper
        assert vkattn.torch.calls() == {"device": 1}
    finally:
        functional.scaled_dot_product_attention = PYTORCHS["scaled_dot_product_attention"]


def test_calls_and_verbose(capsys):
    query = torch.randn(1, 2, 4, 8, requires_grad=True)
    vkattn.torch.verbose()
    try:
        vkattn.torch.attention(query, query, query).sum().backward()
        with pytest.warns(UserWarning):
            vkattn.torch.scaled_dot_product_attention(query.double(), query.double(), query.double())
    finally:
        vkattn.torch.verbose(False)
    lines = capsys.readouterr().err.splitlines()
    shapes = "(1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8)"
    reason = "query, key and value are not all float32, float16 or bfloat16"
    assert lines == [f"vkattn: device: {shapes} float32", f"vkattn: device, gradients: {shapes} float32",
                     f"vkattn: PyTorch: {reason}: {shapes} float64"]
    vkattn.torch.attention(query, query, query)
    assert capsys.readouterr().err == ""
    assert vkattn.torch.calls(clear=True) == {"device": 2, "device, gradients": 1, reason: 1}
    assert vkattn.torch.calls() == {}


def layer_and_inputs(batched, **keywords):
    layer = torch.nn.MultiheadAttention(32, 4, batch_first=True, **keywords)
    return layer, torch.randn(*((2,) if batched else ()), 5, 32).requires_grad_()


@pytest.mark.parametrize("mask", [None, "shared", "of heads", "causal", "padding"])
@pytest.mark.parametrize("averaged", [True, False])
@pytest.mark.parametrize("batched", [True, False])
def test_a_layer_that_returns_weights(batched, averaged, mask):
    """The default of torch.nn.MultiheadAttention."""
    layer, x = layer_and_inputs(batched)
    masks = {
        None: {}, "shared": dict(attn_mask=torch.randn(5, 5)),
        "of heads": dict(attn_mask=torch.randn(8 if batched else 4, 5, 5)),
        "causal": dict(attn_mask=torch.ones(5, 5, dtype=torch.bool).triu(1), is_causal=True),
        "padding": dict(key_padding_mask=torch.tensor([[False] * 4 + [True]] * 2) if batched else
                        torch.tensor([False] * 4 + [True])),
    }
    keywords = {"average_attn_weights": averaged, **masks[mask]}
    expected = layer(x, x, x, **keywords)
    with vkattn.torch.replaces_sdpa(), warnings.catch_warnings():
        warnings.simplefilter("error")
        found = layer(x, x, x, **keywords)
    for got, right in zip(found, expected):
        torch.testing.assert_close(got, right, atol=1e-5, rtol=1e-4)
    assert vkattn.torch.calls() == {"device": 1}


def test_a_hint_without_a_mask_is_refused():
    layer, x = layer_and_inputs(True)
    for context in (contextlib.nullcontext(), vkattn.torch.replaces_sdpa()):
        with context, pytest.raises(RuntimeError, match="Need attn_mask"):
            layer(x, x, x, is_causal=True)


def test_a_layers_gradients_of_output_and_weights():
    layer, x = layer_and_inputs(True)
    parameters = [x, *layer.parameters()]

    def gradients(of_weights):
        output, weights = layer(x, x, x)
        loss = output.square().sum() + (weights.square().sum() if of_weights else 0)
        return torch.autograd.grad(loss, parameters)

    for of_weights in (False, True):
        expected = gradients(of_weights)
        with vkattn.torch.replaces_sdpa(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = gradients(of_weights)
        for got, right in zip(found, expected):
            torch.testing.assert_close(got, right, atol=1e-4, rtol=1e-4)
    assert vkattn.torch.calls() == {"device": 2, "device, gradients": 1, "there is a gradient of its weights": 1}


def test_a_layer_with_weights_and_dropout_is_left_to_pytorch():
    layer, x = layer_and_inputs(True, dropout=0.5)
    with vkattn.torch.replaces_sdpa(), pytest.warns(UserWarning, match=r"need_weights=True\) with dropout"):
        torch.manual_seed(1)
        found = layer(x, x, x)
    torch.manual_seed(1)
    for got, right in zip(found, layer(x, x, x)):
        assert torch.equal(got, right)
    with vkattn.torch.replaces_sdpa():
        layer(x, x, x, need_weights=False)
        layer.eval()(x, x, x)
    assert vkattn.torch.calls()["device"] == 2


def test_encoders_without_gradients():
    """As in a vision transformer: PyTorch's fast path calls no function that could be replaced."""
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=False)
    encoder = torch.nn.TransformerEncoder(layer, 3).eval()
    x, hidden = torch.randn(2, 5, 32), torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.no_grad():
        for keywords in ({}, {"src_key_padding_mask": hidden}):
            expected = encoder(x, **keywords)
            with vkattn.torch.replaces_sdpa():
                found = encoder(x, **keywords)
            shown = ~hidden if keywords else torch.ones(2, 5, dtype=torch.bool)
            torch.testing.assert_close(found[shown], expected[shown], atol=1e-4, rtol=1e-4)
    assert vkattn.torch.calls() == {"device": 6}


def test_checkpoints_attend_again():
    query = torch.randn(1, 2, 4, 8, requires_grad=True)
    with vkattn.torch.replaces_sdpa():
        output = torch.utils.checkpoint.checkpoint(
            lambda x: functional.scaled_dot_product_attention(x, x, x), query, use_reentrant=False)
        output.sum().backward()
    assert vkattn.torch.calls() == {"device": 2, "device, gradients": 1}


class Scripted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, x):
        return self.layer(x, x, x)[0] + torch.nn.functional.scaled_dot_product_attention(x, x, x)


def test_scripts_compile_while_installed():
    """They keep PyTorch's operator."""
    x, model = torch.randn(1, 4, 16), Scripted()
    with vkattn.torch.replaces_sdpa():
        scripted = torch.jit.script(model)
    torch.testing.assert_close(scripted(x), model(x), atol=1e-5, rtol=1e-4)
    assert "scaled_dot_product_attention" in str(scripted.graph)
