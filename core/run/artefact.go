package run

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/forage-rl/forage/core/dataset"
	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/record"
	"github.com/forage-rl/forage/core/rollout"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// Kinds of artefacts.
const (
	artefactEpisodes = "episodes"
	artefactTable    = "table"
)

// produced is an artefact as a run's state knows it. While its stage goes on it is in parts, one for each step that
// wrote to it, in the folder of the attempt that did the step; then it is one file.
type produced struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	Items   int    `json:"items"`             // lines
	Digest  string `json:"digest,omitempty"`  // of the lines
	Attempt int    `json:"attempt,omitempty"` // whose folder has the file; 0 while it is in parts
	Parts   []part `json:"parts,omitempty"`
}

type part struct {
	Step   int    `json:"step"` // over all stages, from 1
	Items  int    `json:"items"`
	Digest string `json:"digest"`
}

// line is one line of an artefact: an episode, or the values of a question in a table.
type line struct {
	Question episode.Question `json:"question"`
	Values   map[string]any   `json:"values,omitempty"`
	Episode  *stored          `json:"episode,omitempty"`
}

// stored is an episode with what it takes to train on it later. It holds nothing that depends on the clock.
type stored struct {
	episode.Episode
	Agent     string      `json:"agent,omitempty"` // digest of the agent that asked; "" where several did
	Tokenizer string      `json:"tokenizer"`       // digest of the one that the tokens are of
	Tokens    [][]int32   `json:"tokens"`
	LogProbs  [][]float32 `json:"log_probs"`
}

// agentDigest names an agent in an artefact.
func agentDigest(key string) string {
	if key == "" {
		return ""
	}
	return digestOf([]byte(key))
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func artefactFile(a record.Attempt, name string) string {
	return filepath.Join(a.ArtefactsDir(), name+".jsonl.zst")
}

func partFile(a record.Attempt, name string, step int) string {
	return filepath.Join(a.ArtefactsDir(), name, fmt.Sprintf("step-%06d.jsonl.zst", step))
}

// takeArtefacts writes what a step gives to artefacts, as parts.
func (s *stage) takeArtefacts(st *step, list []sdk.Artefact) error {
	r, global := s.run, s.run.state.Global+1
	if len(list) > 0 && len(s.config.Produce) == 0 {
		return fmt.Errorf("algorithm %q wrote the artefact %q in a stage that does not produce any; set produce = [%q]: %w", s.config.Algorithm.Label, list[0].Name, list[0].Name, sdk.ErrInvalidRequest)
	}
	lines := map[string][]line{}
	for _, a := range list {
		fail := func(format string, args ...any) error {
			return fmt.Errorf("algorithm %q, artefact %q: "+format+": %w", append(append([]any{s.config.Algorithm.Label, a.Name}, args...), sdk.ErrInvalidRequest)...)
		}
		if !slices.Contains(s.config.Produce, a.Name) {
			return fail("the stage declares %v", s.config.Produce)
		}
		if len(a.EpisodeIDs) > 0 && len(a.ByQuestion) > 0 {
			return fail("it holds episodes and values by question; it must be one of the two")
		}
		for _, id := range a.EpisodeIDs {
			l, err := st.storedLine(id)
			if err != nil {
				return fail("%v", err)
			}
			if slices.ContainsFunc(lines[a.Name], func(have line) bool { return have.Episode != nil && have.Episode.ID == id }) {
				return fail("episode %q is in it twice", id)
			}
			lines[a.Name] = append(lines[a.Name], l)
		}
		for _, id := range sorted(a.ByQuestion) {
			q, ok := st.questions[id]
			if !ok {
				return fail("question %q is none of the step's", id)
			}
			lines[a.Name] = append(lines[a.Name], line{Question: q.plain, Values: a.ByQuestion[id]})
		}
	}
	for _, name := range sorted(lines) {
		p := r.state.producing(name, kindOf(lines[name]))
		if p.Kind != kindOf(lines[name]) {
			return fmt.Errorf("algorithm %q, artefact %q: it was of %s before, now it is of %s: %w", s.config.Algorithm.Label, name, p.Kind, kindOf(lines[name]), sdk.ErrInvalidRequest)
		}
		digest, err := writeLines(partFile(r.attempt, name, global), lines[name])
		if err != nil {
			return fmt.Errorf("artefact %q: %w", name, err)
		}
		p.Parts = append(p.Parts, part{global, len(lines[name]), digest})
		p.Items += len(lines[name])
	}
	return nil
}

func kindOf(lines []line) string {
	if lines[0].Episode != nil {
		return artefactEpisodes
	}
	return artefactTable
}

// storedLine makes the line of an episode.
func (st *step) storedLine(id string) (line, error) {
	ep, ok := st.episodes[id]
	if !ok {
		return line{}, fmt.Errorf("episode %q: %w", id, sdk.ErrUnknownEpisode)
	}
	by := st.made[id]
	kept := stored{Episode: ep.Episode, Tokens: ep.Tokens, LogProbs: ep.LogProbs, Agent: agentDigest(by.key), Tokenizer: by.model.tokens}
	if ep.TextOnly {
		kept.Tokens, kept.LogProbs, kept.Tokenizer = nil, nil, ""
	}
	kept.Turns = slices.Clone(ep.Turns)
	for i := range kept.Turns {
		kept.Turns[i].LatencySeconds = 0
	}
	return line{Question: st.questions[ep.QuestionID].plain, Episode: &kept}, nil
}

// producing gives the artefact of a name, which is new where nothing was written to it before.
func (s *state) producing(name, kind string) *produced {
	for i := range s.Artefacts {
		if s.Artefacts[i].Name == name {
			return &s.Artefacts[i]
		}
	}
	s.Artefacts = append(s.Artefacts, produced{Name: name, Kind: kind})
	return &s.Artefacts[len(s.Artefacts)-1]
}

// finishArtefacts makes one file of the parts of each artefact of the stage.
func (s *stage) finishArtefacts() error {
	r := s.run
	for _, name := range s.config.Produce {
		at := slices.IndexFunc(r.state.Artefacts, func(p produced) bool { return p.Name == name })
		if at < 0 {
			if r.stopped != "" {
				continue
			}
			return fmt.Errorf("algorithm %q wrote nothing to the artefact %q, which the stage declares", s.config.Algorithm.Label, name)
		}
		p := &r.state.Artefacts[at]
		var lines []line
		for _, part := range p.Parts {
			attempt, ok, err := r.Dir.AttemptOf(part.Step)
			if err != nil {
				return err
			}
			if !ok {
				return fmt.Errorf("artefact %q: no attempt of the run did step %d", name, part.Step)
			}
			more, err := readLines(partFile(attempt, name, part.Step), part.Digest)
			if err != nil {
				return fmt.Errorf("artefact %q: %w", name, err)
			}
			lines = append(lines, more...)
		}
		if p.Kind == artefactTable {
			lines = mergeTable(lines)
		}
		digest, err := writeLines(artefactFile(r.attempt, name), lines)
		if err != nil {
			return fmt.Errorf("artefact %q: %w", name, err)
		}
		*p = produced{Name: name, Kind: p.Kind, Items: len(lines), Digest: digest, Attempt: r.attempt.N}
	}
	return nil
}

// mergeTable makes one line of all that steps said of a question, by id. What a later step says counts.
func mergeTable(lines []line) []line {
	byID := map[string]line{}
	for _, l := range lines {
		have, ok := byID[l.Question.ID]
		if !ok {
			have = line{Question: l.Question, Values: map[string]any{}}
		}
		maps.Copy(have.Values, l.Values)
		byID[l.Question.ID] = have
	}
	merged := make([]line, 0, len(byID))
	for _, id := range sorted(byID) {
		merged = append(merged, byID[id])
	}
	return merged
}

// writeLines writes a file of lines at once and gives their digest.
func writeLines(path string, lines []line) (string, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	for _, l := range lines {
		if err := encoder.Encode(l); err != nil {
			return "", fmt.Errorf("question %q: %w", l.Question.ID, err)
		}
	}
	z, err := zstd.NewWriter(nil)
	if err != nil {
		return "", err
	}
	packed := z.EncodeAll(text.Bytes(), nil)
	if err := z.Close(); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return digestOf(text.Bytes()), record.WriteFile(path, packed)
}

// readLines reads what writeLines wrote and refuses it where it is not what the digest says.
func readLines(path, digest string) ([]line, error) {
	packed, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	z, err := zstd.NewReader(nil)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	text, err := z.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if digestOf(text) != digest {
		return nil, fmt.Errorf("%s is not what the run wrote; start the run afresh with --fresh", path)
	}
	var lines []line
	for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
		var l line
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
			return lines, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, len(lines)+1, err)
		}
		lines = append(lines, l)
	}
}

// artefact reads a finished artefact of the run.
func (r *runner) artefact(name string) (produced, []line, error) {
	for _, p := range r.state.Artefacts {
		if p.Name != name || p.Attempt == 0 {
			continue
		}
		attempts, err := r.Dir.Attempts()
		if err != nil {
			return p, nil, err
		}
		for _, a := range attempts {
			if a.N == p.Attempt {
				lines, err := readLines(artefactFile(a, name), p.Digest)
				return p, lines, err
			}
		}
		return p, nil, fmt.Errorf("attempt %d, which wrote it, is gone", p.Attempt)
	}
	return produced{}, nil, errors.New("no stage of the run has written it yet")
}

// annotations are values of questions, by id, from the tables that a stage names; a later one in the list counts.
type annotations map[string]map[string]any

func (r *runner) annotations(names []string) (annotations, error) {
	if len(names) == 0 {
		return nil, nil
	}
	all := annotations{}
	for _, name := range names {
		p, lines, err := r.artefact(name)
		if err != nil {
			return nil, fmt.Errorf("artefact %q: %w", name, err)
		}
		if p.Kind != artefactTable {
			return nil, fmt.Errorf("artefact %q holds %s; annotations are tables by question", name, p.Kind)
		}
		for _, l := range lines {
			if all[l.Question.ID] == nil {
				all[l.Question.ID] = map[string]any{}
			}
			maps.Copy(all[l.Question.ID], l.Values)
		}
	}
	return all, nil
}

// add gives the question with its annotations in the metadata.
func (a annotations) add(q episode.Question) episode.Question {
	values, ok := a[q.ID]
	if !ok {
		return q
	}
	q.Metadata = maps.Clone(q.Metadata)
	if q.Metadata == nil {
		q.Metadata = map[string]any{}
	}
	maps.Copy(q.Metadata, values)
	return q
}

// stage is the stage whose weights a state has; -1 for the first ones.
func (s state) stage() int {
	if s.Step > 0 {
		return s.Stage
	}
	return s.Stage - 1
}

// annotationsOf are those of a stage by number; none for the weights before all stages.
func (r *runner) annotationsOf(stage int) (annotations, error) {
	if stage < 0 || stage >= len(r.config.Stages) {
		return nil, nil
	}
	return r.annotations(r.config.Stages[stage].Annotations)
}

// fromArtefact makes a dataset of an artefact: its questions in the order in which they first come, and the episodes of
// each.
func (r *runner) fromArtefact(name string) ([]dataset.Item, map[string][]stored, error) {
	_, lines, err := r.artefact(name)
	if err != nil {
		return nil, nil, fmt.Errorf("artefact %q: %w", name, err)
	}
	var items []dataset.Item
	known, episodes := map[string]bool{}, map[string][]stored{}
	for _, l := range lines {
		if id := l.Question.ID; !known[id] {
			known[id] = true
			items = append(items, dataset.Item{Question: l.Question, Place: "artefact " + name})
		}
		if l.Episode != nil {
			episodes[l.Question.ID] = append(episodes[l.Question.ID], *l.Episode)
		}
	}
	return items, episodes, nil
}

// usesArtefact says whether a dataset is made of something that the run itself produces.
func usesArtefact(d *experiment.Dataset) bool {
	return d.Artefact != "" || slices.ContainsFunc(d.Concat, usesArtefact)
}

// inputs lists the datasets that exist before the run: d itself, or where it is made of artefacts whatever else is in it.
func inputs(d *experiment.Dataset) []*experiment.Dataset {
	if d == nil {
		return nil
	}
	if !usesArtefact(d) {
		return []*experiment.Dataset{d}
	}
	var list []*experiment.Dataset
	for _, inner := range d.Concat {
		list = append(list, inputs(inner)...)
	}
	return list
}

// expertsOf gives the expert episodes of a question, laid out for the stage's agent.
func (s *stage) expertsOf(q drawn) ([]*rollout.Episode, error) {
	if s.experts == nil {
		return nil, nil
	}
	var list []*rollout.Episode
	for _, kept := range s.experts.stored[q.ID] {
		id := "x-" + q.ID
		if len(list) > 0 {
			id += fmt.Sprintf("#%d", len(list))
		}
		ep, err := s.layOut(kept, q.Question, id)
		if err != nil {
			return nil, fmt.Errorf("an artefact's episode %q: %w", kept.ID, err)
		}
		if ep != nil {
			list = append(list, ep)
		}
	}
	if len(s.experts.stored) > 0 && len(list) > 0 {
		return list, nil
	}
	ep, ok, err := s.expert(q)
	if err != nil || !ok {
		return nil, err
	}
	return []*rollout.Episode{ep}, nil
}

// layOut makes an expert of an artefact's episode. Where the stage's protocol is fields, every turn that came to
// something is laid out under the stage's prompt, a sequence each; nil where there is none. Else an episode that the
// stage's own agent asked for is taken as it is, and of others the transcript, which must end in an answer. What another
// agent asked for is of origin rerendered.
func (s *stage) layOut(kept stored, q episode.Question, id string) (*rollout.Episode, error) {
	ep := &rollout.Episode{Episode: kept.Episode, Tokens: kept.Tokens, LogProbs: kept.LogProbs}
	ep.ID, ep.Parent = id, nil
	known := kept.Tokenizer == s.model.tokens
	same := known && kept.Agent != "" && kept.Agent == agentDigest(s.self.key) && kept.Origin != episode.OriginRerendered
	engine := s.model.engine(s.run.tools)
	if s.config.Agent.Protocol.Kind == experiment.ProtocolFields {
		if !slices.ContainsFunc(ep.Turns, func(t episode.Turn) bool { return t.Text != "" && t.Error == "" && t.Executed }) {
			return nil, nil
		}
		if !known {
			ep.Tokens, ep.LogProbs = nil, nil // only the texts are taken over
		}
		rendered, err := engine.Rerender(ep, q, nil, s.self.agent)
		if err != nil {
			return nil, err
		}
		if same {
			rendered.Origin = episode.OriginExpert
		}
		return rendered, s.fits(rendered)
	}
	if same {
		ep.Origin = episode.OriginExpert
		return ep, s.fits(ep)
	}
	if len(ep.Sequences) != 1 {
		return nil, fmt.Errorf("it has %d sequences, and protocol %q, which has one for a whole episode, cannot take them over: %w", len(ep.Sequences), s.config.Agent.Protocol.Kind, sdk.ErrNotSupported)
	}
	rendered, err := engine.Expert(id, q, s.self.agent, ep.Sequences[0].Response())
	if err != nil {
		return nil, err
	}
	rendered.Origin, rendered.Rewards = episode.OriginRerendered, kept.Rewards
	return rendered, s.fits(rendered)
}
