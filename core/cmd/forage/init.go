package main

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forage-rl/forage/core/host"
	"github.com/forage-rl/forage/core/plan"
	"github.com/forage-rl/forage/core/record"
)

// starter is a study of its own on the embedded world.
//
//go:embed starter.hcl
var starter []byte

// initFlags say what init may do without asking.
type initFlags struct {
	study   studyFlags
	yes     bool
	upgrade bool
}

func (a *app) initCommand() *cobra.Command {
	var f initFlags
	c := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Start a study, trust its plugins and pin them",
		Long: `Where DIR is absent or empty, write a small study into it, on the embedded world.
Then show each plugin pack that is not trusted yet, with its path and sha256, and ask
whether it may be started from now on: nothing of it runs before. Last, write
` + host.LockFileName + ` into DIR, which pins the packs that the study uses. The lock is for
repeating results; it is not trust. Without DIR only trust is dealt with.`,
		Example: "  forage init my-study\n  forage init experiments/minihop\n  forage init --yes",
		Args:    arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && f.upgrade {
				return misuse("--upgrade changes the lock file of a study: name it, forage init DIR --upgrade")
			}
			if len(args) == 1 {
				if err := a.scaffold(args[0]); err != nil {
					return err
				}
			}
			if err := a.trust(cmd.Context(), f.yes); err != nil {
				return err
			}
			if len(args) == 0 {
				return nil
			}
			return a.lock(cmd.Context(), args[0], &f)
		},
	}
	f.study.variables(c)
	c.Flags().BoolVarP(&f.yes, "yes", "y", false, "trust every pack that is found, without asking")
	c.Flags().BoolVar(&f.upgrade, "upgrade", false, "pin the packs as they are now, where the lock file pins others")
	return c
}

// scaffold writes the starting study into a folder that is absent or empty.
func (a *app) scaffold(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("start a study: %w", err)
	}
	if len(entries) > 0 {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("start a study: %w", err)
	}
	path := filepath.Join(dir, "main.hcl")
	if err := record.WriteFile(path, starter); err != nil {
		return fmt.Errorf("start a study: %w", err)
	}
	fmt.Fprintf(a.out, "Wrote %s. Next: forage plan %s, forage run %s\n", path, dir, dir)
	return nil
}

// trust asks about every pack that may not be started yet.
func (a *app) trust(ctx context.Context, yes bool) error {
	catalogue, err := a.discover(ctx)
	if err != nil {
		return err
	}
	defer catalogue.Close()
	answers := bufio.NewReader(a.in)
	asked, refused := 0, 0
	for _, p := range catalogue.Packs() {
		if p.Trusted {
			continue
		}
		if p.Bundled {
			return &host.UntrustedError{Pack: p}
		}
		asked++
		fmt.Fprintf(a.out, "Plugin pack %s\n  path    %s\n  sha256  %s\n", p.Name, p.Path, p.Digest)
		if !yes {
			fmt.Fprint(a.out, "It would run with your rights. Trust it? [y/N] ")
			line, err := answers.ReadString('\n')
			if err != nil && strings.TrimSpace(line) == "" {
				fmt.Fprintln(a.out)
				return fmt.Errorf("nobody answered whether %s is trusted: run \"forage init\" in a terminal, or with --yes once you have compared the sha256", p.Path)
			}
			if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
				refused++
				continue
			}
		}
		if err := catalogue.Trust(p); err != nil {
			return err
		}
		fmt.Fprintln(a.out, "Trusted.")
	}
	if asked == 0 {
		fmt.Fprintln(a.out, "No plugin pack waits for trust.")
	}
	if refused > 0 {
		fmt.Fprintf(a.out, "%d not trusted; nothing of them has been started.\n", refused)
	}
	return nil
}

// lock pins the plugin packs that a study uses.
func (a *app) lock(ctx context.Context, path string, f *initFlags) error {
	s, err := a.open(ctx, path, &f.study)
	if err != nil {
		return err
	}
	defer s.Close()
	var plugins []host.PluginInfo
	for _, target := range s.Targets() {
		ablation, diags := s.Ablation(target)
		if err := a.diagnose(s.Study, diags); err != nil {
			return err
		}
		p, diags := plan.Make(s.Study, ablation)
		if err := a.diagnose(s.Study, diags); err != nil {
			return err
		}
		used, err := pluginsOf(ctx, s.catalogue, p)
		if err != nil {
			return err
		}
		plugins = append(plugins, used...)
	}
	file := filepath.Join(s.Dir, host.LockFileName)
	lock, err := host.ReadLock(file)
	if err != nil {
		return err
	}
	if lock == nil {
		lock = &host.Lock{}
	} else if err := lock.Verify(s.path, pinned(lock, plugins)); err != nil && !f.upgrade {
		return fmt.Errorf("%s: %w", file, err)
	}
	lock.Extend(plugins)
	if err := lock.Write(file); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "Wrote %s: %d packs\n", file, len(lock.Packs))
	return nil
}

// pinned keeps the plugins whose packs a lock file pins for this platform.
func pinned(lock *host.Lock, plugins []host.PluginInfo) []host.PluginInfo {
	platform := runtime.GOOS + "_" + runtime.GOARCH
	return slices.DeleteFunc(slices.Clone(plugins), func(p host.PluginInfo) bool {
		return !slices.ContainsFunc(lock.Packs, func(have host.LockedPack) bool {
			return have.Name == p.Pack.Name && (have.Version != p.PackVersion || have.Hashes[platform] != "")
		})
	})
}
