//! Ciphers with flaws are flagged by the statistics that should.

use warplock_analyze::pictures::Picture;
use warplock_analyze::{Data, Error, Options, Random, Report, Shape, analyze};

const SHAPE: Shape = Shape {
    width: 512,
    height: 384,
    channels: 1,
};

fn report(bytes: &[u8]) -> Report {
    let data = Data::image(bytes, SHAPE).unwrap();
    analyze(&data, &Options::default())
}

fn flagged(report: &Report) -> Vec<&'static str> {
    let flagged = report.tests().filter(|test| test.is_flagged(0.001));
    flagged.map(|test| test.name).collect()
}

/// ECB by a keyed table: equal blocks give equal random blocks.
fn ecb(plain: &[u8]) -> Vec<u8> {
    let block = |block: &[u8]| {
        let word = |half: &[u8]| u64::from_le_bytes(half.try_into().unwrap());
        let mut random = Random::new(word(&block[..8]));
        let mut random = Random::new(random.next_u64() ^ word(&block[8..]));
        let mut output = [0; 16];
        random.fill(&mut output);
        output
    };
    plain.chunks_exact(16).flat_map(block).collect()
}

#[test]
fn ecb_of_a_structured_picture_is_flagged() {
    for picture in [Picture::Flat, Picture::Gradient, Picture::Checkers] {
        let plain = picture.draw(SHAPE, 1);
        let report = report(&ecb(plain.as_bytes()));
        let flagged = flagged(&report);
        for name in ["repeated_blocks", "histogram", "entropy", "autocorrelation"] {
            assert!(flagged.contains(&name), "{picture:?}: {flagged:?}");
        }
    }
}

#[test]
fn a_repeating_key_is_flagged() {
    // The key itself is random: the picture shows through at the distance of a period.
    for period in [1, 7, 16, 256, 4096] {
        let mut key = vec![0; period];
        Random::new(9).fill(&mut key);
        let plain = Picture::Photograph.draw(SHAPE, 1);
        let bytes = plain.as_bytes().iter().zip(key.iter().cycle());
        let cipher: Vec<u8> = bytes.map(|(byte, key)| byte ^ key).collect();
        let report = report(&cipher);
        let flagged = flagged(&report);
        for name in ["histogram", "entropy", "local_entropy"] {
            assert!(flagged.contains(&name), "{period}: {flagged:?}");
        }
        assert!(
            flagged.contains(&"autocorrelation"),
            "{period}: {flagged:?}"
        );
    }
}

#[test]
fn a_truncated_generator_is_flagged() {
    // The lowest byte of a linear congruential generator has period 256.
    let mut state = 1u32;
    let pad: Vec<u8> = (0..SHAPE.len())
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state as u8
        })
        .collect();
    let short = report(&pad);
    for name in [
        "evenness",
        "repeated_blocks",
        "autocorrelation",
        "local_entropy",
    ] {
        assert!(flagged(&short).contains(&name), "{:?}", flagged(&short));
    }
    // Only seven of eight bits are used.
    let mut pad = vec![0; SHAPE.len()];
    Random::new(2).fill(&mut pad);
    pad.iter_mut().for_each(|byte| *byte &= 0x7f);
    let bits = report(&pad);
    for name in ["histogram", "entropy", "local_entropy", "bit_balance"] {
        assert!(flagged(&bits).contains(&name), "{:?}", flagged(&bits));
    }
    // The output ends after a quarter and starts again.
    let quarter = SHAPE.len() / 4;
    let (first, rest) = pad.split_at_mut(quarter);
    Random::new(3).fill(first);
    rest.chunks_mut(quarter)
        .for_each(|part| part.copy_from_slice(first));
    let again = report(&pad);
    assert!(
        flagged(&again).contains(&"repeated_blocks"),
        "{:?}",
        flagged(&again)
    );
}

#[test]
fn plain_pictures_are_flagged_and_random_data_is_not() {
    for picture in Picture::ALL {
        let shape = Shape {
            channels: 3,
            ..SHAPE
        };
        let plain = picture.draw(shape, 1);
        let report = analyze(&plain, &Options::default());
        for channel in &report.channels {
            let flagged = channel.tests.iter().filter(|test| test.is_flagged(0.001));
            let flagged: Vec<_> = flagged.map(|test| test.name).collect();
            // Each byte is as frequent in a gradient: only neighbours show that it is one.
            let uneven = match picture {
                Picture::Gradient => "evenness",
                _ => "histogram",
            };
            for name in [
                uneven,
                "local_entropy",
                "correlation_vertical",
                "sampled_vertical",
            ] {
                assert!(flagged.contains(&name), "{picture:?}: {flagged:?}");
            }
        }
    }
    let mut random = vec![0; SHAPE.len()];
    Random::new(4).fill(&mut random);
    assert_eq!(flagged(&report(&random)), [""; 0]);
}

#[cfg(feature = "images")]
#[test]
fn images_come_back_from_their_files() {
    for channels in 1..=4 {
        let shape = Shape {
            width: 61,
            height: 47,
            channels,
        };
        let plain = Picture::Photograph.draw(shape, 1);
        let file = plain.encode_png().unwrap();
        let back = Data::decode(&file).unwrap();
        assert_eq!(back.shape(), Some(shape));
        assert_eq!(back.as_bytes(), plain.as_bytes());
        // A damaged file is an error, not bytes of any kind.
        for len in [20, file.len() / 2, file.len() - 20] {
            let cut = Data::decode(&file[..len]).unwrap_err();
            assert!(
                matches!(cut, Error::ImageCut { found } if found == len),
                "{cut}"
            );
        }
    }
    let cut = Data::decode(b"P5 2 2 255\n\x01\x02").unwrap_err();
    assert!(matches!(cut, Error::ImageCut { found: 13 }), "{cut}");
    assert_eq!(
        Data::decode(b"P5 2 1 255\n\x01\x02").unwrap().as_bytes(),
        [1, 2]
    );
    assert!(Data::decode(&[0x7f; 100]).is_err());
}
