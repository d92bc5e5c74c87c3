package state

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Faults holds the credentials and the backends that cannot be used.
type Faults struct {
	Credentials map[string]Credential `json:"credentials,omitempty"`
	Outages     map[string]Outage     `json:"outages,omitempty"` // of backends, by name
}

func (f Faults) clone() Faults {
	f.Credentials, f.Outages = maps.Clone(f.Credentials), maps.Clone(f.Outages)
	return f
}

func (f *Faults) clampTimes(c clamp) {
	for name, credential := range f.Credentials {
		c.past(&credential.Since)
		f.Credentials[name] = credential
	}
	for name, o := range f.Outages {
		c.past(&o.Since)
		c.deadline(&o.Until, min(o.Wait, maxOutage))
		f.Outages[name] = o
	}
}

// The names of the credentials of sources and channels. The credential of the agent's own login is
// "agent:" and the name of its runner.
const (
	CredentialIMAP = "imap" // reads mail
	CredentialSMTP = "smtp" // sends mail
	CredentialMesh = "mesh" // reads and sends messages of the mesh
)

// Credential is the outage of one named credential: "imap", "smtp", "mesh", "agent:claude"
// (docs/design.md, "Credentials"). A row exists only while the credential fails.
type Credential struct {
	Failures int       `json:"failures"` // cycles in a row
	Since    time.Time `json:"since"`
	Reason   string    `json:"reason,omitempty"`

	// Denied is set in the cycle that was denied. Until the next cycle the credential is not tried
	// again, and further failures do not count.
	Denied bool `json:"refused,omitempty"`

	Keymaster Notification `json:"keymaster,omitzero"` // told at the first failure
	Operator  Notification `json:"operator,omitzero"`  // told at the third failure, by the credential blocker

	// Blocks is set from the third failure on. ToldByHook is set once a hook has taken the event
	// about it.
	Blocks     bool `json:"blocker,omitempty"`
	ToldByHook bool `json:"told_by_hook,omitempty"`
}

// Notification is the progress of the notice of an outage to one recipient.
type Notification struct {
	ID   string `json:"id,omitempty"`   // of the effect that carries the notice; "" without a notice
	Sent bool   `json:"sent,omitempty"` // its server has taken it
}

// Fails reports whether a credential was denied when it was last tried.
func (f Faults) Fails(name string) bool {
	_, fails := f.Credentials[name]
	return fails
}

// Denied reports whether a credential was denied in the current cycle. Work that needs it waits for
// the next cycle.
func (f Faults) Denied(name string) bool { return f.Credentials[name].Denied }

// credential returns the name of the credential that a channel needs.
func (c Channel) credential() string {
	if c == ByMesh {
		return CredentialMesh
	}
	return CredentialSMTP
}

// CredentialError reports that a credential was denied or cannot be read. Packages mail, mesh and
// turn return it. It becomes an event for one named credential, never a reason to halt. Its text
// must not contain any part of the secret.
type CredentialError struct {
	Name string // "imap", "smtp", "mesh", "agent:claude"
	Err  error
}

func (e *CredentialError) Error() string { return fmt.Sprintf("credential %s: %v", e.Name, e.Err) }

// Unwrap returns the cause.
func (e *CredentialError) Unwrap() error { return e.Err }

// CredentialFailure returns the CredentialError in err, and whether err has one.
func CredentialFailure(err error) (*CredentialError, bool) {
	return errors.AsType[*CredentialError](err)
}

// blockerAfter is how many cycles in a row a credential fails before the operator is told
// (docs/design.md, "Credentials").
const blockerAfter = 3

// CredentialFailed reports that one named credential was denied.
type CredentialFailed struct{ Name, Reason string }

// apply counts the failure once per cycle. Other tries of the cycle (rounds, mails to several
// people) are the same failure.
func (e CredentialFailed) apply(m *machine) {
	c, known := m.Credentials[e.Name]
	if !known {
		c.Since = m.now
		m.line(Line{Kind: LineCredential, From: e.Name, What: WordFailed, Reason: e.Reason})
	}
	if !c.Denied {
		c.Failures++
	}
	c.Denied = true
	c.Reason = e.Reason
	m.setCredential(e.Name, c)
}

// Redacted implements [Redactable].
func (e CredentialFailed) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

func (f *Faults) setCredential(name string, c Credential) {
	if f.Credentials == nil {
		f.Credentials = map[string]Credential{}
	}
	f.Credentials[name] = c
}

// CredentialWorked reports that one named credential was accepted. Reading is set if it was used
// for reading, which proves nothing about sending.
type CredentialWorked struct {
	Name    string
	Reading bool
}

// apply ends an outage. A mesh that lets us read but still denies our messages has not ended it.
// Otherwise an outage would begin and end with each cycle.
func (e CredentialWorked) apply(m *machine) {
	refused := func(row Effect) bool { return row.Denied && row.Channel.credential() == e.Name }
	if e.Reading && slices.ContainsFunc(m.Outbox, refused) {
		return
	}
	m.endOutage(e.Name, "works again")
}

// endOutage forgets an outage and tells everybody who was told about it.
func (m *machine) endOutage(name, how string) {
	c, known := m.Credentials[name]
	if !known {
		return
	}
	delete(m.Credentials, name)
	m.line(Line{Kind: LineCredential, From: name, What: WordRecovered})
	if c.Blocks {
		m.line(Line{Kind: LineCredential, From: name, What: WordBlockerOver, Reason: "it " + how})
	}
	text := fmt.Sprintf("The login %s of @%s %s. It had been refused since %s.", name, m.Agent, how, utc(c.Since))
	if m.mayHaveArrived(c.Keymaster) && m.hasKeymaster() {
		m.queue(Effect{Kind: Notice, Channel: ByMesh, To: m.policy.Keymaster, Text: text, Credential: name})
	}
	if m.mayHaveArrived(c.Operator) {
		m.tellOperator(Effect{Text: text, Thread: m.subject("login " + name + " " + how), Credential: name})
	}
}

// mayHaveArrived reports whether a notice may have arrived. It withdraws a notice that cannot have
// arrived.
func (m *machine) mayHaveArrived(t Notification) bool {
	i, waits := m.effectIndex(t.ID)
	if !waits {
		return t.Sent
	}
	if m.Outbox[i].neverSent() {
		m.endEffect(i, WordWithdrawn, "the outage has ended")
		return false
	}
	return true
}

// neverSent reports whether no copy of the effect can have arrived.
func (e Effect) neverSent() bool { return e.Copies == 0 && e.Attempts == 0 }

// beginCycle lets a new poll try denied credentials again. It ends the outages of credentials that
// are not configured any more.
func (m *machine) beginCycle() {
	if !m.newCycle {
		return
	}
	m.forgetBackends()
	for _, name := range slices.Sorted(maps.Keys(m.Credentials)) {
		if !m.uses(name) {
			m.endOutage(name, "is not used any more")
			continue
		}
		c := m.Credentials[name]
		c.Denied = false
		m.Credentials[name] = c
	}
}

// uses reports whether the configuration uses a credential.
func (m *machine) uses(name string) bool {
	switch {
	case name == CredentialIMAP, name == CredentialSMTP:
		return m.policy.HasMail
	case name == CredentialMesh:
		return m.policy.HasMesh
	case strings.HasPrefix(name, "agent:"):
		return m.policy.Turns && (name == cmp.Or(m.policy.Login, name) || slices.Contains(m.policy.Backends, name))
	}
	return true
}

// startsCycle reports whether events end the first observation of a poll.
func startsCycle(events []Event) bool {
	return slices.ContainsFunc(events, func(e Event) bool {
		polled, ok := e.(Polled)
		return ok && !polled.Again
	})
}

// reportOutages makes the notices about failing credentials: one to the keymaster at once, and one
// to the operator at the third cycle. Each is made once per outage.
func (m *machine) reportOutages() {
	for _, name := range slices.Sorted(maps.Keys(m.Credentials)) {
		c := m.Credentials[name]
		if c.Keymaster.ID == "" {
			c.Keymaster.ID = m.alarm(name, c)
		}
		if !c.Blocks && c.Failures >= blockerAfter {
			c.Blocks = true
			m.line(Line{Kind: LineCredential, From: name, What: WordBlocker, Reason: c.Reason})
		}
		if c.Operator.ID == "" && c.Failures >= blockerAfter {
			c.Operator.ID = m.blocker(name, c)
		}
		m.Credentials[name] = c
	}
}

func (m *machine) hasKeymaster() bool {
	k := m.policy.Keymaster
	return m.policy.HasMesh && k != "" && k != m.Agent
}

// alarm tells the keymaster. It names the credential but does not repeat the text of a server,
// which could contain a secret. Each alarm costs the keymaster a turn, so a credential that comes
// and goes causes at most mailsAnHour of them.
func (m *machine) alarm(name string, c Credential) (id string) {
	if !m.hasKeymaster() || len(m.Alarms) >= mailsAnHour {
		return ""
	}
	m.Alarms = append(m.Alarms, m.now)
	return m.queue(Effect{
		Kind: Alarm, Channel: ByMesh, To: m.policy.Keymaster, Credential: name,
		Text: fmt.Sprintf("The login %s of @%s has been refused since %s. Please rotate its password or token. I will try it again at every poll, and tell you when it works.",
			name, m.Agent, utc(c.Since)),
	})
}

// blocker makes the credential blocker, the notice to the operator.
func (m *machine) blocker(name string, c Credential) (id string) {
	return m.tellOperator(Effect{
		Thread: m.subject("login refused: " + name), Credential: name,
		Text: fmt.Sprintf("The login %s of @%s was refused in %d polls in a row, since %s. %s "+
			"I will try it again at every poll, and tell you when it works. On the agent's machine, `agentstateloop doctor` shows the reason and the fix.",
			name, m.Agent, c.Failures, utc(c.Since), consequence(name)),
	})
}

// consequence returns in words how an outage affects the operator.
func consequence(name string) string {
	switch name {
	case CredentialIMAP:
		return "Until it works I cannot read my mail; it waits on the server and none is lost."
	case CredentialSMTP:
		return "Until it works I cannot send mail; my answers wait for up to five days."
	case CredentialMesh:
		return "Until it works I cannot exchange messages with other agents."
	}
	return "Until it works I cannot answer; messages wait, and none is lost."
}

// subject returns a new thread about a fault.
func (m *machine) subject(what string) Thread { return Thread{Subject: "@" + m.Agent + ": " + what} }

// utc formats a time for a person in any zone.
func utc(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }

// renotify records that the effect id now carries the notice of the effect old. If id is "", the
// notice must be made again.
func (f *Faults) renotify(old, id string) {
	f.changeNotification(old, func(t *Notification) { t.ID = id })
}

// isNotification reports whether the effect with this id carries the notice of an outage.
func (f *Faults) isNotification(id string) (is bool) {
	for _, c := range f.Credentials {
		is = is || c.Keymaster.ID == id || c.Operator.ID == id
	}
	return is
}

// changeNotification calls change for the notification that the effect with this id carries, if
// any.
func (f *Faults) changeNotification(id string, change func(*Notification)) {
	for name, c := range f.Credentials {
		switch {
		case id == "":
		case c.Keymaster.ID == id:
			change(&c.Keymaster)
		case c.Operator.ID == id:
			change(&c.Operator)
		}
		f.Credentials[name] = c
	}
}

// applyCredentialLine starts and ends outages, so that a notice is not made twice. The count of
// failures starts again.
func (f *Faults) applyCredentialLine(l Line) {
	switch l.What {
	case WordRecovered:
		delete(f.Credentials, l.From)
		return
	case WordBlockerOver:
		return
	case WordBlocker:
		if c, fails := f.Credentials[l.From]; fails {
			c.Blocks = true
			f.setCredential(l.From, c)
		}
		return
	}
	if !f.Fails(l.From) {
		f.setCredential(l.From, Credential{Failures: 1, Since: l.At, Reason: l.Reason})
	}
}

// applyNotification records which notice of an outage an effect carries.
func (f *Faults) applyNotification(e Effect) {
	c, fails := f.Credentials[e.Credential]
	switch {
	case !fails:
		return
	case e.Kind == Alarm:
		c.Keymaster = Notification{ID: e.ID}
	case e.canReroute():
		c.Operator = Notification{ID: e.ID}
	}
	f.Credentials[e.Credential] = c
}
