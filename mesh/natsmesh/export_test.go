package natsmesh

import "agentstateloop/fleet"

// Believes reports whether an agent that knows these keys believes a row of the registry.
func Believes(keys map[string]string, r fleet.Row) bool { return keyring{keys: keys}.believes(r) }
