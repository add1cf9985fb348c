package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/internal/rng"
	"github.com/forage-rl/forage/core/policy"
	"github.com/forage-rl/forage/core/record"
	"github.com/forage-rl/forage/core/retrieval"
	"github.com/forage-rl/forage/core/retrieval/corpus"
	"github.com/forage-rl/forage/core/retrieval/index"
	"github.com/forage-rl/forage/core/rollout"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// WriterOptions say which policy writes texts, and how.
type WriterOptions struct {
	Policy   *experiment.Policy
	Root     string // that the policy's path starts at
	CacheDir string
	Backend  *policy.Backend
	// AnswersDir is where the answers of a policy behind an endpoint are kept; "" keeps none.
	AnswersDir  string
	Temperature float64 // 0 is greedy
	Progress    func(phase string, done, total int)
}

// Writer is a policy that answers prompts, one by one and without tools.
type Writer struct {
	run      *runner
	model    *model
	chat     bool
	sampling sdk.Sampling
	name     string
	count    int
}

// OpenWriter loads the policy, or gets ready to ask its endpoint.
func OpenWriter(ctx context.Context, o WriterOptions) (*Writer, error) {
	config := &experiment.Run{Root: o.Root, Policies: map[string]*experiment.Policy{mainRole: o.Policy}}
	r := newRunner(Options{
		Config: config, CacheDir: o.CacheDir, Backend: o.Backend, Dir: record.Run{Dir: o.AnswersDir},
		Progress: func(p Progress) {
			if o.Progress != nil {
				o.Progress(p.Phase, p.Done, p.Total)
			}
		},
	})
	r.readFrom(newResources(config, o.CacheDir, r.report))
	if err := supported(config); err != nil {
		return nil, err
	}
	if err := r.loadPolicies(ctx, nil); err != nil {
		return nil, errors.Join(err, r.close())
	}
	w := &Writer{run: r, sampling: sdk.Sampling{Greedy: o.Temperature == 0, Temperature: cmp.Or(o.Temperature, 1), TopP: 1}}
	digest, err := r.weightsDigest(nil, mainRole)
	if err == nil {
		w.model, err = r.models.get(ctx, mainRole)
	}
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	w.name = fmt.Sprintf("%.16s at temperature %v", digest, o.Temperature)
	local, isLocal := w.model.tokenizer.(text)
	w.chat = !isLocal || local.ChatTemplate() != ""
	return w, nil
}

// Name identifies the weights, or the endpoint's model, and the sampling.
func (w *Writer) Name() string { return w.name }

// Close frees the policy.
func (w *Writer) Close() error { return w.run.close() }

// Write answers prompts, each of at most so many tokens and with random numbers of its own. A prompt is the user's
// message where the model has a chat template, else the beginning of the text. Nothing in it acts as a special token.
// A prompt without room for an answer gets an empty one.
func (w *Writer) Write(ctx context.Context, prompts []string, maxTokens []int, keys []rng.Key) ([]string, error) {
	jobs := make([]rollout.Job, len(prompts))
	for i, prompt := range prompts {
		w.count++
		jobs[i] = rollout.Job{
			ID: fmt.Sprintf("text.%d", w.count), Sampling: w.sampling, Key: keys[i], NoTools: true,
			Agent: &rollout.Agent{
				Protocol: plain{}, ChatTemplate: w.chat, User: fixed(prompt), OnBudget: rollout.OnBudgetClose,
				TurnTokens: rollout.TurnTokens{First: maxTokens[i], Next: maxTokens[i], Last: maxTokens[i]},
			},
		}
	}
	texts := make([]string, 0, len(prompts))
	for chunk := range slices.Chunk(jobs, w.model.rows) {
		episodes, err := w.run.roll(ctx, w.model, nil, chunk)
		if err != nil {
			return nil, err
		}
		for _, ep := range episodes {
			answer := ""
			if ep.Answer != nil {
				answer = *ep.Answer
			}
			texts = append(texts, answer)
		}
	}
	return texts, nil
}

// fixed is a text from outside as a template.
type fixed string

func (t fixed) Render(map[string]any) ([]rollout.Piece, error) {
	return []rollout.Piece{{Text: string(t)}}, nil
}

// plain is a protocol without actions: all that is written is the answer.
type plain struct{}

func (plain) Stopped(string, int) bool { return false }

func (plain) Ends() []rollout.TagPair { return nil }

func (plain) Parse(text string) rollout.Action {
	return rollout.Action{Kind: episode.ActionAnswer, Answer: text, End: len(text), Ends: true}
}

func (plain) Wrap(observation []rollout.Piece) []rollout.Piece { return observation }

func (plain) Controls() []string { return nil }

// OpenCorpus opens a corpus of a configuration, and a search over its documents by BM25 with the usual parameters. name
// identifies the search.
func OpenCorpus(ctx context.Context, c *experiment.Corpus, root, cacheDir string, progress func(string, int, int)) (docs *corpus.Corpus, search func(context.Context, []string, int) ([][]string, error), name string, err error) {
	config := &experiment.Run{Root: root}
	r := newResources(config, cacheDir, progress)
	if docs, err = r.corpus(ctx, c); err != nil {
		return nil, nil, "", err
	}
	// Words of letters and digits whatever the corpus: questions are sentences, with their full stops and question marks.
	spec := retrieval.Spec{Corpus: docs, Unit: corpus.DocumentLevel, BM25: &index.BM25Params{}}
	made, err := retrieval.OpenIndex(ctx, spec, join(cacheDir, "indexes"), func(stage string, done, total int) {
		r.progress(c.Handle+": "+stage, done, total)
	})
	if err != nil {
		return nil, nil, "", fmt.Errorf("index of %s: %w", c.Handle, err)
	}
	search = func(ctx context.Context, queries []string, k int) ([][]string, error) {
		lists, err := made.Search(ctx, queries, k, nil)
		ids := make([][]string, len(lists))
		for i, list := range lists {
			for _, h := range list {
				ids[i] = append(ids[i], h.DocumentID)
			}
		}
		return ids, err
	}
	return docs, search, fmt.Sprintf("%.16s", made.Digest()), nil
}
