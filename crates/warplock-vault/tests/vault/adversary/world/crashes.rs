//! Crashes, and what is there after them.

use super::*;

impl World<'_> {
    /// What a power failure leaves.
    pub(super) fn crash(
        &mut self,
        vault: Vault<Mem>,
        floors: Floors,
        taken: &std::sync::Mutex<Option<Vec<u8>>>,
    ) {
        let image = {
            let mut disk = self.mem.disk();
            disk.image_in = None;
            disk.image.take()
        };
        let (image, memory) = match image {
            Some(image) => {
                self.model.floors = floors;
                (*image, taken.lock().unwrap().take())
            }
            None => {
                let moment = self.moment();
                (moment.disk, moment.memory)
            }
        };
        drop(vault);
        let cut = image.log.len();
        let mut disk = match self.rng.below(3) {
            // Only the machine stopped.
            0 => image.clone(),
            _ => self.before.crash(&image.log, cut, &mut self.rng),
        };
        self.trace.push(format!("crash after {cut} changes"));
        disk.log.clear();
        disk.image_in = None;
        self.restore(&Moment { disk, memory });
        // What was made before a snapshot took it back has numbers that this crash excuses.
        self.abandoned.clear();
        self.crashed = true;
    }

    /// After a crash without an attack: no alarm, and the store is accepted as it is.
    pub(super) fn recover(&mut self) -> Judged {
        self.trace.push("recover".into());
        let told = Told::default();
        let vault = self.try_open(&told, false)?;
        let mut view = View::default();
        view.walk(&vault, &self.model, Window::Crash);
        let ask = Ask {
            window: Window::Crash,
            may_miss: false,
            xattrs: false,
            honest: !self.tainted,
        };
        view.check(&vault, true);
        view.hear(&told);
        self.judge(&view, &ask)?;
        vault.close().map_err(|error| error.to_string())?;
        drop(vault);
        // Again, as what was repaired is different.
        let told = Told::default();
        let vault = self.try_open(&told, false)?;
        let mut view = View::default();
        view.walk(&vault, &self.model, Window::Crash);
        view.check(&vault, false);
        view.hear(&told);
        if !self.tainted && !view.is_readable() {
            self.trace.extend(view.describe());
            return Err("a repaired vault cannot be read".into());
        }
        let crash = view.findings.iter().find(|it| it.class != Class::Note);
        if let Some(finding) = crash.filter(|_| !self.tainted) {
            return Err(format!("a repaired vault is not clean: {finding:?}"));
        }
        vault.close().map_err(|error| error.to_string())?;
        self.rebase(&view);
        self.crashed = false;
        Ok(())
    }

    /// The model becomes what is seen.
    fn rebase(&mut self, view: &View) {
        let old = self.model.clone();
        self.model.clear();
        let mut nodes: Vec<(u64, Obj)> = Vec::new();
        let mut folders: Vec<(Vec<String>, Obj)> = vec![(Vec::new(), TOP)];
        for item in &view.items {
            let Seen::Thing(thing) = &item.seen else {
                continue;
            };
            let (name, above) = item.path.split_last().expect("it has a name");
            let parent = folders.iter().find(|(path, _)| path == above);
            let Some((_, parent)) = parent else {
                continue;
            };
            let known = nodes
                .iter()
                .find(|(node, _)| *node == thing.node())
                .copied();
            let is_new = known.is_none();
            let obj = match known {
                Some((_, obj)) => obj,
                None => {
                    let was = old.occupants(&item.parents, name, Window::Crash);
                    let was = was.into_iter().flatten().collect();
                    let obj = self.model.add(thing.kind, thing.bytes.clone(), was);
                    nodes.push((thing.node(), obj));
                    obj
                }
            };
            if is_new {
                self.model.set_mode(obj, thing.mode);
            }
            for (name, value) in thing.xattrs.iter().flatten() {
                self.model.set_xattr(obj, name, Some(value.clone()));
            }
            self.model.bind(*parent, name, Some(obj));
            if thing.kind == Kind::Folder {
                folders.push((item.path.clone(), obj));
            }
        }
        self.model.synced_all();
    }
}
