//! Bytes a second of the statistics of data in GPU memory, alongside a copy inside that memory, and
//! of the cipher for study, alongside one thread of the CPU:
//! `cargo run --release -p warplock-analyze --features cuda,research --example gpu [MIB]`.

use std::error::Error;

use warplock::cuda::{Device, Event, Stream};
use warplock_analyze::gpu::Gpu;
use warplock_analyze::{Options, Random, Shape};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The least seconds of nine runs, on the GPU's clock.
fn least(device: &Device, stream: &Stream, mut run: impl FnMut() -> Result<()>) -> Result<f64> {
    let events: [Event; 2] = [device.event()?, device.event()?];
    let mut best = f64::INFINITY;
    for _ in 0..9 {
        events[0].record(stream)?;
        run()?;
        events[1].record(stream)?;
        best = best.min(events[1].seconds_since(&events[0])?);
    }
    Ok(best)
}

fn main() -> Result<()> {
    let mib = std::env::args()
        .nth(1)
        .map_or(Ok(4096), |text| text.parse())?;
    let len: usize = mib << 20;
    let device = Device::open(0)?;
    let (gpu, stream) = (Gpu::new(&device)?, device.stream()?);
    let (mut left, mut right) = (device.alloc(len)?, device.alloc(len)?);
    // Random pieces of a megabyte; each begins with its number.
    let mut piece = vec![0; 1 << 20];
    Random::new(1).fill(&mut piece);
    for number in 0..mib {
        piece[..8].copy_from_slice(&number.to_le_bytes());
        left.write(number << 20, &piece)?;
        piece.reverse();
        right.write(number << 20, &piece)?;
        piece.reverse();
    }
    let (a, b) = (left.region(), right.region());
    println!("{} with {mib} MiB", device.gpu().name);

    let copy = least(&device, &stream, || {
        // SAFETY: here and below, all memory lives until the stream has been waited for, and each
        // call is the only one that uses it.
        unsafe { right.copy_from(&left, &stream)? };
        Ok(())
    })?;
    let copy = len as f64 / copy;
    let show = |what: &str, bytes: usize, seconds: f64| {
        let rate = bytes as f64 / seconds;
        println!(
            "{what:<42} {:>8.1} GB/s read, {:.2} of a copy",
            rate / 1e9,
            rate / copy
        );
    };
    println!(
        "{:<42} {:>8.1} GB/s read, and as many written",
        "copy",
        copy / 1e9
    );

    for (what, width) in [
        ("histogram and neighbours, no rows", len),
        ("histogram and neighbours, 4,096 a row", 4096),
        ("histogram and neighbours, 4,099 a row", 4099),
    ] {
        let seconds = least(&device, &stream, || {
            // SAFETY: as above.
            unsafe { gpu.tables(a, width, &stream)? };
            Ok(())
        })?;
        show(what, len, seconds);
    }
    let skewed = [(a, b), (a.part(0, len - 16), b.part(5, len - 16))];
    for (what, (a, b)) in ["differences", "differences, one skewed"]
        .iter()
        .zip(skewed)
    {
        let seconds = least(&device, &stream, || {
            // SAFETY: as above.
            unsafe { gpu.difference(a, b, &stream)? };
            Ok(())
        })?;
        show(what, 2 * len, seconds);
    }
    let seconds = least(&device, &stream, || {
        // SAFETY: as above.
        unsafe { gpu.autocorrelation(a, &stream)? };
        Ok(())
    })?;
    show("autocorrelation, with a histogram", len, seconds);
    let seconds = least(&device, &stream, || {
        // SAFETY: as above.
        unsafe { gpu.repeats(a, &stream)? };
        Ok(())
    })?;
    show("repeated blocks", len, seconds);
    let shape = Shape {
        width: 4096,
        height: len / 4096 / 4,
        channels: 4,
    };
    for (what, shape) in [
        ("all statistics, bytes", None),
        ("all statistics, RGBA", Some(shape)),
    ] {
        let seconds = least(&device, &stream, || {
            // SAFETY: as above.
            unsafe { gpu.analyze(a, shape, &Options::default(), &stream)? };
            Ok(())
        })?;
        show(what, len, seconds);
    }
    #[cfg(feature = "research")]
    research(&device, &stream, a, b)?;
    Ok(())
}

#[cfg(feature = "research")]
fn research(
    device: &Device,
    stream: &Stream,
    a: warplock::cuda::Region,
    b: warplock::cuda::Region,
) -> Result<()> {
    use std::num::NonZeroUsize;
    use std::time::Instant;

    use warplock_analyze::research::{Generator, GpuResearch, evolve};

    let seconds_of = |run: &mut dyn FnMut() -> Result<()>| -> Result<f64> {
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let start = Instant::now();
            run()?;
            best = best.min(start.elapsed().as_secs_f64());
        }
        Ok(best)
    };
    let gpu = GpuResearch::new(device)?;
    let generator = Generator::draw(&mut Random::new(1));
    let mut text = vec![0; 64 << 20];
    let cpu = seconds_of(&mut || {
        generator.apply(&[1; 16], &[2; 16], &mut text);
        Ok(())
    })?;
    let cpu = text.len() as f64 / cpu;
    println!(
        "{:<42} {:>8.2} GB/s",
        "pad cipher, one CPU thread",
        cpu / 1e9
    );
    let seconds = least(device, stream, || {
        // SAFETY: as in `main`.
        unsafe { gpu.apply(&generator, &[1; 16], &[2; 16], a, b, stream)? };
        Ok(())
    })?;
    let rate = a.len() as f64 / seconds;
    println!(
        "{:<42} {:>8.1} GB/s, {:.0} times as fast",
        "pad cipher, in GPU memory",
        rate / 1e9,
        rate / cpu
    );
    let cpu = seconds_of(&mut || {
        evolve(1, 20, NonZeroUsize::MIN);
        Ok(())
    })?;
    println!("{:<42} {:>8.2} ms", "evolution, one CPU thread", 1e3 * cpu);
    let seconds = seconds_of(&mut || {
        gpu.evolve(1, 20)?;
        Ok(())
    })?;
    println!(
        "{:<42} {:>8.2} ms, {:.0} times as fast",
        "evolution, on the GPU",
        1e3 * seconds,
        cpu / seconds
    );
    Ok(())
}
