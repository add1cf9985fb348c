package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/generate"
	"github.com/forage-rl/forage/core/internal/rng"
	"github.com/forage-rl/forage/core/policy"
	"github.com/forage-rl/forage/core/run"
)

// generateFlags say what questions are made of, and by whom.
type generateFlags struct {
	study                     studyFlags
	corpus, links             string
	writer, checker           modelFlags
	keyEnv                    string
	concurrency               int
	temperature               float64
	mix, absent               string
	prompts, savePrompts, out string
	backend                   string
	maxLinks                  int
	asJSON                    bool
	options                   generate.Options
}

// modelFlags name a model.
type modelFlags struct{ ref, model string }

func (a *app) generateCommand() *cobra.Command {
	var f generateFlags
	c := &cobra.Command{
		Use:   "generate [STUDY]",
		Short: "Make multi-hop questions out of a corpus whose documents link to each other",
		Long: `Walk along links from document to document, let a language model word the links and
a last question, put them into one another, and keep what five filters pass:
  (i)   format       what the model wrote is in form
  (ii)  found        a BM25 search with the question does not find the documents
  (iii) closed_book  the model cannot answer without documents
  (iv)  subset       nor from only some of them
  (v)   wrong        but rightly from all
(David-GRPO v5, section 4.1: corpus-graph evidence.) A document links to those whose
titles its text mentions, or as --links says.

The model is a folder in the format of Hugging Face, the url of an OpenAI-compatible
service, or with a STUDY one of its first run's policies (a role, or policy.NAME);
the corpus is a file or folder, minihop[:SEED], or with a STUDY corpus.NAME.

The questions go to FILE, a dataset that studies read (path = "FILE"), in the order in
which they are made; FILE.journal says what became of every chain, FILE.answers
holds what a service answered. The same command goes on where it was stopped.`,
		Example: `  forage generate --corpus wiki.jsonl --writer models/Qwen2.5-3B-Instruct --out questions.jsonl
  forage generate --corpus wiki.jsonl --writer http://127.0.0.1:8000/v1 --writer-model Qwen2.5-3B-Instruct --out q.jsonl
  forage generate experiments/mine --corpus corpus.wiki --writer policy.writer --out q.jsonl
  forage generate --save-prompts prompts`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.savePrompts != "" {
				return generate.SavePrompts(f.savePrompts)
			}
			return a.generate(cmd.Context(), args, &f)
		},
	}
	f.study.add(c)
	flags := c.Flags()
	o := &f.options
	flags.StringVar(&f.corpus, "corpus", "", "`documents`: a file, a folder, minihop[:SEED], or corpus.NAME of the study")
	flags.StringVar(&f.links, "links", "", "`file` of links, in place of the mentions of titles: lines {\"title\" or \"id\", \"links\": […]}, or text_with_links")
	flags.IntVar(&f.maxLinks, "max-links", generate.DefaultMaxOut, "links that are kept of a document")
	flags.StringVar(&f.writer.ref, "writer", "", "`model` that words phrases and questions: a folder, a url, a role or policy.NAME of the study")
	flags.StringVar(&f.writer.model, "writer-model", "", "`name` of the writer at its service")
	flags.StringVar(&f.checker.ref, "checker", "", "`model` that answers in the filters (default: the writer)")
	flags.StringVar(&f.checker.model, "checker-model", "", "`name` of the checker at its service")
	flags.StringVar(&f.keyEnv, "key-env", "", "environment `variable` that holds the key of services given by url")
	flags.IntVar(&f.concurrency, "concurrency", 8, "requests under way at once to services given by url")
	flags.Float64Var(&f.temperature, "temperature", 0, "of the sampling; 0 takes the most likely token")
	flags.IntVar(&o.Thinking, "thinking", 0, "further `tokens` for every answer, for models that reason first")
	flags.StringVarP(&f.out, "out", "o", "", "`file` of the questions (required)")
	flags.IntVar(&o.Count, "count", 4000, "questions to make, the paper's number")
	flags.StringVar(&f.mix, "mix", "2:0.55,3:0.44,4:0.005,5:0.005", "`shares` of the numbers of hops, the paper's")
	flags.Int64Var(&o.Seed, "seed", 0, "`seed` of the chains and of the sampling")
	flags.IntVar(&o.Attempts, "attempts", 0, "chains to try in all (default 50 for each question)")
	flags.IntVar(&o.Round, "round", generate.DefaultRound, "chains that are worked on at once")
	flags.IntVar(&o.TopK, "top-k", generate.DefaultTopK, "filter (ii): how many documents the search finds, the paper's number")
	flags.StringVar(&f.absent, "absent", "all", "filter (ii): which documents must not be found: all, later (not the first, which the question names), or some")
	flags.IntVar(&o.Document, "document", generate.DefaultDocument, "characters of a document that prompts show")
	flags.StringVar(&f.prompts, "prompts", "", "`folder` with prompts in place of the built-in ones")
	flags.StringVar(&f.savePrompts, "save-prompts", "", "write the built-in prompts to a `folder` and do nothing else")
	flags.StringVar(&f.backend, "backend", "", "what to compute on: go, or xla:/path/of/plugin.so")
	flags.BoolVar(&f.asJSON, "json", false, "print JSON")
	return c
}

func (a *app) generate(ctx context.Context, args []string, f *generateFlags) (err error) {
	o := &f.options
	switch {
	case f.out == "":
		return misuse("--out is missing: the file of the questions")
	case f.writer.ref == "":
		return misuse("--writer is missing: a model folder, the url of a service, or with a study a role or policy.NAME")
	case o.Count < 1:
		return misuse("--count is %d, expected at least 1", o.Count)
	case f.temperature < 0 || f.concurrency < 1:
		return misuse("--temperature must not be negative, --concurrency at least 1")
	}
	o.Out, o.Absent = f.out, generate.Absent(f.absent)
	if o.Mix, err = parseMix(f.mix); err != nil {
		return err
	}
	if o.Prompts, err = generate.LoadPrompts(f.prompts); err != nil {
		return err
	}
	config, done, err := a.generateConfig(ctx, args, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	docs, err := corpusOf(config, f.corpus)
	if err != nil {
		return err
	}
	p := newPainter(a)
	defer p.close()
	task := func(what string, done, total int) { p.task("generate", what, done, total) }
	if o.Corpus, o.Search, o.SearchName, err = run.OpenCorpus(ctx, docs, config.Root, a.cacheDir, task); err != nil {
		return err
	}
	if f.links != "" {
		o.Graph, err = generate.Links(ctx, o.Corpus, f.links, f.maxLinks)
	} else {
		o.Graph, err = generate.Mentions(ctx, o.Corpus, f.maxLinks, func(done, total int) { task("finding links", done, total) })
	}
	if err != nil {
		return err
	}
	p.say("%d documents, %d links (%s)", o.Graph.Documents(), o.Graph.Links(), o.Graph.Kind())
	backend, err := policy.OpenBackend(f.backend)
	if err != nil {
		return err
	}
	defer backend.Close()
	var closers []func() error
	defer func() {
		for _, closing := range closers {
			err = errors.Join(err, closing())
		}
	}()
	for _, m := range []struct {
		flags *modelFlags
		as    string
		set   func(generate.Writer, string)
	}{
		{&f.writer, "writer", func(w generate.Writer, name string) { o.Writer, o.WriterName = w, name }},
		{&f.checker, "checker", func(w generate.Writer, name string) { o.Checker, o.CheckerName = w, name }},
	} {
		if m.flags.ref == "" {
			continue
		}
		who, err := modelOf(config, m.as, m.flags, f)
		if err != nil {
			return err
		}
		w, err := run.OpenWriter(ctx, run.WriterOptions{
			Policy: who, Root: config.Root, CacheDir: a.cacheDir, Backend: backend, AnswersDir: f.out + ".answers/" + m.as, Temperature: f.temperature, Progress: task,
		})
		if err != nil {
			return fmt.Errorf("%s: %w", m.as, err)
		}
		closers = append(closers, w.Close)
		m.set(writer{w}, w.Name())
	}
	o.Progress = func(s generate.Summary) {
		p.update("generate", "questions", s.Total(), s.Wanted, fates(s))
	}
	o.Note = func(text string) { p.say("%s", text) }
	summary, err := generate.Run(ctx, *o)
	p.close()
	if summary.Fates != nil {
		if writeErr := a.writeSummary(summary, f); writeErr != nil {
			return errors.Join(err, writeErr)
		}
	}
	if errors.Is(err, generate.ErrExhausted) {
		return fmt.Errorf("%w; go on with a higher --attempts, or see %s for what fails", err, generate.JournalPath(f.out))
	}
	return err
}

// generateConfig gives the configuration of the study's first run, or an empty one whose paths start here.
func (a *app) generateConfig(ctx context.Context, args []string, f *generateFlags) (*experiment.Run, func() error, error) {
	none := func() error { return nil }
	if len(args) == 0 {
		root, err := os.Getwd()
		return &experiment.Run{Root: root}, none, err
	}
	s, p, err := a.openPlan(ctx, args[0], &f.study)
	if err != nil {
		return nil, none, err
	}
	return p.Runs[0].Config, s.Close, nil
}

func corpusOf(config *experiment.Run, name string) (*experiment.Corpus, error) {
	if c, ok := config.Corpora[name]; ok {
		return c, nil
	}
	switch kind, seed, seeded := strings.Cut(name, ":"); {
	case name == "" && len(config.Corpora) == 1:
		return config.Corpora[sortedKeys(config.Corpora)[0]], nil
	case name == "" && len(config.Corpora) > 1:
		return nil, misuse("--corpus is missing: the study's are %s", strings.Join(sortedKeys(config.Corpora), ", "))
	case name == "":
		return nil, misuse("--corpus is missing: a file or a folder of documents")
	case strings.HasPrefix(name, "corpus."):
		return nil, misuse("--corpus %s: the study's first run has %s", name, strings.Join(sortedKeys(config.Corpora), ", "))
	case kind == "minihop":
		c := &experiment.Corpus{Handle: name, Builtin: kind, Seed: 1}
		if seeded {
			var err error
			if c.Seed, err = strconv.ParseInt(seed, 10, 64); err != nil || c.Seed < 0 {
				return nil, misuse("--corpus %s: the seed must be a whole number", name)
			}
		}
		return c, nil
	}
	path, err := filepath.Abs(name)
	return &experiment.Corpus{Handle: name, Paths: []string{path}}, err
}

// modelOf finds the policy that a flag means.
func modelOf(config *experiment.Run, flag string, m *modelFlags, f *generateFlags) (*experiment.Policy, error) {
	if strings.HasPrefix(m.ref, "http://") || strings.HasPrefix(m.ref, "https://") {
		if m.model == "" {
			return nil, misuse("--%s-model is missing: the model's name at the service", flag)
		}
		return &experiment.Policy{Handle: m.model, Frozen: true, DType: "float32", Endpoint: &experiment.Endpoint{URL: m.ref, Model: m.model, KeyEnv: f.keyEnv, Concurrency: f.concurrency}}, nil
	}
	if m.model != "" {
		return nil, misuse("--%s-model is for a %s given by its url, not for %s", flag, flag, m.ref)
	}
	if p, ok := config.Policies[m.ref]; ok {
		return p, nil
	}
	if p, ok := config.PolicyBlocks[m.ref]; ok {
		return p, nil
	}
	if strings.HasPrefix(m.ref, "policy.") {
		return nil, misuse("--%s %s: the study's first run has %s", flag, m.ref, strings.Join(append(sortedKeys(config.Policies), sortedKeys(config.PolicyBlocks)...), ", "))
	}
	path, err := filepath.Abs(m.ref)
	return &experiment.Policy{Handle: m.ref, Path: path, Frozen: true, DType: "float32"}, err
}

func parseMix(text string) ([]generate.Share, error) {
	var mix []generate.Share
	for part := range strings.SplitSeq(text, ",") {
		hops, share, ok := strings.Cut(strings.TrimSpace(part), ":")
		n, err := strconv.Atoi(hops)
		v, err2 := strconv.ParseFloat(share, 64)
		if !ok || err != nil || err2 != nil {
			return nil, misuse("--mix %q: write it as 2:0.55,3:0.45", text)
		}
		mix = append(mix, generate.Share{Hops: n, Part: v})
	}
	return mix, nil
}

// writer is a policy as the generator asks it.
type writer struct{ *run.Writer }

func (w writer) Write(ctx context.Context, prompts []generate.Prompt) ([]string, error) {
	texts, bounds, keys := make([]string, len(prompts)), make([]int, len(prompts)), make([]rng.Key, len(prompts))
	for i, p := range prompts {
		texts[i], bounds[i], keys[i] = p.Text, p.MaxTokens, p.Key
	}
	return w.Writer.Write(ctx, texts, bounds, keys)
}

// fates is what became of the chains so far, in short.
func fates(s generate.Summary) string {
	parts := []string{fmt.Sprintf("of %d chains", s.Chains)}
	for _, filter := range generate.Filters() {
		parts = append(parts, fmt.Sprintf("%s %d", filter, s.Fates[filter]))
	}
	return strings.Join(parts, "  ")
}

func (a *app) writeSummary(s generate.Summary, f *generateFlags) error {
	if f.asJSON {
		return a.writeJSON(s)
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "chains tried\t%d\n", s.Chains)
	for i, filter := range generate.Filters() {
		fmt.Fprintf(w, "(%s) %s\t%d\n", [...]string{"i", "ii", "iii", "iv", "v"}[i], filter, s.Fates[filter])
	}
	fmt.Fprintf(w, "questions\t%d of %d\n", s.Total(), s.Wanted)
	for _, hops := range sortedHops(s.ByHops) {
		fmt.Fprintf(w, "  of %d hops\t%d\n", hops, s.ByHops[hops])
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if s.NamedFound > 0 && 2*s.NamedFound > s.Chains-s.Fates[generate.BadFormat] {
		a.warn("%d questions failed filter (ii) by their first document alone, which they name; --absent later leaves it out", s.NamedFound)
	}
	if s.Total() > 0 {
		fmt.Fprintf(a.out, "Use them with: dataset \"generated\" { path = %q }\n", filepath.ToSlash(f.out))
	}
	return nil
}

func sortedHops(m map[int]int) []int { return slices.Sorted(maps.Keys(m)) }
