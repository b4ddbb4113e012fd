"""vkattn.attention."""
from . import _arguments, _native, _problem
from ._device_arrays import Array
from ._errors import RuleError
from ._plan import Plan


def _on_device(query, key, value, mask, keywords, *, dropout_seed, device, kernel):
    """attention() with arrays that are on a device: results stay there. The keywords are those of a Plan."""
    session = next(x for x in (query, key, value) if isinstance(x, Array))._session
    if device is not None:
        session = _problem.session(device)
    plan = Plan(query, key, value, mask, session, kernel, keywords)
    modifiers = keywords["modifiers"]
    per_head = {name: modifiers[name] for name in _arguments.PER_HEAD if not isinstance(modifiers[name], bool)}
    return plan(query, key, value, mask, kv_lengths=keywords["kv_lengths"], dropout_seed=dropout_seed, **per_head)


@_arguments.reads()
def attention(query, key, value, mask=None, *, is_causal=False, align="top-left", scale=None, enable_gqa=False,
              modifiers, kv_lengths=None, cumulative_query_lengths=None, cumulative_kv_lengths=None, dropout=0.0,
              dropout_seed=None, return_lse=False, return_weights=None, device=None, kernel=None):
    """softmax(scale * query @ key^T + mask) @ value, for each head.

    Names and meanings are those of torch.nn.functional.scaled_dot_product_attention, on NumPy arrays and on
    anything with DLPack in host memory, or on arrays on a device, which are used where they are:

        query           (..., query_heads, query_length, head_dim)
        key             (..., kv_heads, kv_length, head_dim)
        value           (..., kv_heads, kv_length, value_dim)
        mask            broadcasts to (..., query_heads, query_length, kv_length), or has fewer heads that divide them
        returns         (..., query_heads, query_length, value_dim), of the query's type

    The dimensions before the heads are batch entries, and broadcast. An array of two dimensions has one head.
    Each of the three arrays is float32, float16 or bfloat16 (of ml_dtypes or PyTorch); sums are float32. Strides may be
    any: arrays are taken as they lie. Only arrays with negative strides, or with more than twice as much memory
    as elements, are copied first. Head dimensions are from 1 to 576.

    mask            bool: True lets a key take part; or floating point, added to the scores: -inf hides a key. A mask
                    of n heads, fewer than query_heads, serves them in turn: query head h has head h % n of it; it has
                    all dimensions of the scores. A mask of kv_heads is refused, as its heads stand for groups of
                    query heads: repeat them.
    is_causal       query i sees the keys j <= i + offset; `align` says which offset.
    align           'top-left' (offset 0, as in PyTorch), 'bottom-right' (offset kv_length - query_length: the
                    last query sees all keys) or a key position. It serves is_causal, window and alibi.
    scale           multiplies the scores. None: 1 / sqrt(head_dim).
    enable_gqa      allows fewer key heads: query head h uses key head h // (query_heads / kv_heads).
    window          (left, right): query i sees the keys i + offset - left to i + offset + right. None or -1: no
                    limit on that side.
    softcap         scores become softcap * tanh(scores / softcap), before the mask.
    alibi           True: subtracts slope * |i + offset - j| with the standard slopes; or the slopes themselves,
                    (query_heads,).
    alibi_times_mask
                    True: the slopes given as alibi multiply the mask instead of the distance; slope * mask is added
                    (max_bias of ggml). -inf in the mask hides its key, whatever the slope is.
    sinks           (query_heads,): one more logit in each softmax, without a value.
    kv_lengths      (...): the number of keys of each batch entry; later keys are hidden.
    cumulative_query_lengths, cumulative_kv_lengths
                    (sequences + 1,): packed sequences. The arrays are then (heads, rows, dim), without batch entries;
                    sequence b has the rows cumulative[b] to cumulative[b + 1] - 1 and sees only its own keys. A mask
                    broadcasts to (sequences, query_heads, longest query_length, longest kv_length).
    dropout         the share of probabilities that is dropped. The others are multiplied by 1 / (1 - dropout).
                    The share is rounded to float32 first. 1 gives zeros.
    dropout_seed    an integer: calls with the same seed drop the same. None: a new seed for each call.
    return_lse      also return the log-sum-exp of each row, float32 (..., query_heads, query_length).
    return_weights  also return the weights of a stage, float32 (..., query_heads, query_length, kv_length):
                    'scores' (scale * query @ key^T), 'softcap' (after it), 'masked' (after mask and alibi) or
                    'probabilities' (after softmax, before dropout). Nothing else here needs memory that grows
                    with query_length * kv_length.
    device          a Device of devices(), its number, or a part of its name. None: VKATTN_DEVICE, or the best.
                    Of vkattn.Arrays it is theirs.
    kernel          lane, lane_decode, tile, decode, matrix or matrix2: use this kernel, or fail with its reason.
    Returns the output, or (output, lse), (output, weights) or (output, lse, weights): NumPy arrays, or vkattn.Arrays
    if query, key or value is one. Packed sequences are in host memory.

    Differences from PyTorch: mask and is_causal may both be given, and then both hold; a row that sees no key
    is 0; masks of float64 are taken, as float32, and only -inf hides: finite numbers beyond float32 become its
    largest number; dropout draws its own bits.

    attn_mask and dropout_p, PyTorch's names, are understood in place of mask and dropout.

    The last 128 problems that differ in a shape, a stride, a type or an option keep their plans, which hold
    compiled shaders. While the device works, other threads run, and their calls on the same device wait. A
    keyboard interrupt takes effect when the call ends.

    Raises vkattn.Error with a sentence and its numbers (also a ValueError if a rule is broken), and TypeError
    for arguments and elements of a wrong type.

        >>> import numpy, vkattn
        >>> q = k = v = numpy.random.rand(1, 8, 512, 64).astype("float32")
        >>> vkattn.attention(q, k, v, is_causal=True).shape
        (1, 8, 512, 64)
    """
    if isinstance(query, Array) or isinstance(key, Array) or isinstance(value, Array):
        if cumulative_query_lengths is not None or cumulative_kv_lengths is not None:
            raise RuleError("packed sequences must be in host memory; give query, key and value as NumPy arrays")
        keywords = dict(is_causal=is_causal, align=align, scale=scale, enable_gqa=enable_gqa, modifiers=modifiers,
                        kv_lengths=kv_lengths, dropout=dropout, return_lse=return_lse, return_weights=return_weights)
        return _on_device(query, key, value, mask, keywords, dropout_seed=dropout_seed, device=device, kernel=kernel)
    problem, layout = _problem.make(
        query, key, value, mask, is_causal=is_causal, align=align, scale=scale, enable_gqa=enable_gqa,
        modifiers=modifiers, kv_lengths=kv_lengths, cumulative_query_lengths=cumulative_query_lengths,
        cumulative_kv_lengths=cumulative_kv_lengths, dropout=dropout, return_lse=return_lse,
        return_weights=return_weights,
    )
    output, lse, weights = _native.attention(
        _problem.session(device), problem, kernel or "", _problem.seed_of(dropout_seed, dropout)
    )
    output = layout.restore(output.view(layout.dtype))
    if lse is None and weights is None:
        return output
    extra = [layout.restore(array) for array in (lse, weights) if array is not None]
    return (output, *extra)
