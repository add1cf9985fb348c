package sdk

import "github.com/forage-rl/forage/core/internal/wire"

// Errors that keep their identity across the process boundary: errors.Is works on both sides.
var (
	// ErrNotSupported is returned for a service or option that this version does not offer.
	ErrNotSupported = wire.ErrNotSupported
	// ErrUnknownEpisode is returned for an episode id that the step does not hold: ids end with their step.
	ErrUnknownEpisode = wire.ErrUnknownEpisode
	// ErrUnknownHandle is returned for an index, corpus or policy that the run does not hold.
	ErrUnknownHandle = wire.ErrUnknownHandle
	// ErrInvalidRequest is returned for a request that no retry can make right.
	ErrInvalidRequest = wire.ErrInvalidRequest
)
