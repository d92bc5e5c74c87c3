//go:build !unix || darwin

package mail

import "crypto/tls"

// useSystemRoots leaves verification to crypto/tls. On these platforms the
// system verifies, and no bundle is parsed at start.
func useSystemRoots(*tls.Config) {}
