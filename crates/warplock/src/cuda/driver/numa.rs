//! The cores near a GPU: on machines with several NUMA nodes, copies by cores of another node, and
//! memory there, are slower. Known on Linux only.

#[cfg(target_os = "linux")]
pub(crate) use linux::Cores;
#[cfg(not(target_os = "linux"))]
pub(crate) use unknown::Cores;

/// Where the system does not tell which cores are near a GPU.
#[cfg(not(target_os = "linux"))]
mod unknown {
    /// There is no value of this type.
    #[derive(Clone, Copy)]
    pub(crate) enum Cores {}

    impl Cores {
        pub(crate) fn near(_: &str) -> Option<Self> {
            None
        }

        pub(crate) fn pin_thread(&self) {
            match *self {}
        }
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;

    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    /// The cores near a GPU, if they are known and there are others.
    #[derive(Clone, Copy)]
    pub(crate) struct Cores(CpuSet);

    impl Cores {
        /// The cores near the PCI device with this address, such as `0000:1b:00.0`; none if that is
        /// every core that this thread may use, or if nothing is known.
        pub(crate) fn near(address: &str) -> Option<Self> {
            let path = format!("/sys/bus/pci/devices/{}", address.to_ascii_lowercase());
            let list = fs::read_to_string(format!("{path}/local_cpulist")).ok()?;
            let allowed = sched_getaffinity(None).ok()?;
            Cores::among(&list, &allowed)
        }

        /// The listed cores that are allowed; none if these are all or no cores.
        fn among(list: &str, allowed: &CpuSet) -> Option<Self> {
            let mut near = CpuSet::new();
            for core in cores(list)? {
                if core < CpuSet::MAX_CPU && allowed.is_set(core) {
                    near.set(core);
                }
            }
            let some = near.count() > 0 && near.count() < allowed.count();
            some.then_some(Cores(near))
        }

        /// Keeps the calling thread on these cores. If the system refuses, it stays where it is.
        pub(crate) fn pin_thread(&self) {
            let _ = sched_setaffinity(None, &self.0);
        }
    }

    /// The numbers of a list such as `0-3,8,10-11`; none if it is something else.
    fn cores(list: &str) -> Option<Vec<usize>> {
        let mut cores = Vec::new();
        for range in list.trim().split(',').filter(|range| !range.is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
            cores.extend((first..=last).take(CpuSet::MAX_CPU));
        }
        Some(cores)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn lists_of_cores_are_parsed() {
            assert_eq!(cores("0-3,8,10-11\n"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
            assert_eq!(cores(""), Some(vec![]));
            assert_eq!(cores("0-x"), None);
            assert_eq!(
                cores("0-99999999999").map(|cores| cores.len()),
                Some(CpuSet::MAX_CPU)
            );
        }

        #[test]
        fn cores_are_listed_only_if_there_are_others() {
            let mut allowed = CpuSet::new();
            (0..4).for_each(|core| allowed.set(core));
            let near = |list| Cores::among(list, &allowed).map(|near| near.0.count());
            assert_eq!(near("2-7"), Some(2));
            assert_eq!(near("0-63"), None);
            assert_eq!(near("8-15"), None);
            assert_eq!(near("nonsense"), None);
            assert!(Cores::near("no such device").is_none());
        }
    }
}
