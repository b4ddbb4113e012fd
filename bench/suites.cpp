// The suites. Shapes come from the models' published configurations. A decode step attends to a cache that
// ends with its own token. A prefill is causal.
#include "suites.hpp"

#include <array>

namespace vkattn::bench {
namespace {

// Takes seconds on any device: every storage type, both kinds of head, a prefill, a decode step, odd sizes.
constexpr std::array kSmoke = {
    SuiteProblem{"square", "b1 h8 512x512 d64 f32"},
    SuiteProblem{"square causal", "b1 h8 512x512 d64 f32 causal"},
    SuiteProblem{"square float16", "b1 h8 512x512 d64 f16"},
    SuiteProblem{"square bfloat16", "b1 h8 512x512 d64 bf16"},
    SuiteProblem{"grouped heads, d128", "b1 hq8 hkv2 256x512 d128 f16 causal align=bottom-right"},
    SuiteProblem{"decode", "b1 hq32 hkv8 q1 kv1024 d128 f16"},
    SuiteProblem{"odd sizes", "b2 h3 197x211 d80 dv48 f32 lse"},
};

constexpr std::array kLlm = {
    SuiteProblem{"GPT-2 prefill 1024", "b1 h12 1024x1024 d64 f16 causal"},
    SuiteProblem{"GPT-2 decode 1024", "b1 h12 q1 kv1024 d64 f16"},
    SuiteProblem{"Llama-3 8B prefill 512", "b1 hq32 hkv8 512x512 d128 f16 causal"},
    SuiteProblem{"Llama-3 8B prefill 2048", "b1 hq32 hkv8 2048x2048 d128 f16 causal"},
    SuiteProblem{"Llama-3 8B prefill 4096", "b1 hq32 hkv8 4096x4096 d128 f16 causal"},
    SuiteProblem{"Llama-3 8B chunk 256+3840", "b1 hq32 hkv8 256x4096 d128 f16 causal align=bottom-right"},
    SuiteProblem{"Llama-3 8B decode 4096", "b1 hq32 hkv8 q1 kv4096 d128 f16"},
    SuiteProblem{"Llama-3 8B decode 32768", "b1 hq32 hkv8 q1 kv32768 d128 f16"},
    SuiteProblem{"Llama-3 8B decode 4096 x8", "b8 hq32 hkv8 q1 kv4096 d128 f16"},
    SuiteProblem{"Gemma 2B prefill 1024", "b1 hq8 hkv1 1024x1024 d256 f16 causal"},
    SuiteProblem{"Gemma 2B decode 4096", "b1 hq8 hkv1 q1 kv4096 d256 f16"},
    SuiteProblem{"Gemma 2 9B prefill 1024", "b1 hq16 hkv8 1024x1024 d256 f16 causal"},
    SuiteProblem{"Gemma 2 9B decode 4096", "b1 hq16 hkv8 q1 kv4096 d256 f16"},
    SuiteProblem{"DeepSeek-V2 Lite prefill 512", "b1 hq16 hkv1 512x512 d576 dv512 f16 causal"},
    SuiteProblem{"DeepSeek-V2 Lite decode 4096", "b1 hq16 hkv1 q1 kv4096 d576 dv512 f16"},
    SuiteProblem{"DeepSeek-V3 prefill 512", "b1 h128 512x512 d192 dv128 f16 causal"},
    SuiteProblem{"DeepSeek-V3 decode 4096", "b1 hq128 hkv1 q1 kv4096 d576 dv512 f16"},
};

constexpr std::array kDiffusion = {
    SuiteProblem{"SD 1.5 self 64x64", "b1 h8 4096x4096 d40 f16"},
    SuiteProblem{"SD 1.5 self 32x32", "b1 h8 1024x1024 d80 f16"},
    SuiteProblem{"SD 1.5 self 16x16", "b1 h8 256x256 d160 f16"},
    SuiteProblem{"SD 1.5 cross 64x64", "b1 h8 4096x77 d40 f16"},
    SuiteProblem{"SD 1.5 cross 32x32", "b1 h8 1024x77 d80 f16"},
    SuiteProblem{"SD 1.5 cross 16x16", "b1 h8 256x77 d160 f16"},
    SuiteProblem{"SDXL self 64x64", "b1 h10 4096x4096 d64 f16"},
    SuiteProblem{"SDXL self 32x32", "b1 h20 1024x1024 d64 f16"},
    SuiteProblem{"SDXL cross 64x64", "b1 h10 4096x77 d64 f16"},
    SuiteProblem{"SDXL cross 32x32", "b1 h20 1024x77 d64 f16"},
    SuiteProblem{"Flux joint 1024 px", "b1 h24 4608x4608 d128 bf16"},
};

constexpr std::array kVision = {
    SuiteProblem{"ViT-B/16, batch 8", "b8 h12 197x197 d64 f16"},
    SuiteProblem{"ViT-L/14 (CLIP)", "b1 h16 257x257 d64 f16"},
    SuiteProblem{"Whisper large encoder", "b1 h20 1500x1500 d64 f16"},
    SuiteProblem{"Whisper large decoder self", "b1 h20 448x448 d64 f16 causal"},
    SuiteProblem{"Whisper large cross, prompt", "b1 h20 448x1500 d64 f16"},
    SuiteProblem{"Whisper large cross, token", "b1 h20 q1 kv1500 d64 f16"},
};

// Problems that fit into a frame beside the renderer's work.
constexpr std::array kGame = {
    SuiteProblem{"agents, 64 tokens", "b1 h4 64x64 d16 f32"},
    SuiteProblem{"agents, 128 tokens", "b1 h4 128x128 d32 f32"},
    SuiteProblem{"32 agents, 64 tokens", "b32 h2 64x64 d16 f16"},
    SuiteProblem{"dialogue, 256 tokens", "b1 h8 256x256 d32 f16 causal"},
    SuiteProblem{"dialogue, next token", "b1 h8 q1 kv256 d32 f16"},
    SuiteProblem{"motion, 96 frames", "b4 h4 96x96 d64 f16"},
    SuiteProblem{"denoiser tile, 16x16", "b16 h4 256x256 d24 f16"},
};

// The cost and the saving of features. Each stands next to a problem to compare it with. A prefix is keys
// that come before the first query. Cross-attention has keys of its own.
constexpr std::array kFeatures = {
    SuiteProblem{"plain 2048", "b1 h8 2048x2048 d64 f32"},
    SuiteProblem{"mask, 75 % of blocks hidden", "b1 h8 2048x2048 d64 f32 mask=bits hidden=0.75 block=128"},
    SuiteProblem{"mask, nothing hidden", "b1 h8 2048x2048 d64 f32 mask=bits hidden=0"},
    SuiteProblem{"softcap", "b1 h8 2048x2048 d64 f32 softcap=50"},
    SuiteProblem{"ALiBi", "b1 h8 2048x2048 d64 f32 alibi"},
    SuiteProblem{"ALiBi as a score function", "b1 h8 2048x2048 d64 f32 score=alibi"},
    SuiteProblem{"bias by distance", "b1 h8 2048x2048 d64 f32 score=bias"},
    SuiteProblem{"8 documents", "b1 h8 2048x2048 d64 f32 score=documents"},
    SuiteProblem{"prefix of a language model", "b1 h8 2048x2048 d64 f32 score=prefix"},
    SuiteProblem{"sinks", "b1 h8 2048x2048 d64 f32 sinks"},
    SuiteProblem{"dropout", "b1 h8 2048x2048 d64 f32 dropout=0.1"},
    SuiteProblem{"chunk of 16384 keys", "b1 h2 2048x16384 d64 f32 causal align=bottom-right"},
    SuiteProblem{"the same, window of 512",
                 "b1 h2 2048x16384 d64 f32 causal align=bottom-right window=511,-1"},
    SuiteProblem{
        "window of 512 and a mask",
        "b1 h2 2048x16384 d64 f32 causal align=bottom-right window=511,-1 mask=bytes hidden=0.5 block=64"},
    SuiteProblem{"prefix of 1536 keys", "b1 h8 512x2048 d64 f32 causal align=bottom-right"},
    SuiteProblem{"cross-attention, 77 keys", "b1 h8 1024x77 d64 f32"},
    SuiteProblem{"packed sequences",
                 "b4 h8 512x512 d64 f32 causal sequences query_lengths=512,100,300,64 "
                 "kv_lengths=512,100,300,64"},
    SuiteProblem{"mixed prefill and decode",
                 "b4 h8 512x2048 d64 f32 causal align=bottom-right sequences=queries "
                 "query_lengths=512,1,1,1 kv_lengths=512,2048,1500,900 page=16"},
    SuiteProblem{"decode, float16", "b1 hq32 hkv8 q1 kv4096 d128 f16"},
    SuiteProblem{"decode, q8_0", "b1 hq32 hkv8 q1 kv4096 d128 f16 cache=q8_0"},
    SuiteProblem{"decode, q4_0", "b1 hq32 hkv8 q1 kv4096 d128 f16 cache=q4_0"},
    SuiteProblem{"decode, float8", "b1 hq32 hkv8 q1 kv4096 d128 f16 cache=e4m3"},
    SuiteProblem{"decode, pages of 16", "b1 hq32 hkv8 q1 kv4096 d128 f16 page=16"},
    SuiteProblem{"decode, pages of 64", "b1 hq32 hkv8 q1 kv4096 d128 f16 page=64"},
    SuiteProblem{"prefill, contiguous", "b1 h8 1024x1024 d64 f16 causal"},
    SuiteProblem{"prefill, pages of 16", "b1 h8 1024x1024 d64 f16 causal page=16"},
};

// Problems that papers on attention time on large GPUs.
constexpr std::array kLarge = {
    SuiteProblem{"prefill 4096", "b4 h32 4096x4096 d128 f16"},
    SuiteProblem{"prefill 4096 causal", "b4 h32 4096x4096 d128 f16 causal"},
    SuiteProblem{"prefill 16384", "b4 h32 16384x16384 d128 f16"},
    SuiteProblem{"prefill 16384 causal", "b4 h32 16384x16384 d128 f16 causal"},
    SuiteProblem{"decode 4096", "b1 hq32 hkv8 q1 kv4096 d128 f16"},
    SuiteProblem{"decode 32768", "b1 hq32 hkv8 q1 kv32768 d128 f16"},
    SuiteProblem{"decode 131072", "b1 hq32 hkv8 q1 kv131072 d128 f16"},
};

// The backward passes of a training step. The report compares them with their forward passes.
constexpr std::array kTraining = {
    SuiteProblem{"backward 1024", "b1 h8 1024x1024 d64 f32 backward"},
    SuiteProblem{"backward 1024, d128", "b1 h8 1024x1024 d128 f32 backward"},
    SuiteProblem{"backward 2048", "b1 h8 2048x2048 d64 f32 backward"},
    SuiteProblem{"backward 2048, d128", "b1 h8 2048x2048 d128 f32 backward"},
    SuiteProblem{"GPT-2 backward 1024", "b1 h12 1024x1024 d64 f16 causal backward"},
    SuiteProblem{"Llama-3 8B backward 2048", "b1 hq32 hkv8 2048x2048 d128 bf16 causal backward"},
    SuiteProblem{"BERT backward, dropout",
                 "b4 h12 512x512 d64 f16 dropout=0.1 kv_lengths=512,384,200,64 backward"},
};

// The projections around attention and their gradients, and square products to compare devices with.
constexpr std::array kProjections = {
    SuiteProblem{"matmul 512", "matmul 512x512x512 f32"},
    SuiteProblem{"matmul 1024", "matmul 1024x1024x1024 f32"},
    SuiteProblem{"matmul 512, float16", "matmul 512x512x512 f16"},
    SuiteProblem{"matmul 1024, float16", "matmul 1024x1024x1024 f16"},
    SuiteProblem{"GPT-2 QKV, 1024 tokens", "matmul 1024x2304x768 f16 bias"},
    SuiteProblem{"GPT-2 QKV, of X", "matmul 1024x768x2304 f16 transposed=b"},
    SuiteProblem{"GPT-2 QKV, of W", "matmul 768x2304x1024 f16 output=f32 transposed=a"},
    SuiteProblem{"GPT-2 QKV, of the bias", "matmul 1x2304x1024 f16 a=ones output=f32"},
    SuiteProblem{"Llama-3 8B Q, a token", "matmul 1x4096x4096 f16"},
    SuiteProblem{"Llama-3 8B Q, a token, q8_0", "matmul 1x4096x4096 f16 b=q8_0"},
    SuiteProblem{"Llama-3 8B Q, 512, q4_0", "matmul 512x4096x4096 f16 b=q4_0"},
};

const std::array kSuites = {
    Suite{"smoke", "a few seconds on any device", kSmoke},
    Suite{"llm", "GPT-2, Llama-3, Gemma and DeepSeek: prefill and decode", kLlm},
    Suite{"diffusion", "Stable Diffusion 1.5 and XL, Flux", kDiffusion},
    Suite{"vision", "ViT, CLIP and Whisper", kVision},
    Suite{"game", "64 to 256 tokens with small heads", kGame},
    Suite{"features", "masks, windows, caches and quantised keys beside plain problems", kFeatures},
    Suite{"training", "backward passes, and how many times their forward passes they take", kTraining},
    Suite{"projections", "matrix multiplications around attention, and their gradients", kProjections},
    Suite{"large", "long prefills and decodes that fill a large GPU", kLarge},
};

}  // namespace

std::span<const Suite> suites() {
  return kSuites;
}

const Suite* find_suite(std::string_view name) {
  for (const Suite& suite : kSuites) {
    if (suite.name == name) return &suite;
  }
  return nullptr;
}

}  // namespace vkattn::bench
