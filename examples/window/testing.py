"""What the tests of the window share: a program under Xvfb, and its pictures and words.

The first words of a test are PROGRAM FOLDER HAS_VALIDATION: the window, a folder for its pictures, which stay, and 1 if the
validation layer is installed. Without a Vulkan device a test ends with 77, and with 1 if VKATTN_TEST_REQUIRE_DEVICE is 1.
"""
import collections
import contextlib
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

from xvfb import display_server

PROGRAM, FOLDER, HAS_VALIDATION = sys.argv[1:4]
NO_DEVICE = re.compile("no Vulkan (device|for windows|loader)")
# Parts of the pictures: the rows, and the columns.
ALL = (range(720), range(1280))
MAPS = (range(100, 580), range(285, 1200))
TOKENS = (range(70, 96), range(1280))


class Picture:
    """The pixels of a PNG of eight bits of red, green and blue, whose rows are plain or are added to those above."""

    def __init__(self, path):
        data = pathlib.Path(path).read_bytes()
        self.width, self.height = struct.unpack(">II", data[16:24])
        packed, at = b"", 8
        while at < len(data):
            length, kind = struct.unpack(">I4s", data[at:at + 8])
            packed += data[at + 8:at + 8 + length] if kind == b"IDAT" else b""
            at += 12 + length
        plain = zlib.decompress(packed)
        length = 1 + 3 * self.width
        row = bytes(length - 1)
        self.rows = []
        for begin in range(0, len(plain), length):
            assert plain[begin] in (0, 2), "another filter than none and 'up'"
            own = plain[begin + 1:begin + length]
            row = own if plain[begin] == 0 else bytes([(a + b) & 255 for a, b in zip(row, own)])
            self.rows.append(row)

    def part(self, area):
        """The bytes of a part, one after the other."""
        rows, columns = area
        return b"".join(self.rows[y][3 * columns.start:3 * columns.stop] for y in rows)

    def means(self, size=16):
        """The mean of each colour over each square of that size."""
        return [sum(sum(row[3 * x + color:3 * (x + size):3]) for row in self.rows[y:y + size]) / size ** 2
                for y in range(0, self.height, size) for x in range(0, self.width, size) for color in range(3)]


def skip(said):
    """Ends a test that has no device."""
    assert NO_DEVICE.search(said) and os.environ.get("VKATTN_TEST_REQUIRE_DEVICE") != "1", said
    raise unittest.SkipTest(said)


Done = collections.namedtuple("Done", "code said pictures words")


def run(script=None, words=(), display=True, **environment):
    """The exit code of a run, what it said, and by names its pictures and the words that it drew."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        lines = pathlib.Path(folder, "script.txt")
        if script is not None:
            lines.write_text(script.replace("PICTURES", FOLDER).replace("WORDS", folder), encoding="utf-8")
            words = ["--script", str(lines), *words]
        name = stack.enter_context(display_server())[1] if display else ""
        environment = {**os.environ, **environment, "DISPLAY": name, "WAYLAND_DISPLAY": ""}
        done = subprocess.run([PROGRAM, *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              encoding="utf-8", timeout=500, check=False)
        drawn = {path.stem: path.read_text(encoding="utf-8") for path in pathlib.Path(folder).glob("*.words")}
    if done.returncode == 77:
        skip(done.stdout)
    names = re.findall(r"([^/\n]*)\.png has a picture", done.stdout)
    pictures = {name: Picture(pathlib.Path(FOLDER, name + ".png")) for name in names}
    return Done(done.returncode, done.stdout, pictures, drawn)


def difference(one, other, area=ALL):
    """The mean difference of two pictures' parts, from 0 to 255."""
    parts = one.part(area), other.part(area)
    return sum(abs(a - b) for a, b in zip(*parts)) / len(parts[0])


class WindowTest(unittest.TestCase):
    def ends_well(self, *words, **environment):
        done = run(*words, **environment)
        self.assertEqual(done.code, 0, done.said)
        self.assertNotIn("VUID", done.said)
        return done

    def ends_well_validated(self, script, *words):
        done = self.ends_well(script, ["--validate", *words])
        self.assertIn("validation: on" if HAS_VALIDATION == "1" else "the validation layer is not installed", done.said)
        return done

    def says_one_line(self, why, words):
        """A refusal, without a display."""
        done = run(words=words, display=False)
        self.assertEqual(done.code, 1, done.said)
        self.assertRegex(done.said, why)
        self.assertEqual(len(done.said.splitlines()), 1, done.said)

    def skip_without_validation(self):
        """At a test's end: all else was tested."""
        if HAS_VALIDATION != "1":
            self.skipTest("the validation layer is not installed: no call was validated")

    def differences(self, text):
        found = [float(number) for number in re.findall("from what weights should be ([0-9.e+-]+)", text)]
        self.assertTrue(all(each < 2e-5 for each in found), text)
        return found


def main():
    """Runs the tests of the file that was started."""
    os.makedirs(FOLDER, exist_ok=True)
    result = unittest.main(argv=sys.argv[:1], verbosity=2, exit=False).result
    is_skipped = result.wasSuccessful() and len(result.skipped) == result.testsRun
    sys.exit(77 if is_skipped else 0 if result.wasSuccessful() else 1)
