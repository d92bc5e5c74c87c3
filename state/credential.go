package state

import (
	"errors"
	"fmt"
	"time"
)

// The names of the credentials that carry a source or a channel. That of the
// agent's own login is "agent:" and its runner.
const (
	CredentialIMAP = "imap" // reads mail
	CredentialSMTP = "smtp" // sends mail
	CredentialMesh = "mesh" // both ways
)

// Credential is the outage of one named secret: "imap", "smtp", "mesh",
// "agent:claude" (DESIGN 10). A row exists only while it fails.
type Credential struct {
	Failures int       `json:"failures"` // cycles in a row
	Since    time.Time `json:"since"`
	Reason   string    `json:"reason,omitempty"`

	// Refused: in the cycle under way. Until the next one begins it is not tried
	// again, and nothing more is counted.
	Refused bool `json:"refused,omitempty"`

	Keymaster Telling `json:"keymaster,omitzero"` // at the first failure
	Operator  Telling `json:"operator,omitzero"`  // at the third: the credential blocker
}

// Telling is how far the word about an outage has come to one who is to know.
type Telling struct {
	ID   string `json:"id,omitempty"`   // of the effect that tells it; "" = none was made
	Sent bool   `json:"sent,omitempty"` // its server has it
}

// Fails says whether a credential was refused when it was last tried.
func (s State) Fails(name string) bool {
	_, fails := s.Credentials[name]
	return fails
}

// Refused says whether a credential was refused in the cycle under way, so that
// whatever needs it is left to the next one.
func (s State) Refused(name string) bool { return s.Credentials[name].Refused }

// credential is the name of what a channel needs.
func (c Channel) credential() string {
	if c == ByMesh {
		return CredentialMesh
	}
	return CredentialSMTP
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
