"""Encrypted safetensors as PyTorch's tensors, on the host and on a GPU, where they are."""

from __future__ import annotations

import pathlib
import re
import secrets
import subprocess
import sys
import textwrap
import time

import pytest

import warplock
from warplock.safetensors import load, load_file, load_sharded, safe_open, save_file, save_sharded

torch = pytest.importorskip("torch", reason="skipped: no PyTorch")
plain = pytest.importorskip("safetensors.torch", reason="skipped: no safetensors")

KEY = bytes(range(32))
PATH = "model.safetensors.wl"
NO_GPU = "skipped: no GPU"


@pytest.fixture(params=["cpu", "cuda"])
def device(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip(NO_GPU)
    return request.param


@pytest.fixture
def gpu(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if not torch.cuda.is_available():
        pytest.skip(NO_GPU)
    return "cuda"


def some_tensors(device):
    torch.manual_seed(1)
    kinds = [
        torch.bool, torch.uint8, torch.int8, torch.int16, torch.uint16, torch.float16,
        torch.bfloat16, torch.int32, torch.uint32, torch.float32, torch.int64, torch.uint64,
        torch.float64, torch.complex64, torch.float8_e4m3fn, torch.float8_e5m2,
    ]  # fmt: skip
    tensors = {str(kind): torch.randint(0, 2, (3, 5)).to(kind) for kind in kinds}
    tensors["chunk"] = torch.randint(0, 255, (16384,), dtype=torch.uint8)
    tensors["large"] = torch.randn(700, 33, 50).to(torch.bfloat16)
    tensors["empty"] = torch.zeros(0, 4)
    tensors["number"] = torch.tensor(3.5)
    return {name: tensor.to(device) for name, tensor in tensors.items()}


def raw(tensor):
    return tensor.cpu().reshape(-1).view(torch.uint8)


def assert_same(found, expected, device):
    assert set(found) == set(expected)
    for name, tensor in expected.items():
        assert found[name].device.type == device, name
        assert found[name].dtype == tensor.dtype and found[name].shape == tensor.shape, name
        assert torch.equal(raw(found[name]), raw(tensor)), name


def test_tensors_of_every_type_there_and_back(device):
    tensors = some_tensors(device)
    save_file(tensors, PATH, {"format": "pt"}, key=KEY)
    assert_same(load_file(PATH, device, key=KEY), tensors, device)
    assert_same(load(pathlib.Path(PATH).read_bytes(), device, key=KEY), tensors, device)
    warplock.decrypt_file(PATH, "plain", key=KEY)
    assert_same(plain.load_file("plain", device), tensors, device)
    with safe_open(PATH, "pt", device, key=KEY) as file:
        assert file.metadata() == {"format": "pt"}
        assert_same({name: file.get_tensor(name) for name in file.keys()}, tensors, device)
        part = file.get_slice("large")
        for at in [(3,), (slice(3, 9),), (slice(None), 4), (..., 7), (2, slice(5, 9), 1), ()]:
            found = part[at]
            assert torch.equal(found, tensors["large"][at]) and found.is_contiguous()
            assert found.device.type == device


def test_a_file_of_safetensors_with_any_header(device):
    tensors = some_tensors(device)
    for padding in range(0, 40, 7):
        plain.save_file(tensors, "plain", {"x": "y" * padding})
        warplock.encrypt_file("plain", PATH, key=KEY, replace=True)
        assert_same(load_file(PATH, device, key=KEY), tensors, device)
        with safe_open(PATH, "pt", device, key=KEY) as file:
            assert_same({name: file.get_tensor(name) for name in file.keys()}, tensors, device)


def test_packed_floats_keep_their_shape(device):
    if not hasattr(torch, "float4_e2m1fn_x2"):
        pytest.skip("skipped: this PyTorch has no such type")
    packed = torch.arange(24, dtype=torch.uint8, device=device).view(torch.float4_e2m1fn_x2)
    tensors = {"a": packed.view(4, 6)}
    save_file(tensors, PATH, key=KEY)
    found = load_file(PATH, device, key=KEY)["a"]
    assert found.shape == (4, 6) and found.dtype == torch.float4_e2m1fn_x2
    assert torch.equal(found.view(torch.uint8), tensors["a"].view(torch.uint8))


def test_faults_are_named_and_leave_zeros(device, monkeypatch):
    made = []
    empty = torch.empty

    def keep(*arguments, **keywords):
        made.append(empty(*arguments, **keywords).fill_(0xCC))
        return made[-1]

    first = torch.ones(20_000, dtype=torch.uint8, device=device)
    save_file({"first": first, "second": first, "third": first}, PATH, key=KEY)
    sealed = pathlib.Path(PATH).read_bytes()
    monkeypatch.setattr(torch, "empty", keep)
    stream = 56 + 16400
    for place, name in [
        (stream + 5, "first"), (stream + 16399, "first"), (stream + 16400, "first"),
        (stream + 2 * 16400 + 7, "second"), (stream + 3 * 16400 + 7, "third"), (len(sealed) - 1, "third"),
    ]:  # fmt: skip
        bad = bytearray(sealed)
        bad[place] ^= 1
        with pytest.raises(warplock.CorruptedError, match=f"^tensor '{name}': ") as caught:
            load(bytes(bad), device, key=KEY)
        assert caught.value.chunk == (place - 56) // 16400 and caught.value.tensor == name
        assert made[-1].numel() >= 60_000 and not made[-1].any()
    for place in (57, 1000, 16000, 16450):
        bad = bytearray(sealed)
        bad[place] ^= 1
        with pytest.raises(warplock.CorruptedError, match="^the header: "):
            load(bytes(bad), device, key=KEY)
    for length in [60, 56 + 16400, 56 + 2 * 16400, 56 + 2 * 16400 + 16, len(sealed) - 1]:
        with pytest.raises(warplock.CorruptedError):
            load(sealed[:length], device, key=KEY)
    with pytest.raises((warplock.CorruptedError, warplock.FormatError)):
        load(sealed + b"more", device, key=KEY)
    pathlib.Path("bad").write_bytes(sealed[:-1] + bytes([sealed[-1] ^ 1]))
    with pytest.raises(warplock.CorruptedError, match="tensor 'third'"):
        safe_open("bad", "pt", device, key=KEY)


def test_what_cannot_be_saved_is_refused_by_name(device):
    with pytest.raises(ValueError, match="'bad' is not contiguous"):
        save_file({"bad": torch.zeros(4, 4, device=device)[:, 1]}, PATH, key=KEY)
    with pytest.raises(TypeError, match="'bad' has the type"):
        save_file({"bad": torch.zeros(4, dtype=torch.complex128, device=device)}, PATH, key=KEY)


def test_conjugated_and_negated_views_are_saved_as_they_look(device):
    numbers = torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex64, device=device)
    save_file({"a": numbers.conj(), "b": torch._neg_view(numbers.real.contiguous())}, PATH, key=KEY)
    found = load_file(PATH, device, key=KEY)
    assert found["a"].tolist() == [1 - 2j, 3 + 4j] and found["b"].tolist() == [-1, -3]


def test_shards(device):
    tensors = {f"layer.{i}": torch.randn(30, 40 + i, device=device) for i in range(8)}
    save_sharded(tensors, "model", max_shard_size=20_000, key=KEY)
    assert_same(load_sharded("model", device, key=KEY), tensors, device)


def test_a_model_of_many_segments_on_the_gpu(gpu):
    tensors = {
        "a": torch.randint(0, 255, (300_000_007,), dtype=torch.uint8, device=gpu),
        "b": torch.randn(1000, 1000, device=gpu),
        "c": torch.randn(1001),
    }
    save_file(tensors, PATH, key=KEY)
    assert warplock.verify_file(PATH, key=KEY) > 300_000_000
    found = load_file(PATH, gpu, key=KEY)
    for name, tensor in tensors.items():
        assert torch.equal(found[name].cpu(), tensor.cpu())
    with safe_open(PATH, "pt", "cuda:0", key=KEY) as file:
        part = file.get_slice("a")[123_456_789:234_567_890]
        assert torch.equal(part, tensors["a"][123_456_789:234_567_890])


def test_work_that_is_still_queued_is_waited_for(gpu):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        value = torch.zeros(4 << 20, device=gpu)
        for _ in range(2000):
            value += 1
        save_file({"a": value}, PATH, key=KEY)
        # Memory that the allocator may give out again while the kernels above use it.
        del value
        found = load_file(PATH, gpu, key=KEY)["a"]
    assert (found == 2000).all()


def test_the_host_holds_no_plaintext_while_a_gpu_loads_and_saves(gpu):
    needle = secrets.token_bytes(48)
    data = torch.frombuffer(bytearray(needle * 600_000), dtype=torch.uint8)
    save_file({"weights": data}, PATH, key=KEY)
    del data
    code = """
        import sys, time
        import torch
        from warplock.safetensors import load_file, safe_open, save_file
        device, key = sys.argv[1], bytes(range(32))
        end = None
        while end is None or time.monotonic() < end:
            tensors = load_file("model.safetensors.wl", device, key=key)
            save_file(tensors, "again.wl", key=key)
            with safe_open("again.wl", "pt", device, key=key) as file:
                file.get_slice("weights")[1000:500_000]
            if end is None:
                print("loaded", flush=True)
                end = time.monotonic() + 12
        print("done", flush=True)
        sys.stdin.read()
    """

    def found(device):
        """How often the needle is found while the process works, and after."""
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code), device],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert process.stdout.readline() == "loaded\n"
            end, during = time.monotonic() + 10, []
            while time.monotonic() < end:
                during.append(scan(process.pid, needle))
            assert process.stdout.readline() == "done\n"
            return during, scan(process.pid, needle)
        finally:
            process.kill()
            process.communicate()

    during, after = found(gpu)
    assert not any(during) and after == 0, (during, after)
    # That it would have been found:
    during, after = found("cpu")
    assert all(during) and after > 0


def scan(pid, needle):
    """How often `needle` is in the readable memory of a process."""
    count = 0
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            start, stop, access = re.match(r"(\w+)-(\w+) (\S+)", line).groups()
            at, stop = int(start, 16), int(stop, 16)
            # Programs and libraries.
            if access[0] != "r" or (access[1] != "w" and " /" in line):
                continue
            while at < stop:
                try:
                    memory.seek(at)
                    data = memory.read(min(stop - at, 64 << 20))
                except (OSError, ValueError, OverflowError):
                    break
                if not data:
                    break
                count += data.count(needle)
                at += len(data)
    return count
