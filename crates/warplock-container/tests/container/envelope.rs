//! Envelopes that parse and that do not, and what a file tells without a key.

use std::io::Cursor;
use std::sync::Arc;

use crate::common::*;
use warplock_container::{
    Envelope, Error, ErrorKind, Foreign, Format, InputKey, Length, Sink, Source, inspect, open,
};
use warplock_keyring::{
    Identities, MAX_WRAPPED_LEN, MasterKey, NewIdentity, NoPrompt, Recipients, StanzaKind, unwrap,
    wrap,
};

/// An envelope's bytes around a wrapped key and a stream of `len` bytes of plaintext.
fn file(len: usize) -> (Vec<u8>, NewIdentity, Envelope) {
    let alice = NewIdentity::generate();
    let master = MasterKey::generate().unwrap();
    let mut recipients = Recipients::new(Arc::new(NoPrompt));
    recipients.add(&alice.recipient()).unwrap();
    let envelope = Envelope::new(wrap(&master, &recipients).unwrap()).unwrap();
    let mut bytes = Vec::new();
    envelope.write(&mut bytes).unwrap();
    bytes.extend(seal_all(&pattern(len), &InputKey::from(&master)));
    (bytes, alice, envelope)
}

#[test]
fn an_envelope_carries_the_key_of_its_stream() {
    let (bytes, alice, envelope) = file(SEGMENT + 9);
    let mut identities = Identities::new(Arc::new(NoPrompt));
    identities
        .add("alice", alice.file_text().as_bytes())
        .unwrap();
    for way in WAYS {
        let (result, opened) = along(way, &bytes, |mut from, to| {
            let found = Envelope::read(&mut from)?;
            assert_eq!(found, envelope);
            let master = unwrap(found.wrapped(), &identities)?;
            open(from, to, &InputKey::from(&master), &pipeline())
        });
        assert_eq!(result.unwrap(), opened.len() as u64);
        assert!(opened == pattern(SEGMENT + 9));
    }
}

#[test]
fn no_more_is_written_than_every_reader_accepts() {
    // The limits of docs/format.md.
    let (written, read) = (131_072, 1_048_576);
    let longest = Envelope::new(vec![7; written]).unwrap();
    assert_eq!(longest.wrapped().len(), written);
    for len in [written + 1, read] {
        let error = Envelope::new(vec![7; len]).unwrap_err().to_string();
        let limit = "the most is 131072, enough for about 1310 recipients";
        assert!(
            error.starts_with("too many recipients") && error.contains(limit),
            "{error}"
        );
        let file = [
            b"warplock/1\n",
            &(len as u32).to_be_bytes()[..],
            &vec![7; len],
        ];
        let found = Envelope::read(&mut &file.concat()[..]).unwrap();
        assert_eq!(found.wrapped().len(), len);
    }
    assert_eq!(MAX_WRAPPED_LEN, read);
}

#[test]
fn every_truncation_of_an_envelope_is_called_one() {
    let (bytes, _, envelope) = file(0);
    for len in 0..envelope.encoded_len() as usize {
        for mut input in [
            Source::bytes(&bytes[..len]),
            Source::sequential(Cursor::new(&bytes[..len])),
        ] {
            let error = Envelope::read(&mut input).unwrap_err();
            match len {
                0 => assert!(matches!(error, Error::Empty)),
                _ => assert!(matches!(error, Error::EnvelopeCut), "{len}: {error}"),
            }
        }
    }
}

#[test]
fn wrong_first_lines_and_lengths_are_named() {
    let read = |bytes: &[u8]| Envelope::read(&mut &bytes[..]).unwrap_err();
    let error = read(b"warplock/2\nanything");
    assert!(
        matches!(&error, Error::NewerVersion { found } if found == "warplock/2"),
        "{error}"
    );
    // Changed in transfer.
    for (bytes, says) in [
        (
            &b"warplock/1\r\nanything that follows, and more of it"[..],
            "line ends",
        ),
        (b"warplock/1\r", "line ends"),
        (b"\xef\xbb\xbfwarplock/1\nanything", "byte order mark"),
    ] {
        let error = read(bytes);
        let sentence = error.to_string();
        assert!(
            matches!(error, Error::BadEnvelope(_)) && sentence.contains(says),
            "{sentence}"
        );
    }
    for (bytes, says) in [
        (&b"d2FycGxvY2svMQo="[..], "base64 -d"),
        (b"<!DOCTYPE html><html>", "a web page"),
    ] {
        let sentence = read(bytes).to_string();
        assert!(sentence.contains(says), "{sentence}");
    }
    let error = read(b"warplock/\x1b[31m and so on and on and on and on and on");
    assert!(
        !error.to_string().contains('\x1b'),
        "a terminal is safe from it"
    );
    assert_eq!(error.kind(), ErrorKind::Failure);

    for len in [0, MAX_WRAPPED_LEN as u32 + 1, u32::MAX] {
        let bytes = [b"warplock/1\n", &len.to_be_bytes()[..], &[0; 100]].concat();
        assert!(matches!(read(&bytes), Error::BadEnvelope(_)));
    }
    assert!(matches!(
        Envelope::new(Vec::new()),
        Err(Error::BadEnvelope(_))
    ));

    for (bytes, foreign) in [
        (&b"age-encryption.org/v1\n-> X25519"[..], Some(Foreign::Age)),
        (b"Salted__12345678", Some(Foreign::OpenSsl)),
        (b"\x1f\x8b\x08\0\0\0\0\0\0\x03+x", Some(Foreign::Gzip)),
        (
            b"-----BEGIN AGE ENCRYPTED FILE-----\n",
            Some(Foreign::AgeArmor),
        ),
        (b"hello", None),
        (&[0x80; 72], None),
    ] {
        let error = read(bytes);
        assert!(
            matches!(error, Error::NotWarplock { looks_like } if looks_like == foreign),
            "{error}"
        );
    }
    assert!(
        read(&[0x80; 72])
            .to_string()
            .contains("does not begin with")
    );
}

#[test]
fn inspect_tells_what_shows_without_a_key() {
    let look = |bytes: &[u8]| {
        let found = inspect(Source::bytes(bytes)).unwrap();
        assert_eq!(
            inspect(Source::sequential(Cursor::new(bytes))).unwrap(),
            found
        );
        assert_eq!(found.size, bytes.len() as u64);
        found
    };
    let (bytes, _, envelope) = file(2 * CHUNK + 5);
    let found = look(&bytes);
    let Format::Envelope(wrapped) = found.format else {
        panic!("{:?}", found.format)
    };
    assert_eq!(
        (wrapped.len, wrapped.stanzas),
        (envelope.wrapped().len() as u64, vec![StanzaKind::X25519])
    );
    let stream = found.stream.unwrap();
    assert_eq!(
        (stream.offset, stream.len),
        (envelope.encoded_len(), 56 + 2 * 16400 + 21)
    );
    assert_eq!(
        (stream.chunks, stream.plain_len, stream.length),
        (3, 2 * 16384 + 5, Length::Plausible)
    );

    for (cut, length, chunks, plain_len) in [
        (5 + 16, Length::LastChunkMissing, 2, 2 * 16384),
        (5 + 1, Length::TagCut, 2, 2 * 16384),
        (5, Length::Plausible, 3, 2 * 16384),
        (5 + 16 + 2 * 16400, Length::LastChunkMissing, 0, 0),
        (5 + 16 + 2 * 16400 + 1, Length::HeaderCut, 0, 0),
        (5 + 16 + 2 * 16400 + 56, Length::HeaderCut, 0, 0),
    ] {
        let stream = look(&bytes[..bytes.len() - cut]).stream.unwrap();
        assert_eq!(
            (stream.length, stream.chunks, stream.plain_len),
            (length, chunks, plain_len)
        );
    }
    let found = look(&bytes[envelope.encoded_len() as usize..]);
    assert_eq!(found.format, Format::MaybeStream);
    assert_eq!(found.stream.unwrap().plain_len, 2 * 16384 + 5);

    assert_eq!(look(b"").format, Format::Empty);
    let found = look(b"Salted__and more");
    assert_eq!(
        (found.format, found.stream),
        (Format::Foreign(Foreign::OpenSsl), None)
    );
    assert_eq!(look(&[0x80; 5]).stream.unwrap().length, Length::HeaderCut);
    let no_age = [b"warplock/1\n\0\0\0\x05", &b"hello"[..]].concat();
    assert!(matches!(
        inspect(Source::bytes(&no_age)),
        Err(Error::Keyring(_))
    ));
    assert!(matches!(
        inspect(Source::bytes(&bytes[..30])),
        Err(Error::EnvelopeCut)
    ));
}

#[test]
fn an_envelope_given_as_a_stream_is_recognised() {
    let (bytes, ..) = file(10);
    let error = open(Source::bytes(&bytes), Sink::nowhere(), &key(), &pipeline()).unwrap_err();
    assert!(matches!(
        error,
        Error::NotWarplock {
            looks_like: Some(Foreign::Envelope)
        }
    ));
}
