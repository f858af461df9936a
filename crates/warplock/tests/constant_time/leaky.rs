//! AES-128 as textbooks have it, to prove that the test sees a leak: a table indexed by secrets,
//! and a branch on a secret bit in each multiplication by x.

/// The S-box (FIPS 197, 5.1.1), computed: inverses, then the affine map.
pub(crate) fn s_box() -> [u8; 256] {
    let mut table = [0; 256];
    for (value, place) in table.iter_mut().enumerate() {
        // The inverse is the 254th power.
        let (mut power, mut inverse) = (value as u8, 1);
        for _ in 0..7 {
            power = product(power, power);
            inverse = product(inverse, power);
        }
        let turned = (1..5).fold(inverse, |sum, by| sum ^ inverse.rotate_left(by));
        *place = turned ^ 0x63;
    }
    table
}

fn product(a: u8, b: u8) -> u8 {
    let (mut a, mut sum) = (a, 0);
    for bit in 0..8 {
        if b >> bit & 1 == 1 {
            sum ^= a;
        }
        a = times_x(a);
    }
    sum
}

/// The leak: whether the branch is taken tells a bit.
fn times_x(value: u8) -> u8 {
    if value & 0x80 != 0 {
        reduced(value << 1)
    } else {
        value << 1
    }
}

/// A function of its own, so that no compiler makes a selection of the branch.
#[inline(never)]
fn reduced(value: u8) -> u8 {
    std::hint::black_box(value ^ 0x1B)
}

/// Encrypts a block under a 16-byte key.
pub(crate) fn encrypt(table: &[u8; 256], key: &[u8], block: &mut [u8; 16]) {
    let mut key: [u8; 16] = key.try_into().expect("AES-128 has keys of 16 bytes");
    let mut constant = 1;
    add(block, &key);
    for round in 1..=10 {
        for i in 0..4 {
            let last = key[12 + (i + 1) % 4];
            key[i] ^= table[usize::from(last)] ^ if i == 0 { constant } else { 0 };
        }
        for i in 4..16 {
            key[i] ^= key[i - 4];
        }
        constant = times_x(constant);
        // SubBytes and ShiftRows.
        let before = *block;
        for (i, byte) in block.iter_mut().enumerate() {
            *byte = table[usize::from(before[(i + 4 * (i % 4)) % 16])];
        }
        if round < 10 {
            for column in block.chunks_exact_mut(4) {
                let old = [column[0], column[1], column[2], column[3]];
                let all = old[0] ^ old[1] ^ old[2] ^ old[3];
                for i in 0..4 {
                    column[i] ^= all ^ times_x(old[i] ^ old[(i + 1) % 4]);
                }
            }
        }
        add(block, &key);
    }
}

fn add(block: &mut [u8; 16], key: &[u8; 16]) {
    block
        .iter_mut()
        .zip(key)
        .for_each(|(byte, key)| *byte ^= key);
}
