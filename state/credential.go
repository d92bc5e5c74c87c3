package state

import (
	"errors"
	"fmt"
	"time"
)

// Credential counts the failures of one named secret: "imap", "smtp", "mesh",
// "agent:claude" (DESIGN 10). A row exists only while it fails.
type Credential struct {
	Failures int       `json:"failures"`
	Since    time.Time `json:"since"`
	Reason   string    `json:"reason,omitempty"`
}

// CredentialError is how mail, mesh and turn report that a secret was refused
// or cannot be read: an event for one named credential, never a reason to
// halt. Its text must hold no part of the secret.
type CredentialError struct {
	Name string // "imap", "smtp", "mesh", "agent:claude"
	Err  error
}

func (e *CredentialError) Error() string { return fmt.Sprintf("credential %s: %v", e.Name, e.Err) }

// Unwrap gives the cause.
func (e *CredentialError) Unwrap() error { return e.Err }

// CredentialFailure finds the CredentialError in err, if there is one.
func CredentialFailure(err error) (*CredentialError, bool) {
	return errors.AsType[*CredentialError](err)
}
