//! Messages that are already in GPU memory, sealed and opened there: nothing is copied to the host.

use warplock::cuda::{Device, DeviceBatch, DeviceIvs, DeviceTags, DeviceText, Plan};
use warplock::{Algorithm, Error, Key, Spans};

const COUNT: usize = 1000;
const LEN: usize = 16384;

fn main() -> Result<(), Error> {
    let device = match Device::open(0) {
        Ok(device) => device,
        Err(Error::NoBackend { reason, .. }) => {
            println!("skipped: no GPU ({reason})");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let key = Key::generate(Algorithm::Aes256Gcm)?;
    let mut data = device.alloc(COUNT * LEN)?;
    let mut nonces = device.alloc(COUNT * 12)?;
    let tags = device.alloc(COUNT * 16)?;
    data.fill(7)?;
    let mut drawn = vec![0; COUNT * 12]; // new ones before each launch that seals
    warplock::fill_random(&mut drawn)?;
    nonces.write(0, &drawn)?;

    let text = DeviceText::InPlace {
        buffer: data.region(),
        spans: Spans::Even {
            count: COUNT,
            len: LEN,
            stride: LEN,
        },
    };
    let seal = DeviceBatch::encrypt(&key, text)
        .ivs(DeviceIvs::Each(nonces.region()))
        .tags(DeviceTags::Apart(tags.region()));
    let open = DeviceBatch::decrypt(&key, text)
        .ivs(DeviceIvs::Each(nonces.region()))
        .tags(DeviceTags::Apart(tags.region()));
    let (seal, open) = (Plan::new(&device, seal)?, Plan::new(&device, open)?);

    let stream = device.stream()?;
    // SAFETY: all buffers and plans live until the stream was waited for, and nothing else uses
    // them.
    unsafe {
        seal.launch(&stream)?;
        open.launch(&stream)?;
    }
    assert!(open.failed(&stream)?.is_empty());
    println!("{COUNT} messages of {LEN} bytes sealed and opened on GPU 0");
    Ok(())
}
