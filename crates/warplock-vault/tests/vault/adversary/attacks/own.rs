//! Attacks on the vault's own files, and invented ones.

use super::*;

impl Attacker<'_> {
    /// The vault's own files.
    pub(super) fn own(&mut self) -> Option<String> {
        let top: Vec<_> = self.disk.objects[&TOP].entries.keys().cloned().collect();
        let claims: Vec<_> = top
            .iter()
            .filter(|name| name.to_string_lossy().starts_with("warplock.machine."))
            .collect();
        let claim = pick(self.rng, &claims).copied().cloned();
        let name = match self.rng.below(8) {
            0 => OsString::from("warplock.vault"),
            1 | 2 => claim?,
            3 => "warplock.dir".into(),
            4 => "warplock.lock".into(),
            5 => "warplock.lost".into(),
            _ => "warplock.journal".into(),
        };
        let old = self.old()?;
        let shown = name.to_string_lossy().into_owned();
        let how = match self.rng.below(5) {
            0 => {
                self.disk.object(TOP).entries.remove(&name);
                "remove"
            }
            1 => {
                let mode = if self.rng.below(2) == 0 {
                    FOLDER | 0o700
                } else {
                    FILE | 0o600
                };
                let new = self.disk.plant(Object::new(mode));
                self.disk.object(TOP).entries.insert(name, new);
                "empty"
            }
            2 => {
                let inode = *self.disk.objects[&TOP].entries.get(&name)?;
                let random = self.rng.below(200) as usize;
                let data = &mut self.disk.object(inode).data;
                let len = data.len();
                *data.get_mut(random % len.max(1))? ^= 1;
                "flip"
            }
            _ => {
                let inode = *old.objects[&TOP].entries.get(&name)?;
                let new = copy(self.disk, old, inode);
                self.disk.object(TOP).entries.insert(name, new);
                "old"
            }
        };
        Some(format!("{how} {shown}"))
    }

    /// Another setting in `warplock.vault`.
    pub(super) fn settings(&mut self) -> Option<String> {
        let name = OsStr::new("warplock.vault");
        let inode = *self.disk.objects[&TOP].entries.get(name)?;
        let data = &mut self.disk.object(inode).data;
        let text = String::from_utf8(data.clone()).ok()?;
        let (old, new) = [
            ("aes-256-gcm", "aes-128-gcm"),
            ("block_size = 4096", "block_size = 16384"),
            ("\nid = \"", "\nid = \"0"),
        ][self.rng.below(3) as usize];
        let at = text.find(old)?;
        *data = text.replacen(old, new, 1).into_bytes();
        if new.ends_with('0') {
            // As long as before.
            data.remove(at + new.len());
            self.refused = text.as_bytes()[at + old.len()] != b'0';
        } else {
            self.refused = true;
        }
        Some(format!("settings: {new:?}"))
    }

    /// Names that were never given, and other forms of names.
    pub(super) fn invent(&mut self) -> Option<String> {
        let entry = self.entry()?;
        let text = entry.name.to_string_lossy().into_owned();
        if text.ends_with(".name") {
            let data = &mut self.disk.object(entry.inode).data;
            data.push(0);
            return Some("lengthen a name's file".into());
        }
        if text.ends_with(".long") && self.rng.below(2) == 0 {
            let beside = beside(&entry.name)?;
            self.disk.object(entry.dir).entries.remove(&beside);
            return Some("remove a long name's file".into());
        }
        let name = match self.rng.below(4) {
            0 => format!("{text}="),
            1 => format!("{text}A"),
            2 => format!("{}-", &text[..text.len() - 1]),
            _ => return self.long_form(&entry),
        };
        self.disk
            .object(entry.dir)
            .entries
            .insert(name.into(), entry.inode);
        if self.rng.below(2) == 0 {
            self.disk.object(entry.dir).entries.remove(&entry.name);
        }
        Some(format!("another form of the name of {}", entry.inode))
    }

    /// A short name in the form of a long one.
    pub(super) fn long_form(&mut self, entry: &Entry) -> Option<String> {
        use base64::Engine;
        use sha2::Digest;
        let base64 = base64::engine::general_purpose::URL_SAFE_NO_PAD;
        let sealed = base64.decode(entry.name.as_encoded_bytes()).ok()?;
        let long = base64.encode(sha2::Sha256::digest(&sealed));
        let mut object = Object::new(FILE | 0o600);
        object.data = sealed;
        let beside = self.disk.plant(object);
        let dir = self.disk.object(entry.dir);
        if self.rng.below(2) == 0 {
            dir.entries.remove(&entry.name);
        }
        dir.entries
            .insert(format!("{long}.long").into(), entry.inode);
        dir.entries.insert(format!("{long}.name").into(), beside);
        Some(format!("the long form of the name of {}", entry.inode))
    }
}
