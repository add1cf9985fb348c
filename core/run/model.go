package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/policy"
	"github.com/forage-rl/forage/core/policy/checkpoint"
	"github.com/forage-rl/forage/core/policy/tokenizer"
	"github.com/forage-rl/forage/core/record"
	"github.com/forage-rl/forage/core/rollout"
	"github.com/forage-rl/forage/core/sdk"
)

// mainRole is the role of the policy that stages and evaluations mean where they name none.
const mainRole = "main"

// model is a policy of the run that is loaded.
type model struct {
	*policy.Policy // nil for one behind an endpoint
	config         *experiment.Policy
	tokenizer      rollout.Tokenizer
	// tokens identifies the tokenizer: sequences of one model mean the same to another with equal tokens.
	tokens  string
	sampler modelSampler
	rows    int // sequences that the cache has room for
	kept    rollout.Kept
}

// modelSampler is a sampler of the run's own.
type modelSampler interface {
	rollout.Sampler
	// computed counts the tokens of prompts and observations that were run through, and those that were sampled.
	computed() (read, wrote int64)
	Close() error
}

// positions is the longest sequence that the model was made for.
func (m *model) positions() int {
	if m.Policy == nil {
		return m.sampler.MaxContext()
	}
	return m.Config().MaxPositions
}

func (m *model) close() error {
	err := m.sampler.Close()
	if m.Policy != nil {
		err = errors.Join(err, m.Policy.Close())
	}
	return err
}

// models are the policies of a run, each loaded once, when it is first needed. Policies that nothing trains and that
// are read from the same place share their weights.
type models struct {
	run    *runner
	from   *record.Checkpoint // whose weights the trained policies start with; nil for their first ones
	byName map[string]*model  // role, or the handle of a policy that only plugins refer to
	frozen map[frozenKey]*model
}

type frozenKey struct {
	dir, dtype string
	context    int
}

// declared finds the policy of a role or a handle.
func (r *runner) declared(name string) (*experiment.Policy, error) {
	if p, ok := r.config.Policies[name]; ok {
		return p, nil
	}
	if p, ok := r.config.PolicyBlocks[name]; ok {
		return p, nil
	}
	if name == mainRole {
		return nil, errors.New(`the run has no policy "main"; set policies = { main = policy.… }`)
	}
	return nil, fmt.Errorf("policy %q; the run has the roles %v and whatever policies its plugins refer to: %w", name, sorted(r.config.Policies), sdk.ErrUnknownHandle)
}

// isTrained says whether a stage of the run trains the policy of a role.
func (r *runner) isTrained(name string) bool {
	return slices.ContainsFunc(r.config.Stages, func(s *experiment.Stage) bool { return roleOf(s.Policy) == name && len(s.Produce) == 0 })
}

func roleOf(name string) string {
	if name == "" {
		return mainRole
	}
	return name
}

// trainedRoles lists the roles whose weights checkpoints hold: main first, whether it is trained or not, unless it is
// behind an endpoint.
func (r *runner) trainedRoles() []string {
	var roles []string
	if main := r.config.Policies[mainRole]; main == nil || main.Endpoint == nil {
		roles = append(roles, mainRole)
	}
	for _, role := range sorted(r.config.Policies) {
		if role != mainRole && r.isTrained(role) {
			roles = append(roles, role)
		}
	}
	return roles
}

// weightsIn is the folder of a role's weights within a checkpoint.
func weightsIn(dir, role string) string {
	if role == mainRole {
		return join(dir, "policy")
	}
	return join(dir, "policies", role)
}

// weightsAt is the folder of a role's weights at a checkpoint, nil for the run's start.
func (r *runner) weightsAt(c *record.Checkpoint, role string) (string, error) {
	if c != nil && (role == mainRole || r.isTrained(role)) {
		return weightsIn(c.Dir, role), nil
	}
	return r.folder(role)
}

// weightsDigest identifies the weights of a role at a checkpoint, nil for the run's start, or the model behind an
// endpoint.
func (r *runner) weightsDigest(c *record.Checkpoint, name string) (string, error) {
	p, err := r.declared(name)
	if err != nil {
		return "", err
	}
	if p.Endpoint != nil {
		return remoteDigest(p.Endpoint), nil
	}
	dir, err := r.weightsAt(c, name)
	if err != nil {
		return "", err
	}
	return checkpoint.Digest(dir)
}

// weightDigests gives the digests of the weights that evaluations are made with, by role, main left out.
func (r *runner) weightDigests(c *record.Checkpoint) (map[string]string, error) {
	var digests map[string]string
	for _, e := range r.config.Evaluations {
		role := roleOf(e.Policy)
		if _, known := digests[role]; known || role == mainRole {
			continue
		}
		digest, err := r.weightsDigest(c, role)
		if err != nil {
			return nil, err
		}
		if digests == nil {
			digests = map[string]string{}
		}
		digests[role] = digest
	}
	return digests, nil
}

// folder finds or makes the folder that a policy starts from.
func (r *runner) folder(name string) (string, error) {
	p, err := r.declared(name)
	if err != nil {
		return "", err
	}
	dir, err := PolicyFolder(p, r.resources.path, r.CacheDir, r.Backend)
	if err == nil {
		err = isModelFolder(dir)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", at(p.Handle, p.Range), err)
	}
	return dir, nil
}

// sampled counts the different policies that the run can sample from, which share the memory for keys and values.
func (r *runner) sampled() int {
	var list []*experiment.Policy
	for _, p := range r.config.Policies {
		list = append(list, p)
	}
	for _, p := range r.config.PolicyBlocks {
		list = append(list, p)
	}
	return max(1, len(compact(list)))
}

// get gives a policy by role or handle and loads it where that has not been done.
func (ms *models) get(ctx context.Context, name string) (*model, error) {
	if m, ok := ms.byName[name]; ok {
		return m, nil
	}
	r := ms.run
	p, err := r.declared(name)
	if err != nil {
		return nil, err
	}
	if p.Endpoint != nil {
		key := frozenKey{dir: remoteDigest(p.Endpoint), context: p.MaxContext}
		if ms.frozen[key] == nil {
			if ms.frozen[key], err = ms.remote(p); err != nil {
				return nil, fmt.Errorf("%s: %w", at(p.Handle, p.Range), err)
			}
		}
		ms.byName[name] = ms.frozen[key]
		return ms.frozen[key], nil
	}
	dir, err := r.weightsAt(ms.from, name)
	if err != nil {
		return nil, err
	}
	own := r.isTrained(name)
	key := frozenKey{dir, computeType(p.DType), p.MaxContext}
	if shared, ok := ms.frozen[key]; ok && !own {
		ms.byName[name] = shared
		return shared, nil
	}
	m, err := ms.load(ctx, p, dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at(p.Handle, p.Range), err)
	}
	ms.byName[name] = m
	if !own {
		ms.frozen[key] = m
	}
	return m, nil
}

// largePolicy is the number of parameters from which memory is collected often.
const largePolicy = 50_000_000

func (ms *models) load(ctx context.Context, p *experiment.Policy, dir string) (_ *model, err error) {
	r := ms.run
	r.report("loading "+p.Handle, 0, 0)
	if p.DType == "bfloat16" {
		r.warnings = append(r.warnings, fmt.Sprintf("%s: this version computes and saves bfloat16 policies in float32", at(p.Handle, p.Range)))
	}
	weights, err := policy.Load(ctx, dir, policy.Options{Backend: r.Backend, DType: computeType(p.DType)})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, weights.Close())
		}
	}()
	// The tensors of a large model are most of the memory and hold no pointers: collecting often costs next to
	// nothing, and without it garbage takes as much room as the model, its gradient and its optimizer together.
	if _, chosen := os.LookupEnv("GOGC"); !chosen && weights.Parameters() >= largePolicy {
		debug.SetGCPercent(25)
	}
	tok, err := tokenizer.Load(dir)
	if err != nil {
		return nil, err
	}
	if tok.VocabSize() > weights.Config().VocabSize {
		return nil, fmt.Errorf("%s: the tokenizer has %d tokens, the model only %d rows: they do not belong together", dir, tok.VocabSize(), weights.Config().VocabSize)
	}
	definition, err := os.ReadFile(join(dir, "tokenizer.json"))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(definition)
	m := &model{Policy: weights, config: p, tokenizer: newText(tok), tokens: hex.EncodeToString(sum[:])}
	context := p.MaxContext
	if most := weights.Config().MaxPositions; context == 0 || context > most {
		context = most
	}
	m.rows = rowsFor(weights.Config(), context, cacheBytes/r.sampled())
	m.sampler, err = newSampler(weights, m.rows, context, &r.decoded)
	return m, err
}

// loaded lists the policies that are loaded.
func (ms *models) loaded() []*model {
	var list []*model
	for _, name := range sorted(ms.byName) {
		list = append(list, ms.byName[name])
	}
	return compact(list)
}

// forget drops what was computed of all episodes.
func (ms *models) forget() error {
	var errs []error
	for _, m := range ms.loaded() {
		errs = append(errs, m.engine(nil).Forget())
	}
	return errors.Join(errs...)
}

// computed counts the tokens of prompts and observations that the policies have run through, and those that they have
// sampled.
func (ms *models) computed() (read, wrote int64) {
	for _, m := range ms.loaded() {
		more, written := m.sampler.computed()
		read, wrote = read+more, wrote+written
	}
	return read, wrote
}

func (ms *models) close() error {
	var errs []error
	for _, m := range ms.loaded() {
		errs = append(errs, m.close())
	}
	return errors.Join(errs...)
}
