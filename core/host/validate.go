package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/forage-rl/forage/core/internal/wire"
	"github.com/forage-rl/forage/core/internal/wire/hostside"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/diag"
)

// validateTimeout bounds one validation, which is pure.
const validateTimeout = 30 * time.Second

// packValidator is a pack's process that validates: started once, when first needed.
type packValidator struct {
	mu         sync.Mutex
	connection *connection
	err        error
}

// validation is what is kept of an answer.
type validation struct {
	Diagnostics diag.Diagnostics
	Uses        []sdk.Use
}

// Validate lets a plugin check a configuration, and asks what it would take from its stage. The answer is cached by the
// pack's hash and the values, so that a second check starts no process.
func (c *Catalogue) Validate(ctx context.Context, kind sdk.Kind, label string, values map[string]any) (diag.Diagnostics, []sdk.Use, error) {
	info, err := c.Schema(ctx, kind, label)
	if err != nil {
		return nil, nil, err
	}
	b, err := wire.EncodeValues(values)
	if err != nil {
		return nil, nil, fmt.Errorf("configuration of %s %q: %w", kind, label, err)
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%s", info.Pack.key(), kind, info.Name, b))
	cache := filepath.Join(c.options.CacheDir, "validations", hex.EncodeToString(key[:])+".json")
	if b, err := os.ReadFile(cache); err == nil {
		var known validation
		if json.Unmarshal(b, &known) == nil {
			return known.Diagnostics, known.Uses, nil
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.options.StartTimeout+validateTimeout, errors.New("the plugin did not answer in time"))
	defer cancel()
	connection, err := c.validator(ctx, info.Pack)
	if err != nil {
		return nil, nil, err
	}
	ds, uses, err := hostside.NewPlugin(connection.conn).Validate(ctx, hostside.Name{Kind: kind, Name: info.Name}, values)
	if err != nil {
		return nil, nil, fmt.Errorf("validate with %s %q: %w", kind, label, wire.Limit(err, info.Pack.Name))
	}
	if b, err := json.Marshal(validation{ds, uses}); err == nil {
		if err := writeAtomic(cache, b, 0o600); err != nil {
			c.options.Logger.Warn("a validation cannot be cached; the plugin will be asked again", "plugin", label, "error", err)
		}
	}
	return ds, uses, nil
}

func (c *Catalogue) validator(ctx context.Context, p Pack) (*connection, error) {
	c.mu.Lock()
	v, there := c.validations[p.key()]
	if !there {
		v = &packValidator{}
		c.validations[p.key()] = v
	}
	err := c.prepareProcesses()
	identity, sockets := c.identity, c.sockets
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.connection == nil && v.err == nil {
		v.connection, v.err = launch{
			pack: p, name: p.Name, env: pluginEnv(c.options.env, nil), identity: identity, sockets: sockets, log: io.Discard,
			logger: c.options.Logger.With("plugin", p.Name), timeout: c.options.StartTimeout,
		}.start(ctx)
	}
	return v.connection, v.err
}

// prepareProcesses makes what a process needs. The caller holds c.mu.
func (c *Catalogue) prepareProcesses() error {
	var err error
	if c.identity == nil {
		if c.identity, err = newIdentity(); err != nil {
			return err
		}
	}
	if c.sockets == nil {
		c.sockets, err = newSocketDir()
	}
	return err
}

// Close ends the processes that validation started.
func (c *Catalogue) Close() error {
	c.mu.Lock()
	validators, sockets := c.validations, c.sockets
	c.validations, c.sockets = map[string]*packValidator{}, nil
	c.mu.Unlock()
	for _, v := range validators {
		v.mu.Lock()
		if v.connection != nil {
			v.connection.stop()
		}
		v.mu.Unlock()
	}
	if sockets != nil {
		return sockets.close()
	}
	return nil
}
