"""PyTorch: tensors that are refused, as their bytes are not theirs or not all that they are."""

from __future__ import annotations

import pytest

from warplock import BatchError, InvalidTag, _native
from warplock.cuda import Key

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

import warplock.torch as sealing  # noqa: E402


def special():
    plain = torch.randn(4, 4)
    conjugate = torch.randn(4, 4, dtype=torch.complex64).conj()
    return {
        "quantized": torch.quantize_per_tensor(plain, 0.1, 0, torch.qint8),
        "layout": plain.to_sparse(),
        "meta": plain.to("meta"),
        "conjugate": conjugate,
        "negative": conjugate.imag,
    }


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("kind", ["quantized", "layout", "meta", "conjugate", "negative"])
def test_tensors_that_are_more_than_their_bytes(kind):
    key = Key.generate("aes-256-gcm")
    bad = special()[kind]
    sealed = sealing.seal(torch.zeros(64, dtype=torch.uint8), key)
    text = torch.zeros(16, dtype=torch.uint8)
    for call in (
        lambda: sealing.seal(bad, key),
        lambda: sealing.open(sealed._replace(data=bad), key),
        lambda: key.seal(bad),
        lambda: key.seal(text, aad=bad),
        lambda: key.seal(text, out=bad),
        lambda: key.seal(text, tags=bad),
        lambda: key.seal(text, nonces_out=bad),
        lambda: key.open(sealed, statuses=bad),
    ):
        with pytest.raises(BatchError):
            call()
    for call in (lambda: sealing.seal(bad, key), lambda: key.seal(bad)):
        with pytest.raises(BatchError, match=kind):
            call()
    # An operator that raised leaves nothing behind, and the name is said.
    with pytest.raises(BatchError, match=f"weight: .*{kind}"):
        sealing.seal_state_dict({"weight": bad}, key)


def test_tensors_of_tensors_are_refused():
    from torch.testing._internal.two_tensor import TwoTensor

    key = Key.generate("aes-256-gcm")
    bad = TwoTensor(torch.zeros(4), torch.ones(4))
    with pytest.raises(BatchError, match="other tensors"):
        key.seal(bad)
    with pytest.raises(BatchError, match="weight: .*other tensors"):
        sealing.seal_state_dict({"weight": bad}, key)


def without_memory():
    freed, shrunk = torch.randn(100, 100), torch.randn(100, 100)
    part, turned = freed[1:], freed.T
    freed.untyped_storage().resize_(0)
    shrunk.untyped_storage().resize_(400)
    with FakeTensorMode():
        fake = torch.randn(100, 100)
    return {
        "freed": freed,
        "a part of it": part,
        "transposed": turned,
        "shrunk": shrunk,
        "fake": fake,
        "functional": torch._to_functional_tensor(torch.randn(100, 100)),
        "zeros": torch._efficientzerotensor(100, 100),
    }


def test_tensors_whose_memory_is_elsewhere_or_freed_are_refused():
    from warplock import safetensors

    key = Key.generate("aes-256-gcm")
    text = torch.zeros(40_000, dtype=torch.uint8)
    for kind, bad in without_memory().items():
        calls = [
            lambda: sealing.seal_state_dict({"weight": bad}, key),
            lambda: safetensors.save({"weight": bad}, key=bytes(32)),
        ]
        if kind != "transposed":
            calls += [lambda: key.seal(bad), lambda: key.seal(text, out=bad)]
        for call in calls:
            with pytest.raises(ValueError, match="memory|contiguous"):
                call()
    sealed = safetensors.save({"weight": text}, key=bytes(32))
    with FakeTensorMode(), pytest.raises(ValueError, match="memory"):
        safetensors.load(sealed, key=bytes(32))
    for there in (torch.randn(4, 4)[1:], torch.randn(9)[4:].reshape(5, 1).T, torch.zeros(0, 4)):
        opened = sealing.open_state_dict(sealing.seal_state_dict({"weight": there}, key), key)
        assert torch.equal(opened["weight"], there)


def test_freed_memory_of_a_gpu_is_refused():
    if not (_native.gpus() and torch.cuda.is_available()):
        pytest.skip("skipped: no GPU")
    key = Key.generate("aes-256-gcm", device=0)
    freed = torch.randn(100, 100, device="cuda")
    part = freed[1:]
    freed.untyped_storage().resize_(0)
    text = torch.zeros(40_000, dtype=torch.uint8, device="cuda")
    for bad in (freed, part):
        for call in (lambda: key.seal(bad), lambda: key.seal(text, out=bad)):
            with pytest.raises(BatchError, match="memory"):
                call()


def test_tensors_need_a_key_for_arrays():
    import warplock

    key = warplock.Key.generate("aes-256-gcm")
    tensor = torch.zeros(4)
    for call in (
        lambda: sealing.seal(tensor, key),
        lambda: sealing.open(warplock.Sealed(tensor, tensor, tensor, None), key),
        lambda: sealing.seal_state_dict({}, key),
        lambda: sealing.open_state_dict({}, key),
        lambda: key.seal(tensor),
        lambda: key.seal(b"text", out=tensor),
    ):
        with pytest.raises(TypeError, match=r"warplock\.cuda\.Key"):
            call()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_nested_tensors():
    nested = torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])
    key = Key.generate("aes-256-gcm")
    for call in (lambda: key.seal(nested), lambda: sealing.seal_state_dict({"a": nested}, key)):
        with pytest.raises(BatchError, match="nested"):
            call()


@pytest.mark.parametrize("name", [1, ("a", "b"), None])
def test_names_of_tensors_are_text(name):
    """JSON made others of them, so that what was sealed could not be opened."""
    with pytest.raises(BatchError, match="is no text"):
        sealing.seal_state_dict({name: torch.zeros(2)}, Key.generate("aes-256-gcm"))


@pytest.mark.parametrize("name", ["a", "warplock.state_dict"])
@pytest.mark.parametrize("change", [lambda _: 5, lambda made: made.int(), lambda made: made[:0]])
def test_a_sealed_tensor_that_is_another_thing_does_not_verify(name, change):
    key = Key.generate("aes-256-gcm")
    sealed = sealing.seal_state_dict({"a": torch.zeros(2)}, key)
    sealed[name] = change(sealed[name])
    with pytest.raises(InvalidTag, match=name):
        sealing.open_state_dict(sealed, key)
