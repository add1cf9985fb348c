package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/forage-rl/forage/core/internal/wire"
)

// Serve is the whole main function of a pack:
//
//	func main() { sdk.Serve(pack()) }
//
// Started by forage it serves until forage ends it. With the argument "describe" it prints as JSON what the pack
// holds. Started by hand it says what it is. What the pack logs by log/slog reaches the host's log with its level, and
// what it prints to standard output goes to its own log file, since standard output belongs to the handshake; do not
// print before Serve.
func Serve(pack Pack) {
	if err := pack.check(); err != nil {
		exit("pack %q: %v", pack.Name, err)
	}
	if len(os.Args) == 2 && os.Args[1] == wire.DescribeArgument {
		if err := describePack(os.Stdout, pack); err != nil {
			exit("pack %q: %v", pack.Name, err)
		}
		return
	}
	handshake := wire.Handshake()
	if os.Getenv(handshake.MagicCookieKey) != handshake.MagicCookieValue {
		introduce(os.Stderr, pack)
		os.Exit(1)
	}
	if os.Getenv(wire.ClientCertEnv) == "" {
		exit("pack %q serves only a host that sends its certificate: start it through forage, in a version that speaks protocol %d", pack.Name, wire.ProtocolVersion)
	}
	if err := guardStdout(); err != nil {
		exit("pack %q: guard standard output: %v", pack.Name, err)
	}
	stdio := stdioOf(os.Stderr)
	slog.SetDefault(slog.New(logHandler(os.Stderr)))
	go exitWithHost()
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: handshake,
		VersionedPlugins: map[int]plugin.PluginSet{
			wire.ProtocolVersion: {wire.PluginKey: &servedPack{pack: pack, stdio: stdio}},
		},
		GRPCServer: newGRPCServer,
		Logger:     hclog.New(&hclog.LoggerOptions{Name: pack.Name, Level: hclog.Warn, Output: os.Stderr, JSONFormat: true}),
	})
}

// ServeListener serves the pack on a listener, in this process and without handshake or encryption, until ctx ends:
// for tests and debuggers. dialHost connects to the host's services; nil means there are none.
func ServeListener(ctx context.Context, pack Pack, listener net.Listener, dialHost func(context.Context) (net.Conn, error)) error {
	if err := pack.check(); err != nil {
		return fmt.Errorf("pack %q: %w", pack.Name, err)
	}
	s := newGRPCServer(nil)
	newServer(pack, nil, func(uint32) (*grpc.ClientConn, error) {
		if dialHost == nil {
			return nil, fmt.Errorf("no host services: %w", ErrNotSupported)
		}
		return grpc.NewClient("passthrough:host", append(wire.DialOptions(),
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dialHost(ctx) }))...)
	}).register(s)
	stop := context.AfterFunc(ctx, s.Stop)
	defer stop()
	if err := s.Serve(listener); err != nil && ctx.Err() == nil && !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// logHandler writes the lines that the host reads levels and values from: the format of hclog.
func logHandler(w io.Writer) slog.Handler {
	return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) > 0 {
			return a
		}
		switch a.Key {
		case slog.TimeKey:
			a.Key = "@timestamp"
		case slog.LevelKey:
			a = slog.String("@level", strings.ToLower(a.Value.String()))
		case slog.MessageKey:
			a.Key = "@message"
		}
		return a
	}})
}

func exit(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}

// servedPack is go-plugin's view of a pack.
type servedPack struct {
	plugin.NetRPCUnsupportedPlugin
	pack  Pack
	stdio func()
}

func (p *servedPack) GRPCServer(broker *plugin.GRPCBroker, s *grpc.Server) error {
	newServer(p.pack, p.stdio, func(id uint32) (*grpc.ClientConn, error) {
		return broker.DialWithOptions(id, wire.DialOptions()...)
	}).register(s)
	return nil
}

func (p *servedPack) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("a pack is not a host")
}

func newGRPCServer(options []grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(slices.Concat(options, wire.ServerOptions(), []grpc.ServerOption{
		grpc.UnaryInterceptor(interceptUnary), grpc.StreamInterceptor(interceptStream)})...)
}

// stdioOf gives a function that takes standard output and error back from go-plugin, which routes them through a
// stream that loses its last lines when the process dies. It must run after the handshake.
func stdioOf(stderr *os.File) func() {
	return func() { os.Stdout, os.Stderr = stderr, stderr }
}

// exitWithHost ends the process, and the children in its process group, once the host is gone.
func exitWithHost() {
	parent := os.Getppid()
	if host, err := strconv.Atoi(os.Getenv(wire.HostPIDEnv)); err == nil && host != parent && parent == 1 {
		parent = host // the host died before we looked
	}
	for range time.Tick(time.Second) {
		if os.Getppid() != parent {
			killGroup()
			os.Exit(1)
		}
	}
}

func describePack(w io.Writer, pack Pack) error {
	d := wire.Description{Name: pack.Name, Version: pack.Version, Protocol: wire.ProtocolVersion, SDKVersion: wire.SDKVersion}
	for kind, p := range pack.plugins {
		d.Plugins = append(d.Plugins, wire.PluginDescription{
			Kind: string(kind), Name: p.Name, Description: p.Description, Source: p.Source, Schema: p.Schema,
		})
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(d)
}

func introduce(w io.Writer, pack Pack) {
	fmt.Fprintf(w, "%s %s holds plugins for forage (protocol %d, SDK %s):\n", pack.Name, pack.Version, wire.ProtocolVersion, wire.SDKVersion)
	for kind, p := range pack.plugins {
		fmt.Fprintf(w, "  %-10s %-24s %s\n", kind, p.Name, p.Description)
	}
	fmt.Fprintf(w, "\nIt is not meant to be started by hand. Put it into ~/.forage/plugins and run \"forage init\";\n"+
		"then name its plugins in an experiment. \"%s %s\" prints them as JSON.\n", os.Args[0], wire.DescribeArgument)
}

// plugins yields all plugins of the pack with their kind.
func (p Pack) plugins(yield func(Kind, Plugin) bool) {
	for _, a := range p.Algorithms {
		if !yield(KindAlgorithm, a.Plugin) {
			return
		}
	}
	for _, r := range p.Rewards {
		if !yield(KindReward, r.Plugin) {
			return
		}
	}
	for _, r := range p.Retrievers {
		if !yield(KindRetriever, r.Plugin) {
			return
		}
	}
}

var (
	packName   = regexp.MustCompile(`^forage-[a-z][a-z0-9-]*$`)
	pluginName = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)
	version    = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?$`)
)

// check finds mistakes of the author.
func (p Pack) check() error {
	if !packName.MatchString(p.Name) {
		return fmt.Errorf("the name must match %s", packName)
	}
	if !version.MatchString(p.Version) {
		return fmt.Errorf("version %q is not a semantic version such as 0.1.0", p.Version)
	}
	seen := map[string]bool{}
	for kind, plugin := range p.plugins {
		key := string(kind) + " " + plugin.Name
		switch {
		case !pluginName.MatchString(plugin.Name):
			return fmt.Errorf("%s name %q must match %s", kind, plugin.Name, pluginName)
		case seen[key]:
			return fmt.Errorf("%s %q occurs twice", kind, plugin.Name)
		}
		seen[key] = true
	}
	if len(seen) == 0 {
		return errors.New("it holds no plugins")
	}
	return nil
}
