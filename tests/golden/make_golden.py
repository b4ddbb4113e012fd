#!/usr/bin/python3
"""Computes attention with PyTorch, in float64, for the test gpu.golden: cases.json and tensors.bin beside this script.

    apt-get install python3-torch        Debian 13 has PyTorch 2.6
    tests/golden/make_golden.py [FOLDER]

The inputs are rounded to the type that they are stored in before anything is computed from them. Results are those of
torch.nn.functional.scaled_dot_product_attention with the backend MATH. It has no softcap and no sinks, and returns neither
log-sum-exp nor weights. This script computes those step by step. It also computes the output of every case in that way, to check
the steps.
tests/conformance/case_file.hpp describes the files, attention_operator.hpp the names in them.
"""
import json
import math
import pathlib
import struct
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
NAMES = {
    torch.float32: "float32",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float64: "float64",
    torch.bool: "bool",
    torch.int64: "int64",
}
INFINITY = float("inf")


def to_float32(number):
    """The number as the library's descriptor stores it."""
    return struct.unpack("<f", struct.pack("<f", number))[0]


class Problem:
    """One case: its sizes and options from its line in problems()."""

    def __init__(self, name, sizes, seed, **options):
        self.name = name
        self.batch, self.query_heads, self.kv_heads, self.queries, self.keys, self.dim, self.value_dim = sizes
        self.options = options
        self.random = torch.Generator().manual_seed(seed)
        self.inputs, self.attributes = {}, {}
        self.draw()

    def normal(self, *shape):
        return torch.randn(*shape, generator=self.random, dtype=torch.float64)

    def option(self, name, otherwise=None):
        return self.options.get(name, otherwise)

    def draw(self):
        types = self.option("types", "f32 f32 f32").split()
        types = [TYPES[name] for name in (types if len(types) == 3 else types * 3)]
        magnitude = self.option("magnitude", 1.0)
        past = self.option("past", 0)
        shapes = (
            (self.batch, self.query_heads, self.queries, self.dim),
            (self.batch, self.kv_heads, self.keys, self.dim),
            (self.batch, self.kv_heads, self.keys, self.value_dim),
        )
        query, key, value = ((self.normal(*shape) * magnitude).to(t) for shape, t in zip(shapes, types))
        self.query, self.key, self.value = query.double(), key.double(), value.double()
        if past:
            self.inputs |= {"past_key": key[:, :, :past], "past_value": value[:, :, :past]}
            key, value = key[:, :, past:], value[:, :, past:]
        if self.option("rank", 4) == 3:  # a row has all heads side by side
            query, key, value = (tensor.transpose(1, 2).flatten(2) for tensor in (query, key, value))
            self.attributes |= {"q_num_heads": self.query_heads, "kv_num_heads": self.kv_heads}
        self.inputs = {"Q": query, "K": key, "V": value} | self.inputs
        self.draw_mask()
        self.draw_heads()

    def draw_mask(self):
        """The option mask: bool or a float type, and the sizes of its dimensions. Some keys are hidden."""
        self.mask = None
        if self.option("mask") is None:
            return
        kind, *shape = self.option("mask").split()
        shape = [int(size) for size in shape]
        seen = torch.rand(*shape, generator=self.random) < self.option("seen", 0.7)
        if self.option("empty_row") is not None:
            seen[..., self.option("empty_row"), :] = False
        mask = seen if kind == "bool" else self.normal(*shape).masked_fill(~seen, -INFINITY).to(TYPES[kind])
        self.inputs["attn_mask"] = mask
        self.mask = torch.zeros(mask.shape, dtype=torch.float64).masked_fill(~seen, -INFINITY)
        if kind != "bool":
            self.mask = mask.double()
        if 1 < shape[-1] < self.keys:  # keys beyond the end of a short mask are hidden
            self.mask = torch.nn.functional.pad(self.mask, (0, self.keys - shape[-1]), value=-INFINITY)

    def draw_heads(self):
        self.slopes = None
        if self.option("alibi") == "standard":
            self.attributes["standard_alibi"] = 1
            self.slopes = torch.tensor([self.standard_slope(h) for h in range(self.query_heads)])
        if self.option("alibi") == "given":
            self.slopes = torch.rand(self.query_heads, generator=self.random)
            self.inputs["alibi_slopes"] = self.slopes
        self.sinks = None
        if self.option("sinks"):
            self.sinks = self.normal(self.query_heads).float()
            self.inputs["sinks"] = self.sinks
        if self.option("lengths") is not None:
            self.inputs["nonpad_kv_seqlen"] = torch.tensor(self.option("lengths"), dtype=torch.int64)

    def standard_slope(self, head):
        """Slopes of Press, Smith and Lewis: geometric over the heads. Slopes of heads beyond a power of two lie between others."""
        power = 2 ** int(math.log2(self.query_heads))
        if head < power:
            return 2.0 ** (-8.0 * (head + 1) / power)
        return 2.0 ** (-8.0 * (2 * (head - power) + 1) / (2 * power))

    def offsets(self):
        """For each batch entry, the key at the position of query 0."""
        lengths = self.option("lengths")
        if lengths is not None:
            return torch.tensor(lengths) - self.queries
        return torch.full((self.batch,), self.keys - self.queries if self.option("bottom_right") else self.option("past", 0))

    def bias(self):
        """Everything that is added to the scores: (batch, query_heads, queries, keys). It is -inf for a hidden key."""
        bias = torch.zeros(self.batch, self.query_heads, self.queries, self.keys, dtype=torch.float64)
        if self.mask is not None:
            bias = bias + self.mask
        rows = (torch.arange(self.queries).view(1, 1, -1, 1) + self.offsets().view(-1, 1, 1, 1)).expand(bias.shape)
        keys = torch.arange(self.keys).expand(bias.shape)
        if self.slopes is not None:
            bias = bias - self.slopes.double().view(1, -1, 1, 1) * (rows - keys).abs()
        hidden = torch.zeros(bias.shape, dtype=torch.bool)
        if self.option("causal"):
            hidden |= keys > rows
        if self.option("left") is not None:
            hidden |= keys < rows - self.option("left")
        if self.option("right") is not None:
            hidden |= keys > rows + self.option("right")
        if self.option("lengths") is not None:
            hidden |= keys >= torch.tensor(self.option("lengths")).view(-1, 1, 1, 1)
        return bias.masked_fill(hidden, -INFINITY)

    def set_attributes(self):
        named = {"causal": "is_causal", "bottom_right": "bottom_right", "left": "window_left", "right": "window_right"}
        for option, attribute in named.items():
            if self.option(option) is not None:
                self.attributes[attribute] = int(self.option(option))
        for option in ("scale", "softcap"):
            if self.option(option) is not None:
                self.attributes[option] = to_float32(self.option(option))
        if self.option("weights") is not None:
            self.attributes["qk_matmul_output_mode"] = self.option("weights")

    def steps(self):
        """Computes every result that the library can give, step by step."""
        repeats = self.query_heads // self.kv_heads
        key, value = (tensor.repeat_interleave(repeats, 1) for tensor in (self.key, self.value))
        scores = self.scale() * (self.query @ key.transpose(2, 3))
        softcap = self.attributes.get("softcap", 0.0)
        capped = softcap * torch.tanh(scores / softcap) if softcap else scores
        masked = capped + self.bias()
        logits = masked
        if self.sinks is not None:
            sinks = self.sinks.double().view(1, -1, 1, 1).expand(self.batch, -1, self.queries, 1)
            logits = torch.cat((masked, sinks), dim=3)
        lse = torch.logsumexp(logits, dim=3)
        probabilities = torch.exp(masked - lse.unsqueeze(3)).masked_fill(masked == -INFINITY, 0.0)
        return {
            "output": probabilities @ value,
            "lse": lse,
            "weights": (scores, capped, masked, probabilities)[self.option("weights", 0)],
        }

    def scale(self):
        return self.attributes.get("scale", to_float32(1 / math.sqrt(self.dim)))

    def by_pytorch(self):
        with sdpa_kernel(SDPBackend.MATH):
            return scaled_dot_product_attention(
                self.query,
                self.key,
                self.value,
                attn_mask=None if self.is_plain_causal() else self.bias(),
                is_causal=self.is_plain_causal(),
                scale=self.scale(),
                enable_gqa=self.query_heads != self.kv_heads,
            )

    def is_plain_causal(self):
        return bool(self.option("causal")) and set(self.options) <= {"causal", "types", "rank", "magnitude", "scale"}

    def outputs(self):
        self.set_attributes()
        steps = self.steps()
        output = steps["output"]
        if self.sinks is None and self.option("softcap") is None:
            output = self.by_pytorch()
            torch.testing.assert_close(output, steps["output"], rtol=1e-12, atol=1e-13)
        assert output.dtype == torch.float64 and not output.isnan().any()
        if self.option("rank", 4) == 3:
            output = output.transpose(1, 2).flatten(2)
        outputs = {"Y": output, "lse": steps["lse"]}
        if self.option("weights") is not None:
            outputs["qk_matmul_output"] = steps["weights"]
        if self.option("past"):
            outputs["present_key"] = torch.cat((self.inputs["past_key"], self.heads_first("K")), dim=2)
            outputs["present_value"] = torch.cat((self.inputs["past_value"], self.heads_first("V")), dim=2)
        return outputs

    def heads_first(self, role):
        tensor = self.inputs[role]
        return tensor if tensor.dim() == 4 else tensor.unflatten(2, (self.kv_heads, -1)).transpose(1, 2)


def problems():
    """The problems: name, (batch, query_heads, kv_heads, queries, keys, dim, value_dim), options."""
    yield "plain", (2, 2, 2, 7, 11, 8, 8), {}
    yield "plain_dims", (1, 3, 3, 4, 11, 24, 10), {}
    yield "plain_f16", (1, 2, 1, 7, 31, 32, 32), {"types": "f16"}
    yield "plain_bf16", (1, 2, 1, 7, 31, 32, 32), {"types": "bf16"}
    yield "one_key", (1, 2, 2, 3, 1, 8, 8), {}
    yield "many_rows", (1, 1, 1, 70, 100, 8, 8), {}
    yield "many_rows_f16", (1, 1, 1, 70, 90, 16, 16), {"types": "f16", "causal": True}
    yield "odd_dims", (1, 2, 1, 9, 21, 13, 7), {"types": "f16"}
    yield "wide_f16", (1, 4, 1, 1, 33, 128, 128), {"types": "f16"}
    yield "mixed_types", (1, 2, 1, 6, 20, 16, 24), {"types": "f32 f16 bf16"}
    yield "sharp", (1, 2, 2, 9, 21, 8, 8), {"magnitude": 4.0}
    yield "small", (1, 2, 2, 9, 21, 8, 8), {"magnitude": 1e-3}
    # Heads
    yield "gqa", (1, 6, 2, 5, 19, 8, 8), {}
    yield "gqa_causal_bf16", (1, 8, 2, 9, 9, 16, 16), {"types": "bf16", "causal": True}
    yield "mqa_decode_f16", (2, 8, 1, 1, 33, 32, 16), {"types": "f16"}
    yield "gqa_rows_f16", (1, 4, 2, 12, 24, 16, 16), {"types": "f16", "rank": 3, "causal": True}
    # Scale
    yield "scale", (1, 2, 2, 9, 11, 8, 8), {"scale": 0.3}
    yield "scale_negative", (1, 2, 2, 9, 11, 8, 8), {"scale": -0.7}
    yield "scale_zero", (1, 2, 2, 9, 11, 8, 8), {"scale": 0.0}
    # Causal
    yield "causal", (1, 2, 2, 33, 33, 8, 8), {"causal": True}
    yield "causal_fewer_queries", (1, 2, 2, 9, 21, 8, 8), {"causal": True}
    yield "causal_fewer_keys", (1, 2, 2, 21, 9, 8, 8), {"causal": True}
    yield "causal_bottom_right", (1, 2, 2, 9, 23, 8, 8), {"causal": True, "bottom_right": True}
    yield "causal_bottom_right_empty_rows", (1, 2, 1, 9, 4, 8, 8), {"causal": True, "bottom_right": True}
    yield "causal_past", (2, 4, 2, 3, 19, 8, 12), {"causal": True, "past": 16}
    yield "causal_past_f16", (1, 4, 2, 4, 21, 16, 16), {"types": "f16", "rank": 3, "causal": True, "past": 17}
    # Windows
    yield "window", (1, 2, 1, 40, 40, 8, 8), {"left": 4, "right": 3}
    yield "window_left_causal", (1, 2, 1, 33, 47, 8, 8), {"left": 7, "causal": True, "bottom_right": True}
    yield "window_diagonal", (1, 2, 2, 9, 9, 8, 8), {"left": 0, "right": 0}
    yield "window_right_f16", (1, 2, 1, 20, 31, 16, 16), {"types": "f16", "right": 2}
    yield "window_beyond_keys", (1, 2, 2, 30, 10, 8, 8), {"left": 3, "right": 5}
    # Masks
    yield "mask_bool", (2, 2, 1, 9, 21, 8, 8), {"mask": "bool 2 2 9 21"}
    yield "mask_bool_f16", (2, 2, 1, 9, 21, 16, 16), {"types": "f16", "mask": "bool 2 1 9 21"}
    yield "mask_bool_keys", (2, 2, 1, 9, 21, 8, 8), {"mask": "bool 2 1 1 21"}
    yield "mask_bool_queries", (1, 2, 2, 9, 21, 8, 8), {"mask": "bool 9 1", "seen": 0.5}
    yield "mask_bool_heads", (1, 4, 2, 9, 21, 8, 8), {"mask": "bool 4 9 21"}
    yield "mask_bool_empty_row", (1, 2, 1, 9, 21, 8, 8), {"mask": "bool 9 21", "empty_row": 4}
    yield "mask_bool_sparse", (1, 1, 1, 30, 90, 8, 8), {"mask": "bool 30 90", "seen": 0.05}
    yield "mask_bool_causal", (1, 2, 2, 20, 20, 8, 8), {"mask": "bool 20 20", "causal": True}
    yield "mask_bool_short", (1, 2, 2, 9, 20, 8, 8), {"mask": "bool 9 13"}
    yield "mask_float", (1, 2, 2, 9, 21, 8, 8), {"mask": "f32 1 2 9 21"}
    yield "mask_float_batch", (2, 2, 1, 9, 21, 8, 8), {"mask": "f32 2 1 9 21"}
    yield "mask_float_short", (1, 2, 2, 9, 20, 8, 8), {"mask": "f32 9 13"}
    yield "mask_float16_bf16", (1, 2, 2, 9, 21, 16, 16), {"types": "bf16", "mask": "f16 9 21"}
    yield "mask_float16_causal", (1, 4, 1, 4, 40, 16, 16), {
        "types": "f16",
        "mask": "f16 4 4 40",
        "causal": True,
        "bottom_right": True,
    }
    # Softcap, ALiBi, sinks
    yield "softcap", (1, 2, 2, 9, 21, 8, 8), {"softcap": 1.5}
    yield "softcap_f16", (1, 2, 1, 9, 21, 16, 16), {"types": "f16", "softcap": 2.0, "causal": True}
    yield "softcap_mask", (1, 2, 2, 9, 21, 8, 8), {"softcap": 0.7, "mask": "f32 9 21"}
    yield "alibi", (1, 8, 8, 6, 15, 8, 8), {"alibi": "standard", "causal": True, "bottom_right": True}
    yield "alibi_6_heads", (1, 6, 2, 6, 15, 8, 8), {"alibi": "standard"}
    yield "alibi_given_f16", (1, 4, 2, 6, 15, 16, 16), {"types": "f16", "alibi": "given", "causal": True}
    yield "alibi_window_softcap", (1, 2, 2, 21, 21, 8, 8), {"alibi": "given", "softcap": 3.0, "left": 6, "right": 1}
    yield "sinks", (1, 4, 2, 7, 18, 8, 8), {"sinks": True}
    yield "sinks_f16", (1, 4, 2, 7, 18, 16, 16), {"types": "f16", "sinks": True, "causal": True}
    yield "sinks_empty_row", (1, 2, 2, 7, 18, 8, 8), {"sinks": True, "mask": "bool 7 18", "empty_row": 2}
    # Lengths
    yield "lengths", (3, 2, 1, 5, 21, 8, 8), {"lengths": [21, 7, 0]}
    yield "lengths_causal_f16", (3, 2, 1, 5, 21, 16, 16), {"types": "f16", "lengths": [21, 7, 2], "causal": True}
    yield "lengths_mask_window", (2, 2, 2, 6, 21, 8, 8), {"lengths": [13, 20], "mask": "bool 6 21", "left": 9}
    # Weights
    for stage, name in enumerate(("scores", "softcap", "masked", "probabilities")):
        yield f"weights_{name}", (1, 2, 1, 5, 13, 8, 8), {
            "weights": stage,
            "softcap": 1.5,
            "mask": "f32 5 13",
            "causal": True,
            "bottom_right": True,
        }
    yield "weights_probabilities_f16", (1, 4, 2, 4, 20, 16, 16), {"types": "f16", "weights": 3, "causal": True, "past": 3}


class Folder:
    """Writes tensors one after another into tensors.bin, at multiples of 16 bytes."""

    def __init__(self, path):
        self.path, self.bytes = path, bytearray()

    def tensor(self, role, tensor):
        content = bytes(tensor.contiguous().flatten().view(torch.uint8).tolist())
        self.bytes += bytes(-len(self.bytes) % 16)
        offset = len(self.bytes)
        self.bytes += content
        return {
            "role": role,
            "dtype": NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "file": "tensors.bin",
            "offset": offset,
            "nbytes": len(content),
        }

    def case(self, problem):
        outputs = problem.outputs()
        return {
            "name": problem.name,
            "attributes": {
                name: {"type": "float" if isinstance(value, float) else "int", "value": value}
                for name, value in problem.attributes.items()
            },
            "inputs": [self.tensor(role, tensor) for role, tensor in problem.inputs.items()],
            "outputs": [self.tensor(role, tensor) for role, tensor in outputs.items()],
        }


def main():
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent
    folder = Folder(path)
    cases = [
        folder.case(Problem(name, sizes, seed, **options))
        for seed, (name, sizes, options) in enumerate(problems(), start=1)
    ]
    lines = ",\n".join(json.dumps(case) for case in cases)
    header = json.dumps({"made_by": "tests/golden/make_golden.py", "pytorch": torch.__version__})
    (path / "cases.json").write_text(f'{header[:-1]}, "cases": [\n{lines}\n]}}\n')
    (path / "tensors.bin").write_bytes(folder.bytes)
    print(f"{len(cases)} cases, {len(folder.bytes)} bytes of tensors")


if __name__ == "__main__":
    main()
