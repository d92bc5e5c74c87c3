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

// canTry reports whether to try servers: a user is there to correct errors, and the network may be
// used.
func (s Setup) canTry() bool { return s.Asker.CanAsk() && s.Network }

// trial announces a trial, runs it and returns its error.
func (s Setup) trial(ctx context.Context, what string, do func(context.Context) error) error {
	if s.Asker.CanAsk() {
		s.Asker.Tell("trying %s …", what)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, trialTime, fmt.Errorf("no answer within %v", trialTime))
	defer cancel()
	err := do(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return terminal.WithHint(cause, "is the port right, and does the firewall allow it?")
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
		return "is the name right? the provider's help pages have it"
	case isDNS, errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return "is this machine online? if not, you can use this answer without a test"
	case isNames:
		return "use a name in the certificate: " + strings.Join(names.Certificate.DNSNames, ", ")
	case isAuthority:
		return "if it is your own server, pass its CA certificate with --ca-file FILE"
	case errors.Is(err, os.ErrNotExist):
		return "pass the server's CA certificate with --ca-file FILE, or leave --ca-file out"
	case isRecord, errors.Is(err, syscall.ECONNREFUSED):
		return "is the port right? the usual ports are " + ports
	}
	return "the usual ports are " + ports
}

// The usual ports of mail servers.
const (
	imapPorts = "993 (TLS) and 143 (STARTTLS)"
	smtpPorts = "465 (TLS) and 587 (STARTTLS)"
)

// errNotListed reports a model that the provider does not list.
var errNotListed = errors.New("the API does not list the model")
