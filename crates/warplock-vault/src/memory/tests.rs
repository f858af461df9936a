use std::sync::Barrier;
use std::thread;

use super::*;

const VAULT: Id = [1; 16];
const FOLDER: Id = [2; 16];
const FILE: Id = [3; 16];
const SPOT: Spot = (FOLDER, [4; 16]);

fn open(dir: &Path) -> Memory {
    begin(dir, true).0
}

fn begin(dir: &Path, writes: bool) -> (Memory, bool) {
    let key = Zeroizing::new([5; 32]);
    let (memory, known) = Memory::open(dir, VAULT, &key, writes, false).unwrap();
    memory.begin().unwrap();
    (memory, known)
}

fn close(memory: &Memory) {
    memory.close(|| Ok(())).unwrap();
}

/// The next state of this machine, made from `from`.
fn next(memory: &Memory, from: Option<&State>) -> State {
    let stamp = memory.next_stamp().unwrap();
    let mut vector = from.map(|it| it.vector.clone()).unwrap_or_default();
    vector.include(stamp);
    State {
        stamp,
        tag: [stamp.number as u8; 16],
        vector,
    }
}

fn make(memory: &Memory) -> State {
    let state = next(memory, None);
    let none = Stamp::default();
    memory.note(Kind::File, &FILE, none, &state).unwrap();
    let name = OsStr::new("f");
    memory
        .placed(SPOT, name, Kind::File, &FILE, state.stamp)
        .unwrap();
    state
}

fn change(memory: &Memory, from: &State) -> State {
    let state = next(memory, Some(from));
    memory.note(Kind::File, &FILE, from.stamp, &state).unwrap();
    state
}

fn find(memory: &Memory, state: &State) -> Result<()> {
    let at = Some((SPOT, OsStr::new("f")));
    memory.found(Kind::File, &FILE, state, at, &|| "f".into())
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T>, why: &str) {
    let error = result.unwrap_err().to_string();
    assert!(error.contains(why), "{error}");
}

fn gone(memory: &Memory) -> Result<Option<String>> {
    let gone = memory.found_nothing(&SPOT, &|| "f".into())?;
    Ok(gone.map(|sentence| sentence.shown))
}

#[test]
fn old_states_and_missing_files_show_in_the_next_session() {
    let dir = tempfile::tempdir().unwrap();
    let memory = open(dir.path());
    let one = make(&memory);
    let two = change(&memory, &one);
    find(&memory, &two).unwrap();
    refused(find(&memory, &one), "an old version");
    close(&memory);
    drop(memory);
    let memory = open(dir.path());
    assert!(!memory.crashed());
    find(&memory, &two).unwrap();
    refused(find(&memory, &one), "an old version");
    refused(gone(&memory), "it is missing");
    assert_eq!(memory.entries(&FOLDER).unwrap().len(), 1);
    // Removed, it neither is missing nor comes back, in this session and in the next ones.
    let stamp = memory.next_stamp().unwrap();
    memory.removed(SPOT, Some(&FILE), stamp).unwrap();
    for _ in 0..2 {
        assert_eq!(gone(&memory).unwrap(), None);
        refused(find(&memory, &two), "removed");
    }
    close(&memory);
    drop(memory);
    let memory = open(dir.path());
    assert_eq!(gone(&memory).unwrap(), None);
    refused(find(&memory, &two), "removed it");
    memory.accept(true);
    find(&memory, &two).unwrap();
    memory.accept(false);
    find(&memory, &two).unwrap();
}

/// While the store is synced for what was noted, files and folders are synced on their own.
#[test]
fn what_is_synced_meanwhile_is_the_newest() {
    let dir = tempfile::tempdir().unwrap();
    let memory = open(dir.path());
    let one = make(&memory);
    let mut two = None;
    let sync = || {
        two = Some(change(&memory, &one));
        memory.synced(&FILE);
        let stamp = memory.next_stamp()?;
        memory.removed(SPOT, None, stamp)?;
        memory.folder_synced(&FOLDER);
        memory.make_durable()
    };
    memory.save(sync).unwrap();
    let two = two.unwrap();
    assert_eq!(memory.known(&FILE).unwrap().unwrap().state, two);
    assert!(memory.entries(&FOLDER).unwrap().is_empty());
    change(&memory, &two);
    drop(memory);
    let memory = open(dir.path());
    assert_eq!(memory.known(&FILE).unwrap().unwrap().state, two);
    assert!(memory.entries(&FOLDER).unwrap().is_empty());
}

#[test]
fn what_could_not_be_committed_is_older_than_all_else() {
    let dir = tempfile::tempdir().unwrap();
    let memory = open(dir.path());
    let [one, two] = [(); 2].map(|()| next(&memory, None));
    let batch = |state| {
        let mut batch = record::Batch::default();
        let known = memory.known_now(Kind::File, state);
        batch.objects.insert(FILE, known);
        batch
    };
    let mut pending = Pending::default();
    pending.marked = batch(&two);
    pending.put_back(batch(&one));
    assert!(pending.durable.is_empty());
    let mut pending = Pending::default();
    pending.durable = batch(&two);
    pending.put_back(batch(&one));
    assert_eq!(pending.durable.objects[&FILE].state, two);
}

#[test]
fn after_a_crash_what_was_durable_cannot_go_back() {
    let dir = tempfile::tempdir().unwrap();
    let memory = open(dir.path());
    let one = make(&memory);
    let two = change(&memory, &one);
    // As fsync does; what follows is not synced.
    memory.synced(&FILE);
    memory.make_durable().unwrap();
    let three = change(&memory, &two);
    drop(memory);

    let memory = open(dir.path());
    assert!(memory.crashed());
    refused(find(&memory, &one), "an old version");
    find(&memory, &two).unwrap();
    // What was found once, without the later change, does not get it later.
    refused(find(&memory, &three), "superseded");
    // Numbers of the lost branch are not used again.
    let four = change(&memory, &two);
    assert!(four.stamp.number > three.stamp.number + 60_000);
    close(&memory);
}

#[test]
fn after_a_crash_what_was_not_durable_may_be_there_or_not() {
    let dir = tempfile::tempdir().unwrap();
    let memory = open(dir.path());
    let one = make(&memory);
    memory.synced(&FILE);
    memory.make_durable().unwrap();
    let two = change(&memory, &one);
    drop(memory);
    let memory = open(dir.path());
    find(&memory, &two).unwrap();
    refused(find(&memory, &one), "an old version");
    // What a crash removed is told, once.
    assert!(gone(&memory).is_err(), "it was found right in this session");
    close(&memory);
    drop(memory);

    for (removed, noted) in [(false, false), (true, false), (true, true)] {
        let dir = tempfile::tempdir().unwrap();
        let memory = open(dir.path());
        make(&memory);
        memory.synced(&FILE);
        memory.make_durable().unwrap();
        if removed {
            // Another file.
            let removing = memory.removing().unwrap();
            memory
                .removed((FOLDER, [5; 16]), None, Stamp::default())
                .unwrap();
            drop(removing);
        }
        if noted {
            memory.save(|| Ok(())).unwrap();
        }
        drop(memory);
        let memory = open(dir.path());
        assert!(memory.crashed());
        match removed && !noted {
            true => {
                let told = gone(&memory).unwrap().unwrap();
                assert!(told.contains("is missing"), "{told}");
                assert_eq!(gone(&memory).unwrap(), None);
            }
            // Nothing can have removed it.
            false => refused(gone(&memory), "it is missing"),
        }
    }
}

#[test]
fn a_session_without_notes_excuses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()));
    assert!(!open(dir.path()).crashed());
}

#[test]
fn a_note_waits_for_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let memory = open(dir.path());
    let one = make(&memory);
    memory.save(|| Ok(())).unwrap();
    let two = change(&memory, &one);
    // Another file's fsync, and a sync that fails.
    memory.make_durable().unwrap();
    let full = || Err(rustix::io::Errno::NOSPC.into());
    assert!(memory.save(full).is_err());
    memory.make_durable().unwrap();
    drop(memory);
    let memory = open(dir.path());
    // The store may have lost it in the crash.
    find(&memory, &one).unwrap();
    refused(find(&memory, &two), "superseded");
}

/// With its names, also with those from before it got the newest, but with none that it has left.
#[test]
fn a_file_is_synced_with_its_names() {
    let dir = tempfile::tempdir().unwrap();
    let memory = open(dir.path());
    let one = make(&memory);
    let other = (FOLDER, [5; 16]);
    let name = OsStr::new("g");
    memory
        .placed(other, name, Kind::File, &FILE, one.stamp)
        .unwrap();
    let _removing = memory.removing().unwrap();
    let stamp = memory.next_stamp().unwrap();
    memory.removed(other, None, stamp).unwrap();
    memory.synced(&FILE);
    memory.make_durable().unwrap();
    let durable = |spot| {
        let store = memory.store.as_ref().unwrap();
        store.place(&spot).unwrap()
    };
    assert_eq!(durable(SPOT).unwrap().id, FILE);
    assert_eq!(durable(other), None);
}

#[test]
fn a_removal_waits_for_its_folder() {
    let dir = tempfile::tempdir().unwrap();
    let memory = open(dir.path());
    let one = make(&memory);
    memory.save(|| Ok(())).unwrap();
    let stamp = memory.next_stamp().unwrap();
    memory.removed(SPOT, Some(&FILE), stamp).unwrap();
    memory.make_durable().unwrap();
    drop(memory);
    let memory = open(dir.path());
    find(&memory, &one).unwrap();
    let stamp = memory.next_stamp().unwrap();
    memory.removed(SPOT, Some(&FILE), stamp).unwrap();
    memory.folder_synced(&FOLDER);
    memory.make_durable().unwrap();
    drop(memory);
    // A crash brings back nothing whose removal was durable, also when a session went well since.
    for _ in 0..2 {
        let memory = open(dir.path());
        refused(find(&memory, &one), "removed");
        close(&memory);
    }
}

/// What was taken from a place may be all that a crash leaves of putting something else there.
#[test]
fn what_was_replaced_may_be_missing_after_a_crash() {
    for exchanged in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let memory = open(dir.path());
        make(&memory);
        memory.save(|| Ok(())).unwrap();
        let removing = memory.removing().unwrap();
        if !exchanged {
            let stamp = memory.next_stamp().unwrap();
            memory.removed(SPOT, Some(&FILE), stamp).unwrap();
        }
        let stamp = memory.next_stamp().unwrap();
        let name = OsStr::new("f");
        memory
            .placed(SPOT, name, Kind::File, &[9; 16], stamp)
            .unwrap();
        drop(removing);
        // Another file's fsync.
        memory.make_durable().unwrap();
        drop(memory);
        let memory = open(dir.path());
        let told = gone(&memory).unwrap().unwrap();
        assert!(told.contains("is missing"), "{told}");
    }
}

/// A file whose last change was in its journal is judged by that first, without a place.
#[test]
fn after_a_crash_a_file_has_left_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let memory = open(dir.path());
    let one = make(&memory);
    memory.save(|| Ok(())).unwrap();
    let removing = memory.removing().unwrap();
    // Renamed, and changed again after something else was put in its place.
    let put = next(&memory, Some(&one));
    let two = next(&memory, Some(&put));
    drop(removing);
    drop(memory);
    let memory = open(dir.path());
    let what = || "g".into();
    memory.found(Kind::File, &FILE, &two, None, &what).unwrap();
    let at = Some(((FOLDER, [5; 16]), OsStr::new("g")));
    memory.found(Kind::File, &FILE, &two, at, &what).unwrap();
    let at = Some((SPOT, OsStr::new("f")));
    memory.found(Kind::File, &[9; 16], &put, at, &what).unwrap();
}

#[test]
fn a_file_that_was_given_up_may_have_gone_back() {
    let dir = tempfile::tempdir().unwrap();
    let memory = open(dir.path());
    let one = make(&memory);
    memory.save(|| Ok(())).unwrap();
    let two = change(&memory, &one);
    memory.given_up(&FILE);
    find(&memory, &one).unwrap();
    memory.given_up(&FILE);
    find(&memory, &two).unwrap();
    refused(find(&memory, &one), "an old version");
    close(&memory);
}

#[test]
fn numbers_never_go_down() {
    let dir = tempfile::tempdir().unwrap();
    let memory = open(dir.path());
    let one = make(&memory);
    let two = change(&memory, &one);
    memory.note(Kind::File, &FILE, one.stamp, &two).unwrap();
    let none = Stamp::default();
    refused(memory.note(Kind::File, &FILE, none, &one), "two of it");
    // A higher number does not make it right.
    let three = next(&memory, Some(&one));
    refused(
        memory.note(Kind::File, &FILE, one.stamp, &three),
        "two of it",
    );
    assert_eq!(memory.known(&FILE).unwrap().unwrap().state, two);
}

#[test]
fn two_machines() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (ours, theirs) = (open(here.path()), open(there.path()));
    let one = make(&ours);
    find(&theirs, &one).unwrap();
    assert_eq!((ours.first_seen(), theirs.first_seen()), (0, 1));
    let two = change(&theirs, &one);
    assert!(two.stamp.number > one.stamp.number);
    find(&ours, &two).unwrap();
    // Both change it without the other.
    let three = change(&ours, &two);
    let apart = change(&theirs, &two);
    for (memory, state) in [(&ours, &apart), (&theirs, &three)] {
        refused(find(memory, state), "not in it");
    }
    refused(find(&ours, &one), "an old version");
    // One user decides; the others follow.
    theirs.accept(true);
    find(&theirs, &three).unwrap();
    theirs.accept(false);
    let four = change(&theirs, &three);
    find(&ours, &four).unwrap();
}

#[test]
fn reading_sessions_remember_too() {
    let dir = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let author = open(other.path());
    let one = make(&author);
    let two = change(&author, &one);
    let (reader, known) = begin(dir.path(), false);
    assert!(!known);
    find(&reader, &two).unwrap();
    close(&reader);
    drop(reader);
    let ((one_of_two, known), (two_of_two, _)) =
        (begin(dir.path(), false), begin(dir.path(), false));
    assert!(known);
    for reader in [one_of_two, two_of_two] {
        refused(find(&reader, &one), "an old version");
        close(&reader);
    }
}

#[test]
fn a_full_disk_makes_it_unusable_until_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let memory = open(dir.path());
    let one = make(&memory);
    memory.usable().unwrap();
    // Whatever fails: here, the file in its place is no longer a database of this user.
    let file = dir.path().join(hex(&VAULT)).join("memory.redb");
    let store = memory.store.as_ref().unwrap();
    store.close().unwrap();
    std::fs::rename(&file, dir.path().join("away")).unwrap();
    std::fs::create_dir(&file).unwrap();
    change(&memory, &one);
    memory.synced(&FILE);
    assert!(memory.make_durable().is_err());
    assert!(memory.usable().is_err());
    assert!(memory.close(|| Ok(())).is_err());
    std::fs::remove_dir(&file).unwrap();
    std::fs::rename(dir.path().join("away"), &file).unwrap();
    memory.make_durable().unwrap();
    memory.usable().unwrap();
    close(&memory);
}

#[test]
fn a_memory_from_an_older_copy_shows_by_numbers_it_never_gave_out() {
    let dir = tempfile::tempdir().unwrap();
    let memory = open(dir.path());
    close(&memory);
    drop(memory);
    let file = dir.path().join(hex(&VAULT)).join("memory.redb");
    let copy = std::fs::read(&file).unwrap();
    let mut state = None;
    for _ in 0..3 {
        let memory = open(dir.path());
        // More than one reservation.
        for _ in 0..70_000 {
            state = Some(next(&memory, None));
        }
        close(&memory);
    }
    std::fs::write(&file, copy).unwrap();
    let memory = open(dir.path());
    refused(
        find(&memory, &state.unwrap()),
        "restored from an older copy",
    );
}

#[test]
fn one_commit_serves_all_that_wait() {
    let dir = tempfile::tempdir().unwrap();
    let memory = open(dir.path());
    let start = Barrier::new(8);
    thread::scope(|scope| {
        for thread in 0..8_u8 {
            let (memory, start) = (&memory, &start);
            scope.spawn(move || {
                start.wait();
                for round in 0..20_u8 {
                    let id = [thread, round, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9];
                    let state = next(memory, None);
                    let none = Stamp::default();
                    memory.note(Kind::File, &id, none, &state).unwrap();
                    memory.synced(&id);
                    memory.make_durable().unwrap();
                    let store = memory.store.as_ref().unwrap();
                    assert_eq!(store.object(&id).unwrap().unwrap().state, state);
                }
            });
        }
    });
    close(&memory);
}

#[test]
fn without_a_memory_nothing_is_known() {
    let memory = Memory::none(VAULT).unwrap();
    assert!(!memory.exists());
    let one = make(&memory);
    let two = change(&memory, &one);
    assert!(two.stamp.number > one.stamp.number);
    find(&memory, &one).unwrap();
    assert_eq!(gone(&memory).unwrap(), None);
    memory.make_durable().unwrap();
    close(&memory);
}
