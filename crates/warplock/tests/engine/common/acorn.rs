//! ACORN-128 v3 as its specification has it, bit by bit: the model for the engine's words.

/// The register of 293 bits. It does not shift: it moves along a tape, on which bit `j` of the
/// specification lies at `start + j`.
struct Register {
    tape: Vec<bool>,
    start: usize,
}

/// A word for each step: its message bit, ca and cb.
type Step = (bool, bool, bool);

impl Register {
    fn new() -> Self {
        Register {
            tape: vec![false; 293],
            start: 0,
        }
    }

    /// One step; returns the key stream's bit.
    fn step(&mut self, (m, ca, cb): Step) -> bool {
        if self.start == 1 << 16 {
            self.tape.drain(..self.start);
            self.start = 0;
        }
        let s = &mut self.tape[self.start..];
        s[289] ^= s[235] ^ s[230];
        s[230] ^= s[196] ^ s[193];
        s[193] ^= s[160] ^ s[154];
        s[154] ^= s[111] ^ s[107];
        s[107] ^= s[66] ^ s[61];
        s[61] ^= s[23] ^ s[0];
        let majority = |x: bool, y: bool, z: bool| (x & y) ^ (x & z) ^ (y & z);
        let choice = |x: bool, y: bool, z: bool| (x & y) ^ (!x & z);
        let ks = s[12] ^ s[154] ^ majority(s[235], s[61], s[193]) ^ choice(s[230], s[111], s[66]);
        let f = s[0] ^ !s[107] ^ majority(s[244], s[23], s[160]) ^ (ca & s[196]) ^ (cb & ks);
        self.tape.push(f ^ m);
        self.start += 1;
        ks
    }

    fn pad(&mut self, cb: bool) {
        for i in 0..256 {
            self.step((i == 0, i < 128, cb));
        }
    }
}

/// The bits of some bytes, the least significant of each first.
fn bits(bytes: &[u8]) -> impl Iterator<Item = bool> + '_ {
    bytes
        .iter()
        .flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1))
}

/// Seals a message: ciphertext and tag.
pub(crate) fn seal(key: &[u8], iv: &[u8], aad: &[u8], plain: &[u8]) -> (Vec<u8>, [u8; 16]) {
    let mut register = Register::new();
    let again = (0..12).flat_map(|_| bits(key));
    let start = bits(key).chain(bits(iv)).chain(again).enumerate();
    for (i, bit) in start {
        register.step((bit ^ (i == 256), true, true));
    }
    for bit in bits(aad) {
        register.step((bit, true, true));
    }
    register.pad(true);
    let mut cipher = plain.to_vec();
    for (i, bit) in bits(plain).enumerate() {
        let ks = register.step((bit, true, false));
        cipher[i / 8] ^= u8::from(ks) << (i % 8);
    }
    register.pad(false);
    let mut tag = [0; 16];
    for i in 0..768usize {
        let ks = register.step((false, true, true));
        if let Some(i) = i.checked_sub(640) {
            tag[i / 8] |= u8::from(ks) << (i % 8);
        }
    }
    (cipher, tag)
}
