//! In GPU memory: the same results as on the CPU. Where there is no GPU, these tests say so.

use std::num::NonZeroUsize;

use warplock::cuda::{Device, DeviceBuffer, Stream};
use warplock_analyze::gpu::Gpu;
use warplock_analyze::pictures::Picture;
use warplock_analyze::{
    Autocorrelation, Comparison, Data, Difference, Error, Options, Plane, Random, RepeatedBlocks,
    Report, Shape, Tables, Test, analyze, compare,
};

fn device() -> Option<Device> {
    let found = Device::open(0);
    if let Err(error) = &found {
        println!("skipped: no GPU: {error}");
    }
    found.ok()
}

struct Bench {
    device: Device,
    gpu: Gpu,
    stream: Stream,
}

fn bench() -> Option<Bench> {
    let device = device()?;
    let gpu = Gpu::new(&device).unwrap();
    let stream = device.stream().unwrap();
    Some(Bench {
        device,
        gpu,
        stream,
    })
}

impl Bench {
    /// A copy that begins `skew` bytes after a multiple of 16, between bytes that count for nothing.
    fn upload(&self, bytes: &[u8], skew: usize) -> DeviceBuffer {
        let mut memory = self.device.alloc(skew + bytes.len()).unwrap();
        memory.fill(0xa5).unwrap();
        memory.write(skew, bytes).unwrap();
        memory
    }
}

fn random(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Random::new(seed).fill(&mut bytes);
    bytes
}

/// Lengths around words, lines, warps and blocks, and random ones.
fn lengths() -> Vec<usize> {
    let mut all: Vec<usize> = (0..70).collect();
    all.extend([511, 512, 513, 8191, 8192, 8193, 65_535, 100_003]);
    let mut numbers = Random::new(1);
    all.extend((0..20).map(|_| numbers.below(200_000)));
    all
}

#[test]
fn histogram_and_products_are_those_of_the_cpu() {
    let Some(bench) = bench() else { return };
    let mut numbers = Random::new(2);
    for (seed, len) in lengths().into_iter().enumerate() {
        let bytes = match seed % 5 {
            // Lanes that count the same byte.
            0 => vec![seed as u8; len],
            _ => random(seed as u64, len),
        };
        let skew = numbers.below(16);
        let memory = bench.upload(&bytes, skew);
        let data = memory.region().part(skew, len);
        // Rows that are no multiple of a line, longer than all bytes, and without bytes.
        let widths = [
            len,
            1,
            2,
            3,
            16,
            17,
            1 + numbers.below(len.max(1)),
            len + 5,
            0,
        ];
        for width in widths {
            let plane = Plane::rows(&bytes, width);
            let expected = Tables::of(&plane, NonZeroUsize::MIN);
            // SAFETY: the memory lives and nothing writes it.
            let found = unsafe { bench.gpu.tables(data, width, &bench.stream) }.unwrap();
            assert_eq!(found, expected, "{len} bytes, {width} a row, skew {skew}");
        }
    }
}

#[test]
fn differences_are_those_of_the_cpu() {
    let Some(bench) = bench() else { return };
    let mut numbers = Random::new(3);
    for (seed, len) in lengths().into_iter().enumerate() {
        let left = random(seed as u64, len);
        let mut right = match seed % 3 {
            0 => random(!(seed as u64), len),
            _ => left.clone(),
        };
        if seed % 3 == 2 && len > 0 {
            right[numbers.below(len)] ^= 0x81;
        }
        let skews = [numbers.below(16), numbers.below(16)];
        let (a, b) = (
            bench.upload(&left, skews[0]),
            bench.upload(&right, skews[1]),
        );
        let a = a.region().part(skews[0], len);
        let b = b.region().part(skews[1], len);
        // SAFETY: the memory lives and nothing writes it.
        let found = unsafe { bench.gpu.difference(a, b, &bench.stream) }.unwrap();
        let expected = Difference::of(&left, &right).unwrap();
        assert_eq!(found, expected, "{len} bytes, skews {skews:?}");
    }
}

/// All numbers of all results, NaN for undefined ones included.
fn numbers<'a>(tests: impl Iterator<Item = &'a Test>) -> Vec<String> {
    tests.map(|test| format!("{test:?}")).collect()
}

fn report(report: &Report) -> (usize, Vec<String>, Vec<String>) {
    let channels = report.channels.iter();
    let channels = channels.map(|one| format!("{} {:?}", one.name, one.histogram));
    (report.len, channels.collect(), numbers(report.tests()))
}

fn comparison(found: &Comparison) -> (Option<u64>, Vec<String>, Vec<String>) {
    let channels = found.channels.iter();
    let channels = channels.map(|one| format!("{} {:?}", one.name, one.difference));
    (found.first, channels.collect(), numbers(found.tests()))
}

fn shapes() -> Vec<Option<Shape>> {
    let mut all = vec![None];
    for (width, height) in [
        (1, 1),
        (1, 3000),
        (3000, 1),
        (64, 64),
        (257, 121),
        (100, 300),
    ] {
        for channels in 1..=4 {
            all.push(Some(Shape {
                width,
                height,
                channels,
            }));
        }
    }
    all
}

#[test]
fn reports_are_those_of_the_cpu() {
    let Some(bench) = bench() else { return };
    let mut numbers = Random::new(4);
    let options = Options {
        seed: 7,
        pairs: 500,
        ..Options::default()
    };
    for shape in shapes() {
        let len = shape.map_or(70_001, |shape| shape.len());
        for kind in 0..3 {
            let mut bytes = match (kind, shape) {
                (0, _) => random(len as u64, len),
                // Neighbours that are alike, and blocks that are equal.
                (1, Some(shape)) => Picture::Checkers.draw(shape, 1).as_bytes().to_vec(),
                (1, None) => (0..len).map(|place| (place / 100) as u8).collect(),
                _ => vec![3; len],
            };
            // What comes after an image is left out.
            bytes.extend(random(9, if shape.is_some() { 21 } else { 0 }));
            let skew = numbers.below(16);
            let memory = bench.upload(&bytes, skew);
            let data = memory.region().part(skew, bytes.len());
            let host = |bytes| match shape {
                Some(shape) => Data::image(bytes, shape).unwrap(),
                None => Data::bytes(bytes),
            };
            let expected = analyze(&host(&bytes), &options);
            // SAFETY: the memory lives and nothing writes it.
            let found = unsafe { bench.gpu.analyze(data, shape, &options, &bench.stream) };
            assert_eq!(
                report(&found.unwrap()),
                report(&expected),
                "{shape:?} {kind}"
            );

            let mut other = bytes.clone();
            let changed = numbers.below(len);
            other[changed] ^= 1;
            let skew = numbers.below(16);
            let memory = bench.upload(&other, skew);
            let second = memory.region().part(skew, other.len());
            let expected = compare(&host(&bytes), &host(&other)).unwrap();
            // SAFETY: as above.
            let found = unsafe { bench.gpu.compare(data, second, shape, &bench.stream) };
            let found = found.unwrap();
            assert_eq!(
                comparison(&found),
                comparison(&expected),
                "{shape:?} {kind}"
            );
            assert_eq!(found.first, Some(changed as u64));
        }
    }
}

#[test]
fn repeated_blocks_and_lags_are_those_of_the_cpu() {
    let Some(bench) = bench() else { return };
    let mut numbers = Random::new(5);
    for len in [0, 15, 16, 32, 255, 256, 1000, 4096, 100_000, 300_001] {
        for kinds in [1, 2, 50, 1 << 20] {
            // Blocks of `kinds` kinds, in random order.
            let block = |_| random(numbers.below(kinds) as u64, 16);
            let mut bytes: Vec<u8> = (0..len / 16).flat_map(block).collect();
            bytes.resize(len, 1);
            let skew = numbers.below(16);
            let memory = bench.upload(&bytes, skew);
            let data = memory.region().part(skew, len);
            // SAFETY: the memory lives and nothing writes it.
            let found = unsafe { bench.gpu.repeats(data, &bench.stream) }.unwrap();
            let expected = RepeatedBlocks::of(&bytes);
            assert_eq!(
                found.map(|found| (found.blocks, found.repeats)),
                expected.map(|expected| (expected.blocks, expected.repeats)),
                "{len} {kinds}"
            );
            // SAFETY: as above.
            let found = unsafe { bench.gpu.autocorrelation(data, &bench.stream) }.unwrap();
            let tables = Tables::of(&Plane::row(&bytes), NonZeroUsize::MIN);
            let expected = Autocorrelation::of(&bytes, &tables.histogram);
            let coefficients = |found: Option<Autocorrelation>| found.map(|one| one.coefficients);
            assert_eq!(coefficients(found), coefficients(expected), "{len} {kinds}");
        }
    }
}

#[test]
fn data_that_does_not_fit_is_refused() {
    let Some(bench) = bench() else { return };
    let memory = bench.upload(&[0; 100], 0);
    let (data, stream) = (memory.region(), &bench.stream);
    let shape = |width, channels| {
        Some(Shape {
            width,
            height: 10,
            channels,
        })
    };
    let options = Options::default();
    // SAFETY: the memory lives and nothing writes it.
    unsafe {
        let short = bench.gpu.analyze(data, shape(11, 1), &options, stream);
        assert!(matches!(short, Err(Error::TooShort { found: 100, .. })));
        let bad = bench.gpu.analyze(data, shape(1, 5), &options, stream);
        assert!(matches!(bad, Err(Error::BadShape(_))));
        let unequal = bench.gpu.compare(data, data.part(0, 99), None, stream);
        assert!(matches!(unequal, Err(Error::Unequal { right: 99, .. })));
        // The same image, although bytes follow it only once.
        let image = shape(9, 1);
        let same = bench.gpu.compare(data, data.part(0, 90), image, stream);
        assert_eq!(same.unwrap().first, None);
    }
}

#[test]
#[ignore = "takes 13 GiB of GPU memory"]
fn beyond_4_gib_the_sums_are_right() {
    let Some(bench) = bench() else { return };
    // Equal pieces, so that the CPU needs one, and a last byte.
    const PIECE: usize = 1 << 20;
    const PIECES: usize = 6 << 10;
    let piece = random(6, PIECE);
    let mut memory = bench.device.alloc(PIECE * PIECES + 1).unwrap();
    for number in 0..PIECES {
        memory.write(number * PIECE, &piece).unwrap();
    }
    memory.write(PIECE * PIECES, &[77]).unwrap();
    let data = memory.region();
    // SAFETY: the memory lives and nothing writes it.
    let found = unsafe { bench.gpu.tables(data, data.len(), &bench.stream) }.unwrap();
    let mut expected = Tables::of(&Plane::row(&piece), NonZeroUsize::MIN).histogram;
    expected
        .counts
        .iter_mut()
        .for_each(|count| *count *= PIECES as u64);
    expected.counts[77] += 1;
    assert_eq!(found.histogram, expected);

    let mut other = bench.device.alloc(PIECE * PIECES + 1).unwrap();
    other.fill(0).unwrap();
    // SAFETY: as above.
    let found = unsafe { bench.gpu.difference(data, other.region(), &bench.stream) }.unwrap();
    let each = Difference::of(&piece, &vec![0; PIECE]).unwrap();
    assert_eq!(
        found,
        Difference {
            len: (PIECE * PIECES) as u64 + 1,
            differing: each.differing * PIECES as u64 + 1,
            distance: each.distance * PIECES as u64 + 77,
            bits: each.bits * PIECES as u64 + 4,
            first: each.first,
        }
    );
    drop(other);
    // SAFETY: as above.
    let found = unsafe { bench.gpu.repeats(data, &bench.stream) }
        .unwrap()
        .unwrap();
    assert_eq!(found.blocks, (PIECE * PIECES / 16) as u64);
    assert_eq!(found.repeats, (PIECE * (PIECES - 1) / 16) as u64);
}

#[cfg(feature = "research")]
mod research {
    use warplock_analyze::research::{Generator, GpuResearch, cost, decrypt, encrypt, evolve};

    use super::*;

    fn block(numbers: &mut Random) -> [u8; 16] {
        let mut block = [0; 16];
        numbers.fill(&mut block);
        block
    }

    #[test]
    fn the_pad_is_that_of_the_cpu() {
        let Some(bench) = bench() else { return };
        let gpu = GpuResearch::new(&bench.device).unwrap();
        let mut numbers = Random::new(6);
        let mut all = lengths();
        // Around segments, warps of segments and blocks of warps.
        all.extend([
            4095,
            4096,
            4097,
            32 * 4096 - 1,
            32 * 4096 + 1,
            128 * 4096,
            600_000,
        ]);
        for len in all {
            let generator = Generator::draw(&mut numbers);
            let (key, iv) = (block(&mut numbers), block(&mut numbers));
            let plain = random(len as u64, len);
            let cipher = encrypt(&generator, &key, &iv, &plain);
            // From one place to another, at any alignment.
            let skews = [16 * numbers.below(2), numbers.below(17)];
            let from = bench.upload(&plain, skews[0]);
            let to = bench.upload(&vec![0; len + 1], skews[1]);
            let (input, output) = (
                from.region().part(skews[0], len),
                to.region().part(skews[1], len),
            );
            // SAFETY: both live until the stream is synchronised, and nothing else uses them.
            unsafe { gpu.apply(&generator, &key, &iv, input, output, &bench.stream) }.unwrap();
            bench.stream.synchronize().unwrap();
            let mut found = vec![0; len + 1];
            to.read(skews[1], &mut found).unwrap();
            assert_eq!(found[..len], cipher[16..], "{len} {skews:?}");
            // What follows is not written.
            assert_eq!(found[len], 0, "{len} {skews:?}");

            assert_eq!(gpu.encrypt(&generator, &key, &iv, &plain).unwrap(), cipher);
            let opened = gpu.decrypt(&generator, &key, &cipher).unwrap();
            assert_eq!(opened, decrypt(&generator, &key, &cipher));
        }
        let generator = Generator::draw(&mut numbers);
        assert_eq!(gpu.decrypt(&generator, &[0; 16], &[0; 15]).unwrap(), None);
    }

    #[test]
    fn fitness_and_evolution_are_those_of_the_cpu() {
        let Some(bench) = bench() else { return };
        let gpu = GpuResearch::new(&bench.device).unwrap();
        let mut numbers = Random::new(7);
        let mut generators: Vec<_> = (0..60).map(|_| Generator::draw(&mut numbers)).collect();
        let evolved = evolve(3, 2, NonZeroUsize::MIN);
        generators.push(evolved.generator);
        for (keys, seed) in [(1, 1), (6, 2), (20, 3)] {
            let found = gpu.costs(&generators, keys, seed).unwrap();
            let costs = generators.iter().map(|one| cost(one, keys, seed));
            assert_eq!(found, costs.collect::<Vec<_>>());
        }
        assert_eq!(gpu.evolve(3, 2).unwrap(), evolved);
    }
}
