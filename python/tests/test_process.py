"""Devices, threads, interrupts, memory, and the end of a process."""
import contextlib
import gc
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import tracemalloc

import numpy as np
import pytest

import reference
import vkattn


def test_devices(qkv):
    devices = vkattn.devices()
    usable = [device for device in devices if not device.rejected]
    assert usable and [device.index for device in devices] == list(range(len(devices)))
    first = usable[0]
    assert first.name in repr(first) and first.driver and isinstance(first.matrix_units, bool)
    expected = vkattn.attention(*qkv(), device=first)
    for name in (first.index, str(first.index), first.name):
        np.testing.assert_allclose(vkattn.attention(*qkv(), device=name).mean(), expected.mean(), atol=1)


def test_one_session_for_each_device(qkv):
    """Arrays, plans, caches and layers of one device can be used together, whatever named the device."""
    arrays = qkv()
    given = vkattn.array(arrays[0])
    device = next(each for each in vkattn.devices() if each.name == given.device and not each.rejected)
    names = (None, device, device.index, str(device.index), device.name, device.name.lower())
    expected = vkattn.attention(*arrays)
    for of_plan in names:
        plan = vkattn.plan(*arrays, device=of_plan)
        for of_arrays in names:
            output = plan(*(vkattn.array(x, device=of_arrays) for x in arrays))
            np.testing.assert_allclose(output.numpy(), expected, atol=1e-6)
    layer, rows = vkattn.MultiHeadAttention(16, 2, device=device.name), np.ones((1, 3, 16), np.float32)
    layer(rows, cache=vkattn.Cache(1, 2, 8, 8, device=device.index))


def test_sessions_that_are_closed(qkv):
    """Another device is refused by name. A device that is opened again, for example after a loss, is another one."""
    done = run("""if True:
        import numpy, vkattn
        x = numpy.ones((1, 1, 1, 4), 'f4')
        array, layer = vkattn.array(x), vkattn.MultiHeadAttention(4, 1)
        vkattn._native.close_all()
        for work in (lambda: vkattn.plan(x, x, x)(array, x, x), lambda: layer(x[0], cache=vkattn.Cache(1, 1, 4, 4))):
            try: work()
            except ValueError as e: print(e)
        """)
    said = done.stdout.splitlines()
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert re.fullmatch(r"an array is on another device than the plan: on .*, number \d+, not .*, number \d+", said[0])
    assert said[1].startswith("the cache is on another device than the layer: on ")


def test_unknown_device(qkv):
    with pytest.raises(vkattn.Error, match="no such device") as raised:
        vkattn.attention(*qkv(), device="no such device")
    assert raised.value.code == "not_found" and not isinstance(raised.value, ValueError)


def test_unknown_kernel(qkv):
    with pytest.raises(vkattn.Error, match="no kernel 'none'"):
        vkattn.attention(*qkv(), kernel="none")


def test_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+", vkattn.__version__)


def test_threads(qkv):
    """Eight threads use one device, each with a problem of another shape. Each thread gets its own results."""
    problems = [qkv(queries=3 + 2 * (i % 3)) for i in range(8)]
    expected = [reference.attention(*arrays)[0] for arrays in problems]
    wrong = []

    def work(index):
        for _ in range(20):
            if not np.allclose(vkattn.attention(*problems[index]), expected[index], atol=2e-5):
                wrong.append(index)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def seconds_of_work(qkv):
    """A compiled problem that takes the device a noticeable time."""
    arrays = qkv(query_heads=8, kv_heads=8, queries=512, keys=512, dim=64)
    vkattn.attention(*arrays)
    start = time.perf_counter()
    vkattn.attention(*arrays)
    return arrays, time.perf_counter() - start


def test_other_threads_run_meanwhile(qkv):
    arrays, duration = seconds_of_work(qkv)
    if duration < 0.05:
        pytest.skip("the device is too fast to see")

    def steps_beside_a_call():
        thread = threading.Thread(target=vkattn.attention, args=arrays)
        thread.start()
        steps = 0
        while thread.is_alive():
            time.sleep(0.001)
            steps += 1
        thread.join()
        return steps

    # If calls held the interpreter's lock, each would leave time for one to five. A busy machine may delay this thread.
    assert any(steps_beside_a_call() > 10 for _ in range(5))


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs pthread_kill")
def test_interrupt(qkv):
    """The interrupt arrives when the call ends, and the device still works."""
    arrays, duration = seconds_of_work(qkv)
    timer = threading.Timer(duration / 4, os.kill, (os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        vkattn.attention(*arrays)
        timer.join()  # if the device was faster than the first time
        time.sleep(0.1)
    small = qkv()
    np.testing.assert_allclose(vkattn.attention(*small), reference.attention(*small)[0], atol=2e-5)


def resident_kib():
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path("/proc/self/status").read_text())[1])


def growth(call, calls):
    """The memory that the calls leave behind: (KiB of the process, KiB of Python's objects and NumPy's arrays among them)."""
    for _ in range(10):
        call()
    tracemalloc.start()
    try:
        call()
        gc.collect()
        resident, traced = resident_kib(), tracemalloc.get_traced_memory()[0]
        for _ in range(calls):
            call()
        gc.collect()
        return resident_kib() - resident, (tracemalloc.get_traced_memory()[0] - traced) / 1024
    finally:
        tracemalloc.stop()


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc")
def test_no_leak(qkv):
    """VKATTN_TEST_CALLS=10000 takes minutes. An output has 64 KiB, so a leaked one shows among NumPy's arrays.

    A leak of the library's own memory shows in the process if it is at least a tenth of the output for each call.
    """
    calls = int(os.environ.get("VKATTN_TEST_CALLS", "400"))
    arrays = qkv(queries=256, keys=4, dim=32)
    mask = np.ones((256, 4), bool)
    wrong = [np.zeros((1, 2, 3), np.float64)] * 3

    def call():
        vkattn.attention(*arrays, mask, return_lse=True)
        with pytest.raises(TypeError):
            vkattn.attention(*wrong)
        with pytest.raises(ValueError):
            vkattn.attention(*arrays, dropout=2.0)

    resident, traced = growth(call, calls)
    assert resident < calls * 64 // 10 + 2048 and traced < 32


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc")
def test_no_leak_of_layers_and_caches():
    """Like test_no_leak. An output has 32 KiB. A call saves 130 KiB on the device, which is host memory here."""
    calls = int(os.environ.get("VKATTN_TEST_CALLS", "400")) // 4
    layer, x = vkattn.MultiHeadAttention(64, 4, seed=0), np.ones((4, 32, 64), np.float32)

    def call():
        _, _, saved = layer(x, return_saved=True)
        layer.backward(saved, x)
        cache = layer.make_cache(4, 32)
        layer(x, cache=cache, is_causal=True)
        with pytest.raises(ValueError):
            layer(x, cache=cache)

    resident, traced = growth(call, calls)
    assert resident < calls * 32 // 10 + 4096 and traced < 16


def run(program, **environment):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300,
                          env={**os.environ, **environment})


def test_no_driver():
    """The error is one sentence, and the process continues."""
    done = run("import vkattn, numpy\nx = numpy.zeros((1, 1, 1, 4), 'f4')\ntry: vkattn.attention(x, x, x)\n"
               "except vkattn.Error as e: print('said:', e)", VK_DRIVER_FILES="/none.json",
               VK_ICD_FILENAMES="/none.json")
    assert done.returncode == 0 and done.stdout.startswith("said: "), done.stderr


def test_results_outlive_the_device(qkv):
    """At the end of a process devices are closed before their remaining objects."""
    done = run("import vkattn, numpy\nx = numpy.ones((1, 1, 1, 4), 'f4')\nkept = vkattn.attention(x, x, x)\n"
               "print(kept.sum())")
    assert done.returncode == 0 and done.stdout == "4.0\n" and not done.stderr, done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_opens_its_own_device():
    done = run("import vkattn, numpy, os\nx = numpy.ones((1, 1, 1, 4), 'f4')\nvkattn.attention(x, x, x)\n"
               "child = os.fork()\nif child == 0:\n    ok = vkattn.attention(x, x, x).sum() == 4\n"
               "    os._exit(0 if ok else 1)\nprint(os.waitpid(child, 0)[1])")
    assert done.stdout == "0\n", done.stderr


FORKED = """if True:
    import os, signal, sys, threading, time, warnings
    import numpy, vkattn
    warnings.simplefilter('ignore', DeprecationWarning)  # Python 3.12 warns of a fork beside threads
    x = numpy.ones((1, 1, 1, 4), 'f4')
    rows = x[0]
    array, plan, cache = vkattn.array(x), vkattn.plan(x, x, x), vkattn.Cache(1, 1, 4, 4)
    cache.append(x, x)
    layer = vkattn.MultiHeadAttention(4, 1)
    saved = layer(rows, return_saved=True)[2]
    large = numpy.ones((1, 8, 256, 64), 'f4')
    def work():  # holds locks while the process is forked
        with cache._lock:
            while True: vkattn.attention(large, large, large)
    threading.Thread(target=work, daemon=True).start()
    time.sleep(0.3)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        calls = {calls}
        said = 0
        for call in calls:
            try: call()
            except vkattn.Error as e: said += f'made by process {{os.getppid()}}' in str(e)
        {end}
    status = os.waitpid(child, 0)[1]
    print(os.waitstatus_to_exitcode(status), flush=True)
    os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_what_its_parent_made_is_an_error_in_a_forked_process():
    """The child does not wait for threads that do not exist there."""
    calls = ("array.numpy()", "array.write(x)", "plan(x, x, x)", "plan(array, array, array)", "cache.append(x, x)",
             "vkattn.plan(x, x, x)(array, x, x)", "cache.attention(x)", "cache.clear()", "len(cache)", "layer(rows)",
             "layer(rows, cache=cache)", "layer.backward(saved, rows)", "layer.state_dict()", "layer.save('none')")
    done = run(FORKED.format(calls=f"({', '.join(f'lambda: {call}' for call in calls)})", end="os._exit(said)"))
    assert done.stdout == f"{len(calls)}\n" and not done.stderr, done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_that_opened_no_device_may_exit():
    """Objects of the parent are destroyed in the child without the driver."""
    end = "del array, plan, cache, layer, saved; sys.exit(said)"
    # No validation layers, because they crash at the end of a forked process.
    done = run(FORKED.format(calls="(lambda: array.numpy(),)", end=end), VK_INSTANCE_LAYERS="")
    assert done.stdout == "1\n" and not done.stderr, done.stderr


@pytest.mark.parametrize("hook", [True, False])
@pytest.mark.parametrize("seconds", [0.05, 0.2, 0.35])
def test_a_daemon_thread_in_a_call_at_exit(seconds, hook):
    """The interpreter waits for the call and begins no other. Without the package's hook the thread would wait for ever."""
    done = run(f"""if True:
        import atexit, threading, time
        import numpy, vkattn
        large, small = numpy.ones((1, 8, 256, 64), 'f4'), numpy.ones((1, 1, 1, 4), 'f4')
        def work(x):
            while True: vkattn.attention(x, x, x)
        for x in (large, small):
            vkattn.attention(x, x, x)
            threading.Thread(target=work, args=(x,), daemon=True).start()
        if not {hook}: atexit.unregister(vkattn._close)
        time.sleep({seconds})
        print('end')
        """)
    assert done.returncode == 0 and done.stdout == "end\n" and not done.stderr, done.stderr


def test_calls_at_exit():
    """A function that was registered before the package is imported runs after the package's hook."""
    done = run("""if True:
        import atexit, threading
        atexit.register(lambda: print(vkattn.attention(x, x, x).sum()))
        import numpy, vkattn
        x = numpy.ones((1, 1, 1, 4), 'f4')
        def work():
            while True: vkattn.attention(x, x, x)
        threading.Thread(target=work, daemon=True).start()
        """)
    assert done.returncode == 0 and done.stdout == "4.0\n" and not done.stderr, done.stderr


def test_a_daemon_thread_that_begins_a_call_at_exit_ends():
    """A hook that runs after the package's hook waits for the thread, and then uses the cache that the thread has used."""
    done = run("""if True:
        import atexit, threading
        def join():
            thread.join()
            print(len(cache))
        atexit.register(join)
        import numpy, vkattn
        x = numpy.ones((1, 1, 1, 4), 'f4')
        cache = vkattn.Cache(batch=1, kv_heads=1, capacity=4, head_dim=4)
        cache.append(x, x)
        def work():
            while True: cache.attention(x)
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        """)
    assert done.returncode == 0 and done.stdout == "1\n" and not done.stderr, done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
@pytest.mark.parametrize("at_terminal", (True, False))
def test_a_line_while_shaders_are_compiled(at_terminal):
    """Once, at a terminal, if it takes long."""
    program = """if True:
        import numpy, vkattn
        vkattn._native.set_patience(0)
        for dims in (8, 12):
            x = numpy.ones((1, 1, 1, dims), 'f4')
            vkattn.attention(x, x, x)
        """
    if not at_terminal:
        assert run(program).stderr == ""
        return
    ours, theirs = os.openpty()
    done = subprocess.run([sys.executable, "-c", program], stderr=theirs, check=False, env=os.environ)
    os.close(theirs)
    said = b""
    with contextlib.suppress(OSError):  # the end of a terminal's output
        while piece := os.read(ours, 4096):
            said += piece
    os.close(ours)
    assert done.returncode == 0 and said.decode().count("compiles shaders, once for each kind of problem") == 1, said
