package experiment

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/forage-rl/forage/core/sdk/schema"
)

// Format lays out HCL in the canonical style, comments kept.
func Format(source []byte) []byte { return hclwrite.Format(source) }

// HCL writes the run as a study of its own: one file, everything filled in, no references to other files but data.
// Loading it gives a run of the same identity.
func (r *Run) HCL() []byte {
	w := &writer{run: r, agents: map[string]string{}, labels: map[string]string{}}
	w.line("# The resolved configuration of one run, written by forage. It can be run again as it is.")
	w.line("# %s", r.origin())
	w.open("study")
	w.attr("name", quote(r.Study))
	w.attr("root", quote(r.Root))
	w.close()
	w.shared()
	w.experiment()
	return hclwrite.Format([]byte(w.out.String() + w.agentBlocks.String()))
}

// origin says in one line which cell the run belongs to.
func (r *Run) origin() string {
	parts := []string{"study " + r.Study}
	if r.Ablation != "" {
		parts = append(parts, "ablation "+r.Ablation)
	}
	parts = append(parts, "arm "+r.Arm)
	for _, name := range sortedKeys(r.Axes) {
		parts = append(parts, name+" "+strings.Join(strings.Fields(r.Axes[name]), " "))
	}
	return strings.Join(append(parts, fmt.Sprintf("seed %d", r.Seed)), ", ")
}

type writer struct {
	run         *Run
	out         strings.Builder
	agentBlocks strings.Builder
	agents      map[string]string // JSON of an agent → its label
	labels      map[string]string // handle → label
}

func (w *writer) line(format string, args ...any) { fmt.Fprintf(&w.out, format+"\n", args...) }

func (w *writer) open(header string) { w.line("%s {", header) }

func (w *writer) close() { w.line("}\n") }

func (w *writer) attr(name, value string) { w.line("%s = %s", name, value) }

func (w *writer) text(name, value string) {
	if value != "" {
		w.attr(name, quote(value))
	}
}

func (w *writer) whole(name string, value int) {
	if value != 0 {
		w.attr(name, fmt.Sprint(value))
	}
}

func (w *writer) number(name string, value float64) { w.attr(name, formatNumber(value)) }

func (w *writer) bool(name string, value bool) { w.attr(name, fmt.Sprint(value)) }

func (w *writer) texts(name string, list []string) {
	if list != nil {
		w.attr(name, printTexts(list))
	}
}

func printTexts(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = quote(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

func numberList(list []float64) string {
	texts := make([]string, len(list))
	for i, f := range list {
		texts[i] = formatNumber(f)
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// ref is the reference to a shared block. One that an axis changed for a single use gets a name of its own.
func (w *writer) ref(handle string) string {
	kind, name, _ := strings.Cut(handle, ".")
	if kind == "policies" {
		return "policy.policies_" + name
	}
	return kind + "." + name
}

func (w *writer) header(handle string) string {
	kind, name, _ := strings.Cut(w.ref(handle), ".")
	return kind + " " + quote(name)
}

func (w *writer) shared() {
	r := w.run
	for _, h := range sortedKeys(r.Corpora) {
		c := r.Corpora[h]
		w.open(w.header(h))
		if len(c.Paths) == 1 {
			w.text("path", c.Paths[0])
		} else if c.Paths != nil {
			w.texts("path", c.Paths)
		}
		w.text("builtin", c.Builtin)
		if c.Builtin != "" {
			w.attr("seed", fmt.Sprint(c.Seed))
		}
		w.world(c.World, false)
		w.whole("limit", c.Limit)
		w.close()
	}
	for _, h := range sortedKeys(r.Encoders) {
		w.encoder(r.Encoders[h])
	}
	for _, h := range sortedKeys(r.Indexes) {
		w.index(r.Indexes[h])
	}
	for _, h := range sortedKeys(r.Datasets) {
		if d := r.Datasets[h]; !strings.HasPrefix(h, "artefact.") {
			w.dataset(d)
		}
	}
	for _, h := range sortedKeys(r.PolicyBlocks) {
		w.policy(r.PolicyBlocks[h])
	}
	for _, name := range sortedKeys(r.Tools) {
		w.tool(r.Tools[name], "tool "+quote(name))
	}
	for _, e := range r.Evaluations {
		for _, name := range sortedKeys(e.Tools) {
			if t := e.Tools[name]; t != r.Tools[name] {
				w.tool(t, "tool "+quote(e.Name+"_"+name))
			}
		}
	}
}

func (w *writer) world(v *World, stream bool) {
	if v == nil {
		return
	}
	w.open("world")
	w.bool("two_token_names", v.TwoTokenNames)
	if v.Mix != nil {
		w.attr("mix", numberList(v.Mix))
	}
	w.text("protocol", v.Protocol)
	if stream {
		w.text("phase", v.Phase)
		if v.FullShare != nil {
			w.number("full_share", *v.FullShare)
		}
		if v.WrongQuery != nil {
			w.number("wrong_query", *v.WrongQuery)
		}
		w.whole("per_world", v.PerWorld)
	}
	w.close()
}

func (w *writer) encoder(e *Encoder) {
	w.open(w.header(e.Handle))
	w.text("kind", e.Kind)
	w.bool("normalize", e.Normalize)
	if e.Kind == "hashed" {
		w.whole("dimensions", e.Dimensions)
		w.number("title_weight", e.TitleWeight)
	} else {
		w.text("path", e.Path)
		w.text("pooling", e.Pooling)
		w.attr("query_prefix", quote(e.QueryPrefix))
		w.attr("passage_prefix", quote(e.PassagePrefix))
		w.whole("max_length", e.MaxLength)
		w.text("dtype", e.DType)
		w.whole("batch", e.Batch)
	}
	w.close()
}

func (w *writer) index(x *Index) {
	w.open(w.header(x.Handle))
	w.attr("corpus", w.ref(x.Corpus.Handle))
	if x.Encoder != nil {
		w.attr("encoder", w.ref(x.Encoder.Handle))
	}
	w.text("unit", x.Unit)
	if x.Unit == "sentence" {
		w.bool("index_title", x.SentenceTitles)
	}
	switch {
	case x.HNSW != nil:
		w.open("hnsw")
		w.whole("m", x.HNSW.M)
		w.whole("ef_construction", x.HNSW.EfConstruction)
		w.whole("ef_search", x.HNSW.EfSearch)
		w.attr("seed", fmt.Sprint(x.HNSW.Seed))
	case x.BM25 != nil:
		w.open("bm25")
		w.number("k1", x.BM25.K1)
		w.number("b", x.BM25.B)
	case x.Remote != nil:
		w.open("remote " + quote(x.Remote.Kind))
		w.text("table", x.Remote.Table)
		w.text("dsn_env", x.Remote.DSNEnv)
	default:
		w.open("flat")
	}
	w.close()
	w.close()
}

func (w *writer) dataset(d *Dataset) {
	w.open(w.header(d.Handle))
	w.text("path", d.Path)
	w.text("builtin", d.Builtin)
	if d.Artefact != "" {
		w.attr("artefact", "artefact."+d.Artefact)
	}
	if d.Concat != nil {
		var refs []string
		for _, inner := range d.Concat {
			refs = append(refs, w.ref(inner.Handle))
		}
		w.attr("concat", "["+strings.Join(refs, ", ")+"]")
	}
	w.text("split", d.Split)
	w.text("format", d.Format)
	w.whole("limit", d.Limit)
	if d.Seed != nil {
		w.attr("seed", fmt.Sprint(*d.Seed))
	}
	if d.Hops != nil {
		w.attr("hops", strings.ReplaceAll(fmt.Sprint(d.Hops), " ", ", "))
	}
	w.text("gold_match", d.GoldMatch)
	if d.MaxUnresolved != nil {
		w.number("max_unresolved", *d.MaxUnresolved)
	}
	w.text("order", d.Order)
	w.world(d.World, d.Split == "stream")
	w.close()
}

func (w *writer) policy(p *Policy) {
	w.open(w.header(p.Handle))
	w.text("path", p.Path)
	w.text("builtin", p.Builtin)
	w.text("dtype", p.DType)
	w.bool("frozen", p.Frozen)
	w.whole("max_context", p.MaxContext)
	if i := p.Init; i != nil {
		w.open("init")
		w.attr("seed", fmt.Sprint(i.Seed))
		w.text("tokenizer", i.Tokenizer)
		w.text("model_type", i.ModelType)
		for _, size := range []struct {
			name  string
			value int
		}{{"hidden_size", i.HiddenSize}, {"layers", i.Layers}, {"heads", i.Heads}, {"kv_heads", i.KVHeads}, {"head_dim", i.HeadDim},
			{"intermediate_size", i.IntermediateSize}, {"vocab_size", i.VocabSize}, {"max_positions", i.MaxPositions}} {
			w.whole(size.name, size.value)
		}
		w.number("rms_norm_eps", i.RMSNormEps)
		w.number("rope_theta", i.RopeTheta)
		w.bool("tied", i.Tied)
		w.bool("qkv_bias", i.QKVBias)
		w.bool("qk_norm", i.QKNorm)
		w.number("final_norm", i.FinalNorm)
		w.text("from", i.From)
		w.open("std_dev")
		for _, part := range sortedKeys(i.StdDev) {
			w.number(part, i.StdDev[part])
		}
		w.close()
		w.close()
	}
	if e := p.Endpoint; e != nil {
		w.open("endpoint")
		w.text("url", e.URL)
		w.text("model", e.Model)
		w.text("key_env", e.KeyEnv)
		w.whole("concurrency", e.Concurrency)
		w.whole("timeout_seconds", e.TimeoutSeconds)
		w.whole("retries", e.Retries)
		w.close()
	}
	if l := p.LoRA; l != nil {
		w.open("lora")
		w.whole("rank", l.Rank)
		w.number("alpha", l.Alpha)
		w.number("dropout", l.Dropout)
		w.texts("targets", l.Targets)
		w.close()
	}
	w.close()
}

func (w *writer) tool(t *Tool, header string) {
	w.open(header)
	w.plugin(t.Retriever, "retriever")
	w.close()
}

func (w *writer) plugin(p *Plugin, typ string) {
	w.open(typ + " " + quote(p.Label))
	w.values(p.Values, p.Info.Schema)
	if p.Timeout != 0 || p.MaxInFlight != 0 || p.Replicas != 0 || p.Env != nil {
		w.open("process")
		if p.Timeout != 0 {
			w.attr("timeout", quote(p.Timeout.String()))
		}
		w.whole("max_in_flight", p.MaxInFlight)
		w.whole("replicas", p.Replicas)
		w.texts("env", p.Env)
		w.close()
	}
	w.close()
}

func (w *writer) values(values map[string]any, s schema.Schema) {
	for _, a := range s.Attributes {
		v, ok := values[a.Name]
		if a.Sensitive && ok {
			w.line("# %s is not written down; give it again to run this", a.Name)
			continue
		}
		if ok {
			w.attr(a.Name, w.value(v))
		}
	}
	for _, b := range s.Blocks {
		switch inner := values[b.Type].(type) {
		case map[string]any:
			w.open(b.Type)
			w.values(inner, b.Schema)
			w.close()
		case []any:
			for _, v := range inner {
				fields, _ := v.(map[string]any)
				header := []string{b.Type}
				labels, _ := fields["labels"].([]any)
				for _, l := range labels {
					header = append(header, w.value(l))
				}
				w.open(strings.Join(header, " "))
				w.values(fields, b.Schema)
				w.close()
			}
		}
	}
}

func (w *writer) value(v any) string {
	switch v := v.(type) {
	case schema.Ref:
		if a := w.run.AgentBlocks[v.Handle]; a != nil {
			return w.agent(a)
		}
		return w.ref(v.Handle)
	case string:
		return quote(v)
	case float64:
		return formatNumber(v)
	case []any:
		items := make([]string, len(v))
		for i, element := range v {
			items[i] = w.value(element)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case map[string]any:
		var items []string
		for _, key := range sortedKeys(v) {
			items = append(items, quote(key)+" = "+w.value(v[key]))
		}
		return "{" + strings.Join(items, ", ") + "}"
	}
	return fmt.Sprint(v)
}
