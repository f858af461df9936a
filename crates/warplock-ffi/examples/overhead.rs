//! What the C interface costs: the same work through it and through the engine, in one process, on
//! one thread. `cargo run --release -p warplock-ffi --example overhead`

use std::hint::black_box;
use std::ptr::{null, null_mut};
use std::time::Instant;

use warplock::{Aad, Algorithm, Batch, Engine, Ivs, Key, Keys, Spans, Tags, Text};
use warplock_ffi::batch::{WL_SEAL, wl_batch, wl_run};
use warplock_ffi::engine::wl_engine_new;
use warplock_ffi::key::wl_key_new;
use warplock_ffi::message::{wl_seal, wl_seal_with_nonce};

/// Seconds of the fastest of several runs.
fn best(runs: usize, mut work: impl FnMut()) -> f64 {
    let time = |_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    };
    (0..runs).map(time).fold(f64::MAX, f64::min)
}

fn main() -> Result<(), warplock::Error> {
    const CALLS: usize = 200_000;
    const COUNT: usize = 100_000;
    const LEN: usize = 1024;
    let engine = Engine::builder()
        .backend("cpu".parse()?)
        .threads(std::num::NonZeroUsize::MIN)
        .build()?;
    let key = Key::new(Algorithm::Aes256Gcm, &[7; 32])?;
    let (mut c_engine, mut c_key) = (null_mut(), null_mut());
    // SAFETY: all pointers of this program are to memory of the given length, which nothing else
    // uses during the calls.
    unsafe {
        assert_eq!(wl_engine_new(c"cpu".as_ptr(), 1, &raw mut c_engine), 0);
        let bytes = [7u8; 32];
        let made = wl_key_new(14, bytes.as_ptr().cast(), 32, &raw mut c_key);
        assert_eq!(made, 0);
    }

    // One message of 64 bytes under a given nonce, then under drawn ones.
    let (text, nonce) = ([1u8; 64], [2u8; 12]);
    let (mut out, mut tag, mut sealed) = ([0u8; 64], [0u8; 16], [0u8; 92]);
    let rust = best(30, || {
        for _ in 0..CALLS {
            let text = Text::apart(black_box(&text), &mut out);
            let batch = Batch::seal(Keys::One(&key), text).ivs(Ivs::Each(black_box(&nonce)));
            let batch = batch.aad(Aad::Shared(b"aad")).tags(Tags::Apart(&mut tag));
            engine.run(batch).unwrap();
        }
    });
    let c = best(30, || {
        for _ in 0..CALLS {
            // SAFETY: as above.
            let status = unsafe {
                wl_seal_with_nonce(
                    c_engine,
                    c_key,
                    black_box(&nonce).as_ptr().cast(),
                    12,
                    b"aad".as_ptr().cast(),
                    3,
                    black_box(&text).as_ptr().cast(),
                    64,
                    out.as_mut_ptr().cast(),
                    tag.as_mut_ptr().cast(),
                )
            };
            assert_eq!(status, 0);
        }
    });
    let call = |seconds: f64| seconds / CALLS as f64 * 1e9;
    println!(
        "64 bytes, nonce given: Rust {:.1} ns, C {:.1} ns",
        call(rust),
        call(c)
    );
    let rust = best(10, || {
        for _ in 0..CALLS {
            let (nonce, rest) = sealed.split_at_mut(12);
            let (body, tag) = rest.split_at_mut(64);
            let batch = Batch::seal(Keys::One(&key), Text::apart(black_box(&text), body));
            let batch = batch.ivs(Ivs::Random(nonce)).aad(Aad::Shared(b"aad"));
            engine.run(batch.tags(Tags::Apart(tag))).unwrap();
        }
    });
    let c = best(10, || {
        for _ in 0..CALLS {
            // SAFETY: as above.
            let status = unsafe {
                wl_seal(
                    c_engine,
                    c_key,
                    b"aad".as_ptr().cast(),
                    3,
                    black_box(&text).as_ptr().cast(),
                    64,
                    sealed.as_mut_ptr().cast(),
                    sealed.len(),
                )
            };
            assert_eq!(status, 0);
        }
    });
    println!(
        "64 bytes, nonce drawn: Rust {:.1} ns, C {:.1} ns",
        call(rust),
        call(c)
    );

    // Many messages of 1 KiB, in place, under drawn nonces.
    let mut data = vec![0u8; COUNT * LEN];
    let (mut nonces, mut tags) = (vec![0u8; COUNT * 12], vec![0u8; COUNT * 16]);
    let rust = best(10, || {
        let spans = Spans::Even {
            count: COUNT,
            len: LEN,
            stride: LEN,
        };
        let text = Text::InPlace {
            buffer: &mut data,
            spans,
        };
        let batch = Batch::seal(Keys::One(&key), text).ivs(Ivs::Random(&mut nonces));
        engine.run(batch.tags(Tags::Apart(&mut tags))).unwrap();
    });
    // SAFETY: zeros and null pointers are values of all members.
    let mut batch: wl_batch = unsafe { std::mem::zeroed() };
    batch.size = size_of::<wl_batch>() as u32;
    batch.operation = WL_SEAL;
    batch.count = COUNT as u64;
    batch.key = c_key;
    batch.input = data.as_mut_ptr().cast_const().cast();
    batch.input_size = data.len() as u64;
    batch.text_len = LEN as u64;
    batch.nonces = nonces.as_mut_ptr().cast();
    batch.tags = tags.as_mut_ptr().cast();
    batch.aad = null();
    let c = best(10, || {
        // SAFETY: as above.
        assert_eq!(unsafe { wl_run(c_engine, &raw const batch, null_mut()) }, 0);
    });
    let speed = |seconds: f64| (COUNT * LEN) as f64 / seconds / 1e9;
    println!(
        "{COUNT} messages of 1 KiB: Rust {:.2} GB/s, C {:.2} GB/s ({:.3})",
        speed(rust),
        speed(c),
        rust / c
    );
    Ok(())
}
