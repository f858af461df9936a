"""The part of the package that is not Python."""

from collections.abc import Buffer, Callable, Sequence
from typing import Any, final

from typing_extensions import disjoint_base

__all__ = [
    "AESGCM",
    "CountedNonces",
    "DeviceKey",
    "DeviceFile",
    "DevicePlan",
    "Engine",
    "Identity",
    "KeySet",
    "LazyParquet",
    "NativeReader",
    "NativeWriter",
    "NonceCounter",
    "PartSealer",
    "Recipient",
    "TensorFile",
    "__version__",
    "algorithms",
    "analyze_data",
    "analyze_on_gpu",
    "compare_data",
    "compare_on_gpu",
    "decrypt_file",
    "decrypt_parquet",
    "decrypt_parquet_to_gpu",
    "default_backend",
    "describe",
    "encrypt_file",
    "encrypt_parquet",
    "gpus",
    "inspect",
    "main",
    "new_envelope",
    "place",
    "recipients_of",
    "rewrap",
    "save_tensors",
    "sealed_len",
    "synchronize",
    "write_identity",
    "write_key_file",
]

__version__: str

@final
class Engine:
    def __new__(cls, backend: str | None = None, *, threads: int | None = None) -> Engine: ...
    @property
    def backend(self) -> str: ...
    def wake(self) -> None: ...

@disjoint_base
class AESGCM:
    def __new__(cls, key: Buffer, *, engine: Engine | None = None) -> AESGCM: ...
    @staticmethod
    def generate_key(bit_length: int) -> bytes: ...
    def encrypt(self, nonce: Buffer, data: Buffer, associated_data: Buffer | None) -> bytes: ...
    def decrypt(self, nonce: Buffer, data: Buffer, associated_data: Buffer | None) -> bytes: ...
    def encrypt_into(
        self, nonce: Buffer, data: Buffer, associated_data: Buffer | None, buf: Buffer
    ) -> int: ...
    def decrypt_into(
        self, nonce: Buffer, data: Buffer, associated_data: Buffer | None, buf: Buffer
    ) -> int: ...

@final
class KeySet:
    def __new__(cls, algorithm: str, bytes: Buffer, many: bool) -> KeySet: ...
    @staticmethod
    def generate(algorithm: str, count: int | None) -> KeySet: ...
    @property
    def algorithm(self) -> str: ...
    @property
    def iv_len(self) -> int: ...
    @property
    def is_aead(self) -> bool: ...
    @property
    def count(self) -> int: ...
    def run(
        self,
        encrypts: bool,
        authenticated: bool,
        data: Buffer,
        layout: tuple[Any, ...],
        out: Buffer | None,
        out_layout: tuple[Any, ...] | None,
        ivs: Buffer | None,
        iv_len: int | None,
        draw: bool,
        first_sector: int | None,
        aad: Buffer | None,
        aad_layout: tuple[Any, ...] | None,
        tags: Buffer | None,
        tag_len: int,
        index: Buffer | None,
        engine: Engine | None,
    ) -> None: ...

@final
class Identity:
    @staticmethod
    def generate() -> Identity: ...
    @staticmethod
    def from_str(text: str) -> Identity: ...
    def to_public(self) -> Recipient: ...

@final
class Recipient:
    @staticmethod
    def from_str(text: str) -> Recipient: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class NativeReader:
    def __new__(
        cls,
        file: Any,
        identities: Any,
        passphrase: Any,
        key: Any,
        max_work: int | None,
        engine: Engine | None,
    ) -> NativeReader: ...
    @property
    def len(self) -> int: ...
    def read_into(self, offset: int, buffer: Buffer) -> int: ...
    def read(self, offset: int, len: int) -> bytes: ...

@final
class NativeWriter:
    def __new__(
        cls,
        file: Any,
        recipients: Any,
        identities: Any,
        passphrase: Any,
        key: Any,
        replace: bool,
        engine: Engine | None,
    ) -> NativeWriter: ...
    def write(self, data: Buffer) -> int: ...
    def finish(self) -> None: ...
    def abandon(self) -> bool: ...

@final
class PartSealer:
    def __new__(
        cls, key: Any, content: int, header: bytes | None = None, *, engine: Engine | None = None
    ) -> PartSealer: ...
    @property
    def header(self) -> bytes: ...
    @property
    def content(self) -> int: ...
    @property
    def chunks(self) -> int: ...
    def parts(self, chunks: int) -> list[tuple[int, int]]: ...
    def plain_range(self, start: int, stop: int) -> tuple[int, int]: ...
    def sealed_range(self, start: int, stop: int) -> tuple[int, int]: ...
    def seal(self, start: int, stop: int, data: Buffer) -> bytes: ...

@final
class TensorFile:
    def __new__(
        cls,
        file: Any,
        identities: Any,
        passphrase: Any,
        key: Any,
        max_work: int | None,
        engine: Engine | None,
    ) -> TensorFile: ...
    @property
    def len(self) -> int: ...
    def stream_header(self) -> bytes: ...
    def read(self, offset: int, len: int) -> bytes: ...
    def read_into(self, offset: int, buffer: Buffer) -> None: ...
    def load(self, offset: int, address: int, len: int, ordinal: int, stream: int) -> None: ...

def save_tensors(
    dst: Any,
    parts: Sequence[Buffer | tuple[int, int]],
    device: tuple[int, int] | None,
    recipients: Any,
    identities: Any,
    passphrase: Any,
    key: Any,
    replace: bool,
    engine: Engine | None,
) -> int: ...
_Statistic = tuple[
    str, str, str, float, float, float, list[tuple[float, float | None, float | None]], float, str
]

def analyze_data(
    object: Buffer, shape: tuple[int, int, int] | None, seed: int
) -> list[_Statistic]: ...
def analyze_on_gpu(
    place: tuple[int, int],
    number: int,
    address: int,
    shape: tuple[int, int, int] | None,
    seed: int,
) -> list[_Statistic]: ...
def compare_data(
    left: Buffer, right: Buffer, shape: tuple[int, int, int] | None
) -> tuple[list[_Statistic], int | None]: ...
def compare_on_gpu(
    left: tuple[int, int],
    right: tuple[int, int],
    number: int,
    address: int,
    shape: tuple[int, int, int] | None,
) -> tuple[list[_Statistic], int | None]: ...
@final
class LazyParquet:
    def __new__(
        cls,
        source: Buffer,
        lookup: Callable[[bytes | None, str | None], Buffer | None],
        aad_prefix: bytes | None,
        engine: Engine | None,
    ) -> LazyParquet: ...
    def __len__(self) -> int: ...
    def read(self, source: Buffer, offset: int, len: int) -> bytes: ...

def decrypt_parquet(
    source: Any,
    lookup: Callable[[bytes | None, str | None], Buffer | None],
    aad_prefix: bytes | None,
    out: Any | None,
    replace: bool,
    engine: Engine | None,
) -> bytes | int: ...
def decrypt_parquet_to_gpu(
    source: Buffer,
    descriptor: int | None,
    lookup: Callable[[bytes | None, str | None], Buffer | None],
    aad_prefix: bytes | None,
    number: int,
    engine: Engine | None,
) -> DeviceFile: ...
def encrypt_parquet(
    source: Any,
    key: Buffer,
    columns: Sequence[tuple[str, Buffer]],
    metadata: dict[str | None, bytes],
    ctr: bool,
    plaintext_footer: bool,
    aad_prefix: bytes | None,
    store_prefix: bool,
    out: Any | None,
    replace: bool,
    engine: Engine | None,
) -> bytes | int: ...
def encrypt_file(
    src: Any,
    dst: Any,
    recipients: Any,
    identities: Any,
    passphrase: Any,
    key: Any,
    replace: bool,
    attributes: bool,
    progress: Callable[[int], object] | None,
    engine: Engine | None,
) -> int: ...
def decrypt_file(
    src: Any,
    dst: Any | None,
    identities: Any,
    passphrase: Any,
    key: Any,
    range: tuple[int, int | None] | None,
    replace: bool,
    attributes: bool,
    max_work: int | None,
    progress: Callable[[int], object] | None,
    engine: Engine | None,
) -> int: ...
def rewrap(
    file: Any,
    identities: Any,
    passphrase: Any,
    recipients: Any,
    new_passphrase: Any,
    rekey: bool,
    max_work: int | None,
    progress: Callable[[int], object] | None,
    engine: Engine | None,
) -> int | None: ...
def inspect(file: Any) -> dict[str, Any]: ...
def sealed_len(content: int) -> int: ...
def new_envelope(
    recipients: Any = None, *, identities: Any = None, passphrase: Any = None
) -> tuple[bytes, bytes]: ...
def recipients_of(identities: Any, *, passphrase: Any = None) -> list[Recipient]: ...
def write_identity(path: Any, *, replace: bool = False) -> Recipient: ...
def write_key_file(path: Any, *, replace: bool = False) -> None: ...
def default_backend() -> str: ...
def algorithms() -> list[str]: ...
def place(data: Buffer) -> tuple[int, int]: ...
def main(launcher: Sequence[str], arguments: Sequence[str]) -> int: ...

_At = tuple[int, int]

@final
class DeviceKey:
    def __new__(cls, keys: KeySet, number: int) -> DeviceKey: ...
    @property
    def device(self) -> int: ...
    @property
    def counter(self) -> NonceCounter | None: ...
    def enqueue(
        self,
        parts: tuple[Any, ...],
        statuses: _At | None,
        refused: _At | None,
        workspace: _At,
        stream: int,
    ) -> int | None: ...
    def enqueue_indirect(
        self,
        places: tuple[Any, ...],
        statuses: _At | None,
        refused: _At | None,
        workspace: _At,
        stream: int,
    ) -> int | None: ...

@final
class NonceCounter:
    def __new__(cls, number: int, algorithm: str, prefix: Buffer | None) -> NonceCounter: ...

@final
class CountedNonces:
    def __new__(cls, kind: str, base: Buffer, first: int) -> CountedNonces: ...
    def bytes(self, count: int) -> bytes: ...

@final
class DeviceFile:
    def __len__(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def ptr(self) -> int: ...
    @property
    def device(self) -> int: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    def tobytes(self) -> bytes: ...

@final
class DevicePlan:
    def __new__(cls, keys: KeySet, number: int, parts: tuple[Any, ...]) -> DevicePlan: ...
    def launch(self, stream: int) -> None: ...
    @property
    def statuses(self) -> tuple[int, int, int] | None: ...
    def failed(self, stream: int) -> list[int]: ...

def gpus() -> list[str]: ...
def synchronize(number: int, address: int) -> None: ...
def describe(
    object: Any, stream: int | None
) -> tuple[int, int, int, tuple[int, ...], int | None, bool] | None: ...
