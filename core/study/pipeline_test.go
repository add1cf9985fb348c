package study

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/record"
)

const pipeline = "testdata/pipeline"

// TestPipelineResumes: episodes and a table are produced with several policies and agents, copied from, and read as
// annotations; a run that is killed twice in the stage that produces gives the same artefacts byte for byte, the same
// episodes and the same weights as one left alone.
func TestPipelineResumes(t *testing.T) {
	e := thirdParty(t, "pipeline")
	p, err := e.plan(t.Context(), pipeline, "pipeline", nil)
	if err != nil {
		t.Fatal(err)
	}
	whole, broken := t.TempDir(), t.TempDir()
	if summary, err := Execute(t.Context(), e.options(p, whole)); err != nil || summary.Done != 1 {
		t.Fatalf("%v, %+v", err, summary)
	}
	killedIn(t, pipeline, broken, e.cache, "pipeline", 2)
	killedIn(t, pipeline, broken, e.cache, "pipeline", 1)
	killedIn(t, pipeline, broken, e.cache, "pipeline", 6)
	if summary, err := Execute(t.Context(), e.options(p, broken)); err != nil || summary.Done != 1 {
		t.Fatalf("%v, %+v", err, summary)
	}
	one, two := record.Study{Dir: whole}.Run(p.Runs[0].ID), record.Study{Dir: broken}.Run(p.Runs[0].ID)
	a, _, err := one.ReadResult()
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := two.ReadResult()
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Artefacts) != 2 || a.Artefacts[0].Kind != "episodes" || a.Artefacts[1].Kind != "table" || a.Artefacts[1].Items != 12 {
		t.Fatalf("artefacts %+v", a.Artefacts)
	}
	if b.Attempts != 4 || b.Artefacts[0].Attempt != 3 || b.ResumedInexact {
		t.Errorf("%d attempts, inexact %v, artefacts %+v: the test killed nothing", b.Attempts, b.ResumedInexact, b.Artefacts)
	}
	for i := range a.Artefacts {
		if a.Artefacts[i].Digest != b.Artefacts[i].Digest {
			t.Errorf("artefact %s has digest %s, after resuming %s", a.Artefacts[i].Name, a.Artefacts[i].Digest, b.Artefacts[i].Digest)
		}
		if !bytes.Equal(artefactBytes(t, one, a.Artefacts[i]), artefactBytes(t, two, b.Artefacts[i])) {
			t.Errorf("artefact %s differs after resuming", a.Artefacts[i].Name)
		}
	}
	if a.EpisodesDigest != b.EpisodesDigest {
		t.Error("episodes differ after resuming")
	}
	if a.Checkpoint.Digest != b.Checkpoint.Digest || a.Checkpoint.Policies["student"] != b.Checkpoint.Policies["student"] {
		t.Error("weights differ after resuming")
	}
	metrics := map[string]record.Values{}
	for _, e := range a.Evaluations {
		metrics[e.Name] = e.Metrics
	}
	if metrics["teacher"]["em"] <= metrics["test"]["em"] {
		t.Errorf("the teacher is evaluated as itself: %v", metrics)
	}
	three := map[string]bool{a.Checkpoint.Digest: true}
	for _, role := range []string{"student", "teacher"} {
		three[a.Checkpoint.Weights(role)] = true
	}
	if len(three) != 3 || three[""] {
		t.Errorf("main, student and teacher end with weights of their own: %v", three)
	}
	lines, err := record.ReadMetrics(one)
	if err != nil {
		t.Fatal(err)
	}
	copied, reinforced := 0., 0.
	for _, l := range lines {
		copied += l.Values["experts/episodes"]
		reinforced += l.Values["reward/outcome"]
	}
	if copied < 12 || reinforced <= 0 {
		t.Errorf("%v experts copied, rewards %v", copied, reinforced)
	}
}

func artefactBytes(t *testing.T, r record.Run, a record.Artefact) []byte {
	t.Helper()
	attempts, err := r.Attempts()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(attempts[a.Attempt-1].ArtefactsDir(), a.Name+".jsonl.zst"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestWrongArtefacts: whatever a stage gets wrong about its artefacts fails its run with a message that says so.
func TestWrongArtefacts(t *testing.T) {
	e := thirdParty(t, "pipeline")
	for wrong, want := range map[string]string{
		"undeclared": `artefact "others": the stage declares [episodes tau]`,
		"unwritten":  `wrote nothing to the artefact "tau"`,
		"update":     "sends updates in a stage that produces",
		"question":   `question "nobody" is none of the step's`,
		"twice":      "is in it twice",
		"mixed":      "episodes and values by question",
	} {
		p, err := e.plan(t.Context(), pipeline, "pipeline", map[string]string{"wrong": wrong})
		if err != nil {
			t.Fatal(err)
		}
		summary, err := Execute(t.Context(), e.options(p, t.TempDir()))
		if err != nil {
			t.Fatal(err)
		}
		if got := summary.Errors[p.Runs[0].ID]; got == nil || !strings.Contains(got.Error(), want) {
			t.Errorf("%s: got %v, want %q", wrong, got, want)
		}
	}
	if _, err := e.plan(t.Context(), pipeline, "pipeline", map[string]string{"wrong": "train"}); err == nil || !strings.Contains(err.Error(), "No earlier stage produces") {
		t.Errorf("a stage that produces nothing for later ones: %v", err)
	}
}
