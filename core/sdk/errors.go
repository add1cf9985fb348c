package sdk

import "errors"

// Errors that keep their identity across the process boundary: errors.Is works on both sides.
var (
	// ErrNotSupported is returned for a service or option that this version does not offer.
	ErrNotSupported = errors.New("not supported")
	// ErrUnknownEpisode is returned for an episode id that the step does not hold.
	ErrUnknownEpisode = errors.New("unknown episode")
	// ErrUnknownHandle is returned for an index, corpus or policy that the run does not hold.
	ErrUnknownHandle = errors.New("unknown handle")
	// ErrInvalidRequest is returned for a request that no retry can make right.
	ErrInvalidRequest = errors.New("invalid request")
)
