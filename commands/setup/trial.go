package setup

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"agentstateloop/commands/terminal"
)

// trialTime limits one trial of a server. The user waits for it.
const trialTime = 8 * time.Second

// reaches reports whether to try servers: a user is there to correct errors, and the network may be
// used.
func (s Setup) reaches() bool { return s.Asker.CanAsk() && s.Network }

// trial announces a trial, runs it and returns its error.
func (s Setup) trial(ctx context.Context, what string, do func(context.Context) error) error {
	if s.Asker.CanAsk() {
		s.Asker.Tell("trying %s …", what)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, trialTime, fmt.Errorf("no answer within %v", trialTime))
	defer cancel()
	err := do(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return terminal.WithHint(cause, "is the port right, and does a firewall let it through?")
	}
	return err
}

// hostHint returns the hint for an unusable server. ports lists the usual ports.
func hostHint(err error, ports string) string {
	dns, isDNS := errors.AsType[*net.DNSError](err)
	names, isNames := errors.AsType[x509.HostnameError](err)
	_, isAuthority := errors.AsType[x509.UnknownAuthorityError](err)
	_, isRecord := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case isDNS && dns.IsNotFound:
		return "is the name right? the help pages of the provider have it"
	case isDNS, errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return "is this machine online? what cannot be tried now can be kept as it is"
	case isNames:
		return "use a name of the certificate: " + strings.Join(names.Certificate.DNSNames, ", ")
	case isAuthority:
		return "if it is your own server, name its authority with --ca-file FILE"
	case errors.Is(err, os.ErrNotExist):
		return "name the authority of the server with --ca-file FILE, or leave that out"
	case isRecord, errors.Is(err, syscall.ECONNREFUSED):
		return "is the port right? usual are " + ports
	}
	return "usual ports are " + ports
}

// The usual ports of mail servers.
const (
	imapPorts = "993 (TLS) and 143 (STARTTLS)"
	smtpPorts = "465 (TLS) and 587 (STARTTLS)"
)
