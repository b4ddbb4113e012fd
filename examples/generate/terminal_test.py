"""Tests what generate shows when it ends early: by a refusal, because memory or the disk is full, and by Ctrl-C.

    terminal_test.py PROGRAM CHECKPOINT GPT2

CHECKPOINT has no table of positions, so that its context can be made long; GPT2 has one. Without a Vulkan device the test ends with 77, and with 1
if VKATTN_TEST_REQUIRE_DEVICE is 1.
"""
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "decoder"))
from terminal_testing import Terminal, skip_without_device  # noqa: E402

PROGRAM, CHECKPOINT, GPT2 = sys.argv[1:4]
LONG = 1 << 20  # tokens


class TerminalTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name + "/model"
        shutil.copytree(CHECKPOINT, self.folder)
        config = pathlib.Path(self.folder, "config.json")
        config.write_text(json.dumps({**json.loads(config.read_text()), "max_position_embeddings": LONG}))

    def start(self, *words):
        terminal = Terminal(self.folder + "/text", PROGRAM, self.folder, *words)
        self.addCleanup(terminal.stop)
        return terminal

    def write_prompts(self, *prompts):
        path = pathlib.Path(self.folder, "prompts")
        path.write_text("\n".join(prompts) + "\n")
        return "--prompt-file", str(path)

    def test_a_refusal_takes_the_place_of_the_progress(self):
        path = pathlib.Path(self.folder, "model.safetensors")
        data = path.read_bytes()
        header = 8 + int.from_bytes(data[:8], "little")
        path.write_bytes(data[:header] + b"\xff" * (len(data) - header))  # NaN in any type
        terminal = self.start("a " * 4000, "--chunk", "16")
        code, lines, text = terminal.end()
        self.assertIn("reading the prompt", terminal.said)
        self.assertEqual((code, text), (1, ""))
        self.assertEqual(lines, ["the logits are no numbers: the checkpoint holds infinities or NaN, or overflows"])

    def test_a_refusal_begins_behind_the_text(self):
        shutil.copytree(GPT2, self.folder, dirs_exist_ok=True)
        path = pathlib.Path(self.folder, "model.safetensors")
        data = bytearray(path.read_bytes())
        header = 8 + int.from_bytes(data[:8], "little")
        tensors = json.loads(data[8:header])
        positions, = (tensor["data_offsets"] for name, tensor in tensors.items() if name.endswith("wpe.weight"))
        nan = header + (positions[0] + positions[1]) // 2  # of the second half of all positions
        data[nan:header + positions[1]] = b"\xff" * (header + positions[1] - nan)
        path.write_bytes(data)
        code, lines, text = self.start("It is a small text", "--tokens", "200").end()
        self.assertEqual(code, 1)
        self.assertEqual(lines, ["the logits are no numbers: the checkpoint holds infinities or NaN, or overflows"])
        self.assertGreater(len(text), 20)
        self.assertTrue(text.endswith("\n"), text[-20:])

    def test_ctrl_c_while_several_prompts_are_read(self):
        terminal = self.start(*self.write_prompts("a " * 30000, "b " * 20000), "--chunk", "16")
        self.assertTrue(terminal.read_until("reading the prompt"), terminal.said)
        terminal.program.send_signal(signal.SIGINT)
        self.assertEqual(terminal.end(), (0, ["interrupted while reading the prompt"], ""))

    def test_ctrl_c_while_several_texts_are_written(self):
        prompts = self.write_prompts("It is a small text", "A model goes on")
        code, _, two_tokens = self.start(*prompts, "--tokens", "2").end()
        self.assertEqual(code, 0)
        # A frame for each dispatch, so that a token takes long on every device.
        terminal = self.start(*prompts, "--tokens", "500", "--frame-budget", "0.01")
        self.assertTrue(terminal.read_until("token [3-9] of each text"), terminal.said)
        terminal.program.send_signal(signal.SIGINT)
        code, lines, text = terminal.end()
        self.assertEqual(code, 0, lines)
        begins, wholes = two_tokens.split("--- prompt "), text.split("--- prompt ")
        self.assertEqual(len(begins), len(wholes))
        for begin, whole in zip(begins, wholes):
            begin = begin.rstrip("\n\ufffd")  # a character that is not finished
            self.assertTrue(whole.startswith(begin), (begin, whole))
        tokens = int(re.search(r"(\d+) tokens written", "\n".join(lines)).group(1))
        self.assertTrue(6 <= tokens < 1000, lines)

    def test_the_second_ctrl_c_ends_the_program_at_once(self):
        prompts = self.write_prompts("It is a small text", "A model goes on")
        for _ in range(5):  # the program may end by itself between the two
            terminal = self.start(*prompts, "--tokens", "500", "--frame-budget", "0.01")
            self.assertTrue(terminal.read_until("token 3 of each text"), terminal.said)
            begin = time.monotonic()
            while terminal.program.poll() is None and time.monotonic() < begin + 60:
                terminal.program.send_signal(signal.SIGINT)
                time.sleep(0.01)
            if terminal.program.wait() == -signal.SIGINT:
                return
        self.fail("it always waited")

    def refusal(self, *words, stdout=subprocess.DEVNULL, **more):
        """Runs with these words, which must end with 1. Returns what is said."""
        run = subprocess.run([PROGRAM, self.folder, *words], stdout=stdout, stderr=subprocess.PIPE, encoding="utf-8", check=False, **more)
        self.assertEqual(run.returncode, 1)
        return run.stderr

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full")
    def test_text_that_cannot_be_written_is_an_error(self):
        for words in (("a",), self.write_prompts("a", "b")):
            with open("/dev/full", "w", encoding="utf-8") as full:
                self.assertEqual(self.refusal(*words, "--tokens", "2", stdout=full),
                                 "standard output cannot be written: No space left on device\n")

    def test_no_memory_is_one_sentence(self):
        prompts = pathlib.Path(self.folder, "prompts")
        prompts.touch()
        os.truncate(prompts, 4 << 30)  # takes no room on the disk
        limit = 512 << 20  # bytes of addresses
        self.assertEqual(self.refusal("--prompt-file", str(prompts),
                                      preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))),
                         "no host memory is left\n")

    def test_a_cache_that_no_binding_holds_is_refused(self):
        said = self.refusal(*self.write_prompts(*["a"] * 32), "--context", str(LONG), "--cache", "f32")
        self.assertRegex(said, f"^a layer's cache of {LONG} keys takes 4294967296 bytes, and maxStorageBufferRange of .* is [0-9]+; ")

    def test_a_refusal_names_one_prompt_of_several(self):
        prompts = pathlib.Path(self.folder, "prompts")
        for second, words in ((b"a\xff", "no tokens: the text is no UTF-8 at its byte 1"),
                              (b"a" * 999, "999 tokens, and a context of 128 has no room for it and a token behind it; "
                                           f"the model knows {LONG} positions")):
            prompts.write_bytes(b"good\n\n" + second + b"\nlast\n")
            self.assertEqual(self.refusal("--prompt-file", str(prompts), "--context", "128"), f"prompt 2 has {words}\n")


if __name__ == "__main__":
    skip_without_device(PROGRAM, CHECKPOINT, "a", "--tokens", "1")
    unittest.main(argv=sys.argv[:1])
