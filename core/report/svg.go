package report

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rivo/uniseg"

	"github.com/forage-rl/forage/core/report/stats"
)

// colours is how many line colours the style sheet has; further cells repeat them with dashes.
const colours = 8

// lineClass gives the style classes of the i-th cell.
func lineClass(i int) string { return fmt.Sprintf("c%d d%d", i%colours, i/colours%3) }

// maxPoints bounds the points that a line is drawn with; longer ones are averaged in buckets.
const maxPoints = 160

// Geometry of the learning curves, in user units.
const (
	curveWidth, curveHeight               = 480.0, 250.0
	curveLeft, curveRight, curveTop, foot = 56.0, 14.0, 12.0, 34.0
)

// axis maps values to positions.
type axis struct {
	low, high float64 // values
	from, to  float64 // positions
}

func (a axis) at(v float64) float64 { return a.from + (v-a.low)/(a.high-a.low)*(a.to-a.from) }

// newAxis spans the values with a little room around them.
func newAxis(values []float64, from, to, room float64) axis {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			low, high = min(low, v), max(high, v)
		}
	}
	if low > high {
		low, high = 0, 1
	}
	// Values that differ in their last digits only are equal here: no ticks have room between them.
	if size := max(math.Abs(low), math.Abs(high)); high-low <= 1e-9*size {
		d := max(size*0.1, 1e-3)
		low, high = low-d, high+d
	} else {
		pad := (high - low) * room
		low, high = low-pad, high+pad
	}
	return axis{low, high, from, to}
}

// ticks gives about n round values inside the axis.
func (a axis) ticks(n int) []float64 {
	raw := (a.high - a.low) / float64(n)
	base := math.Pow(10, math.Floor(math.Log10(raw)))
	step := base * 10
	for _, m := range []float64{1, 2, 5} {
		if raw < base*m*1.5 { // the nearest round step: always the next larger one would leave a single tick at times
			step = base * m
			break
		}
	}
	var out []float64
	for i := math.Ceil(a.low/step - 1e-9); i*step <= a.high+step*1e-9; i++ {
		out = append(out, i*step)
	}
	return out
}

// tickLabel writes a tick with no more digits than it needs: 0.30000000000000004 is 0.3.
func tickLabel(v float64) string {
	if math.Abs(v) < 1e-12 {
		v = 0
	}
	return strings.Replace(strconv.FormatFloat(v, 'g', 4, 64), "-", "−", 1)
}

func num(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

func text(s string) string { return html.EscapeString(printable(s)) }

// svgOpen starts a figure that screen readers announce by its title and description.
func svgOpen(b *strings.Builder, id string, width, height float64, title, desc string) {
	fmt.Fprintf(b, `<svg viewBox="0 0 %s %s" role="img" aria-labelledby="%s-t %s-d"><title id="%s-t">%s</title><desc id="%s-d">%s</desc>`,
		num(width), num(height), id, id, id, text(title), id, text(desc))
}

// curveSVG draws one metric: a thin line per seed and a thick one for the mean of each cell.
func curveSVG(id string, c Curve, cells []string) string {
	var xs, ys []float64
	for _, cell := range c.Cells {
		for _, run := range cell.Runs {
			for _, p := range run.Points {
				xs, ys = append(xs, float64(p.Step)), append(ys, p.Value)
			}
		}
	}
	x := newAxis(xs, curveLeft, curveWidth-curveRight, 0)
	y := newAxis(ys, curveHeight-foot, curveTop, 0.05)
	var b strings.Builder
	svgOpen(&b, id, curveWidth, curveHeight, c.Metric+" by training step", describeCurve(c))
	for _, v := range y.ticks(4) {
		p := num(y.at(v))
		fmt.Fprintf(&b, `<line class="grid" x1="%s" x2="%s" y1="%s" y2="%s"/><text class="tick" x="%s" y="%s" text-anchor="end" dominant-baseline="middle">%s</text>`,
			num(curveLeft), num(curveWidth-curveRight), p, p, num(curveLeft-6), p, tickLabel(v))
	}
	for _, v := range x.ticks(6) {
		if v != math.Trunc(v) {
			continue // there is no half step
		}
		fmt.Fprintf(&b, `<text class="tick" x="%s" y="%s" text-anchor="middle">%s</text>`, num(x.at(v)), num(curveHeight-foot+16), tickLabel(v))
	}
	fmt.Fprintf(&b, `<line class="axis" x1="%s" x2="%s" y1="%s" y2="%s"/>`, num(curveLeft), num(curveWidth-curveRight),
		num(curveHeight-foot), num(curveHeight-foot))
	fmt.Fprintf(&b, `<text class="tick" x="%s" y="%s" text-anchor="end">step</text>`, num(curveWidth-curveRight), num(curveHeight-4))
	for _, cell := range c.Cells {
		class := lineClass(max(0, slices.Index(cells, cell.Cell)))
		for _, run := range cell.Runs {
			line(&b, class+" seed", fmt.Sprintf("%s, seed %d", cell.Cell, run.Seed), run.Points, x, y)
		}
	}
	// Means last, above the seeds. With one seed the mean is the seed.
	for _, cell := range c.Cells {
		name := cell.Cell + ", mean"
		if len(cell.Runs) > 1 {
			name = fmt.Sprintf("%s, mean of %d seeds", cell.Cell, len(cell.Runs))
		}
		line(&b, lineClass(max(0, slices.Index(cells, cell.Cell)))+" mean", name, cell.Mean, x, y)
	}
	b.WriteString("</svg>")
	return b.String()
}

// line draws points as a path that is broken where a value is not finite; a lone point becomes a dot.
func line(b *strings.Builder, class, name string, points []Point, x, y axis) {
	var path strings.Builder
	pen := false
	finite := 0
	var last Point
	for _, p := range thin(points) {
		if math.IsNaN(p.Value) || math.IsInf(p.Value, 0) {
			pen = false
			continue
		}
		cmd := "M"
		if pen {
			cmd = "L"
		}
		fmt.Fprintf(&path, "%s%s %s", cmd, num(x.at(float64(p.Step))), num(y.at(p.Value)))
		pen = true
		finite++
		last = p
	}
	switch finite {
	case 0:
		return
	case 1:
		fmt.Fprintf(b, `<circle class="%s" r="3" cx="%s" cy="%s"><title>%s</title></circle>`, class, num(x.at(float64(last.Step))), num(y.at(last.Value)), text(name))
	default:
		fmt.Fprintf(b, `<path class="%s" d="%s"><title>%s</title></path>`, class, path.String(), text(name))
	}
}

// thin averages the points in equal buckets where there are too many to see. A bucket without a finite value stays a gap.
func thin(points []Point) []Point {
	if len(points) <= maxPoints {
		return points
	}
	out := make([]Point, 0, maxPoints)
	for i := range maxPoints {
		bucket := points[i*len(points)/maxPoints : (i+1)*len(points)/maxPoints]
		sum, n, step := 0.0, 0, 0
		for _, p := range bucket {
			step += p.Step
			if !math.IsNaN(p.Value) && !math.IsInf(p.Value, 0) {
				sum += p.Value
				n++
			}
		}
		v := math.NaN()
		if n > 0 {
			v = sum / float64(n)
		}
		out = append(out, Point{step / len(bucket), v})
	}
	return out
}

func seedCount(n int) string {
	if n == 1 {
		return "1 seed"
	}
	return fmt.Sprintf("%d seeds", n)
}

// describeCurve says in words how each line ends.
func describeCurve(c Curve) string {
	var parts []string
	for _, cell := range c.Cells {
		if n := len(cell.Mean); n > 0 {
			parts = append(parts, fmt.Sprintf("%s: %s at step %d (%s)", cell.Cell, figure(cell.Mean[n-1].Value), cell.Mean[n-1].Step, seedCount(len(cell.Runs))))
		}
	}
	return strings.Join(parts, "; ")
}

// notFinite says which runs have values that cannot be drawn.
func notFinite(c Curve) []string {
	var out []string
	for _, cell := range c.Cells {
		for _, run := range cell.Runs {
			n := 0
			for _, p := range run.Points {
				if math.IsNaN(p.Value) || math.IsInf(p.Value, 0) {
					n++
				}
			}
			if n > 0 {
				out = append(out, fmt.Sprintf("%s, seed %d: %d of %d values are not finite", cell.Cell, run.Seed, n, len(run.Points)))
			}
		}
	}
	return out
}

// forest is a figure of one mean with its interval per row.
type forest struct {
	title   string
	caption string
	zero    bool // draw a line at 0
	rows    []forestRow
}

type forestRow struct {
	label    string
	class    string
	mean     float64
	interval *stats.Interval
	points   []float64 // of the seeds
}

func (r *Report) forests() []forest {
	scores := forest{title: r.figureName() + " per cell", caption: "Dot: mean. Ticks: seeds."}
	for i, c := range r.Cells {
		if len(c.Scores) == 0 {
			continue
		}
		row := forestRow{label: c.Key, class: lineClass(i), interval: c.Interval}
		for _, s := range c.Scores {
			row.points = append(row.points, s.Score)
		}
		row.mean = mean(row.points)
		scores.rows = append(scores.rows, row)
	}
	if slices.ContainsFunc(scores.rows, func(row forestRow) bool { return row.interval != nil }) {
		scores.caption += " Line: 95 % crossed bootstrap over questions and seeds."
	}
	diffs := forest{title: "Difference from " + r.Baseline, zero: true,
		caption: "Dot: mean difference over seeds. Line: 95 % t interval over seeds, drawn where it exists."}
	for i, c := range r.Cells {
		j := slices.IndexFunc(r.Primary, func(p PrimaryRow) bool { return p.Cell == c.Key })
		if j < 0 || len(r.Primary[j].Seeds) == 0 {
			continue
		}
		row := forestRow{label: c.Key, class: lineClass(i), mean: r.Primary[j].Test.Mean}
		if r.Primary[j].Test.HasP {
			row.interval = &r.Primary[j].Test.Interval
		}
		diffs.rows = append(diffs.rows, row)
	}
	return slices.DeleteFunc([]forest{scores, diffs}, func(f forest) bool { return len(f.rows) == 0 })
}

func forestSVG(id string, f forest) string {
	const rowHeight, maxLabel, width, top, bottom = 26.0, 26, 480.0, 8.0, 26.0
	longest := 0
	for _, r := range f.rows {
		longest = max(longest, min(maxLabel, uniseg.StringWidth(printable(r.label))))
	}
	left := 16 + 6.6*float64(longest)
	height := top + bottom + rowHeight*float64(len(f.rows))
	var values []float64
	var parts []string
	for _, r := range f.rows {
		values = append(append(values, r.mean), r.points...)
		desc := fmt.Sprintf("%s: %s", r.label, figure(r.mean))
		if r.interval != nil {
			values = append(values, r.interval.Low, r.interval.High)
			desc += " (" + interval(*r.interval) + ")"
		}
		parts = append(parts, desc)
	}
	if f.zero {
		values = append(values, 0)
	}
	x := newAxis(values, left, width-16, 0.06)
	var b strings.Builder
	svgOpen(&b, id, width, height, f.title, strings.Join(parts, "; "))
	for _, v := range x.ticks(5) {
		p := num(x.at(v))
		class := "grid"
		if f.zero && math.Abs(v) < 1e-12 {
			class = "axis"
		}
		fmt.Fprintf(&b, `<line class="%s" x1="%s" x2="%s" y1="%s" y2="%s"/><text class="tick" x="%s" y="%s" text-anchor="middle">%s</text>`,
			class, p, p, num(top), num(height-bottom), p, num(height-8), tickLabel(v))
	}
	for i, r := range f.rows {
		y := top + rowHeight*(float64(i)+0.5)
		fmt.Fprintf(&b, `<g class="%s"><title>%s</title><text class="label" x="%s" y="%s" text-anchor="end" dominant-baseline="middle">%s</text>`,
			r.class, text(parts[i]), num(left-10), num(y), text(shorten(r.label, maxLabel)))
		if r.interval != nil {
			fmt.Fprintf(&b, `<line class="whisker" x1="%s" x2="%s" y1="%s" y2="%s"/>`, num(x.at(r.interval.Low)), num(x.at(r.interval.High)), num(y), num(y))
		}
		for _, v := range r.points {
			fmt.Fprintf(&b, `<line class="tickmark" x1="%s" x2="%s" y1="%s" y2="%s"/>`, num(x.at(v)), num(x.at(v)), num(y-6), num(y+6))
		}
		fmt.Fprintf(&b, `<circle class="dot" r="4.5" cx="%s" cy="%s"/></g>`, num(x.at(r.mean)), num(y))
	}
	b.WriteString("</svg>")
	return b.String()
}

func shorten(s string, n int) string {
	s = printable(s)
	if uniseg.StringWidth(s) <= n {
		return s
	}
	runes := []rune(s)
	return string(runes[:min(len(runes), n-1)]) + "…"
}
