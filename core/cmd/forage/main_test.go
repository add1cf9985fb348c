package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// binary is forage with its packs beside it, built once for all tests as "make build" does.
var binary string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "forage-cli")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "forage")
	steps := [][]string{{"go", "build", "-ldflags", "-X main.version=v9.9.9-test", "-o", binary, "."}}
	for _, pack := range []string{"algorithms", "retrievers", "rewards"} {
		steps = append(steps, []string{"go", "build", "-o", filepath.Join(dir, "plugins", "forage-"+pack), "github.com/forage-rl/forage/plugins/" + pack})
	}
	steps = append(steps, []string{binary, "plugin", "bundle", filepath.Join(dir, "plugins")})
	for _, step := range steps {
		if out, err := exec.Command(step[0], step[1:]...).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n%s", strings.Join(step, " "), err, out)
			return 1
		}
	}
	return m.Run()
}

// place is a user's working folder with folders of cache and home of its own.
type place struct {
	t      *testing.T
	binary string
	dir    string
	env    []string
}

func newPlace(t *testing.T, files map[string]string) *place {
	t.Helper()
	p := &place{t: t, binary: binary, dir: t.TempDir()}
	p.env = append(os.Environ(), "HOME="+filepath.Join(p.dir, "home"), "FORAGE_CACHE="+filepath.Join(p.dir, "cache"), "FORAGE_RUNS=", "FORAGE_PLUGIN_DIR=")
	for _, name := range slices.Sorted(maps.Keys(files)) {
		p.write(name, files[name])
	}
	return p
}

func (p *place) path(name string) string { return filepath.Join(p.dir, name) }

func (p *place) write(name, text string) {
	p.t.Helper()
	if err := os.MkdirAll(filepath.Dir(p.path(name)), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(p.path(name), []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) read(name string) string {
	p.t.Helper()
	data, err := os.ReadFile(p.path(name))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(data)
}

func (p *place) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(p.t.Context(), p.binary, args...)
	cmd.Dir, cmd.Env = p.dir, p.env
	return cmd
}

// try runs forage and gives what it printed and its exit code.
func (p *place) try(args ...string) (stdout, stderr string, code int) {
	p.t.Helper()
	return p.finish(p.command(args...))
}

func (p *place) finish(cmd *exec.Cmd) (stdout, stderr string, code int) {
	p.t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// ok runs forage, which must succeed, and gives what it printed.
func (p *place) ok(args ...string) string {
	p.t.Helper()
	stdout, stderr, code := p.try(args...)
	if code != 0 {
		p.t.Fatalf("forage %s: exit code %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return stdout
}

// wantAll reports the parts that a text lacks.
func wantAll(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in:\n%s", part, text)
		}
	}
}

// world declares what the small studies of the tests search, ask and train: the embedded world, with a policy of random
// weights.
const world = `
corpus "world" {
  builtin = "minihop"
  seed    = seed + 1
}
encoder "hashed" {
  kind = "hashed"
}
index "dense" {
  corpus  = corpus.world
  encoder = encoder.hashed
  unit    = "document"
  hnsw {}
}
tool "search" {
  retriever "dense" {
    index = index.dense
    k     = 2
  }
}
dataset "train" {
  builtin = "minihop"
  split   = "train"
  seed    = seed + 1
}
dataset "test" {
  builtin = "minihop"
  split   = "test"
  seed    = seed + 1
  limit   = 6
}
policy "fresh" {
  init {
    tokenizer         = "minihop"
    hidden_size       = 16
    layers            = 1
    heads             = 2
    intermediate_size = 32
    max_positions     = 200
  }
}
agent "searcher" {
  user = "<q> ${question.text} </q>"
  protocol "tags" {
    call        = { open = "<search>", close = "</search>" }
    observation = { open = "<information> ", close = " </information>" }
    answer      = { open = "<answer>", close = "</answer>" }
  }
  observation         = "%{for hit in hits}${hit.text} %{endfor}"
  max_searches        = 2
  max_response_tokens = 60
  turn_tokens {
    first = 8
  }
}
`

// method is an experiment on the world, trained for a few steps.
const method = `
variable "steps" {
  type    = number
  default = 2
}
experiment "grpo" {
  policies = { main = policy.fresh }
  tools    = { search = tool.search }
  agent    = agent.searcher
  train    = dataset.train
  reward {
    source "outcome" {
      reward "em" {}
    }
  }
  stage "main" {
    optimizer "adamw" {
      learning_rate = 1e-3
    }
    algorithm "search-r1" {
      group_size = 2
    }
    steps     = var.steps
    questions = 2
  }
  checkpoint {
    every = 1
  }
  evaluate "test" {
    dataset = dataset.test
    sampling {
      greedy = true
    }
  }
}
`

// comparison compares two group sizes on one seed.
const comparison = `
ablation "groups" {
  seeds    = [0]
  primary  = metric("test", "em")
  baseline = { arm = "two" }
  arm "two" {
    experiment = experiment.grpo
  }
  arm "three" {
    experiment = experiment.grpo
    stage "main" {
      algorithm "search-r1" {
        group_size = 3
      }
    }
  }
}
`
