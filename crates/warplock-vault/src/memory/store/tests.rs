use super::*;
use crate::memory::clock::{Stamp, Vector};
use crate::memory::verdict::{Kind, State};

fn open(dir: &std::path::Path, exclusive: bool, key: u8) -> Result<Store> {
    let folder = Folder::open(dir, "v", true)?.unwrap();
    Store::open(folder, exclusive, Zeroizing::new([key; 32]))
}

fn meta() -> Meta {
    Meta {
        vault: [1; 16],
        machine: 2,
        session: 3,
        last: 4,
        reserved: 5,
        others: false,
    }
}

fn known(number: u64) -> Known {
    let stamp = Stamp { number, machine: 2 };
    Known {
        kind: Kind::File,
        state: State {
            stamp,
            tag: [7; 16],
            vector: Vector::of(stamp),
        },
        dead: false,
        place: [6; 16],
        session: 3,
        noted: 8,
    }
}

fn occupant(kind: Option<Kind>) -> Occupant {
    Occupant {
        kind,
        id: [9; 16],
        stamp: Stamp {
            number: 4,
            machine: 2,
        },
        vector: Vector::of(Stamp {
            number: 4,
            machine: 2,
        }),
        session: 3,
        noted: 8,
        stored: b"name".to_vec(),
    }
}

fn batch(number: u64) -> Batch {
    let mut batch = Batch::default();
    batch.objects.insert([9; 16], known(number));
    let spot = ([5; 16], [6; 16]);
    batch.places.insert(spot, occupant(Some(Kind::File)));
    batch
}

#[test]
fn what_was_committed_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), true, 1).unwrap();
    assert_eq!(store.meta().unwrap(), None);
    let crash = Crash {
        session: 3,
        first: 4,
        last: 5,
        removing: true,
    };
    store.set_meta(&meta(), Some(crash)).unwrap();
    store.commit(&batch(4), None).unwrap();
    // Not closed: as after a crash.
    drop(store);
    let store = open(dir.path(), true, 1).unwrap();
    assert_eq!(store.meta().unwrap(), Some(meta()));
    assert_eq!(store.crashes().unwrap(), [crash]);
    assert_eq!(store.object(&[9; 16]).unwrap(), Some(known(4)));
    assert_eq!(store.object(&[8; 16]).unwrap(), None);
    let here = occupant(Some(Kind::File));
    assert_eq!(
        store.place(&([5; 16], [6; 16])).unwrap(),
        Some(here.clone())
    );
    assert_eq!(store.places(&[5; 16]).unwrap(), [([6; 16], here)]);
    assert_eq!(store.places(&[4; 16]).unwrap(), []);
    assert_eq!(store.counts().unwrap(), (1, 1));
    store.close().unwrap();
}

#[test]
fn the_only_machine_forgets_what_it_removed() {
    for (others, crashed, accepted) in [
        (false, false, false),
        (true, false, false),
        (false, true, false),
        (false, false, true),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), true, 1).unwrap();
        let crash = Crash {
            session: 2,
            first: 4,
            last: 5,
            removing: true,
        };
        store.set_meta(&meta(), crashed.then_some(crash)).unwrap();
        let mut batch = batch(4);
        let mut dead = known(5);
        dead.dead = true;
        batch.objects.insert([1; 16], dead.clone());
        dead.session = 2;
        batch.objects.insert([2; 16], dead);
        batch.places.insert(([5; 16], [1; 16]), occupant(None));
        store.commit(&batch, None).unwrap();
        let meta = Meta { others, ..meta() };
        store.end_session(&meta, true, accepted).unwrap();
        assert_eq!(store.crashes().unwrap(), []);
        let forgets = !others && !crashed && !accepted;
        let left = if forgets { (2, 1) } else { (3, 2) };
        assert_eq!(store.counts().unwrap(), left);
        // No more in later sessions.
        let session = meta.session + 1;
        let meta = Meta { session, ..meta };
        store.end_session(&meta, false, false).unwrap();
        assert_eq!(store.counts().unwrap(), left);
    }
}

#[test]
fn another_vaults_memory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), true, 1).unwrap();
    store.set_meta(&meta(), None).unwrap();
    drop(store);
    let error = open(dir.path(), true, 2).unwrap().meta().unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Authentication);
}

#[test]
fn several_read_at_a_time_and_one_writes() {
    let dir = tempfile::tempdir().unwrap();
    let one = open(dir.path(), false, 1).unwrap();
    one.set_meta(&meta(), None).unwrap();
    let two = open(dir.path(), false, 1).unwrap();
    one.commit(&batch(9), None).unwrap();
    // What the other has seen since is not undone.
    two.commit(&batch(4), None).unwrap();
    assert_eq!(two.object(&[9; 16]).unwrap(), Some(known(9)));
    assert_eq!(one.object(&[9; 16]).unwrap(), Some(known(9)));
    let refused = open(dir.path(), true, 1).err().unwrap();
    assert!(refused.to_string().contains("another process uses it"));
    drop((one, two));
    open(dir.path(), true, 1).unwrap();
}

#[test]
fn a_spoilt_database_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), true, 1).unwrap();
    store.set_meta(&meta(), None).unwrap();
    store.commit(&batch(4), None).unwrap();
    store.close().unwrap();
    drop(store);
    let path = dir.path().join("v").join(DATABASE);
    let whole = std::fs::read(&path).unwrap();
    let mut refused = 0;
    for at in (0..whole.len()).step_by(4096) {
        let mut spoilt = whole.clone();
        spoilt[at..][..64.min(whole.len() - at)].fill(0x55);
        std::fs::write(&path, &spoilt).unwrap();
        match open(dir.path(), true, 1) {
            Err(_) => refused += 1,
            // Pages that no tree uses may contain anything.
            Ok(store) => assert_eq!(store.object(&[9; 16]).unwrap(), Some(known(4))),
        }
    }
    assert!(refused > 0);
    std::fs::write(&path, b"this is no database").unwrap();
    assert!(open(dir.path(), true, 1).is_err());
}
