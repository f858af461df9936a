//! An interpreter of the kernels on the CPU: device addresses are addresses of this process.

mod gcm;

use crate::Direction;
use crate::cpu::portable::xts_skip;
use crate::cpu::{Acorn, AesKey, InstructionSet, Io, Kernels};
use crate::cuda::launch::abi::{AcornMessage, Address, GcmMessage, Piece, TABLE_KEY, Work};
use crate::cuda::launch::steps::{Parameter, Step};

type Block = [u8; 16];
type Schedule = [Block; 15];

/// A launch with copies of its parameters.
pub(super) struct Launch {
    name: String,
    parameters: Vec<Owned>,
}

enum Owned {
    Work(Work),
    Keys(Schedule),
    Number(u64),
    Block(Block),
}

impl Launch {
    pub(super) fn new(step: &Step<'_>) -> Self {
        let parameters = step.parameters.iter().map(|parameter| match *parameter {
            Parameter::Work(work) => Owned::Work(work),
            Parameter::Keys(keys) => Owned::Keys(keys.round),
            Parameter::Address(number) | Parameter::Count(number) => Owned::Number(number),
            Parameter::Number(number) => Owned::Number(u64::from(number)),
            Parameter::Block(block) => Owned::Block(*block),
            Parameter::Spread(_) => unreachable!("tables of jobs come from the host"),
        });
        Launch {
            name: step.name.clone(),
            parameters: parameters.collect(),
        }
    }

    fn work(&self, place: usize) -> Work {
        match self.parameters[place] {
            Owned::Work(work) => work,
            _ => panic!("parameter {place} of {} is no work", self.name),
        }
    }

    fn keys(&self, place: usize) -> Schedule {
        match self.parameters[place] {
            Owned::Keys(keys) => keys,
            _ => panic!("parameter {place} of {} is no round keys", self.name),
        }
    }

    fn number(&self, place: usize) -> u64 {
        match self.parameters[place] {
            Owned::Number(number) => number,
            _ => panic!("parameter {place} of {} is no number or address", self.name),
        }
    }

    fn block(&self, place: usize) -> Block {
        match self.parameters[place] {
            Owned::Block(block) => block,
            _ => panic!("parameter {place} of {} is no block", self.name),
        }
    }
}

fn kernels() -> &'static dyn Kernels {
    InstructionSet::best().kernels().unwrap()
}

/// The source of round keys: a parameter for all pieces, or the table.
enum KeySource {
    One(Box<Schedule>, usize),
    Table(Address, usize),
}

impl KeySource {
    /// Schedule `which` of a table's key: encryption, decryption, tweak.
    unsafe fn key(&self, number: u32, which: usize) -> AesKey {
        let (schedule, rounds) = match self {
            KeySource::One(schedule, rounds) => (**schedule, *rounds),
            &KeySource::Table(table, rounds) => {
                let at = table + (number as usize * TABLE_KEY + which * 240) as u64;
                // SAFETY: by this function's contract.
                (unsafe { read(at) }, rounds)
            }
        };
        AesKey {
            enc: schedule,
            dec: schedule,
            rounds,
        }
    }
}

unsafe fn read<T: Copy>(at: Address) -> T {
    // SAFETY: by this function's contract.
    unsafe { (at as *const T).read_unaligned() }
}

unsafe fn write<T: Copy>(at: Address, value: T) {
    // SAFETY: by this function's contract.
    unsafe { (at as *mut T).write_unaligned(value) }
}

unsafe fn bytes<'a>(at: Address, len: u64) -> &'a [u8] {
    match len {
        0 => &[],
        // SAFETY: by this function's contract.
        _ => unsafe { std::slice::from_raw_parts(at as *const u8, len as usize) },
    }
}

/// All pieces; checks that their units add up.
unsafe fn pieces(work: &Work, unit: impl Fn(&Piece) -> u64) -> Vec<Piece> {
    let mut sum = 0;
    let mut all = Vec::new();
    for number in 0..work.count {
        // SAFETY: by this function's contract.
        let piece: Piece = unsafe { read(work.pieces + 56 * number) };
        let start = match work.starts {
            0 => number * work.each,
            // SAFETY: as above.
            starts => unsafe { read(starts + 8 * number) },
        };
        assert_eq!(start, sum, "units before piece {number}");
        assert_eq!(piece.before % 16, 0);
        assert_eq!(piece.input % 16, 0, "texts start at blocks");
        sum += unit(&piece);
        all.push(piece);
    }
    if work.starts != 0 {
        // SAFETY: as above; there is one more than pieces.
        assert_eq!(unsafe { read::<u64>(work.starts + 8 * work.count) }, sum);
    }
    assert_eq!(work.units, sum, "units of all pieces");
    all
}

fn io(piece: &Piece, offset: u64, len: u64) -> Io {
    let (src, dst) = (piece.input + offset, piece.output + offset);
    Io::new(src as *const u8, dst as *mut u8, len as usize)
}

fn xts_blocks(piece: &Piece) -> u64 {
    piece.len / 16 - u64::from(!piece.len.is_multiple_of(16))
}

fn encrypt(key: &AesKey, mut block: Block) -> Block {
    // SAFETY: the buffer is this function's own.
    unsafe { kernels().ecb(key, Direction::Encrypt, Io::in_place(&mut block)) };
    block
}

/// Runs a launch.
///
/// # Safety
/// All memory that the launch names is valid, and nothing else uses it.
pub(super) unsafe fn run(launch: &Launch) {
    let stem = launch
        .name
        .rsplit_once('_')
        .filter(|(_, end)| matches!(*end, "128" | "192" | "256" | "table"));
    let (stem, bits) = stem.unwrap_or((&launch.name, ""));
    let rounds = match bits {
        "128" => 10,
        "192" => 12,
        _ => 14,
    };
    let source = |place: usize| match bits {
        "table" => KeySource::Table(launch.number(place), launch.number(place + 1) as usize),
        _ => KeySource::One(Box::new(launch.keys(place)), rounds),
    };
    // SAFETY: by this function's contract, for all of it.
    unsafe {
        match stem {
            "ecb_encrypt" | "ecb_decrypt" => {
                let keys = source(1);
                for piece in pieces(&launch.work(0), |piece| piece.len.div_ceil(16)) {
                    let (direction, which) = way(stem);
                    let key = keys.key(piece.key, which);
                    kernels().ecb(&key, direction, io(&piece, 0, piece.len));
                }
            }
            "ctr" => {
                let keys = source(1);
                let unit = if bits == "table" { 16 } else { 512 };
                for piece in pieces(&launch.work(0), |piece| piece.len.div_ceil(unit)) {
                    let start = u128::from_be_bytes(read(piece.iv));
                    let start = start.wrapping_add(u128::from(piece.before / 16));
                    let key = keys.key(piece.key, 0);
                    let mut counter = start.to_be_bytes();
                    let text = io(&piece, 0, piece.len);
                    kernels().ctr(&key, &mut counter, text);
                }
            }
            "cbc_save" => write(launch.number(1), *b"only a test mark"),
            "cbc_decrypt" => {
                let scratch = launch.number(if bits == "table" { 3 } else { 2 });
                assert_eq!(&read::<Block>(scratch), b"only a test mark");
                let keys = source(1);
                for piece in pieces(&launch.work(0), |piece| piece.len / 16) {
                    let key = keys.key(piece.key, 1);
                    let mut iv = read(piece.iv);
                    kernels().cbc_decrypt(&key, &mut iv, io(&piece, 0, piece.len));
                }
            }
            "cbc_encrypt" | "cbc_encrypt_few" => {
                let keys = source(1);
                for piece in pieces(&launch.work(0), |_| 1) {
                    let key = &keys.key(piece.key, 0);
                    let prev = read(piece.iv);
                    let io = io(&piece, 0, piece.len);
                    kernels().cbc_encrypt(&mut [crate::cpu::Chain { key, prev, io }]);
                }
            }
            "xts_tweaks" => {
                let keys = KeySource::Table(launch.number(1), launch.number(2) as usize);
                for (number, piece) in (0..).zip(pieces(&launch.work(0), xts_blocks)) {
                    let tweak = encrypt(&keys.key(piece.key, 2), read(piece.iv));
                    let tweak = xts_skip(tweak, piece.before / 16);
                    write(launch.number(3) + 16 * number, tweak);
                }
            }
            "xts_encrypt" | "xts_decrypt" => {
                let tweaks = launch.number(if bits == "table" { 3 } else { 2 });
                let (direction, which) = way(stem);
                let keys = source(1);
                for (number, piece) in (0..).zip(pieces(&launch.work(0), xts_blocks)) {
                    let mut tweak = read(tweaks + 16 * number);
                    let key = keys.key(piece.key, which);
                    let text = io(&piece, 0, 16 * xts_blocks(&piece));
                    kernels().xts(&key, None, direction, &mut tweak, text);
                }
            }
            "xts_steal_encrypt" | "xts_steal_decrypt" => {
                let keys = KeySource::Table(launch.number(1), launch.number(2) as usize);
                let (direction, which) = way(stem);
                for (number, piece) in (0..).zip(pieces(&launch.work(0), xts_blocks)) {
                    if !piece.len.is_multiple_of(16) {
                        let tweak = read(launch.number(3) + 16 * number);
                        let tweak = xts_skip(tweak, xts_blocks(&piece));
                        steal(&piece, &keys.key(piece.key, which), direction, tweak);
                    }
                }
            }
            "expand_keys" => expand(launch),
            "ecb_each" => {
                let len = 4 * (rounds as u64 - 6);
                for number in 0..launch.number(3) {
                    let raw = bytes(launch.number(0) + len * number, len);
                    let text: Block = read(launch.number(1) + 16 * number);
                    let text = encrypt(&AesKey::of(kernels(), raw, false), text);
                    write(launch.number(2) + 16 * number, text);
                }
            }
            "gcm_powers" => write(launch.number(2), launch.block(0)),
            "gcm_prepare" => {
                let key = KeySource::One(Box::new(launch.keys(2)), rounds).key(0, 0);
                for number in 0..launch.number(1) {
                    let at = launch.number(0) + 112 * number;
                    write(at, gcm::prepare(read(at), &key, read(launch.number(3))));
                }
            }
            "gcm_encrypt" | "gcm_decrypt" | "gcm_long_encrypt" | "gcm_long_decrypt" => {
                let key = KeySource::One(Box::new(launch.keys(2)), rounds).key(0, 0);
                let (direction, _) = way(stem);
                let plain = stem.starts_with("gcm_long") && launch.number(4) == 1;
                for (number, piece) in
                    (0..).zip(pieces(&launch.work(0), |piece| piece.len.div_ceil(512)))
                {
                    let at = launch.number(1) + 112 * u64::from(piece.message);
                    let mut message: GcmMessage = read(at);
                    if plain {
                        assert_eq!((message.iv_len, message.aad_len), (12, 0));
                        assert_eq!((piece.message, message.state[2]), (number, [0; 16]));
                        message = gcm::prepare(message, &key, read(launch.number(3)));
                    }
                    gcm::text(
                        &piece,
                        &mut message,
                        &key,
                        read(launch.number(3)),
                        direction,
                    );
                    write(at, message);
                }
            }
            "gcm_finish" => {
                for number in 0..launch.number(1) {
                    let at = launch.number(0) + 112 * number;
                    let (tag_len, open) = (launch.number(3), launch.number(4) == 1);
                    let done = gcm::finish(read(at), read(launch.number(2)), tag_len, open);
                    let state = [[0; 16]; 3];
                    write(at, GcmMessage { state, ..done });
                }
            }
            "gcm_wipe" => {
                for piece in pieces(&launch.work(0), |piece| piece.len.div_ceil(512)) {
                    let at = launch.number(1) + 112 * u64::from(piece.message);
                    if read::<GcmMessage>(at).failed != 0 {
                        (piece.output as *mut u8).write_bytes(0, piece.len as usize);
                    }
                }
            }
            "gcm_small_encrypt" | "gcm_small_decrypt" => {
                let keys = KeySource::Table(launch.number(2), launch.number(3) as usize);
                let (direction, _) = way(stem);
                for piece in pieces(&launch.work(0), |_| 1) {
                    let at = launch.number(1) + 112 * u64::from(piece.message);
                    let key = keys.key(piece.key, 0);
                    let message: GcmMessage = read(at);
                    assert_eq!(message.key, piece.key);
                    let h: Block =
                        read(launch.number(2) + (TABLE_KEY as u64) * u64::from(piece.key) + 720);
                    let mut message = gcm::prepare(message, &key, h);
                    gcm::text(&piece, &mut message, &key, h, direction);
                    let open = direction == Direction::Decrypt;
                    let message = gcm::finish(message, h, launch.number(4), open);
                    if message.failed != 0 {
                        (piece.output as *mut u8).write_bytes(0, piece.len as usize);
                    }
                    write(at, message);
                }
            }
            "acorn_encrypt" | "acorn_decrypt" => {
                let (direction, _) = way(stem);
                for place in 0..launch.number(1) {
                    acorn(launch, read(launch.number(0) + 64 * place), direction);
                }
            }
            name => panic!("there is no kernel {name}"),
        }
    }
}

/// A kernel's direction, and the index of its schedule in a table's key.
fn way(stem: &str) -> (Direction, usize) {
    match stem.ends_with("encrypt") {
        true => (Direction::Encrypt, 0),
        false => (Direction::Decrypt, 1),
    }
}

unsafe fn expand(launch: &Launch) {
    let (rounds, parts) = (launch.number(3), launch.number(4));
    let len = 4 * (rounds - 6);
    let each = if parts & 2 == 0 { len } else { 2 * len };
    for number in 0..launch.number(2) {
        let at = launch.number(1) + number * TABLE_KEY as u64;
        // SAFETY: by this function's contract.
        unsafe {
            let raw = bytes(launch.number(0) + each * number, each);
            let key = AesKey::of(kernels(), &raw[..len as usize], parts & 1 != 0);
            write(at, key.enc);
            if parts & 1 != 0 {
                write(at + 240, key.dec);
            }
            if parts & 2 != 0 {
                write(
                    at + 480,
                    AesKey::of(kernels(), &raw[len as usize..], false).enc,
                );
            }
            if parts & 4 != 0 {
                write(at + 720, encrypt(&key, [0; 16]));
            }
        }
    }
}

unsafe fn steal(piece: &Piece, key: &AesKey, direction: Direction, tweak: Block) {
    let (whole, rest) = (16 * xts_blocks(piece), (piece.len % 16) as usize);
    let (mut first, mut second) = match direction {
        Direction::Encrypt => (tweak, xts_skip(tweak, 1)),
        Direction::Decrypt => (xts_skip(tweak, 1), tweak),
    };
    // SAFETY: by this function's contract.
    unsafe {
        let mut text = [0; 32];
        text[..16 + rest].copy_from_slice(bytes(piece.input + whole, 16 + rest as u64));
        kernels().xts(
            key,
            None,
            direction,
            &mut first,
            Io::in_place(&mut text[..16]),
        );
        let (block, partial) = text.split_at_mut(16);
        block[..rest].swap_with_slice(&mut partial[..rest]);
        kernels().xts(key, None, direction, &mut second, Io::in_place(block));
        let to = (piece.output + whole) as *mut u8;
        to.copy_from_nonoverlapping(text.as_ptr(), 16 + rest);
    }
}

unsafe fn acorn(launch: &Launch, message: AcornMessage, direction: Direction) {
    let AcornMessage {
        input, output, len, ..
    } = message;
    // SAFETY: by this function's contract.
    unsafe {
        let (key, iv) = (launch.number(2) + 16 * u64::from(message.key), message.iv);
        let aad = bytes(message.aad, message.aad_len);
        let mut state = Acorn::start(&read(key), &read(iv), aad);
        let io = Io::new(input as *const u8, output as *mut u8, len as usize);
        state.update(direction, io);
        let tag = state.tag();
        if direction == Direction::Encrypt {
            write(message.tag, tag);
            return;
        }
        let refused = read::<Block>(message.tag) != tag;
        if refused {
            io.dst.write_bytes(0, io.len);
        }
        write(
            launch.number(3) + 4 * u64::from(message.number),
            u32::from(refused),
        );
    }
}
