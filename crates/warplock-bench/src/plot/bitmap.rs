//! Figures as PNG.

use std::sync::OnceLock;

use plotters::prelude::BitMapBackend;
use plotters::style::{FontStyle, register_font};

use super::canvas::{Canvas, Font};
use crate::Error;
use crate::error::Result;

/// The characters of figures; its license lies next to it.
static FONT: &[u8] = include_bytes!("DejaVuSans-subset.ttf");

/// Pixels for one of SVG, each way: sharp on good displays and in print.
const SCALE: i32 = 2;

/// The rasteriser takes the height of a font's lines for its size, and has the base line at half of
/// that; SVG at 0.76 of the size.
const BITMAP_FONT: Font = Font {
    size: 1.164,
    raised: 0.76 - 1.164 / 2.0,
};

/// A PNG file of what `draw` draws.
pub(super) fn png(
    (width, height): (i32, i32),
    draw: impl FnOnce(&Canvas<BitMapBackend<'_>>) -> Result<()>,
) -> Result<Vec<u8>> {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    let register = || register_font("sans-serif", FontStyle::Normal, FONT).is_ok();
    if !REGISTERED.get_or_init(register) {
        return Err(Error::Plot("the font cannot be read".to_owned()));
    }
    let size = [width, height].map(|len| (len * SCALE).unsigned_abs());
    let mut pixels = vec![0; 3 * size[0] as usize * size[1] as usize];
    let canvas = Canvas::new(
        BitMapBackend::with_buffer(&mut pixels, (size[0], size[1])),
        SCALE,
        BITMAP_FONT,
    )?;
    draw(&canvas)?;
    canvas.end()?;
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, size[0], size[1]);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder
        .write_header()
        .and_then(|mut writer| writer.write_image_data(&pixels))
        .map_err(|error| Error::Plot(error.to_string()))?;
    Ok(file)
}
