"""Fork, spawn, threads, sub-interpreters, and the end of the interpreter."""

from __future__ import annotations

import io
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest

import warplock
from warplock import AESGCM, Key

TEXT = bytes(4 << 20)


def work(number):
    """Large enough for all threads of the engine."""
    key = AESGCM(bytes(16))
    nonce = number.to_bytes(12, "big")
    sealed = key.encrypt(nonce, TEXT, None)
    return key.decrypt(nonce, sealed, None) == TEXT


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes(method):
    assert work(0)
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        assert all(pool.map(work, range(8), timeout=120))


def test_a_child_has_an_engine_with_threads_of_its_own():
    """Forked while other threads use the parent's engine."""
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            work(1)

    threads = [threading.Thread(target=busy) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                done = work(2) and len(os.listdir("/proc/self/task")) > 1
                os._exit(0 if done or os.cpu_count() == 1 else 1)
            deadline = time.monotonic() + 60
            while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
                assert time.monotonic() < deadline, "the child hangs"
                time.sleep(0.01)
            assert ended[1] == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_nonces_differ_after_a_fork():
    key = Key.generate("aes-128-gcm")
    drawn = []
    for _ in range(2):
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.write(writer, bytes(key.seal(b"").nonces))
            os._exit(0)
        os.wait()
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            drawn.append(pipe.read())
    assert len(drawn[0]) == 12 and drawn[0] != drawn[1]


def test_many_threads():
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(64)))


def test_one_key_in_many_threads(tmp_path):
    key = Key.generate("aes-256-gcm")
    with warplock.open(tmp_path / "a.wl", "wb", key=bytes(32)) as file:
        file.write(TEXT)
    with warplock.open(tmp_path / "a.wl", key=bytes(32)) as file:
        raw = file.raw

        def seal(number):
            sealed = key.seal(bytes(number * 100))
            assert key.open(sealed) == bytes(number * 100)
            return len(raw._native.read(number * 1000, 2 << 20)) == 2 << 20

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(seal, range(200)))


def test_other_threads_run_meanwhile():
    key, nonce = AESGCM(bytes(16)), bytes(12)
    text = bytes(256 << 20)
    counted, stop = 0, False

    def count():
        nonlocal counted
        while not stop:
            counted += 1
            time.sleep(0.0005)

    thread = threading.Thread(target=count)
    thread.start()
    time.sleep(0.01)
    before = counted
    key.encrypt(nonce, text, None)
    during = counted - before
    stop = True
    thread.join()
    assert during > 3


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("daemon", [True, False])
def test_exit_with_work_under_way(daemon):
    done = run(
        "import threading, time, warplock\n"
        "def work():\n"
        "    key = warplock.AESGCM(bytes(16))\n"
        f"    for _ in range({10_000 if daemon else 20}):\n"
        "        key.encrypt(bytes(12), bytes(8 << 20), None)\n"
        f"threading.Thread(target=work, daemon={daemon}).start()\n"
        "time.sleep(0.1)\n"
    )
    assert done.returncode == 0, done.stderr


def test_exit_with_a_file_under_way(tmp_path):
    done = run(
        "import threading, time, warplock\n"
        f"path = {str(tmp_path)!r}\n"
        "open(path + '/a', 'wb').truncate(8 << 30)\n"
        "threading.Thread(target=warplock.encrypt_file, args=(path + '/a', path + '/b'),"
        " kwargs={'key': bytes(32)}, daemon=True).start()\n"
        "time.sleep(0.3)\n"
    )
    assert done.returncode == 0, done.stderr
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("option", ["-i", "--key-file", "--passphrase-file"])
def test_the_command_line_with_a_closed_input(tmp_path, option):
    """What took its number was read: the pipe on which signals arrive, so that nothing ended it."""
    source = tmp_path / "a.wl"
    warplock.encrypt_file(io.BytesIO(b"text"), source, passphrase="a passphrase")
    call = [sys.executable, "-m", "warplock", "verify", option, "-", str(source)]
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *call], capture_output=True, text=True, timeout=60
    )
    assert done.returncode in (1, 4), done.stderr
    assert done.stderr.startswith("warplock: ")


def test_sub_interpreters_are_refused_clearly():
    code = (
        "try:\n"
        "    import _xxsubinterpreters as subs\n"
        "except ImportError:\n"
        "    import _interpreters as subs\n"
        "import warplock\n"
        "other = subs.create()\n"
        "try:\n"
        "    failed = subs.run_string(other, 'import warplock')\n"
        "    text = repr(failed)\n"
        "except Exception as error:\n"
        "    text = repr(error)\n"
        "print(text)\n"
    )
    done = run(code)
    assert done.returncode == 0, done.stderr
    assert "ImportError" in done.stdout and "subinterpreters" in done.stdout.lower()


def test_ctrl_c_ends_a_mount_without_a_word(tmp_path):
    if not os.path.exists("/dev/fuse") or os.geteuid() != 0:
        pytest.skip("no /dev/fuse, or not root")
    store, point = tmp_path / "store", tmp_path / "point"
    point.mkdir()
    (tmp_path / "pass").write_text("open sesame\n")
    passphrase = ["--passphrase-file", tmp_path / "pass"]
    command = [sys.executable, "-m", "warplock", "vault"]
    state = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    subprocess.run([*command, "init", *passphrase, store], check=True, env=state)
    mount = [*command, "mount", "-f", *passphrase, store, point]
    with subprocess.Popen(mount, stderr=subprocess.PIPE, env=state) as served:
        deadline = time.monotonic() + 60
        while not os.path.ismount(point):
            assert served.poll() is None and time.monotonic() < deadline, "it does not mount"
            time.sleep(0.01)
        served.send_signal(signal.SIGINT)
        assert served.communicate(timeout=60)[1] == b""
    assert served.returncode == 0
