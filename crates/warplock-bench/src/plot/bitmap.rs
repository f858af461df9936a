//! Figures as PNG.

use ab_glyph::{Font, FontRef, PxScale, ScaleFont, point};
use plotters::prelude::BitMapBackend;

use super::canvas::{Anchor, Canvas, Label};
use crate::Error;
use crate::error::Result;

/// The characters of figures; its license lies next to it.
static FONT: &[u8] = include_bytes!("DejaVuSans-subset.ttf");

/// Pixels for one of SVG, each way: sharp on good displays and in print.
const SCALE: i32 = 2;

/// From a text's upper edge to its base line, as a share of its size: as in SVG.
const BASE: f32 = 0.76;

/// Pixels of red, green and blue.
struct Picture {
    width: usize,
    pixels: Vec<u8>,
}

/// A PNG file of what `draw` draws.
pub(super) fn png(
    (width, height): (i32, i32),
    draw: impl FnOnce(&Canvas<BitMapBackend<'_>>) -> Result<()>,
) -> Result<Vec<u8>> {
    let size = [width, height].map(|len| (len * SCALE).unsigned_abs());
    let mut picture = Picture {
        width: size[0] as usize,
        pixels: vec![0; 3 * size[0] as usize * size[1] as usize],
    };
    let backend = BitMapBackend::with_buffer(&mut picture.pixels, (size[0], size[1]));
    let canvas = Canvas::without_fonts(backend, SCALE)?;
    draw(&canvas)?;
    let texts = canvas.end()?;
    let failed = |error: &dyn std::fmt::Display| Error::Plot(error.to_string());
    let font = FontRef::try_from_slice(FONT).map_err(|error| failed(&error))?;
    texts.iter().for_each(|text| picture.write(&font, text));
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, size[0], size[1]);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder
        .write_header()
        .and_then(|mut writer| writer.write_image_data(&picture.pixels))
        .map_err(|error| failed(&error))?;
    Ok(file)
}

impl Picture {
    fn write(&mut self, font: &FontRef<'_>, label: &Label) {
        let size = label.size as f32 * SCALE as f32;
        // A scale is the height of lines, a size that of the em square.
        let em = font.units_per_em().unwrap_or(1000.0);
        let scale = PxScale::from(size * font.height_unscaled() / em);
        let scaled = font.as_scaled(scale);
        let glyphs: Vec<_> = label.text.chars().map(|c| font.glyph_id(c)).collect();
        let width: f32 = glyphs.iter().map(|&glyph| scaled.h_advance(glyph)).sum();
        let [x, y] = [label.at.0, label.at.1].map(|place| (place * SCALE) as f32);
        let mut x = match label.anchor {
            Anchor::Start => x,
            Anchor::Middle => x - width / 2.0,
            Anchor::End => x - width,
        };
        for glyph in glyphs {
            let placed = glyph.with_scale_and_position(scale, point(x, y + BASE * size));
            x += scaled.h_advance(glyph);
            // A space has no outline.
            if let Some(outline) = font.outline_glyph(placed) {
                let corner = outline.px_bounds().min;
                outline.draw(|right, down, cover| {
                    let place = (corner.x + right as f32, corner.y + down as f32);
                    self.blend(place, cover, label);
                });
            }
        }
    }

    fn blend(&mut self, (x, y): (f32, f32), cover: f32, label: &Label) {
        if x < 0.0 || y < 0.0 || x as usize >= self.width {
            return;
        }
        let at = 3 * (y as usize * self.width + x as usize);
        let colour = label.colour;
        if let Some(pixel) = self.pixels.get_mut(at..at + 3) {
            for (value, own) in pixel.iter_mut().zip([colour.0, colour.1, colour.2]) {
                let mixed = f32::from(*value) * (1.0 - cover) + f32::from(own) * cover;
                *value = mixed.round() as u8;
            }
        }
    }
}
