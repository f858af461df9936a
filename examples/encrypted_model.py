"""A Hugging Face model from an encrypted folder into transformers on a GPU.

Neither the disk nor host memory ever holds a weight unencrypted: the ciphertext goes to the GPU and
is opened there. Needs PyTorch, transformers and warplock.

    python encrypted_model.py seal  FOLDER SEALED RECIPIENT   encrypts a folder as it is published
    python encrypted_model.py load  SEALED IDENTITY           loads it, and generates some tokens
    python encrypted_model.py demo                            all of it with a tiny random model
"""

from __future__ import annotations

import json
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import torch
import transformers

import warplock
from warplock import safetensors
from warplock.keys import Identity


def seal(folder: pathlib.Path, sealed: pathlib.Path, recipient: Any) -> None:
    """Encrypts each safetensors file as it is; config and tokenizer are copied.

    `warplock.safetensors.save_sharded` makes folders whose index is encrypted, too.
    """
    sealed.mkdir()
    for file in sorted(folder.iterdir()):
        if file.suffix == ".safetensors":
            warplock.encrypt_file(file, sealed / f"{file.name}.wl", recipients=recipient)
        elif file.is_file():
            shutil.copy(file, sealed / file.name)


def weights(sealed: pathlib.Path, device: str, **keys: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of a folder one by one, as loaders of vLLM and others take them."""
    places = safetensors.weight_map(sealed, **keys)
    for path in sorted(set(places.values())):
        yield from safetensors.load_file(path, device, **keys).items()


def shard(
    sealed: pathlib.Path, name: str, axis: int, rank: int, ranks: int, device: str, **keys: Any
) -> torch.Tensor:
    """One rank's part of a matrix that tensor parallelism splits: for rows, only those are read."""
    path = safetensors.weight_map(sealed, **keys)[name]
    with safetensors.safe_open(path, "pt", device, **keys) as file:
        part = file.get_slice(name)
        step = part.get_shape()[axis] // ranks
        wanted = slice(rank * step, (rank + 1) * step)
        return part[wanted] if axis == 0 else part[:, wanted]


def load(sealed: pathlib.Path, device: str, **keys: Any) -> transformers.PreTrainedModel:
    """The model, its weights on the device."""
    config = transformers.AutoConfig.from_pretrained(sealed)
    with torch.device("meta"):  # no memory yet, and no random weights
        model = transformers.AutoModelForCausalLM.from_config(config)
    state = dict(weights(sealed, device, **keys))
    model.load_state_dict(state, strict=False, assign=True)
    model.tie_weights()
    missing = [name for name, value in model.named_parameters() if value.is_meta]
    if missing:
        raise ValueError(f"the folder has no {missing[0]} ({len(missing)} are missing)")
    # What is computed and not stored, such as tables of rotations, is made anew.
    for module in model.modules():
        for name, value in list(module._buffers.items()):
            if value is not None and value.is_meta:
                fresh = type(module)(config)
                module._buffers[name] = fresh._buffers[name].to(device)
    return model.eval()


def demo() -> None:
    """Makes a tiny model, encrypts it, and compares what both say."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = transformers.LlamaConfig(
        vocab_size=100, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config).eval()
    me = Identity.generate()
    with tempfile.TemporaryDirectory() as top:
        folder, sealed = pathlib.Path(top, "plain"), pathlib.Path(top, "sealed")
        model.save_pretrained(folder, max_shard_size="100KB")
        seal(folder, sealed, me)
        shutil.rmtree(folder)
        loaded = load(sealed, device, identities=me)
        prompt = torch.arange(1, 9)[None]
        with torch.no_grad():
            expected = model.to(device)(prompt.to(device)).logits
            found = loaded(prompt.to(device)).logits
        assert torch.allclose(found, expected, atol=1e-5)
        name = "model.layers.0.mlp.down_proj.weight"
        full = dict(model.named_parameters())[name]
        for axis in (0, 1):
            part = shard(sealed, name, axis, 1, 2, device, identities=me)
            assert torch.equal(part, full.chunk(2, axis)[1])
        index = json.loads((sealed / "model.safetensors.index.json").read_text())
        files = len(set(index["weight_map"].values()))
        print(f"{files} encrypted files on {device}: the same logits as the plain model")


def main(words: list[str]) -> None:
    match words:
        case ["seal", folder, sealed, recipient]:
            seal(pathlib.Path(folder), pathlib.Path(sealed), recipient)
        case ["load", sealed, identity]:
            model = load(pathlib.Path(sealed), "cuda", identities=identity)
            tokenizer = transformers.AutoTokenizer.from_pretrained(sealed)
            prompt = tokenizer("Encryption is", return_tensors="pt").to("cuda")
            print(tokenizer.decode(model.generate(**prompt, max_new_tokens=20)[0]))
        case ["demo"]:
            demo()
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
