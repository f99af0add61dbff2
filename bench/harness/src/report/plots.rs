//! Plots as SVG, each to be read alone: a title that says what is measured, units, whose bar or line
//! it is, and which way is better.

use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::prelude::*;
use std::path::Path;

type Outcome = Result<(), Box<dyn std::error::Error>>;

const FONT: &str = "sans-serif";
const OURS: RGBColor = RGBColor(31, 119, 180);
const OTHERS: RGBColor = RGBColor(160, 160, 160);
const INK: RGBColor = RGBColor(40, 40, 40);
const LINES: [RGBColor; 11] = [
    RGBColor(31, 119, 180),
    RGBColor(214, 39, 40),
    RGBColor(44, 160, 44),
    RGBColor(255, 127, 14),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
    RGBColor(227, 119, 194),
    RGBColor(127, 127, 127),
    RGBColor(188, 189, 34),
    RGBColor(23, 190, 207),
    RGBColor(0, 0, 0),
];

pub struct Bar {
    pub name: String,
    pub is_ours: bool,
    pub value: f64,
    /// Least and most of the rounds.
    pub range: [f64; 2],
}

/// Bars from left to right, one below the other, in the order given. `log`: each doubling is as long
/// as any other.
pub fn bars(path: &Path, title: &str, unit: &str, log: bool, bars: &[Bar]) -> Outcome {
    let (left, right, top, step) = (190, 700, 64, 24);
    let height = top + step * bars.len() as i32 + 20;
    let root = SVGBackend::new(path, (800, height as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    let text = |size: i32| (FONT, size).into_font().color(&INK);
    root.draw(&Text::new(title.to_owned(), (12, 10), text(18)))?;
    root.draw(&Text::new(
        format!("{unit}; blue: libherd; thin line: all rounds"),
        (12, 36),
        text(13),
    ))?;
    let most = bars.iter().map(|bar| bar.range[1]).fold(f64::MIN_POSITIVE, f64::max);
    let positive = bars.iter().map(|bar| bar.range[0]).filter(|&least| least > 0.0);
    let least = positive.fold(most, f64::min) / 2.0;
    let at = |value: f64| {
        let share =
            if log { (value.max(least) / least).ln() / (most / least).ln() } else { value / most };
        left + (share.clamp(0.0, 1.0) * f64::from(right - left)) as i32
    };
    for (number, bar) in bars.iter().enumerate() {
        let y = top + step * number as i32;
        let color = if bar.is_ours { OURS } else { OTHERS };
        root.draw(&Text::new(bar.name.clone(), (12, y + 2), text(14)))?;
        root.draw(&Rectangle::new([(left, y), (at(bar.value), y + step - 7)], color.filled()))?;
        let middle = y + (step - 7) / 2;
        let range = [(at(bar.range[0]), middle), (at(bar.range[1]), middle)];
        root.draw(&PathElement::new(range.to_vec(), INK))?;
        let end = at(bar.range[1].max(bar.value)) + 6;
        root.draw(&Text::new(super::number(bar.value), (end, y + 2), text(13)))?;
    }
    root.present()?;
    Ok(())
}

pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// Lines over a logarithmic axis. `log`: the other is logarithmic as well.
pub fn lines(path: &Path, title: &str, axes: [&str; 2], log: bool, lines: &[Line]) -> Outcome {
    let points = || lines.iter().flat_map(|line| &line.points);
    let (mut x, mut y) = ([f64::MAX, f64::MIN], [f64::MAX, f64::MIN]);
    for &(px, py) in points() {
        x = [x[0].min(px), x[1].max(px)];
        y = [y[0].min(py), y[1].max(py)];
    }
    if points().next().is_none() {
        return Ok(());
    }
    let root = SVGBackend::new(path, (900, 480)).into_drawing_area();
    root.fill(&WHITE)?;
    root.draw(&Text::new(title.to_owned(), (12, 10), (FONT, 18).into_font().color(&INK)))?;
    let (plot, names) = root.margin(36, 0, 0, 0).split_horizontally(720);
    for (number, line) in lines.iter().enumerate() {
        let y = 20 + 24 * number as i32;
        let key = PathElement::new(vec![(4, y), (26, y)], style(number));
        names.draw(&key)?;
        names.draw(&Text::new(
            line.name.clone(),
            (34, y - 7),
            (FONT, 14).into_font().color(&INK),
        ))?;
    }
    let mut builder = ChartBuilder::on(&plot);
    builder.margin(12).x_label_area_size(44).y_label_area_size(80);
    let across = (x[0]..x[1].max(x[0] + 1.0)).log_scale();
    if log {
        let up = (y[0].max(0.01)..y[1].max(0.02) * 1.3).log_scale();
        draw(builder.build_cartesian_2d(across, up)?, axes, lines, 0.01)?;
    } else {
        draw(builder.build_cartesian_2d(across, 0.0..y[1] * 1.05)?, axes, lines, 0.0)?;
    }
    root.present()?;
    Ok(())
}

/// Of a line; the second half of them is thin, where colors come close.
fn style(number: usize) -> ShapeStyle {
    LINES[number % LINES.len()].stroke_width(if number < LINES.len() / 2 { 3 } else { 1 })
}

fn draw<'a, X, Y>(
    mut chart: ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>,
    axes: [&str; 2],
    lines: &[Line],
    least: f64,
) -> Outcome
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut mesh = chart.configure_mesh();
    mesh.x_desc(axes[0]).y_desc(axes[1]).light_line_style(RGBColor(235, 235, 235));
    let whole = |value: &f64| super::number(*value);
    mesh.x_label_formatter(&whole).y_label_formatter(&whole);
    mesh.label_style((FONT, 13)).draw()?;
    for (number, line) in lines.iter().enumerate() {
        let points = line.points.iter().map(|&(x, y)| (x, y.max(least)));
        chart.draw_series(LineSeries::new(points, style(number)).point_size(3))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plots_are_drawn() {
        let folder = std::env::temp_dir().join(format!("herd-plots.{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let bar = |name: &str, value: f64| Bar {
            name: name.to_owned(),
            is_ours: name.contains('/'),
            value,
            range: [value / 2.0, value * 2.0],
        };
        for log in [false, true] {
            let path = folder.join("bars.svg");
            bars(&path, "Title", "unit", log, &[bar("a/b", 4.0), bar("c", 0.0)]).unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(
                text.contains("Title") && text.contains("a/b") && text.ends_with("</svg>\n"),
                "{text}"
            );
            let path = folder.join("lines.svg");
            let points = vec![(1.0, 2.0), (64.0, 0.0)];
            let line = Line { name: "way".to_owned(), points };
            lines(&path, "Title", ["workers", "us"], log, &[line]).unwrap();
            assert!(std::fs::read_to_string(&path).unwrap().contains("way"));
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
