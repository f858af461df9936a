//! Keys and texts show up in no `Debug` and no error.

use warplock::{
    Algorithm, Batch, Direction, Engine, Ivs, Key, Keys, MessageStream, Spans, Tags, Text,
};

/// Bytes that no message contains by chance, whatever base they are printed in.
const SECRET: &[u8; 16] = b"PASSWORDpassword";

fn assert_silent(printed: &str) {
    let in_hex: String = SECRET[..4]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    for trace in ["PASS", "pass", &in_hex, "80, 65, 83", "50, 41, 53"] {
        let found = printed.to_lowercase().contains(&trace.to_lowercase());
        assert!(!found, "{printed} shows {trace}");
    }
}

#[test]
fn debug_of_a_key_names_its_algorithm_only() {
    let key = Key::new(Algorithm::Aes128Gcm, SECRET).unwrap();
    assert_eq!(format!("{key:?}"), "Key(aes-128-gcm)");
    assert_eq!(format!("{key:#?}"), "Key(aes-128-gcm)");
    // Also when its round keys have been made.
    let (mut text, mut tag) = (*SECRET, [0; 16]);
    let batch = Batch::seal(Keys::One(&key), Text::in_place(&mut text));
    let batch = batch.ivs(Ivs::Each(&[0; 12])).tags(Tags::Apart(&mut tag));
    Engine::new().unwrap().run(batch).unwrap();
    assert_silent(&format!("{key:?}"));
}

#[test]
fn errors_tell_lengths_and_places_not_bytes() {
    let engine = Engine::new().unwrap();
    let key = Key::new(Algorithm::Aes128Gcm, SECRET).unwrap();
    let mut errors = vec![
        Key::new(Algorithm::Aes256Gcm, SECRET).unwrap_err(),
        Key::new(Algorithm::Aes128Gcm, &SECRET[1..]).unwrap_err(),
    ];

    let mut text = *SECRET;
    let open = Batch::open(Keys::One(&key), Text::in_place(&mut text));
    let open = open.ivs(Ivs::Each(&[0; 12])).tags(Tags::Given(SECRET));
    errors.push(engine.run(open).unwrap_err());

    let mut text = *SECRET;
    let outside = Text::InPlace {
        buffer: &mut text,
        spans: Spans::one(17),
    };
    errors.push(
        engine
            .run(Batch::seal(Keys::One(&key), outside))
            .unwrap_err(),
    );

    let mut text = *SECRET;
    let each = Keys::Each {
        algorithm: Algorithm::Aes256Ecb,
        bytes: SECRET,
    };
    let batch = Batch::encrypt(each, Text::in_place(&mut text));
    errors.push(engine.run(batch).unwrap_err());

    let stream = MessageStream::new(&engine, Direction::Decrypt, &key, SECRET, SECRET).unwrap();
    errors.push(stream.verify(&mut text, SECRET).unwrap_err());

    for error in errors {
        assert_silent(&format!("{error} {error:?} {error:#?}"));
    }
}
