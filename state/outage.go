package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// blockerAfter is how many cycles in a row a credential fails before the
// operator is told (DESIGN 10).
const blockerAfter = 3

// CredentialFailed reports that one named secret was refused.
type CredentialFailed struct{ Name, Reason string }

// apply counts a refusal, once in a cycle: whatever the cycle tries
// beside that (rounds, mails to several people) is the same failure.
func (e CredentialFailed) apply(m *machine) {
	c, known := m.Credentials[e.Name]
	if !known {
		c.Since = m.now
		m.line(Line{Kind: LineCredential, From: e.Name, What: credentialFails, Reason: e.Reason})
	}
	if !c.Refused {
		c.Failures++
	}
	c.Refused = true
	c.Reason = e.Reason
	m.setCredential(e.Name, c)
}

// Redacted implements [Redactable].
func (e CredentialFailed) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

// What a credential line tells.
const (
	credentialFails = "failed"
	credentialWorks = "recovered"
)

func (m *machine) setCredential(name string, c Credential) {
	if m.Credentials == nil {
		m.Credentials = map[string]Credential{}
	}
	m.Credentials[name] = c
}

// CredentialWorked reports that one named secret was accepted. Reading: it was
// proved by reading, which proves nothing about sending.
type CredentialWorked struct {
	Name    string
	Reading bool
}

// apply ends an outage. A mesh that lets us read and still refuses
// what we send has ended nothing: else it would begin and end with each cycle.
func (e CredentialWorked) apply(m *machine) {
	refused := func(row Effect) bool { return row.Refused && row.Channel.credential() == e.Name }
	if e.Reading && slices.ContainsFunc(m.Outbox, refused) {
		return
	}
	m.endOutage(e.Name, "works again")
}

// endOutage forgets an outage and tells those who know of it. Who has not been
// told yet need not be.
func (m *machine) endOutage(name, how string) {
	c, known := m.Credentials[name]
	if !known {
		return
	}
	delete(m.Credentials, name)
	m.line(Line{Kind: LineCredential, From: name, What: credentialWorks})
	text := fmt.Sprintf("Credential %s of @%s %s. It was refused since %s.", name, m.Agent, how, utc(c.Since))
	if m.mayHaveArrived(c.Keymaster) && m.hasKeymaster() {
		m.queue(Effect{Kind: Notice, Channel: ByMesh, To: m.policy.Keymaster, Text: text, Credential: name})
	}
	if m.mayHaveArrived(c.Operator) {
		m.tellOperator(Effect{Text: text, Thread: m.subject("credential " + name + " " + how), Credential: name})
	}
}

// mayHaveArrived says whether a telling may have arrived. One that cannot have is
// withdrawn.
func (m *machine) mayHaveArrived(t Telling) bool {
	i, waits := m.row(t.ID)
	if !waits {
		return t.Sent
	}
	if m.Outbox[i].neverSent() {
		m.endEffect(i, withdrawn, "there is nothing to tell any more")
		return false
	}
	return true
}

// withdrawn ends a row that is not to be sent any more.
const withdrawn = "withdrawn"

// neverSent says whether no copy of the effect can have arrived.
func (e Effect) neverSent() bool { return e.Copies == 0 && e.Attempts == 0 }

// beginCycle is the begin of a poll: what was refused is tried again. What is
// not configured any more cannot be.
func (m *machine) beginCycle() {
	for _, name := range slices.Sorted(maps.Keys(m.Credentials)) {
		if !m.uses(name) {
			m.endOutage(name, "is not used any more")
			continue
		}
		c := m.Credentials[name]
		c.Refused = false
		m.Credentials[name] = c
	}
}

// uses says whether the configuration has a place for a credential.
func (m *machine) uses(name string) bool {
	switch {
	case name == CredentialIMAP, name == CredentialSMTP:
		return m.policy.HasMail
	case name == CredentialMesh:
		return m.policy.HasMesh
	case strings.HasPrefix(name, "agent:"):
		return m.policy.Turns && name == cmp.Or(m.policy.Login, name)
	}
	return true
}

// startsCycle says whether a poll's first look is among events.
func startsCycle(events []Event) bool {
	return slices.ContainsFunc(events, func(e Event) bool {
		polled, ok := e.(Polled)
		return ok && !polled.Again
	})
}

// reportOutages makes what is to be told of credentials that fail: to the
// keymaster at once, to the operator at the third cycle, each once an outage.
func (m *machine) reportOutages() {
	for _, name := range slices.Sorted(maps.Keys(m.Credentials)) {
		c := m.Credentials[name]
		if c.Keymaster.ID == "" {
			c.Keymaster.ID = m.alarm(name, c)
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

// alarm tells the keymaster the credential's name, and nothing that a server
// said: it could hold a secret. Each costs him a turn, so that a credential that
// comes and goes makes no more of them than mailsAnHour.
func (m *machine) alarm(name string, c Credential) (id string) {
	if !m.hasKeymaster() || len(m.Alarms) >= mailsAnHour {
		return ""
	}
	m.Alarms = append(m.Alarms, m.now)
	return m.queue(Effect{
		Kind: Alarm, Channel: ByMesh, To: m.policy.Keymaster, Credential: name,
		Text: fmt.Sprintf("Credential %s of @%s is refused since %s. Please rotate it. I try it again at each poll, and tell you when it works.",
			name, m.Agent, utc(c.Since)),
	})
}

// blocker makes the credential blocker.
func (m *machine) blocker(name string, c Credential) (id string) {
	return m.tellOperator(Effect{
		Thread: m.subject("credential blocker: " + name), Credential: name,
		Text: fmt.Sprintf("Credential blocker: %s of @%s was refused in %d polls in a row, since %s. %s "+
			"I go on, try it again at each poll, and tell you when it works. On the agent's machine `agentstateloop status` tells more.",
			name, m.Agent, c.Failures, utc(c.Since), consequence(name)),
	})
}

// consequence says what an outage means for the operator.
func consequence(name string) string {
	switch name {
	case CredentialIMAP:
		return "Until it works I cannot read my mail; it waits on the server and none is lost."
	case CredentialSMTP:
		return "Until it works I can send no mail; my answers wait for up to five days."
	case CredentialMesh:
		return "Until it works I hear nothing from other agents, nor they from me."
	}
	return "Until it works I answer nothing; messages wait, and none is lost."
}

// subject begins a thread of its own about a fault.
func (m *machine) subject(what string) Thread { return Thread{Subject: "@" + m.Agent + ": " + what} }

// utc tells a time to a person who may be anywhere.
func utc(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }

// renotify notes that what told of an outage goes on as the effect id, or that it
// is to be told anew where id is "".
func (m *machine) renotify(old, id string) {
	m.tellings(old, func(t *Telling) { t.ID = id })
}

// tellings calls change for the telling that the effect id is, if it is one.
func (m *machine) tellings(id string, change func(*Telling)) {
	for name, c := range m.Credentials {
		switch {
		case id == "":
		case c.Keymaster.ID == id:
			change(&c.Keymaster)
		case c.Operator.ID == id:
			change(&c.Operator)
		}
		m.Credentials[name] = c
	}
}
