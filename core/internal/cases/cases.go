// Package cases reads tests that keep their input files and the expected output in one file. It is for tests.
package cases

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the output as the expected one")

// wantName is the section that holds the expected output.
const wantName = "want"

// Case is one file of sections, each begun by a line "-- name --".
type Case struct {
	Name  string
	Dir   string // where the input files have been written
	Flags []string
	want  string
	path  string
	head  string // everything before the expected output
}

// Run runs f for every file that matches the pattern. base holds files that every case begins with, by name. f gives
// the output; places in files of the case's folder should be written relative to it.
func Run(t *testing.T, pattern string, base map[string]string, f func(t *testing.T, c Case) string) {
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cases match %s (%v)", pattern, err)
	}
	for _, path := range paths {
		name, _, _ := strings.Cut(filepath.Base(path), ".")
		t.Run(name, func(t *testing.T) {
			c := read(t, path, base)
			got := strings.ReplaceAll(f(t, c), c.Dir+string(filepath.Separator), "")
			got = strings.ReplaceAll(got, c.Dir, ".")
			if *update {
				if err := os.WriteFile(path, []byte(c.head+"-- "+wantName+" --\n"+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != c.want {
				t.Errorf("%s: got\n%s\nwant\n%s", path, got, c.want)
			}
		})
	}
}

func read(t *testing.T, path string, base map[string]string) Case {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c := Case{Name: path, Dir: t.TempDir(), path: path}
	for name, text := range base {
		write(t, c.Dir, name, text)
	}
	section, body := "", &strings.Builder{}
	finish := func() {
		switch section {
		case "":
			for line := range strings.Lines(body.String()) {
				if flags, ok := strings.CutPrefix(line, "flags:"); ok {
					c.Flags = strings.Fields(flags)
				}
			}
		case wantName:
			c.want = body.String()
		default:
			write(t, c.Dir, section, body.String())
		}
		body.Reset()
	}
	for line := range strings.Lines(string(data)) {
		if name, ok := header(line); ok {
			finish()
			section = name
		} else {
			body.WriteString(line)
		}
		if section != wantName {
			c.head += line
		}
	}
	finish()
	return c
}

// header is the name in a line "-- name --".
func header(line string) (string, bool) {
	line = strings.TrimSuffix(line, "\n")
	if !strings.HasPrefix(line, "-- ") || !strings.HasSuffix(line, " --") || len(line) < 7 {
		return "", false
	}
	return line[3 : len(line)-3], true
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
