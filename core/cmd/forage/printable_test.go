package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/host"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/schema"
)

// TestControlCharacters: what others wrote reaches the terminal without the characters that steer one.
func TestControlCharacters(t *testing.T) {
	const evil = "\x1b[2J\a\u009b1m\u202e\r" // escapes of seven and eight bits, a bell, text backwards, back to the start of the line
	text := "first" + evil + "\n\tsecond é 日本"
	var out bytes.Buffer
	a := &app{out: &out, err: &out}
	a.fail(errors.New(text))
	a.warn("%s", text)
	a.logger(&out).Warn(text, "plugin", text)
	newPainter(a).say("%s", text)
	describePlugin(&out, host.PluginInfo{Label: text, Description: text, Source: text, Schema: schema.Schema{
		Attributes: []schema.Attribute{{Name: text, Description: text, Enum: []string{text}, Default: text}},
	}})
	writeEpisode(&out, episode.Episode{ID: text, Sequences: []episode.Sequence{{Prompt: text}}, Turns: []episode.Turn{{
		Text: text, Observation: text, Error: text, Hits: []episode.Hit{{Title: text}},
	}}}, "", nil)
	study, _ := experiment.Load(t.Context(), "nowhere", experiment.Inputs{}, nil)
	if err := a.diagnose(study, hcl.Diagnostics{{Severity: hcl.DiagWarning, Summary: text, Detail: text}}); err != nil {
		t.Fatal(err)
	}
	if i := strings.IndexAny(out.String(), "\x1b\a\u009b\u202e\r"); i >= 0 {
		t.Errorf("%q is printed", out.String()[i:i+3])
	}
	if n := strings.Count(out.String(), "second é 日本"); n < 15 {
		t.Errorf("the rest is printed only %d times:\n%s", n, out.String())
	}
}
