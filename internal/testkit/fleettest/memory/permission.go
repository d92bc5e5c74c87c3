package memory

import (
	"encoding/base64"
	"slices"

	"github.com/nats-io/nkeys"

	"agentstateloop/fleet"
)

// user is who may connect.
type user struct {
	rights *fleet.Permissions // nil: all
}

func usersOf(o Options) map[string]*user {
	users := map[string]*user{}
	for handle, key := range o.Users {
		rights := fleet.Rights(handle)
		users[key] = &user{&rights}
	}
	if o.Admin != "" {
		users[o.Admin] = &user{}
	}
	return users
}

// isAgent reports whether the user is of the account of the agents.
func (u *user) isAgent() bool { return u.rights != nil }

func (u *user) mayPublish(subject string) bool {
	return u.rights == nil || covers(u.rights.Publish, subject)
}

func (u *user) maySubscribe(subject string) bool {
	return u.rights == nil || covers(u.rights.Subscribe, subject)
}

func covers(patterns []string, subject string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, subject) })
}

// signed reports whether a key made the signature over the nonce of a connection.
func signed(key, signature, nonce string) bool {
	sig, err := base64.RawURLEncoding.DecodeString(signature)
	if err != nil {
		return false
	}
	pair, err := nkeys.FromPublicKey(key)
	return err == nil && pair.Verify([]byte(nonce), sig) == nil
}
