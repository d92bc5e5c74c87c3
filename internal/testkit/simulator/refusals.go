package simulator

import (
	"regexp"
	"strings"

	"github.com/emersion/go-smtp"
)

// This file plays submission servers that take no mail for now, or not this one.

// refuseMail is the answer to MAIL: 451 while the server takes no mail for now.
func (w *World) refuseMail(string) error {
	if !w.down("smtp-451") {
		return nil
	}
	w.troubled("smtp")
	w.count.happened("a submission server said 451")
	return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "not now"}
}

// refuseRcpt is the answer to RCPT: 550 while the recipient is unknown.
func (w *World) refuseRcpt(string) error {
	if !w.down("smtp-550") {
		return nil
	}
	w.troubled("smtp")
	w.count.happened("a recipient was refused for good")
	return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such user"}
}

var deliverables = regexp.MustCompile(`\b([EMPT]\d{3}) (?:answered by|submitted)`)

// receiveSent takes a mail of ours, or refuses it for good for what it says: while
// that lasts, each mail with a deliverable.
func (w *World) receiveSent(raw []byte) error {
	if m := deliverables.FindSubmatch(raw); m != nil && w.down("smtp-554") {
		w.troubled("smtp")
		w.count.happened("a mail was refused for good for what it says")
		w.record.mu.Lock()
		w.record.refused[string(m[1])]++
		w.record.mu.Unlock()
		return &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 7, 1}, Message: "this looks like spam: " + strings.ToLower(string(m[1]))}
	}
	w.record.mailSent(raw)
	return nil
}
