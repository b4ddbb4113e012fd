"""Layers as in published models, built from torch.nn: outputs and gradients beside PyTorch's attention."""
import warnings

import pytest

torch = pytest.importorskip("torch", minversion="2.5", reason="PyTorch 2.5 or later is not installed")

import vkattn.torch  # noqa: E402

functional = torch.nn.functional


class Attention(torch.nn.Module):
    """Projections around scaled_dot_product_attention; `change` may change query, key, value and the keywords."""

    def __init__(self, width, heads, kv_heads=None, memory_width=None, change=None):
        super().__init__()
        self.heads, self.kv_heads, self.dim = heads, kv_heads or heads, width // heads
        self.query = torch.nn.Linear(width, width)
        self.key, self.value = (torch.nn.Linear(memory_width or width, self.kv_heads * self.dim) for _ in range(2))
        self.output = torch.nn.Linear(width, width)
        self.change = change

    def forward(self, x, memory=None, **keywords):
        memory = x if memory is None else memory
        q, k, v = (layer(rows).unflatten(-1, (-1, self.dim)).transpose(1, 2)
                   for layer, rows in ((self.query, x), (self.key, memory), (self.value, memory)))
        if self.change:
            q, k = self.change(q), self.change(k)
        attended = functional.scaled_dot_product_attention(q, k, v, enable_gqa=self.heads != self.kv_heads, **keywords)
        return x + self.output(attended.transpose(1, 2).flatten(2))


def rotated(x):
    """Rotary embedding by halves, as in Llama."""
    half = x.shape[-1] // 2
    angles = torch.arange(x.shape[-2])[:, None] * 10000.0 ** (-torch.arange(half) / half)
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin()], -1)


class T5(torch.nn.Module):
    """A bias by distance that is learnt, and scores that are not scaled."""

    def __init__(self):
        super().__init__()
        self.attention, self.bias = Attention(32, 4), torch.nn.Embedding(32, 4)

    def forward(self, x):
        places = torch.arange(x.shape[1])
        bias = self.bias((places[:, None] - places).clamp(-16, 15) + 16).permute(2, 0, 1)[None]
        return self.attention(x, attn_mask=bias, scale=1.0)


class Swin(torch.nn.Module):
    """Windows of a picture as batch entries, with a mask for each window, in five dimensions."""

    def __init__(self):
        super().__init__()
        self.packed = torch.nn.Linear(32, 96)

    def forward(self, x):
        windows = x.unflatten(1, (3, -1))  # (batch, windows, rows, width)
        q, k, v = self.packed(windows).unflatten(-1, (3, 4, 8)).movedim(-3, 0).transpose(-2, -3)
        mask = torch.zeros(3, 1, 6, 6).masked_fill(torch.arange(6) > 3, -100.0)
        return functional.scaled_dot_product_attention(q, k, v, mask).transpose(-2, -3).flatten(-2)


def padding(x):
    return (torch.arange(x.shape[1]) < torch.tensor([x.shape[1], x.shape[1] - 5])[:, None])[:, None, None]


def encoder(**keywords):
    return torch.nn.TransformerEncoder(
        torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, **keywords), 2, enable_nested_tensor=False)


MODELS = {
    "GPT-2": lambda: (Attention(32, 4), dict(is_causal=True)),
    "Llama": lambda: (Attention(32, 4, kv_heads=2, change=rotated), dict(is_causal=True)),
    "BERT": lambda: (Attention(32, 4), dict(attn_mask=padding)),
    "T5": lambda: (T5(), {}),
    "Whisper's decoder": lambda: (torch.nn.TransformerDecoderLayer(32, 4, 64, dropout=0.0, batch_first=True),
                                  dict(memory=torch.randn(2, 25, 32))),
    "ViT": lambda: (encoder(norm_first=True), {}),
    "Swin": lambda: (Swin(), {}),
    "Stable Diffusion's text": lambda: (Attention(32, 4, memory_width=48), dict(memory=torch.randn(2, 77, 48))),
}


@pytest.mark.parametrize("name", MODELS)
def test_beside_pytorch(name):
    torch.manual_seed(5)
    vkattn.torch.calls(clear=True)
    model, keywords = MODELS[name]()
    x = torch.randn(2, 18, 32).requires_grad_()
    keywords = {key: value(x) if callable(value) else value for key, value in keywords.items()}
    tensors = [x, *model.parameters()]

    def run():
        output = model(x, **keywords)
        return output, torch.autograd.grad(output.square().sum(), tensors)

    expected, gradients = run()
    with vkattn.torch.replaces_sdpa(), warnings.catch_warnings():
        warnings.simplefilter("error")
        found, found_gradients = run()
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    for got, right in zip(found_gradients, gradients):
        torch.testing.assert_close(got, right, atol=1e-3, rtol=1e-3)
    calls = vkattn.torch.calls()
    assert set(calls) == {"device", "device, gradients"} and calls["device"] == calls["device, gradients"]


def test_gemma_2():
    """Softcap, a window and grouped queries, which PyTorch's function does not have."""
    torch.manual_seed(5)
    query, key, value = (torch.randn(2, h, 12, 16).requires_grad_() for h in (4, 2, 2))
    found = vkattn.torch.attention(query, key, value, is_causal=True, window=(4, 0), softcap=5.0, enable_gqa=True)
    scores = 5 * torch.tanh(query @ key.repeat_interleave(2, 1).transpose(-1, -2) / 4 / 5)
    i, j = torch.arange(12)[:, None], torch.arange(12)
    expected = scores.masked_fill((j > i) | (j < i - 4), -torch.inf).softmax(-1) @ value.repeat_interleave(2, 1)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    for got, right in zip(*(torch.autograd.grad(x.square().sum(), (query, key, value)) for x in (found, expected))):
        torch.testing.assert_close(got, right, atol=1e-4, rtol=1e-4)
