//! Attacks on vaults through real mounts: what `docs/vault-format.md` says of each is what happens.
//!
//! An [`Attack`] has a folder of the vault for itself, so that many of them share a mount. All are
//! made on a closed vault and on one that is mounted, with and without the machine's memory, and
//! whatever an attack is, no mount may show anything but what the owner made, or an error.

mod contents;
mod crashes;
mod history;
mod in_use;
mod kinds;
mod machines;
mod names;
mod own;
mod programs;
mod tree;
mod world;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tree::{Moment, Seen, Shown, Tree, shown};
use world::{Attacker, Checked, LONG, LONG_NAME, Memory, Mounted, Places, SHORT, World, places};

use crate::vault::can_mount;

const DOCUMENT: &str = include_str!("../../../../../docs/vault-format.md");
/// The parts of the table of attacks that begin with these lines.
const WITH_MEMORY: &str = "| **with the machine's memory**";
const NOT_AT_ALL: &str = "| **not at all**";

/// What the owner does in the folder of an attack.
type Work = fn(&Path);
type Attacking = fn(&Attacker<'_>);

/// What becomes of an attack.
#[derive(Clone, Copy, Debug)]
enum Promise {
    /// Using the first of these objects fails at this moment, and using the others fails, too; both
    /// the mount and `check` say this.
    Noticed {
        moment: Moment,
        paths: &'static [&'static str],
        says: &'static str,
    },
    /// What is missing is not shown, and only `check` says something.
    Found { says: &'static str },
    /// All that is shown is right, but both listing the folder and `check` say this.
    Told { says: &'static str },
    /// Nothing changes, and nothing is said.
    Harmless,
    /// What was there after the owner's first session may be shown. The document says so in the
    /// line of its table that contains this.
    Passes(&'static str),
}

struct Attack {
    /// What it is, and the name of its folder.
    name: &'static str,
    /// What the owner does besides making [`victims`], and what in another session.
    first: Option<Work>,
    second: Option<Work>,
    /// What the attacker does between these sessions, and at the end.
    between: Option<Attacking>,
    attack: Attacking,
    with_memory: Promise,
    without: Promise,
}

fn attack(name: &'static str, attack: Attacking) -> Attack {
    Attack {
        name,
        first: None,
        second: None,
        between: None,
        attack,
        with_memory: Promise::Harmless,
        without: Promise::Harmless,
    }
}

impl Attack {
    fn first(mut self, work: Work) -> Self {
        self.first = Some(work);
        self
    }

    fn second(mut self, work: Work) -> Self {
        self.second = Some(work);
        self
    }

    fn between(mut self, attack: Attacking) -> Self {
        self.between = Some(attack);
        self
    }

    fn promise(mut self, promise: Promise) -> Self {
        (self.with_memory, self.without) = (promise, promise);
        self
    }

    fn noticed(self, moment: Moment, paths: &'static [&'static str], says: &'static str) -> Self {
        self.promise(Promise::Noticed {
            moment,
            paths,
            says,
        })
    }

    fn told(self, says: &'static str) -> Self {
        self.promise(Promise::Told { says })
    }

    fn found(self, says: &'static str) -> Self {
        self.promise(Promise::Found { says })
    }

    fn passes(self, line: &'static str) -> Self {
        self.promise(Promise::Passes(line))
    }

    /// Without the machine's memory it passes.
    fn but_alone_passes(mut self, line: &'static str) -> Self {
        self.without = Promise::Passes(line);
        self
    }

    /// Without the machine's memory, this is said.
    fn but_alone(mut self, promise: Promise) -> Self {
        self.without = promise;
        self
    }

    fn promised(&self, memory: Memory) -> Promise {
        match memory {
            Memory::On => self.with_memory,
            Memory::Off => self.without,
        }
    }
}

fn bytes(seed: &str, len: usize) -> Vec<u8> {
    let mut state = seed.bytes().fold(len as u64, |state, byte| {
        (state ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    });
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

fn put(path: &Path, len: usize) {
    fs::write(path, bytes(path.to_str().unwrap(), len)).unwrap();
}

/// What there is to attack in each folder.
fn victims(folder: &Path) {
    use rustix::fs::{CWD, FileType, Mode, XattrFlags, mknodat, setxattr};
    use std::os::unix::fs::symlink;
    for (name, len) in [
        ("long", LONG),
        ("long2", LONG),
        ("short", SHORT),
        ("s2", 99),
        (LONG_NAME, 10),
    ] {
        put(&folder.join(name), len);
    }
    let sparse = File::create(folder.join("sparse")).unwrap();
    let (start, end) = (bytes("start", SHORT), bytes("end", 5000));
    sparse.write_all_at(&start, 0).unwrap();
    sparse.write_all_at(&end, LONG as u64 + 50_000).unwrap();
    for name in ["dir", "dir2"] {
        let path = folder.join(name);
        fs::create_dir(&path).unwrap();
        put(&path.join("inner"), 500);
        symlink(format!("to {name}"), path.join("link")).unwrap();
    }
    for name in ["link", "link2"] {
        symlink(format!("target of {name}"), folder.join(name)).unwrap();
    }
    let fifo = folder.join("fifo");
    mknodat(CWD, fifo, FileType::Fifo, Mode::from_raw_mode(0o640), 0).unwrap();
    for name in ["short", "s2", "dir"] {
        for attribute in ["user.a", "user.b"] {
            let value = format!("{attribute} of {name}");
            let path = folder.join(name);
            setxattr(path, attribute, value.as_bytes(), XattrFlags::empty()).unwrap();
        }
    }
}

/// The states of a vault before it is attacked.
struct Story<'a> {
    attacks: &'a [Attack],
    world: World,
    /// What there was after each session, and where it stands in the store.
    old: (Tree, Places),
    now: (Tree, Places),
}

/// Makes all these attacks, and sees what becomes of them.
fn run(attacks: &[Attack]) {
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
    fn crashed(attacks: &'a [Attack]) -> Self {
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

        let before = objects(&self.world.store());
        let repaired = self.world.check_with(memory, &["--repair"]);
        assert_eq!(repaired.code, checked.code, "{repaired:#?}");
        let after = objects(&self.world.store());
        for (inode, (path, content)) in before {
            let kept = after.get(&inode).is_some_and(|it| it.1 == content);
            assert!(kept, "{memory:?} {path} {repaired:#?}");
        }
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
            let rest = |owned: &Shown| seen.as_ref().is_ok_and(|it| it.is_rest_of(owned));
            let owned = self.now.0.get(path).and_then(|it| it.as_ref().ok());
            let old = memory == Memory::Off && self.old.0.get(path) == Some(seen);
            let right = self.is_owned(path, seen, memory) || owned.is_some_and(rest) || old;
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
    fn after_crash(&self, memory: Memory) {
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
                    Some(Err(error)) => !hits.is_empty() || *error == (moment, number),
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
fn expect_listed(line: &str, with_memory: Promise) -> Result<(), String> {
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

/// The files in a store that hold something, by their inode numbers.
fn objects(store: &Path) -> BTreeMap<u64, (String, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![store.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let status = path.symlink_metadata().unwrap();
            if status.is_dir() {
                folders.push(path);
            } else if status.is_file() && status.len() > 0 {
                let name = path.display().to_string();
                let own = ["warplock.lock", "warplock.machine"];
                if !own.iter().any(|own| name.contains(own)) {
                    found.insert(status.ino(), (name, fs::read(&path).unwrap()));
                }
            }
        }
    }
    found
}
