"""vkattn.MultiHeadAttention."""
import contextlib
import functools
from typing import Dict, NamedTuple, Optional

import numpy as np

from . import _arguments, _arrays, _native, _problem, _rotary
from ._cache import Cache
from ._errors import RuleError, said_with


class LayerGradients(NamedTuple):
    """Gradients of a layer's inputs, each of its shape and type, and gradients of its parameters by their names.

    If queries, keys and values came from one array, `query` is its whole gradient. If keys and values came from one
    array, `key` is its whole gradient. The others are None.
    """

    query: np.ndarray
    key: Optional[np.ndarray]
    value: Optional[np.ndarray]
    parameters: Dict[str, np.ndarray]


class SavedCall:
    """What MultiHeadAttention.backward() needs of a call, in the device's memory."""

    @_arguments.reads(native=_arguments.made_by("SavedCall", "a call with return_saved=True", _native.SavedCall),
                      layer=None, rank=None)
    def __init__(self, native, layer, dtype, rank):
        self._native = native
        self._layer = layer  # keeps the memory of its parameters, which the call refers to
        self._version = layer._version  # of the layer's parameters at the call
        self._dtype = dtype
        self._rank = rank


def _takes_part(x, name):
    """Turns a mask of PyTorch's layer, where a True hides, into a mask of vkattn.attention, where a True takes part."""
    mask = _arrays.host_array(x, name)
    _arrays.mask_array(mask, name, "hides")  # refuses other types
    return ~mask if mask.dtype == np.bool_ else mask


def _require_width(mask, name, keys):
    if mask is not None and mask.ndim and mask.shape[-1] not in (1, keys):
        raise RuleError(f"{name} has the shape {mask.shape}, but its last dimension must be {keys}, the keys, or 1")


def _both(one, other):
    """One mask for attn_mask and key_padding_mask. Each is None, or broadcasts to the scores."""
    if one is None or other is None:
        return other if one is None else one
    try:
        np.broadcast_shapes(one.shape, other.shape)
    except ValueError:
        raise RuleError(
            f"attn_mask and key_padding_mask do not broadcast to each other: as (batch, num_heads, query_length, "
            f"kv_length) they are {one.shape} and {other.shape}"
        ) from None
    if one.dtype == other.dtype == np.bool_:
        return one & other
    added = [np.where(x, np.float32(0), np.float32(-np.inf)) if x.dtype == np.bool_ else _arrays.float32_of(x)
             for x in (one, other)]
    return _arrays.float32_of(np.add(*added, dtype=np.float64))


def _distinct(query, key, value):
    """(key, value). Each is None if it is the same array as the one before it."""
    key = query if key is None else key
    value = key if value is None else value
    if value is not key:
        return key, value
    return None if key is query else key, None


def _aligned(align, cache):
    """The value of `align`, with its default if it is None."""
    if align is not None:
        return align
    return "top-left" if cache is None else "bottom-right"


def _holds_cache(method):
    """Decorates a method: other threads' calls on its cache wait, so what it reads of the cache stays true."""

    @functools.wraps(method)
    def locked(self, *arguments, cache=None, **keywords):
        with contextlib.nullcontext() if cache is None else cache._held():
            return method(self, *arguments, cache=cache, **keywords)

    return locked


# The library's words for a layer's arguments, which are PyTorch's.
_NAMES = (("MultiHeadAttentionDesc::", ""), ("attention.", ""), ("d_model", "embed_dim"), ("query_heads", "num_heads"),
          ("key_input_dim", "kdim"), ("value_input_dim", "vdim"))


class MultiHeadAttention:
    """The layer of torch.nn.MultiheadAttention, with PyTorch's names and its parameters on the device.

        embed_dim      elements of a row of query and output
        num_heads      query heads
        bias           False: no in_proj_bias and no out_proj.bias
        kdim, vdim     elements of a row of key and of value (None: embed_dim)
        kv_heads       heads of keys and values, which groups of query heads share (None: num_heads)
        head_dim       elements of a query or key (None: embed_dim / num_heads)
        value_dim      elements of a value (None: head_dim)
        rotary         a vkattn.Rotary, which rotates queries and keys; for self-attention
        dtype          of the parameters: 'float32', 'float16' or 'bfloat16'. Inputs may have another type
        seed           an integer that decides the first weights (Xavier's uniform distribution; biases are 0). None:
                       new ones each time
        device         as for vkattn.attention

    The parameters are in_proj_weight (rows of W_Q, W_K and W_V), in_proj_bias, out_proj.weight and out_proj.bias. If
    kdim or vdim differs, q_proj_weight, k_proj_weight and v_proj_weight replace in_proj_weight. state_dict(),
    load_state_dict(), load() and save() read and write them. After the loss of its device a layer cannot be used:
    make another and load its parameters.

        >>> layer = vkattn.MultiHeadAttention(512, 8)
        >>> output, _ = layer(x, is_causal=True)                    # (batch, length, 512)
        >>> output, weights = layer(x, memory, need_weights=True)   # keys and values of another array
    """

    @_arguments.reads(rotary=_rotary.read)
    def __init__(self, embed_dim, num_heads, *, bias=True, kdim=None, vdim=None, kv_heads=None, head_dim=None,
                 value_dim=None, rotary=None, dtype="float32", seed=None, device=None):
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.rotary = rotary
        self.dtype = _arrays.float_type(dtype)
        self._device = device
        self._session = _problem.session(device)
        elements = head_dim if head_dim is not None else embed_dim // max(num_heads, 1)
        turned, frequencies = _rotary.native(rotary, elements)
        stored = np.dtype(np.uint16) if _arrays.is_bfloat16(self.dtype) else self.dtype
        with said_with(_NAMES):
            self._native = _native.Layer(
                session=self._session, d_model=embed_dim, query_heads=num_heads, kv_heads=kv_heads, head_dim=head_dim,
                value_dim=value_dim, key_input_dim=embed_dim if kdim is None else kdim,
                value_input_dim=embed_dim if vdim is None else vdim, has_bias=bias, parameter_type=stored,
                rotary=turned, frequencies=frequencies,
            )
        self._native.initialise(_problem.seed_of(seed, True))
        self.kv_heads, self.head_dim, self.value_dim = self._native.head_sizes
        self._version = 0

    def state_dict(self):
        """The parameters by their names, copied from the device."""
        return {name: self._native.read(name).view(self.dtype) for name in self._native.names()}

    @_arguments.reads()
    def load_state_dict(self, state):
        """Sets all parameters from NumPy or DLPack arrays by their names, converted to `dtype`."""
        names = self._native.names()
        missing = [name for name in names if name not in state]
        if missing:
            raise RuleError(f"the parameters {', '.join(missing)} are not among {', '.join(state) or 'them'}")
        arrays = {}
        for name, x in state.items():
            array = _arrays.host_array(x, name)
            self._native.check(name, array.shape)
            if array.dtype.kind != "f" and not _arrays.is_bfloat16(array.dtype):
                raise TypeError(f"{name} is {array.dtype} but must be of floating point")
            array = _arrays.converted(array, self.dtype)
            arrays[name] = array.view(np.uint16) if _arrays.is_bfloat16(self.dtype) else array
        self._version += 1  # even if not all are written
        for name, array in arrays.items():
            self._native.write(name, array)

    @_arguments.reads()
    def load(self, path, prefix=""):
        """Sets all parameters from a safetensors file, in which `prefix` stands before their names.

            >>> layer.load("model.safetensors", prefix="decoder.layers.0.self_attn.")
        """
        self._version += 1  # even if not all are written
        self._native.load(path, prefix)

    @_arguments.reads()
    def save(self, path, prefix=""):
        """Writes a safetensors file of all parameters, with `prefix` before their names."""
        self._native.save(path, prefix)

    def make_cache(self, batch, capacity, **keywords):
        """Makes a vkattn.Cache for this layer. The keywords are a cache's: dtype, ring, pages and others."""
        return Cache(batch, self.kv_heads, capacity, self.head_dim, self.value_dim, rotary=self.rotary,
                     device=self._device, **keywords)

    @_arguments.reads(cache=_arguments.instance(Cache, "as of make_cache()"))
    @_holds_cache
    def forward(self, query, key=None, value=None, *, key_padding_mask=None, need_weights=False, attn_mask=None,
                average_attn_weights=True, is_causal=False, cache=None, counts=None, align=None, scale=None,
                modifiers, kv_lengths=None, dropout=0.0, dropout_seed=None, return_saved=False):
        """(output, weights or None): projections, attention of each head, output projection.

        query       (batch, query_length, embed_dim), or without batch
        key         (batch, kv_length, kdim); None: query, which is self-attention
        value       (batch, kv_length, vdim); None: key
        output      (batch, query_length, embed_dim), of the query's type, which key and value must have too

        key_padding_mask      (batch, kv_length): bool, True hides the key; or floating point, added
        attn_mask             (query_length, kv_length), (batch * num_heads, …), or an array that broadcasts to
                              (batch, num_heads, query_length, kv_length): bool, True hides; or floating point, added.
                              As in PyTorch, bool means the opposite of vkattn.attention's mask
        need_weights          also returns the weights: their mean over the heads, float32 (batch, query_length,
                              kv_length), or with average_attn_weights=False each head's, (batch, num_heads,
                              query_length, kv_length)
        cache                 of make_cache(): appends keys and values of the query's rows, and attends over all keys
                              that it then holds; kv_length is len(cache) after that
        counts                with a cache, (batch,): the number of rows of each entry; results of later rows are 0
        align                 None: 'bottom-right' with a cache, otherwise 'top-left'
        dropout, dropout_seed  for the weights of this call, as for vkattn.attention
        return_saved          also returns what backward() takes

        is_causal and all other keywords are as for vkattn.attention.

        Differences from torch.nn.MultiheadAttention: the batch comes first; weights are returned only if asked for, and
        without dropout; is_causal hides keys without a mask; a row that sees no key is out_proj.bias; dropout belongs
        to a call, and draws its own bits.
        """
        if counts is not None and cache is None:
            raise RuleError("counts are of the rows that a cache takes; without one give kv_lengths")
        rank = _arrays.host_array(query, "query").ndim
        key, value = _distinct(query, key, value)
        query, dtype = self._rows(query, "query", rank)
        key, value = (None if x is None else self._rows(x, name, rank)[0]
                      for name, x in (("key", key), ("value", value)))
        entries, new = query.shape[:2]
        counts = None if counts is None else _arrays.kv_lengths(counts, (entries,), "counts").clip(0, new)
        masks, keys = self._masks(attn_mask, key_padding_mask, entries), 0
        if cache is None:
            for name, mask in masks.items():
                _require_width(mask, name, (query if key is None else key).shape[1])
        else:
            self._require_own(cache, entries, key is not None or kv_lengths is not None)
            held, keys = int(cache._grown(new, counts).max(initial=0)), cache._kv_length(new)
            masks = {name: cache._padded(mask, name, keys, held) for name, mask in masks.items()}
        mask = _both(*masks.values())
        options = _problem.score_options(
            None if mask is None else _arrays.batched_mask(_arrays.mask_array(mask), (entries,), self.num_heads),
            is_causal=is_causal, align=_aligned(align, cache), scale=scale, modifiers=modifiers,
            kv_lengths=None if kv_lengths is None else _arrays.kv_lengths(kv_lengths, (entries,)), dropout=dropout,
            return_weights="probabilities" if need_weights else None,
        )
        call = _native.LayerOptions(
            scores=options, has_averaged_weights=bool(need_weights and average_attn_weights), saves=return_saved,
            seed=_problem.seed_of(dropout_seed, dropout), cache=None if cache is None else cache._native,
            kv_length=keys,
        )
        results, saved = self._native.forward(query, key, value, counts, call)
        output, weights = results["output"].view(dtype), results.get("weights")
        if weights is not None and cache is not None:
            weights = weights[..., :len(cache)]
        for entry, count in enumerate(() if counts is None else counts):
            output[entry, count:] = 0
            if weights is not None:
                weights[entry, ..., count:, :] = 0
        if rank == 2:
            output, weights = output[0], None if weights is None else weights[0]
        if not return_saved:
            return output, weights
        return output, weights, SavedCall(saved, self, dtype, rank)

    __call__ = forward

    @_arguments.reads(saved=_arguments.instance(SavedCall, "as of a call with return_saved=True"))
    def backward(self, saved, grad_output):
        """The gradients of a call, from the gradient of its output.

        L is a number computed from the output. grad_output is dL/doutput, of the output's shape and type. The
        result is LayerGradients: dL/dquery, …, and dL/dparameter by its name. The parameters must still be those of
        the call.

            >>> output, _, saved = layer(x, is_causal=True, return_saved=True)
            >>> grads = layer.backward(saved, grad_output)
            >>> layer.load_state_dict({name: value - 0.1 * grads.parameters[name]
            ...                        for name, value in layer.state_dict().items()})
        """
        if saved._layer is not self:
            raise RuleError("the call is another layer's; give it to that one's backward")
        if saved._version != self._version:
            raise RuleError("the layer's parameters were changed since the call; call it again")
        grad_output, _ = self._rows(grad_output, "grad_output", saved._rank)
        found = self._native.backward(saved._native, grad_output)
        inputs = [found.pop(name, None) for name in ("query", "key", "value")]
        inputs = [x if x is None else x.view(saved._dtype) for x in inputs]
        if saved._rank == 2:
            inputs = [x if x is None else x[0] for x in inputs]
        return LayerGradients(*inputs, {name: x.view(self.dtype) for name, x in found.items()})

    def _rows(self, x, name, rank):
        """(x as an array of three dimensions, its dtype)."""
        array, dtype = _arrays.tensor(x, name)
        if array.ndim != rank or rank not in (2, 3):
            wanted = "(length, elements)" if rank == 2 else "(batch, length, elements)"
            raise RuleError(f"{name} has the shape {array.shape} but must be {wanted}")
        return (array[np.newaxis] if rank == 2 else array), dtype

    def _masks(self, attn_mask, key_padding_mask, entries):
        """Both masks by their names, as masks of vkattn.attention. Each is None, or broadcasts to the scores."""
        return {"attn_mask": self._attn_mask(attn_mask, entries),
                "key_padding_mask": self._padding_mask(key_padding_mask, entries)}

    def _attn_mask(self, mask, entries):
        if mask is None:
            return None
        mask = _takes_part(mask, "attn_mask")
        if mask.ndim == 3:
            heads = entries * self.num_heads
            if mask.shape[0] != heads:
                raise RuleError(
                    f"attn_mask has the shape {mask.shape} but must be (batch * num_heads, …), which is {heads}"
                )
            mask = mask.reshape((entries, self.num_heads) + mask.shape[1:])
        return mask

    def _padding_mask(self, mask, entries):
        if mask is None:
            return None
        mask = _takes_part(mask, "key_padding_mask")
        if mask.ndim == 1:
            mask = mask[np.newaxis]
        if mask.ndim != 2 or mask.shape[0] != entries:
            raise RuleError(f"key_padding_mask has the shape {mask.shape} but must be ({entries}, kv_length)")
        return mask[:, np.newaxis, np.newaxis, :]

    def _require_own(self, cache, entries, has_keys):
        """Requires a cache that fits the layer, and no keys beside it."""
        sizes = (entries, self.kv_heads, self.head_dim, self.value_dim)
        own = (*cache._shapes["key"], cache._shapes["value"][2])
        if own != sizes or not _rotary.same(cache.rotary, self.rotary):
            raise RuleError(
                f"the cache is of (batch, kv_heads, head_dim, value_dim) {own} and {cache.rotary}, but the call is of "
                f"{sizes} and {self.rotary}; make it by make_cache({entries}, …)"
            )
        if has_keys:
            raise RuleError("with a cache keys and values are of the query's rows; give no key, value or kv_lengths")

    def __repr__(self):
        return f"<vkattn.MultiHeadAttention of {self.num_heads} heads over rows of {self.embed_dim} {self.dtype}>"
