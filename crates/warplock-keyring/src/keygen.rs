//! New age identities, written as `age-keygen` writes them.

use std::time::{SystemTime, UNIX_EPOCH};

use age::secrecy::ExposeSecret;
use zeroize::Zeroizing;

/// A new X25519 identity: a secret to keep and a recipient to hand out.
pub struct NewIdentity {
    identity: age::x25519::Identity,
    created: SystemTime,
}

impl NewIdentity {
    /// Makes a new identity from the operating system's random number generator.
    pub fn generate() -> Self {
        Self {
            identity: age::x25519::Identity::generate(),
            created: SystemTime::now(),
        }
    }

    /// The public half, `age1...`: what others encrypt for.
    pub fn recipient(&self) -> String {
        self.identity.to_public().to_string()
    }

    /// The text of an identity file with two comment lines (creation time in UTC, the
    /// recipient) and the secret. Write it with
    /// [`write_secret_file`](crate::write_secret_file).
    pub fn file_text(&self) -> Zeroizing<String> {
        let secret = self.identity.to_string();
        let (created, recipient) = (rfc3339(self.created), self.recipient());
        // The exact size, so that no copy of the secret is left by a growing buffer.
        let parts = [
            "# created: ",
            &created,
            "\n# public key: ",
            &recipient,
            "\n",
            secret.expose_secret(),
            "\n",
        ];
        let mut text = Zeroizing::new(String::with_capacity(parts.iter().map(|p| p.len()).sum()));
        for part in parts {
            text.push_str(part);
        }
        text
    }
}

impl std::fmt::Debug for NewIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewIdentity")
            .field("recipient", &self.recipient())
            .finish_non_exhaustive()
    }
}

/// `2026-07-01T12:00:00Z` (RFC 3339, UTC, whole seconds).
fn rfc3339(time: SystemTime) -> String {
    let seconds = time
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let (mut days, second) = (seconds / 86_400, seconds % 86_400);
    let mut year = 1970;
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if days < length {
            break;
        }
        days -= length;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!(
        "{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{:02}Z",
        days + 1,
        second % 60
    )
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times() {
        // Expected values from `date -u -d @SECONDS +%FT%TZ`.
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"), // leap day of a year divisible by 400
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"), // last second of a leap year
            (4_107_542_400, "2100-03-01T00:00:00Z"), // no leap day in 2100
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn the_file_looks_as_age_keygen_writes_it() {
        let identity = NewIdentity::generate();
        let text = identity.file_text();
        let lines: Vec<_> = text.split('\n').collect();
        assert!(lines[0].starts_with("# created: 20") && lines[0].ends_with('Z'));
        assert_eq!(lines[1], format!("# public key: {}", identity.recipient()));
        assert!(lines[2].starts_with("AGE-SECRET-KEY-1") && lines[2].len() == 74);
        assert_eq!(lines[3..], [""]);
        assert!(!format!("{identity:?}").contains("SECRET"));
    }
}
