//! Correlation of adjacent pixels.

use std::collections::HashSet;

use crate::data::{Grid, Plane};
use crate::distribution::normal_two_sided;
use crate::random::Random;
use crate::tables::Tables;
use crate::test::{Bounds, Test, judgement, shown_p};

/// Which pixel is the neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The one to the right; of bytes without rows, the next.
    Horizontal,
    /// The one below.
    Vertical,
    /// The one below and to the right.
    Diagonal,
}

impl Direction {
    /// All three.
    pub const ALL: [Direction; 3] = [
        Direction::Horizontal,
        Direction::Vertical,
        Direction::Diagonal,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Horizontal => "horizontal",
            Direction::Vertical => "vertical",
            Direction::Diagonal => "diagonal",
        }
    }

    /// Columns and rows from a pixel to its neighbour.
    fn step(self) -> (usize, usize) {
        match self {
            Direction::Horizontal => (1, 0),
            Direction::Vertical => (0, 1),
            Direction::Diagonal => (1, 1),
        }
    }

    /// Columns and rows whose pixels have a neighbour.
    fn extent(self, grid: Grid) -> (usize, usize) {
        let (right, down) = self.step();
        (
            grid.width.saturating_sub(right),
            grid.height().saturating_sub(down),
        )
    }

    /// How many bytes later the neighbour is, if there are at least two pairs.
    pub(crate) fn lag(self, grid: Grid) -> Option<usize> {
        let (columns, rows) = self.extent(grid);
        let (right, down) = self.step();
        (columns * rows >= 2).then_some(down * grid.width + right)
    }
}

/// Pearson's correlation of pairs.
#[derive(Clone, Copy, Debug)]
pub struct Correlation {
    /// Where the second of each pair is.
    pub direction: Direction,
    /// Pairs.
    pub pairs: u64,
    /// The coefficient; `None` if one side of the pairs is constant.
    pub coefficient: Option<f64>,
}

/// Sums of pairs, from which the coefficient follows exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) n: u64,
    pub(crate) x: u64,
    pub(crate) y: u64,
    pub(crate) xx: u64,
    pub(crate) yy: u64,
    pub(crate) xy: u64,
}

impl Sums {
    pub(crate) fn coefficient(&self) -> Option<f64> {
        let moment = |ab: u64, a: u64, b: u64| {
            i128::from(self.n) * i128::from(ab) - i128::from(a) * i128::from(b)
        };
        let x = moment(self.xx, self.x, self.x);
        let y = moment(self.yy, self.y, self.y);
        let both = moment(self.xy, self.x, self.y);
        (x > 0 && y > 0).then(|| both as f64 / ((x as f64).sqrt() * (y as f64).sqrt()))
    }

    fn add(&mut self, x: u8, y: u8) {
        let (x, y) = (u64::from(x), u64::from(y));
        self.n += 1;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.yy += y * y;
        self.xy += x * y;
    }

    /// Of all pairs of bytes `lag` places apart, before the ends are taken out.
    fn of_all(counts: &[u64; 256], product: u64) -> Self {
        let (sum, squares) = totals(counts);
        Sums {
            n: counts.iter().sum(),
            x: sum,
            y: sum,
            xx: squares,
            yy: squares,
            xy: product,
        }
    }

    /// Takes out the bytes that are the first of no pair, and those that are the second of none.
    fn without_ends(&mut self, last: &Sums, first: &Sums) {
        self.n -= last.n;
        self.x -= last.x;
        self.xx -= last.xx;
        self.y -= first.x;
        self.yy -= first.xx;
    }

    /// Takes out pairs.
    fn without(&mut self, pairs: &Sums) {
        self.n -= pairs.n;
        self.x -= pairs.x;
        self.y -= pairs.y;
        self.xx -= pairs.xx;
        self.yy -= pairs.yy;
        self.xy -= pairs.xy;
    }
}

/// Bytes at even distances, each with the one `lag` places later; as the GPU's kernel has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Progression {
    pub(crate) start: u64,
    pub(crate) step: u64,
    pub(crate) count: u64,
    pub(crate) lag: u64,
}

impl Progression {
    fn run(start: usize, count: usize) -> Self {
        Progression {
            start: start as u64,
            step: 1,
            count: count as u64,
            lag: 0,
        }
    }

    /// At this direction's lag: the bytes that are the first of no pair, those that are the second of no
    /// pair, and what must not count: a row's last pixel with the first of a row below.
    pub(crate) fn ends(grid: Grid, direction: Direction) -> Option<[Progression; 3]> {
        let lag = direction.lag(grid)?;
        let (Grid { len, width }, (right, _)) = (grid, direction.step());
        let wraps = match right {
            0 => Progression::default(),
            _ => Progression {
                start: width as u64 - 1,
                step: width as u64,
                count: (len - lag).saturating_sub(width - 1).div_ceil(width) as u64,
                lag: lag as u64,
            },
        };
        let last = Progression::run(len - lag, lag);
        Some([last, Progression::run(0, lag), wraps])
    }

    /// The sums of its pairs.
    pub(crate) fn sums(&self, bytes: &[u8]) -> Sums {
        let mut sums = Sums::default();
        for number in 0..self.count {
            let place = self.start + number * self.step;
            sums.add(bytes[place as usize], bytes[(place + self.lag) as usize]);
        }
        sums
    }
}

/// The sums of the pairs of bytes `lag` places apart; `product` is that of [`lagged_products`]. `head`
/// and `tail` are at least the first and the last `lag` bytes.
///
/// [`lagged_products`]: crate::tables::lagged_products
pub(crate) fn lagged_sums(
    counts: &[u64; 256],
    lag: usize,
    product: u64,
    head: &[u8],
    tail: &[u8],
) -> Sums {
    let mut sums = Sums::of_all(counts, product);
    let last = Progression::run(tail.len() - lag, lag).sums(tail);
    sums.without_ends(&last, &Progression::run(0, lag).sums(head));
    sums
}

impl Correlation {
    /// Of all adjacent pairs; `None` if there are fewer than two.
    pub fn of(plane: &Plane<'_>, tables: &Tables, direction: Direction) -> Option<Self> {
        let ends = Progression::ends(plane.grid(), direction)?;
        let ends = ends.map(|one| one.sums(plane.as_bytes()));
        Some(Correlation::from_ends(tables, direction, &ends))
    }

    /// `ends` are the sums of [`Progression::ends`].
    pub(crate) fn from_ends(tables: &Tables, direction: Direction, ends: &[Sums; 3]) -> Self {
        let place = Direction::ALL.iter().position(|&one| one == direction);
        let product = tables.products[place.expect("it is one of all")];
        let [last, first, wraps] = ends;
        let mut sums = Sums::of_all(&tables.histogram.counts, product);
        sums.without_ends(last, first);
        sums.without(wraps);
        Correlation::from_sums(direction, &sums)
    }

    fn from_sums(direction: Direction, sums: &Sums) -> Self {
        Correlation {
            direction,
            pairs: sums.n,
            coefficient: sums.coefficient(),
        }
    }

    /// The standard deviation for random data.
    pub fn deviation(&self) -> f64 {
        1.0 / (self.pairs as f64).sqrt()
    }

    /// The chance that random data is correlated at least as strongly.
    pub fn p_value(&self) -> f64 {
        p_value(self.coefficient, self.pairs)
    }

    /// Whether neighbours are too similar or too different.
    pub fn test(&self) -> Test {
        let (name, title) = match self.direction {
            Direction::Horizontal => ("correlation_horizontal", "correlation, horizontal"),
            Direction::Vertical => ("correlation_vertical", "correlation, vertical"),
            Direction::Diagonal => ("correlation_diagonal", "correlation, diagonal"),
        };
        let what = format!(
            "all {} {} pairs of neighbours",
            self.pairs,
            self.direction.name()
        );
        as_test(name, title, &what, self.coefficient, self.pairs)
    }
}

/// The same of pairs drawn at random, as most papers have it: less exact than all of them.
#[derive(Clone, Copy, Debug)]
pub struct SampledCorrelation(pub Correlation);

impl SampledCorrelation {
    /// Pairs that papers usually draw.
    pub const PAIRS: usize = 5000;

    /// Of `pairs` different pairs that `seed` draws; `None` if there are not more than these.
    pub fn of(plane: &Plane<'_>, direction: Direction, pairs: usize, seed: u64) -> Option<Self> {
        let chosen = sample(plane, direction, pairs, seed)?;
        Some(SampledCorrelation::from_pairs(direction, chosen))
    }

    pub(crate) fn from_pairs(direction: Direction, pairs: impl Iterator<Item = (u8, u8)>) -> Self {
        let mut sums = Sums::default();
        pairs.for_each(|(x, y)| sums.add(x, y));
        SampledCorrelation(Correlation::from_sums(direction, &sums))
    }

    /// Whether neighbours are too similar or too different.
    pub fn test(&self) -> Test {
        let (name, title) = match self.0.direction {
            Direction::Horizontal => ("sampled_horizontal", "correlation, sampled horizontal"),
            Direction::Vertical => ("sampled_vertical", "correlation, sampled vertical"),
            Direction::Diagonal => ("sampled_diagonal", "correlation, sampled diagonal"),
        };
        let what = format!("{} sampled {} pairs", self.0.pairs, self.0.direction.name());
        as_test(name, title, &what, self.0.coefficient, self.0.pairs)
    }
}

/// Adjacent pairs drawn at random, none twice: with repetition the coefficient would vary more than
/// that of as many independent pairs.
pub(crate) fn sample(
    plane: &Plane<'_>,
    direction: Direction,
    pairs: usize,
    seed: u64,
) -> Option<impl Iterator<Item = (u8, u8)>> {
    let places = sample_places(plane.grid(), direction, pairs, seed)?;
    let lag = direction.lag(plane.grid())?;
    let bytes = plane.as_bytes();
    Some((places.into_iter()).map(move |place| (bytes[place], bytes[place + lag])))
}

/// Where the first bytes of these pairs are.
pub(crate) fn sample_places(
    grid: Grid,
    direction: Direction,
    pairs: usize,
    seed: u64,
) -> Option<Vec<usize>> {
    direction.lag(grid)?;
    let (columns, rows) = direction.extent(grid);
    let all = columns * rows;
    if pairs < 2 || pairs >= all {
        return None;
    }
    let mut random = Random::new(seed);
    let mut drawn = HashSet::with_capacity(pairs);
    let mut draw = || loop {
        let pair = random.below(all);
        if drawn.insert(pair) {
            break pair / columns * grid.width + pair % columns;
        }
    };
    Some((0..pairs).map(|_| draw()).collect())
}

/// The correlation of each byte of the ciphertext with that of the plaintext in its place; `None` if
/// they are not of one size, or have fewer than two bytes.
pub fn with_plaintext(plain: &[u8], cipher: &[u8]) -> Option<Test> {
    if plain.len() != cipher.len() || plain.len() < 2 {
        return None;
    }
    let mut sums = Sums::default();
    for (&x, &y) in plain.iter().zip(cipher) {
        sums.add(x, y);
    }
    let title = "correlation with the plaintext";
    // A plaintext of one colour is correlated with nothing.
    let coefficient = sums.coefficient().unwrap_or(0.0);
    let what = format!("all {} bytes with those of the plaintext", sums.n);
    let name = "correlation_plaintext";
    Some(as_test(name, title, &what, Some(coefficient), sums.n))
}

/// The sum of all bytes, and of their squares.
pub(crate) fn totals(counts: &[u64; 256]) -> (u64, u64) {
    let values = (0u64..).zip(counts);
    values.fold((0, 0), |(sum, squares), (value, count)| {
        (sum + value * count, squares + value * value * count)
    })
}

/// What is constant is not random.
fn p_value(coefficient: Option<f64>, pairs: u64) -> f64 {
    coefficient.map_or(0.0, |r| normal_two_sided(r * (pairs as f64).sqrt()))
}

fn as_test(
    name: &'static str,
    title: &'static str,
    what: &str,
    coefficient: Option<f64>,
    pairs: u64,
) -> Test {
    let deviation = 1.0 / (pairs as f64).sqrt();
    let p = p_value(coefficient, pairs);
    Test {
        name,
        title,
        value: coefficient.unwrap_or(f64::NAN),
        expected: 0.0,
        deviation,
        bounds: Bounds::normal(0.0, deviation),
        p_value: p,
        is_continuous: true,
        sentence: match coefficient {
            Some(r) => format!(
                "The correlation of {what} is {r:.5} ({}): {}.",
                shown_p(p),
                judgement(p)
            ),
            None => format!(
                "The correlation of {what} is undefined: one side of the pairs is constant, \
                         which random data never is."
            ),
        },
    }
}
