"""For tests of what programs show at a terminal, and of how they end: by a refusal, or by Ctrl-C."""
import os
import pathlib
import re
import subprocess
import sys


def shown(said):
    """The lines that a terminal shows: what follows \\r overwrites a line, and \\x1b[K removes the rest of it."""
    lines = said.replace("\r\n", "\n").removesuffix("\n").split("\n")
    return [line.rpartition("\r")[2].replace("\x1b[K", "") for line in lines]


class Terminal:
    """A program, with a terminal for its progress and a file for its text."""

    def __init__(self, text, *words):
        self.text = pathlib.Path(text)
        self.said = ""
        self.screen, theirs = os.openpty()
        with self.text.open("wb") as file:
            self.program = subprocess.Popen(words, stdout=file, stderr=theirs)
        os.close(theirs)

    def read_until(self, pattern):
        """Reads up to these words. False: the program has ended before."""
        while not re.search(pattern, self.said):
            try:
                piece = os.read(self.screen, 4096)
            except OSError:  # Linux has this for the end
                piece = b""
            if not piece:
                return False
            self.said += piece.decode("utf-8", "replace")
        return True

    def end(self):
        """The exit code, the lines on the screen, and the text."""
        self.read_until("(?!)")
        return self.program.wait(), shown(self.said), self.text.read_text("utf-8")

    def stop(self):
        """Ends the program where a test has not."""
        self.program.kill()
        self.program.wait()
        os.close(self.screen)


def skip_without_device(*words):
    """Ends the test if this program finds no Vulkan device: with 77, or with 1 if VKATTN_TEST_REQUIRE_DEVICE is 1."""
    run = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8", check=False)
    if re.search("no Vulkan (device|loader)|vkCreateInstance failed", run.stderr):
        print(run.stderr)
        sys.exit(1 if os.environ.get("VKATTN_TEST_REQUIRE_DEVICE") == "1" else 77)
