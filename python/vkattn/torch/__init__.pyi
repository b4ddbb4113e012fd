from contextlib import AbstractContextManager
from typing import Any, Literal, Tuple, Union, overload

import numpy.typing as npt
from torch import Tensor
from typing_extensions import Unpack

from .. import Array, _Align, _Counts, _Device, _Modifiers, _Stage

@overload
def attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Union[Tensor, None] = None, *, is_causal: bool = False,
    align: _Align = "top-left", scale: Union[float, None] = None, enable_gqa: bool = False, kv_lengths: _Counts = None,
    dropout: float = 0.0, dropout_seed: Union[int, None] = None, return_lse: Literal[False] = False,
    return_weights: None = None, device: _Device = None, kernel: Union[str, None] = None, copies: bool = False,
    attn_mask: Union[Tensor, None] = None, dropout_p: float = 0.0,
    **modifiers: Unpack[_Modifiers],
) -> Tensor: ...
@overload
def attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Union[Tensor, None] = None, *, is_causal: bool = False,
    align: _Align = "top-left", scale: Union[float, None] = None, enable_gqa: bool = False, kv_lengths: _Counts = None,
    dropout: float = 0.0, dropout_seed: Union[int, None] = None, return_lse: bool = False,
    return_weights: Union[_Stage, None] = None, device: _Device = None, kernel: Union[str, None] = None,
    copies: bool = False, attn_mask: Union[Tensor, None] = None, dropout_p: float = 0.0,
    **modifiers: Unpack[_Modifiers],
) -> Tuple[Tensor, ...]: ...
@overload
def varlen_attention(
    query: Tensor, key: Tensor, value: Tensor, cu_seqlens_q: _Counts, cu_seqlens_k: _Counts,
    max_seqlen_q: Union[int, None] = None, max_seqlen_k: Union[int, None] = None, *, mask: Union[Tensor, None] = None,
    is_causal: bool = False, align: _Align = "top-left", scale: Union[float, None] = None, enable_gqa: bool = False,
    dropout: float = 0.0, dropout_seed: Union[int, None] = None, return_lse: Literal[False] = False,
    device: _Device = None, kernel: Union[str, None] = None, copies: bool = False,
    attn_mask: Union[Tensor, None] = None, dropout_p: float = 0.0, **modifiers: Unpack[_Modifiers],
) -> Tensor: ...
@overload
def varlen_attention(
    query: Tensor, key: Tensor, value: Tensor, cu_seqlens_q: _Counts, cu_seqlens_k: _Counts,
    max_seqlen_q: Union[int, None] = None, max_seqlen_k: Union[int, None] = None, *, mask: Union[Tensor, None] = None,
    is_causal: bool = False, align: _Align = "top-left", scale: Union[float, None] = None, enable_gqa: bool = False,
    dropout: float = 0.0, dropout_seed: Union[int, None] = None, return_lse: bool = False, device: _Device = None,
    kernel: Union[str, None] = None, copies: bool = False, attn_mask: Union[Tensor, None] = None,
    dropout_p: float = 0.0, **modifiers: Unpack[_Modifiers],
) -> Tuple[Tensor, ...]: ...
def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Union[Tensor, None] = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: Union[float, None] = None, enable_gqa: bool = False,
) -> Tensor: ...
def from_numpy(x: Union[npt.NDArray[Any], Array]) -> Tensor: ...
def install(copies: bool = False) -> None: ...
def uninstall() -> None: ...
def replaces_sdpa(copies: bool = False) -> AbstractContextManager[None]: ...
def calls(clear: bool = False) -> dict[str, int]: ...
def verbose(on: bool = True) -> None: ...
