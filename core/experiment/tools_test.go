package experiment_test

import (
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/internal/testschemas"
)

const sentenceStudy = `
corpus "world" {
  builtin = "minihop"
}
encoder "hashed" {
  kind = "hashed"
}
index "sentences" {
  corpus  = corpus.world
  encoder = encoder.hashed
  unit    = "sentence" INDEX
}
tool "near" {
  retriever "dense" {
    index = index.sentences
  }
}
tool "far" {
  retriever "dense" {
    index = index.sentences
  }
}
dataset "experts" {
  builtin = "minihop"
  split   = "experts"
  WORLD
}
policy "p" {
  init {
    tokenizer = "minihop/json"
    hidden_size = 8
    layers = 1
    heads = 1
    intermediate_size = 8
  }
}
experiment "e" {
  policies = { main = policy.p }
  tools    = { near = tool.near, far = tool.far }
  train    = dataset.experts
  agent {
    user        = "${question.text}"
    observation = "%{if tool == "near"}near%{else}far%{endif}"
    max_turns   = 3 AGENT
  }
  stage "main" {
    optimizer "adamw" {
      learning_rate = 1e-3
    }
    algorithm "grpo" {}
    steps     = 1
    questions = 1
  }
}
`

// TestTools: agents of several tools, what their calls look like, and sentences as what is found.
func TestTools(t *testing.T) {
	tags := `
    protocol "tags" {
      calls       = { near = { open = "<n>", close = "</n>" }, far = { open = "<f>", close = "</f>" } }
      observation = { open = "<o>", close = "</o>" }
      answer      = { open = "<a>", close = "</a>" }
    }`
	for name, test := range map[string]struct {
		index, world, agent string
		want                func(*experiment.Run) bool
		refused             string
	}{
		"json": {agent: "\n protocol \"json\" {}", want: func(r *experiment.Run) bool {
			j := r.Agent.Protocol.JSON
			return j.Call.Open == "<tool_call>" && j.Answer.Close == "</answer>" && j.NameKey == "name" && j.FinishTool == "" && j.FinishArg == "" &&
				r.Indexes["index.sentences"].SentenceTitles && r.Datasets["dataset.experts"].World == nil && r.PolicyBlocks["policy.p"].Init.BuiltinTokenizer()
		}},
		"finishing tool": {agent: "\n protocol \"json\" { \n finish_tool = \"finish\" \n }", want: func(r *experiment.Run) bool {
			return r.Agent.Protocol.JSON.FinishArg == "answer"
		}},
		"tags of its own for each tool": {agent: tags, want: func(r *experiment.Run) bool {
			p := r.Agent.Protocol.Tags
			return p.Call == experiment.TagPair{} && p.Calls["far"].Close == "</f>" && len(p.Calls) == 2
		}},
		"without titles": {index: "\n index_title = false", agent: tags, want: func(r *experiment.Run) bool {
			return !r.Indexes["index.sentences"].SentenceTitles
		}},
		"experts in json": {world: "world {\n protocol = \"json\" \n}", agent: tags, want: func(r *experiment.Run) bool {
			return r.Datasets["dataset.experts"].World.Protocol == "json"
		}},
		"json without max_turns":   {agent: "\n max_searches = 2 \n max_turns = 0 \n protocol \"json\" {}", refused: "needs max_turns"},
		"plain calls of two tools": {agent: strings.Replace(tags, "calls ", "call = { open = \"<c>\", close = \"</c>\" } #", 1), refused: "name no tool"},
		"no calls at all":          {agent: strings.Replace(tags, "calls ", "#", 1), refused: "needs call"},
		"a tool that is not there": {agent: strings.Replace(tags, "far =", "fat =", 1), refused: `tags for "fat"`},
		"closing like an answer":   {agent: strings.Replace(tags, "</f>", "</a>", 1), refused: "calls.far and answer must close differently"},
		"unknown protocol":         {world: "world {\n protocol = \"yaml\" \n}", agent: tags, refused: "protocol"},
	} {
		t.Run(name, func(t *testing.T) {
			agent := test.agent
			source := sentenceStudy
			if strings.Contains(agent, "max_turns = 0") {
				source, agent = strings.Replace(source, "max_turns   = 3", "", 1), strings.Replace(agent, "max_turns = 0", "", 1)
			}
			source = strings.NewReplacer("INDEX", test.index, "WORLD", test.world, "AGENT", agent).Replace(source)
			s, diags := experiment.Load(t.Context(), tree(t, map[string]string{"main.hcl": source}), experiment.Inputs{}, &testschemas.Source{})
			var run *experiment.Run
			if !diags.HasErrors() {
				a, more := s.Method("e")
				if diags = append(diags, more...); !diags.HasErrors() {
					run, more = s.Resolve(a, a.Arms[0], nil, 1)
					diags = append(diags, more...)
				}
			}
			if test.refused != "" {
				if !diags.HasErrors() || !strings.Contains(printed(t, s, diags), test.refused) {
					t.Errorf("want %q, got %s", test.refused, printed(t, s, diags))
				}
				return
			}
			failOn(t, s, diags)
			if !test.want(run) {
				t.Errorf("got %+v", run.Agent.Protocol)
			}
		})
	}
}

// TestAbsurdSizes: what no machine could hold is refused where it stands.
func TestAbsurdSizes(t *testing.T) {
	for old, test := range map[string]struct{ slip, refused string }{
		`kind = "hashed"`: {"kind = \"hashed\"\n dimensions = 1000000", "dimensions must be at most 65536, got 1000000"},
		"questions = 1\n": {"questions = 100000000000\n", "questions must be at most 10000000, got 100000000000"},
		`stage "main"`:    {"evaluate \"experts\" {\n dataset = dataset.experts\n samples = 1000000\n }\n stage \"main\"", "samples must be at most 100000, got 1000000"},
		"hidden_size = 8": {"hidden_size = 100000000", "Such a model has 4e+16 parameters"},
	} {
		source := strings.NewReplacer("INDEX", "", "WORLD", "", "AGENT", "\n protocol \"json\" {}", old, test.slip).Replace(sentenceStudy)
		s, diags := experiment.Load(t.Context(), tree(t, map[string]string{"main.hcl": source}), experiment.Inputs{}, &testschemas.Source{})
		failOn(t, s, diags)
		a, diags := s.Method("e")
		failOn(t, s, diags)
		_, diags = s.Resolve(a, a.Arms[0], nil, 1)
		if text := printed(t, s, diags); !diags.HasErrors() || !strings.Contains(text, test.refused) || !strings.Contains(text, "main.hcl line") {
			t.Errorf("%s: want %q, got %s", test.slip, test.refused, text)
		}
	}
}
