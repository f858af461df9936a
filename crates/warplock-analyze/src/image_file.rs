//! Files of images.

use std::io::{Cursor, ErrorKind};

use image::codecs::png::PngEncoder;
use image::{ColorType, DynamicImage, ExtendedColorType, ImageEncoder, ImageError, ImageReader};

use crate::data::{Data, Error, Shape};

impl Data<'static> {
    /// Decodes PNG, PGM, PPM, BMP or TIFF. The pixels are taken as they are stored, without regard
    /// to colour profiles; palettes are expanded.
    ///
    /// # Errors
    /// [`Error::ImageCut`] if the file was cut, [`Error::Image`] if it is damaged or of another kind,
    /// [`Error::Depth`] unless a channel has 8 bits.
    pub fn decode(file: &[u8]) -> Result<Self, Error> {
        let reader = ImageReader::new(Cursor::new(file));
        let reader = reader.with_guessed_format().map_err(ImageError::from)?;
        let image = reader.decode().map_err(|error| match error {
            ImageError::IoError(error) if error.kind() == ErrorKind::UnexpectedEof => {
                Error::ImageCut { found: file.len() }
            }
            error => error.into(),
        })?;
        let channels = match image.color() {
            ColorType::L8 => 1,
            ColorType::La8 => 2,
            ColorType::Rgb8 => 3,
            ColorType::Rgba8 => 4,
            other => return Err(Error::Depth(other)),
        };
        let shape = Shape {
            width: image.width() as usize,
            height: image.height() as usize,
            channels,
        };
        Data::image(DynamicImage::into_bytes(image), shape)
    }
}

impl Data<'_> {
    /// The image as PNG. Bytes without a shape become a nearly square grey image.
    ///
    /// # Errors
    /// [`Error::Image`] if there are no bytes, or the image is larger than PNG allows.
    pub fn encode_png(&self) -> Result<Vec<u8>, Error> {
        let bytes = self.as_bytes();
        let shape = self.shape().unwrap_or_else(|| {
            let width = bytes.len().isqrt().max(1);
            Shape {
                width,
                height: bytes.len() / width,
                channels: 1,
            }
        });
        let colour = match shape.channels {
            1 => ExtendedColorType::L8,
            2 => ExtendedColorType::La8,
            3 => ExtendedColorType::Rgb8,
            _ => ExtendedColorType::Rgba8,
        };
        let side = |side: usize| u32::try_from(side).unwrap_or(u32::MAX);
        let mut file = Vec::new();
        PngEncoder::new(&mut file).write_image(
            &bytes[..shape.len().min(bytes.len())],
            side(shape.width),
            side(shape.height),
            colour,
        )?;
        Ok(file)
    }
}
