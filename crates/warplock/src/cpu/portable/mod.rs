//! stub
mod kernels;
pub(crate) use kernels::Portable;
pub(crate) fn expand(_k: &[u8]) -> ([[u8; 16]; 15], usize) {
    unimplemented!()
}
pub(crate) fn inverse_keys(_k: &[[u8; 16]; 15], _r: usize) -> [[u8; 16]; 15] {
    unimplemented!()
}
pub(crate) fn encrypt_blocks(_k: &[[u8; 16]; 15], _r: usize, _b: &mut [[u8; 16]]) {
    unimplemented!()
}
pub(crate) fn encrypt_blocks_each(_k: &[&[[u8; 16]; 15]], _r: usize, _b: &mut [[u8; 16]]) {
    unimplemented!()
}
pub(crate) fn decrypt_blocks(_k: &[[u8; 16]; 15], _r: usize, _b: &mut [[u8; 16]]) {
    unimplemented!()
}
#[derive(Clone)]
pub(crate) struct GhashKey;
impl GhashKey {
    pub(crate) fn new(_h: [u8; 16]) -> Self {
        GhashKey
    }
    pub(crate) fn update(&self, _y: &mut [u8; 16], _b: &[u8]) {
        unimplemented!()
    }
}
pub(crate) fn gf_mul(a: [u8; 16], b: [u8; 16]) -> [u8; 16] {
    let (x, mut v) = (u128::from_be_bytes(a), u128::from_be_bytes(b));
    let mut z = 0u128;
    for i in 0..128 {
        if x >> (127 - i) & 1 == 1 {
            z ^= v
        }
        let c = v & 1;
        v >>= 1;
        if c == 1 {
            v ^= 0xe1 << 120
        }
    }
    z.to_be_bytes()
}
pub(crate) fn gf_pow(h: [u8; 16], mut n: u64) -> [u8; 16] {
    let mut r = [0; 16];
    r[0] = 0x80;
    let mut b = h;
    while n > 0 {
        if n & 1 == 1 {
            r = gf_mul(r, b)
        }
        b = gf_mul(b, b);
        n >>= 1;
    }
    r
}
pub(crate) fn xts_double(t: [u8; 16]) -> [u8; 16] {
    let x = u128::from_le_bytes(t);
    ((x << 1) ^ ((x >> 127) * 0x87)).to_le_bytes()
}
pub(crate) fn xts_skip(mut t: [u8; 16], n: u64) -> [u8; 16] {
    for _ in 0..n {
        t = xts_double(t)
    }
    t
}
