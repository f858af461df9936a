//! Pictures to encrypt, made by a generator.

use crate::data::{Data, Shape};
use crate::random::Random;

/// What is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Picture {
    /// One colour.
    Flat,
    /// From black on the left to white on the right.
    Gradient,
    /// A board with 8 by 8 fields.
    Checkers,
    /// Hills, a sky with a sun, and the noise of a camera: smooth areas, edges and fine structure,
    /// with neighbours as similar as those of a photograph.
    Photograph,
}

impl Picture {
    /// All of them.
    pub const ALL: [Picture; 4] = [
        Picture::Flat,
        Picture::Gradient,
        Picture::Checkers,
        Picture::Photograph,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Picture::Flat => "flat",
            Picture::Gradient => "gradient",
            Picture::Checkers => "checkers",
            Picture::Photograph => "photograph",
        }
    }

    /// Draws it; `seed` is for the photograph. The shape has at least one pixel.
    pub fn draw(self, shape: Shape, seed: u64) -> Data<'static> {
        let Shape {
            width,
            height,
            channels,
        } = shape;
        let mut random = Random::new(seed);
        let scene = Scene::new(&mut random);
        let mut bytes = Vec::with_capacity(shape.len());
        for row in 0..height {
            for column in 0..width {
                let x = column as f64 / width as f64;
                let y = row as f64 / height as f64;
                let colour = match self {
                    Picture::Flat => [90, 140, 200],
                    Picture::Gradient => [(256.0 * x) as u8; 3],
                    Picture::Checkers => {
                        let field = (8.0 * x) as usize + (8.0 * y) as usize;
                        [if field.is_multiple_of(2) { 230 } else { 40 }; 3]
                    }
                    Picture::Photograph => scene.pixel(x, y, &mut random),
                };
                let [red, green, blue] = colour;
                let grey = ((u32::from(red) + u32::from(green) + u32::from(blue)) / 3) as u8;
                match channels {
                    1 => bytes.push(grey),
                    2 => bytes.extend([grey, 255]),
                    3 => bytes.extend(colour),
                    _ => bytes.extend([red, green, blue, 255]),
                }
            }
        }
        Data::image(bytes, shape).expect("as many bytes as the shape has")
    }
}

/// Waves that make ridges and textures.
struct Scene {
    waves: Vec<[f64; 4]>,
}

impl Scene {
    fn new(random: &mut Random) -> Self {
        let mut unit = || random.next_u64() as f64 / u64::MAX as f64;
        let waves = (0..24).map(|number| {
            let frequency = 1.0 + 2.0 * f64::from(number) * unit();
            [
                frequency,
                frequency * unit(),
                6.3 * unit(),
                1.0 / (1.0 + f64::from(number)),
            ]
        });
        Scene {
            waves: waves.collect(),
        }
    }

    fn wave(&self, x: f64, y: f64, range: std::ops::Range<usize>) -> f64 {
        let waves = self.waves[range].iter();
        waves
            .map(|[a, b, phase, height]| height * (6.3 * (a * x + b * y) + phase).sin())
            .sum()
    }

    fn pixel(&self, x: f64, y: f64, random: &mut Random) -> [u8; 3] {
        // Far hills first.
        let mut colour = [120.0 + 60.0 * y, 160.0 + 50.0 * y, 235.0 - 30.0 * y];
        if (x - 0.75).hypot(y - 0.18) < 0.07 {
            colour = [250.0, 240.0, 190.0];
        }
        for hill in 0..3u8 {
            let depth = f64::from(hill);
            let ridge = 0.45 + 0.17 * depth + 0.06 * self.wave(x, depth, 0..8);
            if y > ridge {
                let light = 14.0 * self.wave(x, y, 8..24);
                colour = [
                    110.0 - 25.0 * depth + light,
                    125.0 - 12.0 * depth + light,
                    120.0 - 35.0 * depth + light / 2.0,
                ];
            }
        }
        colour.map(|value| {
            // About normal, with a deviation of 2 levels.
            let noise: f64 = (0..4).map(|_| random.below(1024) as f64 / 1024.0).sum();
            (value + 3.5 * (noise - 2.0)).clamp(0.0, 255.0) as u8
        })
    }
}
