package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/forage-rl/forage/core/dataset"
	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/host"
	"github.com/forage-rl/forage/core/minihop"
	"github.com/forage-rl/forage/core/record"
	"github.com/forage-rl/forage/core/retrieval"
	"github.com/forage-rl/forage/core/retrieval/corpus"
	"github.com/forage-rl/forage/core/retrieval/encoder"
	"github.com/forage-rl/forage/core/retrieval/index"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/schema"
)

// resources is what a run reads: corpora, indexes and datasets, opened once and found by handle, and the tools that
// run over them.
type resources struct {
	config   *experiment.Run
	cacheDir string
	progress func(what string, done, total int)

	corpora  map[string]*corpus.Corpus
	indexes  map[string]opened
	datasets map[resolvedSet]*questions
	tools    map[*experiment.Tool]tool
	warnings []string
	// policyDigest identifies what a policy starts with, by role or handle.
	policyDigest func(name string) (string, error)
	// artefact gives what an earlier stage of the run wrote.
	artefact func(name string) ([]dataset.Item, map[string][]stored, error)
}

// opened is an index whose hits are those of the SDK.
type opened struct{ *retrieval.Index }

func (x opened) Search(ctx context.Context, queries []string, k int, exclude [][]string) ([][]episode.Hit, error) {
	hits, err := x.Index.Search(ctx, queries, k, exclude)
	return convertHits(hits), err
}

func (x opened) SearchVectors(ctx context.Context, vectors [][]float32, k int, exclude [][]string) ([][]episode.Hit, error) {
	hits, err := x.Index.SearchVectors(ctx, vectors, k, exclude)
	return convertHits(hits), err
}

func (x opened) Encode(ctx context.Context, texts []string) ([][]float32, error) {
	if x.Encoder() == nil {
		return nil, fmt.Errorf("an index of kind %s has no encoder: %w", x.Kind(), sdk.ErrInvalidRequest)
	}
	return x.Encoder().EncodeQueries(ctx, texts)
}

func convertHits(lists [][]retrieval.Hit) [][]episode.Hit {
	out := make([][]episode.Hit, len(lists))
	for i, list := range lists {
		out[i] = make([]episode.Hit, len(list))
		for j, h := range list {
			out[i][j] = episode.Hit{
				DocumentID: h.DocumentID, ParagraphID: h.ParagraphID, SentenceID: h.SentenceID, Title: h.Title, Text: h.Text,
				Score: float64(h.Score),
			}
		}
	}
	return out
}

// tool is a retriever that runs.
type tool struct {
	retriever   sdk.Retriever
	description sdk.Tool
}

// questions is a dataset whose golds carry the ids of the run's corpora.
type questions struct {
	*dataset.Dataset
	resolved map[string][]episode.Gold // by question id; nil where nothing was resolved
	stored   map[string][]stored       // episodes of artefacts, by question id
	digest   string
}

// At gives question i with its golds resolved.
func (q *questions) At(i int) (episode.Question, error) {
	question, err := q.Dataset.At(i)
	if gold, ok := q.resolved[question.ID]; ok {
		question.Gold = gold
	}
	return question, err
}

func newResources(config *experiment.Run, cacheDir string, progress func(string, int, int)) *resources {
	if progress == nil {
		progress = func(string, int, int) {}
	}
	return &resources{
		config: config, cacheDir: cacheDir, progress: progress, corpora: map[string]*corpus.Corpus{}, indexes: map[string]opened{},
		datasets: map[resolvedSet]*questions{}, tools: map[*experiment.Tool]tool{},
	}
}

// path resolves a path of the configuration.
func (r *resources) path(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(r.config.Root, p)
}

func at(kind string, rng fmt.Stringer) string { return fmt.Sprintf("%s (%s)", kind, rng) }

func (r *resources) corpus(ctx context.Context, c *experiment.Corpus) (*corpus.Corpus, error) {
	if have, ok := r.corpora[c.Handle]; ok {
		return have, nil
	}
	made, err := r.openCorpus(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at(c.Handle, c.Range), err)
	}
	r.corpora[c.Handle] = made
	return made, nil
}

func (r *resources) openCorpus(ctx context.Context, c *experiment.Corpus) (*corpus.Corpus, error) {
	switch {
	case c.Builtin == "minihop":
		w, err := world(uint64(c.Seed), c.World)
		if err != nil {
			return nil, err
		}
		return w.Corpus()
	case c.Builtin != "":
		return nil, fmt.Errorf("there is no built-in corpus %q, only minihop", c.Builtin)
	}
	var paths []string
	for _, path := range c.Paths {
		paths = append(paths, r.path(path))
	}
	return corpus.Open(ctx, paths, corpus.Options{
		CacheDir: filepath.Join(r.cacheDir, "corpora"), Limit: c.Limit,
		Progress: func(done, total int64) { r.progress("reading "+c.Handle, int(done), int(total)) },
	})
}

func world(seed uint64, w *experiment.World) (*minihop.World, error) {
	var o minihop.Options
	if w != nil {
		o.TwoTokenNames = w.TwoTokenNames
		copy(o.Mix[:], w.Mix)
	}
	return minihop.NewWorld(seed, o)
}

func (r *resources) index(ctx context.Context, handle string) (opened, error) {
	if have, ok := r.indexes[handle]; ok {
		return have, nil
	}
	x, ok := r.config.Indexes[handle]
	if !ok {
		return opened{}, fmt.Errorf("%q: %w", handle, sdk.ErrUnknownHandle)
	}
	made, err := r.openIndex(ctx, x)
	if err != nil {
		return opened{}, fmt.Errorf("%s: %w", at(x.Handle, x.Range), err)
	}
	r.indexes[handle] = opened{made}
	return r.indexes[handle], nil
}

func (r *resources) openIndex(ctx context.Context, x *experiment.Index) (*retrieval.Index, error) {
	docs, err := r.corpus(ctx, x.Corpus)
	if err != nil {
		return nil, err
	}
	spec := retrieval.Spec{Corpus: docs, Unit: corpus.Level(x.Unit), SentenceTitles: x.SentenceTitles}
	builtin := x.Corpus.Builtin == "minihop"
	if x.BM25 != nil {
		spec.BM25 = &index.BM25Params{K1: x.BM25.K1, B: x.BM25.B, NoLength: x.BM25.B == 0}
		if builtin {
			spec.BM25.Words, spec.BM25.Stop = encoder.BlankWords, minihop.StopWords()
		}
	}
	if h := x.HNSW; h != nil {
		spec.HNSW = &index.HNSWParams{M: h.M, EfConstruction: h.EfConstruction, Seed: uint64(h.Seed)}
		spec.EfSearch = h.EfSearch
	}
	spec.Flat = x.Flat != nil
	if e := x.Encoder; e != nil {
		options := encoder.HashedOptions{Dimensions: e.Dimensions, TitleWeight: e.TitleWeight}
		if builtin {
			options.Words, options.Stop = encoder.BlankWords, minihop.StopWords()
		}
		if spec.Encoder, err = encoder.NewHashed(options); err != nil {
			return nil, fmt.Errorf("%s: %w", at(e.Handle, e.Range), err)
		}
	}
	return retrieval.OpenIndex(ctx, spec, filepath.Join(r.cacheDir, "indexes"), func(stage string, done, total int) {
		r.progress(x.Handle+": "+stage, done, total)
	})
}

// resolvedSet is a dataset with the index in whose corpus its golds are looked up.
type resolvedSet struct {
	dataset *experiment.Dataset
	index   string // "" for none
}

// questions opens a dataset and resolves its golds against the corpus that the tools search.
func (r *resources) questions(ctx context.Context, d *experiment.Dataset, tools map[string]*experiment.Tool) (*questions, error) {
	set := resolvedSet{d, r.searched(tools)}
	if have, ok := r.datasets[set]; ok {
		return have, nil
	}
	made, err := r.openQuestions(ctx, set)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at(d.Handle, d.Range), err)
	}
	r.datasets[set] = made
	return made, nil
}

// searched names an index that the tools search, "" for none. Tools of one agent search one corpus as a rule; where
// they do not, the first by name decides.
func (r *resources) searched(tools map[string]*experiment.Tool) string {
	for _, name := range sorted(tools) {
		values := tools[name].Retriever.Values
		for _, key := range sorted(values) {
			if ref, ok := values[key].(schema.Ref); ok {
				if _, ok := r.indexes[ref.Handle]; ok {
					return ref.Handle
				}
			}
		}
	}
	return ""
}

// openDataset opens a dataset as it is written, golds as they are. episodes, if not nil, gets those of the artefacts that
// it is made of, by question.
func (r *resources) openDataset(ctx context.Context, d *experiment.Dataset, episodes map[string][]stored) (*dataset.Dataset, error) {
	if d.Artefact != "" || len(d.Concat) > 0 {
		items, err := r.items(ctx, d, episodes)
		if err != nil {
			return nil, err
		}
		var seed *uint64
		if d.Seed != nil {
			s := uint64(*d.Seed)
			seed = &s
		}
		return dataset.Of(items, d.Handle, d.Limit, seed)
	}
	spec := dataset.Spec{Format: d.Format, Limit: d.Limit, Builtin: d.Builtin}
	switch {
	case d.Builtin != "":
		spec.MiniHop.Split = d.Split
		if d.Seed != nil {
			spec.MiniHop.World = uint64(*d.Seed)
		}
		if w := d.World; w != nil {
			copy(spec.MiniHop.Hops[:], w.Mix)
			spec.MiniHop.TwoTokenNames = w.TwoTokenNames
			spec.MiniHop.Protocol = minihop.Protocol(w.Protocol)
			spec.MiniHop.Phase, spec.MiniHop.FullShare, spec.MiniHop.WrongQuery, spec.MiniHop.PerWorld = w.Phase, w.FullShare, w.WrongQuery, w.PerWorld
		}
	default:
		spec.Path = r.path(d.Path)
		if d.Seed != nil {
			seed := uint64(*d.Seed)
			spec.Seed = &seed
		}
	}
	return dataset.Open(ctx, spec)
}

// items gives the questions of an artefact or of several datasets.
func (r *resources) items(ctx context.Context, d *experiment.Dataset, episodes map[string][]stored) ([]dataset.Item, error) {
	if d.Artefact != "" {
		items, own, err := r.artefact(d.Artefact)
		if episodes != nil {
			for id, list := range own {
				episodes[id] = append(episodes[id], list...)
			}
		}
		return items, err
	}
	var items []dataset.Item
	for _, inner := range d.Concat {
		data, err := r.openDataset(ctx, inner, episodes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at(inner.Handle, inner.Range), err)
		}
		if data.Endless() {
			return nil, fmt.Errorf("%s: a stream cannot be part of another dataset; give it a limit", at(inner.Handle, inner.Range))
		}
		for _, item := range data.Items(inner.Handle) {
			if len(inner.Hops) == 0 || slices.Contains(inner.Hops, item.Question.Hops) {
				items = append(items, item)
			}
		}
	}
	return items, nil
}

func (r *resources) openQuestions(ctx context.Context, set resolvedSet) (*questions, error) {
	d := set.dataset
	episodes := map[string][]stored{}
	data, err := r.openDataset(ctx, d, episodes)
	if err != nil {
		return nil, err
	}
	q := &questions{Dataset: data, stored: episodes, digest: data.Digest()}
	if data.Endless() || set.index == "" {
		return q, nil
	}
	most := dataset.MaxUnresolved
	if d.MaxUnresolved != nil {
		most = *d.MaxUnresolved
	}
	resolved, resolution, err := dataset.ResolveGold(r.indexes[set.index].Corpus(), data.Questions(), dataset.GoldMatch(d.GoldMatch), most)
	if err != nil {
		return nil, err
	}
	if resolution.Unresolved > 0 {
		r.warnings = append(r.warnings, fmt.Sprintf("%s: %d of %d gold documents are not in the corpus of %s, such as %v", d.Handle, resolution.Unresolved, resolution.Golds, set.index, resolution.Examples))
	}
	q.resolved = map[string][]episode.Gold{}
	for _, question := range resolved {
		q.resolved[question.ID] = question.Gold
	}
	return q, nil
}

// digests names everything that was opened, for the manifest.
func (r *resources) digests() map[string]string {
	d := map[string]string{}
	for handle, c := range r.corpora {
		d[handle] = c.Digest()
	}
	for handle, x := range r.indexes {
		d[handle] = x.Digest()
	}
	for set, q := range r.datasets {
		d[set.dataset.Handle] = q.digest
	}
	return d
}

// values gives a plugin's configuration with the digests of what its references mean, and opens those.
func (r *resources) values(ctx context.Context, p *experiment.Plugin) (map[string]any, error) {
	values := map[string]any{}
	for _, name := range sorted(p.Values) {
		v, err := r.value(ctx, p.Values[name])
		if err != nil {
			return nil, fmt.Errorf("%s, attribute %q: %w", at(string(p.Kind)+" "+p.Label, p.Range), name, err)
		}
		values[name] = v
	}
	return values, nil
}

func (r *resources) value(ctx context.Context, v any) (any, error) {
	switch v := v.(type) {
	case schema.Ref:
		digest, err := r.refDigest(ctx, v.Handle)
		return schema.Ref{Handle: v.Handle, Digest: digest, Unit: v.Unit}, err
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			var err error
			if list[i], err = r.value(ctx, e); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[string]any:
		m := map[string]any{}
		for k, e := range v {
			var err error
			if m[k], err = r.value(ctx, e); err != nil {
				return nil, err
			}
		}
		return m, nil
	}
	return v, nil
}

func (r *resources) refDigest(ctx context.Context, handle string) (string, error) {
	if _, ok := r.config.Indexes[handle]; ok {
		x, err := r.index(ctx, handle)
		if err != nil {
			return "", err
		}
		return x.Digest(), nil
	}
	if c, ok := r.config.Corpora[handle]; ok {
		docs, err := r.corpus(ctx, c)
		if err != nil {
			return "", err
		}
		return docs.Digest(), nil
	}
	if _, ok := r.config.PolicyBlocks[handle]; ok {
		return r.policyDigest(handle)
	}
	if a, ok := r.config.AgentBlocks[handle]; ok {
		data, err := json.Marshal(a)
		if err != nil {
			return "", err
		}
		sum := sha256.Sum256(data)
		return hex.EncodeToString(sum[:]), nil
	}
	return "", fmt.Errorf("reference to %q: %w", handle, sdk.ErrUnknownHandle)
}

// instance describes the process of a plugin.
func (r *resources) instance(ctx context.Context, name string, p *experiment.Plugin) (host.InstanceSpec, error) {
	values, err := r.values(ctx, p)
	if err != nil {
		return host.InstanceSpec{}, err
	}
	env := map[string]string{}
	for _, key := range p.Env {
		if v, ok := os.LookupEnv(key); ok {
			env[key] = v
		}
	}
	return host.InstanceSpec{
		Name: name, Label: p.Label, Values: values, Timeout: p.Timeout, MaxInFlight: p.MaxInFlight, Env: env,
	}, nil
}

// startTool starts the retriever behind a tool.
func (r *resources) startTool(ctx context.Context, sup *host.Supervisor, t *experiment.Tool) error {
	if _, ok := r.tools[t]; ok {
		return nil
	}
	spec, err := r.instance(ctx, t.Handle, t.Retriever)
	if err != nil {
		return err
	}
	retriever, err := sup.Retriever(ctx, spec, services{tools{r}})
	if err != nil {
		return fmt.Errorf("%s: %w", at(t.Handle, t.Range), err)
	}
	description, err := retriever.Tool(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", at(t.Handle, t.Range), err)
	}
	r.tools[t] = tool{retriever, description}
	return nil
}

// dispatcher calls tools by the names that agents know.
type dispatcher map[string]tool

func (d dispatcher) Call(ctx context.Context, name string, calls []sdk.Call) ([]sdk.CallResult, error) {
	t, ok := d[name]
	if !ok {
		return nil, fmt.Errorf("there is no such tool")
	}
	resp, err := t.retriever.Call(ctx, sdk.CallRequest{Calls: calls})
	if err != nil {
		return nil, err
	}
	return resp.Results, nil
}

func (d dispatcher) descriptions() map[string]sdk.Tool {
	m := map[string]sdk.Tool{}
	for name, t := range d {
		m[name] = t.description
	}
	return m
}

// materialise writes the files of a built-in policy into the cache and gives the folder.
func materialise(cacheDir, name string) (string, error) {
	files, err := minihop.Policy(name)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, file := range sorted(files) {
		fmt.Fprintf(sum, "%s %d\n", file, len(files[file]))
		sum.Write(files[file])
	}
	dir := filepath.Join(cacheDir, "policies", filepath.Base(name)+"-"+hex.EncodeToString(sum.Sum(nil))[:16])
	err = record.AtomicDir(dir, func(tmp string) error {
		for file, data := range files {
			if err := os.WriteFile(filepath.Join(tmp, file), data, 0o644); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("write built-in policy %s: %w", name, err)
	}
	return dir, nil
}
