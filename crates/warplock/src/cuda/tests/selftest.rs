//! The known-answer tests: they cover every kernel that jobs take, and a kernel that does nothing
//! does not pass.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;

use super::fake::FakeLink;
use crate::cuda::driver::api::Failure;
use crate::cuda::host::copy::Copier;
use crate::cuda::host::ring::Ring;
use crate::cuda::host::slot::RingGpu;
use crate::cuda::launch::policy::Policy;
use crate::cuda::launch::selftest::{Case, Shape, Tested};
use crate::job::Job;
use crate::{Algorithm, Batch, Direction, Ivs, Key, Keys, Mode, Text};

/// The kernels that are tested before a job's first run.
pub(super) fn kernels_tested_for(job: &Job<'_>, policy: &Policy) -> BTreeSet<String> {
    let cases = Case::of(job, policy);
    cases.into_iter().flat_map(Case::kernels).collect()
}

fn gpu() -> Arc<RingGpu<FakeLink>> {
    Arc::new(RingGpu {
        link: FakeLink::new(7, None, Default::default()),
        policy: Policy::DEFAULT,
        copier: Copier::new(NonZeroUsize::MIN, None),
    })
}

fn run(gpu: &Arc<RingGpu<FakeLink>>, job: &Job<'_>) -> Result<Vec<usize>, Failure> {
    let room = gpu.policy.room(job.text_bytes());
    // SAFETY: nothing else uses what the cases' jobs borrow.
    unsafe { Ring::new(gpu).run(job, room) }
}

/// Whether a case passes on the fake device.
fn passes(case: Case, gpu: &Arc<RingGpu<FakeLink>>) -> bool {
    case.passes(|job| run(gpu, job)).unwrap()
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for algorithm in Algorithm::all() {
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            let shapes: &[Shape] = match (algorithm.info().mode, direction) {
                (Mode::Ecb, Direction::Encrypt) => &[Shape::One, Shape::Table, Shape::Blocks],
                (Mode::Cbc, Direction::Encrypt) => {
                    &[Shape::One, Shape::Table, Shape::Many, Shape::ManyTable]
                }
                (Mode::Gcm, _) => &[
                    Shape::One,
                    Shape::Long,
                    Shape::Plain,
                    Shape::Table,
                    Shape::Small,
                ],
                _ => &[Shape::One, Shape::Table],
            };
            cases.extend(shapes.iter().map(|&shape| Case {
                algorithm,
                direction,
                shape,
            }));
        }
    }
    cases
}

#[test]
fn each_case_runs_the_kernels_it_names_and_passes() {
    for case in cases() {
        let gpu = gpu();
        assert!(passes(case, &gpu), "{case:?}");
        let named: BTreeSet<String> = case.kernels().into_iter().collect();
        assert_eq!(gpu.link.launched(), named, "{case:?}");
    }
}

#[test]
fn a_kernel_that_does_nothing_does_not_pass() {
    for case in cases() {
        for kernel in case.kernels() {
            // The fake device's decryption needs none of what this kernel saves.
            if kernel == "cbc_save" {
                continue;
            }
            let gpu = gpu();
            gpu.link.break_kernel(&kernel);
            assert!(!passes(case, &gpu), "{case:?} without {kernel}");
        }
    }
}

#[test]
fn a_device_with_a_wrong_answer_is_not_used() {
    let gpu = gpu();
    let tested = Tested::default();
    let key = Key::new(Algorithm::Aes128Ctr, &[1; 16]).unwrap();
    let mut text = [0; 40];
    let mut runs = 0;
    let mut ensure = |runs: &mut u32| {
        let batch = Batch::encrypt(Keys::One(&key), Text::in_place(&mut text));
        let job = Job::new(batch.ivs(Ivs::Each(&[3; 16]))).unwrap();
        tested.ensure(&job, &Policy::DEFAULT, |job| {
            *runs += 1;
            run(&gpu, job)
        })
    };
    ensure(&mut runs).unwrap();
    ensure(&mut runs).unwrap();
    assert_eq!(runs, 1, "a test runs once");

    let tested = Tested::default();
    gpu.link.break_kernel("ctr_128");
    let mut refuse = || {
        let mut text = [0; 40];
        let batch = Batch::encrypt(Keys::One(&key), Text::in_place(&mut text));
        let job = Job::new(batch.ivs(Ivs::Each(&[3; 16]))).unwrap();
        tested.ensure(&job, &Policy::DEFAULT, |job| {
            runs += 1;
            run(&gpu, job)
        })
    };
    let why = refuse().unwrap_err();
    assert!(why.starts_with("ctr_128: wrong answer"), "{why}");
    assert_eq!(refuse().unwrap_err(), why);
    assert_eq!(runs, 2, "a broken device is not asked again");
}

#[test]
fn a_failed_call_is_distinguished_from_a_wrong_answer() {
    let gpu = Arc::new(RingGpu {
        link: FakeLink::new(7, Some(5), Default::default()),
        policy: Policy::DEFAULT,
        copier: Copier::new(NonZeroUsize::MIN, None),
    });
    let case = cases()[0];
    assert!(case.passes(|job| run(&gpu, job)).is_err());
}
