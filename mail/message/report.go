package message

import (
	"bytes"
	"slices"
	"strings"

	"agentstateloop/internal/plain"
)

// Report is the content of a delivery report: which mail it is about, and the fate of that
// mail. It is not proved.
type Report struct {
	// IDs are the Message-IDs of the returned mail. They are from its header or from the whole
	// mail, which the report returns, and from the fields that name it.
	IDs []string

	Failed  bool // the server gave up
	Delayed bool // the server keeps trying

	Recipients []string // who did not get it, normalised, the most certain first
	Reason     string   // one line
}

// The limits of ReadReport.
const (
	maxReportParts = 50
	maxReportDepth = 8
	maxReportIDs   = 20
	maxRecipients  = 20
	maxReasonLine  = 300
)

// ReadReport reads a delivery report, or the beginning of one: in the form of RFC 3464, or as a
// text with a copy of the header, as Exim and qmail write it. It never fails. Failed and
// Delayed are both false if a report mentions no failure.
func ReadReport(raw []byte) Report {
	var r reportReader
	header, _ := splitEntity(raw)
	fields := Fields(header)
	var answered, referred []string
	for _, f := range fields {
		switch f.Name {
		case "x-failed-recipients":
			r.out.Failed = true
			r.recipients = append(r.recipients, Addresses(f.Value)...)
		case "in-reply-to":
			answered = append(answered, ThreadIDs(f.Value)...)
		case "references":
			referred = append(referred, ThreadIDs(f.Value)...)
		case "subject":
			r.subject = decodeWords(f.Value)
		}
	}
	switch {
	case len(answered) > 0:
		r.inReplyTo = answered[:1]
	case len(referred) > 0:
		r.inReplyTo = referred[len(referred)-1:]
	}
	r.part(raw, 0)
	r.judge(fromDaemon(fields))
	return r.out
}

// reportReader collects the contents of the parts of a report.
type reportReader struct {
	out        Report
	parts      int
	status     bool     // the report has a machine-readable part
	recipients []string // in the report
	returnedTo []string // the addresses in To of the returned header
	inReplyTo  []string // the id that the report itself answers
	text       strings.Builder
	subject    string
}

// part reads a part. It reads only the header of a returned mail.
func (r *reportReader) part(raw []byte, depth int) {
	if r.parts++; r.parts > maxReportParts || depth > maxReportDepth {
		return
	}
	e := readEntity(raw)
	var c contentReader
	switch {
	case strings.HasPrefix(e.mediaType, "multipart/"):
		for _, p := range splitParts(e.body, e.params["boundary"]) {
			r.part(p, depth+1)
		}
	case e.mediaType == "message/delivery-status" || e.mediaType == "message/global-delivery-status":
		r.deliveryStatus(c.decode(e))
	case slices.Contains(returnedTypes, e.mediaType):
		r.returned(Fields(bytes.TrimLeft(c.decode(e), "\r\n")))
	case strings.HasPrefix(e.mediaType, "text/") && r.text.Len() < maxReportText:
		r.text.WriteString(c.text(e))
		r.text.WriteByte('\n')
	}
}

// maxReportText is the approximate number of bytes of a report's text that are read.
const maxReportText = 256 << 10

// maxSearched is the number of bytes of a report's text that are searched for words and codes.
const maxSearched = 16 << 10

// returnedTypes are the media types of a returned mail or header (RFC 6522, RFC 6532).
var returnedTypes = []string{
	"message/rfc822", "text/rfc822-headers", "message/rfc822-headers", "text/rfc822", "message/global", "message/global-headers",
}

// returned reads the header of the returned mail. Some servers give a mail a new id, and keep
// the original one in another field.
func (r *reportReader) returned(fields []Field) {
	for _, f := range fields {
		switch f.Name {
		case "message-id", "x-original-message-id", "x-google-original-message-id", "x-microsoft-original-message-id":
			r.addIDs(f.Value)
		case "to":
			r.returnedTo = append(r.returnedTo, Addresses(plain.Cut(f.Value, maxParsed))...)
		}
	}
}

func (r *reportReader) addIDs(ids string) {
	if len(r.out.IDs) < maxReportIDs {
		r.out.IDs = append(r.out.IDs, ThreadIDs(ids)...)
	}
}

// deliveryStatus reads the machine-readable fields (RFC 3464 section 2): a group for the mail,
// and one for each recipient.
func (r *reportReader) deliveryStatus(body []byte) {
	r.status = true
	for len(body) > 0 {
		var group []byte
		group, body = splitEntity(body)
		var action, status, diagnostic string
		var recipients []string
		for _, f := range Fields(group) {
			switch f.Name {
			case "original-message-id", "x-original-message-id":
				r.addIDs(f.Value)
			case "action":
				action = Keyword(f.Value)
			case "status":
				status = Keyword(f.Value)
			case "diagnostic-code":
				diagnostic = valueAfterType(f.Value)
			case "original-recipient":
				recipients = append(Addresses(plain.Cut(valueAfterType(f.Value), maxParsed)), recipients...)
			case "final-recipient":
				recipients = append(recipients, Addresses(plain.Cut(valueAfterType(f.Value), maxParsed))...)
			}
		}
		failed := action == "failed" || action == "" && strings.HasPrefix(status, "5.")
		delayed := action == "delayed" || action == "" && strings.HasPrefix(status, "4.")
		if !failed && (!delayed || r.out.Failed) {
			continue
		}
		if failed && !r.out.Failed {
			r.out.Failed, r.out.Delayed, r.out.Reason = true, false, ""
		}
		r.out.Delayed = !r.out.Failed
		r.recipients = append(r.recipients, recipients...)
		if r.out.Reason == "" {
			r.out.Reason = strings.TrimSpace(status + " " + diagnostic)
		}
	}
}

// valueAfterType returns the value after the type in a field such as "rfc822; op@example.com".
func valueAfterType(v string) string {
	kind, value, ok := strings.Cut(v, ";")
	if !ok {
		return strings.TrimSpace(kind)
	}
	return strings.TrimSpace(value)
}

// judge decides the fate of the mail if no machine-readable part states it. daemon is true if
// the header shows that a mail server wrote the report.
func (r *reportReader) judge(daemon bool) {
	text := r.text.String()
	if len(r.out.IDs) == 0 {
		r.copiedHeader(text)
	}
	if len(r.out.IDs) == 0 && r.status {
		r.out.IDs = r.inReplyTo // it returns no mail, and the machine-readable fields decide
	}
	if !r.status {
		searched := Lower(r.subject + "\n" + plain.Cut(text, maxSearched))
		mentions := func(words []string) bool {
			return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(searched, w) })
		}
		r.out.Delayed = !r.out.Failed && mentions(delayWords)
		r.out.Failed = r.out.Failed || !r.out.Delayed && (daemon || mentions(failureWords))
	}
	all := append(r.recipients, r.returnedTo...)
	for _, a := range all {
		if a != "" && !slices.Contains(r.out.Recipients, a) && len(r.out.Recipients) < maxRecipients {
			r.out.Recipients = append(r.out.Recipients, a)
		}
	}
	if r.out.Reason == "" {
		r.out.Reason = reasonIn(text)
	}
	if r.out.Reason == "" {
		r.out.Reason = r.subject
	}
	r.out.Reason = plain.Shorten(plain.Line(plain.Cut(r.out.Reason, 4*maxReasonLine)), maxReasonLine)
}

// copiedHeader finds the header of the mail in the text of a report, where Exim and qmail copy
// it. Each line of the copy may be quoted.
func (r *reportReader) copiedHeader(text string) {
	var field bytes.Buffer
	flush := func() {
		r.returned(Fields(field.Bytes()))
		field.Reset()
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if quoted, ok := strings.CutPrefix(line, ">"); ok {
			line = strings.TrimPrefix(quoted, " ")
		}
		name, _, ok := strings.Cut(line, ":")
		switch {
		case field.Len() > 0 && (strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")):
			field.WriteString(line + "\n")
		case ok && slices.Contains(copiedFields, Lower(strings.TrimSpace(name))):
			flush()
			field.WriteString(strings.TrimSpace(line) + "\n")
		default:
			flush()
		}
	}
	flush()
}

var copiedFields = []string{"message-id", "x-original-message-id", "x-google-original-message-id", "x-microsoft-original-message-id", "to"}

// delayWords are phrases in the reports of servers that keep trying.
var delayWords = []string{
	"has not yet been delivered", "not yet been delivered", "warning message only", "do not need to resend", "will keep trying", "will continue to",
	"will be retried", "still being retried", "delivery is delayed", "delivery has been delayed", "delayed 24 hours", "message delayed", "delivery delayed", "delay notification",
}

// failureWords are phrases in the reports of servers that gave up.
var failureWords = []string{
	"could not be delivered", "couldn't be delivered", "wasn't able to deliver", "was not able to deliver", "unable to deliver", "cannot be delivered",
	"not delivered", "undeliverable", "undelivered", "delivery failed", "delivery failure", "delivery has failed", "failure notice", "returned mail",
	"returning message to sender", "permanent error", "permanent fatal error", "delivery status notification (failure)", "user unknown",
	"mailbox unavailable", "mailbox is full", "address not found", "address rejected", "message blocked", "no such user", "recipient rejected",
}

// reasonIn returns the line of a text that states a reason: the first one with the code of a
// refusal.
func reasonIn(text string) string {
	for line := range strings.Lines(plain.Cut(text, maxSearched)) {
		line = strings.TrimSpace(line)
		for word := range strings.FieldsSeq(line) {
			if refusalCode(strings.Trim(word, "#():;,[]<>-")) {
				return line
			}
		}
	}
	return ""
}

// refusalCode reports whether a word is a reply or status code of a refusal: 550, 5.1.1.
func refusalCode(word string) bool {
	if len(word) < 3 || word[0] != '5' {
		return false
	}
	dots := strings.Count(word, ".")
	for _, r := range word {
		if r != '.' && (r < '0' || r > '9') {
			return false
		}
	}
	return dots == 0 && len(word) == 3 && word[1] <= '7' || dots == 2 && word[1] == '.' && len(word) <= 9
}

// LooksLikeReport reports whether a header may be that of a delivery report, by its type, its
// sender, or its fields. Read receipts and abuse reports do not count.
func LooksLikeReport(fields []Field) bool {
	failed, null := false, false
	for _, f := range fields {
		switch f.Name {
		case "content-type":
			t, params := mediaType(f.Value)
			if t != "multipart/report" {
				continue
			}
			kind := Lower(params["report-type"])
			return kind == "" || kind == "delivery-status" || kind == "global-delivery-status"
		case "x-failed-recipients":
			failed = true
		case "return-path":
			null = null || IsNullPath(f.Value)
		}
	}
	return failed || null || fromDaemon(fields)
}

// fromDaemon reports whether From or the type shows that a mail server wrote the mail.
func fromDaemon(fields []Field) bool {
	for _, f := range fields {
		switch f.Name {
		case "from":
			for _, a := range senders(f.Value) {
				local, _, _ := strings.Cut(a, "@")
				if slices.Contains(daemons, local) {
					return true
				}
			}
			// Some servers write only a name.
			if name := Lower(plain.Cut(f.Value, maxParsed)); strings.Contains(name, "mailer-daemon") || strings.Contains(name, "mail delivery s") {
				return true
			}
		case "content-type":
			if t, _ := mediaType(f.Value); t == "multipart/report" {
				return true
			}
		}
	}
	return false
}

// daemons are the local parts of the addresses of mail servers.
var daemons = []string{"mailer-daemon", "postmaster", "mail-daemon", "mailerdaemon", "maildaemon", "mdaemon", "bounce", "bounces"}
