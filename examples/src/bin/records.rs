//! Many short records of a service, sealed in one call where they lie: text, then room for the tag.

use std::time::Instant;

use warplock::{Aad, Algorithm, Batch, Engine, Error, Ivs, Key, Keys, Spans, Text};

const COUNT: usize = 100_000;
const LEN: usize = 256;
const STRIDE: usize = LEN + 16;

fn main() -> Result<(), Error> {
    let engine = Engine::new()?;
    let key = Key::generate(Algorithm::Aes256Gcm)?;
    let mut records = vec![7; COUNT * STRIDE];
    let mut nonces = vec![0; COUNT * 12]; // drawn by the engine; kept with the records
    let spans = Spans::Even {
        count: COUNT,
        len: LEN,
        stride: STRIDE,
    };

    let start = Instant::now();
    let text = Text::InPlace {
        buffer: &mut records,
        spans,
    };
    let seal = Batch::seal(Keys::One(&key), text).aad(Aad::Shared(b"records v1"));
    engine.run(seal.ivs(Ivs::Random(&mut nonces)))?;
    let seconds = start.elapsed().as_secs_f64();
    let rate = (COUNT * LEN) as f64 / seconds / 1e9;
    println!(
        "{COUNT} records of {LEN} bytes sealed at {rate:.2} GB/s on {}",
        engine.backend()
    );

    // One of them is changed on its way.
    records[5 * STRIDE] ^= 1;
    let text = Text::InPlace {
        buffer: &mut records,
        spans,
    };
    let open = Batch::open(Keys::One(&key), text).aad(Aad::Shared(b"records v1"));
    match engine.run(open.ivs(Ivs::Each(&nonces))) {
        Err(Error::Authentication { failed, total }) => {
            println!("records {failed:?} of {total} were changed: they are zeros now");
            assert_eq!(failed, [5]);
        }
        other => other?,
    }
    assert_eq!(records[5 * STRIDE..][..LEN], [0; LEN]);
    assert_eq!(records[6 * STRIDE..][..LEN], [7; LEN]);
    Ok(())
}
