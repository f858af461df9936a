//! The AES S-box and its inverse as Boolean circuits over bit planes.
//!
//! Plane `k` of a byte holds bit `k` (0 the least significant) of as many bytes as a word has
//! bits, so one pass substitutes 64 bytes and no table is indexed by a secret.
//!
//! The shape is that of Boyar and Peralta ("A depth-16 circuit for the AES S-box", 2011, and "A
//! new combinational logic minimization technique with applications to cryptology", 2010): a
//! linear layer into a tower field, an inversion there that both directions share (62 gates), and
//! a linear layer out of it. The layers in and out of the inverse, and the one out of the forward
//! box, were found by a randomised search with their heuristic, on the transposed matrix for the
//! layers out: 113 gates forward, 114 backward.
//!
//! The affine constant 0x63 is not part of the circuits. Round keys carry it instead (see
//! [`AFFINE`]), which saves four complements per S-box.

/// The constant of the S-box's affine map: `S(x) = sub(x) ^ AFFINE`, `S^-1(x) = inv_sub(x ^
/// AFFINE)`.
///
/// A column of four equal bytes passes MixColumns and its inverse unchanged, so adding the
/// constant to every round key but the first gives both ciphers the true S-box.
pub(super) const AFFINE: u8 = 0x63;

/// The S-box without its constant, on 8 planes.
#[inline(always)]
pub(super) fn sub([x7, x6, x5, x4, x3, x2, x1, x0]: [u64; 8]) -> [u64; 8] {
    let y14 = x3 ^ x5;
    let y13 = x0 ^ x6;
    let y9 = x0 ^ x3;
    let y8 = x0 ^ x5;
    let t0 = x1 ^ x2;
    let y1 = t0 ^ x7;
    let y4 = y1 ^ x3;
    let y12 = y13 ^ y14;
    let y2 = y1 ^ x0;
    let y5 = y1 ^ x6;
    let y3 = y5 ^ y8;
    let t1 = x4 ^ y12;
    let y15 = t1 ^ x5;
    let y20 = t1 ^ x1;
    let y6 = y15 ^ x7;
    let y10 = y15 ^ t0;
    let y11 = y20 ^ y9;
    let y7 = x7 ^ y11;
    let y17 = y10 ^ y11;
    let y19 = y10 ^ y8;
    let y16 = t0 ^ y11;
    let y21 = y13 ^ y16;
    let y18 = x0 ^ y16;
    let z = invert([
        0, y1, y2, y3, y4, y5, y6, y7, y8, y9, y10, y11, y12, y13, y14, y15, y16, y17, y18, y19,
        y20, y21, x7,
    ]);
    let b0 = z[10] ^ z[16];
    let b1 = z[13] ^ z[16];
    let b2 = z[9] ^ z[15];
    let b3 = z[12] ^ z[15];
    let b4 = b2 ^ b0;
    let b5 = z[11] ^ b0;
    let b6 = z[1] ^ z[4];
    let b7 = z[7] ^ z[4];
    let b8 = z[0] ^ z[3];
    let b9 = z[6] ^ z[3];
    let b10 = b6 ^ b8;
    let b11 = z[2] ^ b8;
    let s3 = b4 ^ b10;
    let b12 = b9 ^ b7;
    let b13 = z[8] ^ b7;
    let s0 = b4 ^ b12;
    let b14 = z[17] ^ b12;
    let s1 = b10 ^ s0;
    let b15 = z[14] ^ b3;
    let b16 = b1 ^ b3;
    let b17 = b13 ^ b11;
    let b18 = z[5] ^ b11;
    let b19 = b15 ^ b17;
    let s5 = b5 ^ b19;
    let s2 = b14 ^ b19;
    let s7 = b16 ^ b18;
    let s4 = s3 ^ b18;
    let s6 = b17 ^ s7;
    [s7, s6, s5, s4, s3, s2, s1, s0]
}

/// The inverse S-box on 8 planes of bytes to which [`AFFINE`] was added.
#[inline(always)]
pub(super) fn inv_sub([x7, x6, x5, x4, x3, x2, x1, x0]: [u64; 8]) -> [u64; 8] {
    let y3 = x3 ^ x0;
    let y5 = x3 ^ x1;
    let y6 = y5 ^ x0;
    let y8 = x1 ^ x0;
    let y9 = x4 ^ x3;
    let y1 = y9 ^ x7;
    let y10 = y1 ^ y6;
    let y13 = y1 ^ x6;
    let y2 = y13 ^ y5;
    let y4 = y2 ^ y9;
    let y7 = y4 ^ x2;
    let y12 = y4 ^ y3;
    let y14 = y9 ^ y8;
    let y16 = y7 ^ y1;
    let y18 = y9 ^ x2;
    let y19 = x7 ^ x4;
    let y21 = y7 ^ x6;
    let t0 = x5 ^ x0;
    let y11 = t0 ^ y4;
    let y17 = y11 ^ y10;
    let y15 = y17 ^ y16;
    let y20 = y11 ^ y9;
    let y22 = y11 ^ y7;
    let z = invert([
        0, y1, y2, y3, y4, y5, y6, y7, y8, y9, y10, y11, y12, y13, y14, y15, y16, y17, y18, y19,
        y20, y21, y22,
    ]);
    let b0 = z[15] ^ z[16];
    let b1 = z[17] ^ z[16];
    let b2 = z[6] ^ b0;
    let b3 = z[12] ^ z[13];
    let b4 = z[14] ^ z[13];
    let b5 = b2 ^ b3;
    let b6 = z[5] ^ z[8];
    let b7 = z[2] ^ z[8];
    let b8 = z[3] ^ b5;
    let b9 = z[0] ^ b5;
    let s0 = b6 ^ b8;
    let b10 = z[4] ^ b8;
    let b11 = b9 ^ s0;
    let b12 = z[11] ^ b1;
    let b13 = b4 ^ b1;
    let b14 = z[10] ^ b12;
    let b15 = z[9] ^ b12;
    let b16 = b7 ^ b11;
    let b17 = z[1] ^ b11;
    let b18 = b14 ^ b16;
    let s3 = s0 ^ b16;
    let b19 = b13 ^ b18;
    let s5 = b17 ^ b10;
    let s6 = z[7] ^ b10;
    let s2 = b19 ^ s5;
    let b20 = b3 ^ s2;
    let s7 = b0 ^ b15;
    let s1 = b20 ^ b15;
    let s4 = b18 ^ s6;
    [s7, s6, s5, s4, s3, s2, s1, s0]
}

/// Inversion in GF(2^8) as GF(((2^2)^2)^2): from 22 sums of input bits to the 18 products that
/// the layer out sums up. Names follow the 2010 paper; its `x7` is `y[22]` here, and `y[0]` is not
/// used.
#[inline(always)]
fn invert(y: [u64; 23]) -> [u64; 18] {
    let t2 = y[12] & y[15];
    let t3 = y[3] & y[6];
    let t4 = t3 ^ t2;
    let t5 = y[4] & y[22];
    let t6 = t5 ^ t2;
    let t7 = y[13] & y[16];
    let t8 = y[5] & y[1];
    let t9 = t8 ^ t7;
    let t10 = y[2] & y[7];
    let t11 = t10 ^ t7;
    let t12 = y[9] & y[11];
    let t13 = y[14] & y[17];
    let t14 = t13 ^ t12;
    let t15 = y[8] & y[10];
    let t16 = t15 ^ t12;
    let t17 = t4 ^ t14;
    let t18 = t6 ^ t16;
    let t19 = t9 ^ t14;
    let t20 = t11 ^ t16;
    let t21 = t17 ^ y[20];
    let t22 = t18 ^ y[19];
    let t23 = t19 ^ y[21];
    let t24 = t20 ^ y[18];
    let t25 = t21 ^ t22;
    let t26 = t21 & t23;
    let t27 = t24 ^ t26;
    let t28 = t25 & t27;
    let t29 = t28 ^ t22;
    let t30 = t23 ^ t24;
    let t31 = t22 ^ t26;
    let t32 = t31 & t30;
    let t33 = t32 ^ t24;
    let t34 = t23 ^ t33;
    let t35 = t27 ^ t33;
    let t36 = t24 & t35;
    let t37 = t36 ^ t34;
    let t38 = t27 ^ t36;
    let t39 = t29 & t38;
    let t40 = t25 ^ t39;
    let t41 = t40 ^ t37;
    let t42 = t29 ^ t33;
    let t43 = t29 ^ t40;
    let t44 = t33 ^ t37;
    let t45 = t42 ^ t41;
    [
        t44 & y[15],
        t37 & y[6],
        t33 & y[22],
        t43 & y[16],
        t40 & y[1],
        t29 & y[7],
        t42 & y[11],
        t45 & y[17],
        t41 & y[10],
        t44 & y[12],
        t37 & y[3],
        t33 & y[4],
        t43 & y[13],
        t40 & y[5],
        t29 & y[2],
        t42 & y[9],
        t45 & y[14],
        t41 & y[8],
    ]
}

/// Transposes the 8 x 8 bit matrix whose row `i` is byte `i` of `x`: bytes into planes and back.
#[inline(always)]
pub(super) fn transpose8(mut x: u64) -> u64 {
    let t = (x ^ (x >> 7)) & 0x00aa_00aa_00aa_00aa;
    x ^= t ^ (t << 7);
    let t = (x ^ (x >> 14)) & 0x0000_cccc_0000_cccc;
    x ^= t ^ (t << 14);
    let t = (x ^ (x >> 28)) & 0x0000_0000_f0f0_f0f0;
    x ^ t ^ (t << 28)
}

/// The true S-box on the 8 bytes of a word.
#[inline]
pub(super) fn sub_bytes(x: u64) -> u64 {
    let x = transpose8(x);
    // Bits above the lowest eight of a plane belong to other planes; no gate moves bits, so they
    // do no harm and are cut off at the end.
    let planes = sub(std::array::from_fn(|k| x >> (8 * k)));
    let packed = (0..8).fold(0, |packed, k| packed | (planes[k] & 0xff) << (8 * k));
    transpose8(packed) ^ u64::from_ne_bytes([AFFINE; 8])
}
