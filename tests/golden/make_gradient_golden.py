#!/usr/bin/python3
"""Computes gradients of attention with PyTorch, in float64, for the test gpu.golden: cases.json and tensors.bin of the
folder gradients beside this script.

    apt-get install python3-torch        Debian 13 has PyTorch 2.6
    tests/golden/make_gradient_golden.py [FOLDER]

The problems are those of make_golden.py that have gradients, with numbers of their own; grad_Y is the gradient of their
output. Autograd computes the results through torch.nn.functional.scaled_dot_product_attention with the backend MATH. That function
has no softcap and no sinks: for these, autograd goes through the steps of make_golden.py. It also does so for every case, to check
the steps.
"""
import json
import pathlib
import sys

import torch

from make_golden import TYPES, Folder, Problem, problems

# A few problems of each kind, with few keys.
NAMES = (
    "plain_dims", "plain_f16", "plain_bf16", "mixed_types", "gqa", "gqa_causal_bf16", "scale_negative",
    "causal_fewer_queries", "causal_bottom_right", "window", "window_left_causal", "mask_bool", "mask_bool_heads",
    "mask_float", "mask_float_batch", "mask_float16_bf16", "softcap_f16", "softcap_mask", "alibi_given_f16",
    "alibi_window_softcap", "sinks", "sinks_f16", "lengths_mask_window",
)


class Gradients(Problem):
    """One case."""

    def leaves(self):
        """The inputs that have a gradient, by name, in float64."""
        tensors = {"Q": "query", "K": "key", "V": "value"}
        if "attn_mask" in self.inputs and self.inputs["attn_mask"].dtype != torch.bool:
            tensors["attn_mask"] = "mask"
        if "alibi_slopes" in self.inputs:
            tensors["alibi_slopes"] = "slopes"
        if "sinks" in self.inputs:
            tensors["sinks"] = "sinks"
        leaves = {}
        for role, member in tensors.items():
            leaves[role] = getattr(self, member).double().detach().requires_grad_()
            setattr(self, member, leaves[role])
        return leaves

    def gradients(self, output, leaves):
        found = torch.autograd.grad(output, list(leaves.values()), self.inputs["grad_Y"].double())
        assert not any(gradient.isnan().any() for gradient in found), self.name
        return {f"grad_{role}": gradient for role, gradient in zip(leaves, found)}

    def outputs(self):
        self.set_attributes()
        types = self.option("types", "f32").split()
        shape = (self.batch, self.query_heads, self.queries, self.value_dim)
        self.inputs["grad_Y"] = self.normal(*shape).to(TYPES[types[0]])
        leaves = self.leaves()
        steps = self.steps()
        output, gradients = steps["output"], self.gradients(steps["output"], leaves)
        if self.sinks is None and self.option("softcap") is None:
            output = self.by_pytorch()
            by_steps, gradients = gradients, self.gradients(output, leaves)
            for name, gradient in gradients.items():
                torch.testing.assert_close(gradient, by_steps[name], rtol=1e-11, atol=1e-12)
        return {name: tensor.detach() for name, tensor in ({"Y": output, "lse": steps["lse"]} | gradients).items()}


def main():
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "gradients"
    path.mkdir(exist_ok=True)
    folder = Folder(path)
    chosen = {name: (sizes, options) for name, sizes, options in problems() if name in NAMES}
    assert set(chosen) == set(NAMES)
    cases = [
        folder.case(Gradients(name, chosen[name][0], seed, **chosen[name][1])) for seed, name in enumerate(NAMES, start=1001)
    ]
    lines = ",\n".join(json.dumps(case) for case in cases)
    header = json.dumps({"made_by": "tests/golden/make_gradient_golden.py", "pytorch": torch.__version__})
    (path / "cases.json").write_text(f'{header[:-1]}, "cases": [\n{lines}\n]}}\n')
    (path / "tensors.bin").write_bytes(folder.bytes)
    print(f"{len(cases)} cases, {len(folder.bytes)} bytes of tensors")


if __name__ == "__main__":
    main()
