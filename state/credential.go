package state

import (
	"errors"
	"fmt"
	"time"
)

// The names of the credentials of sources and channels. The credential of the agent's own login is
// "agent:" and the name of its runner.
const (
	CredentialIMAP = "imap" // reads mail
	CredentialSMTP = "smtp" // sends mail
	CredentialMesh = "mesh" // reads and sends messages of the mesh
)

// Credential is the outage of one named credential: "imap", "smtp", "mesh", "agent:claude"
// (docs/design.md, "Credentials"). A row exists only while the credential fails.
type Credential struct {
	Failures int       `json:"failures"` // cycles in a row
	Since    time.Time `json:"since"`
	Reason   string    `json:"reason,omitempty"`

	// Denied is set in the cycle that was denied. Until the next cycle the credential is not tried
	// again, and further failures do not count.
	Denied bool `json:"refused,omitempty"`

	Keymaster Notification `json:"keymaster,omitzero"` // told at the first failure
	Operator  Notification `json:"operator,omitzero"`  // told at the third failure, by the credential blocker

	// Blocks is set from the third failure on. ToldByHook is set once a hook has taken the event
	// about it.
	Blocks     bool `json:"blocker,omitempty"`
	ToldByHook bool `json:"told_by_hook,omitempty"`
}

// Notification is the progress of the notice of an outage to one recipient.
type Notification struct {
	ID   string `json:"id,omitempty"`   // of the effect that carries the notice; "" without a notice
	Sent bool   `json:"sent,omitempty"` // its server has taken it
}

// Fails reports whether a credential was denied when it was last tried.
func (s State) Fails(name string) bool {
	_, fails := s.Credentials[name]
	return fails
}

// Denied reports whether a credential was denied in the current cycle. Work that needs it waits for
// the next cycle.
func (s State) Denied(name string) bool { return s.Credentials[name].Denied }

// credential returns the name of the credential that a channel needs.
func (c Channel) credential() string {
	if c == ByMesh {
		return CredentialMesh
	}
	return CredentialSMTP
}

// CredentialError reports that a credential was denied or cannot be read. Packages mail, mesh and
// turn return it. It becomes an event for one named credential, never a reason to halt. Its text
// must not contain any part of the secret.
type CredentialError struct {
	Name string // "imap", "smtp", "mesh", "agent:claude"
	Err  error
}

func (e *CredentialError) Error() string { return fmt.Sprintf("credential %s: %v", e.Name, e.Err) }

// Unwrap returns the cause.
func (e *CredentialError) Unwrap() error { return e.Err }

// CredentialFailure returns the CredentialError in err, and whether err has one.
func CredentialFailure(err error) (*CredentialError, bool) {
	return errors.AsType[*CredentialError](err)
}
