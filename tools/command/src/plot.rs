//! Ratios of many shaders -> a picture of bars, as SVG: `bench --plot`.
//!
//! Invariant: the picture is well-formed XML for any shader names.

use std::fmt::Write;

/// A shader, and a bar for each series; `None` leaves a gap.
pub struct Group {
    pub title: String,
    pub bars: Vec<Option<f64>>,
    /// An upper bound: a line over all bars.
    pub ceiling: Option<f64>,
}

/// The data of a picture.
pub struct Plot<'a> {
    pub title: &'a str,
    /// Meaning of a height of 1.
    pub one: &'a str,
    /// Meaning of each bar of a group.
    pub series: &'a [String],
    pub groups: &'a [Group],
    /// Meaning of the ceilings, if there are any.
    pub ceilings: Option<&'a str>,
}

/// Fill of each series, repeated: a part of Okabe and Ito's palette for colour-blind readers.
const COLOURS: [&str; 4] = ["#e69f00", "#56b4e9", "#009e73", "#0072b2"];
const BAR: usize = 13;
const GAP: usize = 14;
/// Width of the numbers and of the first title's beginning.
const LEFT: usize = 64;
const TOP: usize = 62;
const HEIGHT: usize = 240;
/// Height of the slanted titles, and their characters.
const BELOW: usize = 118;
const LONGEST: usize = 18;

impl Plot<'_> {
    /// The picture.
    pub fn svg(&self) -> String {
        let group = self.series.len() * BAR + GAP;
        let legend: usize =
            self.series.iter().map(|s| &**s).chain(self.ceilings).map(|s| 26 + 7 * s.chars().count()).sum();
        let drawn = (group * self.groups.len() + GAP).max(legend).max(7 * self.title.chars().count());
        let right = LEFT + drawn;
        let width = right + 12 + 7 * self.one.chars().count();
        let height = TOP + HEIGHT + BELOW;
        let all = self.groups.iter().flat_map(|g| g.bars.iter().chain([&g.ceiling]));
        let highest = all.flatten().fold(1.0, |a: f64, b| a.max(*b));
        let step = step(highest);
        let top = (highest / step).ceil() * step;
        let y = |value: f64| TOP as f64 + HEIGHT as f64 * (1.0 - value / top);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
        );
        text(&mut out, LEFT as f64, 20.0, "font-size=\"14\"", self.title);
        let mut x = LEFT;
        for (n, name) in self.series.iter().enumerate() {
            rect(&mut out, [x as f64, 33.0, 12.0, 12.0], colour(n));
            text(&mut out, x as f64 + 17.0, 43.0, "", name);
            x += 26 + 7 * name.chars().count();
        }
        if let Some(ceilings) = self.ceilings {
            line(&mut out, 39.0, x, x + 12, "#000000");
            text(&mut out, x as f64 + 17.0, 43.0, "", ceilings);
        }
        let ticks = (0..).map(|n| f64::from(n) * step).take_while(|tick| *tick <= top);
        for tick in ticks {
            let at = y(tick);
            line(&mut out, at, LEFT, right, "#dddddd");
            text(&mut out, LEFT as f64 - 6.0, at + 4.0, "text-anchor=\"end\"", &format!("{tick}"));
        }
        for (n, Group { title, bars, ceiling }) in self.groups.iter().enumerate() {
            let left = LEFT + GAP / 2 + n * group;
            for (k, bar) in bars.iter().enumerate() {
                if let Some(bar) = bar {
                    let x = (left + k * BAR) as f64;
                    rect(&mut out, [x, y(*bar), BAR as f64 - 1.0, y(0.0) - y(*bar)], colour(k));
                }
            }
            if let Some(ceiling) = ceiling {
                line(&mut out, y(*ceiling), left - 3, left + bars.len() * BAR + 2, "#000000");
            }
            let (x, y) = ((left + self.series.len() * BAR / 2) as f64 + 4.0, y(0.0) + 12.0);
            let turned = format!("text-anchor=\"end\" transform=\"rotate(-45 {x:.1} {y:.1})\"");
            text(&mut out, x, y, &turned, &shortened(title));
        }
        line(&mut out, y(1.0), LEFT, right, "#000000");
        text(&mut out, right as f64 + 6.0, y(1.0) + 4.0, "", self.one);
        out += "</svg>\n";
        out
    }
}

/// Distance of the grid lines, for four to ten of them.
fn step(highest: f64) -> f64 {
    let mut step = 10f64.powf((highest / 10.0).log10().ceil());
    for smaller in [step / 2.0, step / 5.0] {
        if highest / smaller <= 10.0 {
            step = smaller;
        }
    }
    step
}

fn colour(series: usize) -> &'static str {
    COLOURS[series % COLOURS.len()]
}

fn shortened(title: &str) -> String {
    if title.chars().count() <= LONGEST {
        return title.into();
    }
    title.chars().take(LONGEST - 1).chain(['…']).collect()
}

fn rect(out: &mut String, [x, y, width, height]: [f64; 4], fill: &str) {
    let shape = format!("x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"");
    writeln!(out, "<rect {shape} fill=\"{fill}\"/>").expect("a string takes everything");
}

fn line(out: &mut String, y: f64, from: usize, to: usize, stroke: &str) {
    let shape = format!("x1=\"{from}\" x2=\"{to}\" y1=\"{y:.1}\" y2=\"{y:.1}\"");
    writeln!(out, "<line {shape} stroke=\"{stroke}\"/>").expect("a string takes everything");
}

fn text(out: &mut String, x: f64, y: f64, how: &str, text: &str) {
    let between = if how.is_empty() { "" } else { " " };
    writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\"{between}{how}>{}</text>", escaped(text))
        .expect("a string takes everything");
}

/// Text with XML's special characters escaped and its invalid characters replaced.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '\u{FFFE}' | '\u{FFFF}' => out.push('\u{FFFD}'),
            c if c.is_control() => out.push('\u{FFFD}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn svg(groups: &[(&str, &[Option<f64>])]) -> String {
        let groups: Vec<Group> = groups
            .iter()
            .map(|(title, bars)| Group { title: title.to_string(), bars: bars.to_vec(), ceiling: None })
            .collect();
        let series = ["alone", "64 at once"].map(String::from);
        Plot { title: "speed", one: "the yardstick", series: &series, groups: &groups, ceilings: None }.svg()
    }

    #[test]
    fn bar_heights_are_proportional_to_ratios() {
        let text = svg(&[("a", &[Some(2.0), Some(8.0)]), ("b", &[None, Some(4.0)])]);
        let heights: Vec<f64> = text
            .lines()
            .filter(|l| l.starts_with("<rect x") && !l.contains("width=\"12.0\" height=\"12.0\""))
            .map(|l| l.split("height=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
            .collect();
        assert_eq!(heights, [60.0, 240.0, 120.0]);
        assert_eq!(text.matches(COLOURS[1]).count(), 3, "two bars and a legend");
        assert!(text.contains(">the yardstick</text>") && text.contains(">8</text>") && !text.contains(">9</text>"));
    }

    #[test]
    fn ceilings_are_lines_above_or_through_bars() {
        let group = |ceiling| Group { title: "a".into(), bars: vec![Some(4.0)], ceiling };
        let draw = |ceiling, ceilings| {
            Plot { title: "speed", one: "1", series: &["x".into()], groups: &[group(ceiling)], ceilings }.svg()
        };
        let lines = |text: &str| text.lines().filter(|l| l.contains("#000000")).map(String::from).collect::<Vec<_>>();
        let with = draw(Some(8.0), Some("by hand"));
        assert!(with.contains(">by hand</text>"));
        // The legend's, the ceiling's at the very top, and that of 1.
        assert_eq!(lines(&with).len(), 3, "{with}");
        assert!(lines(&with)[1].contains("y1=\"62.0\""), "{with}");
        assert_eq!(lines(&draw(None, None)).len(), 1);
    }

    #[test]
    fn names_can_do_no_harm() {
        let text = svg(&[("</svg><&\u{1}\u{FFFF}", &[Some(1.0)]), ("a name that is much too long", &[])]);
        assert!(text.contains(">&lt;/svg&gt;&lt;&amp;\u{FFFD}\u{FFFD}</text>"), "{text}");
        assert!(text.contains(">a name that is mu…</text>"), "{text}");
        assert_eq!(text.matches("<text").count(), text.matches("</text>").count());
    }

    #[test]
    fn lines_are_neither_few_nor_many() {
        for n in 1..4000 {
            let highest = f64::from(n) / 4.0;
            let lines = highest / step(highest);
            assert!((3.9..=10.0).contains(&lines) || highest < 1.0, "{highest}: {lines}");
        }
        svg(&[]);
    }
}
