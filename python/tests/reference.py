"""Attention in float64 with NumPy, as docs/semantics.md defines it. It shares no code with the package."""
import numpy as np


def attention(query, key, value, mask=None, *, is_causal=False, align="top-left", scale=None, window=None, softcap=0,
              alibi=None, alibi_times_mask=False, sinks=None, kv_lengths=None):
    """(output, lse, weights by stage) for arrays (batch, heads, length, dim)."""
    q, k, v = (np.asarray(x).astype(np.float64) for x in (query, key, value))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    queries, keys = q.shape[2], k.shape[2]
    offset = {"top-left": 0, "bottom-right": keys - queries}.get(align, align)
    weights = {"scores": (1 / np.sqrt(q.shape[3]) if scale is None else scale) * (q @ np.swapaxes(k, -1, -2))}
    scores = weights["softcap"] = softcap * np.tanh(weights["scores"] / softcap) if softcap else weights["scores"]
    i, j = np.arange(queries)[:, None] + offset, np.arange(keys)[None, :]
    if mask is not None:
        mask = np.asarray(mask)
        if mask.ndim > 2 and mask.shape[-3] != 1:
            mask = np.tile(mask, (q.shape[1] // mask.shape[-3], 1, 1))
        if alibi_times_mask:
            shown = np.where(np.isneginf(mask), 0, mask)
            mask = np.where(np.isneginf(mask), mask, np.asarray(alibi, np.float64)[:, None, None] * shown)
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask.astype(np.float64)
    if alibi is not None and not alibi_times_mask:
        scores = scores - np.asarray(alibi, np.float64)[:, None, None] * np.abs(i - j)
    hidden = np.zeros((q.shape[0], 1, queries, keys), bool)
    if is_causal:
        hidden |= j > i
    if window is not None:
        left, right = window
        hidden |= (j < i - left) if left is not None else False
        hidden |= (j > i + right) if right is not None else False
    if kv_lengths is not None:
        hidden |= j >= np.asarray(kv_lengths)[:, None, None, None]
    scores = weights["masked"] = np.where(hidden, -np.inf, scores)
    logits = scores if sinks is None else np.concatenate(
        [scores, np.broadcast_to(np.asarray(sinks, np.float64)[:, None, None], scores.shape[:3] + (1,))], axis=-1
    )
    with np.errstate(all="ignore"):
        largest = logits.max(axis=-1, keepdims=True, initial=-np.inf)
        exps = np.where(np.isneginf(logits), 0, np.exp(logits - largest))
        total = exps.sum(axis=-1, keepdims=True)
        probabilities = weights["probabilities"] = np.where(total > 0, exps[..., :keys] / total, 0)
        lse = (largest + np.log(total))[..., 0]
    return probabilities @ v, lse, weights


def rotated(rows, positions, *, style="half-split", dims=None, base=10000.0, position_scale=1.0, magnitude=1.0,
            frequencies=None):
    """Rotary embedding of an array (batch, heads, length, dim) at positions (batch, length), in float64."""
    rows = np.asarray(rows).astype(np.float64)
    dims = rows.shape[-1] if dims is None else dims
    half = dims // 2
    if frequencies is None:
        frequencies = position_scale * base ** (-2 * np.arange(half) / dims)
    angles = np.asarray(positions)[:, None, :, None] * np.asarray(frequencies, np.float64)
    first, second = ((slice(0, half), slice(half, dims)) if style == "half-split"
                     else (slice(0, dims, 2), slice(1, dims, 2)))
    x, y, turned = rows[..., first], rows[..., second], rows.copy()
    turned[..., first] = magnitude * (x * np.cos(angles) - y * np.sin(angles))
    turned[..., second] = magnitude * (x * np.sin(angles) + y * np.cos(angles))
    return turned


def multi_head_attention(query, key, value, state, heads, *, kv_heads=None, rotary=None, **keywords):
    """(output, weights of each head) of a layer for inputs (batch, length, elements), in float64."""
    kv_heads = heads if kv_heads is None else kv_heads
    state = {name: np.asarray(x).astype(np.float64) for name, x in state.items()}
    if "in_proj_weight" in state:
        value_width = state["out_proj.weight"].shape[1] // heads * kv_heads
        behind_keys = state["in_proj_weight"].shape[0] - value_width
        behind_queries = behind_keys * heads // (heads + kv_heads)
        weights = np.split(state["in_proj_weight"], [behind_queries, behind_keys])
    else:
        weights = [state[f"{letter}_proj_weight"] for letter in "qkv"]
    biases = [0, 0, 0]
    if "in_proj_bias" in state:
        biases = np.split(state["in_proj_bias"], np.cumsum([w.shape[0] for w in weights])[:2])
    split = []
    for x, weight, bias, count in zip((query, key, value), weights, biases, (heads, kv_heads, kv_heads)):
        rows = np.asarray(x).astype(np.float64) @ weight.T + bias
        split.append(rows.reshape(rows.shape[:2] + (count, -1)).swapaxes(1, 2))
    if rotary is not None:
        positions = np.tile(np.arange(split[0].shape[2]), (split[0].shape[0], 1))
        split[:2] = (rotated(x, positions, **rotary._asdict()) for x in split[:2])
    output, _, stages = attention(*split, **keywords)
    joined = output.swapaxes(1, 2).reshape(output.shape[0], output.shape[2], -1)
    return joined @ state["out_proj.weight"].T + state.get("out_proj.bias", 0), stages["probabilities"]
