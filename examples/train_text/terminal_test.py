"""Tests that train_text keeps what it has learned when Ctrl-C ends it.

    terminal_test.py PROGRAM

Without a Vulkan device the test ends with 77, and with 1 if VKATTN_TEST_REQUIRE_DEVICE is 1.
"""
import pathlib
import re
import signal
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "decoder"))
from terminal_testing import Terminal, skip_without_device  # noqa: E402

PROGRAM = sys.argv[1]
SMALL = "--layers", "1", "--heads", "1", "--d-model", "8", "--context", "8", "--batch", "1"


class TerminalTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "book.txt").write_text("a key and a query\n" * 50)

    def start(self, *words):
        output = "--output", str(self.folder / "made")
        terminal = Terminal(self.folder / "text", PROGRAM, str(self.folder / "book.txt"), *output, *words)
        self.addCleanup(terminal.stop)
        return terminal

    def interrupted(self, *words):
        """A training that has been told to end after some steps."""
        terminal = self.start("--steps", "1000000", *words)
        self.assertTrue(terminal.read_until("step ([3-9]|[0-9]{2,}):"), terminal.said)
        terminal.program.send_signal(signal.SIGINT)
        return terminal

    def steps_after_resume(self, steps):
        """The steps of the training once it has gone on up to `steps`."""
        code, _, text = self.start("--resume", "--steps", str(steps), "--sample", "0").end()
        self.assertEqual(code, 0)
        return int(re.search("^step ([0-9]+): loss", text, re.MULTILINE).group(1))

    def test_ctrl_c_saves_and_does_the_rest(self):
        code, lines, text = self.interrupted(*SMALL, "--sample", "5").end()
        self.assertEqual(code, 0, lines)
        self.assertIn("finishing the step, then saving to", lines[0])
        steps = int(re.search("^step ([0-9]+): loss", text, re.MULTILINE).group(1))
        self.assertGreaterEqual(steps, 3)
        self.assertIn("A sample:", text)
        self.assertEqual(self.steps_after_resume(steps + 2), steps + 2)

    def test_a_second_ctrl_c_keeps_what_was_saved(self):
        terminal = self.interrupted(*SMALL, "--sample", "1000000")
        until = time.monotonic() + 60  # the sample takes longer
        while "has the weights" not in terminal.text.read_text("utf-8"):
            self.assertIsNone(terminal.program.poll(), terminal.said)
            self.assertLess(time.monotonic(), until, "it does not save at once")
            time.sleep(0.01)
        terminal.program.send_signal(signal.SIGINT)
        code, _, text = terminal.end()
        self.assertEqual(code, -signal.SIGINT)
        self.assertNotIn("A sample:", text)
        steps = int(re.search("^step ([0-9]+): loss", text, re.MULTILINE).group(1))
        self.assertEqual(self.steps_after_resume(steps + 1), steps + 1)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        pathlib.Path(made, "book.txt").write_text("a key and a query\n" * 50)
        skip_without_device(PROGRAM, made + "/book.txt", "--output", made + "/made", *SMALL, "--steps", "1", "--sample", "0")
    unittest.main(argv=sys.argv[:1])
