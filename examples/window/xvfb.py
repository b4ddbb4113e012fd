"""A display for programs that are tested."""
import contextlib
import subprocess


@contextlib.contextmanager
def display_server():
    """Xvfb and the name of its display. xvfb-run would sometimes end with a failure of its own, while it cleans up."""
    with subprocess.Popen(["Xvfb", "-displayfd", "1", "-screen", "0", "1600x1000x24"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, encoding="utf-8") as server:
        try:
            yield server, ":" + server.stdout.readline().strip()
        finally:
            server.terminate()
