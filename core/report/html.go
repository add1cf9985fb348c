package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
)

//go:embed page.tmpl
var pageTemplate string

// openCurves is how many learning curves are shown without a click.
const openCurves = 6

// HTML writes the report as a page of its own: no scripts, nothing loaded from elsewhere.
func (r *Report) HTML(w io.Writer) error { return r.document().html(w) }

type page struct {
	Title           string
	Lead            []string
	Warnings, Notes []string
	First           []pageTable // above the figures
	Forests         []pageFigure
	Tables          []pageTable
	Legend          []legendEntry
	Curves, More    []pageFigure
}

type pageTable struct {
	ID, Title, Caption string
	Columns            []pageCell
	Rows               [][]pageCell
}

type pageCell struct {
	Text   string
	Number bool
	Class  string
}

type pageFigure struct {
	Title, Caption string
	Remarks        []string
	SVG            template.HTML
}

type legendEntry struct{ Class, Name string }

func (d document) html(w io.Writer) error {
	p := page{Title: printable(d.title)}
	for _, list := range []struct {
		from []string
		to   *[]string
	}{{d.lead, &p.Lead}, {d.warnings, &p.Warnings}, {d.notes, &p.Notes}} {
		for _, s := range list.from {
			*list.to = append(*list.to, printable(s))
		}
	}
	for i, t := range d.tables {
		pt := htmlTable(fmt.Sprintf("t%d", i+1), t)
		if i == 0 {
			p.First = append(p.First, pt)
		} else {
			p.Tables = append(p.Tables, pt)
		}
	}
	for i, f := range d.forests {
		// The SVG builders escape every text that they place.
		p.Forests = append(p.Forests, pageFigure{Title: printable(f.title), Caption: f.caption, SVG: template.HTML(forestSVG(fmt.Sprintf("f%d", i+1), f))})
	}
	if len(d.curves) > 0 {
		for i, name := range d.cells {
			p.Legend = append(p.Legend, legendEntry{lineClass(i), printable(name)})
		}
	}
	for i, c := range d.curves {
		f := pageFigure{Title: printable(c.Metric), SVG: template.HTML(curveSVG(fmt.Sprintf("m%d", i+1), c, d.cells))}
		for _, s := range notFinite(c) {
			f.Remarks = append(f.Remarks, printable(s))
		}
		if i < openCurves {
			p.Curves = append(p.Curves, f)
		} else {
			p.More = append(p.More, f)
		}
	}
	t, err := template.New("page").Parse(pageTemplate)
	if err != nil {
		return fmt.Errorf("report page: %w", err)
	}
	if err := t.Execute(w, p); err != nil {
		return fmt.Errorf("write report page: %w", err)
	}
	return nil
}

func htmlTable(id string, t table) pageTable {
	out := pageTable{ID: id, Title: printable(t.title), Caption: printable(t.caption)}
	for _, c := range t.columns {
		out.Columns = append(out.Columns, pageCell{Text: printable(c.name), Number: c.number})
	}
	for _, row := range t.rows {
		var cells []pageCell
		for i, text := range row {
			cell := pageCell{Text: printable(text), Number: t.columns[i].number}
			if t.columns[i].name == "verdict" {
				cell.Class = "verdict"
				if text == Significant {
					cell.Class = "verdict yes"
				}
			}
			cells = append(cells, cell)
		}
		out.Rows = append(out.Rows, cells)
	}
	return out
}
