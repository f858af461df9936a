//! The data to analyse: bytes in rows, with one or more channels.

use std::borrow::Cow;

/// Why data cannot be analysed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes do not fill the shape.
    #[error("{shape} needs {} bytes, but there are {found}", shape.len())]
    TooShort {
        /// The shape.
        shape: Shape,
        /// Bytes that there are.
        found: usize,
    },
    /// A shape without pixels, or with more than memory can hold.
    #[error("{0} is no image: each of the three numbers is at least 1, and channels at most 4")]
    BadShape(Shape),
    /// Two samples that must have the same shape.
    #[error("one has {left} bytes and the other {right}: only samples of one size can be compared")]
    Unequal {
        /// Bytes of the first.
        left: usize,
        /// Bytes of the second.
        right: usize,
    },
    /// A GPU that cannot be used, or whose driver failed.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Gpu(#[from] warplock::Error),
    /// More than the table of blocks on a GPU can number.
    #[cfg(feature = "cuda")]
    #[error("{found} bytes are too many to look for repeated blocks on a GPU: at most 64 GiB")]
    TooLong {
        /// Bytes.
        found: usize,
    },
    /// An image file that cannot be read or written.
    #[cfg(feature = "images")]
    #[error("not an image that can be read: {0}")]
    Image(#[from] image::ImageError),
    /// An image file that ends before its last pixel.
    #[cfg(feature = "images")]
    #[error(
        "the image was cut short: the file ends after {found} bytes, before its last pixel; fetch it again"
    )]
    ImageCut {
        /// Bytes.
        found: usize,
    },
    /// A plot that cannot be drawn.
    #[cfg(feature = "page")]
    #[error("cannot draw a plot: {0}")]
    Plot(String),
    /// An image whose samples are not bytes.
    #[cfg(feature = "images")]
    #[error("the image has {0:?} pixels; only 8 bits a channel can be analysed")]
    Depth(image::ColorType),
}

/// Width, height and channels of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Bytes of a pixel: 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA.
    pub channels: usize,
}

impl Shape {
    /// Bytes of an image of this shape.
    pub fn len(&self) -> usize {
        self.width
            .saturating_mul(self.height)
            .saturating_mul(self.channels)
    }

    /// Whether there are no pixels.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether there are pixels, and their number of bytes is one that memory can hold.
    pub(crate) fn is_valid(&self) -> bool {
        let len = self.len();
        (1..=4).contains(&self.channels) && len > 0 && len <= isize::MAX as usize
    }

    /// The channels' names.
    pub(crate) fn channel_names(&self) -> &'static [&'static str] {
        match self.channels {
            1 => &["grey"],
            2 => &["grey", "alpha"],
            3 => &["red", "green", "blue"],
            _ => &["red", "green", "blue", "alpha"],
        }
    }
}

impl std::str::FromStr for Shape {
    type Err = String;

    /// `512x384x3`, or `512x384` for one channel.
    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split('x').map(str::parse);
        let numbers: Option<Vec<usize>> = numbers.collect::<Result<_, _>>().ok();
        let (width, height, channels) = match numbers.as_deref() {
            Some(&[width, height]) => (width, height, 1),
            Some(&[width, height, channels]) => (width, height, channels),
            _ => return Err("give width, height and channels, as in 512x384x3".to_owned()),
        };
        let shape = Shape {
            width,
            height,
            channels,
        };
        match shape.is_valid() {
            true => Ok(shape),
            false => Err(Error::BadShape(shape).to_string()),
        }
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}x{}", self.width, self.height, self.channels)
    }
}

/// Bytes to analyse: of an image, or of anything.
#[derive(Clone, Debug)]
pub struct Data<'a> {
    bytes: Cow<'a, [u8]>,
    shape: Option<Shape>,
}

impl<'a> Data<'a> {
    /// Bytes of any kind: one row, one channel.
    pub fn bytes(bytes: impl Into<Cow<'a, [u8]>>) -> Self {
        Data {
            bytes: bytes.into(),
            shape: None,
        }
    }

    /// An image, row by row, the channels of a pixel next to each other. Bytes after the image
    /// (padding, a tag) are left out.
    ///
    /// # Errors
    /// [`Error::BadShape`], [`Error::TooShort`].
    pub fn image(bytes: impl Into<Cow<'a, [u8]>>, shape: Shape) -> Result<Self, Error> {
        let mut bytes = bytes.into();
        if !shape.is_valid() {
            return Err(Error::BadShape(shape));
        }
        let (len, found) = (shape.len(), bytes.len());
        if found < len {
            return Err(Error::TooShort { shape, found });
        }
        match &mut bytes {
            Cow::Borrowed(slice) => *slice = &slice[..len],
            Cow::Owned(vec) => vec.truncate(len),
        }
        let shape = Some(shape);
        Ok(Data { bytes, shape })
    }

    /// All bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The shape, if it is an image.
    pub fn shape(&self) -> Option<Shape> {
        self.shape
    }

    /// The channels, each with its name. Bytes of any kind are one channel without a name.
    pub fn planes(&self) -> Vec<(&'static str, Plane<'_>)> {
        match self.shape {
            None => vec![("", Plane::row(&self.bytes))],
            Some(shape) if shape.channels == 1 => vec![(
                "grey",
                Plane {
                    bytes: Cow::Borrowed(&self.bytes),
                    width: shape.width,
                },
            )],
            Some(shape) => (0..shape.channels)
                .map(|channel| {
                    let one = self.bytes.iter().skip(channel).step_by(shape.channels);
                    let plane = Plane {
                        bytes: one.copied().collect(),
                        width: shape.width,
                    };
                    (shape.channel_names()[channel], plane)
                })
                .collect(),
        }
    }
}

/// One channel: a byte for each pixel, row by row.
#[derive(Clone, Debug)]
pub struct Plane<'a> {
    bytes: Cow<'a, [u8]>,
    width: usize,
}

impl<'a> Plane<'a> {
    /// Bytes without rows.
    pub fn row(bytes: &'a [u8]) -> Self {
        let width = bytes.len();
        let bytes = Cow::Borrowed(bytes);
        Plane { bytes, width }
    }

    /// Rows of `width` bytes. The last row is left out if it is not whole.
    pub fn rows(bytes: &'a [u8], width: usize) -> Self {
        let whole = bytes.len() - bytes.len() % width.max(1);
        let bytes = Cow::Borrowed(&bytes[..whole]);
        Plane { bytes, width }
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.grid().height()
    }

    pub(crate) fn grid(&self) -> Grid {
        Grid {
            len: self.bytes.len(),
            width: self.width,
        }
    }
}

/// The rows of a channel, wherever its bytes are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    /// Bytes.
    pub(crate) len: usize,
    /// Bytes in a row.
    pub(crate) width: usize,
}

impl Grid {
    pub(crate) fn height(&self) -> usize {
        self.len / self.width.max(1)
    }
}
