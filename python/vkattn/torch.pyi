from contextlib import AbstractContextManager
from typing import Union

from torch import Tensor

def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Union[Tensor, None] = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: Union[float, None] = None, enable_gqa: bool = False,
) -> Tensor: ...
def replaces_sdpa() -> AbstractContextManager[None]: ...
