//! The speed of one machine's GPUs together: `cargo run --release -p warplock --example many_gpus
//! [GiB]`
//!
//! First on data in the memory of each GPU, on all of them together; then from pinned host memory to
//! pinned host memory, on the GPUs alone, on the CPU alone and on everything (`auto`).
//! Each block of rows takes 1, 2, 4.. GPUs. Results are compared with the CPU's.

use std::error::Error;
use std::sync::Barrier;
use std::time::Instant;

use warplock::cuda::{
    Device, DeviceBatch, DeviceIvs, DeviceTags, DeviceText, Plan, devices, link_rates,
};
use warplock::{Algorithm, Batch, Engine, Ivs, Key, Keys, Spans, Tags, Text};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const ALGORITHMS: [Algorithm; 2] = [Algorithm::Aes128Ctr, Algorithm::Aes256Gcm];

/// The median of this many runs is printed.
const RUNS: usize = 5;

fn iv(algorithm: Algorithm) -> &'static [u8] {
    match algorithm.is_aead() {
        true => &[7; 12],
        false => &[7; 16],
    }
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

/// Seconds in which each of the first `count` GPUs encrypts `bytes` of its own memory `launches`
/// times, side by side.
fn resident(algorithm: Algorithm, count: u32, bytes: usize, launches: usize) -> Result<f64> {
    let barrier = Barrier::new(count as usize);
    let work = |number: u32| -> Result<f64> {
        let device = Device::open(number)?;
        let stream = device.stream()?;
        let mut text = device.alloc(bytes)?;
        text.fill(number as u8)?;
        let mut ivs = device.alloc(iv(algorithm).len())?;
        ivs.write(0, iv(algorithm))?;
        let tags = device.alloc(16)?;
        let key = Key::generate(algorithm)?;
        let mut batch = DeviceBatch::encrypt(&key, DeviceText::in_place(text.region()))
            .ivs(DeviceIvs::Each(ivs.region()));
        if algorithm.is_aead() {
            batch = batch.tags(DeviceTags::Apart(tags.region()));
        }
        let plan = Plan::new(&device, batch)?;
        let mut seconds = Vec::new();
        for _ in 0..=RUNS {
            barrier.wait();
            let start = Instant::now();
            for _ in 0..launches {
                // SAFETY: all buffers live until the stream is synchronized.
                unsafe { plan.launch(&stream)? };
            }
            stream.synchronize()?;
            // The slowest counts.
            barrier.wait();
            seconds.push(start.elapsed().as_secs_f64());
        }
        // The first run warms up.
        Ok(median(seconds.split_off(1)))
    };
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|n| scope.spawn(move || work(n))).collect();
        let mut slowest = 0.0_f64;
        for thread in threads {
            slowest = slowest.max(thread.join().expect("no thread panics")?);
        }
        Ok(slowest)
    })
}

/// Seconds of one batch on an engine, and a checksum of what came out.
fn host(
    engine: &Engine,
    key: &Key,
    input: &[u8],
    output: &mut [u8],
) -> Result<(f64, (u64, [u8; 16]))> {
    let algorithm = key.algorithm();
    let mut tag = [0; 16];
    let spans = Spans::one(input.len());
    let mut seconds = Vec::new();
    for _ in 0..=RUNS {
        output[..4096].fill(0);
        let text = Text::Apart {
            input,
            input_spans: spans,
            output: &mut *output,
            output_spans: spans,
        };
        let mut batch = Batch::encrypt(Keys::One(key), text).ivs(Ivs::Each(iv(algorithm)));
        if algorithm.is_aead() {
            batch = batch.tags(Tags::Apart(&mut tag));
        }
        let start = Instant::now();
        engine.run(batch)?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    let words = output.chunks_exact(8).step_by(97);
    let sum = words.fold(0_u64, |sum, word| {
        sum.rotate_left(7) ^ u64::from_le_bytes(word.try_into().expect("8 bytes"))
    });
    Ok((median(seconds.split_off(1)), (sum, tag)))
}

/// Seconds of a copy by `threads` threads: the limit of the memory.
fn copy(input: &[u8], output: &mut [u8], threads: usize) -> f64 {
    let each = input.len().div_ceil(threads);
    let mut seconds = Vec::new();
    for _ in 0..=RUNS {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for (from, to) in input.chunks(each).zip(output.chunks_mut(each)) {
                scope.spawn(move || to.copy_from_slice(from));
            }
        });
        seconds.push(start.elapsed().as_secs_f64());
    }
    median(seconds.split_off(1))
}

fn main() -> Result<()> {
    let gib: usize = std::env::args().nth(1).map_or(Ok(4), |text| text.parse())?;
    let gpus = devices()?.gpus;
    for gpu in &gpus {
        println!("cuda:{} {}", gpu.number, gpu.name);
    }
    let all = gpus.len() as u32;
    let counts: Vec<u32> = (0..).map(|n| 1 << n).take_while(|&n| n <= all).collect();
    println!("\nin GPU memory, 1 GiB each, in place: GB/s of all GPUs together (times one GPU)");
    for algorithm in ALGORITHMS {
        let mut one = 0.0;
        print!("{algorithm:<12}");
        for &count in &counts {
            let seconds = resident(algorithm, count, 1 << 30, 50)?;
            let rate = f64::from(count) * 50.0 * (1_u64 << 30) as f64 / seconds / 1e9;
            one = if count == 1 { rate } else { one };
            print!("  {count} GPUs {rate:.0} ({:.2})", rate / one);
        }
        println!();
    }
    let bytes = gib << 30;
    let first = Device::open(0)?;
    let (mut input, mut output) = (first.pinned(bytes)?, first.pinned(bytes)?);
    for (place, chunk) in input.chunks_mut(8).enumerate() {
        let word = (place as u64)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
    println!("\nfrom pinned memory to pinned memory, {gib} GiB: GB/s");
    let threads = std::thread::available_parallelism()?.get();
    let seconds = copy(&input, &mut output, threads);
    println!(
        "copy on {threads} threads {:.1}",
        bytes as f64 / seconds / 1e9
    );
    for number in 0..all {
        let link = link_rates(Some(number))?;
        println!(
            "link of cuda:{number}: {:.1} up, {:.1} down, {:.1} each way together",
            link.up / 1e9,
            link.down / 1e9,
            link.both / 1e9
        );
    }
    for algorithm in ALGORITHMS {
        let key = Key::generate(algorithm)?;
        let mut names = vec!["cpu".to_owned()];
        for &count in &counts {
            let numbers: Vec<_> = (0..count).map(|n| n.to_string()).collect();
            names.push(format!("cuda:{}", numbers.join(",")));
        }
        names.push("auto".to_owned());
        let mut right = None;
        for name in names {
            let engine = Engine::builder().backend(name.parse()?).build()?;
            engine.wake();
            let (seconds, sum) = host(&engine, &key, &input, &mut output)?;
            if *right.get_or_insert(sum) != sum {
                return Err(format!("{algorithm} on {name}: not the CPU's result").into());
            }
            print!(
                "{algorithm:<12} {name:<14} {:.1}",
                bytes as f64 / seconds / 1e9
            );
            for share in engine.gpu_bytes() {
                let runs = (RUNS + 1) as f64 * bytes as f64;
                print!(
                    "  {} {:.0} %",
                    share.backend,
                    100.0 * share.bytes as f64 / runs
                );
            }
            println!();
        }
    }
    Ok(())
}
