package mail

import (
	"agentstateloop/internal/plain"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"os"
	"strings"

	"github.com/emersion/go-smtp"
)

// wordedError has a text of its own. The texts of the libraries repeat parts of ours: the
// address, the operation, the code.
type wordedError struct {
	text string
	err  error
}

func (e *wordedError) Error() string { return e.text }
func (e *wordedError) Unwrap() error { return e.err }

// worded returns err with a text that names no address and repeats no words. It keeps the
// errors that err wraps.
func worded(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*wordedError](err); ok {
		return err
	}
	if text := wording(err); text != err.Error() {
		return &wordedError{text, err}
	}
	return err
}

func wording(err error) string {
	if reply, ok := errors.AsType[*smtp.SMTPError](err); ok {
		return strings.Replace(err.Error(), reply.Error(), strings.TrimSpace(fmt.Sprintf("%d %s", reply.Code, reply.Message)), 1)
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsNotFound {
			return "no such host"
		}
		return "the DNS does not answer: " + dns.Err
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return "timed out"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		if call, ok := errors.AsType[*os.SyscallError](op.Err); ok {
			return call.Err.Error()
		}
		return op.Err.Error()
	}
	if words, ok := errors.AsType[textproto.ProtocolError](err); ok {
		_, said, _ := strings.Cut(string(words), ": ")
		return fmt.Sprintf("the server does not speak SMTP: %q", plain.OneLine(strings.Trim(said, `"`), 60))
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "the server closed the connection"
	}
	return strings.TrimPrefix(err.Error(), "tls: ")
}
