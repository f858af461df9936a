//! Batches whose places and lengths only the GPU knows.

use super::batch::Region;
use super::call::{DeviceKey, DeviceVerdicts};
use super::stream::Stream;
use crate::{BatchProblem, Direction, Error, Lack, Mode};

/// Messages whose places and lengths lie in GPU memory: arrays with a 64-bit number for each
/// message, at multiples of 8. Addresses are device addresses; lengths are in bytes.
#[derive(Clone, Copy, Debug)]
pub struct DevicePlaces {
    /// How many messages.
    pub count: usize,
    /// At least the bytes of all texts together: the host's only knowledge of them. A bound that is
    /// far too large makes the call slower, not wrong.
    pub total_len: u64,
    /// Addresses of the texts.
    pub inputs: Region,
    /// Lengths of the texts, without tags.
    pub lens: Region,
    /// Addresses of the results; none to work in place.
    pub outputs: Option<Region>,
    /// Addresses of the nonces, or start counters: 12 bytes each for GCM, 16 for CTR and
    /// ACORN-128.
    pub nonces: Region,
    /// Addresses and lengths of the associated data.
    pub aad: Option<(Region, Region)>,
    /// Addresses of the tags, 16 bytes each; none if each directly follows its ciphertext.
    pub tags: Option<Region>,
}

impl DevicePlaces {
    /// Checks the arrays; what they hold, only the device sees.
    fn check(&self) -> Result<(), Error> {
        let arrays = [
            ("the addresses of texts", Some(self.inputs)),
            ("the lengths of texts", Some(self.lens)),
            ("the addresses of results", self.outputs),
            ("the addresses of nonces", Some(self.nonces)),
            (
                "the addresses of associated data",
                self.aad.map(|aad| aad.0),
            ),
            ("the lengths of associated data", self.aad.map(|aad| aad.1)),
            ("the addresses of tags", self.tags),
        ];
        if u32::try_from(self.count).is_err() {
            let count = self.count;
            return Err(BatchProblem::TooManyMessages { count }.of_batch());
        }
        for (what, array) in arrays {
            let Some(array) = array else { continue };
            crate::checks::check_array(array.len(), self.count, 8, what)?;
            if !array.address().is_multiple_of(8) {
                return Err(BatchProblem::Alignment { what, to: 8 }.of_batch());
            }
        }
        Ok(())
    }
}

impl DeviceKey {
    /// Bytes of GPU memory that [`DeviceKey::enqueue_indirect`] needs to work in. Does not touch the
    /// device.
    ///
    /// # Errors
    /// As from [`DeviceKey::enqueue_indirect`].
    pub fn workspace_len_indirect(
        &self,
        direction: Direction,
        places: &DevicePlaces,
    ) -> Result<usize, Error> {
        self.check_indirect(places)?;
        Ok(self.layout_indirect(direction, places).device_len)
    }

    /// Queues a batch whose places and lengths only the GPU knows when the stream gets there: written
    /// by an earlier kernel, say. For GCM, CTR and ACORN-128, whose texts may have any length.
    /// Otherwise as [`DeviceKey::enqueue`].
    ///
    /// # Safety
    /// As [`DeviceKey::enqueue`]; the arrays are read in stream order. All that they name is memory
    /// of the device, no result overlaps another or anything that is read (but its own text), and
    /// the texts have no more bytes than [`DevicePlaces::total_len`].
    ///
    /// # Errors
    /// Before anything is queued: [`Error::Batch`] for another algorithm, an array of another length
    /// or a workspace that is too small, [`Error::Backend`] as from [`DeviceKey::enqueue`].
    pub unsafe fn enqueue_indirect(
        &self,
        direction: Direction,
        places: &DevicePlaces,
        verdicts: DeviceVerdicts,
        workspace: Region,
        stream: &Stream,
    ) -> Result<(), Error> {
        self.check_indirect(places)?;
        if places.count == 0 {
            return Ok(());
        }
        // SAFETY: by this function's contract.
        unsafe { self.run_indirect(direction, places, verdicts, workspace, stream) }
    }

    fn check_indirect(&self, places: &DevicePlaces) -> Result<(), Error> {
        match self.info().mode {
            Mode::Gcm | Mode::Ctr | Mode::Acorn => places.check(),
            _ => Err(Lack::IndirectPlaces.of(self.info().algorithm)),
        }
    }
}
