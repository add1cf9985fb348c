// Package testschemas is a source of plugin schemas for the tests of the language and the plan: plugins that look like
// those of the methods, without processes. It holds schemas and pure checks only.
package testschemas

import (
	"fmt"
	"maps"
	"slices"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/diag"
	"github.com/forage-rl/forage/core/sdk/schema"
)

type grpo struct {
	GroupSize int     `forage:"group_size" default:"5" min:"2" doc:"Rollouts per question."`
	KL        float64 `forage:"kl" default:"0.001" min:"0" doc:"Coefficient of the divergence."`
	Estimator string  `forage:"estimator" default:"k3" enum:"k1,k2,k3" doc:"Estimator of the divergence."`
}

type david struct {
	Phase     string `forage:"phase" default:"main" enum:"seed,main" doc:"What the stage is for."`
	GroupSize int    `forage:"group_size" default:"5" min:"2" doc:"Rollouts per question."`
	Clip      clip   `forage:"clip" doc:"Clipping of the ratio."`
}

type clip struct {
	Low  float64 `forage:"low" default:"0.2" min:"0" max:"1" doc:"Lower bound."`
	High float64 `forage:"high" default:"0.2" min:"0" doc:"Upper bound."`
}

type tree struct {
	Trees     int `forage:"trees" default:"1" min:"1" doc:"Trees per question."`
	Expand    int `forage:"expand" default:"2" min:"1" doc:"Nodes to expand."`
	Rounds    int `forage:"rounds" default:"1" min:"1" doc:"Rounds of expansion."`
	MaxLeaves int `forage:"max_leaves,optional" min:"1" doc:"Leaves to keep."`
}

type dense struct {
	Index  schema.Ref `forage:"index" type:"index" doc:"The index to search."`
	K      int        `forage:"k" default:"3" min:"1" doc:"Hits per query."`
	Fields []string   `forage:"fields" default:"title,text" doc:"Fields to return."`
}

type bm25 struct {
	Index schema.Ref `forage:"index" type:"index" enum:"bm25" doc:"The index to search."`
}

type searchR1 struct {
	Version string  `forage:"version" default:"v0.1" enum:"v0.1,v0.2,v0.3" doc:"Which published reward."`
	Format  float64 `forage:"format" default:"0.2" doc:"Credit for the format."`
}

type judge struct {
	Policy schema.Ref        `forage:"policy" type:"policy" doc:"The policy that judges."`
	Labels map[string]string `forage:"labels,optional" doc:"Names of outcomes."`
}

type explore struct {
	Agents []schema.Ref `forage:"agents" type:"agent" doc:"Agents to ask by."`
	Writer schema.Ref   `forage:"writer" type:"agent" doc:"The agent that answers."`
}

type none struct{}

// Source implements [experiment.SchemaSource].
type Source struct {
	// Version of the pack; "" means 1.2.0.
	Version string
	// Calls counts how often a plugin was asked to validate.
	Calls int
}

type kindName struct {
	kind sdk.Kind
	name string
}

func plugins() map[kindName]schema.Schema {
	must := func(s schema.Schema, err error) schema.Schema {
		if err != nil {
			panic(err)
		}
		return s
	}
	return map[kindName]schema.Schema{
		{sdk.KindAlgorithm, "grpo"}:           must(schema.Of[grpo]()),
		{sdk.KindAlgorithm, "david-grpo"}:     must(schema.Of[david]()),
		{sdk.KindAlgorithm, "tree-grpo"}:      must(schema.Of[tree]()),
		{sdk.KindAlgorithm, "sft"}:            must(schema.Of[none]()),
		{sdk.KindAlgorithm, "explore"}:        must(schema.Of[explore]()),
		{sdk.KindRetriever, "dense"}:          must(schema.Of[dense]()),
		{sdk.KindRetriever, "bm25"}:           must(schema.Of[bm25]()),
		{sdk.KindReward, "search-r1"}:         must(schema.Of[searchR1]()),
		{sdk.KindReward, "exact-match"}:       must(schema.Of[none]()),
		{sdk.KindReward, "david-gates"}:       must(schema.Of[none]()),
		{sdk.KindReward, "david-outcome"}:     must(schema.Of[none]()),
		{sdk.KindReward, "evidence-coverage"}: must(schema.Of[none]()),
		{sdk.KindAlgorithm, "hops"}:           must(schema.Of[none]()),
		{sdk.KindReward, "judge"}:             must(schema.Of[judge]()),
	}
}

// Schema implements [experiment.SchemaSource].
func (s *Source) Schema(kind sdk.Kind, label string) (experiment.PluginInfo, error) {
	found, ok := plugins()[kindName{kind, label}]
	if !ok {
		return experiment.PluginInfo{}, fmt.Errorf("no pack has it; install one with forage init")
	}
	version := s.Version
	if version == "" {
		version = "1.2.0"
	}
	return experiment.PluginInfo{Name: label, Schema: found, Pack: "test", PackVersion: version, Digest: "sha256:0"}, nil
}

// Validate implements [experiment.SchemaSource]: grpo wants an odd group size, to have something to say.
func (s *Source) Validate(kind sdk.Kind, label string, values map[string]any) (diag.Diagnostics, []sdk.Use) {
	s.Calls++
	var ds diag.Diagnostics
	if label == "tree-grpo" && values["expand"] == 7.0 {
		ds.Errorf(diag.Attr("expand"), "Unlucky number", "Seven nodes are one too many. Choose 6.")
	}
	if inner, ok := values["clip"].(map[string]any); ok && inner["low"] == 1.0 {
		ds.Warnf(diag.Attr("clip").Attr("low"), "Wide clip", "A bound of 1 clips nothing.")
	}
	return ds, map[string][]sdk.Use{"grpo": {sdk.UseCritic, sdk.UseTurnRewards}, "hops": {sdk.UseHops}}[label]
}

// Names implements [experiment.Namer].
func (s *Source) Names(kind sdk.Kind) []string {
	var list []string
	for key := range maps.Keys(plugins()) {
		if key.kind == kind {
			list = append(list, key.name)
		}
	}
	return slices.Sorted(slices.Values(list))
}
