//! The cipher, 32 steps at a time, over words of any number of lanes.
//!
//! Each stretch of ACORN's register between two feedback points is a delay line: what enters it
//! leaves it some steps later, unchanged except for taps. Named by the bit that enters, the lines
//! are A = S61, B = S107, C = S154, D = S193, E = S230, G = S289 and F = S292, and with X(-d) for
//! what entered d steps before, a step of the specification (H. Wu, "ACORN: a lightweight
//! authenticated cipher (v3)", 2016) is
//!
//! ```text
//! A = B(-46) ^ A(-38) ^ A(-61)        D = E(-37) ^ D(-33) ^ D(-39)
//! B = C(-47) ^ B(-41) ^ B(-46)        E = G(-59) ^ E(-34) ^ E(-37)
//! C = D(-39) ^ C(-43) ^ C(-47)        G = F(-4)  ^ G(-54) ^ G(-59)
//! ks = A(-49) ^ C ^ maj(G(-54), A, D) ^ ch(E, C(-43), B(-41))
//! F = A(-61) ^ !B ^ maj(G(-45), A(-38), D(-33)) ^ (ca & E(-34)) ^ (cb & ks) ^ m
//! ```
//!
//! The shortest delay is 33 (F(-4) only goes into G, which waits for F), so 32 steps are
//! independent: a block of them is computed together, on words whose bit i belongs to step i.

/// A word of 32 steps in each lane. A value is proof that the CPU has the instructions.
///
/// Each method must be `#[inline(always)]`: see [`crate::cpu::body`].
pub(crate) trait Words: Copy {
    /// What entered a delay line in the last 64 steps.
    type Line: Copy;
    /// What a tap keeps of its line from block to block.
    type Tap: Copy;

    /// What entered `64 - RIGHT` steps before; `LEFT` is `32 - RIGHT`. See `lag!`. To be called
    /// once in each block with each tap.
    fn tap<const RIGHT: i32, const LEFT: i32>(line: Self::Line, tap: &mut Self::Tap) -> Self;
    /// The line 32 steps later.
    fn push(line: Self::Line, entered: Self) -> Self::Line;

    fn xor(self, other: Self) -> Self;
    /// The XOR of three.
    fn xor3(self, b: Self, c: Self) -> Self;
    /// Its complement.
    fn xnor3(self, b: Self, c: Self) -> Self;
    fn majority(self, b: Self, c: Self) -> Self;
    /// `one` where this has a one, `zero` elsewhere.
    fn choose(self, one: Self, zero: Self) -> Self;
    /// `self ^ (a & b)`.
    fn xor_and(self, a: Self, b: Self) -> Self;
}

/// What entered a line the given number of steps before, 33 to 63, through a tap that is for this
/// alone.
macro_rules! lag {
    ($state:ident.$line:ident, $tap:literal, $steps:literal) => {
        W::tap::<{ 64 - $steps }, { $steps - 32 }>($state.$line, &mut $state.taps[$tap])
    };
}

/// The state.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Lines<W: Words> {
    pub(crate) a: W::Line,
    pub(crate) b: W::Line,
    pub(crate) c: W::Line,
    pub(crate) d: W::Line,
    pub(crate) e: W::Line,
    pub(crate) g: W::Line,
    pub(crate) f: W::Line,
    /// A tap for each delay that the steps name.
    taps: [W::Tap; 15],
}

/// Masks of a block's steps in which a control bit is set or text is absorbed.
pub(crate) struct Masks<W> {
    pub(crate) ca: W,
    pub(crate) cb: W,
    /// Where the input is ciphertext: the key stream is removed before it enters.
    pub(crate) ciphertext: W,
}

/// A block under way: the key stream in two parts, and F in those that no control bit touches.
struct BlockStart<W> {
    key_stream: [W; 2],
    f: W,
    e34: W,
    g54: W,
    g59: W,
}

impl<W: Words> Lines<W> {
    /// The state before the first step.
    pub(crate) fn new(zero: W::Line, tap: W::Tap) -> Self {
        let [a, b, c, d, e, g, f] = [zero; 7];
        Lines {
            a,
            b,
            c,
            d,
            e,
            g,
            f,
            taps: [tap; 15],
        }
    }

    /// All delay lines.
    pub(crate) fn all(&mut self) -> [&mut W::Line; 7] {
        [
            &mut self.a,
            &mut self.b,
            &mut self.c,
            &mut self.d,
            &mut self.e,
            &mut self.g,
            &mut self.f,
        ]
    }

    /// Everything up to F.
    #[inline(always)]
    fn begin(&mut self) -> BlockStart<W> {
        let (a38, a61) = (lag!(self.a, 0, 38), lag!(self.a, 1, 61));
        let (b41, b46) = (lag!(self.b, 2, 41), lag!(self.b, 3, 46));
        let (c43, c47) = (lag!(self.c, 4, 43), lag!(self.c, 5, 47));
        let (d33, d39) = (lag!(self.d, 6, 33), lag!(self.d, 7, 39));
        let (e34, e37) = (lag!(self.e, 8, 34), lag!(self.e, 9, 37));
        let (g45, g54, g59) = (
            lag!(self.g, 10, 45),
            lag!(self.g, 11, 54),
            lag!(self.g, 12, 59),
        );
        let a49 = lag!(self.a, 13, 49);

        let a = b46.xor3(a38, a61);
        let b = c47.xor3(b41, b46);
        let c = d39.xor3(c43, c47);
        let d = e37.xor3(d33, d39);
        let e = g59.xor3(e34, e37);
        self.a = W::push(self.a, a);
        self.b = W::push(self.b, b);
        self.c = W::push(self.c, c);
        self.d = W::push(self.d, d);
        self.e = W::push(self.e, e);
        BlockStart {
            key_stream: [a49.xor3(c, g54.majority(a, d)), e.choose(c43, b41)],
            f: a61.xnor3(b, g45.majority(a38, d33)),
            e34,
            g54,
            g59,
        }
    }

    /// F and what follows from it.
    #[inline(always)]
    fn end(&mut self, f: W, start: &BlockStart<W>) {
        self.f = W::push(self.f, f);
        // With F's block in the line, four steps before are 36.
        let f4 = lag!(self.f, 14, 36);
        self.g = W::push(self.g, f4.xor3(start.g54, start.g59));
    }

    /// A block of anything but text: ca = cb = 1.
    #[inline(always)]
    pub(crate) fn absorb(&mut self, m: W) {
        let start = self.begin();
        let [k, l] = start.key_stream;
        self.end(start.f.xor3(start.e34, m).xor3(k, l), &start);
    }

    /// A block of plaintext, ca = 1 and cb = 0; returns the ciphertext.
    #[inline(always)]
    pub(crate) fn seal(&mut self, plain: W) -> W {
        let start = self.begin();
        let [k, l] = start.key_stream;
        self.end(start.f.xor3(start.e34, plain), &start);
        plain.xor3(k, l)
    }

    /// A block of ciphertext; returns the plaintext.
    #[inline(always)]
    pub(crate) fn open(&mut self, cipher: W) -> W {
        let start = self.begin();
        let [k, l] = start.key_stream;
        let plain = cipher.xor3(k, l);
        self.end(start.f.xor3(start.e34, plain), &start);
        plain
    }

    /// A block of any kind; `input` is XORed with the key stream for the result.
    #[inline(always)]
    pub(crate) fn mixed(&mut self, input: W, masks: &Masks<W>) -> W {
        let start = self.begin();
        let [k, l] = start.key_stream;
        let key_stream = k.xor(l);
        let m = input.xor_and(key_stream, masks.ciphertext);
        let f = start.f.xor_and(masks.ca, start.e34);
        self.end(f.xor_and(masks.cb, key_stream).xor(m), &start);
        input.xor(key_stream)
    }
}
