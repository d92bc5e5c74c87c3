//go:build !unix || darwin

package mail

import "crypto/tls"

// useSystemRoots leaves verification to crypto/tls: here the platform verifies
// by itself and nothing is parsed at start.
func useSystemRoots(*tls.Config) {}
