package trust

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"agentstateloop/internal/plain"
	"agentstateloop/mail/message"
	"agentstateloop/state"
)

// The gates that a mail for this agent must pass, in order (docs/design.md, "The gate").
// Quarantine and history contain their names.
const (
	GateFrom   = "from"   // not exactly one sender
	GateSelf   = "self"   // our own mail
	GateAuto   = "auto"   // an automatic reply (RFC 3834)
	GateBounce = "bounce" // a delivery report
	GateList   = "list"   // mail to many recipients
	GateSize   = "size"   // over the limit
	GateTrust  = "trust"  // the sender is not proved
)

// Filter decides which mail is for this agent, and which of it to accept.
type Filter struct {
	Handle    string   // without the @
	Operators []string // addresses
	Own       string   // the address this agent sends from
	Aliases   []string // other addresses at which it gets mail
	MaxSize   int64    // bytes of the raw mail; 0 means no limit

	IDKey message.IDKey // distinguishes the Message-IDs of our mail from imitations

	// The values of [trust], which define the proof of a sender. Any other Require rejects all
	// mail.
	Require      string // RequireDMARC, RequireChallenge or RequireFrom
	Verify       string // under RequireDMARC: VerifyServer (also "") or VerifyDKIM
	AuthservID   string // for VerifyServer: the trusted server
	SameProvider bool   // for VerifyServer: one auth=pass for the operator's address is also enough
	AllowSPF     bool   // for VerifyServer: spf=pass is enough for mail without a valid signature
	Resolver     string // for VerifyDKIM: the DNS server, host:port; "" is the system's
	Fallback     bool   // under RequireDMARC: the operator may be asked about unproved mail
	Offline      bool   // for VerifyDKIM: look up no keys; the mails that need one cannot be proved

	keys *knownKeys // for VerifyDKIM: the lookups of a scan; nil looks up each time
}

// The values of [trust] require, which define the proof of a sender.
const (
	RequireDMARC     = "dmarc"     // the domain in From vouches for the mail
	RequireChallenge = "challenge" // an answer shows the token of a challenge, see Tokens
	RequireFrom      = "from"      // no proof: the operator's address in From is believed
)

// Challenges reports whether the operator may be asked about mail whose sender is not proved.
func (f *Filter) Challenges() bool {
	return f.Require == RequireChallenge || f.Require == RequireDMARC && f.Fallback
}

// The values of [trust] verify: who verifies under RequireDMARC.
const (
	VerifyServer = "server" // the mail server, whose Authentication-Results are believed (RFC 8601)
	VerifyDKIM   = "dkim"   // this program, by the DKIM signatures of the mail (RFC 6376)
)

// Gate judges the header of a mail and its size in bytes. It leaves out the proof of the
// sender, which needs more, see prove.
//
// mine reports whether the mail is for this agent, see isForThisAgent. gate is "" if the header and the
// size pass. Otherwise it is the gate that rejects the mail, and reason is the evidence in one
// line.
func (f *Filter) Gate(h message.Header, size int64) (mine bool, gate, reason string) {
	if !f.isForThisAgent(h) {
		return false, "", ""
	}
	if h.FromFields != 1 || len(h.Froms) != 1 {
		return true, GateFrom, fmt.Sprintf("%d From fields with %d addresses: %s", h.FromFields, len(h.Froms), plain.OneLine(strings.Join(h.Froms, ", "), 200))
	}
	switch {
	case f.Own != "" && h.From == message.NormalAddress(f.Own):
		return true, GateSelf, "From is our own address " + h.From
	case strings.EqualFold(h.Agent, f.Handle):
		return true, GateSelf, "X-AgentStateLoop: " + h.Agent
	case f.ids().Ours(h.MessageID):
		return true, GateSelf, "Message-ID is ours: " + h.MessageID
	}
	if gate, reason := automaticMail(h); gate != "" {
		return true, gate, reason
	}
	if f.MaxSize > 0 && size > f.MaxSize {
		return true, GateSize, fmt.Sprintf("%d bytes, the limit is %d", size, f.MaxSize)
	}
	if f.Require != RequireDMARC && f.Require != RequireChallenge && f.Require != RequireFrom {
		return true, GateTrust, fmt.Sprintf("unknown sender authentication %q", f.Require)
	}
	return true, "", ""
}

// automaticMail finds mail that was not written by hand: automatic replies, reports and list mail.
// Answering it makes loops (RFC 3834 section 2).
func automaticMail(h message.Header) (gate, reason string) {
	switch {
	case h.Automatic:
		return GateAuto, "Auto-Submitted: " + h.AutoSubmitted
	case h.AutoReply != "":
		return GateAuto, h.AutoReply
	case h.InReplyTo != "" && message.IsAbsence(h.Subject):
		return GateAuto, "Subject: " + plain.OneLine(h.Subject, 100)
	case h.MediaType == "multipart/report":
		return GateBounce, "Content-Type: multipart/report"
	case h.ReturnPath == "<>":
		return GateBounce, "Return-Path: <>"
	}
	switch h.PrecedenceWord {
	case "bulk", "list", "junk":
		return GateList, "Precedence: " + h.Precedence
	case "auto_reply", "auto-reply":
		return GateAuto, "Precedence: " + h.Precedence
	}
	if h.ListID != "" {
		return GateList, h.ListID
	}
	return "", ""
}

func (f *Filter) FromOperator(h message.Header) bool { return slices.ContainsFunc(h.Froms, f.Operator) }

// Operator reports whether address is one of the operator's.
func (f *Filter) Operator(address string) bool {
	address = message.NormalAddress(address)
	return slices.ContainsFunc(f.Operators, func(op string) bool { return op != "" && message.NormalAddress(op) == address })
}

// isForThisAgent reports whether a mail is for this agent. One of its From addresses must be exactly an
// operator's. Then its subject decides: it calls this agent, or it calls no agent and the mail
// answers one of ours. A subject that calls only other agents is for them, unless it is the
// subject of a thread in which we have written.
//
// Only IDs with a valid MAC count. Several agents may read one mailbox, and anybody can add an
// ID in our form to a mail for another agent.
func (f *Filter) isForThisAgent(h message.Header) bool { return f.Addressee(h).Mine }

// Addressee tells whether a mail is for this agent, which field decides that, and how the field
// was read.
type Addressee struct {
	Mine  bool   `json:"mine"`
	Field string `json:"field"` // From, Subject, In-Reply-To or References
	Read  string `json:"read"`  // the addresses, the callsigns or the Message-ID; "" for a subject without a callsign
}

// Addressee decides whether a mail is for this agent, as isForThisAgent describes it.
func (f *Filter) Addressee(h message.Header) Addressee {
	if !f.FromOperator(h) {
		return Addressee{false, "From", strings.Join(h.Froms, ", ")}
	}
	if f.calledIn(h.Subject) {
		return Addressee{true, "Subject", "@" + f.Handle}
	}
	ours, called := f.ids().Ours, Callsigns(h.Subject)
	if len(called) > 0 {
		ours = func(id string) bool { return f.ids().OfThread(id, h.Subject) }
	}
	for i, id := range h.Answered() {
		switch {
		case !ours(id):
		case i == 0:
			return Addressee{true, "In-Reply-To", id}
		default:
			return Addressee{true, "References", id}
		}
	}
	for i := range called {
		called[i] = "@" + called[i]
	}
	return Addressee{false, "Subject", strings.Join(called, ", ")}
}

// Uncalled reports whether the operator wrote a mail to this agent's address by hand, and its
// subject calls no agent. raw is its header, and h the same, parsed.
func (f *Filter) Uncalled(raw []byte, h message.Header) bool {
	if !f.FromOperator(h) || len(Callsigns(h.Subject)) > 0 {
		return false
	}
	if gate, _ := automaticMail(h); gate != "" || f.ids().Ours(h.MessageID) || strings.EqualFold(h.Agent, f.Handle) {
		return false
	}
	for _, field := range message.Fields(raw) {
		if (field.Name == "to" || field.Name == "cc") && f.isOwn(field.Value) {
			return true
		}
	}
	return false
}

// AnsweredIn returns the Message-IDs of the mails that we answered according to the References of
// h, whose sender must be trusted.
func (f *Filter) AnsweredIn(h message.Header) []string { return f.ids().AnsweredIn(h) }

// CallsOthers reports whether subject calls an agent besides this one.
func (f *Filter) CallsOthers(subject string) bool {
	return slices.ContainsFunc(Callsigns(subject), func(called string) bool { return called != strings.ToLower(f.Handle) })
}

// IDs distinguishes the Message-IDs of this agent from others.
func (f *Filter) ids() message.IDs {
	return message.IDs{Handle: f.Handle, Address: f.Own, IDKey: f.IDKey}
}

// calledIn reports whether subject calls this agent.
func (f *Filter) calledIn(subject string) bool {
	return f.Handle != "" && slices.Contains(Callsigns(subject), strings.ToLower(f.Handle))
}

// Callsigns returns the handles that a subject calls, in lower case. A callsign is a whole
// word, in any case: "x@goulard3120" and mail addresses do not call an agent. In scripts
// without blanks between words, any letter ends a callsign.
func Callsigns(subject string) []string {
	var called []string
	s := strings.ReplaceAll(strings.ToLower(subject), "\uff20", "@") // full width
	for {
		i := strings.IndexByte(s, '@')
		if i < 0 {
			return called
		}
		before, _ := utf8.DecodeLastRuneInString(s[:i])
		rest := s[i+1:]
		end := strings.IndexFunc(rest, func(r rune) bool { return !state.HandleRune(r) })
		if end < 0 {
			end = len(rest)
		}
		after, _ := utf8.DecodeRuneInString(rest[end:])
		if !joinsWord(before) && !joinsWord(after) {
			// "@goulard3120-- please": a dash at the end is not part of the handle.
			for _, handle := range []string{rest[:end], strings.TrimRight(rest[:end], "-")} {
				if state.ValidHandle(handle) && !slices.Contains(called, handle) {
					called = append(called, handle)
				}
			}
		}
		// Keep what precedes the next @, because it is checked again.
		s = s[i+1:]
	}
}

func wordRune(r rune) bool {
	return r == '_' || r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

// joinsWord reports whether a character next to a callsign makes it part of a longer word.
func joinsWord(r rune) bool { return wordRune(r) && !unicode.In(r, plain.Spaceless...) }

// MayAnswer reports whether a mail refers to a Message-ID in the form of ours, for an effect of
// that kind. It does not check the MAC.
func (f *Filter) MayAnswer(h message.Header, kind string) bool {
	return slices.ContainsFunc(h.Answered(), func(id string) bool {
		return f.ids().HasForm(id) && strings.HasPrefix(message.Lower(id), "<"+kind+".")
	})
}

// Answers returns the ID of the effect of that kind that a mail answers, or "". The MAC in its
// Message-ID proves that the effect's mail is ours. In-Reply-To takes precedence over
// References, and newer references over older ones. A mail that forwards ours is not an answer.
func (f *Filter) Answers(h message.Header, kind string) (effect string) {
	if message.Forwarded(h.Subject) {
		return ""
	}
	for _, id := range h.Answered() {
		if effect, ok := f.ids().Effect(id); ok && strings.HasPrefix(effect, kind+".") {
			return effect
		}
	}
	return ""
}

// evidence returns a reason with the field that supports it, as one line.
func evidence(reason, field string) string {
	return reason + ": " + plain.OneLine(field, 400)
}

// Finding splits the reason of a gate into the finding, such as "dmarc=fail", and the evidence
// for it, such as the field that shows it, or "".
func Finding(gate, reason string) (finding, evidence string) {
	if gate != GateTrust {
		return reason, ""
	}
	finding, evidence, _ = strings.Cut(reason, ": ")
	return finding, evidence
}

// OurEffect returns the effect, in lower case, whose mail has this Message-ID. ours is false unless
// we have sent it.
func (f *Filter) OurEffect(msgid string) (effect string, ours bool) { return f.ids().Effect(msgid) }
