//! Calls that take turns -> the median nanoseconds of each, in tables.

use std::time::Instant;

/// What a call's time is compared with.
#[derive(Clone, Copy)]
pub enum Over {
    /// Nothing: the time itself.
    Nothing,
    /// The time of call `.0`, `.1` times.
    Times(usize, usize),
}

/// A call, or a reference.
struct Call<'a> {
    name: String,
    over: Over,
    /// Times the calls of one round: nanoseconds a call.
    time: Box<dyn FnMut() -> f64 + 'a>,
}

/// The calls of one shader.
#[derive(Default)]
pub struct Calls<'a>(Vec<Call<'a>>);

impl<'a> Calls<'a> {
    /// Adds a call and returns its number, for [`Over::Times`].
    pub fn add(&mut self, name: impl Into<String>, over: Over, time: impl FnMut() -> f64 + 'a) -> usize {
        self.0.push(Call { name: name.into(), over, time: Box::new(time) });
        self.0.len() - 1
    }

    /// The median of each call.
    pub fn measure(mut self, rounds: usize) -> Vec<(String, f64)> {
        let mut all = vec![Vec::with_capacity(rounds); self.0.len()];
        // The first calls compile the code for groups.
        for round in 0..rounds + rounds / 20 {
            let ns: Vec<f64> = self.0.iter_mut().map(|call| (call.time)()).collect();
            for ((call, all), own) in self.0.iter().zip(&mut all).zip(&ns) {
                let reference = match call.over {
                    Over::Nothing => 0.0,
                    Over::Times(other, times) => ns[other] * times as f64,
                };
                if round >= rounds / 20 {
                    all.push(own - reference);
                }
            }
        }
        self.0.into_iter().map(|call| call.name).zip(all.into_iter().map(median)).collect()
    }
}

/// One kind of call: a row for each shader.
pub struct Table {
    title: &'static str,
    meaning: &'static str,
    pub rows: Vec<(&'static str, Vec<(String, f64)>)>,
}

impl Table {
    pub fn new(title: &'static str, meaning: &'static str) -> Table {
        Table { title, meaning, rows: Vec::new() }
    }

    /// Medians over the shaders, and the greatest figures.
    pub fn summary(&self) -> Vec<(&str, f64, f64)> {
        let Some((_, first)) = self.rows.first() else { return Vec::new() };
        let column = |n: usize| self.rows.iter().map(|(_, row)| row[n].1).collect::<Vec<_>>();
        let columns = first.iter().enumerate().map(|(n, (name, _))| (&**name, column(n)));
        columns.map(|(name, all)| (name, median(all.clone()), all.into_iter().fold(f64::MIN, f64::max))).collect()
    }

    pub fn print(&self) {
        println!("{}: ns a call\n{}", self.title, self.meaning);
        let summary = self.summary();
        let shown = |values: &mut dyn Iterator<Item = (&str, f64)>| -> String {
            values.filter(|(name, _)| !name.is_empty()).map(|(n, x)| format!("{x:>w$.1}", w = width(n))).collect()
        };
        let names = summary.iter().map(|s| s.0).filter(|n| !n.is_empty());
        println!("{:12}{}", "", names.map(|n| format!("{n:>w$}", w = width(n))).collect::<String>());
        for (shader, row) in &self.rows {
            println!("{shader:12}{}", shown(&mut row.iter().map(|(n, x)| (&**n, *x))));
        }
        println!("{:12}{}", "median", shown(&mut summary.iter().map(|s| (s.0, s.1))));
        println!("{:12}{}\n", "most", shown(&mut summary.iter().map(|s| (s.0, s.2))));
    }
}

fn width(column: &str) -> usize {
    (column.len() + 2).max(9)
}

/// Nanoseconds a call. Every call must return 0: the end of a run.
pub fn timed(calls: usize, mut call: impl FnMut() -> i32) -> f64 {
    let start = Instant::now();
    let mut exits = 0;
    for _ in 0..calls {
        exits |= call();
    }
    let ns = start.elapsed().as_nanos() as f64 / calls as f64;
    assert_eq!(exits, 0, "all runs end");
    ns
}

/// The median.
pub fn median(mut ns: Vec<f64>) -> f64 {
    ns.sort_by(f64::total_cmp);
    ns[ns.len() / 2]
}
