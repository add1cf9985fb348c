package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/forage-rl/forage/core/internal/wire"
)

// describedPack is what a pack says about itself, or why it could not be asked.
type describedPack struct {
	wire.Description
	err error
}

// maxDescription bounds what a pack may print about itself.
const maxDescription = 16 << 20

// describe asks a pack what it holds, from the cache where its hash is known. Failures are kept too, so that a broken
// pack is asked once.
func (c *Catalogue) describe(ctx context.Context, p Pack) (wire.Description, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d, done := c.described[p.key()]; done {
		return d.Description, d.err
	}
	d := &describedPack{}
	d.Description, d.err = c.describeUncached(ctx, p)
	if d.err == nil || ctx.Err() == nil {
		c.described[p.key()] = d
	}
	return d.Description, d.err
}

func (c *Catalogue) describeUncached(ctx context.Context, p Pack) (wire.Description, error) {
	if !p.Trusted {
		return wire.Description{}, &UntrustedError{Pack: p}
	}
	cache := filepath.Join(c.options.CacheDir, "schemas", p.key()+".json")
	if b, err := os.ReadFile(cache); err == nil {
		// A cache that another version wrote or that was cut short is made anew.
		if d, err := parseDescription(p, b); err == nil {
			return d, nil
		}
	}
	if err := p.startable(); err != nil {
		return wire.Description{}, err
	}
	b, err := c.runDescribe(ctx, p)
	if err != nil {
		return wire.Description{}, err
	}
	d, err := parseDescription(p, b)
	if err != nil {
		return wire.Description{}, err
	}
	if err := writeAtomic(cache, b, 0o644); err != nil {
		c.options.Logger.Warn("the schemas of a plugin pack cannot be cached; it will be started again next time", "pack", p.Name, "error", err)
	}
	return d, nil
}

func (c *Catalogue) runDescribe(ctx context.Context, p Pack) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.options.StartTimeout, fmt.Errorf("no answer within %s", c.options.StartTimeout))
	defer cancel()
	cmd := exec.Command(p.Path, wire.DescribeArgument)
	cmd.Env = append(pluginEnv(c.options.env, nil), wire.HostPIDEnv+"="+strconv.Itoa(os.Getpid()))
	process, err := startProcess(cmd)
	if err != nil {
		return nil, fmt.Errorf("plugin pack %s (%s) cannot be executed: %w", p.Name, p.Path, err)
	}
	stop := context.AfterFunc(ctx, process.kill)
	defer stop()
	var stderr tail
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer process.stderr.Close()
		// What is lost of its messages only makes an error text shorter.
		_, _ = io.Copy(&stderr, process.stderr)
	}()
	go func() {
		// A child that left the process group must not hold the answer up.
		<-process.exited
		deadline := time.Now().Add(stopGrace)
		_ = process.stdout.SetReadDeadline(deadline)
		_ = process.stderr.SetReadDeadline(deadline)
	}()
	out, err := io.ReadAll(io.LimitReader(process.stdout, maxDescription+1))
	process.stdout.Close()
	if len(out) > maxDescription {
		process.kill()
		err = fmt.Errorf("it printed more than %d MiB", maxDescription>>20)
	}
	<-process.exited
	<-read
	note := ""
	if text := lastLines(stderr.String(), 20); text != "" {
		note = "; its last messages:\n" + text
	}
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("plugin pack %s (%s) does not describe itself: %w%s", p.Name, p.Path, context.Cause(ctx), note)
	case err != nil:
		return nil, fmt.Errorf("plugin pack %s (%s) does not describe itself: %w%s", p.Name, p.Path, err, note)
	case process.state != "exit status 0":
		return nil, fmt.Errorf("plugin pack %s (%s) does not describe itself: %q ended with %s: it is no plugin pack, was built with too old an SDK, or has a mistake%s",
			p.Name, p.Path, filepath.Base(p.Path)+" "+wire.DescribeArgument, process.state, note)
	}
	return out, nil
}

func parseDescription(p Pack, b []byte) (wire.Description, error) {
	where := fmt.Sprintf("plugin pack %s (%s)", p.Name, p.Path)
	var d wire.Description
	decoder := json.NewDecoder(bytes.NewReader(b))
	if err := decoder.Decode(&d); err != nil {
		line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
		return d, fmt.Errorf("%s does not describe itself as JSON: it printed %q (%w): it is no plugin pack, or it prints before sdk.Serve", where, cut(line, 200), err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return d, fmt.Errorf("%s prints something after its description", where)
	}
	if d.Protocol != wire.ProtocolVersion {
		return d, versionError(p, d.Protocol)
	}
	if d.Name != p.Name {
		return d, fmt.Errorf("%s calls itself %q: the file must be named as the pack", where, d.Name)
	}
	return d, nil
}
