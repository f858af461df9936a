//! Stands in for GPUs in builds without the feature `cuda`: there are none.

use std::num::NonZeroUsize;
use std::sync::Arc;

use crate::auto::Helper;
use crate::{BackendChoice, Error};

pub(crate) fn open(number: Option<u32>, _threads: NonZeroUsize) -> Result<Arc<dyn Helper>, Error> {
    Err(no_support(number))
}

pub(crate) fn all(_threads: NonZeroUsize) -> (Vec<Arc<dyn Helper>>, Vec<String>) {
    (Vec::new(), Vec::new())
}

/// Pinned memory for measurements.
pub(crate) fn pinned(_len: usize) -> Result<Vec<u8>, Error> {
    Err(no_support(None))
}

fn no_support(number: Option<u32>) -> Error {
    Error::NoBackend {
        name: BackendChoice::Cuda(number).to_string(),
        reason: "this program was built without GPU support (the feature `cuda` of the crate \
                 warplock); use cpu"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Engine;

    #[test]
    fn a_gpu_is_refused_by_the_reason_that_the_build_has_none() {
        for name in ["cuda", "cuda:1", "cuda:0,1"] {
            let refused = Engine::builder().backend(name.parse().unwrap()).build();
            let sentence = refused.err().unwrap().to_string();
            assert!(sentence.contains("built without GPU support"), "{sentence}");
        }
        let engine = Engine::builder().backend(BackendChoice::Auto).build();
        let engine = engine.unwrap();
        engine.wake();
        assert!(!engine.may_use_gpu() && engine.gpu_bytes().is_empty());
    }
}
