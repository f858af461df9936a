//! Messages side by side, one in each lane of a register.
//!
//! After the key and the nonce, a message makes its lane absorb one run of bytes:
//!
//! ```text
//! AD | 01, 31 zeros | text | 01, 31 zeros | 96 zeros, with the tag as the last 16 of key stream
//! ```
//!
//! All lanes go through their runs in step, a tile of 64 bytes at a time. While all lanes are
//! inside their texts, or all outside of texts and padding, the control bits are constants; other
//! tiles compute masks from the borders of each lane's parts. Steps after a message's end do no
//! harm. Nothing here depends on secrets except the words themselves.

use std::sync::atomic::{Ordering, compiler_fence};

use super::block::{Lines, Masks, Words};
use crate::job::Message;

/// Bytes of a tile: a cache line. Messages often lie a power of two apart, so that the lanes
/// compete for a few lines; each line is used up when it is loaded.
const TILE: usize = 64;

/// Words of a tile.
const WORDS: usize = TILE / 4;

/// How far ahead memory is prefetched.
const AHEAD: usize = 256;

/// The most lanes that a register has.
pub(crate) const MOST: usize = 16;

/// Bytes of padding after the associated data and after the text.
const PAD: usize = 32;

/// Bytes of key stream after the last padding; the last 16 are the tag.
const FINAL: usize = 96;

/// The longest run that lanes take: borders are signed 32-bit numbers.
pub(crate) const LONGEST: usize = 1 << 30;

/// Pointers of the lanes; the first [`Wide::N`] count.
pub(crate) type From = [*const u8; MOST];
/// The same to write to.
pub(crate) type To = [*mut u8; MOST];

/// A register with a word of `N` messages.
///
/// # Safety of all unsafe methods
/// The machine has the instructions, and at the first `N` pointers a tile can be read or written.
pub(crate) trait Wide: Words {
    /// Lanes.
    const N: usize;
    /// An empty delay line.
    unsafe fn empty() -> Self::Line;
    /// The tap of that line.
    unsafe fn empty_tap() -> Self::Tap;
    /// The same number in each lane.
    unsafe fn splat(number: u32) -> Self;
    /// A number for each lane.
    unsafe fn numbers(numbers: &[u32; MOST]) -> Self;
    /// Transposes the tiles of all lanes: word `i` of each into register `i`.
    unsafe fn load(from: &From) -> [Self; WORDS];
    /// The reverse of [`Wide::load`].
    unsafe fn store(words: [Self; WORDS], to: &To);
    /// Prefetches memory that will be read soon, if it exists.
    fn fetch(from: *const u8);
    /// The sum of numbers.
    fn add(self, other: Self) -> Self;
    /// A mask, for the word at `place`, of the bytes at or after this place in the run.
    fn at_or_after(self, place: Self) -> Self;
    /// The first bit of the byte at this place, if the word at `place` has it.
    fn first_bit(self, place: Self) -> Self;
}

/// A message for a lane.
pub(crate) struct Work<'a> {
    pub(crate) key: &'a [u8; 16],
    pub(crate) message: Message<'a>,
    pub(crate) tag: [u8; 16],
}

/// The work of a lane in a tile.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Associated data only.
    Aad,
    /// Text only.
    Text,
    /// Zeros whose key stream is not needed.
    Zeros,
    /// Anything else.
    Border,
}

impl Work<'_> {
    /// Where the text begins in the run.
    fn text(&self) -> usize {
        self.message.aad.len() + PAD
    }

    fn text_end(&self) -> usize {
        self.text() + self.message.len
    }

    /// Bytes in the run.
    pub(crate) fn end(&self) -> usize {
        self.text_end() + PAD + FINAL
    }

    /// The content of the tile at `x`, and how many tiles of this kind follow each other there.
    fn part(&self, x: usize) -> (Part, usize) {
        if x + TILE <= self.message.aad.len() {
            (Part::Aad, (self.message.aad.len() - x) / TILE)
        } else if x >= self.text() && x + TILE <= self.text_end() {
            (Part::Text, (self.text_end() - x) / TILE)
        } else if x >= self.end() {
            (Part::Zeros, usize::MAX)
        } else if x >= self.text_end() + PAD && x + TILE + 16 <= self.end() {
            (Part::Zeros, (self.end() - 16 - x) / TILE)
        } else {
            (Part::Border, 1)
        }
    }

    /// Fills `tile` with the run's bytes from `x` on, without the 1 bit that starts each padding.
    fn fill(&self, x: usize, tile: &mut [u8; TILE]) {
        *tile = [0; TILE];
        if let Some(rest) = self.message.aad.get(x..)
            && !rest.is_empty()
        {
            let len = rest.len().min(TILE);
            tile[..len].copy_from_slice(&rest[..len]);
        }
        let (first, last) = (x.max(self.text()), (x + TILE).min(self.text_end()));
        if first < last {
            let tile = &mut tile[first - x..last - x];
            // SAFETY: inside the text, which can be read.
            unsafe {
                let src = self.message.input.add(first - self.text());
                src.copy_to_nonoverlapping(tile.as_mut_ptr(), tile.len());
            }
        }
    }

    /// Writes text and tag from a tile of results.
    fn take(&mut self, x: usize, tile: &[u8; TILE]) {
        let (first, last) = (x.max(self.text()), (x + TILE).min(self.text_end()));
        if first < last {
            let tile = &tile[first - x..last - x];
            // SAFETY: inside the text, which can be written.
            unsafe {
                let dst = self.message.output.add(first - self.text());
                dst.copy_from_nonoverlapping(tile.as_ptr(), tile.len());
            }
        }
        let tag = self.end() - 16;
        let (first, last) = (x.max(tag), (x + TILE).min(self.end()));
        if first < last {
            self.tag[first - tag..last - tag].copy_from_slice(&tile[first - x..last - x]);
        }
    }
}

/// What kind of tiles a loop is compiled for.
mod kind {
    pub(crate) const ABSORB: u8 = 0;
    pub(crate) const SEAL: u8 = 1;
    pub(crate) const OPEN: u8 = 2;
}

/// Where the lanes read and write.
struct Places {
    from: From,
    to: To,
    /// How far to advance for the next tile: a tile, or nothing.
    step: [usize; MOST],
}

/// Where each lane's parts begin.
struct Borders {
    aad_end: [u32; MOST],
    text_end: [u32; MOST],
}

/// A tile for each lane.
#[repr(C, align(64))]
struct Tiles([[u8; TILE]; MOST]);

/// Seals or opens up to `N` messages, and computes their tags.
///
/// # Safety
/// The machine has the instructions; each message's input can be read and its output written, they are
/// equal or do not overlap, no message writes where another one reads or writes, and no run is
/// longer than [`LONGEST`].
#[inline(always)]
pub(crate) unsafe fn run<W: Wide, const OPEN: bool>(work: &mut [Work<'_>]) {
    debug_assert!(work.len() <= W::N && work.iter().all(|work| work.end() <= LONGEST));
    let mut input = Tiles([[0; TILE]; MOST]);
    let mut output = Tiles([[0; TILE]; MOST]);
    let mut borders = Borders {
        aad_end: [0; MOST],
        text_end: [0; MOST],
    };
    let mut end = 0;
    for (lane, work) in work.iter().enumerate() {
        input.0[lane][..16].copy_from_slice(work.key);
        input.0[lane][16..32].copy_from_slice(work.message.iv.bytes());
        borders.aad_end[lane] = work.message.aad.len() as u32;
        borders.text_end[lane] = work.text_end() as u32;
        end = end.max(work.end());
    }
    // From here on the tiles are used through these pointers alone.
    let home: *mut [u8; TILE] = (&raw mut input.0).cast();
    let result: *mut [u8; TILE] = (&raw mut output.0).cast();
    let mut places = Places {
        from: [home.cast_const().cast(); MOST],
        to: [result.cast(); MOST],
        step: [0; MOST],
    };

    // SAFETY: by this function's contract; there are as many tiles as lanes, and pointers into
    // texts stay inside by what `part` says.
    unsafe {
        for lane in 0..MOST {
            places.from[lane] = home.add(lane).cast_const().cast();
            places.to[lane] = result.add(lane).cast();
        }
        let mut lines = Lines::<W>::new(W::empty(), W::empty_tap());
        start(&mut lines, &places.from);
        let mut x = 0;
        while x < end {
            let (mut all_text, mut no_text, mut tiles) = (true, true, usize::MAX);
            for (lane, work) in work.iter().enumerate() {
                let (part, run) = work.part(x);
                tiles = tiles.min(run);
                places.from[lane] = home.add(lane).cast_const().cast();
                places.to[lane] = result.add(lane).cast();
                places.step[lane] = 0;
                match part {
                    Part::Text => {
                        no_text = false;
                        places.from[lane] = work.message.input.add(x - work.text());
                        places.to[lane] = work.message.output.add(x - work.text());
                        places.step[lane] = TILE;
                    }
                    Part::Aad => {
                        all_text = false;
                        places.from[lane] = work.message.aad.as_ptr().add(x);
                        places.step[lane] = TILE;
                    }
                    Part::Zeros => {
                        // A lane after its end goes with any other.
                        all_text &= x >= work.end();
                        *home.add(lane) = [0; TILE];
                    }
                    Part::Border => {
                        (all_text, no_text) = (false, false);
                        work.fill(x, &mut *home.add(lane));
                    }
                }
            }
            if all_text {
                if OPEN {
                    uniform::<W, { kind::OPEN }>(&mut lines, &mut places, tiles);
                } else {
                    uniform::<W, { kind::SEAL }>(&mut lines, &mut places, tiles);
                }
            } else if no_text {
                uniform::<W, { kind::ABSORB }>(&mut lines, &mut places, tiles);
            } else {
                tiles = 1;
                mixed::<W, OPEN>(&mut lines, &places, &borders, x as u32);
                for (lane, work) in work.iter_mut().enumerate() {
                    if work.part(x).0 == Part::Border {
                        work.take(x, &*result.add(lane));
                    }
                }
            }
            x += tiles * TILE;
        }
        wipe::<W, _>(&mut lines);
        wipe::<W, _>(&mut input);
        wipe::<W, _>(&mut output);
    }
}

/// Key and nonce, which lie together at each pointer, at the start of a tile.
///
/// # Safety
/// As [`Wide::load`].
#[inline(always)]
unsafe fn start<W: Wide>(state: &mut Lines<W>, from: &From) {
    let mut lines = *state;
    // SAFETY: by this function's contract.
    let (words, one) = unsafe { (W::load(from), W::splat(1)) };
    for word in &words[..8] {
        lines.absorb(*word);
    }
    lines.absorb(words[0].xor(one));
    for word in &words[1..4] {
        lines.absorb(*word);
    }
    for _ in 1..12 {
        for word in &words[..4] {
            lines.absorb(*word);
        }
    }
    *state = lines;
}

/// A word in which the control bits are the same for all lanes.
#[inline(always)]
fn step<W: Wide, const KIND: u8>(lines: &mut Lines<W>, word: &mut W) {
    match KIND {
        kind::ABSORB => lines.absorb(*word),
        kind::SEAL => *word = lines.seal(*word),
        _ => *word = lines.open(*word),
    }
}

/// Tiles in which the control bits are the same for all lanes.
///
/// # Safety
/// As [`Wide::load`] and [`Wide::store`], for that many tiles.
#[inline(always)]
unsafe fn uniform<W: Wide, const KIND: u8>(
    state: &mut Lines<W>,
    places: &mut Places,
    tiles: usize,
) {
    // In registers over all tiles.
    let mut lines = *state;
    for _ in 0..tiles {
        // SAFETY: by this function's contract; what is fetched ahead need not be there.
        unsafe {
            let mut words = W::load(&places.from);
            for lane in 0..W::N {
                places.from[lane] = places.from[lane].add(places.step[lane]);
                W::fetch(places.from[lane].wrapping_add(AHEAD));
            }
            // Four at a time, so that a line's content hardly moves from register to register: 4
            // KiB messages open at 3.5 instead of 3.2 GB/s.
            for [first, second, third, fourth] in words.as_chunks_mut::<4>().0 {
                step::<W, KIND>(&mut lines, first);
                step::<W, KIND>(&mut lines, second);
                step::<W, KIND>(&mut lines, third);
                step::<W, KIND>(&mut lines, fourth);
            }
            if KIND != kind::ABSORB {
                W::store(words, &places.to);
                for lane in 0..W::N {
                    places.to[lane] = places.to[lane].add(places.step[lane]);
                }
            }
        }
    }
    *state = lines;
}

/// The tile at `x` with control bits by each lane's borders.
///
/// # Safety
/// As [`Wide::load`] and [`Wide::store`].
#[inline(always)]
unsafe fn mixed<W: Wide, const OPEN: bool>(
    state: &mut Lines<W>,
    places: &Places,
    borders: &Borders,
    x: u32,
) {
    let mut lines = *state;
    // SAFETY: by this function's contract.
    unsafe {
        let half_pad = W::splat(PAD as u32 / 2);
        let aad_end = W::numbers(&borders.aad_end);
        let text_end = W::numbers(&borders.text_end);
        let mut words = W::load(&places.from);
        for (place, word) in words.iter_mut().enumerate() {
            let at = W::splat(x + 4 * place as u32);
            let (half, text) = (aad_end.add(half_pad), aad_end.add(half_pad).add(half_pad));
            let text = text.at_or_after(at);
            let last_half = text_end.add(half_pad);
            let last = last_half.add(half_pad).at_or_after(at);
            // Each mask is the bytes after an odd number of its borders.
            let zero_ca = half
                .at_or_after(at)
                .xor3(text, last_half.at_or_after(at))
                .xor(last);
            let inside = text.xor(text_end.at_or_after(at));
            let ones = W::splat(u32::MAX);
            let masks = Masks {
                ca: zero_ca.xor(ones),
                cb: text.xnor3(last, W::splat(0)),
                ciphertext: if OPEN { inside } else { W::splat(0) },
            };
            let bits = aad_end.first_bit(at).xor(text_end.first_bit(at));
            // The padding's 1 bits are not part of the text, so they may be in the result.
            *word = lines.mixed(word.xor(bits), &masks);
        }
        W::store(words, &places.to);
    }
    *state = lines;
}

/// Overwrites a value with zeros, a register at a time: word by word it would take as long as a
/// short message.
///
/// # Safety
/// The machine has the instructions. `T` is made of whole registers, aligned as they are, and all
/// zeros is a valid value.
#[inline(always)]
unsafe fn wipe<W: Wide, T>(value: &mut T) {
    const { assert!(size_of::<T>().is_multiple_of(size_of::<W>())) };
    const { assert!(align_of::<T>() >= align_of::<W>()) };
    // SAFETY: by this function's contract.
    unsafe {
        let (place, zero) = ((&raw mut *value).cast::<W>(), W::splat(0));
        for i in 0..size_of::<T>() / size_of::<W>() {
            place.add(i).write_volatile(zero);
        }
    }
    // Keeps later accesses after the wipe.
    compiler_fence(Ordering::SeqCst);
}
