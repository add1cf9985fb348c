package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/forage-rl/forage/core/sdk"
)

// RunOptions are for all instances of a run.
type RunOptions struct {
	// RunDir gets logs/<instance>.log; "" means no log files.
	RunDir string
	Logger *slog.Logger // nil means silence
}

// InstanceSpec configures one plugin instance.
type InstanceSpec struct {
	// Name of the instance in the run: "stage.main.algorithm", "reward.outcome". Unique.
	Name   string
	Label  string // of the plugin
	Values map[string]any
	// Timeout bounds each call; 0 means 2 minutes. A step may take longer: there it bounds the time that the plugin
	// spends between calls to the host.
	Timeout time.Duration
	// StuckAfter is how long a step may go without a sign of life of its process; 0 means 30 seconds.
	StuckAfter time.Duration
	// StartTimeout bounds start and configuration; 0 means a minute.
	StartTimeout time.Duration
	// MaxInFlight bounds concurrent calls; 0 means 8.
	MaxInFlight int
	// Env is added to the few variables that a plugin gets.
	Env     map[string]string
	Restart RestartPolicy
}

// RestartPolicy bounds how often a crashed process is started again. The zero value means 5 times in 10 minutes, with
// pauses that grow from 100 ms to 10 s.
type RestartPolicy struct {
	Max      int // negative means never
	Window   time.Duration
	MinPause time.Duration
	MaxPause time.Duration
}

func (p RestartPolicy) withDefaults() RestartPolicy {
	return RestartPolicy{
		Max: cmp.Or(p.Max, 5), Window: cmp.Or(p.Window, 10*time.Minute),
		MinPause: cmp.Or(p.MinPause, 100*time.Millisecond), MaxPause: cmp.Or(p.MaxPause, 10*time.Second),
	}
}

// Supervisor starts and watches the plugin processes of a run.
type Supervisor struct {
	catalogue *Catalogue
	options   RunOptions
	identity  *identity
	sockets   *socketDir

	mu        sync.Mutex
	closed    bool
	instances []*instance
	retired   []Stats // of instances closed before the run's end
}

// NewSupervisor prepares a run: a certificate and a folder for sockets of its own.
func NewSupervisor(c *Catalogue, o RunOptions) (*Supervisor, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	identity, err := newIdentity()
	if err != nil {
		return nil, err
	}
	sockets, err := newSocketDir()
	if err != nil {
		return nil, err
	}
	return &Supervisor{catalogue: c, options: o, identity: identity, sockets: sockets}, nil
}

// Algorithm starts an instance of an algorithm. host is what it may call. A crash of an algorithm fails the call and
// those after it, until [AlgorithmClient.Restart].
func (s *Supervisor) Algorithm(ctx context.Context, spec InstanceSpec, host sdk.Host) (*AlgorithmClient, error) {
	i, err := s.start(ctx, sdk.KindAlgorithm, spec, host)
	if err != nil {
		return nil, err
	}
	return &AlgorithmClient{instance: i}, nil
}

// Reward starts an instance of a reward; host may be nil. After a crash it is started again and asked again.
func (s *Supervisor) Reward(ctx context.Context, spec InstanceSpec, host sdk.Host) (*RewardClient, error) {
	i, err := s.start(ctx, sdk.KindReward, spec, host)
	if err != nil {
		return nil, err
	}
	return &RewardClient{instance: i}, nil
}

// Retriever starts an instance of a retriever; host may be nil. After a crash it is started again and asked again.
func (s *Supervisor) Retriever(ctx context.Context, spec InstanceSpec, host sdk.Host) (*RetrieverClient, error) {
	i, err := s.start(ctx, sdk.KindRetriever, spec, host)
	if err != nil {
		return nil, err
	}
	return &RetrieverClient{instance: i}, nil
}

func (s *Supervisor) start(ctx context.Context, kind sdk.Kind, spec InstanceSpec, host sdk.Host) (*instance, error) {
	if spec.Name == "" {
		return nil, errors.New("a plugin instance needs a name")
	}
	info, err := s.catalogue.Schema(ctx, kind, spec.Label)
	if err != nil {
		return nil, err
	}
	spec.Timeout = cmp.Or(spec.Timeout, 2*time.Minute)
	spec.StuckAfter = cmp.Or(spec.StuckAfter, 30*time.Second)
	spec.StartTimeout = cmp.Or(spec.StartTimeout, time.Minute)
	spec.MaxInFlight = cmp.Or(spec.MaxInFlight, 8)
	spec.Restart = spec.Restart.withDefaults()
	i := &instance{
		supervisor: s, spec: spec, info: info, host: host, slots: semaphore.NewWeighted(int64(spec.MaxInFlight)),
		logger: s.options.Logger.With("plugin", spec.Name, "kind", string(kind)),
		turn:   make(chan struct{}, 1),
	}
	i.account.stats = Stats{Instance: spec.Name, Kind: kind, Label: spec.Label}
	s.mu.Lock()
	switch {
	case s.closed:
		err = errors.New("the run's plugins are stopped already")
	case slices.ContainsFunc(s.instances, func(j *instance) bool { return j.spec.Name == spec.Name }):
		err = fmt.Errorf("there is a plugin instance %q already", spec.Name)
	default:
		s.instances = append(s.instances, i)
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if _, err := i.connect(ctx, nil); err != nil {
		return nil, errors.Join(err, s.remove(i))
	}
	return i, nil
}

func (s *Supervisor) remove(i *instance) error {
	err := i.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.instances)
	s.instances = slices.DeleteFunc(s.instances, func(j *instance) bool { return i == j })
	if stats := i.account.snapshot(); len(s.instances) < n && stats.Calls > 0 {
		s.retired = append(s.retired, stats)
	}
	return err
}

// Stats accounts for each instance so far, closed ones too, by name.
func (s *Supervisor) Stats() []Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.retired)
	for _, i := range s.instances {
		all = append(all, i.account.snapshot())
	}
	slices.SortFunc(all, func(a, b Stats) int { return strings.Compare(a.Instance, b.Instance) })
	return all
}

// Close ends all processes, side by side, and removes their sockets.
func (s *Supervisor) Close() error {
	s.mu.Lock()
	s.closed = true
	instances := s.instances
	s.mu.Unlock()
	failures := make([]error, len(instances))
	var stopping sync.WaitGroup
	for n, i := range instances {
		stopping.Go(func() { failures[n] = i.close() })
	}
	stopping.Wait()
	return errors.Join(errors.Join(failures...), s.sockets.close())
}

var unsafeInFileName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// openLog opens the log of an instance to append to.
func (s *Supervisor) openLog(name string) (*os.File, error) {
	if s.options.RunDir == "" {
		return os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	}
	dir := filepath.Join(s.options.RunDir, "logs")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("log of plugin %s: %w", name, err)
	}
	return os.OpenFile(filepath.Join(dir, unsafeInFileName.ReplaceAllString(name, "_")+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
}
