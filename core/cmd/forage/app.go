package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
	exitAborted = 130 // the second interrupt
)

// Environment variables that say where things are.
const (
	cacheEnv = "FORAGE_CACHE"
	runsEnv  = "FORAGE_RUNS"
)

// errReported ends a command that failed and has already said why.
var errReported = errors.New("reported")

// usageError is a command line that makes no sense; everything else that fails is a failure of what was asked for.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func misuse(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// app is what all verbs share: where to write, where things are kept.
type app struct {
	in       io.Reader
	out, err io.Writer
	color    bool // of err
	terminal bool // out is one: bars instead of lines
	width    int  // of the terminal in columns, 0 for none

	cacheDir  string
	runsDir   string
	pluginDir string
	verbose   bool

	// graceful says that the verb can pause: the first interrupt closes pause, the next one ends the verb's context.
	graceful atomic.Bool
	pause    chan struct{}

	begun bool // a verb has started: errors from here on are no longer about usage
}

func newApp() *app {
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, pause: make(chan struct{})}
	a.terminal = term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("TERM") != "dumb"
	a.color = term.IsTerminal(int(os.Stderr.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	if a.terminal {
		if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
			a.width = width
		}
	}
	return a
}

// run carries a command line out and gives the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(doubleDashes(root, args))
	err := root.ExecuteContext(ctx)
	var usage *usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errReported):
		return exitFailure
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		a.fail(errors.New("stopped on request"))
		return exitFailure
	case errors.As(err, &usage) || !a.begun:
		a.fail(err)
		fmt.Fprintf(a.err, "Run \"forage --help\", or --help after the verb, for how it is used.\n")
		return exitUsage
	}
	a.fail(err)
	a.advise(err)
	return exitFailure
}

// advise says what to do about errors that can come from anywhere.
func (a *app) advise(err error) {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		fmt.Fprintln(a.err, "The disk is full. What was finished is kept. Free space, or give other folders with --runs and --cache.")
	case errors.Is(err, fs.ErrPermission):
		fmt.Fprintln(a.err, "Give yourself the right to that file, or use other folders with --runs and --cache.")
	}
}

// fail prints an error.
func (a *app) fail(err error) {
	prefix := "Error: "
	if a.color {
		prefix = "\x1b[1;31mError:\x1b[0m "
	}
	fmt.Fprintf(a.err, "%s%s\n", prefix, printable(strings.TrimRight(err.Error(), "\n")))
}

// warn prints what a user should know and no command stops for.
func (a *app) warn(format string, args ...any) {
	prefix := "Warning: "
	if a.color {
		prefix = "\x1b[1;33mWarning:\x1b[0m "
	}
	fmt.Fprintln(a.err, prefix+printable(fmt.Sprintf(format, args...)))
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "forage",
		Short: "Experiments on multi-hop search agents: declare, plan, run, judge",
		Long: `Forage runs experiments on multi-hop search agents: a language model that thinks,
searches, reads what came back and answers, trained by reinforcement learning on
a small budget. A study is declared in HCL; methods, retrievers and rewards are
plugins.

Environment: FORAGE_RUNS (records, default ./runs), FORAGE_CACHE (indexes and
schemas, default the user's cache folder), FORAGE_PLUGIN_DIR (plugin packs),
FORAGE_VAR_name (variables of studies).
Exit codes: 0 done, 1 failed, 2 wrong usage.`,
		Example: `  forage validate experiments/minihop
  forage plan experiments/minihop --ablation demo
  forage run experiments/minihop --ablation demo
  forage report experiments/minihop --ablation demo`,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			a.begun = true
			return a.locate()
		},
	}
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetIn(a.in)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.PersistentFlags().StringVar(&a.cacheDir, "cache", "", "`folder` of indexes, schemas and built-in policies (default: the user's cache)")
	root.PersistentFlags().StringVar(&a.pluginDir, "plugins", "", "`folder` of plugin packs, looked at before the others")
	root.PersistentFlags().StringVar(&a.runsDir, "runs", "", "`folder` of the records of runs (default ./runs)")
	root.PersistentFlags().BoolVarP(&a.verbose, "verbose", "v", false, "say more about what is going on")
	root.AddGroup(
		&cobra.Group{ID: "study", Title: "Studies:"},
		&cobra.Group{ID: "records", Title: "Records:"},
		&cobra.Group{ID: "tools", Title: "Tools:"},
	)
	for group, commands := range map[string][]*cobra.Command{
		"study":   {a.initCommand(), a.fmtCommand(), a.validateCommand(), a.planCommand(), a.runCommand()},
		"records": {a.statusCommand(), a.reportCommand(), a.compareCommand(), a.evalCommand(), a.episodesCommand(), a.askCommand()},
		"tools":   {a.indexCommand(), a.generateCommand(), a.importCommand(), a.exportCommand(), a.pluginCommand(), a.docsCommand(), a.doctorCommand()},
	} {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	return root
}

// locate settles the folders of cache and records.
func (a *app) locate() error {
	if a.pluginDir != "" {
		if err := isFolder(a.pluginDir); err != nil {
			return fmt.Errorf("--plugins: %w", err)
		}
	}
	a.runsDir = cmp.Or(a.runsDir, os.Getenv(runsEnv), "runs")
	a.cacheDir = cmp.Or(a.cacheDir, os.Getenv(cacheEnv))
	if a.cacheDir == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("find the user's cache folder: %w; set %s", err, cacheEnv)
		}
		a.cacheDir = filepath.Join(dir, "forage")
	}
	for _, dir := range []*string{&a.runsDir, &a.cacheDir} {
		absolute, err := filepath.Abs(*dir)
		if err != nil {
			return err
		}
		*dir = absolute
	}
	return nil
}

// doubleDashes lets long flags be written with a single dash, as in "-var k=v".
func doubleDashes(root *cobra.Command, args []string) []string {
	long := map[string]bool{"help": true, "version": true}
	var collect func(c *cobra.Command)
	collect = func(c *cobra.Command) {
		add := func(f *pflag.Flag) { long[f.Name] = true }
		c.Flags().VisitAll(add)
		c.PersistentFlags().VisitAll(add)
		for _, sub := range c.Commands() {
			collect(sub)
		}
	}
	collect(root)
	out := make([]string, len(args))
	copy(out, args)
	for i, arg := range out {
		if arg == "--" {
			break
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		if strings.HasPrefix(arg, "-") && len(name) > 1 && long[name] {
			out[i] = "-" + arg
		}
	}
	return out
}

// group is a verb that only holds others: alone it prints its help, and a word that is none of them is wrong usage.
func group(c *cobra.Command, verbs ...*cobra.Command) *cobra.Command {
	c.AddCommand(verbs...)
	c.Args = cobra.ArbitraryArgs // what is none of the verbs is told of better than by counting
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return misuse("there is no \"%s %s\"; there is %s", cmd.CommandPath(), args[0], strings.Join(verbNames(cmd), ", "))
		}
		return cmd.Help()
	}
	return c
}

func verbNames(c *cobra.Command) []string {
	var list []string
	for _, verb := range c.Commands() {
		if verb.IsAvailableCommand() {
			list = append(list, verb.Name())
		}
	}
	return list
}

// isFolder fails where there is no such folder.
func isFolder(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a folder", dir)
	}
	return err
}

// arguments checks how many arguments a verb gets; high < 0 means any number.
func arguments(low, high int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= low && (high < 0 || len(args) <= high) {
			return nil
		}
		example, _, _ := strings.Cut(strings.TrimSpace(cmd.Example), "\n")
		return fmt.Errorf("it is used as \"%s %s\", got %d arguments; for example: %s", cmd.Parent().CommandPath(), cmd.Use, len(args), example)
	}
}

// interruptible gives a context that ends at the first interrupt, or the second where the verb can pause; the next one
// ends the program.
func (a *app) interruptible(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 3)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		select {
		case <-signals:
		case <-done:
			return
		}
		if a.graceful.Load() {
			fmt.Fprintln(a.err, "\nFinishing the step in progress and writing a checkpoint. Interrupt again to stop without.")
			close(a.pause)
			select {
			case <-signals:
			case <-done:
				return
			}
		}
		fmt.Fprintln(a.err, "\nStopping; what is on disk stays usable. Interrupt again to end at once.")
		cancel()
		select {
		case <-signals:
			os.Exit(exitAborted)
		case <-done:
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel()
	}
}
