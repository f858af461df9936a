use super::*;

const US: u64 = 1;
const THEM: u64 = 2;

fn state(number: u64, machine: u64, from: &[Stamp]) -> State {
    let stamp = Stamp { number, machine };
    let mut vector = Vector::of(stamp);
    from.iter().for_each(|stamp| vector.include(*stamp));
    State {
        stamp,
        tag: [number as u8; 16],
        vector,
    }
}

fn known(state: State, session: u64) -> Known {
    Known {
        kind: Kind::File,
        state,
        dead: false,
        place: [0; 16],
        session,
        noted: 99,
    }
}

fn stamp(number: u64, machine: u64) -> Stamp {
    Stamp { number, machine }
}

/// Session 3 used at most the numbers 100 to 199 and was not closed.
const CRASHES: &[Crash] = &[Crash {
    session: 3,
    first: 100,
    last: 199,
    removing: true,
}];

fn past(crashes: &[Crash]) -> Past<'_> {
    Past {
        machine: US,
        reserved: 1000,
        crashes,
    }
}

#[test]
fn states_of_this_machine() {
    let ours = known(state(120, US, &[]), 3);
    let calm = past(&[]);
    let wrong = Verdict::Wrong;
    assert_eq!(calm.judge(Some(&ours), &ours.state), Verdict::Same);
    let old = state(119, US, &[]);
    assert_eq!(calm.judge(Some(&ours), &old), wrong(Wrong::Old(99)));
    let lost = state(121, US, &[stamp(120, US)]);
    assert_eq!(calm.judge(Some(&ours), &lost), wrong(Wrong::Lost));
    let mut branch = ours.state.clone();
    branch.tag[0] ^= 1;
    assert_eq!(calm.judge(Some(&ours), &branch), wrong(Wrong::Branch));
    let future = state(1001, US, &[]);
    assert_eq!(calm.judge(Some(&ours), &future), wrong(Wrong::MemoryOlder));
    assert_eq!(calm.judge(None, &old), wrong(Wrong::Unknown));
    assert_eq!(calm.judge(None, &state(5, THEM, &[])), Verdict::First);
}

#[test]
fn a_crash_excuses_its_own_numbers_once() {
    let after = past(CRASHES);
    let wrong = Verdict::Wrong;
    let ours = known(state(120, US, &[]), 3);
    let newer = state(121, US, &[]);
    assert_eq!(after.judge(Some(&ours), &newer), Verdict::Crash);
    // Even then going back is wrong, and no other number is excused.
    let old = state(119, US, &[]);
    assert_eq!(after.judge(Some(&ours), &old), wrong(Wrong::Old(99)));
    let later = state(200, US, &[]);
    assert_eq!(after.judge(Some(&ours), &later), wrong(Wrong::Lost));
    // What was found right since is no longer excused.
    assert_eq!(after.judge(Some(&ours), &ours.state), Verdict::Newer);
    let ours = known(ours.state, 4);
    assert_eq!(after.judge(Some(&ours), &newer), wrong(Wrong::Lost));
    // A file that was not noted because of the crash, and one from before it.
    assert_eq!(after.judge(None, &state(150, US, &[])), Verdict::Crash);
    assert_eq!(
        after.judge(None, &state(99, US, &[])),
        wrong(Wrong::Unknown)
    );
}

#[test]
fn what_was_removed_stays_removed() {
    let mut dead = known(state(120, US, &[]), 3);
    dead.dead = true;
    for found in [
        state(110, US, &[]),
        state(150, US, &[]),
        state(300, THEM, &[]),
    ] {
        let verdict = past(CRASHES).judge(Some(&dead), &found);
        assert_eq!(verdict, Verdict::Wrong(Wrong::Removed(99)));
    }
}

#[test]
fn states_of_other_machines() {
    let calm = past(&[]);
    let ours = known(state(120, US, &[stamp(50, THEM)]), 3);
    let wrong = Verdict::Wrong;
    let built_on_ours = state(130, THEM, &[stamp(120, US)]);
    assert_eq!(calm.judge(Some(&ours), &built_on_ours), Verdict::Newer);
    let apart = state(130, THEM, &[stamp(110, US)]);
    assert_eq!(calm.judge(Some(&ours), &apart), wrong(Wrong::Conflict(99)));
    // A lower number is a conflict, too, unless it went into ours.
    let apart = state(60, THEM, &[]);
    assert_eq!(calm.judge(Some(&ours), &apart), wrong(Wrong::Conflict(99)));
    let in_ours = state(50, THEM, &[]);
    assert_eq!(calm.judge(Some(&ours), &in_ours), wrong(Wrong::Old(99)));
    let third = known(built_on_ours, 3);
    let old = state(120, US, &[stamp(50, THEM)]);
    assert_eq!(calm.judge(Some(&third), &old), wrong(Wrong::Old(99)));
}

#[test]
fn places() {
    let id = [7; 16];
    let mut occupant = Occupant {
        kind: Some(Kind::File),
        id,
        stamp: stamp(120, US),
        vector: Vector::default(),
        session: 3,
        noted: 99,
        stored: Vec::new(),
    };
    let found = state(120, US, &[]);
    let (calm, after) = (past(&[]), past(CRASHES));
    let displaced = Verdict::Wrong(Wrong::Displaced(99));
    let judge = |past: &Past<'_>, it: &Occupant, kind, id, found| {
        past.judge_place(it, it.stamp, (kind, &id), found, false)
    };
    assert_eq!(
        judge(&calm, &occupant, Kind::File, id, &found),
        Verdict::Same
    );
    assert_eq!(
        judge(&calm, &occupant, Kind::Symlink, id, &found),
        displaced
    );
    assert_eq!(
        judge(&calm, &occupant, Kind::File, [8; 16], &found),
        displaced
    );
    // Replaced by this machine within the crash, by another one that knew ours, or not.
    let ours = state(130, US, &[]);
    assert_eq!(
        judge(&after, &occupant, Kind::File, [8; 16], &ours),
        Verdict::Newer
    );
    let theirs = state(130, THEM, &[stamp(120, US)]);
    assert_eq!(
        judge(&calm, &occupant, Kind::File, [8; 16], &theirs),
        Verdict::Newer
    );
    let apart = state(130, THEM, &[]);
    assert_eq!(
        judge(&calm, &occupant, Kind::File, [8; 16], &apart),
        displaced
    );
    assert_eq!(
        calm.judge_missing(&occupant),
        Verdict::Wrong(Wrong::Missing(99))
    );
    assert_eq!(after.judge_missing(&occupant), Verdict::Crash);
    occupant.kind = None;
    assert_eq!(calm.judge_missing(&occupant), Verdict::Same);
    assert_eq!(judge(&calm, &occupant, Kind::File, id, &found), displaced);
    // Removed here: what another machine put there later is right, what stood there is not.
    assert_eq!(
        judge(&calm, &occupant, Kind::File, id, &apart),
        Verdict::Newer
    );
    let before = state(119, THEM, &[]);
    assert_eq!(judge(&calm, &occupant, Kind::File, id, &before), displaced);
    occupant.stamp = apart.stamp;
    assert_eq!(judge(&calm, &occupant, Kind::File, id, &apart), displaced);
}

#[test]
fn dates() {
    for (seconds, shown) in [
        (0, "1970-01-01 00:00 UTC"),
        (951_782_399, "2000-02-28 23:59 UTC"),
        (951_782_400, "2000-02-29 00:00 UTC"),
        (1_795_885_500, "2026-11-28 17:05 UTC"),
    ] {
        assert_eq!(date(seconds), shown);
    }
}
