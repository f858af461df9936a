//! Attacks that share a vault: what its owner does, what is attacked, and what comes of it.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use serde_json::Value;

use super::tree::{Moment, Seen, Shown, Tree, shown};
use super::world::{Attacker, Checked, Memory, Mounted, Places, World, places};
use super::{Attack, DOCUMENT, Kept, NOT_AT_ALL, Promise, WITH_MEMORY, victims};
use crate::vault::can_mount;

/// The states of a vault before it is attacked.
pub(super) struct Story<'a> {
    attacks: &'a [Attack],
    world: World,
    /// What there was after each session, and where it stands in the store.
    old: (Tree, Places),
    now: (Tree, Places),
}

/// Makes all these attacks, and sees what becomes of them.
pub(super) fn run(attacks: &[Attack]) {
    if !can_mount() {
        return;
    }
    let story = Story::new(attacks);
    story.world.check(&[]).nothing();
    for memory in [Memory::On, Memory::Off] {
        story.closed(memory);
        story.mounted(memory, "ask");
    }
    story.mounted(Memory::On, "keep");
}

impl<'a> Story<'a> {
    /// The second session ends well.
    fn new(attacks: &'a [Attack]) -> Self {
        Story::told(attacks, |mounted| drop(mounted.end()))
    }

    /// The second session ends with a crash.
    pub(super) fn crashed(attacks: &'a [Attack]) -> Self {
        Story::told(attacks, |mounted| mounted.crash())
    }

    fn told(attacks: &'a [Attack], end: impl Fn(Mounted<'_>)) -> Self {
        let world = World::new();
        let store = world.store();
        let mut states = Vec::new();
        for session in 0..2 {
            for attack in attacks.iter().filter(|_| session == 1) {
                let (_, first) = &states[0];
                if let Some(between) = attack.between {
                    between(&Attacker {
                        folder: attack.name,
                        now: (store.clone(), first),
                        old: (world.0.path("old"), first),
                    });
                }
            }
            let mounted = world.mount(&[]);
            for attack in attacks {
                let folder = mounted.point.join(attack.name);
                if session == 0 {
                    fs::create_dir(&folder).unwrap();
                    victims(&folder);
                }
                let work = [attack.first, attack.second][session];
                if let Some(work) = work {
                    work(&folder);
                }
            }
            let seen = shown(&mounted.point, []);
            states.push((seen, places(&mounted.point, &store)));
            if session == 1 {
                end(mounted);
            } else {
                mounted.end();
                world.copy("store", "old");
            }
        }
        let wrong = |it: &(&String, &Seen)| it.1.is_err();
        let (now, old) = (states.pop().unwrap(), states.pop().unwrap());
        assert_eq!(now.0.iter().find(wrong), None);
        world.copy("store", "store now");
        world.copy("state", "state now");
        Story {
            attacks,
            world,
            old,
            now,
        }
    }

    /// The vault as its owner left it.
    fn restore(&self) {
        for name in ["store", "state"] {
            self.world.copy(&format!("{name} now"), name);
        }
    }

    fn attack(&self) {
        for attack in self.attacks {
            (attack.attack)(&Attacker {
                folder: attack.name,
                now: (self.world.store(), &self.now.1),
                old: (self.world.0.path("old"), &self.old.1),
            });
        }
    }

    /// What the mount shows, and what it says.
    fn look(&self, memory: Memory) -> (Tree, String) {
        let mounted = self.world.mount_with(memory, &[]);
        let seen = shown(&mounted.point, self.now.0.keys());
        (seen, mounted.end())
    }

    /// Attacks a vault that is closed.
    fn closed(&self, memory: Memory) {
        self.restore();
        self.attack();
        let checked = self.world.check_with(memory, &[]);
        let (seen, said) = self.look(memory);
        self.expect_all(memory, &checked, &seen, &said);
        let any = checked.findings.iter().any(|it| it["class"] == "altered");
        assert_eq!(checked.code, if any { 3 } else { 0 });
        // Being seen does not make something else of an attack.
        let again = self.world.check_with(memory, &[]);
        assert_eq!(again.findings, checked.findings);

        let before = Kept::of(&self.world.store());
        let repaired = self.world.check_with(memory, &["--repair"]);
        assert_eq!(repaired.code, checked.code, "{repaired:#?}");
        let lost = before.lost(&self.world.store());
        assert_eq!(lost, None, "{memory:?} {repaired:#?}");
        let (rest, _) = self.look(memory);
        for (path, seen) in seen.iter().filter(|it| it.1.is_ok()) {
            let kept = rest.get(path) == Some(seen);
            assert!(
                kept || repaired.moved(path),
                "{memory:?} {path} {repaired:#?}"
            );
        }
        for (path, seen) in &rest {
            // An attribute that does not verify was taken away. Of two copies, a repair may leave the
            // old one, unless the memory knows it.
            let is_rest_of = |tree: &Tree| {
                let owned = tree.get(path).and_then(|it| it.as_ref().ok());
                let rest = |owned| seen.as_ref().is_ok_and(|it| it.is_rest_of(owned));
                owned.is_some_and(rest)
            };
            let right = self.is_owned(path, seen, memory)
                || is_rest_of(&self.now.0)
                || memory == Memory::Off && is_rest_of(&self.old.0);
            assert!(right, "{memory:?} {path}");
        }
        // What is gone stays gone, and what was moved away may yet be put back.
        let last = self.world.check_with(memory, &[]);
        let missing = |it: &Value| {
            let said = |part, text| it[part].as_str().unwrap().contains(text);
            it["class"] == "note"
                || said("problem", "it is missing")
                || said("action", "or is in warplock.lost")
        };
        let left: Vec<_> = last.findings.iter().filter(|it| !missing(it)).collect();
        assert!(left.is_empty(), "{memory:?} {left:#?}");
    }

    /// Attacks a vault that was not closed.
    pub(super) fn after_crash(&self, memory: Memory) {
        self.restore();
        self.attack();
        let checked = self.world.check_with(memory, &[]);
        let (seen, said) = self.look(memory);
        self.expect_all(memory, &checked, &seen, &said);
        let repaired = self.world.check_with(memory, &["--repair"]);
        assert_eq!(repaired.code, 3, "{repaired:#?}");
        let (rest, _) = self.look(memory);
        for (path, seen) in &rest {
            assert!(self.is_owned(path, seen, memory), "{memory:?} {path}");
        }
    }

    /// Attacks a vault that is mounted and in use.
    fn mounted(&self, memory: Memory, cache: &str) {
        self.restore();
        let mounted = self.world.mount_with(memory, &["--cache", cache]);
        let before = shown(&mounted.point, []);
        assert!(before == self.now.0);
        let files = open_files(&mounted, &before);
        self.attack();
        if cache == "ask" {
            std::thread::sleep(Duration::from_millis(1200));
        }
        for (path, file, content) in files {
            // Not what the kernel has.
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
            let mut found = vec![0; content.len()];
            if file.read_exact_at(&mut found, 0).is_ok() {
                assert!(found == *content, "{memory:?} {cache} {path}");
            }
        }
        let during = shown(&mounted.point, self.now.0.keys());
        let said = mounted.end();
        let checked = self.world.check_with(memory, &[]);
        let (after, _) = self.look(memory);
        for (path, seen) in during.iter().chain(&after) {
            let case = format!("{memory:?} {cache} {path} {}", brief(seen));
            assert!(self.is_owned(path, seen, memory), "{case}\n{said}");
            let attack = self.attack_on(path);
            if let (Err(_), Some(attack)) = (seen, attack) {
                let folder = format!("/{}", attack.name);
                let passes = matches!(attack.promised(memory), Promise::Passes(_));
                let told = !checked.problems("altered", &folder).is_empty()
                    || said.lines().any(|line| line.contains(&folder));
                assert!(told || passes, "{case}\n{said}\n{checked:#?}");
            }
        }
    }

    /// That what is seen and said of each attack is what is promised.
    fn expect_all(&self, memory: Memory, checked: &Checked, seen: &Tree, said: &str) {
        let mut problems = Vec::new();
        for attack in self.attacks {
            let promise = attack.promised(memory);
            let judged = self
                .expect(attack, memory, seen)
                .and_then(|()| expect_said(attack, promise, checked, said));
            if let Err(problem) = judged {
                problems.push(format!(
                    "{memory:?}: {}: {promise:?}: {problem}",
                    attack.name
                ));
            }
        }
        assert!(problems.is_empty(), "{}\n{said}", problems.join("\n"));
    }

    fn attack_on(&self, path: &str) -> Option<&Attack> {
        let folder = path.split('/').next();
        self.attacks
            .iter()
            .find(|attack| Some(attack.name) == folder)
    }

    /// Whether what is shown is what the owner made, or an error.
    fn is_owned(&self, path: &str, seen: &Seen, memory: Memory) -> bool {
        let promise = self.attack_on(path).map(|attack| attack.promised(memory));
        let passes = matches!(promise, Some(Promise::Passes(_)));
        let owned = |tree: &Tree| tree.get(path) == Some(seen);
        // As it was when it had just been made.
        let now = self.now.0.get(path).and_then(|now| now.as_ref().ok());
        let empty = now.map(Shown::emptied);
        seen.is_err()
            || owned(&self.now.0)
            || passes && (owned(&self.old.0) || seen.as_ref().ok() == empty.as_ref())
    }

    /// That the objects of an attack are shown as promised.
    fn expect(&self, attack: &Attack, memory: Memory, tree: &Tree) -> Result<(), String> {
        let promise = attack.promised(memory);
        let mut hits = Vec::new();
        if let Promise::Noticed { moment, paths, .. } = promise {
            for path in paths {
                let path = format!("{}/{path}", attack.name);
                let number = if moment == Moment::List { 2 } else { 5 };
                let right = match tree.get(&path) {
                    Some(Err(error)) => {
                        let any = !hits.is_empty() || moment == Moment::Use;
                        any || *error == (moment, number)
                    }
                    _ => false,
                };
                if !right {
                    return Err(format!("{path} {:?}", tree.get(&path).map(brief)));
                }
                hits.push(path);
            }
        }
        let top = format!("{}/", attack.name);
        for (path, seen) in tree.iter().filter(|it| it.0.starts_with(&top)) {
            if !self.is_owned(path, seen, memory) {
                return Err(format!("WRONG: {path} {}", brief(seen)));
            }
            let may_fail = match promise {
                Promise::Passes(_) => true,
                Promise::Found { .. } => *seen == Err((Moment::List, 2)),
                _ => hits.iter().any(|hit| path.starts_with(hit)),
            };
            if seen.is_err() && !may_fail {
                return Err(format!("{path} {}", brief(seen)));
            }
        }
        match promise {
            Promise::Passes(line) => expect_listed(line, attack.with_memory),
            _ => Ok(()),
        }
    }
}

/// That the document says what is not noticed at all, or not without the machine's memory.
pub(super) fn expect_listed(line: &str, with_memory: Promise) -> Result<(), String> {
    let part = match with_memory {
        Promise::Passes(_) => NOT_AT_ALL,
        _ => WITH_MEMORY,
    };
    let from = DOCUMENT.find(part).ok_or("the table has no such part")?;
    let mut rows = DOCUMENT[from..]
        .lines()
        .take_while(|row| row.starts_with('|'));
    match rows.any(|row| row.contains(line)) {
        true => Ok(()),
        false => Err(format!("{line}: not in the table")),
    }
}

/// That `check` and the mount say what is promised, with the path.
fn expect_said(
    attack: &Attack,
    promise: Promise,
    checked: &Checked,
    said: &str,
) -> Result<(), String> {
    let folder = format!("/{}", attack.name);
    let found = checked.problems("altered", &folder);
    let right = match promise {
        Promise::Noticed { says, .. } | Promise::Told { says } => {
            let told = |line: &str| line.contains(&folder) && line.contains(says);
            found.iter().any(|it| it.contains(says)) && said.lines().any(told)
        }
        Promise::Found { says } => found.iter().any(|it| it.contains(says)),
        Promise::Harmless => found.is_empty(),
        Promise::Passes(_) => true,
    };
    match right {
        true => Ok(()),
        false => Err(format!("check says {found:#?}")),
    }
}

fn brief(seen: &Seen) -> String {
    match seen {
        Ok(shown) => format!("{} bytes", shown.bytes.len()),
        Err(error) => format!("{error:?}"),
    }
}

/// The files of a mount, open, with their content.
fn open_files<'t>(mounted: &Mounted<'_>, tree: &'t Tree) -> Vec<(&'t str, File, &'t Vec<u8>)> {
    let regular = tree.iter().filter_map(|(path, seen)| {
        let shown = seen.as_ref().ok()?;
        let at = mounted.point.join(path);
        let file = at.symlink_metadata().ok()?.is_file();
        let file = file.then(|| File::open(at).unwrap())?;
        Some((path.as_str(), file, &shown.bytes))
    });
    regular.collect()
}
