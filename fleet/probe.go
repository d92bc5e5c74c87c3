package fleet

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
)

// AssetSeen is what an agent can see of one stream.
type AssetSeen struct {
	Stream string
	Holds  string // what it is for
	State  AssetState
}

// AssetState is what has come of asking a stream.
type AssetState string

// What an agent may see of a stream.
const (
	AssetThere   AssetState = "there"
	AssetMissing AssetState = "missing" // nobody answers for it: it was not made, or has no leader
	AssetStuck   AssetState = "stuck"   // it can be read, and takes nothing: it has no leader
	AssetSilent  AssetState = "silent"  // no answer came in time
	AssetUnseen  AssetState = "unseen"  // the agent has no right to ask
)

// nobody is a token where a subject has a handle, a host or a sum. None is like it.
const nobody = "_"

// probe is something that an agent tries so as to see whether it may.
type probe struct {
	right   string // of Rights, which it tries; "" for what must be refused
	subject string
	body    []byte
	stream  string // that answers, if it is there

	signature string // of the body; "" for most
}

// probes returns one probe for each right to publish, save for two. HALT is tried with the
// value that it has. What turns have come to is not tried: who watches would hear it.
//
// A stream refuses what expects another stream, before it stores or counts anything.
func probes(handle string, halt probe) []probe {
	get := "$JS.API.DIRECT.GET."
	consumer := BoxStream + "." + handle
	registry, _ := json.Marshal(map[string]any{"seq": 1, "next_by_subj": whoSubject(handle), "batch": 1}) // strings and numbers
	all := []probe{
		{right: wakeupSubject("*"), subject: wakeupSubject(nobody)},
		{right: boxSubject("*", handle), subject: boxSubject(nobody, handle), stream: BoxStream},
		{right: "asl.blob.*." + handle + ".>", subject: blobSubject(nobody, handle, nobody, 0), stream: BlobStream},
		{right: "asl.blob." + handle + ".>", subject: blobSubject(handle, nobody, nobody, 0), stream: BlobStream},
		{right: whoSubject(handle), subject: whoSubject(handle), stream: WhoStream},
		{right: lookSubject(handle, "*"), subject: lookSubject(handle, nobody), stream: WhoStream},
		{right: get + WhoStream, subject: get + WhoStream, body: registry, stream: WhoStream},
		{right: get + WhoStream + ".>", subject: get + WhoStream + "." + whoSubject(handle), stream: WhoStream},
		{right: get + MeshStream + ".>", subject: haltGet, stream: MeshStream},
		{right: get + BlobStream + ".asl.blob." + handle + ".>", subject: get + BlobStream + "." + blobSubject(handle, nobody, nobody, 0), stream: BlobStream},
		{right: "$JS.API.CONSUMER.MSG.NEXT." + consumer, subject: "$JS.API.CONSUMER.MSG.NEXT." + consumer, body: []byte("{")}, // no JSON: an error comes, and no message
		{right: infoSubject(handle), subject: infoSubject(handle)},
		{right: "$JS.ACK." + consumer + ".>", subject: "$JS.ACK." + consumer + "." + nobody},
	}
	if halt.body != nil {
		all = append(all, halt)
	}
	return append(all,
		probe{subject: boxSubject(handle, nobody)},                         // a message in another's name
		probe{subject: "$JS.API.STREAM.INFO." + BoxStream},                 // who writes to whom
		probe{subject: get + BoxStream + "." + boxSubject(nobody, nobody)}, // others' messages
	)
}

// forbiddenEar is a subject to which an agent may not listen: the answers to another.
func forbiddenEar() string { return inboxPrefix(nobody) + ".>" }

// trial is a number of probes that are made at once, on a connection of its own.
type trial struct {
	link    *link
	inbox   string
	answers chan *nats.Msg
	refused chan string
	denied  []string // the errors of rights that came
}

// examine sees what the engine shows to us and lets us do. It ends the connection.
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
		seen.Assets = append(seen.Assets, AssetSeen{a.Stream.Name, a.Holds, t.stateOf(a.Stream.Name, tried, got)})
	}
	info := slices.IndexFunc(tried, func(p probe) bool { return p.subject == infoSubject(c.Handle) })
	seen.Box.State = AssetUnseen
	if !t.deaf() && !t.wasDenied("Publish", infoSubject(c.Handle)) {
		seen.Box = mailboxSeen(got[info], c.Handle)
	}
}

func (c *Conn) newTrial(l *link) (*trial, error) {
	// More errors than there are probes do not come.
	t := &trial{link: l, inbox: l.prefix, answers: make(chan *nats.Msg, queued), refused: make(chan string, queued)}
	l.mu.Lock()
	l.refused = t.refused
	l.mu.Unlock()
	if _, err := l.nc.ChanSubscribe(t.inbox+"*", t.answers); err != nil {
		return nil, err
	}
	for _, subject := range []string{wakeupSubject(c.Handle), haltSubject, forbiddenEar()} {
		// What comes there by chance is not read.
		if _, err := l.nc.ChanSubscribe(subject, make(chan *nats.Msg, queued)); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// try makes probes, and returns their answers, nil for what was refused or not answered.
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
			if a, strange := answerOf(m); err == nil && strange == nil && n >= 0 && n < len(got) {
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

// open reports whether a probe was neither answered nor refused. Without the right to
// hear answers none comes.
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

// finish ends the connection. All errors that came before it are known then.
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

// wasDenied reports whether the server refused to let us publish to a subject, or
// subscribe to it.
func (t *trial) wasDenied(verb, subject string) bool {
	return slices.ContainsFunc(t.denied, func(text string) bool {
		return strings.Contains(text, verb+" to "+strconv.Quote(subject))
	})
}

func (t *trial) deaf() bool { return t.wasDenied("Subscription", t.inbox+"*") }

// judgeRights says which rights are missing, and which are too many.
func (t *trial) judgeRights(handle string, probes []probe, got []*answer, seen *Examination) {
	rights := Rights(handle).Subscribe
	for n, ear := range []string{wakeupSubject(handle), haltSubject, t.inbox + "*"} {
		if t.wasDenied("Subscription", ear) {
			seen.Lacks = append(seen.Lacks, "subscribe to "+rights[n])
		}
	}
	seen.Tried = len(rights)
	if !t.wasDenied("Subscription", forbiddenEar()) {
		seen.Excess = append(seen.Excess, "subscribe to "+forbiddenEar())
	}
	for n, p := range probes {
		denied := t.wasDenied("Publish", p.subject)
		switch {
		case p.right == "" && got[n] != nil:
			seen.Excess = append(seen.Excess, "publish to "+p.subject)
		case p.right == "":
		case denied:
			seen.Lacks = append(seen.Lacks, "publish to "+p.right)
			seen.Tried++
		default:
			seen.Tried++
		}
	}
}

// stateOf says what the probes have shown of a stream.
func (t *trial) stateOf(stream string, probes []probe, got []*answer) AssetState {
	there, none, silent := 0, 0, 0
	for n, p := range probes {
		switch {
		case p.stream != stream || t.deaf() || t.wasDenied("Publish", p.subject):
		case got[n] == nil:
			silent++
		case got[n].status == 503:
			none++
		default:
			there++
		}
	}
	switch {
	case there > 0 && none+silent > 0:
		return AssetStuck
	case there > 0:
		return AssetThere
	case silent > 0:
		return AssetSilent
	case none > 0:
		return AssetMissing
	}
	return AssetUnseen
}

// haltProbe returns a probe that publishes HALT as it stands, so that those who hear it learn
// nothing new, or one without a body if it is not known.
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
