//! Where a channel's bytes are: in host memory, or on a GPU.

use std::convert::Infallible;
use std::num::NonZeroUsize;

use crate::correlation::{Progression, Sums};
use crate::data::{Grid, Plane};
use crate::tables::Tables;

/// A channel, as far as its statistics need it.
pub(crate) trait Source {
    /// Why it cannot be read.
    type Error;

    /// Its rows.
    fn grid(&self) -> Grid;
    /// Counts, and products of neighbours.
    fn tables(&self) -> Result<Tables, Self::Error>;
    /// The sums of each progression.
    fn sums(&self, progressions: &[[Progression; 3]]) -> Result<Vec<[Sums; 3]>, Self::Error>;
    /// The bytes at some places.
    fn bytes_at(&self, places: &[usize]) -> Result<Vec<u8>, Self::Error>;
}

/// A channel in host memory, read with some threads.
pub(crate) struct OnHost<'a>(pub(crate) &'a Plane<'a>, pub(crate) NonZeroUsize);

impl Source for OnHost<'_> {
    type Error = Infallible;

    fn grid(&self) -> Grid {
        self.0.grid()
    }

    fn tables(&self) -> Result<Tables, Infallible> {
        Ok(Tables::of(self.0, self.1))
    }

    fn sums(&self, progressions: &[[Progression; 3]]) -> Result<Vec<[Sums; 3]>, Infallible> {
        let bytes = self.0.as_bytes();
        let each = progressions.iter();
        Ok(each.map(|ends| ends.map(|one| one.sums(bytes))).collect())
    }

    fn bytes_at(&self, places: &[usize]) -> Result<Vec<u8>, Infallible> {
        let bytes = self.0.as_bytes();
        Ok(places.iter().map(|&place| bytes[place]).collect())
    }
}
