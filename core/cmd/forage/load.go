package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/host"
	"github.com/forage-rl/forage/core/plan"
	"github.com/forage-rl/forage/core/record"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/study"
)

// studyFlags say which study, and with which variables.
type studyFlags struct {
	ablation string
	vars     []string
	varFiles []string
}

func (f *studyFlags) variables(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.vars, "var", nil, "set a variable of the study: `name=value`")
	c.Flags().StringArrayVar(&f.varFiles, "var-file", nil, "read variables from a `file` of name = value lines")
}

func (f *studyFlags) add(c *cobra.Command) {
	f.variables(c)
	c.Flags().StringVar(&f.ablation, "ablation", "", "`name` of the ablation, or of an experiment with seeds, where the study has several")
}

func (f *studyFlags) inputs() (experiment.Inputs, error) {
	inputs := experiment.Inputs{Vars: map[string]string{}, VarFiles: f.varFiles, Env: os.Environ()}
	for _, v := range f.vars {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return inputs, misuse("-var %q: write it as name=value", v)
		}
		inputs.Vars[name] = value
	}
	return inputs, nil
}

// opened is a study with the plugins that it may use.
type opened struct {
	*experiment.Study
	path      string // as the command line names it
	catalogue *host.Catalogue
}

func (o *opened) Close() error { return o.catalogue.Close() }

// discover finds the plugins.
func (a *app) discover(ctx context.Context) (*host.Catalogue, error) {
	return host.Discover(ctx, host.Options{PluginDir: a.pluginDir, CacheDir: a.cacheDir, Logger: a.logger(a.err)})
}

// open reads a study. What is wrong with it has been printed when the error is errReported.
func (a *app) open(ctx context.Context, path string, f *studyFlags) (*opened, error) {
	inputs, err := f.inputs()
	if err != nil {
		return nil, err
	}
	catalogue, err := a.discover(ctx)
	if err != nil {
		return nil, err
	}
	loaded, diags := experiment.Load(ctx, path, inputs, study.Schemas(ctx, catalogue))
	if err := a.diagnose(loaded, diags); err != nil {
		return nil, errors.Join(err, catalogue.Close())
	}
	return &opened{loaded, path, catalogue}, nil
}

// diagnose prints diagnostics and fails if errors are among them.
func (a *app) diagnose(s *experiment.Study, diags hcl.Diagnostics) error {
	if len(diags) == 0 {
		return nil
	}
	shown := make(hcl.Diagnostics, len(diags))
	for i, d := range diags {
		d := *d
		d.Summary, d.Detail = printable(d.Summary), printable(d.Detail)
		shown[i] = &d
	}
	if err := s.WriteDiagnostics(a.err, shown, uint(a.width), a.color); err != nil {
		return err
	}
	if diags.HasErrors() {
		return errReported
	}
	return nil
}

// plan makes the plan of the ablation that the flags name.
func (a *app) plan(s *opened, f *studyFlags) (*plan.Plan, error) {
	ablation, diags := s.Ablation(f.ablation)
	if err := a.diagnose(s.Study, diags); err != nil {
		return nil, err
	}
	p, diags := plan.Make(s.Study, ablation)
	diags = experiment.Tidy(append(diags, study.Unsupported(p)...))
	if err := a.diagnose(s.Study, diags); err != nil {
		return nil, err
	}
	if len(p.Runs) == 0 {
		return nil, fmt.Errorf("%s: there is nothing to run: the ablation has no seeds or no cells", s.Dir)
	}
	return p, nil
}

// openPlan reads a study and makes its plan. The caller closes the study.
func (a *app) openPlan(ctx context.Context, path string, f *studyFlags) (*opened, *plan.Plan, error) {
	s, err := a.open(ctx, path, f)
	if err != nil {
		return nil, nil, err
	}
	p, err := a.plan(s, f)
	if err == nil {
		err = verifyLock(ctx, s, p)
	}
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return s, p, nil
}

// studyDir is the folder of the records of a plan.
func (a *app) studyDir(p *plan.Plan) record.Study {
	name := p.Study
	if p.Ablation != "" && p.Ablation != p.Study {
		name += "-" + p.Ablation
	}
	return record.Study{Dir: filepath.Join(a.runsDir, name)}
}

// verifyLock compares the plugins of the plan with the lock file beside the study, if there is one.
func verifyLock(ctx context.Context, s *opened, p *plan.Plan) error {
	path := filepath.Join(s.Dir, host.LockFileName)
	lock, err := host.ReadLock(path)
	if err != nil || lock == nil {
		return err
	}
	plugins, err := pluginsOf(ctx, s.catalogue, p)
	if err != nil {
		return err
	}
	if err := lock.Verify(s.path, plugins); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// pluginsOf lists the plugins that the runs of a plan use, each once.
func pluginsOf(ctx context.Context, catalogue *host.Catalogue, p *plan.Plan) ([]host.PluginInfo, error) {
	type key struct {
		kind  sdk.Kind
		label string
	}
	used := map[key]bool{}
	add := func(plugin *experiment.Plugin) {
		if plugin != nil {
			used[key{plugin.Kind, plugin.Label}] = true
		}
	}
	for _, r := range p.Runs {
		for _, t := range r.Config.Tools {
			add(t.Retriever)
		}
		for _, e := range r.Config.Evaluations {
			for _, t := range e.Tools {
				add(t.Retriever)
			}
		}
		for _, s := range r.Config.Stages {
			add(s.Algorithm)
			if s.Reward != nil {
				for _, source := range s.Reward.Sources {
					add(source.Plugin)
				}
			}
		}
	}
	var infos []host.PluginInfo
	for k := range used {
		info, err := catalogue.Schema(ctx, k.kind, k.label)
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	slices.SortFunc(infos, func(a, b host.PluginInfo) int { return strings.Compare(a.Label, b.Label) })
	return infos, nil
}

func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
