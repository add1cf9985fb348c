package stepsearch

import (
	"context"
	"fmt"
	"strings"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/diag"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/plugins/rewards/internal/tags"
)

// Where the documents of a search are read from, and what makes two the same.
const (
	DocumentsHits        = "hits"
	DocumentsObservation = "observation"
	RedundancyText       = "text"
	RedundancyDocument   = "document"
)

// StepsConfig is the configuration of the reward for searches.
type StepsConfig struct {
	StepScale         float64 `forage:"step_scale" default:"1.6" doc:"Factor of every search's reward. The release means 0.6, and by an alias in its code gives 1.6." source:"StepSearch release"`
	InformationGain   bool    `forage:"information_gain" default:"true" doc:"Reward what a search adds to the similarity with the gold documents." source:"StepSearch (arXiv:2505.15107)"`
	RedundancyPenalty bool    `forage:"redundancy_penalty" default:"true" doc:"Take off the share of a search's documents that were returned before." source:"StepSearch (arXiv:2505.15107)"`
	Redundancy        string  `forage:"redundancy" default:"text" enum:"text,document" doc:"What makes a document one that was returned before. text: the same text, as released; document: the same unit of the corpus." source:"StepSearch release"`
	Documents         string  `forage:"documents" default:"hits" enum:"hits,observation" doc:"hits: the documents that the tool returned. observation: as released, what of them the rendered observation shows, split at the marks of titles; a text then ends in the number of the document after it, so that a document at another rank is not the same." source:"default (not in the paper)"`

	InformationOpen  string `forage:"information_open" default:"<information>" doc:"Tag that opens what was retrieved; for documents = \"observation\"." source:"StepSearch release"`
	InformationClose string `forage:"information_close" default:"</information>" doc:"Tag that closes what was retrieved; for documents = \"observation\"." source:"StepSearch release"`
	TitleOpen        string `forage:"title_open" default:"<##" doc:"Mark before the title of a document; for documents = \"observation\"." source:"StepSearch release"`
	TitleClose       string `forage:"title_close" default:"##>" doc:"Mark after the title of a document; for documents = \"observation\"." source:"StepSearch release"`
}

// Validate refuses empty marks, and identities that texts do not have.
func (c StepsConfig) Validate() diag.Diagnostics {
	var ds diag.Diagnostics
	tags.Pair{Open: c.InformationOpen, Close: c.InformationClose}.Check("information", &ds)
	tags.Pair{Open: c.TitleOpen, Close: c.TitleClose}.Check("title", &ds)
	if c.Documents == DocumentsObservation && c.Redundancy == RedundancyDocument {
		ds.Errorf(diag.Attr("redundancy"), "Texts have no identity", "A rendered observation does not say which document a text is: use documents = \"hits\", or redundancy = \"text\".")
	}
	return ds
}

// StepsPlugin describes the reward for searches.
func StepsPlugin() sdk.RewardPlugin {
	return sdk.NewReward("stepsearch-steps", "Per search, the information gained about the question's gold documents (metadata support_docs: title and paragraph_text of each) minus the share of documents seen before. The value is their sum; a question without gold documents is worth 0.",
		"StepSearch (arXiv:2505.15107)",
		func(_ context.Context, c StepsConfig, _ sdk.Host) (sdk.Reward, error) { return stepsReward{c}, nil })
}

type stepsReward struct{ config StepsConfig }

func (r stepsReward) Score(_ context.Context, req sdk.ScoreRequest) (sdk.ScoreResponse, error) {
	var out sdk.ScoreResponse
	for _, item := range req.Items {
		s, err := r.score(item)
		if err != nil {
			return sdk.ScoreResponse{}, err
		}
		out.Scores = append(out.Scores, s)
	}
	return out, nil
}

func (r stepsReward) score(item sdk.ScoreItem) (sdk.Score, error) {
	golds, err := supportTexts(item.Question)
	if err != nil {
		return sdk.Score{}, err
	}
	var searches [][]Document
	var turns []int
	for i, t := range item.Episode.Turns {
		if t.Action != episode.ActionCall || !t.Executed {
			continue
		}
		documents, err := r.documents(t)
		if err != nil {
			return sdk.Score{}, fmt.Errorf("episode %s, turn %d: %w", item.Episode.ID, i+1, err)
		}
		searches, turns = append(searches, documents), append(turns, i)
	}
	steps, coverage := Steps(golds, searches)
	s := sdk.Score{
		Turns:      make([]float64, len(item.Episode.Turns)),
		Components: map[string]float64{"gain": 0, "redundancy": 0, "coverage": coverage, "golds": float64(len(golds))},
	}
	for i, step := range steps {
		v := r.config.value(step)
		s.Value += v
		s.Turns[turns[i]] = v
		s.Components["gain"] += step.Gain
		s.Components["redundancy"] += step.Penalty
	}
	return s, nil
}

// value is the reward of a search.
func (c StepsConfig) value(s Step) float64 {
	v := 0.
	if c.InformationGain {
		v += s.Gain
	}
	if c.RedundancyPenalty {
		v -= s.Penalty
	}
	return c.StepScale * v
}

// documents are those of a call.
func (r stepsReward) documents(t episode.Turn) ([]Document, error) {
	var documents []Document
	if r.config.Documents == DocumentsObservation {
		block := t.Observation
		if _, after, found := strings.Cut(block, r.config.InformationOpen); found {
			block = after
		}
		// An observation that was cut has no closing tag.
		block, _, _ = strings.Cut(block, r.config.InformationClose)
		if len(t.Hits) > 0 && !strings.Contains(block, r.config.TitleOpen) && !strings.Contains(block, r.config.TitleClose) {
			return nil, fmt.Errorf("the tool returned %d documents, but the observation has no %q: lay titles out between title_open and title_close, or set documents = %q",
				len(t.Hits), r.config.TitleOpen, DocumentsHits)
		}
		for _, d := range Split(block, r.config.TitleOpen, r.config.TitleClose) {
			documents = append(documents, Document{d, d})
		}
		return documents, nil
	}
	for _, h := range t.Hits {
		d := Document{h.Text, h.Text}
		if r.config.Redundancy == RedundancyDocument {
			d.Identity = strings.Join([]string{h.DocumentID, h.ParagraphID, h.SentenceID}, "\x00")
		}
		documents = append(documents, d)
	}
	return documents, nil
}

// supportTexts reads the texts of a question's gold documents.
func supportTexts(q episode.Question) ([]string, error) {
	list, err := listOf(q, "support_docs")
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(list))
	for i, d := range list {
		fields, _ := d.(map[string]any)
		t, ok := fields["paragraph_text"].(string)
		if !ok {
			return nil, fmt.Errorf("question %s: metadata support_docs, entry %d has no text paragraph_text", q.ID, i+1)
		}
		texts[i] = t
	}
	return texts, nil
}
