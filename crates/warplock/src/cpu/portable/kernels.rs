//! The modes over the portable cores: plain, and the reference for tests of all other kernels.

use zeroize::{Zeroize, Zeroizing};

use super::bits::InLines;
use super::{GhashKey, Sliced, SlicedEach, expand, schedule, xts_double};
use crate::Direction;
use crate::cpu::InstructionSet;
use crate::cpu::kernels::{Chain, CounterBits, GcmCounter, Io, Kernels};
use crate::cpu::prepared::{AesKey, GhashKey as PreparedGhashKey};

/// Blocks worked on at a time: enough to fill the wide core, few enough for the first cache.
const STEP: usize = 256;

/// The portable kernels; they need no proof of instructions.
pub(crate) struct Portable;

/// Copies a kernel's input to its output, and returns the output to work on in place.
///
/// # Safety
/// As [`Kernels`].
unsafe fn output<'a>(io: Io) -> &'a mut [u8] {
    // SAFETY: by this function's contract; where the two differ, they do not overlap.
    unsafe {
        if !std::ptr::eq(io.src, io.dst) {
            io.dst.copy_from_nonoverlapping(io.src, io.len);
        }
        std::slice::from_raw_parts_mut(io.dst, io.len)
    }
}

fn blocks_of(bytes: &mut [u8]) -> &mut [[u8; 16]] {
    let (blocks, rest) = bytes.as_chunks_mut();
    debug_assert!(rest.is_empty());
    blocks
}

fn xor(to: &mut [u8], from: &[u8]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to ^= from);
}

/// Encrypts a block of each chain.
type Encrypt = Box<dyn Fn(&mut [[u8; 16]])>;

fn prepare(key: &AesKey, io: Io) -> Sliced {
    Sliced::new(&key.enc, key.rounds, io.len.div_ceil(16))
}

/// XOR with the key stream from `counter` on.
pub(super) fn xor_key_stream(
    key: &Sliced,
    counter: &mut [u8; 16],
    bits: CounterBits,
    text: &mut [u8],
) {
    let InLines(stream) = &mut InLines([[0; 16]; STEP]);
    for text in text.chunks_mut(16 * STEP) {
        let stream = &mut stream[..text.len().div_ceil(16)];
        for block in stream.iter_mut() {
            *block = *counter;
            *counter = bits.advance(*counter, 1);
        }
        key.crypt(Direction::Encrypt, stream);
        xor(text, stream.as_flattened());
    }
    let used = text.len().div_ceil(16).min(STEP);
    stream[..used].as_flattened_mut().zeroize();
}

impl Kernels for Portable {
    fn set(&self) -> InstructionSet {
        InstructionSet::Portable
    }

    fn expand(&self, key: &[u8], inverse: bool, to: &mut AesKey) {
        (to.enc, to.rounds) = expand(key);
        if inverse {
            to.dec = schedule::inverse(&to.enc, to.rounds);
        }
    }

    fn ghash_key(&self, h: [u8; 16], _blocks: usize, to: &mut Option<PreparedGhashKey>) {
        let key = GhashKey::new(h);
        *to = Some(PreparedGhashKey::Portable { h, key });
    }

    unsafe fn ecb(&self, key: &AesKey, direction: Direction, io: Io) {
        // SAFETY: by the trait's contract.
        prepare(key, io).crypt(direction, blocks_of(unsafe { output(io) }));
    }

    unsafe fn ecb_each(&self, keys: &[u8], io: Io) {
        // SAFETY: by the trait's contract.
        let blocks = blocks_of(unsafe { output(io) });
        let keys = keys.as_chunks().0;
        for (keys, blocks) in keys.chunks(STEP).zip(blocks.chunks_mut(STEP)) {
            SlicedEach::from_keys(keys).encrypt_blocks(blocks);
        }
    }

    unsafe fn ctr(&self, key: &AesKey, counter: &mut [u8; 16], io: Io) {
        // SAFETY: by the trait's contract.
        let text = unsafe { output(io) };
        xor_key_stream(&prepare(key, io), counter, CounterBits::B128, text);
    }

    unsafe fn cbc_decrypt(&self, key: &AesKey, prev: &mut [u8; 16], io: Io) {
        // SAFETY: by the trait's contract.
        let text = blocks_of(unsafe { output(io) });
        let key = prepare(key, io);
        let InLines(chained) = &mut InLines([[0; 16]; STEP]);
        for text in text.chunks_mut(STEP) {
            let chained = &mut chained[..text.len()];
            chained[0] = *prev;
            chained[1..].copy_from_slice(&text[..text.len() - 1]);
            *prev = text[text.len() - 1];
            key.crypt(Direction::Decrypt, text);
            xor(text.as_flattened_mut(), chained.as_flattened());
        }
    }

    unsafe fn cbc_encrypt(&self, chains: &mut [Chain<'_>]) {
        let Some(first) = chains.first().map(|chain| chain.key) else {
            return;
        };
        let one_key = chains.iter().all(|chain| std::ptr::eq(chain.key, first));
        let mut open: Vec<usize> = (0..chains.len()).collect();
        let mut blocks = Vec::with_capacity(chains.len());
        let mut offset = 0;
        loop {
            open.retain(|&i| offset < chains[i].io.len);
            if open.is_empty() {
                return;
            }
            let encrypt: Encrypt = if one_key {
                let key = Sliced::new(&first.enc, first.rounds, open.len());
                Box::new(move |blocks| key.crypt(Direction::Encrypt, blocks))
            } else {
                let keys: Vec<_> = open.iter().map(|&i| chains[i].key.enc).collect();
                let keys = SlicedEach::new(&Zeroizing::new(keys), first.rounds);
                Box::new(move |blocks| keys.encrypt_blocks(blocks))
            };
            // Block after block of all chains in step. Finished chains keep their place, with any
            // block in it, until they are a quarter: leaving them out means preparing the others'
            // keys again.
            let mut left = open.len();
            while 4 * left > 3 * open.len() {
                blocks.resize(open.len(), [0; 16]);
                for (block, &i) in blocks.iter_mut().zip(&open) {
                    let chain = &chains[i];
                    if offset < chain.io.len {
                        // SAFETY: `offset` is inside; the rest by the trait's contract.
                        let text =
                            unsafe { chain.io.part(offset, 16).src.cast::<[u8; 16]>().read() };
                        *block = chain.prev;
                        xor(block, &text);
                    }
                }
                encrypt(&mut blocks);
                for (block, &i) in blocks.iter().zip(&open) {
                    let chain = &mut chains[i];
                    if offset < chain.io.len {
                        // SAFETY: as above.
                        unsafe {
                            chain
                                .io
                                .part(offset, 16)
                                .dst
                                .cast::<[u8; 16]>()
                                .write(*block)
                        };
                        chain.prev = *block;
                    }
                }
                offset += 16;
                left = open.iter().filter(|&&i| offset < chains[i].io.len).count();
            }
        }
    }

    unsafe fn xts(
        &self,
        key: &AesKey,
        tweak_key: Option<&AesKey>,
        direction: Direction,
        tweak: &mut [u8; 16],
        io: Io,
    ) {
        if let Some(key) = tweak_key {
            // SAFETY: the tweak is borrowed alone.
            unsafe { self.ecb(key, Direction::Encrypt, Io::in_place(tweak)) };
        }
        // SAFETY: by the trait's contract.
        let text = blocks_of(unsafe { output(io) });
        let key = prepare(key, io);
        let InLines(tweaks) = &mut InLines([[0; 16]; STEP]);
        for text in text.chunks_mut(STEP) {
            let tweaks = &mut tweaks[..text.len()];
            for block in tweaks.iter_mut() {
                *block = *tweak;
                *tweak = xts_double(*tweak);
            }
            xor(text.as_flattened_mut(), tweaks.as_flattened());
            key.crypt(direction, text);
            xor(text.as_flattened_mut(), tweaks.as_flattened());
        }
        let used = (io.len / 16).min(STEP);
        tweaks[..used].as_flattened_mut().zeroize();
    }

    unsafe fn gcm(
        &self,
        key: &AesKey,
        hash: &PreparedGhashKey,
        direction: Direction,
        counter: &mut GcmCounter,
        y: &mut [u8; 16],
        io: Io,
    ) {
        let key = prepare(key, io);
        // SAFETY: by the trait's contract.
        let text = unsafe { output(io) };
        // A step at a time, while it is in the cache; what is hashed is the ciphertext.
        for text in text.chunks_mut(16 * STEP) {
            if direction == Direction::Decrypt {
                self.ghash(hash, y, text);
            }
            xor_key_stream(&key, &mut counter.block, CounterBits::B32, text);
            if direction == Direction::Encrypt {
                self.ghash(hash, y, text);
            }
        }
    }

    fn ghash(&self, hash: &PreparedGhashKey, y: &mut [u8; 16], data: &[u8]) {
        let PreparedGhashKey::Portable { key, .. } = hash else {
            unreachable!("kernels get hash keys that they made");
        };
        let (blocks, rest) = data.as_chunks::<16>();
        key.update(y, blocks.as_flattened());
        if !rest.is_empty() {
            let mut last = [0; 16];
            last[..rest.len()].copy_from_slice(rest);
            key.update(y, &last);
        }
    }
}
