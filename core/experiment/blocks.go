package experiment

import (
	"math"
	"net/url"
	"slices"
	"strings"

	"github.com/forage-rl/forage/core/sdk"
)

// builtins are what may stand as builtin, by kind of block.
var builtins = map[string][]string{
	"corpus":  {"minihop"},
	"dataset": {"minihop"},
	"policy":  {"minihop/habit", "minihop/never", "minihop/shy", "minihop/skill", "minihop/json", "minihop/fields"},
}

// resolve makes the block that a plugin refers to part of the run.
func (c *resolver) resolve(ref *blockRef) any {
	switch ref.Kind {
	case "corpus":
		return c.corpus(ref)
	case "index":
		return c.index(ref)
	case "agent":
		return c.agentBlock(ref)
	}
	return c.policy(ref, "")
}

// agentBlock makes an agent that a plugin refers to part of the run.
func (c *resolver) agentBlock(ref *blockRef) *Agent {
	if v, ok := c.resolved[ref.String()]; ok {
		return v.(*Agent)
	}
	n := c.block(ref)
	if n == nil {
		return nil
	}
	v := c.agent(n, c.run.Tools)
	c.resolved[ref.String()], c.run.AgentBlocks[ref.String()] = v, v
	return v
}

// block gives a shared block with what the cell's axes lay over it, or nil.
func (c *resolver) block(ref *blockRef) *node {
	n := c.s.blocks[ref.Kind][ref.Name]
	if n == nil {
		return nil
	}
	c.s.use(ref.String())
	return merge(n, c.overlays[ref.String()])
}

// oneOf checks that exactly one of the names is given and says which.
func (r *reader) oneOf(names ...string) string {
	var given []string
	for _, name := range names {
		if r.has(name) || r.n.find(name) != nil {
			given = append(given, name)
		}
	}
	switch len(given) {
	case 1:
		return given[0]
	case 0:
		r.c.errorf(r.n.def, "Missing attribute", "%s needs one of %s.", r.n.name(), strings.Join(names, ", "))
	default:
		r.c.errorf(r.at(given[1]), "Conflicting attributes", "%s has %s, but exactly one of %s is allowed.", r.n.name(), strings.Join(given, " and "), strings.Join(names, ", "))
	}
	return ""
}

func (r *reader) builtin() string { return r.choice("builtin", "", builtins[r.n.typ]...) }

func (c *resolver) corpus(ref *blockRef) *Corpus {
	if v, ok := c.resolved[ref.String()]; ok {
		return v.(*Corpus)
	}
	n := c.block(ref)
	if n == nil {
		return nil
	}
	r := c.read(n)
	v := &Corpus{Handle: ref.String(), Range: n.def}
	source := r.oneOf("path", "builtin")
	v.Paths, v.Builtin = r.paths("path"), r.builtin()
	v.Limit = r.whole("limit", 0, 1)
	world := r.block("world")
	if v.Builtin != "" {
		v.Seed = r.integer("seed", 0, 0)
		if world != nil {
			v.World = c.world(world, "")
		}
	} else if has := r.has("seed") || world != nil; has && source == "path" {
		c.errorf(n.def, "Unsupported attribute", "seed and world are for a built-in corpus; this one is read from a path.")
	}
	r.done()
	c.resolved[v.Handle] = v
	c.run.Corpora[v.Handle] = v
	return v
}

// world reads the knobs of the built-in world; the splits "experts" and "stream" allow those of scripted episodes.
func (c *resolver) world(n *node, split string) *World {
	r := c.read(n)
	w := &World{TwoTokenNames: r.bool("two_token_names", false)}
	if mix, ok := r.numbers("mix"); ok {
		sum := 0.
		for _, share := range mix {
			sum += share
		}
		if len(mix) != 3 || slices.Min(mix) < 0 || math.Abs(sum-1) > 1e-6 {
			c.errorf(r.at("mix"), "Invalid value", "mix must be the shares of questions with 1, 2 and 3 hops, three numbers of at least 0 that sum to 1.")
		}
		w.Mix = mix
	}
	if split == "experts" || split == "stream" {
		if w.Protocol = r.choice("protocol", "tags", "tags", "json", "fields"); w.Protocol == "tags" {
			w.Protocol = "" // as where nothing is said
		}
	}
	if split == "stream" {
		w.Phase = r.choice("phase", "skill", "skill", "habit", "never", "shy")
		w.FullShare = r.optionalNumber("full_share", 0, 1)
		w.WrongQuery = r.optionalNumber("wrong_query", 0, 1)
		w.PerWorld = r.whole("per_world", 48, 1)
	}
	r.done()
	return w
}

func (c *resolver) encoder(ref *blockRef) *Encoder {
	if v, ok := c.resolved[ref.String()]; ok {
		return v.(*Encoder)
	}
	n := c.block(ref)
	if n == nil {
		return nil
	}
	r := c.read(n)
	v := &Encoder{Handle: ref.String(), Range: n.def}
	v.Path = r.path("path")
	v.Kind = "model"
	if !r.has("path") {
		v.Kind = r.choice("kind", "", "hashed", "model")
	} else if r.has("kind") {
		v.Kind = r.choice("kind", "model", "hashed", "model")
	}
	switch {
	case v.Kind == "hashed":
		if v.Path != "" {
			c.errorf(r.at("path"), "Conflicting attributes", "A hashed encoder has no path: its statistics are fitted on the index's corpus.")
		}
		const most = 1 << 16
		if v.Dimensions = r.whole("dimensions", 128, 2); v.Dimensions > most {
			c.errorf(r.at("dimensions"), "Invalid value", "dimensions must be at most %d, got %d.", most, v.Dimensions)
		}
		v.TitleWeight = r.above("title_weight", 3)
		v.Normalize = r.bool("normalize", true)
	case v.Kind == "model" && v.Path != "":
		v.Pooling = r.choice("pooling", "mean", "mean", "cls", "last")
		v.QueryPrefix, v.PassagePrefix = r.text("query_prefix", "query: "), r.text("passage_prefix", "passage: ")
		v.Normalize = r.bool("normalize", true)
		v.MaxLength = r.whole("max_length", 512, 1)
		v.DType = r.choice("dtype", "float32", "float32", "bfloat16", "float16")
		v.Batch = r.whole("batch", 32, 1)
	case !r.has("kind") || v.Kind == "model":
		c.errorf(n.def, "Missing attribute", `%s needs path (the folder of an encoder model) or kind = "hashed".`, n.name())
	}
	r.done()
	c.resolved[v.Handle] = v
	c.run.Encoders[v.Handle] = v
	return v
}

func (c *resolver) index(ref *blockRef) *Index {
	if v, ok := c.resolved[ref.String()]; ok {
		return v.(*Index)
	}
	n := c.block(ref)
	if n == nil {
		return nil
	}
	r := c.read(n)
	v := &Index{Handle: ref.String(), Range: n.def}
	if corpus := r.reference("corpus", "corpus"); corpus != nil {
		v.Corpus = c.corpus(corpus)
	} else if !r.has("corpus") {
		c.errorf(n.def, "Missing attribute", "%s needs corpus, a reference to a corpus block.", n.name())
	}
	if encoder := r.reference("encoder", "encoder"); encoder != nil {
		v.Encoder = c.encoder(encoder)
	}
	v.Unit = r.choice("unit", "paragraph", "document", "paragraph", "sentence")
	if titles := r.bool("index_title", true); v.Unit == "sentence" {
		v.SentenceTitles = titles
	} else if r.has("index_title") {
		c.errorf(r.at("index_title"), "Conflicting attributes", "index_title is for unit = \"sentence\"; documents and paragraphs are always indexed with their titles.")
	}
	c.indexKind(r, v)
	r.done()
	if v.BM25 != nil && r.has("encoder") {
		c.errorf(r.at("encoder"), "Conflicting attributes", "A BM25 index needs no encoder; remove it, or use hnsw, flat or remote.")
	}
	if v.BM25 == nil && !r.has("encoder") {
		c.errorf(n.def, "Missing attribute", "%s needs encoder, a reference to an encoder block, or a bm25 block.", n.name())
	}
	c.resolved[v.Handle] = v
	c.run.Indexes[v.Handle] = v
	return v
}

func (c *resolver) indexKind(r *reader, v *Index) {
	var given []*node
	for _, typ := range []string{"hnsw", "bm25", "flat", "remote"} {
		n := r.block(typ)
		if n == nil {
			continue
		}
		given = append(given, n)
		inner := c.read(n)
		switch typ {
		case "hnsw":
			v.HNSW = readHNSW(inner)
		case "bm25":
			v.BM25 = &BM25{K1: inner.number("k1", 1.2, 0, math.Inf(1)), B: inner.number("b", 0.75, 0, 1)}
		case "flat":
			v.Flat = &Flat{}
		case "remote":
			if !c.labels(n, 1, `the kind of store, "pgvector"`) {
				continue
			}
			v.Remote = &Remote{Kind: n.label(), Table: inner.text("table", "forage"), DSNEnv: inner.text("dsn_env", "FORAGE_PGVECTOR_DSN")}
			if v.Remote.Kind != "pgvector" {
				c.errorf(n.def, "Unknown store", "There is no store %q.%s The only one is pgvector.", v.Remote.Kind, didYouMean(v.Remote.Kind, []string{"pgvector"}))
			}
		}
		inner.done()
	}
	switch {
	case len(given) > 1:
		c.errorf(given[1].def, "Conflicting blocks", "%s has %s and %s, but exactly one of hnsw, bm25, flat and remote is allowed.", r.n.name(), given[0].typ, given[1].typ)
	case len(given) == 0:
		v.HNSW = readHNSW(c.read(&node{typ: "hnsw", attrs: map[string]*attr{}}))
	}
}

func readHNSW(r *reader) *HNSW {
	h := &HNSW{M: r.whole("m", 16, 2), EfConstruction: r.whole("ef_construction", 200, 1), EfSearch: r.whole("ef_search", 128, 1), Seed: r.integer("seed", 0, 0)}
	if h.EfConstruction < h.M {
		r.c.errorf(r.at("ef_construction"), "Value out of range", "ef_construction must be at least m = %d, got %d.", h.M, h.EfConstruction)
	}
	return h
}

func (c *resolver) dataset(ref *blockRef) *Dataset {
	if v, ok := c.resolved[ref.String()]; ok {
		return v.(*Dataset)
	}
	if ref.Kind == "artefact" {
		v := &Dataset{Handle: ref.String(), Artefact: ref.Name, Order: "shuffled"}
		c.resolved[v.Handle], c.run.Datasets[v.Handle] = v, v
		return v
	}
	n := c.block(ref)
	if n == nil {
		return nil
	}
	if slices.Contains(c.open, ref.String()) {
		c.errorf(n.def, "Circular reference", "%s is made of itself: %s.", ref, strings.Join(append(c.open, ref.String()), " → "))
		return nil
	}
	c.open = append(c.open, ref.String())
	defer func() { c.open = c.open[:len(c.open)-1] }()
	r := c.read(n)
	v := &Dataset{Handle: ref.String(), Range: n.def}
	source := r.oneOf("path", "builtin", "artefact", "concat")
	v.Path, v.Builtin = r.path("path"), r.builtin()
	if r.has("artefact") {
		if a := r.reference("artefact", "artefact"); a != nil {
			v.Artefact = a.Name
		}
	}
	if elements, ok := r.list("concat"); ok {
		for _, element := range elements {
			if inner := r.referenceIn("concat", element, "dataset"); inner != nil {
				if d := c.dataset(inner); d != nil {
					v.Concat = append(v.Concat, d)
				}
			}
		}
		if len(elements) == 0 {
			c.errorf(r.at("concat"), "Invalid value", "concat needs at least one dataset.")
		}
	}
	v.Limit = r.whole("limit", 0, 1)
	if r.has("seed") {
		seed := r.integer("seed", 0, 0)
		v.Seed = &seed
	}
	v.GoldMatch = r.choice("gold_match", "", "paragraph", "document", "title")
	v.MaxUnresolved = r.optionalNumber("max_unresolved", 0, 1)
	v.Order = r.choice("order", "shuffled", "given", "shuffled")
	if hops, ok := r.numbers("hops"); ok {
		for _, h := range hops {
			if h != math.Trunc(h) || h < 1 || h > 100 {
				c.errorf(r.at("hops"), "Invalid value", "hops must be a list of numbers of hops, such as [2, 3].")
				break
			}
			v.Hops = append(v.Hops, int(h))
		}
	}
	world := r.block("world")
	if source == "builtin" {
		v.Split = r.choice("split", "train", "train", "test", "experts", "stream")
		if v.Seed == nil {
			v.Seed = new(int64)
		}
		if world != nil || v.Split == "stream" {
			if world == nil {
				world = &node{typ: "world", attrs: map[string]*attr{}, def: n.def}
			}
			v.World = c.world(world, v.Split)
		}
	} else {
		v.Split = r.text("split", "")
		if source != "artefact" && source != "concat" {
			v.Format = r.text("format", "")
		}
		if world != nil {
			c.errorf(world.def, "Unsupported block", "world is for a built-in dataset.")
		}
	}
	r.done()
	c.resolved[v.Handle] = v
	c.run.Datasets[v.Handle] = v
	return v
}

// policy resolves a policy block. role names what axes lay over this use of it alone, "" for none.
func (c *resolver) policy(ref *blockRef, role string) *Policy {
	key := ref.String()
	n := c.block(ref)
	if n == nil {
		return nil
	}
	if over := c.overlays["policies."+role]; role != "" && over != nil {
		n, key = merge(n, over), "policies."+role
	}
	if v, ok := c.resolved[key]; ok {
		return v.(*Policy)
	}
	r := c.read(n)
	v := &Policy{Handle: key, Range: n.def}
	source := r.oneOf("path", "builtin", "init", "endpoint")
	v.Path, v.Builtin = r.path("path"), r.builtin()
	if init := r.block("init"); init != nil {
		v.Init = c.initial(init)
	}
	if endpoint := r.block("endpoint"); endpoint != nil {
		e := c.read(endpoint)
		v.Endpoint = &Endpoint{URL: e.text("url", ""), Model: e.text("model", ""), KeyEnv: e.text("key_env", "")}
		v.Endpoint.Concurrency, v.Endpoint.TimeoutSeconds, v.Endpoint.Retries = e.whole("concurrency", 8, 1), e.whole("timeout_seconds", 120, 1), e.whole("retries", 5, 1)
		for _, name := range []string{"url", "model"} {
			if !e.has(name) {
				c.errorf(endpoint.def, "Missing attribute", "An endpoint needs %s.", name)
			}
		}
		if at, err := url.Parse(v.Endpoint.URL); e.has("url") && (err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https") {
			c.errorf(e.at("url"), "Invalid value", "url must be the base of a service, such as http://127.0.0.1:8000/v1.")
		}
		e.done()
	}
	v.DType = r.choice("dtype", "float32", "float32", "bfloat16", "float64")
	v.Frozen = r.bool("frozen", source == "endpoint")
	if source == "endpoint" && !v.Frozen {
		c.errorf(r.at("frozen"), "Invalid value", "A policy behind an endpoint is always frozen.")
	}
	v.MaxContext = r.whole("max_context", 0, 1)
	if lora := r.block("lora"); lora != nil {
		v.LoRA = c.lora(lora)
	}
	if optimizer := r.block("optimizer"); optimizer != nil {
		o := c.optimizer(optimizer, false)
		v.Optimizer = &o
	}
	r.done()
	c.resolved[key] = v
	c.run.PolicyBlocks[key] = v
	return v
}

func (c *resolver) lora(n *node) *LoRA {
	r := c.read(n)
	l := &LoRA{Rank: r.whole("rank", 16, 1), Dropout: r.number("dropout", 0, 0, 0.99)}
	l.Alpha = r.above("alpha", float64(2*l.Rank))
	l.Targets = []string{"query", "key", "value", "output", "gate", "up", "down"}
	if targets, ok := r.texts("targets"); ok {
		for _, t := range targets {
			if !slices.Contains(l.Targets, t) {
				c.errorf(r.at("targets"), "Invalid value", "targets are projections out of %s, got %q.%s", strings.Join(l.Targets, ", "), t, didYouMean(t, l.Targets))
			}
		}
		l.Targets = targets
	}
	r.done()
	return l
}

func (c *resolver) initial(n *node) *Init {
	r := c.read(n)
	v := &Init{
		Seed: r.integer("seed", 0, 0), Tokenizer: r.text("tokenizer", ""),
		ModelType: r.choice("model_type", "llama", "llama", "qwen2", "qwen3"), HiddenSize: r.whole("hidden_size", 64, 1),
		Layers: r.whole("layers", 3, 1), Heads: r.whole("heads", 4, 1), VocabSize: r.whole("vocab_size", 0, 1),
		MaxPositions: r.whole("max_positions", 1024, 1), RMSNormEps: r.above("rms_norm_eps", 1e-6), RopeTheta: r.above("rope_theta", 10000),
		Tied: r.bool("tied", true), FinalNorm: r.above("final_norm", 1), StdDev: map[string]float64{},
		From: r.choice("from", "", builtins["policy"]...),
	}
	if v.Tokenizer == "" && !r.has("tokenizer") {
		c.errorf(n.def, "Missing attribute", "init needs tokenizer: a model folder, \"minihop\", \"minihop/json\" or \"minihop/fields\" (each with \"/names\" behind it for worlds with names of two words).")
	}
	v.KVHeads = r.whole("kv_heads", v.Heads, 1)
	v.HeadDim = r.whole("head_dim", max(v.HiddenSize/v.Heads, 1), 1)
	v.IntermediateSize = r.whole("intermediate_size", 2*v.HiddenSize, 1)
	v.QKVBias, v.QKNorm = r.bool("qkv_bias", v.ModelType == "qwen2"), r.bool("qk_norm", v.ModelType == "qwen3")
	if v.Heads%v.KVHeads != 0 {
		c.errorf(r.at("kv_heads"), "Invalid value", "kv_heads must divide heads = %d, got %d.", v.Heads, v.KVHeads)
	}
	if v.HeadDim%2 != 0 {
		c.errorf(r.at("head_dim"), "Invalid value", "head_dim must be even (rotary positions turn pairs), got %d.", v.HeadDim)
	}
	const most = 1e11 // far more than a machine holds: a slip, best told before memory runs out
	heads, hidden, layers := float64(v.HeadDim)*float64(v.Heads+v.KVHeads), float64(v.HiddenSize), float64(v.Layers)
	if count := hidden * (float64(v.VocabSize) + layers*(2*heads+3*float64(v.IntermediateSize))); count > most {
		c.errorf(n.def, "Model too large", "Such a model has %.3g parameters; see hidden_size, layers, heads, head_dim, intermediate_size and vocab_size.", count)
	}
	residual := 0.02 / math.Sqrt(2*float64(v.Layers)) // GPT-2's scaling of what is added to the residual stream
	parts := map[string]float64{"embedding": 0.02, "query": 0.02, "key": 0.02, "value": 0.02, "output": residual, "gate": 0.02, "up": 0.02, "down": residual, "head": 0.02}
	std := r.block("std_dev")
	if std == nil {
		std = &node{typ: "std_dev", attrs: map[string]*attr{}}
	}
	inner := c.read(std)
	for _, name := range sortedKeys(parts) {
		v.StdDev[name] = inner.number(name, parts[name], 0, math.Inf(1))
	}
	inner.done()
	r.done()
	return v
}

// tool resolves a tool block under the name that agents use.
func (c *resolver) tool(ref *blockRef, name string) *Tool {
	n := c.block(ref)
	if n == nil {
		return nil
	}
	n = merge(n, c.overlays["tools."+name])
	key := "tool " + name + " " + ref.String()
	if v, ok := c.resolved[key]; ok {
		return v.(*Tool)
	}
	r := c.read(n)
	v := &Tool{Name: name, Handle: ref.String(), Range: n.def}
	if retriever := r.block("retriever"); retriever != nil {
		v.Retriever = c.plugin(retriever, sdk.KindRetriever)
	} else {
		c.errorf(n.def, "Missing block", "%s needs a block retriever \"…\" that names its plugin.", n.name())
	}
	r.done()
	c.resolved[key] = v
	return v
}
