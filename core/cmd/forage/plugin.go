package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/forage-rl/forage/core/host"
	"github.com/forage-rl/forage/core/sdk"
)

func (a *app) pluginCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "plugin",
		Short:   "List and describe plugins",
		Example: "  forage plugin list\n  forage plugin describe search-r1",
	}
	return group(c, a.pluginListCommand(), a.pluginDescribeCommand(), a.pluginBundleCommand())
}

func (a *app) pluginListCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the plugins of all packs that may be started",
		Example: "  forage plugin list",
		Args:    arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			catalogue, err := a.discover(cmd.Context())
			if err != nil {
				return err
			}
			defer catalogue.Close()
			plugins, err := catalogue.Plugins(cmd.Context())
			if err != nil {
				a.warn("%v", err)
			}
			if asJSON {
				return a.writeJSON(plugins)
			}
			w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "KIND\tPLUGIN\tPACK\tVERSION\tDESCRIPTION")
			for _, p := range plugins {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", p.Kind, p.Label, p.Pack.Short(), p.PackVersion, printable(firstSentence(p.Description)))
			}
			return w.Flush()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func firstSentence(text string) string {
	first, _, found := strings.Cut(text, ". ")
	if found {
		return first + "."
	}
	return first
}

func (a *app) pluginDescribeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "describe NAME",
		Short: "Print what a plugin does and every attribute that it takes",
		Long: `Print what a plugin does and every attribute that it takes, its default, and where the default comes from, and of an
algorithm the objectives, as formulas, that it trains with these defaults. Plugins of
several kinds may have one name: KIND/NAME is the one of a kind, PACK/NAME one of a pack that did not come with forage.`,
		Example: "  forage plugin describe david-grpo\n  forage plugin describe reward/frugalrag\n  forage plugin describe citations/web",
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			catalogue, err := a.discover(cmd.Context())
			if err != nil {
				return err
			}
			defer catalogue.Close()
			kinds := []sdk.Kind{sdk.KindAlgorithm, sdk.KindRetriever, sdk.KindReward}
			name := args[0]
			if kind, rest, ok := strings.Cut(name, "/"); ok && slices.Contains(kinds, sdk.Kind(kind)) {
				kinds, name = []sdk.Kind{sdk.Kind(kind)}, rest
			}
			var failure error // of a pack that should hold it; else the nearest name
			found := 0
			for _, kind := range kinds {
				info, err := catalogue.Schema(cmd.Context(), kind, name)
				if err != nil {
					unknown, ok := errors.AsType[*host.UnknownPluginError](err)
					if !ok || unknown.Near != "" && failure == nil {
						failure = err
					}
					continue
				}
				if found > 0 {
					fmt.Fprintln(a.out)
				}
				found++
				describePlugin(a.out, info)
				if info.Kind == sdk.KindAlgorithm {
					a.describeObjectives(cmd.Context(), catalogue, info)
				}
			}
			switch {
			case found > 0:
				return nil
			case failure != nil:
				return failure
			}
			return fmt.Errorf("there is no plugin %q; \"forage plugin list\" lists all", args[0])
		},
	}
}

func describePlugin(out io.Writer, info host.PluginInfo) {
	w := &bytes.Buffer{}
	fmt.Fprintf(w, "%s %q (pack %s %s)\n", info.Kind, info.Label, info.Pack.Short(), info.PackVersion)
	if info.Description != "" {
		fmt.Fprintf(w, "\n%s\n", info.Description)
	}
	if info.Source != "" {
		fmt.Fprintf(w, "Source: %s\n", info.Source)
	}
	fmt.Fprintln(w)
	writeSchema(w, info.Schema, textReference{})
	io.WriteString(out, printable(w.String()))
}

// describeObjectives prints what an algorithm minimises with its defaults, in a usual stage, or why it does not say.
func (a *app) describeObjectives(ctx context.Context, catalogue *host.Catalogue, info host.PluginInfo) {
	plan, err := planWithDefaults(ctx, catalogue, info)
	if err != nil {
		fmt.Fprintf(a.out, "\nWith its defaults, in a stage that trains: %v\n", err)
		return
	}
	fmt.Fprintln(a.out, "\nWith its defaults, in a stage that trains:")
	for _, o := range plan.Objectives {
		fmt.Fprint(a.out, o)
	}
	if plan.Reference != "" {
		fmt.Fprintf(a.out, "ref_logp is of the policy as of %s.\n", plan.Reference)
	}
}

func planWithDefaults(ctx context.Context, catalogue *host.Catalogue, info host.PluginInfo) (plan sdk.PlanResponse, err error) {
	supervisor, err := host.NewSupervisor(catalogue, host.RunOptions{})
	if err != nil {
		return plan, err
	}
	defer func() { err = errors.Join(err, supervisor.Close()) }()
	algorithm, err := supervisor.Algorithm(ctx, host.InstanceSpec{Name: info.Name, Label: info.Label}, nil)
	if err != nil {
		return plan, err
	}
	return algorithm.Plan(ctx, sdk.PlanRequest{Stage: "main", Steps: 1, Questions: 1, HasExperts: true})
}

func (a *app) pluginBundleCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "bundle DIR",
		Short:   "Write the hashes of the packs that were built with forage",
		Long:    "Write DIR/" + host.BundleFile + ", by which forage knows the packs that were built with it. \"make build\" does this.",
		Example: "  forage plugin bundle bin/plugins",
		Hidden:  true,
		Args:    arguments(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := isFolder(args[0]); err != nil {
				return err
			}
			if err := host.WriteBundle(args[0]); err != nil {
				return fmt.Errorf("bundle the packs in %s: %w", args[0], err)
			}
			return nil
		},
	}
}
