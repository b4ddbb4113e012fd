#!/usr/bin/env python3
"""Makes small random checkpoints as model hubs publish them, with what PyTorch computes of them.

    make_checkpoints.py FOLDER [NAME...]     FOLDER/NAME/config.json, model*.safetensors, tokenizer.json, expected.safetensors

expected.safetensors has a prompt's tokens, the tokens that follow greedily, and the logits that chose them, in float64
arithmetic from the stored weights; also the logits of weights in blocks. The models are written from their published descriptions, one line of mathematics each.
Ends with 77 if there is no PyTorch.
"""
import collections
import json
import math
import pathlib
import re
import struct
import sys

try:
    import torch
except ImportError:
    print("PyTorch is not installed")
    sys.exit(77)

CORPUS = (pathlib.Path(__file__).parents[2] / "LICENSE").read_text(encoding="utf-8")[:6000]  # a text that stays as it is
PROMPT = "The cache holds 2048 keys, and it's the window that hides naïve ones:\n  attention is  all you need!"
STEPS = 6
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")

# ---- Tokenizers: byte-level BPE, and BPE over characters as SentencePiece makes it


def byte_letters():
    """GPT-2's letter for each byte: printable ones stand for themselves."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {**{byte: chr(byte) for byte in printable}, **{byte: chr(256 + i) for i, byte in enumerate(others)}}


def merged(symbols, pair):
    out = []
    for symbol in symbols:
        if out and (out[-1], symbol) == pair:
            out[-1] += symbol
        else:
            out.append(symbol)
    return out


def learn_merges(words, count):
    words = collections.Counter(tuple(word) for word in words)
    merges = []
    for _ in range(count):
        pairs = collections.Counter()
        for word, times in words.items():
            for pair in zip(word, word[1:]):
                pairs[pair] += times
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        words = collections.Counter({tuple(merged(word, best)): times for word, times in words.items()})
    return merges


def apply_merges(symbols, merges):
    for pair in merges:
        symbols = merged(symbols, pair)
    return symbols


def split(pattern, text):
    """Python's expressions have no classes of Unicode; these stand for them in this text."""
    for unicode, plain in ((r"[^\s\p{L}\p{N}]", r"(?:[^\s\w]|_)"), (r"[^\r\n\p{L}\p{N}]", r"(?:[^\r\n\w]|_)"),
                           (r"\p{L}", r"[^\W\d_]"), (r"\p{N}", r"\d")):
        pattern = pattern.replace(unicode, plain)
    return [match[0] for match in re.finditer(pattern, text)]


def byte_level(pattern, specials, begin=None, digits=False, normalizer=None, ignore_merges=False):
    """tokenizer.json, and the prompt's tokens."""
    letters = byte_letters()
    spell = lambda word: [letters[byte] for byte in word.encode()]
    pieces = lambda text: [part for piece in (re.findall(r"\d|\D+", text) if digits else [text]) for part in split(pattern, piece)]
    merges = learn_merges(map(spell, pieces(CORPUS)), 48)
    names = [*letters.values(), *("".join(pair) for pair in merges)]
    vocab = {name: i for i, name in enumerate(dict.fromkeys(names))}
    ids = {name: len(vocab) + i for i, name in enumerate(specials)}
    if digits:
        pre = [{"type": "Digits", "individual_digits": True},
               {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]
    else:
        pre = [{"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
               {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]
    pre = {"type": "Sequence", "pretokenizers": pre}
    if pattern == GPT2 and not digits:
        pre = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "fuse_unk": False, "byte_fallback": False,
             "ignore_merges": ignore_merges, "vocab": vocab, "merges": [" ".join(pair) for pair in merges]}
    prompt = [vocab[symbol] for piece in pieces(PROMPT) for symbol in apply_merges(spell(piece), merges)]
    return tokenizer(model, ids, begin, normalizer, pre, {"type": "ByteLevel"}), ([ids[begin]] if begin else []) + prompt


def sentence_piece(specials, begin, is_gemma):
    space = "▁"
    lead = "" if is_gemma else space
    merges = learn_merges([space + word for word in CORPUS.split() if word.isascii()], 40)
    characters = sorted({c for c in CORPUS if c.isascii() and c.isprintable() and c != " "} | {space})
    names = [*specials, *(f"<0x{byte:02X}>" for byte in range(256)), *("".join(pair) for pair in merges), *characters]
    vocab = {name: i for i, name in enumerate(dict.fromkeys(names))}
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": space}
    normalizer = replace if is_gemma else {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": space}, replace]}
    pre = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False} if is_gemma else None
    decoder = [{"type": "Replace", "pattern": {"String": space}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
    if not is_gemma:
        decoder.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    model = {"type": "BPE", "dropout": None, "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True,
             "ignore_merges": False, "vocab": vocab, "merges": [list(pair) for pair in merges]}
    symbols = apply_merges(list(lead + PROMPT.replace(" ", space)), merges)
    prompt = [vocab[begin]]
    for symbol in symbols:
        prompt += [vocab[symbol]] if symbol in vocab else [vocab[f"<0x{byte:02X}>"] for byte in symbol.encode()]
    return tokenizer(model, {name: vocab[name] for name in specials}, begin, normalizer, pre,
                     {"type": "Sequence", "decoders": decoder}), prompt


def tokenizer(model, specials, begin, normalizer, pre, decoder):
    added = [{"id": i, "content": name, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for name, i in specials.items()]
    post = None
    if begin:
        post = {"type": "TemplateProcessing", "pair": [],
                "single": [{"SpecialToken": {"id": begin, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "special_tokens": {begin: {"id": begin, "ids": [specials[begin]], "tokens": [begin]}}}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": normalizer,
            "pre_tokenizer": pre, "post_processor": post, "decoder": decoder, "model": model}


# ---- Models


def norm(x, gain, epsilon):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + epsilon) * gain


def layer_norm(x, gain, bias, epsilon):
    x = x - x.mean(-1, keepdim=True)
    return norm(x, gain, epsilon) + bias


def gelu(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def frequencies(config, dims):
    base, scaling = config.get("rope_theta", 10000.0), config.get("rope_scaling") or {}
    f = base ** (-torch.arange(0, dims, 2, dtype=torch.float64) / dims)
    kind = scaling.get("rope_type", scaling.get("type"))
    if kind == "linear":
        return f / scaling["factor"], 1.0
    original = scaling.get("original_max_position_embeddings")
    if kind == "llama3":  # whole turns within the original context decide
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        smooth = ((original * f / (2 * math.pi) - low) / (high - low)).clamp(0, 1)
        return smooth * f + (1 - smooth) * f / scaling["factor"], 1.0
    if kind == "yarn":
        at = lambda turns: dims * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))
        low, high = max(math.floor(at(32)), 0), min(math.ceil(at(1)), dims - 1)
        ramp = ((torch.arange(dims // 2, dtype=torch.float64) - low) / max(high - low, 0.001)).clamp(0, 1)
        return f * (1 - ramp) + f / scaling["factor"] * ramp, 0.1 * math.log(scaling["factor"]) + 1
    return f, 1.0


def rotate(x, f, magnitude):
    angle = torch.arange(x.shape[1], dtype=torch.float64)[:, None] * f
    a, b = x.chunk(2, -1)
    return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1) * magnitude


def attend(q, k, v, scale, softcap=None, window=None):
    """Heads first. A query head reads the KV head of its group."""
    k, v = (x.repeat_interleave(q.shape[0] // k.shape[0], 0) for x in (k, v))
    scores = q @ k.mT * scale
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    distance = torch.arange(q.shape[1])[:, None] - torch.arange(q.shape[1])
    hidden = (distance < 0) | (distance >= (window or math.inf))
    weights = torch.softmax(scores.masked_fill(hidden, -math.inf), -1)
    return (weights @ v).transpose(0, 1).flatten(1)


def heads(x, dims):
    return x.unflatten(-1, (-1, dims)).transpose(0, 1)


def window_of(config, layer):
    if config["model_type"] == "gemma2":
        return config["sliding_window"] if layer % 2 == 0 else None
    if config["model_type"] == "qwen2":
        return config["sliding_window"] if config["use_sliding_window"] and layer >= config["max_window_layers"] else None
    return config.get("sliding_window")


def llama(config, w, tokens):
    gemma = config["model_type"] == "gemma2"
    width, epsilon = config["hidden_size"], config["rms_norm_eps"]
    dims = config.get("head_dim", width // config["num_attention_heads"])
    f, magnitude = frequencies(config, dims)
    gain = lambda name: w[name + ".weight"] + (1 if gemma else 0)
    linear = lambda x, name: x @ w[name + ".weight"].mT + w.get(name + ".bias", 0)
    scale = config.get("query_pre_attn_scalar", dims) ** -0.5
    x = w["model.embed_tokens.weight"][tokens]
    if gemma:
        x = x * float(torch.tensor(width**0.5).to(getattr(torch, config["torch_dtype"])))
    for i in range(config["num_hidden_layers"]):
        at = f"model.layers.{i}."
        y = norm(x, gain(at + "input_layernorm"), epsilon)
        q, k, v = (heads(linear(y, f"{at}self_attn.{name}_proj"), dims) for name in "qkv")
        y = attend(rotate(q, f, magnitude), rotate(k, f, magnitude), v, scale, config.get("attn_logit_softcapping"),
                   window_of(config, i))
        y = linear(y, at + "self_attn.o_proj")
        x = x + (norm(y, gain(at + "post_attention_layernorm"), epsilon) if gemma else y)
        y = norm(x, gain(at + ("pre_feedforward_layernorm" if gemma else "post_attention_layernorm")), epsilon)
        gate = (gelu if gemma else torch.nn.functional.silu)(linear(y, at + "mlp.gate_proj"))
        y = linear(gate * linear(y, at + "mlp.up_proj"), at + "mlp.down_proj")
        x = x + (norm(y, gain(at + "post_feedforward_layernorm"), epsilon) if gemma else y)
    y = norm(x, gain("model.norm"), epsilon)
    logits = y @ w.get("lm_head.weight", w["model.embed_tokens.weight"]).mT
    cap = config.get("final_logit_softcapping")
    return cap * torch.tanh(logits / cap) if cap else logits


def gpt2(config, w, tokens):
    dims, epsilon = config["n_embd"] // config["n_head"], config["layer_norm_epsilon"]
    linear = lambda x, name: x @ w[name + ".weight"] + w[name + ".bias"]
    normed = lambda x, name: layer_norm(x, w[name + ".weight"], w[name + ".bias"], epsilon)
    x = w["wte.weight"][tokens] + w["wpe.weight"][: len(tokens)]
    for i in range(config["n_layer"]):
        q, k, v = (heads(y, dims) for y in linear(normed(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn").chunk(3, -1))
        x = x + linear(attend(q, k, v, dims**-0.5), f"h.{i}.attn.c_proj")
        x = x + linear(gelu(linear(normed(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc")), f"h.{i}.mlp.c_proj")
    return normed(x, "ln_f") @ w["wte.weight"].mT


def shapes(config):
    """Each tensor's name and shape, as published."""
    if config["model_type"] == "gpt2":
        width, inner = config["n_embd"], config.get("n_inner") or 4 * config["n_embd"]
        found = {"wte.weight": (config["vocab_size"], width), "wpe.weight": (config["n_positions"], width)}
        for i in range(config["n_layer"]):
            for name, a, b in (("attn.c_attn", width, 3 * width), ("attn.c_proj", width, width), ("mlp.c_fc", width, inner),
                               ("mlp.c_proj", inner, width)):
                found |= {f"h.{i}.{name}.weight": (a, b), f"h.{i}.{name}.bias": (b,)}
            for name in ("ln_1", "ln_2"):
                found |= {f"h.{i}.{name}.weight": (width,), f"h.{i}.{name}.bias": (width,)}
        return found | {"ln_f.weight": (width,), "ln_f.bias": (width,)}
    width, inner = config["hidden_size"], config["intermediate_size"]
    dims = config.get("head_dim", width // config["num_attention_heads"])
    q, kv = config["num_attention_heads"] * dims, config["num_key_value_heads"] * dims
    found = {"model.embed_tokens.weight": (config["vocab_size"], width), "model.norm.weight": (width,)}
    norms = ["input_layernorm", "post_attention_layernorm"]
    if config["model_type"] == "gemma2":
        norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
    for i in range(config["num_hidden_layers"]):
        at = f"model.layers.{i}."
        found |= {f"{at}{name}.weight": (width,) for name in norms}
        for name, a, b in (("self_attn.q_proj", q, width), ("self_attn.k_proj", kv, width), ("self_attn.v_proj", kv, width),
                           ("self_attn.o_proj", width, q), ("mlp.gate_proj", inner, width), ("mlp.up_proj", inner, width),
                           ("mlp.down_proj", width, inner)):
            found[f"{at}{name}.weight"] = (a, b)
            if config["model_type"] == "qwen2" and name[-6:] in ("q_proj", "k_proj", "v_proj"):
                found[f"{at}{name}.bias"] = (a,)
    return found if config["tie_word_embeddings"] else found | {"lm_head.weight": (config["vocab_size"], width)}


def draw(config, seed):
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name, shape in shapes(config).items():
        values = torch.randn(shape, generator=generator, dtype=torch.float64)
        is_norm = re.search(r"norm|ln_", name) is not None
        if len(shape) == 1:
            centre = 1 if is_norm and name.endswith("weight") else 0  # Gemma adds another 1
            values = centre + 0.2 * values
        elif re.search("embed|wte|lm_head|wpe", name):
            values = values * (0.3 if "wpe" in name else 0.2 if config["model_type"] == "gemma2" else 0.5)
        else:
            values = values * 1.5 / math.sqrt(shape[0] if config["model_type"] == "gpt2" else shape[1])
        weights[name] = values.to(getattr(torch, config["torch_dtype"]))
    return weights


# ---- Files


def write_safetensors(path, tensors, metadata):
    header, data = {"__metadata__": metadata}, b""
    names = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64"}
    for name, tensor in tensors.items():
        raw = tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.dim() else b""
        header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_weights(folder, weights, shards):
    if shards == 1:
        write_safetensors(folder / "model.safetensors", weights, {"format": "pt"})
        return
    names, index = list(weights), {}
    for i in range(shards):
        file = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        part = names[i * len(names) // shards : (i + 1) * len(names) // shards]
        write_safetensors(folder / file, {name: weights[name] for name in part}, {"format": "pt"})
        index |= dict.fromkeys(part, file)
    total = sum(tensor.numel() * tensor.element_size() for tensor in weights.values())
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": total}, "weight_map": index}))


def in_blocks(matrix, kind):
    """What blocks of 32 along the last dimension keep of a matrix, as llama.cpp's formats are defined."""
    x = matrix.float().reshape(-1, 32)
    if kind == "q8_0":
        d = x.abs().amax(1, keepdim=True) / 127
        codes = x.sign() * (x.abs() * (1 / d) + 0.5).floor()
    else:
        d = x.gather(1, x.abs().argmax(1, keepdim=True)) / -8
        codes = (x * (1 / d) + 8.5).floor().clamp(max=15) - 8
    return (codes.double() * d.half().double()).reshape(matrix.shape)


def quantised(config, weights, kind):
    """The matrices of layers, and a head of its own, in blocks along their inputs."""
    found = {}
    for name, tensor in weights.items():
        stays = tensor.dim() == 1 or re.search("embed|wte|wpe", name)
        turned = config["model_type"] == "gpt2"
        found[name] = tensor if stays else in_blocks(tensor.mT.contiguous(), kind).mT if turned else in_blocks(tensor, kind)
    return found


def forward(config, weights, tokens):
    model = gpt2 if config["model_type"] == "gpt2" else llama
    return model(config, {name: tensor.double() for name, tensor in weights.items()}, torch.tensor(tokens))


def greedy(config, weights, prompt):
    """Tokens and logits, and by how much each token leads."""
    tokens, rows, lead = list(prompt), [], math.inf
    for _ in range(STEPS):
        logits = forward(config, weights, tokens)[-1]
        best = logits.topk(2).values
        lead = min(lead, float(best[0] - best[1]))
        rows.append(logits)
        tokens.append(int(logits.argmax()))
    return tokens[len(prompt) :], torch.stack(rows), lead


def make(folder, name, config, made, shards=1):
    """The first seed whose tokens no rounding of 16 bits changes."""
    tokenizer_json, prompt = made
    config = {**config, "vocab_size": 1 + max([*tokenizer_json["model"]["vocab"].values(),
                                               *(token["id"] for token in tokenizer_json["added_tokens"])])}
    for seed in range(100):
        weights = draw(config, seed)
        tokens, logits, lead = greedy(config, weights, prompt)
        if lead > 0.1 and len(set(tokens)) > STEPS // 2:
            break
    else:
        sys.exit(f"{name}: no seed below 100 gives tokens that lead by 0.1")
    folder = folder / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json, ensure_ascii=False), encoding="utf-8")
    write_weights(folder, weights, shards)
    expected = {"prompt": torch.tensor(prompt), "greedy": torch.tensor(tokens), "logits": logits.float()}
    for kind in ("q8_0", "q4_0"):
        rows = forward(config, quantised(config, weights, kind), prompt + tokens[:-1])[-STEPS:]
        expected[f"logits_{kind}"] = rows.float()
    write_safetensors(folder / "expected.safetensors", expected, {"prompt": PROMPT})
    print(f"{name}: {sum(t.numel() for t in weights.values())} parameters, {len(prompt)} tokens, seed {seed}, lead {lead:.2f}")


LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32, "intermediate_size": 32,
         "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32, "hidden_act": "silu",
         "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "max_position_embeddings": 256, "tie_word_embeddings": True,
         "bos_token_id": None, "eos_token_id": None, "torch_dtype": "float16"}


def families():
    scaled = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
    llama2 = sentence_piece(["<unk>", "<s>", "</s>"], "<s>", False)
    return {
        "llama3": ({**LLAMA, "rope_theta": 500000.0, "rope_scaling": scaled, "tie_word_embeddings": False},
                   byte_level(LLAMA3, ["<|begin_of_text|>", "<|end_of_text|>"], "<|begin_of_text|>", ignore_merges=True)),
        "gemma2": ({**LLAMA, "architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "hidden_activation": "gelu_pytorch_tanh",
                    "sliding_window": 16, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
                    "query_pre_attn_scalar": 24}, sentence_piece(["<pad>", "<eos>", "<bos>", "<unk>"], "<bos>", True)),
        "gpt2": ({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 1,
                  "n_positions": 256, "n_ctx": 256, "n_inner": 32, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new",
                  "torch_dtype": "float16"}, byte_level(GPT2, ["<|endoftext|>"])),
        "llama2": ({**LLAMA, "torch_dtype": "float32", "num_key_value_heads": 2, "tie_word_embeddings": False,
                    "rope_scaling": {"type": "linear", "factor": 2.0}}, llama2),
        "smollm2": ({**LLAMA, "torch_dtype": "bfloat16"}, byte_level(GPT2, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], digits=True)),
        "mistral": ({**LLAMA, "architectures": ["MistralForCausalLM"], "model_type": "mistral", "torch_dtype": "bfloat16",
                     "sliding_window": 16, "tie_word_embeddings": False}, llama2),
        "qwen2": ({**LLAMA, "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "torch_dtype": "float32",
                   "use_sliding_window": False, "sliding_window": 16, "max_window_layers": 1, "rope_scaling": yarn},
                  byte_level(QWEN2, ["<|endoftext|>"], normalizer={"type": "NFC"}), 3),
    }


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    made = families()
    for name in sys.argv[2:] or made:
        if name not in made:
            sys.exit(f"no model '{name}'; there are {', '.join(made)}")
        make(pathlib.Path(sys.argv[1]), name, *made[name])


if __name__ == "__main__":
    main()
