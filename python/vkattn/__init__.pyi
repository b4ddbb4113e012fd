import os
from typing import Any, Literal, Mapping, NamedTuple, Protocol, Sequence, Tuple, TypedDict, Union, overload

import numpy as np
import numpy.typing as npt

class _DLPack(Protocol):
    def __dlpack__(self) -> Any: ...
    def __dlpack_device__(self) -> Tuple[int, int]: ...

_Array = Union[npt.NDArray[Any], _DLPack]
_Align = Union[Literal["top-left", "bottom-right"], int]
_Window = Union[Tuple[Union[int, None], Union[int, None]], None]
_Slopes = Union[bool, _Array, Sequence[float], None]
_Flag = Union[bool, None]
_PerHead = Union[_Array, Sequence[float], None]
_Counts = Union[_Array, Sequence[int], None]
_Stage = Literal["scores", "softcap", "masked", "probabilities"]
_Device = Union["Device", str, int, None]
_Result = npt.NDArray[Any]

class _Modifiers(TypedDict, total=False):
    window: _Window
    softcap: Union[float, None]
    alibi: _Slopes
    alibi_times_mask: _Flag
    sinks: _PerHead

__version__: str

class Error(Exception):
    code: str

class RuleError(Error, ValueError): ...

class Device:
    @property
    def index(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def driver(self) -> str: ...
    @property
    def matrix_units(self) -> bool: ...
    @property
    def rejected(self) -> str: ...

def devices() -> list[Device]: ...
@overload
def attention(
    query: Array, key: _Any, value: _Any, mask: Union[_Any, None] = None, *, is_causal: bool = False,
    align: _Align = "top-left", scale: Union[float, None] = None, enable_gqa: bool = False, window: _Window = None,
    softcap: Union[float, None] = None, alibi: _Slopes = None, alibi_times_mask: _Flag = None,
    sinks: _PerHead = None, kv_lengths: _Counts = None,
    cumulative_query_lengths: _Counts = None, cumulative_kv_lengths: _Counts = None, dropout: float = 0.0,
    dropout_seed: Union[int, None] = None, return_lse: bool = False,
    return_weights: Union[_Stage, None] = None, device: _Device = None, kernel: Union[str, None] = None,
    attn_mask: Union[_Any, None] = None, dropout_p: float = 0.0,
) -> Union[Array, Tuple[Array, ...]]: ...
@overload
def attention(
    query: _Any, key: Array, value: _Any, mask: Union[_Any, None] = None, *, is_causal: bool = False,
    align: _Align = "top-left", scale: Union[float, None] = None, enable_gqa: bool = False, window: _Window = None,
    softcap: Union[float, None] = None, alibi: _Slopes = None, alibi_times_mask: _Flag = None,
    sinks: _PerHead = None, kv_lengths: _Counts = None,
    cumulative_query_lengths: _Counts = None, cumulative_kv_lengths: _Counts = None, dropout: float = 0.0,
    dropout_seed: Union[int, None] = None, return_lse: bool = False,
    return_weights: Union[_Stage, None] = None, device: _Device = None, kernel: Union[str, None] = None,
    attn_mask: Union[_Any, None] = None, dropout_p: float = 0.0,
) -> Union[Array, Tuple[Array, ...]]: ...
@overload
def attention(
    query: _Any, key: _Any, value: Array, mask: Union[_Any, None] = None, *, is_causal: bool = False,
    align: _Align = "top-left", scale: Union[float, None] = None, enable_gqa: bool = False, window: _Window = None,
    softcap: Union[float, None] = None, alibi: _Slopes = None, alibi_times_mask: _Flag = None,
    sinks: _PerHead = None, kv_lengths: _Counts = None,
    cumulative_query_lengths: _Counts = None, cumulative_kv_lengths: _Counts = None, dropout: float = 0.0,
    dropout_seed: Union[int, None] = None, return_lse: bool = False,
    return_weights: Union[_Stage, None] = None, device: _Device = None, kernel: Union[str, None] = None,
    attn_mask: Union[_Any, None] = None, dropout_p: float = 0.0,
) -> Union[Array, Tuple[Array, ...]]: ...
@overload
def attention(
    query: _Array, key: _Array, value: _Array, mask: Union[_Array, None] = None, *, is_causal: bool = False,
    align: _Align = "top-left", scale: Union[float, None] = None, enable_gqa: bool = False, window: _Window = None,
    softcap: Union[float, None] = None, alibi: _Slopes = None, alibi_times_mask: _Flag = None,
    sinks: _PerHead = None, kv_lengths: _Counts = None,
    cumulative_query_lengths: _Counts = None, cumulative_kv_lengths: _Counts = None, dropout: float = 0.0,
    dropout_seed: Union[int, None] = None, return_lse: Literal[False] = False,
    return_weights: None = None, device: _Device = None, kernel: Union[str, None] = None,
    attn_mask: Union[_Array, None] = None, dropout_p: float = 0.0,
) -> _Result: ...
@overload
def attention(
    query: _Array, key: _Array, value: _Array, mask: Union[_Array, None] = None, *, is_causal: bool = False,
    align: _Align = "top-left", scale: Union[float, None] = None, enable_gqa: bool = False, window: _Window = None,
    softcap: Union[float, None] = None, alibi: _Slopes = None, alibi_times_mask: _Flag = None,
    sinks: _PerHead = None, kv_lengths: _Counts = None,
    cumulative_query_lengths: _Counts = None, cumulative_kv_lengths: _Counts = None, dropout: float = 0.0,
    dropout_seed: Union[int, None] = None, return_lse: bool = False,
    return_weights: Union[_Stage, None] = None, device: _Device = None, kernel: Union[str, None] = None,
    attn_mask: Union[_Array, None] = None, dropout_p: float = 0.0,
) -> Tuple[_Result, ...]: ...

class Gradients(NamedTuple):
    query: Union[_Result, None] = None
    key: Union[_Result, None] = None
    value: Union[_Result, None] = None
    mask: Union[_Result, None] = None
    alibi: Union[_Result, None] = None
    sinks: Union[_Result, None] = None

def attention_backward(
    grad_output: _Array, query: _Array, key: _Array, value: _Array, output: _Array, lse: _Array,
    mask: Union[_Array, None] = None, *, is_causal: bool = False, align: _Align = "top-left",
    scale: Union[float, None] = None, enable_gqa: bool = False, window: _Window = None,
    softcap: Union[float, None] = None, alibi: _Slopes = None, alibi_times_mask: _Flag = None,
    sinks: _PerHead = None, kv_lengths: _Counts = None,
    cumulative_query_lengths: _Counts = None, cumulative_kv_lengths: _Counts = None, dropout: float = 0.0,
    dropout_seed: Union[int, None] = None, grad_lse: Union[_Array, None] = None,
    gradients: Sequence[str] = ("query", "key", "value"), device: _Device = None, kernel: Union[str, None] = None,
    attn_mask: Union[_Array, None] = None, dropout_p: float = 0.0,
) -> Gradients: ...

class Array:
    shape: Tuple[int, ...]
    dtype: np.dtype[Any]
    @property
    def ndim(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def device(self) -> str: ...
    def numpy(self) -> _Result: ...
    def write(self, x: _Array) -> None: ...
    def __array__(self, dtype: Any = None, copy: Union[bool, None] = None) -> _Result: ...
    def __dlpack__(
        self, *, stream: None = None, max_version: Union[Tuple[int, int], None] = None,
        dl_device: Union[Tuple[int, int], None] = None, copy: Union[bool, None] = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> Tuple[int, int]: ...

_Any = Union[Array, _Array]

def array(x: _Array, device: _Device = None) -> Array: ...

class Plan:
    @property
    def kernel(self) -> str: ...
    @property
    def device(self) -> str: ...
    def describe(self) -> str: ...
    def __call__(
        self, query: _Any, key: _Any, value: _Any, mask: Union[_Any, None] = None, *,
        kv_lengths: Union[_Any, Sequence[int], None] = None, alibi: Union[_Any, Sequence[float], None] = None,
        sinks: Union[_Any, Sequence[float], None] = None, dropout_seed: Union[int, None] = None,
        out: Union[Array, Sequence[Array], None] = None,
        attn_mask: Union[_Any, None] = None,
    ) -> Any: ...

def plan(
    query: _Any, key: _Any, value: _Any, mask: Union[_Any, None] = None, *, is_causal: bool = False,
    align: _Align = "top-left", scale: Union[float, None] = None, enable_gqa: bool = False, window: _Window = None,
    softcap: Union[float, None] = None, alibi: Union[_Slopes, Array] = None,
    alibi_times_mask: _Flag = None, sinks: Union[_PerHead, Array] = None,
    kv_lengths: Union[_Counts, Array] = None, dropout: float = 0.0, return_lse: bool = False,
    return_weights: Union[_Stage, None] = None, device: _Device = None, kernel: Union[str, None] = None,
    attn_mask: Union[_Any, None] = None, dropout_p: float = 0.0,
) -> Plan: ...

class Rotary(NamedTuple):
    style: Literal["half-split", "interleaved"] = "half-split"
    dims: Union[int, None] = None
    base: float = 10000.0
    position_scale: float = 1.0
    magnitude: float = 1.0
    frequencies: Union[Sequence[float], npt.NDArray[Any], None] = None

class Cache:
    capacity: int
    rotary: Union[Rotary, None]
    def __init__(
        self, batch: int, kv_heads: int, capacity: int, head_dim: int, value_dim: Union[int, None] = None, *,
        dtype: Any = "float32", key_scales: _PerHead = None, value_scales: _PerHead = None, ring: bool = False,
        page_size: Union[int, None] = None, page_count: Union[int, None] = None,
        page_table: Union[_Array, Sequence[Sequence[int]], None] = None, rotary: Union[Rotary, None] = None,
        device: _Device = None,
    ) -> None: ...
    def __len__(self) -> int: ...
    @property
    def lengths(self) -> npt.NDArray[np.int64]: ...
    def set_page_table(self, page_table: Union[_Array, Sequence[Sequence[int]]]) -> None: ...
    def clear(self, entries: Union[int, Sequence[int], npt.NDArray[Any], None] = None) -> None: ...
    def append(self, key: _Array, value: _Array, *, counts: _Counts = None) -> None: ...
    @overload
    def attention(
        self, query: _Array, mask: Union[_Array, None] = None, *, counts: _Counts = None, is_causal: bool = True,
        align: _Align = "bottom-right", scale: Union[float, None] = None, window: _Window = None,
        softcap: Union[float, None] = None, alibi: _Slopes = None, alibi_times_mask: _Flag = None,
        sinks: _PerHead = None,
        return_lse: Literal[False] = False, return_weights: None = None,
        attn_mask: Union[_Array, None] = None,
    ) -> _Result: ...
    @overload
    def attention(
        self, query: _Array, mask: Union[_Array, None] = None, *, counts: _Counts = None, is_causal: bool = True,
        align: _Align = "bottom-right", scale: Union[float, None] = None, window: _Window = None,
        softcap: Union[float, None] = None, alibi: _Slopes = None, alibi_times_mask: _Flag = None,
        sinks: _PerHead = None,
        return_lse: bool = False, return_weights: Union[_Stage, None] = None,
        attn_mask: Union[_Array, None] = None,
    ) -> Tuple[_Result, ...]: ...

class LayerGradients(NamedTuple):
    query: _Result
    key: Union[_Result, None]
    value: Union[_Result, None]
    parameters: dict[str, _Result]

class SavedCall: ...

class MultiHeadAttention:
    embed_dim: int
    num_heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    rotary: Union[Rotary, None]
    dtype: np.dtype[Any]
    def __init__(
        self, embed_dim: int, num_heads: int, *, bias: bool = True, kdim: Union[int, None] = None,
        vdim: Union[int, None] = None, kv_heads: Union[int, None] = None, head_dim: Union[int, None] = None,
        value_dim: Union[int, None] = None, rotary: Union[Rotary, None] = None, dtype: Any = "float32",
        seed: Union[int, None] = None, device: _Device = None,
    ) -> None: ...
    def state_dict(self) -> dict[str, _Result]: ...
    def load_state_dict(self, state: Mapping[str, _Array]) -> None: ...
    def load(self, path: Union[str, os.PathLike[str]], prefix: str = "") -> None: ...
    def save(self, path: Union[str, os.PathLike[str]], prefix: str = "") -> None: ...
    def make_cache(
        self, batch: int, capacity: int, *, dtype: Any = "float32", key_scales: _PerHead = None,
        value_scales: _PerHead = None, ring: bool = False, page_size: Union[int, None] = None,
        page_count: Union[int, None] = None, page_table: Union[_Array, Sequence[Sequence[int]], None] = None,
    ) -> Cache: ...
    @overload
    def forward(
        self, query: _Array, key: Union[_Array, None] = None, value: Union[_Array, None] = None, *,
        key_padding_mask: Union[_Array, None] = None, need_weights: bool = False,
        attn_mask: Union[_Array, None] = None, average_attn_weights: bool = True, is_causal: bool = False,
        cache: Union[Cache, None] = None, counts: _Counts = None, align: Union[_Align, None] = None,
        scale: Union[float, None] = None, window: _Window = None, softcap: Union[float, None] = None,
        alibi: _Slopes = None, alibi_times_mask: _Flag = None, sinks: _PerHead = None, kv_lengths: _Counts = None,
        dropout: float = 0.0,
        dropout_seed: Union[int, None] = None, return_saved: Literal[False] = False,
        dropout_p: float = 0.0,
    ) -> Tuple[_Result, Union[_Result, None]]: ...
    @overload
    def forward(
        self, query: _Array, key: Union[_Array, None] = None, value: Union[_Array, None] = None, *,
        key_padding_mask: Union[_Array, None] = None, need_weights: bool = False,
        attn_mask: Union[_Array, None] = None, average_attn_weights: bool = True, is_causal: bool = False,
        cache: Union[Cache, None] = None, counts: _Counts = None, align: Union[_Align, None] = None,
        scale: Union[float, None] = None, window: _Window = None, softcap: Union[float, None] = None,
        alibi: _Slopes = None, alibi_times_mask: _Flag = None, sinks: _PerHead = None, kv_lengths: _Counts = None,
        dropout: float = 0.0,
        dropout_seed: Union[int, None] = None, return_saved: Literal[True],
        dropout_p: float = 0.0,
    ) -> Tuple[_Result, Union[_Result, None], SavedCall]: ...
    @overload
    def forward(
        self, query: _Array, key: Union[_Array, None] = None, value: Union[_Array, None] = None, *,
        key_padding_mask: Union[_Array, None] = None, need_weights: bool = False,
        attn_mask: Union[_Array, None] = None, average_attn_weights: bool = True, is_causal: bool = False,
        cache: Union[Cache, None] = None, counts: _Counts = None, align: Union[_Align, None] = None,
        scale: Union[float, None] = None, window: _Window = None, softcap: Union[float, None] = None,
        alibi: _Slopes = None, alibi_times_mask: _Flag = None, sinks: _PerHead = None, kv_lengths: _Counts = None,
        dropout: float = 0.0,
        dropout_seed: Union[int, None] = None, return_saved: bool = False,
        dropout_p: float = 0.0,
    ) -> Union[
        Tuple[_Result, Union[_Result, None]], Tuple[_Result, Union[_Result, None], SavedCall]
    ]: ...
    __call__ = forward
    def backward(self, saved: SavedCall, grad_output: _Array) -> LayerGradients: ...

def show(
    weights: _Array, tokens: Union[Sequence[str], None] = None, key_tokens: Union[Sequence[str], None] = None
) -> Any: ...
