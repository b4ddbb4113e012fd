"""Tests of the window's tab of a model that writes, under Xvfb.

    model_test.py PROGRAM FOLDER HAS_VALIDATION GENERATE CHECKPOINTS LAYERS

GENERATE is examples/generate; CHECKPOINTS has gpt2 and smollm2 as its tests read them; LAYERS is the folder of the layer whose
devices are lost.
"""
import functools
import json
import math
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest

import testing
from testing import MAPS, difference, run

GENERATE, CHECKPOINTS, LAYERS = sys.argv[4:7]
PROMPT = "It is a small text, and the model goes on."
BEGIN = "click text\nkey ctrl+a\ntype " + PROMPT + "\nkey enter\n"
QUICKLY = "click budget 1\n"  # 8 ms a frame


def checkpoint(name):
    return ["--model", str(pathlib.Path(CHECKPOINTS, name))]


@functools.lru_cache
def written_by_generate(name):
    """What the likeliest tokens say, up to 64 tokens with the prompt, on one line."""
    said = subprocess.run([GENERATE, checkpoint(name)[1], PROMPT, "--context", "64", "--cache", "f32"], check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8").stdout
    assert said.startswith(PROMPT) and said.endswith("\n")
    return re.sub("[\x00-\x1f\x7f]", " ", said[len(PROMPT):-1])


class Tensors:
    """A safetensors file of float16."""

    def __init__(self, path):
        data = path.read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        self.header, self.data = json.loads(data[8:8 + length]), data[8 + length:]

    def rows(self, name):
        """A tensor's rows; of a vector the one row."""
        entry = self.header.get(name) or self.header["transformer." + name]
        assert entry["dtype"] == "F16"
        begin, end = entry["data_offsets"]
        values, width = struct.unpack(f"<{(end - begin) // 2}e", self.data[begin:end]), entry["shape"][-1]
        return [values[i:i + width] for i in range(0, len(values), width)]


def gpt2_weights(tokens, row):
    """The attention weights of the first layer's only head for one row, by the formula."""
    file = Tensors(pathlib.Path(CHECKPOINTS, "gpt2", "model.safetensors"))
    embedding, positions = file.rows("wte.weight"), file.rows("wpe.weight")
    gain, bias = file.rows("h.0.ln_1.weight")[0], file.rows("h.0.ln_1.bias")[0]
    matrix, added = file.rows("h.0.attn.c_attn.weight"), file.rows("h.0.attn.c_attn.bias")[0]
    width = len(gain)

    def projected(place, first):
        x = [a + b for a, b in zip(embedding[tokens[place]], positions[place])]
        mean = sum(x) / width
        deviation = math.sqrt(sum((each - mean) ** 2 for each in x) / width + 1e-5)
        x = [(each - mean) / deviation * g + b for each, g, b in zip(x, gain, bias)]
        return [sum(x[i] * matrix[i][first + j] for i in range(width)) + added[first + j] for j in range(width)]
    query = projected(row, 0)
    scores = [sum(a * b for a, b in zip(query, projected(key, width))) / math.sqrt(width) for key in range(row + 1)]
    parts = [math.exp(each - max(scores)) for each in scores]
    return [each / sum(parts) for each in parts]


class Model(testing.WindowTest):
    def writes(self, name, script, *words, **environment):
        """Runs a script that begins the text, which must become generate's."""
        done = self.ends_well(script, [*checkpoint(name), *words], **environment)
        self.assertIn("written: " + written_by_generate(name) + "\n", done.said)
        self.assertEqual(len(re.search("tokens:(( [0-9]+)+)", done.said)[1].split()), 64)
        return done

    def test_writes_as_generate_does(self):
        for name, quickly, budget in ("gpt2", QUICKLY, "8.00 ms"), ("smollm2", "", "2.00 ms"):
            done = self.writes(name, quickly + BEGIN + f"wait 30\nscreenshot PICTURES/{name}_early.png\nwait ready\nwait 4\n"
                               f"screenshot PICTURES/{name}.png\ncheck\nclick layer 0\nwait 4\n"
                               f"screenshot PICTURES/{name}_first_layer.png\nwords WORDS/{name}.words\ncheck\n")
            self.assertEqual(len(self.differences(done.said)), 2, done.said)
            self.assertIn("allocations in record(): 0", done.said)
            shown = done.pictures
            self.assertGreater(difference(shown[name + "_early"], shown[name], MAPS), 3)
            self.assertGreater(difference(shown[name + "_first_layer"], shown[name], MAPS), 1)
            for text in ("head 0", "The maps have room for 64 tokens.", "layers: 2", "the likeliest token", budget, " 64 read",
                         "Write"):
                self.assertIn(text, done.words[name])
            self.assertIn(PROMPT.split()[0], done.words[name])

    def test_numbers_on_the_screen_are_those_of_the_formula(self):
        points = [(0.37, 0.43), (0.1, 0.99), (0.6, 0.71), (0.02, 0.3), (0.005, 0.005)]
        script = QUICKLY + BEGIN + "wait ready\nclick layer 0\n"
        for i, (x, y) in enumerate(points):
            script += f"hover head0 {x} {y}\nwait 5\nwords WORDS/{i}.words\n"
        done = self.writes("gpt2", script)
        tokens = [int(each) for each in re.search("tokens:(.*)", done.said)[1].split()]
        for i in range(len(points)):
            row = int(re.search(r"head 0, query '.*' \((\d+)\)\n", done.words[str(i)])[1])
            found = re.search(r"weight of key '.*' \((\d+)\): (\d\.\d{4})     sum of the row: 1\.0000", done.words[str(i)])
            self.assertAlmostEqual(float(found[2]), gpt2_weights(tokens, row)[int(found[1])], delta=1e-4)

    def test_resizes_and_hides_while_it_writes_under_validation(self):
        script = BEGIN
        for i in range(20):
            script += f"resize {320 + 97 * i % 1200} {240 + 61 * i % 700}\n"
        script += "resize 1280 720\nwait 3\nminimise\nwait 3\nrestore\nclick crowd_tab\nwait 10\nclick text_tab\n"
        script += "hover head0 0.2 0.2\nwait ready\nwait 4\ncheck\n"
        done = self.writes("smollm2", script, "--validate")
        self.assertEqual(len(self.differences(done.said)), 1, done.said)
        self.skip_without_validation()

    def test_ends_of_prompts_and_sliders(self):
        done = self.ends_well("""
wait ready
words WORDS/begin.words
click text
key ctrl+a
key backspace
click write
wait ready
words WORDS/no_token.words
click text
type x
key enter
wait 8
click budget 0
click temperature 1
wait 20
click write
wait ready
words WORDS/stopped.words
check
click text
key ctrl+a
repeat 10000 ab
key enter
wait ready
words WORDS/many_tokens.words
click text
key ctrl+a
type y
key enter
click budget 1
click layer 1
wait 6
key enter
wait ready
check
words WORDS/hot.words
""", checkpoint("gpt2"))
        self.assertEqual(len(self.differences(done.said)), 2, done.said)
        self.assertIn("There is no token to continue: type a text.", done.words["no_token"])
        self.assertRegex(done.words["many_tokens"], r"The prompt has \d{4,5} tokens, and there is room for 64 with those")
        self.assertIn("0.05 ms", done.words["stopped"])
        self.assertNotIn("The maps have room", done.words["stopped"])
        self.assertRegex(done.words["stopped"], r", [0-5]?[0-9] written")
        self.assertIn("The maps have room for 64 tokens.", done.words["hot"])

    def test_a_device_that_is_lost_while_it_writes(self):
        layer = {"VK_INSTANCE_LAYERS": "VK_LAYER_vkattn_lost_device", "VK_ADD_LAYER_PATH": LAYERS, "VK_LAYER_PATH": LAYERS}
        for kind, after, where in (("AFTER", 20, ""), ("AFTER", 60, "vkQueueSubmit after [1-9]"),
                                   ("AFTER_CREATIONS", 20, "vkCreateBuffer after 0 frames"), ("AFTER_CREATIONS", 70, "")):
            done = self.writes("gpt2", QUICKLY + BEGIN + "wait ready\ncheck\n", **{"VKATTN_TEST_LOST_" + kind: str(after)}, **layer)
            self.assertRegex(done.said, "The device was lost in " + where)
            self.assertEqual(len(self.differences(done.said)), 1, done.said)

    def test_refusals(self):
        with tempfile.TemporaryDirectory() as folder:
            made = pathlib.Path(folder, "made")
            made.mkdir()
            config = json.loads(pathlib.Path(CHECKPOINTS, "gpt2", "config.json").read_text(encoding="utf-8"))

            def broken(**changes):
                for name in "tokenizer.json", "model.safetensors":
                    (made / name).write_bytes(pathlib.Path(CHECKPOINTS, "gpt2", name).read_bytes())
                (made / "config.json").write_text(json.dumps({**config, **changes}), encoding="utf-8")
            self.says_one_line("^/nowhere/config.json cannot be read", ["--model", "/nowhere"])
            self.says_one_line("config.json cannot be read", ["--model", folder])
            broken(architectures=["RwkvForCausalLM"])
            self.says_one_line("RwkvForCausalLM", ["--model", str(made)])
            broken(n_embd=64)
            self.says_one_line("the tensor '.*' is .* and config.json makes it", ["--model", str(made)])
            broken()
            torn = made / "model.safetensors"
            torn.write_bytes(torn.read_bytes()[:5000])
            self.says_one_line("model.safetensors", ["--model", str(made)])
            (made / "tokenizer.json").write_text("{", encoding="utf-8")
            self.says_one_line("tokenizer.json", ["--model", str(made)])


if __name__ == "__main__":
    testing.main()
