package experiment

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/schema"
)

// LanguageVersion is part of every run's identity. It grows when the meaning of an existing text changes.
const LanguageVersion = 1

// Run is the resolved configuration of one run: one cell of a study with one seed. Defaults are expanded and
// references followed; two uses of one block share a pointer. Fields tagged json:"-" do not change training and are
// left out of [Run.Canonical].
type Run struct {
	Study      string            `json:"-"` // name of the study's folder
	Ablation   string            `json:"-"` // "" for an experiment that is run alone
	Experiment string            `json:"-"` // label of the experiment block
	Arm        string            `json:"-"` // label of the arm, or the experiment's for one that is run alone
	Axes       map[string]string `json:"-"` // axis → value as shown
	Root       string            `json:"-"` // folder that relative paths of data start at, absolute

	Seed int64 `json:"seed"`
	// Policies by role. A run with stages trains main; others answer or generate.
	Policies map[string]*Policy `json:"policies"`
	// Tools by the name that agents call them by.
	Tools map[string]*Tool `json:"tools"`
	// Agent is the experiment's; stages and evaluations hold theirs merged over it.
	Agent *Agent `json:"-"`
	// Agents are further agents by the name that an algorithm gives in a rollout.
	Agents map[string]*Agent `json:"agents,omitempty"`
	// Sampling is the experiment's; stages and evaluations hold theirs merged over it.
	Sampling Sampling `json:"-"`
	// Deterministic asks for runs that repeat bit for bit; nil leaves it to the backend.
	Deterministic *bool `json:"-"`

	Stages      []*Stage      `json:"stages"`
	Evaluations []*Evaluation `json:"-"`
	Guards      []*Guard      `json:"guards,omitempty"`
	Checkpoint  Checkpoint    `json:"-"`
	Runtime     Runtime       `json:"-"`

	// What the run refers to, by handle: index.dense, corpus.wiki, encoder.e5, dataset.train, policy.qwen. Handles are
	// what plugins pass back to the host.
	Corpora      map[string]*Corpus  `json:"-"`
	Encoders     map[string]*Encoder `json:"-"`
	Indexes      map[string]*Index   `json:"-"`
	Datasets     map[string]*Dataset `json:"-"`
	PolicyBlocks map[string]*Policy  `json:"-"`
	AgentBlocks  map[string]*Agent   `json:"-"` // those that plugins refer to
}

// File is the absolute form of a path as written.
func (r *Run) File(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(r.Root, path)
}

// Policy is a language model: exactly one of Path, Builtin, Init and Endpoint.
type Policy struct {
	Handle   string    `json:"-"`
	Path     string    `json:"path,omitempty"`    // folder in the format of Hugging Face, as written
	Builtin  string    `json:"builtin,omitempty"` // such as minihop/habit
	Init     *Init     `json:"init,omitempty"`    // freshly drawn weights
	Endpoint *Endpoint `json:"endpoint,omitempty"`

	DType      string     `json:"dtype"` // of computation: float32, bfloat16, float64
	Frozen     bool       `json:"frozen,omitempty"`
	LoRA       *LoRA      `json:"lora,omitempty"`
	MaxContext int        `json:"max_context,omitempty"` // tokens; 0: what the model was made for
	Optimizer  *Optimizer `json:"-"`                     // default of the stages that train it

	Range hcl.Range `json:"-"`
}

// Init draws the weights of a new model.
type Init struct {
	Seed      int64  `json:"seed"`
	Tokenizer string `json:"tokenizer"` // a model folder, minihop, minihop/json or minihop/fields

	ModelType        string  `json:"model_type"` // llama, qwen2, qwen3
	HiddenSize       int     `json:"hidden_size"`
	Layers           int     `json:"layers"`
	Heads            int     `json:"heads"`
	KVHeads          int     `json:"kv_heads"`
	HeadDim          int     `json:"head_dim"`
	IntermediateSize int     `json:"intermediate_size"`
	VocabSize        int     `json:"vocab_size"` // 0: the tokenizer's
	MaxPositions     int     `json:"max_positions"`
	RMSNormEps       float64 `json:"rms_norm_eps"`
	RopeTheta        float64 `json:"rope_theta"`
	Tied             bool    `json:"tied"`
	QKVBias          bool    `json:"qkv_bias"`
	QKNorm           bool    `json:"qk_norm"`

	// StdDev holds standard deviations by part: embedding, query, key, value, output, gate, up, down, head.
	StdDev map[string]float64 `json:"std_dev"`
	// FinalNorm is the value of the last norm's weights.
	FinalNorm float64 `json:"final_norm"`
	// From is a built-in policy whose weights are taken over, and whose words keep their embeddings; only those of the
	// words that it does not know are drawn. "" draws all.
	From string `json:"from,omitempty"`
}

// BuiltinTokenizer says whether the tokenizer is one of the built-in world's and no file.
func (i *Init) BuiltinTokenizer() bool {
	return i.Tokenizer == "minihop" || strings.HasPrefix(i.Tokenizer, "minihop/")
}

// Endpoint is a model behind an OpenAI-compatible service. It is always frozen.
type Endpoint struct {
	URL    string `json:"url"`
	Model  string `json:"model"`
	KeyEnv string `json:"-"` // environment variable that holds the key

	Concurrency    int `json:"-"` // requests under way at once
	TimeoutSeconds int `json:"-"` // of one attempt
	Retries        int `json:"-"` // further attempts after a failed one
}

// LoRA trains low-rank adapters in place of the weights.
type LoRA struct {
	Rank    int      `json:"rank"`
	Alpha   float64  `json:"alpha"`
	Dropout float64  `json:"dropout"`
	Targets []string `json:"targets"` // projections: query, key, value, output, gate, up, down
}

// Tool is a retriever under the name that agents call it by.
type Tool struct {
	Name      string    `json:"name"`
	Handle    string    `json:"-"` // tool.search
	Retriever *Plugin   `json:"retriever"`
	Range     hcl.Range `json:"-"`
}

// Plugin is a configured plugin. Values hold every attribute of its schema that has a value, defaults expanded:
// string, bool, float64 (whole numbers too), []any, map[string]any (maps and nested single blocks), []any of
// map[string]any for repeated blocks (labels under "labels"), and [schema.Ref] for references. A nested block that is
// not written is absent.
type Plugin struct {
	Kind   sdk.Kind
	Label  string // as written: the plugin's name, or pack/name
	Values map[string]any
	Info   PluginInfo

	// Process settings, which change no result.
	Timeout     time.Duration // 0: the host's default
	MaxInFlight int           // 0: the host's default
	Replicas    int           // 0 and 1: one process
	Env         []string      // names of environment variables that the process may read

	Range hcl.Range
	// Ranges leads from a path as in a diagnostic ("k", "index", "schedule.start") to its place in the files.
	Ranges map[string]hcl.Range

	targets map[string]any // handle → what it leads to
	uses    *[]sdk.Use     // what it takes from its stage; nil where it was not asked
}

// Corpus is a collection of documents: exactly one of Paths and Builtin.
type Corpus struct {
	Handle  string    `json:"-"`
	Paths   []string  `json:"path,omitempty"` // files and folders, as written
	Builtin string    `json:"builtin,omitempty"`
	Seed    int64     `json:"seed,omitempty"` // of a built-in world
	World   *World    `json:"world,omitempty"`
	Limit   int       `json:"limit,omitempty"` // the first documents; 0: all
	Range   hcl.Range `json:"-"`
}

// World holds the knobs of the built-in world (see package minihop).
type World struct {
	TwoTokenNames bool      `json:"two_token_names,omitempty"`
	Mix           []float64 `json:"mix,omitempty"` // shares of questions with 1, 2 and 3 hops
	// Protocol is what scripted episodes are written in: "" for tags, or json.
	Protocol string `json:"protocol,omitempty"`

	// Of a stream of scripted episodes (split = "stream").
	Phase      string   `json:"phase,omitempty"` // skill, habit, never, shy
	FullShare  *float64 `json:"full_share,omitempty"`
	WrongQuery *float64 `json:"wrong_query,omitempty"`
	PerWorld   int      `json:"per_world,omitempty"`
}

// Encoder turns texts into vectors: exactly one of Path and Kind.
type Encoder struct {
	Handle        string    `json:"-"`
	Kind          string    `json:"kind"`           // hashed or model
	Path          string    `json:"path,omitempty"` // model folder, as written
	Dimensions    int       `json:"dimensions,omitempty"`
	TitleWeight   float64   `json:"title_weight,omitempty"` // hashed: weight of a title word
	Pooling       string    `json:"pooling,omitempty"`      // model: mean, cls or last
	QueryPrefix   string    `json:"query_prefix,omitempty"`
	PassagePrefix string    `json:"passage_prefix,omitempty"`
	Normalize     bool      `json:"normalize"`
	MaxLength     int       `json:"max_length,omitempty"` // tokens
	DType         string    `json:"dtype,omitempty"`
	Batch         int       `json:"-"`
	Range         hcl.Range `json:"-"`
}

// Index makes a corpus searchable: exactly one of HNSW, BM25, Flat and Remote.
type Index struct {
	Handle  string   `json:"-"`
	Corpus  *Corpus  `json:"corpus"`
	Encoder *Encoder `json:"encoder,omitempty"` // nil for BM25
	Unit    string   `json:"unit"`              // document, paragraph or sentence
	// SentenceTitles indexes sentences together with their documents' titles.
	SentenceTitles bool      `json:"index_title,omitempty"`
	HNSW           *HNSW     `json:"hnsw,omitempty"`
	BM25           *BM25     `json:"bm25,omitempty"`
	Flat           *Flat     `json:"flat,omitempty"`
	Remote         *Remote   `json:"remote,omitempty"`
	Range          hcl.Range `json:"-"`
}

// Kind is how the index searches: hnsw, flat, bm25 or remote.
func (x *Index) Kind() string {
	switch {
	case x.BM25 != nil:
		return "bm25"
	case x.Flat != nil:
		return "flat"
	case x.Remote != nil:
		return "remote"
	}
	return "hnsw"
}

// HNSW are the parameters of a graph index.
type HNSW struct {
	M              int   `json:"m"`
	EfConstruction int   `json:"ef_construction"`
	EfSearch       int   `json:"ef_search"`
	Seed           int64 `json:"seed"`
}

// BM25 are the parameters of a lexical index.
type BM25 struct {
	K1 float64 `json:"k1"`
	B  float64 `json:"b"`
}

// Flat asks for exact search over all vectors.
type Flat struct{}

// Remote is an index in a database.
type Remote struct {
	Kind   string `json:"kind"` // pgvector
	Table  string `json:"table"`
	DSNEnv string `json:"-"` // environment variable that holds the connection string
}

// Dataset is a list of questions or of expert episodes: exactly one of Path, Builtin, Artefact and Concat.
type Dataset struct {
	Handle   string     `json:"-"`
	Path     string     `json:"path,omitempty"` // as written
	Builtin  string     `json:"builtin,omitempty"`
	Artefact string     `json:"artefact,omitempty"` // written by an earlier produce stage
	Concat   []*Dataset `json:"concat,omitempty"`

	Split     string `json:"split,omitempty"`
	Format    string `json:"format,omitempty"`     // "": from the file
	Limit     int    `json:"limit,omitempty"`      // 0: all
	Seed      *int64 `json:"seed,omitempty"`       // of the random draw of Limit questions, or of a built-in world; nil: the first ones
	Hops      []int  `json:"hops,omitempty"`       // keep only questions with these numbers of hops
	GoldMatch string `json:"gold_match,omitempty"` // paragraph, document, title; "": the finest that dataset and corpus share
	// MaxUnresolved is the share of golds that may be missing in the corpus; nil: the default.
	MaxUnresolved *float64 `json:"max_unresolved,omitempty"`
	World         *World   `json:"world,omitempty"`
	// Order is given or shuffled (by the run's seed); it matters for training only.
	Order string    `json:"order"`
	Range hcl.Range `json:"-"`
}

// Agent is how a policy is asked and what it may do.
type Agent struct {
	Name         string    `json:"-"` // label of the agent block it comes from, "" for none
	ChatTemplate bool      `json:"chat_template"`
	System       *Template `json:"system,omitempty"`
	User         *Template `json:"user,omitempty"`
	Observation  *Template `json:"observation,omitempty"`
	Invalid      *Template `json:"invalid,omitempty"` // nil: an invalid action ends the episode
	Limit        *Template `json:"limit,omitempty"`
	Closing      *Template `json:"closing,omitempty"`
	Protocol     Protocol  `json:"protocol"`

	MaxTurns    int    `json:"max_turns"`              // turns with tool calls; 0: no bound
	MaxSearches int    `json:"max_searches"`           // executed calls; 0: no bound
	OnBudget    string `json:"on_budget"`              // close, stop, limit_text
	FirstAction string `json:"first_action,omitempty"` // search_question or ""

	TurnTokens           TurnTokens `json:"turn_tokens"`
	MaxPromptTokens      int        `json:"max_prompt_tokens"`      // 0: no bound
	MaxResponseTokens    int        `json:"max_response_tokens"`    // all tokens after the prompt; 0: no bound
	MaxObservationTokens int        `json:"max_observation_tokens"` // of each observation; 0: no bound

	Tool  string    `json:"tool,omitempty"` // that calls without a name go to; "" where there is only one
	Tools []string  `json:"tools,omitzero"` // names; nil: all of the run, empty: none
	Range hcl.Range `json:"-"`
}

// TurnTokens bounds the tokens of a turn: the first, later ones, and the last one after the budget is used up.
type TurnTokens struct {
	First int `json:"first"`
	Next  int `json:"next"`
	Last  int `json:"last"`
}

// Protocol is the language in which the policy acts; the pointer of its kind is set.
type Protocol struct {
	Kind   string          `json:"kind"` // tags, json, fields
	Tags   *TagsProtocol   `json:"tags,omitempty"`
	JSON   *JSONProtocol   `json:"json,omitempty"`
	Fields *FieldsProtocol `json:"fields,omitempty"`
}

// TagPair is a pair of strings around something.
type TagPair struct {
	Open  string `json:"open"`
	Close string `json:"close"`
}

// TagsProtocol is plain text with tags.
type TagsProtocol struct {
	Think       TagPair            `json:"think"`
	Call        TagPair            `json:"call"`
	Observation TagPair            `json:"observation"`
	Answer      TagPair            `json:"answer"`
	Calls       map[string]TagPair `json:"calls,omitempty"` // tool → its own tags

	// StopAtAnswer ends a turn at the answer's closing tag; without it only calls and the end of sequence do.
	StopAtAnswer bool `json:"stop_at_answer"`
	// CallsInThink ignores calls after the turn's first closing think tag.
	CallsInThink bool `json:"calls_in_think"`
}

// JSONProtocol is tool calls as JSON objects between tags.
type JSONProtocol struct {
	Think       TagPair `json:"think"`
	Call        TagPair `json:"call"`
	Observation TagPair `json:"observation"`
	Answer      TagPair `json:"answer"`
	NameKey     string  `json:"name_key"`
	ArgsKey     string  `json:"arguments_key"`
	FinishTool  string  `json:"finish_tool,omitempty"` // a call of this name gives the answer
	FinishArg   string  `json:"finish_argument,omitempty"`
}

// FieldsProtocol is named fields, each under a marker line; the prompt is rendered anew each hop.
type FieldsProtocol struct {
	Marker     TagPair `json:"marker"` // around a field's name
	Thought    string  `json:"thought"`
	Tool       string  `json:"tool"`
	Arguments  string  `json:"arguments"`
	Completed  string  `json:"completed"`
	FinishTool string  `json:"finish_tool,omitempty"`
	FinishArg  string  `json:"finish_argument,omitempty"`
	Inline     bool    `json:"inline,omitempty"` // a marker acts wherever it stands, not only on a line of its own
}

// Stage is a part of training with settings of its own, each merged over the experiment's.
type Stage struct {
	Name        string   `json:"name"`
	Policy      string   `json:"policy"` // role that is trained
	Train       *Dataset `json:"train,omitempty"`
	Experts     *Dataset `json:"experts,omitempty"`
	Annotations []string `json:"annotations,omitempty"` // artefacts of earlier stages, merged into the questions

	Agent     *Agent    `json:"agent"`
	Sampling  Sampling  `json:"sampling"`
	Optimizer Optimizer `json:"optimizer"`
	Schedule  Schedule  `json:"schedule"`
	Critic    *Critic   `json:"critic,omitempty"` // nil: defaults, where the algorithm asks for one
	Reward    *Reward   `json:"reward,omitempty"`
	Algorithm *Plugin   `json:"algorithm"`

	Steps          int       `json:"steps"`
	Questions      int       `json:"questions"`         // per step
	Produce        []string  `json:"produce,omitempty"` // artefacts; not empty: the stage makes no updates
	OptimizerState string    `json:"optimizer_state"`   // fresh or keep
	Range          hcl.Range `json:"-"`
}

// Sampling is how the policy's tokens are drawn.
type Sampling struct {
	Temperature float64 `json:"temperature"`
	TopP        float64 `json:"top_p"`
	TopK        int     `json:"top_k"` // 0: all
	Greedy      bool    `json:"greedy,omitempty"`
}

// Optimizer is AdamW (Loshchilov & Hutter 2019).
type Optimizer struct {
	Kind         string     `json:"kind"` // adamw
	LearningRate float64    `json:"learning_rate"`
	Betas        [2]float64 `json:"betas"`
	Eps          float64    `json:"eps"`
	WeightDecay  float64    `json:"weight_decay"`
	ClipNorm     float64    `json:"clip_norm"` // global norm; 0: no clipping
}

// Schedule scales the learning rate over the training steps of a stage: warm-up · curve. The warm-up of W steps is
// min(1, (step+1)/W), or min(1, step/max(1, W)) with FromZero. The curve falls from 1 to Final, over the whole stage or
// with AfterWarmup over what the warm-up leaves of it: constant not at all,
// linear and cosine over the stage's steps.
type Schedule struct {
	Kind     string `json:"kind"` // constant, linear, cosine
	Warmup   int    `json:"warmup_steps"`
	FromZero bool   `json:"from_zero"`
	// AfterWarmup lets the fall begin where the warm-up ends, as transformers does.
	AfterWarmup bool    `json:"after_warmup,omitempty"`
	Final       float64 `json:"final"`
}

// Critic trains the value network.
type Critic struct {
	Optimizer Optimizer `json:"optimizer"`
	Schedule  Schedule  `json:"schedule"`
}

// Reward scores episodes: each source by a plugin, combined by expressions.
type Reward struct {
	Sources   []Source    `json:"sources"` // sorted by name
	Total     *Expression `json:"total"`
	TurnTotal *Expression `json:"turn_total,omitempty"`
	Range     hcl.Range   `json:"-"`
}

// Source is a reward plugin under the name that expressions use.
type Source struct {
	Name   string  `json:"name"`
	Plugin *Plugin `json:"plugin"`
}

// Evaluation asks questions of a dataset and measures.
type Evaluation struct {
	Name       string           `json:"-"`
	Dataset    *Dataset         `json:"dataset"`
	Policy     string           `json:"policy"` // role that is evaluated
	Agent      *Agent           `json:"agent"`
	Tools      map[string]*Tool `json:"tools"`
	Sampling   Sampling         `json:"sampling"`
	Samples    int              `json:"samples"` // per question
	Metrics    []string         `json:"metrics"`
	Every      int              `json:"-"` // training steps over all stages; 0: at the end only
	AnswerWith *AnswerWith      `json:"answer_with,omitempty"`
	Range      hcl.Range        `json:"-"`
}

// AnswerWith lets another policy write the answer from what was found.
type AnswerWith struct {
	Role   string  `json:"role,omitempty"` // of the policy; "" for one that is referred to as policy.x
	Policy *Policy `json:"policy"`
	Agent  *Agent  `json:"agent"`
}

// Guard watches the metrics of training steps.
type Guard struct {
	Name   string      `json:"-"`
	When   *Expression `json:"when"`
	Action string      `json:"action"` // warn, checkpoint, stop
	Range  hcl.Range   `json:"-"`
}

// Values of [Guard.Action].
const (
	ActionWarn       = "warn"       // say so and go on
	ActionCheckpoint = "checkpoint" // write a checkpoint and go on
	ActionStop       = "stop"       // end the run; the study goes on
)

// DefaultMetrics are those of an evaluation that names none.
var DefaultMetrics = []string{"em", "f1", "evidence_any", "evidence_all", "searches", "unnecessary_searches", "policy_tokens"}

// Checkpoint says when the state is written and which state is evaluated in the end.
type Checkpoint struct {
	Every  int // training steps over all stages; 0: at the end of each stage only
	Keep   int
	Select Select
}

// Select names the checkpoint that final figures come from.
type Select struct {
	Kind       string // SelectLast or SelectBest
	Evaluation string // of best
	Metric     string
}

// Kinds of [Select].
const (
	SelectLast = "last"
	SelectBest = "best"
)

// Runtime are settings that change no result beyond rounding.
type Runtime struct {
	Backend          string // "": the best there is
	MicroBatchTokens int    // most tokens that train together; 0: as many as a fixed share of memory takes
	Workers          int    // concurrent reward and tool batches; 0: default
}

// PluginInfo says which plugin a label means and what its configuration block may hold.
type PluginInfo struct {
	Name        string // of the plugin
	Schema      schema.Schema
	Pack        string
	PackVersion string // semantic version
	Digest      string // of the binary
}
