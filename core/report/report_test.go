package report

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/record"
	"github.com/forage-rl/forage/core/report/stats"
)

var update = flag.Bool("update", false, "write the golden files")

func render(t *testing.T, to func(io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	must(t, to(&b))
	return b.String()
}

func TestGolden(t *testing.T) {
	r := build(t, demoCells(), seedsTo(5), Options{Times: true})
	golden(t, "study.txt", render(t, func(w io.Writer) error { return r.Text(w, 0) }))
	golden(t, "study_100.txt", render(t, func(w io.Writer) error { return r.Text(w, 100) }))
	golden(t, "study.md", render(t, r.Markdown))
	golden(t, "study.csv", render(t, r.CSV))
	golden(t, "study.html", render(t, r.HTML))
}

func TestPrimary(t *testing.T) {
	r := build(t, demoCells(), seedsTo(5), Options{})
	byCell := map[string]PrimaryRow{}
	var p []float64
	for _, row := range r.Primary {
		byCell[row.Cell] = row
		p = append(p, row.Test.P)
	}
	if len(r.Primary) != 4 || byCell["david_grpo"].Verdict != Significant || byCell["search_r1 group=8"].Verdict != NotSignificant {
		t.Fatalf("%+v", r.Primary)
	}
	if got := byCell["tree_grpo"].Seeds; len(got) != 4 {
		t.Errorf("tree_grpo is compared on seeds %v; seed 3 has failed", got)
	}
	for i, adjusted := range stats.Holm(p) {
		if r.Primary[i].Adjusted != adjusted {
			t.Errorf("%s: adjusted %v, want %v", r.Primary[i].Cell, r.Primary[i].Adjusted, adjusted)
		}
	}
	// The test over seeds, from the scores by hand.
	var base, david []float64
	for _, c := range r.Cells {
		for _, s := range c.Scores {
			switch c.Key {
			case "search_r1":
				base = append(base, s.Score)
			case "david_grpo":
				david = append(david, s.Score)
			}
		}
	}
	d, err := stats.Differences(david, base)
	must(t, err)
	want, err := stats.AcrossSeeds(d, 0.95)
	must(t, err)
	if got := byCell["david_grpo"].Test; got != want {
		t.Errorf("test %+v, want %+v", got, want)
	}
	for _, c := range r.Cells {
		if m := mean(base); c.Key == "search_r1" && (c.Interval == nil || c.Interval.Low > m || c.Interval.High < m) {
			t.Errorf("bootstrap interval %v does not hold the mean %v", c.Interval, m)
		}
	}
}

func TestWarnings(t *testing.T) {
	r := build(t, demoCells(), seedsTo(5), Options{})
	if !containsAny(r.Warnings, "undeclared difference: index.dense (tree_grpo against search_r1, seeds 1, 2, 4, 5); the comparison is not controlled") {
		t.Errorf("undeclared index: %q", r.Warnings)
	}
	if containsAny(r.Warnings, "policy.main") || containsAny(r.Warnings, "dataset.experts") {
		t.Errorf("declared or one-sided differences are warned of: %q", r.Warnings)
	}
	if !containsAny(r.Notes, "24 of 25 runs have a result; the others are left out") {
		t.Errorf("unfinished runs: %q", r.Notes)
	}
	if !containsAny(r.Warnings, "failed: tree_grpo, seed 3") || !containsAny(r.Notes, "stopped by a guard: search_r1, seed 2") {
		t.Errorf("failed and stopped runs: %q %q", r.Warnings, r.Notes)
	}
}

// What the runs of a cell warn of alike is said once, with their seeds.
func TestWarningsOfRunsAreGathered(t *testing.T) {
	c := Cell{Key: "a"}
	for seed, warnings := range map[int64][]string{0: {"both", "one"}, 1: {"both"}} {
		c.Runs = append(c.Runs, RunResult{ID: fmt.Sprint(seed), Seed: seed, HasResult: true, Result: record.Result{Warnings: warnings}})
	}
	slices.SortFunc(c.Runs, func(a, b RunResult) int { return int(a.Seed - b.Seed) })
	var r Report
	_, err := r.summarize(&c, Primary{})
	must(t, err)
	if want := []string{"a, seeds 0, 1: both", "a, seed 0: one"}; !slices.Equal(r.Warnings, want) {
		t.Errorf("got %q, want %q", r.Warnings, want)
	}
}

func TestColumnsWithoutContents(t *testing.T) {
	in := table{columns: []column{{name: "cell"}, {name: "empty"}, {name: "half"}}, rows: [][]string{{"a", dash, "1"}, {"b", dash, dash}}}
	out := in.withoutEmpty()
	if len(out.columns) != 2 || out.columns[1].name != "half" || !slices.Equal(out.rows[1], []string{"b", dash}) {
		t.Errorf("got %+v", out)
	}
}

func TestSigned(t *testing.T) {
	for v, want := range map[float64]string{-1e-9: "+0.000", 0: "+0.000", -.0006: "−0.001", 2.5: "+2.500", -12345: "−12,345", math.NaN(): dash} {
		if got := signed(v); got != want {
			t.Errorf("signed(%v) is %q, want %q", v, got, want)
		}
	}
	if got := minus("-0.00"); got != "0.00" {
		t.Errorf("got %q", got)
	}
}

func TestSizes(t *testing.T) {
	if got := (Sizes{}).with(1200).with(1200).String(); got != "1,200" {
		t.Errorf("got %q", got)
	}
	if got := (Sizes{}).with(80).with(75).with(90).String(); got != "75–90" {
		t.Errorf("got %q", got)
	}
}

// The word may stand in the primary table only.
func TestSignificantOnlyInPrimary(t *testing.T) {
	r := build(t, demoCells(), seedsTo(5), Options{Times: true})
	d := r.document()
	if !strings.HasPrefix(d.tables[0].title, "Primary") {
		t.Fatalf("first table %q", d.tables[0].title)
	}
	d.tables = d.tables[1:]
	for name, text := range map[string]string{
		"text":     render(t, func(w io.Writer) error { return d.text(w, 0) }),
		"markdown": render(t, d.markdown),
		"html":     render(t, d.html),
		"csv":      render(t, d.csv),
	} {
		if strings.Contains(strings.ToLower(text), "significant") {
			t.Errorf("%s: the word appears outside the primary table", name)
		}
	}
	whole := render(t, func(w io.Writer) error { return r.Text(w, 0) })
	if !strings.Contains(whole, "These checkpoints only") {
		t.Error("the secondary table lacks its title")
	}
}

func TestFewSeeds(t *testing.T) {
	r := build(t, demoCells(), seedsTo(2), Options{})
	for _, row := range r.Primary {
		if row.Verdict != NotTestable || row.Test.HasP {
			t.Errorf("%+v", row)
		}
	}
	if text := render(t, func(w io.Writer) error { return r.Text(w, 0) }); !strings.Contains(text, "not testable across seeds") {
		t.Error("the text does not say so")
	}
	for _, c := range r.Checkpoints {
		if c.McNemar != nil || c.Seeds != 2 {
			t.Errorf("McNemar over two seeds: %+v", c)
		}
	}

	one := build(t, demoCells(), seedsTo(1), Options{})
	if caption := one.scoreTable().caption; !strings.HasSuffix(caption, "one seed it knows the questions' part only.") {
		t.Errorf("the interval of one seed: %q", caption)
	}
	for _, c := range one.Checkpoints {
		if c.McNemar == nil || c.McNemar.P != stats.McNemar(c.McNemar.OnlyCell, c.McNemar.OnlyBaseline) {
			t.Errorf("one seed: %+v", c)
		}
		if want := float64(c.McNemar.OnlyCell-c.McNemar.OnlyBaseline) / demoQuestions; math.Abs(c.Difference-want) > 1e-12 {
			t.Errorf("difference %v, want %v", c.Difference, want)
		}
	}
	if !strings.Contains(one.Sensitivity[0].Basis, "discordance") {
		t.Errorf("sensitivity of one seed: %+v", one.Sensitivity)
	}
}

func TestSensitivity(t *testing.T) {
	r := build(t, demoCells(), seedsTo(5), Options{})
	if len(r.Sensitivity) != 2 || r.Sensitivity[0].Detectable.Observed <= 0 {
		t.Fatalf("%+v", r.Sensitivity)
	}
	want, err := stats.DetectableOverSeeds(0.02, 5, 0.05/4)
	must(t, err)
	if math.Abs(r.Sensitivity[1].Detectable.Observed-want.Observed) > 1e-9 {
		t.Errorf("assumed spread: %+v, want %+v", r.Sensitivity[1], want)
	}
}

func TestSameRunsAndNoResults(t *testing.T) {
	dir, plan := demoStudy(t, demoCells()[:2], seedsTo(3))
	plan.Cells[1].Runs = plan.Cells[0].Runs // resolves alike
	plan.Cells = append(plan.Cells, Cell{Key: "later", Arm: "later", Runs: []RunResult{{ID: "nothing", Seed: 1}}})
	s, err := Load(dir, plan)
	must(t, err)
	r, err := Build(t.Context(), s, Options{})
	must(t, err)
	if r.Primary[0].Verdict != SameRuns || r.Primary[1].Verdict != NoPairs {
		t.Fatalf("%+v", r.Primary)
	}
	render(t, r.HTML)
	if text := render(t, func(w io.Writer) error { return r.Text(w, 80) }); strings.Contains(text, "NaN") {
		t.Errorf("NaN in the text:\n%s", text)
	}
}

func TestStudyWithoutAnyResult(t *testing.T) {
	plan := Study{Name: "s", Primary: Primary{[]string{"test"}, "em"}, Baseline: "a",
		Cells: []Cell{{Key: "a", Runs: []RunResult{{ID: "1", Seed: 1}}}, {Key: "b", Runs: []RunResult{{ID: "2", Seed: 1}}}}}
	s, err := Load(filepath.Join(t.TempDir(), "absent"), plan)
	must(t, err)
	r, err := Build(t.Context(), s, Options{Times: true})
	must(t, err)
	for _, text := range []string{render(t, func(w io.Writer) error { return r.Text(w, 80) }), render(t, r.Markdown), render(t, r.HTML), render(t, r.CSV)} {
		if strings.Contains(text, "NaN") {
			t.Errorf("NaN in %s", text)
		}
	}
}

func TestRefusesDifferentQuestions(t *testing.T) {
	dir, plan := demoStudy(t, demoCells()[:2], seedsTo(3))
	s, err := Load(dir, plan)
	must(t, err)
	questions := s.Cells[1].Runs[1].Questions["test"]
	questions[5].Gold = "another gold"
	_, err = Build(t.Context(), s, Options{})
	var differ *QuestionsDifferError
	if !errors.As(err, &differ) || len(differ.Golds) != 1 || differ.Golds[0] != "q005" || !strings.Contains(err.Error(), "golds differ") {
		t.Fatalf("golds: %v", err)
	}
	questions[5].ID = "q999"
	if _, err = Build(t.Context(), s, Options{}); !errors.As(err, &differ) || len(differ.Missing) != 2 {
		t.Fatalf("questions: %v", err)
	}
	if _, err := Compare(s.Cells[0].Runs[1], s.Cells[1].Runs[1], nil, Options{}); !errors.As(err, &differ) {
		t.Fatalf("compare: %v", err)
	}
}

func TestWorldsPerSeed(t *testing.T) {
	dir, plan := demoStudy(t, demoCells()[:2], seedsTo(3))
	s, err := Load(dir, plan)
	must(t, err)
	// Seed 2 is another world: the same ids ask something else in both cells.
	for c := range s.Cells {
		for i := range s.Cells[c].Runs[1].Questions["test"] {
			s.Cells[c].Runs[1].Questions["test"][i].Gold += " of world 2"
		}
	}
	r, err := Build(t.Context(), s, Options{})
	must(t, err)
	if len(r.Primary[0].Seeds) != 3 || r.Checkpoints[0].Questions != 2*demoQuestions || r.Cells[0].Interval != nil || !containsAny(r.Notes, "different questions") {
		t.Fatalf("%+v %+v %q", r.Primary[0], r.Checkpoints[0], r.Notes)
	}
}

func TestRecordsMustAgree(t *testing.T) {
	dir, plan := demoStudy(t, demoCells()[:2], seedsTo(3))
	s, err := Load(dir, plan)
	must(t, err)
	s.Cells[1].Runs[0].Questions["test"][0].Values["em"] = 1 - s.Cells[1].Runs[0].Questions["test"][0].Values["em"]
	if _, err := Build(t.Context(), s, Options{}); err == nil || !strings.Contains(err.Error(), "was one of them changed") {
		t.Fatalf("changed record: %v", err)
	}
	delete(s.Cells[1].Runs[0].Questions["test"][3].Values, "em")
	if _, err := Build(t.Context(), s, Options{}); err == nil || !strings.Contains(err.Error(), `"em"`) {
		t.Fatalf("missing metric: %v", err)
	}
}

func TestStaleRunsAreLeftOut(t *testing.T) {
	dir, plan := demoStudy(t, demoCells()[:2], seedsTo(4))
	j, err := record.OpenJournal(record.Study{Dir: dir}.JournalPath())
	must(t, err)
	must(t, j.Append(record.Event{Run: plan.Cells[1].Runs[0].ID, Event: record.Stale, Message: "dataset.train changed"}))
	must(t, j.Close())
	s, err := Load(dir, plan)
	must(t, err)
	r, err := Build(t.Context(), s, Options{})
	must(t, err)
	if len(r.Primary[0].Seeds) != 3 || !containsAny(r.Warnings, "dataset.train changed") {
		t.Fatalf("%+v %q", r.Primary[0], r.Warnings)
	}
}

func TestStudyChecks(t *testing.T) {
	run := []RunResult{{ID: "r", Seed: 1}}
	for name, s := range map[string]Study{
		"no primary":  {Baseline: "a", Cells: []Cell{{Key: "a", Runs: run}}},
		"no baseline": {Primary: Primary{[]string{"t"}, "em"}, Baseline: "x", Cells: []Cell{{Key: "a", Runs: run}}},
		"no cells":    {Primary: Primary{[]string{"t"}, "em"}},
		"twice":       {Primary: Primary{[]string{"t"}, "em"}, Baseline: "a", Cells: []Cell{{Key: "a", Runs: run}, {Key: "a", Runs: run}}},
		"seed twice":  {Primary: Primary{[]string{"t"}, "em"}, Baseline: "a", Cells: []Cell{{Key: "a", Runs: append(run, run...)}}},
	} {
		if _, err := Build(t.Context(), s, Options{}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestDiscover(t *testing.T) {
	dir, plan := demoStudy(t, demoCells(), seedsTo(3))
	cells := plan.Cells
	plan.Cells = nil
	s, err := Load(dir, plan)
	must(t, err)
	if len(s.Cells) != len(cells) {
		t.Fatalf("%d cells, want %d", len(s.Cells), len(cells))
	}
	if _, err := Build(t.Context(), s, Options{}); err != nil {
		t.Fatal(err)
	}
}

func TestLoadRefuses(t *testing.T) {
	dir, plan := demoStudy(t, demoCells()[:1], seedsTo(1))
	run := record.Study{Dir: dir}.Run(plan.Cells[0].Runs[0].ID)
	res, _, err := run.ReadResult()
	must(t, err)
	change := func(f func(*record.Result)) error {
		bad := res
		bad.Evaluations = append([]record.Evaluation{}, res.Evaluations...)
		f(&bad)
		must(t, run.WriteResult(bad))
		_, err := Load(dir, plan)
		return err
	}
	if err := change(func(r *record.Result) { r.Evaluations[0].Questions = "../../x" }); err == nil || !strings.Contains(err.Error(), "not inside") {
		t.Errorf("path out of the run: %v", err)
	}
	if err := change(func(r *record.Result) { r.Evaluations[0].N = 7 }); err == nil || !strings.Contains(err.Error(), "120") {
		t.Errorf("wrong number of questions: %v", err)
	}
	if err := change(func(r *record.Result) { r.Seed = 9 }); err == nil || !strings.Contains(err.Error(), "seed 9") {
		t.Errorf("wrong seed: %v", err)
	}
	must(t, os.WriteFile(run.ResultPath(), []byte("{"), 0o644))
	if _, err := Load(dir, plan); err == nil || !strings.Contains(err.Error(), "result.json:1") {
		t.Errorf("damaged result: %v", err)
	}
}

func TestManyDatasets(t *testing.T) {
	dir, plan := demoStudy(t, demoCells()[:2], seedsTo(5))
	s, err := Load(dir, plan)
	must(t, err)
	for c := range s.Cells {
		for i := range s.Cells[c].Runs {
			q := s.Cells[c].Runs[i].Questions
			q["second"], q["third"] = q["test"], q["test"]
		}
	}
	s.Primary.Evaluations = []string{"test", "second", "third"}
	r, err := Build(t.Context(), s, Options{})
	must(t, err)
	if len(r.Aggregates) != 2 || !math.IsNaN(r.Aggregates[0].Improvement) || r.Aggregates[1].Improvement < 0 || r.Aggregates[1].Improvement > 1 {
		t.Fatalf("%+v", r.Aggregates)
	}
	if len(r.Checkpoints) != 3 {
		t.Errorf("%d rows over questions, want one per evaluation", len(r.Checkpoints))
	}
	// The macro-average of three equal data sets is the figure of one.
	single := s
	single.Primary.Evaluations = []string{"test"}
	one, err := Build(t.Context(), single, Options{})
	must(t, err)
	if math.Abs(one.Primary[0].Test.Mean-r.Primary[0].Test.Mean) > 1e-12 {
		t.Errorf("macro-average %v, want %v", r.Primary[0].Test.Mean, one.Primary[0].Test.Mean)
	}
}

func TestDeterministicWithoutTimes(t *testing.T) {
	dir, plan := demoStudy(t, demoCells(), seedsTo(4))
	s, err := Load(dir, plan)
	must(t, err)
	var outs [2]string
	for i := range outs {
		for c := range s.Cells {
			for k := range s.Cells[c].Runs {
				// What differs between two machines that computed the same.
				run := &s.Cells[c].Runs[k]
				run.Result.Finished = run.Result.Finished.AddDate(i, 0, 0)
				run.Result.Budgets.WallSeconds *= float64(1 + i)
				for l := range run.History {
					run.History[l].Time = run.History[l].Time.AddDate(i, 0, 0)
				}
			}
		}
		r, err := Build(t.Context(), s, Options{})
		must(t, err)
		outs[i] = render(t, r.HTML) + render(t, r.CSV) + render(t, r.Markdown) + render(t, func(w io.Writer) error { return r.Text(w, 100) })
	}
	if outs[0] != outs[1] {
		t.Fatal("reports differ by times only, but their bytes differ")
	}
	if strings.Contains(outs[0], "wall") {
		t.Error("wall time in a report without times")
	}
}

// Everything that a study or a plugin can name is written as text, whatever it holds.
func TestHostileNames(t *testing.T) {
	evil := "x</title><script>alert(1)</script> \x1b[31m| *b* `c` [l](http://e) \u202etxt\n# h"
	dir, plan := demoStudy(t, demoCells()[:2], seedsTo(3))
	s, err := Load(dir, plan)
	must(t, err)
	s.Name, s.Description = evil, evil
	s.Cells[1].Key, s.Cells[1].Arm, s.Cells[1].Label = evil, evil, evil
	s.Cells[1].Axes = map[string]string{evil: evil}
	for i := range s.Cells[1].Runs {
		run := &s.Cells[1].Runs[i]
		run.Result.Warnings = []string{evil}
		run.History = append(run.History, record.MetricsLine{Step: 61, Values: record.Values{evil: 1}})
	}
	r, err := Build(t.Context(), s, Options{})
	must(t, err)
	page := render(t, r.HTML)
	if strings.Contains(page, "<script") || strings.ContainsAny(page, "\x1b\u202e") {
		t.Error("HTML: names become markup")
	}
	checkWellFormed(t, page)
	text := render(t, func(w io.Writer) error { return r.Text(w, 80) })
	if strings.ContainsAny(text, "\x1b\u202e") || strings.Contains(text, "\n# h") {
		t.Error("text: names reach the terminal")
	}
	md := render(t, r.Markdown)
	if strings.Contains(md, "<script") || regexp.MustCompile(`[^\\]\[l\]`).MatchString(md) || strings.Contains(md, "\n# h") {
		t.Error("Markdown: names become markup")
	}
	// Every row of a table has as many bars as the row above it.
	bars, last := regexp.MustCompile(`(^|[^\\])\|`), 0
	for line := range strings.Lines(md) {
		n := len(bars.FindAllString(line, -1))
		if !strings.HasPrefix(line, "|") {
			n = 0
		}
		if n > 0 && last > 0 && n != last {
			t.Errorf("Markdown: a cell breaks its row: %s", line)
		}
		last = n
	}
	if _, err := csv.NewReader(strings.NewReader(render(t, r.CSV))).ReadAll(); err != nil {
		t.Errorf("CSV: %v", err)
	}
}

// checkWellFormed parses the page as XML after closing the void elements, and refuses references to other places.
func checkWellFormed(t *testing.T, page string) {
	t.Helper()
	void := regexp.MustCompile(`<(meta|br|hr)([^>]*[^/])>`)
	d := xml.NewDecoder(strings.NewReader(void.ReplaceAllString(strings.TrimPrefix(page, "<!DOCTYPE html>\n"), "<$1$2/>")))
	d.Entity = xml.HTMLEntity
	ids := map[string]bool{}
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("page is not well-formed: %v", err)
		}
		el, ok := tok.(xml.StartElement)
		if !ok {
			continue
		}
		if el.Name.Local == "script" || el.Name.Local == "link" || el.Name.Local == "img" {
			t.Errorf("page holds <%s>", el.Name.Local)
		}
		for _, a := range el.Attr {
			switch a.Name.Local {
			case "src", "href", "style":
				t.Errorf("page holds %s=%q", a.Name.Local, a.Value)
			case "id":
				if ids[a.Value] {
					t.Errorf("id %q is there twice", a.Value)
				}
				ids[a.Value] = true
			}
		}
	}
	for _, m := range regexp.MustCompile(`aria-labelledby="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		for id := range strings.FieldsSeq(m[1]) {
			if !ids[id] {
				t.Errorf("label %q is missing", id)
			}
		}
	}
	if strings.Contains(page, "url(") || strings.Contains(page, "@import") {
		t.Error("page loads from elsewhere")
	}
}

func TestPage(t *testing.T) {
	page := render(t, build(t, demoCells(), seedsTo(5), Options{Times: true}).HTML)
	checkWellFormed(t, page)
	if !strings.Contains(page, "3 of 60 values are not finite") {
		t.Error("the page does not say that values are not finite")
	}
	if n := strings.Count(page, "<svg"); n != 6 {
		t.Errorf("%d figures, want 2 forests and 4 curves", n)
	}
	if strings.Contains(page, "NaN") {
		t.Error("NaN in the page")
	}
}

func TestTextWidth(t *testing.T) {
	r := build(t, demoCells(), seedsTo(5), Options{})
	for _, width := range []int{60, 80, 120} {
		for line := range strings.Lines(render(t, func(w io.Writer) error { return r.Text(w, width) })) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > width {
				t.Errorf("width %d: line of %d: %s", width, n, line)
			}
		}
	}
}

func TestCompare(t *testing.T) {
	dir, plan := demoStudy(t, demoCells(), seedsTo(2))
	s, err := Load(dir, plan)
	must(t, err)
	base, tree, david := s.Cells[0].Runs[0], s.Cells[2].Runs[0], s.Cells[3].Runs[0]
	c, err := Compare(tree, base, nil, Options{})
	must(t, err)
	if len(c.Warnings) != 1 || c.Warnings[0] != "undeclared difference: index.dense" {
		t.Errorf("warnings %q", c.Warnings)
	}
	if c, err := Compare(tree, base, []string{"index"}, Options{}); err != nil || len(c.Warnings) != 0 {
		t.Errorf("declared: %v %v", c, err)
	}
	c, err = Compare(david, base, nil, Options{})
	must(t, err)
	text := render(t, func(w io.Writer) error { return c.Text(w, 100) })
	golden(t, "compare.txt", text)
	if strings.Contains(text, "significant") {
		t.Error("a comparison of two runs speaks of significance")
	}
	checkWellFormed(t, render(t, c.HTML))
	render(t, c.Markdown)
	render(t, c.CSV)
	self, err := Compare(base, base, nil, Options{})
	must(t, err)
	for _, row := range self.Rows {
		if row.Difference != 0 || row.Test.P != 1 {
			t.Errorf("a run against itself: %+v", row)
		}
	}
	if _, err := Compare(base, RunResult{ID: "open"}, nil, Options{}); err == nil || !strings.Contains(err.Error(), "no result yet") {
		t.Errorf("unfinished run: %v", err)
	}
}

func TestCurves(t *testing.T) {
	line := func(step int, v float64) record.MetricsLine {
		return record.MetricsLine{Step: step, Values: record.Values{"x": v}}
	}
	c := curves(&Study{Cells: []Cell{{Key: "a", Runs: []RunResult{
		{Seed: 1, History: []record.MetricsLine{line(1, 1), line(2, 5), line(2, 3), line(3, 9)}},
		{Seed: 2, History: []record.MetricsLine{line(1, 3), line(2, math.NaN())}},
	}}}}, Options{})
	if len(c) != 1 || len(c[0].Cells[0].Runs[0].Points) != 3 || c[0].Cells[0].Runs[0].Points[1].Value != 3 {
		t.Fatalf("%+v", c)
	}
	if m := c[0].Cells[0].Mean; len(m) != 1 || m[0] != (Point{1, 2}) {
		t.Errorf("mean %v: only step 1 is there for both", m)
	}
	var long []Point
	for i := range 10_000 {
		long = append(long, Point{i, float64(i)})
	}
	thinned := thin(long)
	if len(thinned) != maxPoints || thinned[0].Value >= thinned[1].Value {
		t.Errorf("thinned to %d points", len(thinned))
	}
}

// What people look at comes first: the primary figure, then what changes over steps, known metrics before others.
func TestOrderOfCurves(t *testing.T) {
	var history []record.MetricsLine
	for step := range 3 {
		values := record.Values{"train/loss": 1, "eval/test/answered": 1, "eval/test/em": 1, "eval/test/f1": 1, "episode/reward": 1, "eval/test/evidence_all": 1, "time/step": 1}
		if step == 2 {
			values["eval/other/em"] = 1
		}
		history = append(history, record.MetricsLine{Step: step, Values: values})
	}
	var got []string
	for _, c := range curves(&Study{Primary: Primary{Evaluations: []string{"test"}, Metric: "f1"}, Cells: []Cell{{Key: "a", Runs: []RunResult{{History: history}}}}}, Options{}) {
		got = append(got, c.Metric)
	}
	want := []string{"eval/test/f1", "episode/reward", "eval/test/em", "eval/test/evidence_all", "eval/test/answered", "train/loss", "eval/other/em"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTicks(t *testing.T) {
	for _, c := range [][2]float64{{0, 1}, {0.31, 0.33}, {-5, 1200}, {1e-9, 2e-9}, {5, 5}, {.12, .94}, {.12, .59}, {2, 19}, {1e17, 1e17 + 16}} {
		a := newAxis([]float64{c[0], c[1], math.NaN()}, 0, 100, 0.05)
		if few := a.ticks(4); len(few) < 2 {
			t.Errorf("%v: ticks %v: one alone gives no scale", c, few)
		}
		ticks := a.ticks(5)
		if len(ticks) < 2 || len(ticks) > 11 {
			t.Errorf("%v: ticks %v", c, ticks)
		}
		for _, v := range ticks {
			if p := a.at(v); p < -1e-6 || p > 100+1e-6 {
				t.Errorf("%v: tick %v lies outside", c, v)
			}
		}
	}
	if got := tickLabel(0.1 + 0.2); got != "0.3" {
		t.Errorf("label %s", got)
	}
}

func TestNumbers(t *testing.T) {
	for in, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", -1234567: "−1,234,567", 12345678: "12,345,678"} {
		if got := count(in); got != want {
			t.Errorf("count(%d) = %s, want %s", in, got, want)
		}
	}
	if signed(-0.0314) != "−0.031" || signed(0.5) != "+0.500" || figure(math.NaN()) != dash || pValue(0.0004) != "<0.001" || pValue(0.0312) != "0.031" {
		t.Error("formats changed")
	}
}

// TestEvaluationsOfSomeCells: a table has the cells that its evaluation belongs to, and those without any result yet.
func TestEvaluationsOfSomeCells(t *testing.T) {
	cell := func(key string, evaluations ...string) Cell {
		r := RunResult{ID: key, Seed: 1, HasResult: len(evaluations) > 0, Result: record.Result{Status: record.Done}, Questions: map[string][]record.QuestionResult{}}
		for _, e := range evaluations {
			r.Questions[e] = []record.QuestionResult{{ID: "q", Values: map[string]float64{"em": 1}}}
		}
		return Cell{Key: key, Runs: []RunResult{r}}
	}
	s := &Study{Primary: Primary{Evaluations: []string{"test"}, Metric: "em"}, Cells: []Cell{cell("a", "test"), cell("b", "test", "more"), cell("c")}}
	var r Report
	r.describe(s)
	got := map[string][]string{}
	for _, e := range r.Evaluations {
		for _, row := range e.Rows {
			got[e.Name] = append(got[e.Name], row.Cell)
		}
	}
	if want := map[string][]string{"test": {"a", "b", "c"}, "more": {"b", "c"}}; !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("tables of %v, want %v", got, want)
	}
}
