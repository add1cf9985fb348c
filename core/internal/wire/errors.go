package wire

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/forage-rl/forage/core/internal/wire/foragev1"
)

// The errors that keep their identity across the connection. The SDK exports them.
var (
	ErrNotSupported   = errors.New("not supported")
	ErrUnknownEpisode = errors.New("unknown episode")
	ErrUnknownHandle  = errors.New("unknown handle")
	ErrInvalidRequest = errors.New("invalid request")
	// ErrPanic marks a panic of a plugin's method that its server caught.
	ErrPanic = errors.New("panicked")
)

type wellKnown struct {
	err    error
	code   pb.ErrorCode
	status codes.Code
}

func wellKnownErrors() []wellKnown {
	return []wellKnown{
		{ErrNotSupported, pb.ErrorCode_ERROR_CODE_NOT_SUPPORTED, codes.Unimplemented},
		{ErrUnknownEpisode, pb.ErrorCode_ERROR_CODE_UNKNOWN_EPISODE, codes.NotFound},
		{ErrUnknownHandle, pb.ErrorCode_ERROR_CODE_UNKNOWN_HANDLE, codes.NotFound},
		{ErrInvalidRequest, pb.ErrorCode_ERROR_CODE_INVALID_REQUEST, codes.InvalidArgument},
		{ErrPanic, pb.ErrorCode_ERROR_CODE_PANIC, codes.Internal},
	}
}

// ToStatus turns an error into one that gRPC carries with its text and identity.
func ToStatus(err error) error {
	if err == nil {
		return nil
	}
	if _, is := err.(interface{ GRPCStatus() *status.Status }); is { //nolint:errorlint // only a status itself passes
		return err
	}
	detail := &pb.ErrorDetail{}
	code := codes.Unknown
	switch {
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	}
	for _, k := range wellKnownErrors() {
		if errors.Is(err, k.err) {
			detail.Codes = append(detail.Codes, k.code)
			if code == codes.Unknown {
				code = k.status
			}
		}
	}
	s := status.New(code, validText(err.Error()))
	if len(detail.Codes) > 0 {
		if with, detailErr := s.WithDetails(detail); detailErr == nil {
			s = with
		}
	}
	return s.Err()
}

// remoteError is an error of the other side: its text, and the identities it had there.
type remoteError struct {
	text string
	is   []error
}

func (e *remoteError) Error() string   { return e.text }
func (e *remoteError) Unwrap() []error { return e.is }

// FromStatus undoes [ToStatus]. The gRPC status stays reachable by status.FromError.
func FromStatus(err error) error {
	if err == nil {
		return nil
	}
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	remote := &remoteError{text: s.Message(), is: []error{err}}
	switch s.Code() {
	case codes.Canceled:
		remote.is = append(remote.is, context.Canceled)
	case codes.DeadlineExceeded:
		remote.is = append(remote.is, context.DeadlineExceeded)
	case codes.Unimplemented:
		// A call that the other side does not know, too, is one it does not support.
		remote.is = append(remote.is, ErrNotSupported)
	}
	for _, d := range s.Details() {
		detail, ok := d.(*pb.ErrorDetail)
		if !ok {
			continue
		}
		for _, code := range detail.Codes {
			for _, k := range wellKnownErrors() {
				if k.code == code {
					remote.is = append(remote.is, k.err)
				}
			}
		}
	}
	return remote
}
