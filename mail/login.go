package mail

import (
	"context"
	"errors"

	"agentstateloop/state"
)

// openWithSecret opens a connection with the secret of s. If the server refuses the secret,
// openWithSecret tries once more with the secret that Renew returns.
func openWithSecret[C any](ctx context.Context, s Server, credential string, open func(secret string) (C, error)) (C, error) {
	var none C
	if s.Secret == nil {
		return none, &state.CredentialError{Name: credential, Err: errors.New("no secret is configured")}
	}
	secret, err := s.Secret(ctx)
	if err != nil {
		return none, secretUnavailable(ctx, credential, err)
	}
	conn, refused := open(secret)
	if _, is := state.CredentialFailure(refused); !is || s.Renew == nil {
		return conn, refused
	}
	secret, err = s.Renew(ctx, secret)
	if errors.Is(err, ErrNoOther) {
		return none, refused
	}
	if err != nil {
		return none, secretUnavailable(ctx, credential, err)
	}
	return open(secret)
}

// secretUnavailable returns the error for a secret that could not be read. It
// is a failure of the credential, unless ctx ended or the token endpoint could
// not be reached.
func secretUnavailable(ctx context.Context, credential string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if _, is := errors.AsType[*unreachable](err); is {
		return err
	}
	return &state.CredentialError{Name: credential, Err: err}
}
