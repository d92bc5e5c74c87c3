package fleet

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// Examination describes the servers from an agent's point of view. The settings of the streams
// are visible only to the administrator, because they would show who writes to whom.
type Examination struct {
	Servers []ServerSeen // in the order of the url
	Asked   string       // the server that answered the rest; "" without such a server

	Lacks   []string // the rights that the key needs but lacks
	Excess  []string // the rights that the key has but should not have
	Tried   int      // how many of the needed rights were tried
	Assets  []AssetSeen
	Mailbox MailboxSeen
	Halted  bool

	// Only an agent with [fleet] needs these. Servers that were configured before may lack them.
	FleetMissing []string // the rights that the key lacks
	FleetAssets  []AssetSeen
}

// ServerSeen is one server of the url.
type ServerSeen struct {
	Address string // host:port
	Err     error  // why it is not usable, an *Error; if nil, all fields below are known

	Name, Version, Cluster string
	MaxPayload             int64
	Trip                   time.Duration // one round trip

	link *link
}

// MinPayload is how many bytes a server must accept in one message: a chunk of a file.
const MinPayload = blobChunk + headerRoom

// Examine checks each server of the url. On one of them, it also checks the mailbox, the
// streams and the rights of this agent. It stores nothing, takes no message and wakes no agent.
// It returns an error if the key cannot be read, or if the url names no servers.
func (c *Conn) Examine(ctx context.Context) (Examination, error) {
	servers, err := Servers(c.URL)
	if err != nil {
		return Examination{}, &Error{Err: err}
	}
	pair, err := c.key(ctx)
	if err != nil {
		return Examination{}, err
	}
	seen := Examination{Servers: make([]ServerSeen, len(servers))}
	var all sync.WaitGroup
	for i, server := range servers {
		all.Go(c.Secrets.Guarded(func() { seen.Servers[i] = c.see(ctx, server, pair) }))
	}
	all.Wait()
	defer func() {
		for _, s := range seen.Servers {
			if s.link != nil {
				s.link.nc.Close()
			}
		}
	}()
	for _, s := range seen.Servers {
		if s.link != nil {
			c.examine(ctx, s.link, &seen)
			break
		}
	}
	return seen, nil
}

// see connects to one server, and leaves the connection open.
func (c *Conn) see(ctx context.Context, server *url.URL, pair nkeys.KeyPair) ServerSeen {
	seen := ServerSeen{Address: server.Host}
	l, failed := c.dial(ctx, server, pair, time.Now().Add(c.patience()))
	if failed != nil {
		seen.Err = failed
		return seen
	}
	ctx, cancel := context.WithTimeout(ctx, c.patience())
	defer cancel()
	began := time.Now()
	if err := l.nc.FlushWithContext(ctx); err != nil {
		l.nc.Close()
		seen.Err = connError(l.server, err)
		return seen
	}
	seen.Trip = time.Since(began)
	seen.Name, seen.Version, seen.Cluster = l.nc.ConnectedServerName(), l.nc.ConnectedServerVersion(), l.nc.ConnectedClusterName()
	seen.MaxPayload, seen.link = l.nc.MaxPayload(), l
	return seen
}

// MailboxSeen is the server's description of our mailbox.
type MailboxSeen struct {
	State   AssetState // the fields below are known if it is AssetThere
	Waiting int        // messages, including those that a poll was shown
	Differs []string   // the settings that differ from Mailbox: "ack_wait 30s instead of 1m0s"
	Copies  []string   // the servers that store it, the leader first; empty for a single server
	Behind  []string   // the copies that are offline or lag
	Clock   time.Time  // of the server that answered
}

// mailboxSeen reads JetStream's answer about the consumer of an agent. a is nil without an
// answer.
func mailboxSeen(a *answer, handle string) MailboxSeen {
	switch {
	case a == nil:
		return MailboxSeen{State: AssetSilent}
	case a.status == 503:
		return MailboxSeen{State: AssetMissing}
	}
	var info struct {
		Error      *apiError      `json:"error"`
		Config     map[string]any `json:"config"`
		Pending    int            `json:"num_pending"`
		AckPending int            `json:"num_ack_pending"`
		Clock      time.Time      `json:"ts"`
		Cluster    struct {
			Leader   string `json:"leader"`
			Replicas []struct {
				Name    string `json:"name"`
				Current bool   `json:"current"`
				Offline bool   `json:"offline"`
			} `json:"replicas"`
		} `json:"cluster"`
	}
	if err := json.Unmarshal(a.Data, &info); err != nil {
		return MailboxSeen{State: AssetSilent}
	}
	if e := info.Error; e != nil {
		if e.Number == numberNoConsumer || e.Number == numberNoStream {
			return MailboxSeen{State: AssetMissing}
		}
		return MailboxSeen{State: AssetSilent}
	}
	mailbox := MailboxSeen{State: AssetThere, Waiting: info.Pending + info.AckPending, Clock: info.Clock}
	for _, d := range compare(Mailbox(handle), info.Config) {
		mailbox.Differs = append(mailbox.Differs, d.String())
	}
	if info.Cluster.Leader != "" {
		mailbox.Copies = append(mailbox.Copies, info.Cluster.Leader)
	}
	for _, r := range info.Cluster.Replicas {
		mailbox.Copies = append(mailbox.Copies, r.Name)
		if r.Offline || !r.Current {
			mailbox.Behind = append(mailbox.Behind, r.Name)
		}
	}
	return mailbox
}

// AssetSeen is one stream from an agent's point of view.
type AssetSeen struct {
	Stream string
	Holds  string // its purpose
	State  AssetState
}

// AssetState is the state of a stream, as its answers show it.
type AssetState string

// The states of a stream that an agent can see.
const (
	AssetThere   AssetState = "there"
	AssetMissing AssetState = "missing" // JetStream does not answer for it: it was not made, or has no leader
	AssetStuck   AssetState = "stuck"   // it can be read, but takes no messages: it has no leader
	AssetSilent  AssetState = "silent"  // no answer in time
	AssetUnseen  AssetState = "unseen"  // the agent has no right to ask
)

// nobody replaces a handle, a host or a sum in a subject. No real one equals it.
const nobody = "_"

// probe is a request that an agent makes to see whether it may.
type probe struct {
	right   string // the right under test, from Rights; "" if the server must refuse the probe
	subject string
	body    []byte
	stream  string // the stream that answers, if it exists
	fleet   bool   // only an agent with [fleet] needs the right

	signature string // of the body; "" for most probes
}

// probes returns one probe for each right to publish, with two exceptions. HALT is tried with
// its present value. The right to publish the results of turns is not tried, because observers
// would receive the probe.
//
// A stream refuses a message that expects another stream, before it stores or counts the
// message.
func probes(handle string, halt probe) []probe {
	get := "$JS.API.DIRECT.GET."
	consumer := MailboxStream + "." + handle
	registry, _ := json.Marshal(map[string]any{"seq": 1, "next_by_subj": whoSubject(handle), "batch": 1}) // strings and numbers
	all := []probe{
		{right: wakeupSubject("*"), subject: wakeupSubject(nobody)},
		{right: mailboxSubject("*", handle), subject: mailboxSubject(nobody, handle), stream: MailboxStream},
		{right: "asl.blob.*." + handle + ".>", subject: blobPrefix(nobody, handle, nobody) + "0", stream: BlobStream},
		{right: "asl.blob." + handle + ".>", subject: blobPrefix(handle, nobody, nobody) + "0", stream: BlobStream},
		{right: whoSubject(handle), subject: whoSubject(handle), stream: WhoStream},
		{right: lookSubject(handle, "*"), subject: lookSubject(handle, nobody), stream: WhoStream},
		{right: get + WhoStream, subject: get + WhoStream, body: registry, stream: WhoStream},
		{right: get + WhoStream + ".>", subject: get + WhoStream + "." + whoSubject(handle), stream: WhoStream},
		{right: get + MeshStream + ".>", subject: haltGet, stream: MeshStream},
		{right: get + BlobStream + ".asl.blob." + handle + ".>", subject: get + BlobStream + "." + blobPrefix(handle, nobody, nobody) + "0", stream: BlobStream},
		{right: "$JS.API.CONSUMER.MSG.NEXT." + consumer, subject: "$JS.API.CONSUMER.MSG.NEXT." + consumer, body: []byte("{")}, // invalid JSON: the answer is an error, not a message
		{right: infoSubject(handle), subject: infoSubject(handle)},
		{right: "$JS.ACK." + consumer + ".>", subject: "$JS.ACK." + consumer + "." + nobody},
	}
	if halt.body != nil {
		all = append(all, halt)
	}
	block, file := "asl.hist."+handle+".", "asl.file."+handle+"."
	all = append(all,
		probe{right: headSubject(handle), subject: headSubject(handle), stream: HeadStream, fleet: true},
		probe{right: wishSubject(handle), subject: wishSubject(handle), stream: HeadStream, fleet: true},
		probe{right: block + "*", subject: block + nobody, stream: HistoryStream, fleet: true},
		probe{right: file + ">", subject: file + nobody + ".0", stream: FileStream, fleet: true},
		probe{right: directGet(HeadStream, headSubject(handle)), subject: directGet(HeadStream, headSubject(handle)), stream: HeadStream, fleet: true},
		probe{right: directGet(HeadStream, wishSubject(handle)), subject: directGet(HeadStream, wishSubject(handle)), stream: HeadStream, fleet: true},
		probe{right: directGet(HistoryStream, block+"*"), subject: directGet(HistoryStream, block+nobody), stream: HistoryStream, fleet: true},
		probe{right: directGet(FileStream, file+">"), subject: directGet(FileStream, file+nobody+".0"), stream: FileStream, fleet: true},
	)
	return append(all,
		probe{subject: mailboxSubject(handle, nobody)},                             // a message in the name of another agent
		probe{subject: "$JS.API.STREAM.INFO." + MailboxStream},                     // who writes to whom
		probe{subject: get + MailboxStream + "." + mailboxSubject(nobody, nobody)}, // messages of others
		probe{subject: directGet(HeadStream, headSubject(nobody))},                 // the state of another agent
	)
}

// forbiddenSubject returns a subject that an agent must not hear: the answers to another agent.
func forbiddenSubject() string { return inboxPrefix(nobody) + ".>" }

// trial is a set of probes that are made at once, on their own connection.
type trial struct {
	link    *link
	inbox   string
	answers chan *nats.Msg
	refused chan string
	denied  []string // the permission errors so far
}

// examine checks the streams, the mailbox and our rights. It closes the connection.
func (c *Conn) examine(ctx context.Context, l *link, seen *Examination) {
	ctx, cancel := context.WithTimeout(ctx, c.patience())
	defer cancel()
	t, err := c.newTrial(l)
	if err != nil {
		return
	}
	first := t.try(ctx, []probe{{subject: haltGet}})
	halt, halted := haltProbe(first[0])
	tried := probes(c.Handle, halt)
	got := t.try(ctx, tried)
	t.finish()
	seen.Asked, seen.Halted = l.server, halted
	t.judgeRights(c.Handle, tried, got, seen)
	for _, a := range Assets(1) {
		found := AssetSeen{a.Stream.Name, a.Holds, t.stateOf(a.Stream.Name, tried, got)}
		if a.Fleet {
			seen.FleetAssets = append(seen.FleetAssets, found)
		} else {
			seen.Assets = append(seen.Assets, found)
		}
	}
	info := slices.IndexFunc(tried, func(p probe) bool { return p.subject == infoSubject(c.Handle) })
	seen.Mailbox.State = AssetUnseen
	if !t.deaf() && !t.wasDenied("Publish", infoSubject(c.Handle)) {
		seen.Mailbox = mailboxSeen(got[info], c.Handle)
	}
}

func (c *Conn) newTrial(l *link) (*trial, error) {
	// There are never more errors than probes.
	t := &trial{link: l, inbox: l.prefix, answers: make(chan *nats.Msg, queued), refused: make(chan string, queued)}
	l.mu.Lock()
	l.refused = t.refused
	l.mu.Unlock()
	if _, err := l.nc.ChanSubscribe(t.inbox+"*", t.answers); err != nil {
		return nil, err
	}
	for _, subject := range []string{wakeupSubject(c.Handle), haltSubject, forbiddenSubject()} {
		// Messages that arrive here by chance are not read.
		if _, err := l.nc.ChanSubscribe(subject, make(chan *nats.Msg, queued)); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// try makes probes and returns their answers. The answer to a refused or unanswered probe is
// nil.
func (t *trial) try(ctx context.Context, probes []probe) []*answer {
	got := make([]*answer, len(probes))
	for n, p := range probes {
		m := &nats.Msg{Subject: p.subject, Reply: t.inbox + strconv.Itoa(n), Data: p.body}
		if !strings.HasPrefix(p.subject, "$JS.API.") {
			m.Header = nats.Header{"Nats-Expected-Stream": {nobody}}
		}
		if p.signature != "" {
			m.Header[headerSignature] = []string{p.signature}
		}
		if t.link.nc.PublishMsg(m) != nil {
			return got
		}
	}
	for t.open(probes, got) {
		select {
		case m := <-t.answers:
			n, err := strconv.Atoi(strings.TrimPrefix(m.Subject, t.inbox))
			if a, invalid := answerOf(m); err == nil && invalid == nil && n >= 0 && n < len(got) {
				got[n] = &a
			}
		case text := <-t.refused:
			t.denied = append(t.denied, text)
		case <-t.link.lost:
			return got
		case <-ctx.Done():
			return got
		}
	}
	return got
}

// open reports whether a probe still waits for an answer or a refusal. Without the right to
// hear answers it returns false.
func (t *trial) open(probes []probe, got []*answer) bool {
	if t.deaf() {
		return false
	}
	for n, p := range probes {
		if got[n] == nil && !t.wasDenied("Publish", p.subject) {
			return true
		}
	}
	return false
}

// finish closes the connection. All errors that came before the end are known then.
func (t *trial) finish() {
	t.link.nc.Close()
	<-t.link.lost
	for {
		select {
		case text := <-t.refused:
			t.denied = append(t.denied, text)
		default:
			return
		}
	}
}

// wasDenied reports whether the server refused our publication to a subject, or our
// subscription.
func (t *trial) wasDenied(verb, subject string) bool {
	return slices.ContainsFunc(t.denied, func(text string) bool {
		return strings.Contains(text, verb+" to "+strconv.Quote(subject))
	})
}

func (t *trial) deaf() bool { return t.wasDenied("Subscription", t.inbox+"*") }

// judgeRights records the missing rights and the excess rights in seen.
func (t *trial) judgeRights(handle string, probes []probe, got []*answer, seen *Examination) {
	rights := Rights(handle).Subscribe
	for n, ear := range []string{wakeupSubject(handle), haltSubject, t.inbox + "*"} {
		if t.wasDenied("Subscription", ear) {
			seen.Lacks = append(seen.Lacks, "subscribe to "+rights[n])
		}
	}
	seen.Tried = len(rights)
	if !t.wasDenied("Subscription", forbiddenSubject()) {
		seen.Excess = append(seen.Excess, "subscribe to "+forbiddenSubject())
	}
	for n, p := range probes {
		denied := t.wasDenied("Publish", p.subject)
		switch {
		case p.right == "" && got[n] != nil:
			seen.Excess = append(seen.Excess, "publish to "+p.subject)
		case p.right == "":
		case p.fleet && denied:
			seen.FleetMissing = append(seen.FleetMissing, "publish to "+p.right)
		case p.fleet:
		case denied:
			seen.Lacks = append(seen.Lacks, "publish to "+p.right)
			seen.Tried++
		default:
			seen.Tried++
		}
	}
}

// stateOf returns the state of a stream that the probes have shown.
func (t *trial) stateOf(stream string, probes []probe, got []*answer) AssetState {
	answered, absent, silent := 0, 0, 0
	for n, p := range probes {
		switch {
		case p.stream != stream || t.deaf() || t.wasDenied("Publish", p.subject):
		case got[n] == nil:
			silent++
		case got[n].status == 503:
			absent++
		default:
			answered++
		}
	}
	switch {
	case answered > 0 && absent+silent > 0:
		return AssetStuck
	case answered > 0:
		return AssetThere
	case silent > 0:
		return AssetSilent
	case absent > 0:
		return AssetMissing
	}
	return AssetUnseen
}

// haltProbe returns a probe that publishes the present value of HALT, so that its listeners
// learn no new value. The probe has no body if the value is unknown.
func haltProbe(a *answer) (p probe, halted bool) {
	p = probe{right: haltSubject, subject: haltSubject, stream: MeshStream}
	switch {
	case a == nil:
		return p, false
	case a.status == 404:
		p.body = []byte(`{"halted":false}`)
		return p, false
	case a.status != 0:
		return p, false
	}
	h := parseHalt(a.Msg)
	if h.Broken {
		return p, false
	}
	p.body, p.signature = a.Data, h.signature
	return p, h.Halted
}
