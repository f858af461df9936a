//! Native recipients (`age1...`), and the table that makes many keys for the same one cheap.
//!
//! Wrapping a key multiplies the recipient's point by a fresh secret. With a table of multiples of
//! that point, as for the base point, this takes a third of the time. The table takes as long as
//! sixty multiplications, so it is made only where many keys are wrapped.

use std::collections::HashSet;
use std::io;

use age::EncryptError;
use age::secrecy::ExposeSecret;
use age_core::format::{FileKey, Stanza};
use age_core::primitives::{aead_encrypt, bech32_decode, hkdf};
use base64::Engine;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use curve25519_dalek::edwards::{EdwardsBasepointTable, EdwardsPoint};
use curve25519_dalek::montgomery::MontgomeryPoint;
use curve25519_dalek::traits::{BasepointTable, IsIdentity};
use zeroize::Zeroizing;

/// A recipient `age1...`.
pub(crate) struct Recipient {
    own: age::x25519::Recipient,
    point: MontgomeryPoint,
    table: Option<Box<EdwardsBasepointTable>>,
}

impl Recipient {
    /// Reads `age1...`: `None` if it is another kind of recipient.
    pub(crate) fn parse(text: &str) -> Option<Result<Self, String>> {
        let own: age::x25519::Recipient = text.parse().ok()?;
        let point = bech32_decode(
            text,
            |_| (),
            |_| Ok(()),
            |_, bytes| Ok(bytes.collect::<Vec<u8>>()),
        );
        let point = MontgomeryPoint(point.ok()?.try_into().ok()?);
        // With such a point every secret gives zero.
        if point.mul_clamped([0; 32]).is_identity() {
            return Some(Err(LOW_ORDER.to_owned()));
        }
        Some(Ok(Recipient {
            own,
            point,
            table: None,
        }))
    }

    /// Makes the table. A point of the curve's twist has none; X25519 allows such points, but no
    /// secret key leads to one.
    pub(crate) fn make_table(&mut self) {
        // Both points with this u have the same multiples, but for the sign.
        let point = self.point.to_edwards(0);
        self.table = point.map(|point| Box::new(EdwardsBasepointTable::create(&point)));
    }
}

/// Why a point is refused.
pub(crate) const LOW_ORDER: &str =
    "anyone could open what is encrypted for this key: its point has a low order";

impl age::Recipient for Recipient {
    fn wrap_file_key(
        &self,
        file_key: &FileKey,
    ) -> Result<(Vec<Stanza>, HashSet<String>), EncryptError> {
        let Some(table) = &self.table else {
            return self.own.wrap_file_key(file_key);
        };
        let mut secret = Zeroizing::new([0; 32]);
        getrandom::fill(&mut secret[..])
            .map_err(|error| EncryptError::Io(io::Error::other(error.to_string())))?;
        let stanza = stanza(&self.point, table, &secret, file_key);
        Ok((vec![stanza], HashSet::new()))
    }
}

/// The stanza `X25519` of <https://c2sp.org/age>, with this ephemeral secret.
fn stanza(
    point: &MontgomeryPoint,
    table: &EdwardsBasepointTable,
    secret: &[u8; 32],
    file_key: &FileKey,
) -> Stanza {
    let share = EdwardsPoint::mul_base_clamped(*secret).to_montgomery();
    let multiple = Zeroizing::new(table.mul_base_clamped(*secret));
    let shared = Zeroizing::new(multiple.to_montgomery());
    let salt = [share.0, point.0].concat();
    let key = Zeroizing::new(hkdf(&salt, b"age-encryption.org/v1/X25519", &shared.0));
    Stanza {
        tag: "X25519".to_owned(),
        args: vec![BASE64_STANDARD_NO_PAD.encode(share.0)],
        body: aead_encrypt(&key, file_key.expose_secret()),
    }
}

#[cfg(test)]
mod tests {
    use age::{Identity, Recipient as _};
    use curve25519_dalek::constants::{EIGHT_TORSION, X25519_BASEPOINT};

    use super::*;

    fn file_key() -> FileKey {
        FileKey::new(Box::new(*b"sixteen bytes..."))
    }

    /// What age's own recipient makes with this ephemeral secret, by multiplications in X25519's
    /// ladder.
    fn expected(point: &MontgomeryPoint, secret: &[u8; 32]) -> Stanza {
        let share = X25519_BASEPOINT.mul_clamped(*secret);
        let shared = point.mul_clamped(*secret);
        let salt = [share.0, point.0].concat();
        let key = hkdf(&salt, b"age-encryption.org/v1/X25519", &shared.0);
        Stanza {
            tag: "X25519".to_owned(),
            args: vec![BASE64_STANDARD_NO_PAD.encode(share.0)],
            body: aead_encrypt(&key, file_key().expose_secret()),
        }
    }

    fn random() -> [u8; 32] {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).unwrap();
        bytes
    }

    fn recipient(u: [u8; 32]) -> Result<Recipient, String> {
        let text = encoded(u);
        Recipient::parse(&text).expect("it has the form of a recipient")
    }

    fn encoded(u: [u8; 32]) -> String {
        // A public key in age has no other constructor than its text.
        let hrp = age_core::primitives::bech32_decode(
            &age::x25519::Identity::generate().to_public().to_string(),
            |_| (),
            |_| Ok(()),
            |hrp, _| Ok(hrp),
        );
        age_core::primitives::bech32_encode(hrp.unwrap(), &u)
    }

    /// Points of the curve, some with a component of low order, and with u beyond the prime or with
    /// its top bit set, which X25519 ignores; and points of the twist.
    #[test]
    fn stanzas_are_those_of_the_ladder() {
        let (mut with_table, mut without) = (0, 0);
        let mut points: Vec<[u8; 32]> = (0..100).map(|_| random()).collect();
        let point = EdwardsPoint::mul_base_clamped(random());
        points.extend(
            EIGHT_TORSION
                .iter()
                .map(|low| (point + low).to_montgomery().0),
        );
        // 9 + p, and 9 with the top bit.
        let beyond: [u8; 32] = std::array::from_fn(|i| match i {
            0 => 0xf6,
            31 => 0x7f,
            _ => 0xff,
        });
        let mut topped = X25519_BASEPOINT.0;
        topped[31] |= 0x80;
        points.extend([X25519_BASEPOINT.0, beyond, topped]);
        for u in points {
            let mut recipient = recipient(u).unwrap();
            assert_eq!(recipient.point.0, u);
            recipient.make_table();
            let Some(table) = &recipient.table else {
                assert!(recipient.point.to_edwards(0).is_none());
                assert_eq!(recipient.wrap_file_key(&file_key()).unwrap().0.len(), 1);
                without += 1;
                continue;
            };
            with_table += 1;
            for secret in [[0; 32], [0xff; 32], random(), random()] {
                let made = stanza(&recipient.point, table, &secret, &file_key());
                assert_eq!(
                    made,
                    expected(&recipient.point, &secret),
                    "{u:x?} {secret:x?}"
                );
            }
        }
        assert!(with_table > 20 && without > 20, "{with_table} {without}");
    }

    #[test]
    fn the_owner_opens_them() {
        let owner = age::x25519::Identity::generate();
        let mut recipient = Recipient::parse(&owner.to_public().to_string())
            .unwrap()
            .unwrap();
        recipient.make_table();
        let [first, second] = [(); 2].map(|()| recipient.wrap_file_key(&file_key()).unwrap());
        assert_ne!(first.0, second.0);
        for (stanzas, labels) in [first, second] {
            assert!(labels.is_empty());
            let opened = owner.unwrap_stanzas(&stanzas).unwrap().unwrap();
            assert_eq!(opened.expose_secret(), file_key().expose_secret());
        }
    }

    /// age 0.12 panics where it should encrypt for one.
    #[test]
    fn points_of_low_order_are_refused() {
        let mut all: Vec<_> = EIGHT_TORSION.map(|low| low.to_montgomery().0).to_vec();
        // 1 and p - 1 (of order 4, the latter on the twist), p and p + 1.
        let near = |low| {
            std::array::from_fn(|i| match i {
                0 => low,
                31 => 0x7f,
                _ => 0xff,
            })
        };
        all.extend([near(0xec), near(0xed), near(0xee)]);
        let mut topped = all.clone();
        topped.iter_mut().for_each(|u| u[31] |= 0x80);
        for u in all.into_iter().chain(topped) {
            assert_eq!(recipient(u).err().as_deref(), Some(LOW_ORDER), "{u:x?}");
        }
    }
}
