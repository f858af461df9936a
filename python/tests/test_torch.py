"""PyTorch: operators, state dicts, streams, graphs, the caching allocator."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time

import pytest

from warplock import BackendError, BatchError, InvalidTag, _native
from warplock.cuda import CaptureError, Key

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")

import warplock.torch as sealing  # noqa: E402

NO_GPU = "skipped: no GPU"
HAS_GPU = bool(_native.gpus()) and torch.cuda.is_available()


@pytest.fixture(params=["cpu", "cuda"])
def device(request):
    if request.param == "cuda" and not HAS_GPU:
        pytest.skip(NO_GPU)
    return request.param


@pytest.fixture
def gpu():
    if not HAS_GPU:
        pytest.skip(NO_GPU)
    return "cuda"


def random_bytes(shape, device):
    return torch.randint(0, 256, shape, dtype=torch.uint8, device=device)


@pytest.mark.parametrize("with_aad", [False, True])
def test_operators_are_what_pytorch_expects(device, with_aad):
    key = Key.generate("aes-256-gcm")
    text = torch.randn(8, 64, device=device)
    aad = random_bytes((5,), device) if with_aad else None
    tags, nonces = random_bytes((8, 16), device), random_bytes((8, 12), device)
    out = random_bytes((8, 256), device)
    words = torch.zeros(8, dtype=torch.int32, device=device)
    sealed = sealing.seal(text, key, aad=aad)
    ops, check = torch.ops.warplock, torch.library.opcheck
    check(ops.seal_.default, (text.clone(), tags, nonces, aad, key.handle, False))
    check(ops.seal_into.default, (text, out, tags.clone(), nonces, aad, key.handle, False))
    given = (sealed.tags, sealed.nonces)
    check(ops.open_.default, (sealed.data.clone(), *given, aad, words, key.handle))
    check(ops.open_into.default, (sealed.data, *given, out, aad, words, key.handle))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_compiled_functions_have_no_breaks(device, backend):
    key = Key.generate("aes-256-gcm")

    def work(x):
        sealed = sealing.seal(x * 2, key)
        text, statuses = sealing.open(sealed, key, dtype=torch.float32)
        return text + 1, statuses, sealed.nonces

    compiled = torch.compile(work, fullgraph=True, backend=backend)
    x = torch.randn(16, 32, device=device)
    try:
        seen = set()
        for _ in range(3):
            found, statuses, nonces = compiled(x)
            sealing.check(statuses)
            assert torch.equal(found, x * 2 + 1)
            seen.add(nonces.cpu().numpy().tobytes())
        assert len(seen) == 3
    except torch._dynamo.exc.BackendCompilerFailed as error:
        pytest.skip(f"this machine's compiler cannot: {str(error)[:80]}")


@pytest.mark.parametrize(
    "dtype",
    [torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.bool, torch.complex64, torch.int64],
)
def test_any_type_is_taken_as_bytes(device, dtype):
    key = Key.generate("aes-128-gcm")
    data = random_bytes((40, 64), device)
    if dtype == torch.bool:
        data &= 1
    tensor = data.view(dtype)
    for src in (tensor, tensor.reshape(-1), torch.nn.Parameter(tensor, requires_grad=False)):
        sealed = key.seal(src)
        out = torch.empty_like(src)
        key.open(sealed, out=out).status.check()
        assert torch.equal(out.view(torch.uint8).reshape(-1), data.reshape(-1))
    with torch.inference_mode():
        opened = key.open(key.seal(tensor))
        opened.status.check()
        assert torch.equal(opened.data, data)


def state(device):
    made = torch.nn.Sequential(torch.nn.Linear(10, 20), torch.nn.BatchNorm1d(20)).state_dict()
    made["half"] = torch.randn(7, 3).half()
    made["empty"] = torch.empty(0, 4)
    made["turned"] = torch.randn(4, 6).t()
    return {name: tensor.to(device) for name, tensor in made.items()}


def test_state_dicts(device, tmp_path):
    key = Key.generate("aes-256-gcm")
    made = state(device)
    sealed = sealing.seal_state_dict(made, key)
    torch.save(sealed, tmp_path / "sealed.pt")
    loaded = torch.load(tmp_path / "sealed.pt", map_location="cpu", weights_only=True)
    for given, to in ((sealed, None), (loaded, device)):
        opened = sealing.open_state_dict(given, key, device=to)
        assert list(opened) == list(made)
        for name, tensor in made.items():
            assert torch.equal(opened[name], tensor) and opened[name].dtype == tensor.dtype
            assert opened[name].device == tensor.device


def test_changed_state_dicts_are_refused(device):
    key = Key.generate("aes-256-gcm")
    made = state(device)
    sealed = sealing.seal_state_dict(made, key)
    other = sealing.seal_state_dict(made, key)

    def changed(name, value=None):
        copy = {each: tensor.clone() for each, tensor in sealed.items()}
        if value is None:
            del copy[name]
        else:
            copy[name] = value
        return copy

    flipped = sealed["0.weight"].clone()
    flipped[7] ^= 1
    head = sealed["warplock.state_dict"].clone()
    head[-3] ^= 1
    cases = [
        changed("0.weight", flipped),
        changed("warplock.state_dict", head),
        changed("half"),
        changed("half", sealed["half"][:-1]),
        # Of another call with the same key; of another name.
        changed("0.bias", other["0.bias"]),
        changed("0.bias", sealed["1.bias"]),
        changed("warplock.state_dict", other["warplock.state_dict"]),
    ]
    for case in cases:
        with pytest.raises(InvalidTag):
            sealing.open_state_dict(case, key)
    with pytest.raises(InvalidTag) as error:
        sealing.open_state_dict(cases[0], key)
    assert "0.weight" in str(error.value) and error.value.failed == [0]
    with pytest.raises(BatchError, match="no tensor"):
        sealing.seal_state_dict({"x": 3}, key)


def test_freed_keys_are_named():
    with pytest.raises(BatchError, match="freed"):
        torch.ops.warplock.seal_(
            torch.zeros(4), torch.zeros(16), torch.zeros(12), None, 1 << 40, True
        )


@pytest.mark.parametrize("how", ["apart", "appended", "in place", "gaps"])
def test_offsets_may_be_on_the_gpu(gpu, how):
    key = Key.generate("aes-256-gcm")
    sizes = [1000, 0, 17, 40000, 3]
    room = 32 if how in ("appended", "gaps") else 0
    starts = [sum(sizes[:i]) + room * i for i in range(len(sizes))]
    text = random_bytes((sum(sizes) + room * len(sizes),), gpu)
    nonces, aad = random_bytes((5, 12), gpu), random_bytes((5, 7), gpu)
    at, long = (torch.tensor(each, device=gpu) for each in (starts, sizes))
    before = text.clone()
    out = text if how == "in place" else torch.zeros_like(text)
    options = {"nonces": nonces, "aad": aad, "out": out}
    if how == "appended":
        sealed = key.seal(text, tags="appended", offsets=at, sizes=long, out_offsets=at, **options)
        long = long + 16
    elif how == "apart":
        ends = torch.cat([at, at[-1:] + long[-1:]])
        sealed = key.seal(text, offsets=ends, **options)
    else:
        sealed = key.seal(text, offsets=at, sizes=long, **options)
    on_host = key.seal(
        before.cpu(), nonces=nonces.cpu(), aad=aad.cpu(), offsets=starts, sizes=sizes,
        tags="appended",
    )  # fmt: skip
    for i, (start, size) in enumerate(zip(starts, sizes)):
        wanted = on_host.data[on_host.offsets[i] : on_host.offsets[i + 1]]
        found = sealed.data[start : start + size].cpu()
        assert torch.equal(found, wanted[:size])
        tag = sealed.data[start + size :][:16] if how == "appended" else sealed.tags[i]
        assert torch.equal(tag.cpu(), wanted[size:])
    tags = sealed.tags
    if how != "appended":
        tags = tags.clone()
        tags[3, 0] ^= 1
    opened = key.open(
        sealed.data, tags, nonces=nonces, aad=aad, offsets=at, sizes=long,
        out=text if how == "in place" else None, out_offsets=at if how == "appended" else None,
    )  # fmt: skip
    assert opened.status.failed() == ([] if how == "appended" else [3])
    for i, (start, size) in enumerate(zip(starts, sizes)):
        part = opened.data[start : start + size]
        if i == 3 and how != "appended":
            assert not part.any()
        else:
            assert torch.equal(part, before[start : start + size])
    with pytest.raises(BatchError, match="nonces"):
        key.seal(text, offsets=at, sizes=long)
    with pytest.raises(BatchError, match="sizes must be in GPU memory"):
        key.seal(text, nonces=nonces, offsets=at, sizes=sizes)


def test_pinned_tensors_are_host_memory(gpu):
    raw = os.urandom(32)
    key = Key("aes-256-gcm", raw)
    nonces = random_bytes((64, 12), "cpu")
    text = random_bytes((64, 5000), "cpu").pin_memory()
    on_host = key.seal(text, nonces=nonces)
    on_gpu = key.seal(text.cuda(non_blocking=True), nonces=nonces.cuda())
    assert torch.equal(on_host.data, on_gpu.data.cpu())
    assert torch.equal(on_host.tags, on_gpu.tags.cpu())
    # Small parts may be in host memory.
    opened = key.open(on_gpu.data, on_host.tags, nonces=nonces)
    opened.status.check()
    assert torch.equal(opened.data.cpu(), text)
    with pytest.raises(BatchError, match="all be in GPU memory"):
        key.seal(text, nonces=on_gpu.nonces)


def test_streams(gpu):
    key = Key.generate("aes-256-gcm", device=0)
    streams = [torch.cuda.Stream() for _ in range(4)]
    texts = [random_bytes((100, 1000 + i), gpu) for i in range(4)]
    torch.cuda.synchronize()
    for way in ("current", "object", "int"):
        made = []
        for stream, text in zip(streams, texts):
            if way == "current":
                with torch.cuda.stream(stream):
                    made.append(key.open(key.seal(text)))
            else:
                given = stream if way == "object" else stream.cuda_stream
                made.append(key.open(key.seal(text, stream=given), stream=given))
        for opened, text in zip(made, texts):
            opened.status.check()
            assert torch.equal(opened.data, text)


def test_a_call_waits_for_nothing(gpu):
    key = Key.generate("aes-256-gcm", device=0)
    text = random_bytes((64, 16384), gpu)
    key.open(key.seal(text)).status.check()
    torch.cuda.synchronize()
    start = time.perf_counter()
    torch.cuda._sleep(2_000_000_000)
    for _ in range(10):
        opened = key.open(key.seal(text))
    assert time.perf_counter() - start < 0.3, "a call waited for the stream"
    assert not torch.cuda.current_stream().query(), "the GPU was too fast for this test"
    opened.status.check()
    assert torch.equal(opened.data, text)


def test_the_next_kernel_sees_zeros_of_a_refused_message(gpu):
    key = Key.generate("aes-256-gcm", device=0)
    text = torch.full((1000, 16384), 7, dtype=torch.uint8, device=gpu)
    for in_place in (False, True):
        sealed = key.seal(text)
        sealed.data[::3, 100] ^= 1
        torch.cuda._sleep(50_000_000)
        opened = key.open(sealed, out=sealed.data if in_place else None)
        # Queued before anything was waited for.
        copy = opened.data.clone()
        any_failed = opened.status.any_failed
        assert not copy[::3].any() and (copy[1::3] == 7).all() and (copy[2::3] == 7).all()
        assert bool(any_failed)
        assert opened.status.failed() == list(range(0, 1000, 3))


def test_each_replay_of_a_graph_has_new_nonces(gpu):
    key = Key.generate("aes-256-gcm")
    text = random_bytes((16, 1024), gpu)
    seal = key.plan("seal", text)
    open_ = key.plan("open", seal.data, seal.tags, nonces=seal.nonces)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        seal.launch()
        open_.launch()
        wrong = (open_.data != text).any()
    kept = torch.empty(1000, 16, 12, dtype=torch.uint8, device=gpu)
    refused = torch.zeros((), dtype=torch.int64, device=gpu)
    for i in range(1000):
        text.random_(0, 256)
        graph.replay()
        kept[i] = seal.nonces
        refused += open_.status.array.sum() + wrong
    nonces = {row.tobytes() for row in kept.reshape(-1, 12).cpu().numpy()}
    assert len(nonces) == 16_000
    assert int(refused) == 0
    # It opens outside of the graph, too.
    opened = key.open(seal.data, seal.tags, nonces=seal.nonces)
    opened.status.check()
    assert torch.equal(opened.data, text)
    torch.cuda.synchronize()
    del graph


def test_calls_are_refused_while_a_stream_captures(gpu):
    text = random_bytes((16, 1024), gpu)
    ready = Key.generate("aes-256-gcm", device=0)
    sealed = ready.seal(text)
    for key, call in (
        (ready, lambda key: key.seal(text)),
        (ready, lambda key: key.open(sealed)),
        (ready, lambda key: key.seal(text, aad=b"not yet uploaded")),
        (Key.generate("aes-256-gcm"), lambda key: key.seal(text)),
    ):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kept = text + 1
            with pytest.raises(CaptureError, match="before"):
                call(key)
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(kept, text + 1)
    ready.open(sealed).status.check()


def test_the_caching_allocator_gives_no_memory_away_too_early(gpu):
    calls = int(os.environ.get("WARPLOCK_CALLS", "10000"))
    key = Key.generate("aes-256-gcm", device=0)
    rng = random.Random(1)
    streams = [torch.cuda.Stream() for _ in range(4)]
    wrong = [torch.zeros((), dtype=torch.int64, device=gpu) for _ in streams]
    live: list[list] = [[] for _ in streams]
    torch.cuda.synchronize()
    reserved = 0
    for i in range(calls):
        which = rng.randrange(4)
        with torch.cuda.stream(streams[which]):
            count, width = rng.choice([(1, 1 << 20), (64, 4096), (300, 100), (7, 33333)])
            width = rng.randrange(1, width)
            text = torch.full((count, width), i % 251, dtype=torch.uint8, device=gpu)
            sealed = key.seal(text)
            del text
            live[which].append((i % 251, sealed))
            if rng.random() < 0.6:
                value, sealed = live[which].pop(rng.randrange(len(live[which])))
                opened = key.open(sealed)
                del sealed
                wrong[which] += (opened.data != value).sum() + opened.status.array.sum()
                del opened
            if len(live[which]) > 50:
                del live[which][rng.randrange(len(live[which]))]
        if i == calls // 2:
            torch.cuda.synchronize()
            reserved = torch.cuda.memory_reserved()
    torch.cuda.synchronize()
    assert [int(each) for each in wrong] == [0] * 4
    grown = torch.cuda.memory_reserved() - reserved
    assert grown < 256 << 20, f"{grown} bytes more in the second half"


def test_keys_and_plans_freed_with_work_queued(gpu):
    text = random_bytes((64, 16384), gpu)
    torch.cuda.synchronize()
    key = Key.generate("aes-256-gcm", device=0)
    torch.cuda._sleep(100_000_000)
    opened = key.open(key.seal(text))
    plan = key.plan("seal", text)
    plan.launch()
    del key, plan
    opened.status.check()
    assert torch.equal(opened.data, text)


def script(code, timeout=120):
    head = "import os, sys, torch, warplock\nfrom warplock.cuda import Key\n"
    return subprocess.run(
        [sys.executable, "-c", head + code], capture_output=True, text=True, timeout=timeout
    )


def test_the_interpreter_ends_with_work_queued(gpu):
    done = script(
        "key = Key.generate('aes-256-gcm', device=0)\n"
        "text = torch.zeros(1000, 16384, device='cuda')\n"
        "plan = key.plan('seal', text)\n"
        "torch.cuda._sleep(1_000_000_000)\n"
        "for _ in range(50): opened = key.open(key.seal(text))\n"
        "plan.launch()\n"
        "print('end')\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_a_fork_after_cuda_started_is_refused(gpu):
    done = script(
        "key = Key.generate('aes-256-gcm', device=0)\n"
        "text = torch.zeros(1000, device='cuda')\n"
        "plan = key.plan('seal', text)\n"
        "key.seal(text)\n"
        "sys.stdout.flush()\n"
        "if (child := os.fork()) == 0:\n"
        "    try:\n"
        "        key._devices[0].native.enqueue(plan._call.parts, None, None, (0, 0), 0)\n"
        "    except warplock.BackendError as error:\n"
        "        print('refused' if 'spawn' in str(error) else error)\n"
        "    try:\n"
        "        Key.generate('aes-256-gcm', device=0)\n"
        "    except warplock.BackendError as error:\n"
        "        print('refused' if 'spawn' in str(error) else error)\n"
        "    host = Key.generate('aes-256-gcm')\n"
        "    host.open(host.seal(torch.zeros(10))).status.check()\n"
        "    del key, plan\n"
        "    sys.stdout.flush()\n"
        "    os._exit(0)\n"
        "print(os.waitpid(child, 0)[1])\n"
        "key.open(key.seal(text)).status.check()\n"
        "print('parent')\n"
    )
    assert done.stdout.split() == ["refused", "refused", "0", "parent"], done


def test_several_gpus(gpu):
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    key = Key.generate("aes-256-gcm")
    seen = set()
    for i in range(torch.cuda.device_count()):
        text = random_bytes((100, 1000), f"cuda:{i}")
        sealed = key.seal(text)
        assert sealed.data.device == text.device
        opened = key.open(sealed)
        opened.status.check()
        assert torch.equal(opened.data, text)
        seen |= {row.tobytes() for row in sealed.nonces.cpu().numpy()}
    assert len(seen) == 100 * torch.cuda.device_count()
    with pytest.raises(BatchError, match="on the GPU 0"):
        key.open(sealed.data, sealed.tags.to("cuda:0"), nonces=sealed.nonces)


def test_a_gpu_that_is_not_there():
    with pytest.raises(BackendError):
        Key.generate("aes-256-gcm", device=99)


@pytest.mark.parametrize("shape", [(), (0,), (0, 4), (4, 0), (2, 0, 3)])
def test_tensors_of_few_bytes(device, shape):
    key = Key.generate("aes-256-gcm")
    tensor = torch.from_numpy(np.zeros(shape, "f4")).to(device)
    opened, statuses = sealing.open(sealing.seal(tensor, key), key, dtype=tensor.dtype)
    sealing.check(statuses)
    assert opened.numel() == tensor.numel() and opened.dtype == tensor.dtype
    back = sealing.open_state_dict(sealing.seal_state_dict({"x": tensor}, key), key)["x"]
    assert torch.equal(back, tensor) and back.shape == tensor.shape
