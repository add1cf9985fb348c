package experiment_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/internal/testschemas"
)

// method is a file of methods in a folder of its own, with a prompt beside it.
const method = `
agent "first" {
  user = file("prompt.txt")
  protocol "tags" {
    call        = { open = "<s>", close = "</s>" }
    observation = { open = "<i>", close = "</i>" }
    answer      = { open = "<a>", close = "</a>" }
  }
  observation = "seen"
  invalid     = "what?"
  max_turns   = 4
  turn_tokens {
    first = 10
    next  = 20
  }
}

agent "second" {
  base      = agent.first
  max_turns = 5
  invalid   = null
  turn_tokens {
    next = 30
  }
}

agent "third" {
  base   = agent.second
  remove = ["turn_tokens"]
  user   = "${question.text}?"
  protocol "tags" {
    answer = { open = "<b>", close = "</b>" }
  }
}

agent "fourth" {
  base = agent.third
  protocol "json" {}
}

experiment "whole" {
  description = "the whole"
  seeds       = [7]
  agent       = agent.first
  sampling {
    temperature = 0.5
    top_p       = 0.9
  }
  reward {
    source "outcome" {
      reward "exact-match" {}
    }
  }
  stage "main" {
    optimizer "adamw" {
      learning_rate = 1e-6
    }
    algorithm "grpo" {
      kl         = 0.5
      group_size = 8
    }
    steps     = 10
    questions = 2
  }
  guard "stop" {
    when = step > 5
  }
}

experiment "half" {
  base   = experiment.whole
  remove = ["guard.stop"]
  agent  = agent.second
  sampling {
    temperature = null
  }
  stage "main" {
    algorithm "grpo" {
      kl = 0.25
    }
  }
}

experiment "quarter" {
  base = experiment.half
  stage "main" {
    algorithm "david-grpo" {}
    steps = 3
  }
}
`

const userOfMethod = `
include {
  files = ["../methods/m.hcl"]
}

set "world" {
  policies = { main = policy.small }
  tools    = { search = tool.search }
  train    = dataset.train
  stage "main" {
    questions = 3
  }
}

set "tests" {
  evaluate "test" {
    dataset = dataset.test
    samples = 2
  }
  stage "main" {
    questions = 4
  }
}

set "cold" {
  sampling {
    temperature = 0.1
  }
  evaluate "test" {
    samples = 4
  }
}

ablation "a" {
  seeds = [1]
  sets  = [set.world, set.tests]
  set {
    evaluate "test" {
      samples = 3
    }
  }
  arm "quarter" {
    experiment = experiment.quarter
  }
  arm "cold" {
    experiment = experiment.half
    sets       = [set.cold]
    evaluate "test" {
      metrics = ["em"]
    }
  }
  arm "third" {
    experiment = experiment.whole
    agent      = agent.third
  }
  arm "fourth" {
    experiment = experiment.whole
    agent      = agent.fourth
  }
}

ablation "b" {
  seeds = [1]
  sets  = [set.tests, set.world]
  arm "x" {
    experiment = experiment.quarter
  }
}
`

// sharedBlocks are corpora, tools and policies for a study.
func sharedBlocks(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../plan/testdata/base.hcl")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func loadMethod(t *testing.T) *experiment.Study {
	t.Helper()
	dir := tree(t, map[string]string{
		"methods/m.hcl": method, "methods/prompt.txt": "a <prompt> ${question.text}",
		"study/main.hcl": userOfMethod, "study/prompt.txt": "another prompt", "study/base.hcl": sharedBlocks(t),
	})
	s, diags := experiment.Load(t.Context(), dir+"/study", experiment.Inputs{}, &testschemas.Source{})
	failOn(t, s, diags)
	return s
}

// TestBase: a block is merged over its base as an arm over its experiment, along chains and across files.
func TestBase(t *testing.T) {
	s := loadMethod(t)

	quarter := resolve(t, s, "a", "quarter", 1)
	stage := quarter.Stages[0]
	if stage.Algorithm.Label != "david-grpo" || stage.Algorithm.Values["kl"] != nil || stage.Algorithm.Values["group_size"] != 5.0 {
		t.Errorf("another plugin keeps parts of the base's: %v", stage.Algorithm.Values)
	}
	if stage.Steps != 3 || stage.Optimizer.LearningRate != 1e-6 || quarter.Sampling.Temperature != 1 || quarter.Sampling.TopP != 0.9 || len(quarter.Guards) != 0 {
		t.Errorf("the chain gave\n%s", quarter.HCL())
	}
	if quarter.Agent.Name != "second" || quarter.Agent.MaxTurns != 5 || quarter.Agent.Invalid != nil || quarter.Agent.TurnTokens != (experiment.TurnTokens{First: 10, Next: 30, Last: 10}) {
		t.Errorf("the agent is %+v", quarter.Agent)
	}
	if got := quarter.Agent.User.Source(); got != "a <prompt> ${question.text}" {
		t.Errorf("the base's file is read as %q", got)
	}
	if at := quarter.Agent.User.Range(); !strings.HasSuffix(at.Filename, "methods/prompt.txt") {
		t.Errorf("the base's template is said to stand at %v", at)
	}
	if at := quarter.Agent.Observation.Range(); !strings.HasSuffix(at.Filename, "methods/m.hcl") || at.Start.Line != 9 {
		t.Errorf("the base's observation is said to stand at %v", at)
	}
	if !strings.HasSuffix(quarter.Agent.Range.Filename, "methods/m.hcl") || quarter.Agent.Range.Start.Line != 18 {
		t.Errorf("the agent is said to stand at %v", quarter.Agent.Range)
	}

	third := resolve(t, s, "a", "third", 1).Agent
	if third.TurnTokens != (experiment.TurnTokens{First: 512, Next: 512, Last: 512}) || third.MaxTurns != 5 || third.Protocol.Tags.Answer.Open != "<b>" || third.Protocol.Tags.Call.Open != "<s>" {
		t.Errorf("the third agent is %+v", third)
	}
	if fourth := resolve(t, s, "a", "fourth", 1).Agent; fourth.Protocol.Tags != nil || fourth.Protocol.JSON == nil || fourth.User.Source() != third.User.Source() {
		t.Errorf("another protocol keeps parts of the base's: %+v", fourth.Protocol)
	}

	if a, diags := s.Ablation("whole"); diags.HasErrors() || a.Description != "the whole" || a.Seeds[0] != 7 {
		t.Errorf("the base by itself: %+v, %v", a, diags)
	}
	if a, diags := s.Method("half"); diags.HasErrors() || a.Description != "" || a.Seeds[0] != 1 {
		t.Errorf("description and seeds are the base's: %+v, %v", a, diags)
	}
	if targets := strings.Join(s.Targets(), " "); targets != "a b whole" {
		t.Errorf("what can be run is %s", targets)
	}
}

// TestBaseIsResolved: a written configuration holds no base, and is the same run.
func TestBaseIsResolved(t *testing.T) {
	r := resolve(t, loadMethod(t), "a", "quarter", 1)
	written, diags := experiment.Load(t.Context(), tree(t, map[string]string{"main.hcl": string(r.HCL())}), experiment.Inputs{}, &testschemas.Source{})
	failOn(t, written, diags)
	again := resolve(t, written, "", written.Targets()[0], 1)
	want, err := r.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	got, err := again.Canonical()
	if err != nil || string(got) != string(want) {
		t.Errorf("read again, the run is\n%s\nnot\n%s (%v)", got, want, err)
	}
	for _, word := range []string{"base", "sets", "set "} {
		if strings.Contains(string(r.HCL()), "\n  "+word) {
			t.Errorf("%q is written down:\n%s", word, r.HCL())
		}
	}
}

// TestSets: sets are merged in their order, before the ablation's own, and an arm's before what it says itself.
func TestSets(t *testing.T) {
	s := loadMethod(t)
	quarter, cold, b := resolve(t, s, "a", "quarter", 1), resolve(t, s, "a", "cold", 1), resolve(t, s, "b", "x", 1)
	if quarter.Evaluations[0].Samples != 3 || quarter.Stages[0].Questions != 4 || b.Evaluations[0].Samples != 2 || b.Stages[0].Questions != 3 {
		t.Errorf("sets are not merged in order:\n%s\n%s", quarter.HCL(), b.HCL())
	}
	e := cold.Evaluations[0]
	if cold.Stages[0].Sampling.Temperature != 0.1 || cold.Stages[0].Sampling.TopP != 0.9 || e.Samples != 4 || len(e.Metrics) != 1 {
		t.Errorf("the arm's set gave\n%s", cold.HCL())
	}
	a, _ := s.Ablation("a")
	for i, want := range []string{"", "sampling.temperature evaluate.test.samples evaluate.test.metrics"} {
		if got := strings.Join(a.Arms[i].Parts, " "); got != want {
			t.Errorf("arm %s changes %q, want %q", a.Arms[i].Name, got, want)
		}
	}
}

// TestBaseOfSharedBlocks: blocks of every kind may have a base, and an axis over the base leaves what is made of it alone.
func TestBaseOfSharedBlocks(t *testing.T) {
	source := sharedBlocks(t) + `
dataset "part" {
  path       = "other.jsonl"
  limit      = 10
  seed       = 3
  gold_match = "title"
}

dataset "whole" {
  base       = dataset.part
  limit      = null
  seed       = null
  gold_match = null
}

index "exact" {
  base   = index.hnsw
  remove = ["hnsw"]
  flat {}
}

index "hnsw" {
  base = index.dense
  hnsw {
    m = 4
  }
}

tool "exact" {
  base = tool.search
  retriever "dense" {
    index = index.exact
  }
}

ablation "a" {
  seeds = [1]
  set {
    train = dataset.whole
    tools = { search = tool.exact }
    evaluate "part" {
      dataset = dataset.part
    }
  }
  arm "x" {
    experiment = experiment.base
  }
  axis "limit" {
    path   = dataset.part.limit
    values = [5]
  }
}
`
	s, diags := experiment.Load(t.Context(), tree(t, map[string]string{"main.hcl": source}), experiment.Inputs{}, &testschemas.Source{})
	failOn(t, s, diags)
	a, diags := s.Ablation("a")
	failOn(t, s, diags)
	r, diags := s.Resolve(a, a.Arms[0], map[string]experiment.AxisValue{"limit": a.Axes[0].Values[0]}, 1)
	failOn(t, s, diags)
	whole, part, index := r.Datasets["dataset.whole"], r.Datasets["dataset.part"], r.Indexes["index.exact"]
	if whole.Path != "other.jsonl" || whole.Limit != 0 || whole.Seed != nil || whole.GoldMatch != "" || part.Limit != 5 {
		t.Errorf("the datasets are %+v and %+v", whole, part)
	}
	if index == nil || index.Flat == nil || index.HNSW != nil || index.Encoder.Kind != "hashed" || index.Corpus.Handle != "corpus.wiki" {
		t.Errorf("the index is %+v", index)
	}
	if got := r.Tools["search"].Retriever.Values["k"]; got != 3.0 {
		t.Errorf("the tool returns %v hits", got)
	}
}

// TestBaseChain: a long chain is merged, a longer one refused where it becomes too long.
func TestBaseChain(t *testing.T) {
	load := func(n int) string {
		var source strings.Builder
		source.WriteString("agent \"a0\" {\n  max_turns = 3\n}\n")
		for i := 1; i <= n; i++ {
			fmt.Fprintf(&source, "agent \"a%d\" {\n  base = agent.a%d\n}\n", i, i-1)
		}
		s, diags := experiment.Load(t.Context(), tree(t, map[string]string{"main.hcl": source.String()}), experiment.Inputs{}, &testschemas.Source{})
		return printed(t, s, diags)
	}
	if problems := load(100); problems != "" {
		t.Error(problems)
	}
	if problems := load(101); strings.Count(problems, "Error: ") != 1 || !strings.Contains(problems, "Too many bases") || !strings.Contains(problems, `in agent "a101"`) {
		t.Errorf("101 bases gave %q", problems)
	}
}
