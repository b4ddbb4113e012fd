"""PyTorch, or a skip where it is missing, and what the tests of vkattn.torch begin with."""
import pytest

torch = pytest.importorskip("torch", minversion="2.5", reason="PyTorch 2.5 or later is not installed")

import vkattn.torch  # noqa: E402

sdpa = torch.nn.functional.scaled_dot_product_attention


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(5)
    vkattn.torch.calls(clear=True)


def draw(*shapes, dtype=torch.float32):
    return [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes]
