//! Judging what was found in the store, and remembering what is new.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::sync::atomic::Ordering;

use super::Memory;
use super::clock::{Stamp, Vector};
use super::pending::Pending;
use super::record::Spot;
use super::verdict::{Crash, Kind, Occupant, Past, State, Verdict, date};
use crate::core::lock;
use crate::error::{Error, Result, Subject};
use crate::format::keys::Id;
use crate::format::names::Place;

impl Memory {
    /// Judges an object's state that was found in the store, at a spot if that is known; what is
    /// new is remembered. `what` is what errors call it.
    ///
    /// # Errors
    /// [`Error::Altered`] if it cannot be right.
    pub(crate) fn found(
        &self,
        kind: Kind,
        id: &Id,
        state: &State,
        at: Option<(Spot, &OsStr)>,
        what: &dyn Fn() -> Subject,
    ) -> Result<()> {
        if self.store.is_none() {
            self.clock.observe(state.stamp.number);
            return Ok(());
        }
        let mut pending = lock(&self.pending);
        let occupant = match &at {
            Some((spot, _)) => self.place_in(&pending, spot)?,
            None => None,
        };
        let stands = |kind| occupant.as_ref().is_some_and(|it| it.kind == Some(kind));
        let known = match kind {
            // An earlier symlink at this place had the same id, but was another object.
            Kind::Symlink if !stands(Kind::Symlink) => None,
            _ => self.known_in(&pending, id)?,
        };
        let mut crashes = self.crashes().to_vec();
        if pending.given_up.contains(id) {
            crashes.push(Crash {
                session: self.session,
                first: self.first,
                last: self.clock.reserved(),
                removing: false,
            });
        }
        let past = self.past(&crashes);
        let judged = past.judge(known.as_ref(), state);
        let mut now = self.known_now(kind, state);
        if let Some(known) = &known {
            now.place = known.place;
            if matches!(judged, Verdict::Wrong(_)) || known.state.stamp == state.stamp {
                // If it is accepted, or was, the next state includes what was known, too.
                now.state.vector.join(&known.state.vector);
            }
        }
        let mut verdict = self.unless_accepted(judged, what)?;
        let ours = state.stamp.machine == self.clock.machine;
        if verdict == Verdict::First {
            self.first_seen.fetch_add(1, Ordering::Relaxed);
        }
        if let Some((spot, stored)) = at {
            let at = (spot, occupant, stored);
            let (spot_verdict, replaced) =
                self.judge_spot(&mut pending, &past, (kind, id), state, at, what)?;
            if let Some(standing) = replaced {
                now.state.vector.join(&standing);
            }
            // Its place, at least, is noted.
            if verdict == Verdict::Same {
                verdict = spot_verdict;
            }
            now.place = spot.1;
        }
        if !ours && state.stamp.number > 0 {
            self.clock.observe(state.stamp.number);
            self.others.store(true, Ordering::Relaxed);
        }
        if verdict != Verdict::Same {
            pending.written.dead.remove(id);
            pending.written.objects.insert(*id, now);
        }
        Ok(())
    }

    /// Whether an object is known to stand at a spot, and was found there since the last crash in
    /// the state with this stamp.
    pub(crate) fn knows(&self, spot: &Spot, kind: Kind, id: &Id, stamp: Stamp) -> Result<bool> {
        let pending = lock(&self.pending);
        let Some(occupant) = self.place_in(&pending, spot)? else {
            return Ok(self.store.is_none());
        };
        let judged = self.past(self.crashes()).judge_same(&occupant, (kind, id));
        Ok(judged == Some(Verdict::Same) && !self.needs_note(&pending, &occupant, spot, stamp)?)
    }

    /// Whether a spot must be noted again with the state in which its occupant was found: the
    /// occupant's own record covers only the place that it names, and only until it is found
    /// elsewhere. Changes by this machine alone put nothing else there in between.
    fn needs_note(
        &self,
        pending: &Pending,
        occupant: &Occupant,
        spot: &Spot,
        stamp: Stamp,
    ) -> Result<bool> {
        if occupant.stamp == stamp {
            return Ok(false);
        }
        let ours = stamp.machine == self.clock.machine;
        let known = self.known_in(pending, &occupant.id)?;
        Ok(!ours || known.is_none_or(|it| it.place != spot.1))
    }

    /// Judges that an object, whose state was found right, stands at one more spot.
    ///
    /// # Errors
    /// [`Error::Altered`] if it cannot be right.
    pub(crate) fn found_at(
        &self,
        kind: Kind,
        id: &Id,
        state: &State,
        (spot, stored): (Spot, &OsStr),
        what: &dyn Fn() -> Subject,
    ) -> Result<()> {
        if self.store.is_none() {
            return Ok(());
        }
        let mut pending = lock(&self.pending);
        let at = (spot, self.place_in(&pending, &spot)?, stored);
        let past = self.past(self.crashes());
        self.judge_spot(&mut pending, &past, (kind, id), state, at, what)?;
        Ok(())
    }

    /// Judges that an object stands at a spot where another may be known, and notes it; if that is
    /// wrong and was accepted, also returns what is known to have gone into what stood there.
    fn judge_spot(
        &self,
        pending: &mut Pending,
        past: &Past<'_>,
        (kind, id): (Kind, &Id),
        state: &State,
        (spot, occupant, stored): (Spot, Option<Occupant>, &OsStr),
        what: &dyn Fn() -> Subject,
    ) -> Result<(Verdict, Option<Vector>)> {
        let judged = match &occupant {
            Some(occupant) => {
                let stood = self.newest_at(pending, occupant, &spot)?;
                // Looked up only where it matters: under a name that was removed.
                let known = match occupant.kind {
                    None => self.known_in(pending, id)?,
                    Some(_) => None,
                };
                let newest = known.is_some_and(|it| {
                    !it.dead && it.state.stamp == state.stamp && !past.crashed_since(it.session)
                });
                past.judge_place(occupant, stood, (kind, id), state, newest)
            }
            None => Verdict::First,
        };
        let standing = match judged {
            Verdict::Wrong(_) => Some(self.standing_in(pending, &spot)?),
            _ => None,
        };
        let mut verdict = self.unless_accepted(judged, what)?;
        if verdict == Verdict::Same
            && let Some(occupant) = &occupant
            && self.needs_note(pending, occupant, &spot, state.stamp)?
        {
            verdict = Verdict::Newer;
        }
        if verdict != Verdict::Same {
            let occupant = self.occupant(Some(kind), id, state.stamp, stored);
            let folder = pending.written.folders.entry(spot.0).or_default();
            folder.insert(spot.1, occupant);
        }
        Ok((verdict, standing))
    }

    /// The newest state that is known of what stands at a spot.
    fn newest_at(&self, pending: &Pending, occupant: &Occupant, spot: &Spot) -> Result<Stamp> {
        let known = match occupant.kind {
            Some(_) => self.known_in(pending, &occupant.id)?,
            None => None,
        };
        // If it was found elsewhere since, it has left this place.
        let here = known.filter(|it| it.place == spot.1);
        Ok(here.map_or(occupant.stamp, |it| it.state.stamp))
    }

    /// All that is known to have gone into what stands at a spot, or stood there.
    pub(super) fn standing_in(&self, pending: &Pending, spot: &Spot) -> Result<Vector> {
        let Some(occupant) = self.place_in(pending, spot)? else {
            return Ok(Vector::default());
        };
        let mut vector = occupant.vector;
        vector.include(occupant.stamp);
        if occupant.kind.is_some()
            && let Some(known) = self.known_in(pending, &occupant.id)?
        {
            vector.join(&known.state.vector);
        }
        Ok(vector)
    }

    fn past<'a>(&self, crashes: &'a [Crash]) -> Past<'a> {
        Past {
            machine: self.clock.machine,
            reserved: self.clock.reserved(),
            crashes,
        }
    }

    fn unless_accepted(&self, verdict: Verdict, what: &dyn Fn() -> Subject) -> Result<Verdict> {
        match verdict {
            Verdict::Wrong(_) if self.accepting.load(Ordering::Relaxed) => {
                self.accepted.store(true, Ordering::Relaxed);
                Ok(Verdict::Newer)
            }
            Verdict::Wrong(wrong) => Err(Error::altered(what(), wrong.to_string())),
            right => Ok(right),
        }
    }

    /// Judges that nothing stands at a spot; returns a sentence for the user if a crash may have
    /// removed what did.
    ///
    /// # Errors
    /// [`Error::Altered`] if something is missing.
    pub(crate) fn found_nothing(
        &self,
        spot: &Spot,
        what: &dyn Fn() -> Subject,
    ) -> Result<Option<Subject>> {
        let occupant = self.place_in(&lock(&self.pending), spot)?;
        let Some(occupant) = occupant else {
            return Ok(None);
        };
        let verdict = self.past(self.crashes()).judge_missing(&occupant);
        if verdict == Verdict::Same {
            return Ok(None);
        }
        let crash = verdict == Verdict::Crash;
        self.unless_accepted(verdict, what)?;
        // Told once.
        let stood = self.newest_at(&lock(&self.pending), &occupant, spot)?;
        self.removed(*spot, None, stood)?;
        Ok(crash.then(|| {
            what().part(|name| {
                format!(
                    "{name} is missing: it was there on {}; the vault was not closed properly \
                     since, so it may have been removed in the last seconds before that, or else \
                     directly in the store",
                    date(occupant.noted)
                )
            })
        }))
    }

    /// Whether anything is known to stand at a spot.
    pub(crate) fn stands(&self, spot: &Spot) -> Result<bool> {
        let occupant = self.place_in(&lock(&self.pending), spot)?;
        Ok(occupant.is_some_and(|it| it.kind.is_some()))
    }

    /// Whether anything is known to stand at a spot, or to have stood there.
    pub(crate) fn remembers(&self, spot: &Spot) -> Result<bool> {
        Ok(self.place_in(&lock(&self.pending), spot)?.is_some())
    }

    /// The id of what is known to stand at a spot.
    pub(crate) fn occupant_id(&self, spot: &Spot) -> Result<Option<Id>> {
        let occupant = self.place_in(&lock(&self.pending), spot)?;
        Ok(occupant.filter(|it| it.kind.is_some()).map(|it| it.id))
    }

    /// What is known to stand in a folder: places, and names in the store.
    pub(crate) fn entries(&self, folder: &Id) -> Result<Vec<(Place, OsString)>> {
        let Some(store) = &self.store else {
            return Ok(Vec::new());
        };
        let pending = lock(&self.pending);
        let mut entries: HashMap<_, _> = store.places(folder)?.into_iter().collect();
        for batch in [&*pending.committing, &pending.durable, &pending.marked] {
            let here = batch.places.iter().filter(|(spot, _)| spot.0 == *folder);
            entries.extend(here.map(|(spot, it)| (spot.1, it.clone())));
        }
        if let Some(written) = pending.written.folders.get(folder) {
            entries.extend(written.iter().map(|(place, it)| (*place, it.clone())));
        }
        entries.retain(|_, occupant| occupant.kind.is_some());
        let name = |it: Occupant| OsString::from_vec(it.stored);
        let entries = entries.into_iter();
        Ok(entries.map(|(place, it)| (place, name(it))).collect())
    }
}
