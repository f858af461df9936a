//! Every kernel, odd places, small and huge messages together, and several threads at the same time.

use warplock::{Algorithm, Batch, Direction, Engine, Key, Keys, Mode, Span, Spans, Text};

use crate::random::Random;
use crate::sample::{Sample, fitting};
use crate::{cpu, gpu};

/// Places one after the other, with `gap` bytes between.
fn side_by_side(algorithm: Algorithm, lens: &[usize], first: usize, gap: usize) -> Vec<Span> {
    let mut end = first;
    let place = |&len: &usize| {
        let (offset, len) = (end, fitting(algorithm, len));
        end += len + gap;
        Span { offset, len }
    };
    lens.iter().map(place).collect()
}

fn size(spans: &[Span]) -> usize {
    spans.last().map_or(0, |span| span.offset + span.len)
}

/// Short, for tools under which a GPU is slow.
#[test]
fn every_kernel() {
    let (Some(gpu), cpu) = (gpu(), cpu()) else {
        return;
    };
    let random = &mut Random::new(1);
    for algorithm in Algorithm::all() {
        let mut batches = vec![
            (vec![100, 16, 700], 1),
            (vec![100, 16, 700], 3),
            (vec![9000, 3000], 1),
        ];
        if algorithm.info().mode == Mode::Cbc {
            // Too many chains for the kernel for few.
            batches.extend([(vec![16; 10_300], 1), (vec![16; 10_300], 3)]);
        }
        if algorithm.info().mode == Mode::Gcm {
            // A lane a message.
            batches.push((vec![45; 17_000], 1));
        }
        if algorithm.info().mode == Mode::Acorn {
            // Warps whose lanes all have whole tiles, and lanes without a message.
            batches.extend([(vec![320; 70], 1), (vec![203; 70], 3)]);
        }
        for (lens, keys) in batches {
            let spans = side_by_side(algorithm, &lens, 0, 0);
            let text = random.bytes(size(&spans));
            let sample = Sample::new(random, algorithm, spans, keys);
            sample.compare(&cpu, &gpu, &text, false);
        }
    }
    blocks(&cpu, &gpu, random, 1000);
}

/// A key for each block.
fn blocks(cpu: &Engine, gpu: &Engine, random: &mut Random, count: usize) {
    for algorithm in Algorithm::all().filter(|known| known.info().mode == Mode::Ecb) {
        let keys = random.bytes(count * algorithm.key_len());
        let input = random.bytes(16 * count);
        let run = |engine: &Engine| {
            let mut output = vec![0xA5; 16 * count];
            let spans = Spans::Even {
                count,
                len: 16,
                stride: 16,
            };
            let keys = Keys::Each {
                algorithm,
                bytes: &keys,
            };
            let text = Text::Apart {
                input: &input,
                input_spans: spans,
                output: &mut output,
                output_spans: spans,
            };
            engine.run(Batch::encrypt(keys, text)).unwrap();
            output
        };
        assert!(run(gpu) == run(cpu), "{algorithm}: a key for each block");
    }
}

#[test]
fn odd_places_and_in_place() {
    let (Some(gpu), cpu) = (gpu(), cpu()) else {
        return;
    };
    let random = &mut Random::new(2);
    for algorithm in Algorithm::all() {
        for shift in [1, 3, 8, 15, 17, 31] {
            let lens: Vec<usize> = (0..40).map(|_| random.below(3000)).collect();
            let spans = side_by_side(algorithm, &lens, shift, shift % 7);
            let text = random.bytes(size(&spans) + 5);
            let sample = Sample::new(random, algorithm, spans, 1 + shift % 2);
            sample.compare(&cpu, &gpu, &text, shift % 2 == 1);
        }
    }
}

#[test]
fn many_small_and_few_huge_messages() {
    let (Some(gpu), cpu) = (gpu(), cpu()) else {
        return;
    };
    let random = &mut Random::new(3);
    for algorithm in Algorithm::all() {
        for keys in [1, 7] {
            let huge = |place: usize| place % 9000 == 4500;
            let mut lens: Vec<usize> = (0..27_000).map(|_| random.below(200)).collect();
            for (place, len) in lens.iter_mut().enumerate() {
                if huge(place) {
                    *len = (5 << 20) + random.below(1 << 20);
                }
            }
            let spans = side_by_side(algorithm, &lens, 0, 1);
            let text = random.bytes(size(&spans));
            let sample = Sample::new(random, algorithm, spans, keys);
            sample.compare(&cpu, &gpu, &text, keys == 1);
        }
    }
}

/// So many that lanes of GCM take a message each, of 20 blocks at most.
#[test]
fn many_tiny_messages() {
    let (Some(gpu), cpu) = (gpu(), cpu()) else {
        return;
    };
    let random = &mut Random::new(6);
    for algorithm in Algorithm::all() {
        for (keys, longest) in [(1, 70), (1, 320), (7, 70)] {
            let lens: Vec<usize> = (0..40_000).map(|_| random.below(longest)).collect();
            let spans = side_by_side(algorithm, &lens, 3, 1);
            let text = random.bytes(size(&spans));
            let sample = Sample::new(random, algorithm, spans, keys);
            sample.compare(&cpu, &gpu, &text, longest == 70);
        }
    }
}

/// The empty one is a chunk of its own.
#[test]
fn an_empty_message_next_to_a_long_one() {
    let (Some(gpu), cpu) = (gpu(), cpu()) else {
        return;
    };
    let random = &mut Random::new(4);
    for algorithm in Algorithm::all() {
        for lens in [[3 << 20, 0], [0, 3 << 20]] {
            let spans = side_by_side(algorithm, &lens, 0, 1);
            let text = random.bytes(size(&spans));
            let sample = Sample::new(random, algorithm, spans, 1);
            sample.compare(&cpu, &gpu, &text, true);
        }
    }
}

#[test]
fn several_threads_at_the_same_time() {
    let (Some(gpu), cpu) = (gpu(), cpu()) else {
        return;
    };
    std::thread::scope(|scope| {
        // More than there are rings.
        for thread in 0..9_u64 {
            let (cpu, gpu) = (&cpu, &gpu);
            scope.spawn(move || {
                let random = &mut Random::new(thread);
                for algorithm in Algorithm::all() {
                    let lens = [3 << 20, 70_000, 5, 1 << 20];
                    let spans = side_by_side(algorithm, &lens, 0, 0);
                    let text = random.bytes(size(&spans));
                    let sample = Sample::new(random, algorithm, spans, 1 + thread as usize % 2);
                    sample.compare(cpu, gpu, &text, thread % 2 == 0);
                }
            });
        }
    });
}

/// The same key on both devices and in both directions, over and over: what is kept between jobs
/// must not change results.
#[test]
fn jobs_do_not_disturb_later_ones() {
    let (Some(gpu), cpu) = (gpu(), cpu()) else {
        return;
    };
    let random = &mut Random::new(4);
    let algorithm = Algorithm::Aes256Gcm;
    let key = [7; 32];
    for round in 0..30 {
        let lens: Vec<usize> = (0..1 + random.below(20))
            .map(|_| random.below(400_000))
            .collect();
        let spans = side_by_side(algorithm, &lens, 0, 0);
        let text = random.bytes(size(&spans));
        let mut sample = Sample::new(random, algorithm, spans, 1);
        sample.keys = vec![Key::new(algorithm, &key).unwrap()];
        sample.compare(&cpu, &gpu, &text, round % 2 == 0);
        let plain = sample.run(&gpu, Direction::Encrypt, None, text.clone(), sample.tags());
        let back = sample.run(&gpu, Direction::Decrypt, None, plain.text, plain.tags);
        assert!(back.refused.is_empty() && back.text == text);
    }
}
