//! Timing: rounds over all contenders, a warm-up, medians.

use std::cmp::Ordering;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::error::Result;

/// How often to repeat a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Fewest measured runs of each contender.
    pub min_runs: usize,
    /// Most measured runs of each contender.
    pub max_runs: usize,
    /// About how long all runs of the fastest contender may take together, with preparation and
    /// verification; slower ones run as often, if that does not take too long.
    pub budget: Duration,
    /// A warm-up round that took longer than this counts as the measurement: caches and clock rates
    /// were stable long before its end.
    pub enough: Duration,
    /// Work shorter than this is repeated inside one run, so that the cost of reading the clock
    /// (some 25 ns) does not show.
    pub shortest: Duration,
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            min_runs: 3,
            max_runs: 101,
            budget: Duration::from_millis(400),
            enough: Duration::from_secs(60),
            shortest: Duration::from_micros(10),
        }
    }
}

impl Plan {
    /// A quick check instead of a measurement: for tests and trials.
    pub fn quick() -> Self {
        Plan {
            min_runs: 1,
            max_runs: 1,
            budget: Duration::ZERO,
            ..Plan::default()
        }
    }
}

/// Ratios of medians up to this are within the variation between runs of a program.
pub(crate) const CLEARLY: f64 = 1.05;

/// The median of some runs, and the extremes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The middle run; the mean of the two middle ones where their number is even.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// The 10th percentile: the minimum of few runs, but not one that stands alone among many.
    pub low: f64,
    /// The 90th percentile.
    pub high: f64,
    /// How many runs.
    pub runs: usize,
}

impl Sample {
    /// The sample of some values.
    ///
    /// # Panics
    /// If there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = if values.len().is_multiple_of(2) {
            (values[middle - 1] + values[middle]) / 2.0
        } else {
            values[middle]
        };
        // By nearest rank: up to nine runs, these are the extremes.
        let last = values.len() - 1;
        let tenth = values.len() / 10;
        Sample {
            median,
            min: values[0],
            max: values[last],
            low: values[tenth],
            high: values[last - tenth],
            runs: values.len(),
        }
    }

    /// How far from the median runs lie, as a share of it: the larger distance of the 10th and the
    /// 90th percentile. Zero for a single run, which tells nothing.
    pub fn spread(&self) -> f64 {
        let distance = (self.high - self.median).max(self.median - self.low);
        distance / self.median.abs().max(f64::MIN_POSITIVE)
    }

    /// Whether these seconds are fewer than the others' (`Greater`: faster) or more, beyond the
    /// variation of both.
    pub(crate) fn rank(&self, other: &Sample) -> Ordering {
        if self.median * CLEARLY < other.median && self.high < other.low {
            Ordering::Greater
        } else if other.median * CLEARLY < self.median && other.high < self.low {
            Ordering::Less
        } else {
            Ordering::Equal
        }
    }

    /// The sample in another unit. `unit` may fall, as from seconds to a rate.
    pub fn map(self, unit: impl Fn(f64) -> f64) -> Self {
        let (a, b) = (unit(self.min), unit(self.max));
        let (c, d) = (unit(self.low), unit(self.high));
        Sample {
            median: unit(self.median),
            min: a.min(b),
            max: a.max(b),
            low: c.min(d),
            high: c.max(d),
            runs: self.runs,
        }
    }
}

/// Seconds that something took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Timing {
    /// Wall-clock time.
    pub(crate) wall: f64,
    /// CPU time of all threads of this process, in user code and in the system (by `getrusage`).
    pub(crate) cpu: f64,
}

/// Times one piece of work.
pub(crate) fn time<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, Timing)> {
    let cpu = cpu_seconds();
    let start = Instant::now();
    let value = work()?;
    let wall = start.elapsed().as_secs_f64();
    let cpu = cpu_seconds() - cpu;
    Ok((value, Timing { wall, cpu }))
}

fn cpu_seconds() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

/// Work is done once before it is timed if it takes up to this many times the shortest run.
const WARM: f64 = 10.0;

/// Contenders that take less than this many times as long as the fastest are run in the same way as
/// it.
const ALIKE: f64 = 4.0;

/// Contenders may take this many times their budget to run as often as the fastest.
const PATIENCE: f64 = 4.0;

/// Runs contenders 0 to `count` in turn, round after round, so that disturbances of the machine
/// affect all of them; each round in another order, so that no contender always follows the one
/// that leaves the caches cold. Slow contenders are left out of some rounds. `run` prepares, times
/// and verifies one run.
pub(crate) fn rounds(
    plan: &Plan,
    count: usize,
    mut run: impl FnMut(usize) -> Result<Timing>,
) -> Result<Vec<Vec<Timing>>> {
    let start = Instant::now();
    let mut warm_up = Vec::new();
    // Seconds of a run, with what is not timed.
    let mut took = Vec::new();
    for contender in 0..count {
        let before = Instant::now();
        warm_up.push(vec![run(contender)?]);
        took.push(before.elapsed().as_secs_f64());
    }
    if start.elapsed() > plan.enough {
        return Ok(warm_up);
    }
    // As often as the fastest can, but in no more than some times its budget.
    let afford = |budget: f64, took: &f64| (budget / took.max(1e-9)) as usize;
    let budget = plan.budget.as_secs_f64();
    let most = took.iter().map(|took| afford(budget, took)).max();
    let most = most.unwrap_or(0).clamp(plan.min_runs, plan.max_runs);
    let runs = |took| afford(PATIENCE * budget, took).clamp(plan.min_runs, most);
    let runs: Vec<usize> = took.iter().map(runs).collect();
    let mut all = vec![Vec::new(); count];
    let mut order: Vec<usize> = (0..count).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15;
    for round in 0..most {
        shuffle(&mut order, &mut state);
        for &contender in &order {
            let due = |round: usize| round * runs[contender] / most;
            if due(round + 1) > due(round) {
                all[contender].push(run(contender)?);
            }
        }
    }
    Ok(all)
}

/// Another order in each round, the same in every program.
fn shuffle(order: &mut [usize], state: &mut u64) {
    for last in (1..order.len()).rev() {
        // Marsaglia's xorshift.
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        order.swap(last, (*state % (last as u64 + 1)) as usize);
    }
}

/// Wall times of contenders that work on shared buffers: `prepare` spoils them before each run,
/// `work(state, i)` is timed, `check(state, i)` refuses a wrong result.
///
/// Short work is repeated inside a run, after one repeat that is not timed, so `work` must give the
/// same result when repeated, or the plan must not ask for it (`shortest` zero).
pub(crate) fn interleave<S>(
    plan: &Plan,
    count: usize,
    state: &mut S,
    prepare: impl FnMut(&mut S),
    work: impl FnMut(&mut S, usize) -> Result<()>,
    check: impl FnMut(&S, usize) -> Result<()>,
) -> Result<Vec<Sample>> {
    let all = interleaved_runs(plan, count, state, prepare, work, check)?;
    Ok(all.into_iter().map(Sample::of).collect())
}

/// How a contender does one run.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Habit {
    /// How often it does the work.
    repeats: u32,
    /// Whether it does the work once before it is timed: the preparation has cooled the caches, and
    /// short work should not pay for that.
    warm: bool,
}

/// The habits of contenders that took these seconds in the first round.
fn habits(shortest: f64, took: &[f64]) -> Vec<Habit> {
    let habit = |took: f64| Habit {
        repeats: (shortest / took).clamp(1.0, 1000.0) as u32,
        warm: took < WARM * shortest,
    };
    // The first repeat of a run is slower than the others, and so is a contender with cold caches.
    // So contenders of similar speed are run in the same way, even if one takes a little less than
    // `shortest` and another a little more.
    let fastest = took.iter().copied().fold(f64::INFINITY, f64::min);
    let alike = |took: f64| {
        if took < ALIKE * fastest {
            fastest
        } else {
            took
        }
    };
    took.iter().map(|&took| habit(alike(took))).collect()
}

/// The same, with all times of each contender, round by round.
pub(crate) fn interleaved_runs<S>(
    plan: &Plan,
    count: usize,
    state: &mut S,
    mut prepare: impl FnMut(&mut S),
    mut work: impl FnMut(&mut S, usize) -> Result<()>,
    mut check: impl FnMut(&S, usize) -> Result<()>,
) -> Result<Vec<Vec<f64>>> {
    let shortest = plan.shortest.as_secs_f64();
    let mut took = vec![f64::INFINITY; count];
    for (contender, took) in took.iter_mut().enumerate() {
        let mut once = || -> Result<f64> {
            prepare(state);
            let ((), timing) = time(|| work(state, contender))?;
            check(state, contender)?;
            Ok(timing.wall)
        };
        if once()? < 1000.0 * shortest {
            // The first run paid for page faults and lazily made tables.
            *took = once()?;
        }
    }
    let habits = habits(shortest, &took);
    let runs = rounds(plan, count, |contender| {
        prepare(state);
        let Habit { repeats, warm } = habits[contender];
        if warm {
            work(state, contender)?;
        }
        let ((), timing) = time(|| (0..repeats).try_for_each(|_| work(state, contender)))?;
        check(state, contender)?;
        let share = 1.0 / f64::from(repeats);
        Ok(Timing {
            wall: timing.wall * share,
            cpu: timing.cpu * share,
        })
    })?;
    let wall = |runs: Vec<Timing>| runs.into_iter().map(|timing| timing.wall).collect();
    Ok(runs.into_iter().map(wall).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_and_even_counts() {
        let odd = Sample::of([3.0, 1.0, 9.0]);
        assert_eq!((odd.median, odd.min, odd.max, odd.runs), (3.0, 1.0, 9.0, 3));
        assert_eq!(Sample::of([4.0, 1.0, 2.0, 100.0]).median, 3.0);
        let rate = odd.map(|seconds| 9.0 / seconds);
        assert_eq!((rate.median, rate.min, rate.max), (3.0, 1.0, 9.0));
    }

    #[test]
    fn the_spread_ignores_a_run_that_stands_alone_among_many() {
        assert_eq!(Sample::of([2.0]).spread(), 0.0);
        assert_eq!(Sample::of([1.0, 2.0, 5.0]).spread(), 1.5);
        let many = (0..20).map(|run| if run == 7 { 50.0 } else { 2.0 });
        let many = Sample::of(many);
        assert_eq!((many.spread(), many.max), (0.0, 50.0));
    }

    #[test]
    fn rounds_take_turns_and_drop_the_warm_up() {
        let mut order = Vec::new();
        let plan = Plan {
            min_runs: 40,
            max_runs: 40,
            ..Plan::default()
        };
        let runs = rounds(&plan, 3, |contender| {
            order.push(contender);
            Ok(Timing {
                wall: order.len() as f64,
                cpu: 0.0,
            })
        })
        .unwrap();
        assert_eq!(order[..3], [0, 1, 2]);
        let mut after = [[0; 3]; 3];
        for round in order.chunks(3) {
            let mut sorted = round.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2]);
        }
        for pair in order[3..].windows(2) {
            after[pair[0]][pair[1]] += 1;
        }
        // Every contender follows every other one.
        for (first, row) in after.iter().enumerate() {
            let others = row
                .iter()
                .enumerate()
                .filter(|(second, _)| *second != first);
            assert!(
                others.into_iter().all(|(_, count)| *count >= 8),
                "{after:?}"
            );
        }
        assert!(
            runs.iter()
                .all(|walls| walls.len() == 40 && walls[0].wall > 3.0)
        );
    }

    #[test]
    fn slow_contenders_run_less_often() {
        let plan = Plan {
            min_runs: 2,
            max_runs: 20,
            budget: Duration::from_millis(20),
            ..Plan::default()
        };
        let runs = rounds(&plan, 2, |contender| {
            let wait = Duration::from_millis(79 * contender as u64);
            let sleep = || {
                std::thread::sleep(wait);
                Ok(())
            };
            time(sleep).map(|(_, timing)| timing)
        })
        .unwrap();
        assert_eq!((runs[0].len(), runs[1].len()), (20, 2));
    }

    #[test]
    fn a_long_warm_up_is_the_measurement() {
        let plan = Plan {
            enough: Duration::ZERO,
            ..Plan::default()
        };
        let mut calls = 0;
        let runs = rounds(&plan, 1, |_| {
            calls += 1;
            time(|| Ok(calls)).map(|(_, timing)| timing)
        })
        .unwrap();
        assert_eq!((calls, runs[0].len()), (1, 1));
    }

    #[test]
    fn a_wrong_result_is_refused_and_every_run_is_checked() {
        let plan = Plan::quick();
        let refuse = |state: &u32, contender: usize| match state {
            1 => Ok(()),
            _ => Err(crate::Error::Wrong(format!("contender {contender}"))),
        };
        let work = |state: &mut u32, contender: usize| {
            *state = 1 + contender as u32;
            Ok(())
        };
        let good = interleave(&plan, 1, &mut 0, |state| *state = 0, work, refuse).unwrap();
        assert_eq!(good.len(), 1);
        let bad = interleave(&plan, 2, &mut 0, |state| *state = 0, work, refuse).unwrap_err();
        assert_eq!(bad.to_string(), "contender 1; nothing is reported");
    }

    #[test]
    fn contenders_of_similar_speed_run_in_the_same_way() {
        let habits = |took: &[f64]| super::habits(1e-4, took);
        let of = |repeats, warm| Habit { repeats, warm };
        let unknown = f64::INFINITY;
        let slow = [of(1, true), of(1, false), of(1, false)];
        let fast = [of(10, true), of(10, true), of(2, true)];
        assert_eq!(
            habits(&[0.99e-3, 1.01e-3, unknown, 1e-5, 3e-5, 5e-5]),
            [slow, fast].concat()
        );
        // One takes a little longer than `shortest`.
        assert_eq!(habits(&[1.01e-3, 0.99e-3]), [of(1, true); 2]);
        assert_eq!(habits(&[unknown; 2]), [of(1, false); 2]);
    }

    #[test]
    fn cpu_time_counts_other_threads() {
        let spin = || {
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(30) {
                std::hint::spin_loop();
            }
        };
        let (_, timing) = time(|| Ok(std::thread::spawn(spin).join())).unwrap();
        assert!(timing.cpu > 0.002 && timing.wall >= 0.03, "{timing:?}");
    }
}
