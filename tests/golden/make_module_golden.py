#!/usr/bin/python3
"""Computes layers of multi-head attention with PyTorch, in float64, for the test gpu.golden: cases.json and
tensors.bin of the folder module beside this script.

    apt-get install python3-torch        Debian 13 has PyTorch 2.6
    tests/golden/make_module_golden.py [FOLDER]

Inputs and parameters are rounded to the type that they are stored in before anything is computed from them. Results are
those of torch.nn.MultiheadAttention: output, weights of each head and averaged, and the gradients of sum(output *
grad_output) with respect to every input and parameter. tests/conformance/case_file.hpp describes the files. In
nn.MultiheadAttention, True hides a key (attn_mask, key_padding_mask). The files have the library's form: a mask that shows keys,
and lengths.
"""
import json
import pathlib
import sys

import torch

from make_golden import TYPES, Folder

INPUTS = ("query", "key", "value")


def layers():
    """The problems: name, (batch, queries, keys, d_model, heads), options."""
    yield "self", (2, 5, 5, 12, 3), {}
    yield "self_without_biases", (1, 6, 6, 8, 2), {"bias": False}
    yield "self_causal", (2, 7, 7, 12, 2), {"causal": True}
    yield "self_float_mask", (2, 5, 5, 8, 2), {"mask": "float"}
    yield "self_float_mask_of_heads", (2, 4, 4, 8, 2), {"mask": "float heads"}
    yield "self_bool_mask", (1, 6, 6, 8, 2), {"mask": "bool"}
    yield "self_padding", (3, 6, 6, 8, 2), {"lengths": [6, 2, 4]}
    yield "cross", (2, 4, 9, 12, 3), {"inputs": 1}
    yield "cross_padding_and_mask", (2, 3, 7, 8, 2), {"inputs": 1, "lengths": [7, 3], "mask": "float"}
    yield "separate", (1, 5, 8, 8, 4), {"inputs": 2}
    yield "separate_dims", (2, 4, 6, 8, 2), {"inputs": 2, "kdim": 5, "vdim": 11}
    yield "separate_dims_without_biases", (1, 4, 6, 8, 2), {"inputs": 2, "kdim": 5, "vdim": 11, "bias": False}
    yield "self_f16", (1, 5, 5, 16, 2), {"type": "f16", "causal": True}
    yield "cross_bf16", (1, 4, 6, 16, 2), {"type": "bf16", "inputs": 1}


class Layer:
    """One case."""

    def __init__(self, name, sizes, seed, bias=True, inputs=0, kdim=None, vdim=None, mask="", lengths=None, causal=False,
                 type="f32"):
        self.name = name
        self.batch, self.queries, self.keys, self.d_model, self.heads = sizes
        self.random = torch.Generator().manual_seed(seed)
        self.type = TYPES[type]
        self.attributes = {"heads": self.heads, "inputs": inputs, "causal": int(causal), "bias": int(bias)}
        self.lengths, self.causal, self.which = lengths, causal, inputs
        self.module = torch.nn.MultiheadAttention(self.d_model, self.heads, bias=bias, kdim=kdim, vdim=vdim,
                                                  batch_first=True, dtype=torch.float64)
        self.inputs = {"query": self.normal(self.batch, self.queries, self.d_model)}
        if inputs > 0:
            self.inputs["key"] = self.normal(self.batch, self.keys, kdim or self.d_model)
        if inputs > 1:
            self.inputs["value"] = self.normal(self.batch, self.keys, vdim or self.d_model)
        with torch.no_grad():
            for name, parameter in self.module.named_parameters():
                scale = 0.5 if parameter.dim() == 1 else parameter.shape[-1] ** -0.5
                self.inputs[name] = self.normal(*parameter.shape, scale=scale)
                parameter.copy_(self.inputs[name].double())
        self.inputs["grad_output"] = self.normal(self.batch, self.queries, self.d_model)
        self.mask = self.make_mask(mask)

    def normal(self, *shape, scale=1.0):
        return (torch.randn(*shape, generator=self.random, dtype=torch.float64) * scale).to(self.type)

    def make_mask(self, kind):
        if kind == "bool":
            visible = torch.rand(self.queries, self.keys, generator=self.random) < 0.6
            visible[:, 0] = True
            self.inputs["mask"] = visible
            return ~visible
        if kind:
            shape = (self.batch * self.heads, self.queries, self.keys) if "heads" in kind else (self.queries, self.keys)
            mask = torch.randn(*shape, generator=self.random, dtype=torch.float32)
            self.inputs["mask"] = mask
            return mask.double()
        if self.causal:
            return torch.ones(self.queries, self.keys, dtype=torch.bool).triu(1)
        return None

    def padding(self):
        if self.lengths is None:
            return None
        hidden = torch.arange(self.keys)[None, :] >= torch.tensor(self.lengths)[:, None]
        # PyTorch requires that both masks have the same type.
        if self.mask is not None and self.mask.dtype != torch.bool:
            return torch.zeros(hidden.shape, dtype=self.mask.dtype).masked_fill(hidden, -float("inf"))
        return hidden

    def outputs(self):
        given = {name: self.inputs[name].double().requires_grad_() for name in INPUTS if name in self.inputs}
        query = given["query"]
        key = given.get("key", query)
        value = given.get("value", key)
        options = {"attn_mask": self.mask, "key_padding_mask": self.padding()}
        output, weights = self.module(query, key, value, average_attn_weights=False, **options)
        averaged = self.module(query, key, value, average_attn_weights=True, **options)[1]
        output.backward(self.inputs["grad_output"].double())
        results = {"output": output, "weights": weights, "averaged_weights": averaged}
        results |= {f"grad_{name}": tensor.grad for name, tensor in given.items()}
        results |= {f"grad {name}": parameter.grad for name, parameter in self.module.named_parameters()}
        if self.lengths is not None:
            self.inputs["kv_lengths"] = torch.tensor(self.lengths, dtype=torch.int64)
        # The last bits of these gradients prove nothing, and would take half of the file.
        return {name: tensor.detach().float() for name, tensor in results.items()}


def main():
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "module"
    path.mkdir(exist_ok=True)
    folder = Folder(path)
    cases = [folder.case(Layer(name, sizes, seed, **options)) for seed, (name, sizes, options) in enumerate(layers(), 1)]
    lines = ",\n".join(json.dumps(case) for case in cases)
    header = json.dumps({"made_by": "tests/golden/make_module_golden.py", "pytorch": torch.__version__})
    (path / "cases.json").write_text(f'{header[:-1]}, "cases": [\n{lines}\n]}}\n')
    (path / "tensors.bin").write_bytes(folder.bytes)
    print(f"{len(cases)} cases, {len(folder.bytes)} bytes of tensors")


if __name__ == "__main__":
    main()
