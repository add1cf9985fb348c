// Package sdk is what a plugin author imports: the three kinds of plugin, the services that the host gives them, and
// [Serve].
//
// A plugin binary (a pack) serves any number of plugins. The host starts one process for each plugin that an
// experiment configures, so a plugin needs no locks against another instance of itself. A reward or retriever may be
// called several times at once (max_in_flight in the study, 8 by default); an algorithm is called once at a time.
//
// A configuration is a struct with tags (see [schema.Of]); a method Validate checks what tags cannot say. Every method
// takes a batch, which may be empty, and a context whose deadline the host sets (timeout in the study, 2 minutes by
// default). Answers hold one result for each item, in order, and depend on nothing but the request and, for an
// algorithm, the requests before: runs are repeated and resumed.
//
// An error that a method returns fails the run, with its text; a panic is caught and is such an error. When the
// process of a reward or retriever ends in a call, it is started again and asked again, 5 times in 10 minutes; where
// an algorithm's ends, the run goes back to its last checkpoint, 3 times. Write to standard error or log by log/slog: both are in the
// run's logs, and the last lines in the message of a crash.
//
// Package sdktest runs a plugin in memory and checks it against all this.
package sdk

import (
	"context"
	"fmt"

	"github.com/forage-rl/forage/core/sdk/diag"
	"github.com/forage-rl/forage/core/sdk/schema"
)

// Kind is what a plugin does.
type Kind string

// The kinds of plugins.
const (
	KindAlgorithm Kind = "algorithm"
	KindReward    Kind = "reward"
	KindRetriever Kind = "retriever"
)

// Pack is what one binary serves.
type Pack struct {
	Name       string // "forage-algorithms": as the binary is called
	Version    string // semantic version; its major number is part of a run's identity
	Algorithms []AlgorithmPlugin
	Rewards    []RewardPlugin
	Retrievers []RetrieverPlugin
}

// Plugin is what all kinds have in common.
type Plugin struct {
	Name        string // the label in HCL: [a-z][a-z0-9_-]*
	Description string // one sentence
	Source      string // the paper or project it follows, if any
	Schema      schema.Schema
	// Validate checks a configuration beyond its schema. It must be pure: no files, network or host.
	Validate func(values map[string]any) diag.Diagnostics
	// Uses lists what an algorithm so configured takes from its stage beyond questions and totals; nil for nothing. The
	// host warns of settings that are not used, and refuses an agent of another protocol than is needed.
	Uses func(values map[string]any) []Use
}

// Use is something of its stage that an algorithm takes.
type Use string

const (
	UseCritic      Use = "critic"          // it asks for a critic in its plan
	UseTurnRewards Use = "turn_rewards"    // it reads the totals of turns
	UseHops        Use = "protocol fields" // it takes each sequence for a hop, as protocol "fields" makes them
)

// AlgorithmPlugin makes algorithms. Build one with [NewAlgorithm].
type AlgorithmPlugin struct {
	Plugin
	New func(ctx context.Context, values map[string]any, host Host) (Algorithm, error)
}

// RewardPlugin makes rewards. Build one with [NewReward].
type RewardPlugin struct {
	Plugin
	New func(ctx context.Context, values map[string]any, host Host) (Reward, error)
}

// RetrieverPlugin makes retrievers. Build one with [NewRetriever].
type RetrieverPlugin struct {
	Plugin
	New func(ctx context.Context, values map[string]any, host Host) (Retriever, error)
}

// Validator is an optional method of a configuration struct: checks beyond the schema, pure.
type Validator interface{ Validate() diag.Diagnostics }

// User is an optional method of an algorithm's configuration struct: see [Plugin].
type User interface{ Uses() []Use }

// NewAlgorithm describes an algorithm whose configuration is the struct C (see [schema.Of]). It panics when C is not
// a valid configuration type: a mistake of the author that the first start shows.
func NewAlgorithm[C any](name, description, source string, open func(ctx context.Context, config C, host Host) (Algorithm, error)) AlgorithmPlugin {
	return AlgorithmPlugin{Plugin: describe[C](name, description, source), New: construct(open)}
}

// NewReward describes a reward; see [NewAlgorithm].
func NewReward[C any](name, description, source string, open func(ctx context.Context, config C, host Host) (Reward, error)) RewardPlugin {
	return RewardPlugin{Plugin: describe[C](name, description, source), New: construct(open)}
}

// NewRetriever describes a retriever; see [NewAlgorithm].
func NewRetriever[C any](name, description, source string, open func(ctx context.Context, config C, host Host) (Retriever, error)) RetrieverPlugin {
	return RetrieverPlugin{Plugin: describe[C](name, description, source), New: construct(open)}
}

func describe[C any](name, description, source string) Plugin {
	s, err := schema.Of[C]()
	if err != nil {
		panic(fmt.Sprintf("plugin %s: %v", name, err))
	}
	return Plugin{
		Name: name, Description: description, Source: source, Schema: s,
		Validate: func(values map[string]any) diag.Diagnostics {
			_, ds := decode[C](values)
			return ds
		},
		Uses: func(values map[string]any) []Use {
			c, _ := decode[C](values)
			if u, ok := any(&c).(User); ok {
				return u.Uses()
			}
			return nil
		},
	}
}

func decode[C any](values map[string]any) (C, diag.Diagnostics) {
	var c C
	ds := schema.Decode(values, &c)
	if ds.HasErrors() {
		return c, ds
	}
	if v, ok := any(&c).(Validator); ok {
		ds = append(ds, v.Validate()...)
	}
	return c, ds
}

func construct[C, T any](open func(context.Context, C, Host) (T, error)) func(context.Context, map[string]any, Host) (T, error) {
	return func(ctx context.Context, values map[string]any, host Host) (T, error) {
		c, ds := decode[C](values)
		if err := ds.Err(); err != nil {
			var none T
			return none, err
		}
		return open(ctx, c, host)
	}
}
