package simulator

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"mime/quotedprintable"
	"net/mail"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"agentstateloop/turn"
)

// record holds the messages that went into a world and the effects that came out of it, as
// outsiders saw them.
type record struct {
	world *World

	mu           sync.Mutex
	incoming     []*incomingMail
	meshMessages []*meshMessage
	tells        []*tellCommand
	byHand       time.Time // by the machine's clock, when a person last asked for a poll
	programs     []*program
	nudgeFiles   []string // names of the nudge files
	prompts      []prompt
	mails        map[string]*outgoing // by Message-ID
	reports      map[string]*outgoing // messages that we posted to the mesh, by id
	questions    []question           // questions that we asked peers
	conns        map[string]int       // connections, by channel
	reads        []string             // the FETCH and SEARCH commands
	validity     uint32

	added           releases // commands that added credit
	paid            []string // ids of spendings that were reported while a turn ran
	notes           notes
	sessions        map[string]string          // the speaker of each session, by id; see speaker
	lastTrouble     map[string]time.Time       // when sending last failed, by channel
	observedOutages map[string]*observedOutage // the last outage of each credential
	outer           int                        // number of the current outermost process
	underHalt       haltSnapshot
	nudgeBack       bool      // a power cut restored a nudge file: its removal is not fsynced
	lateTaken       bool      // a late command of an agent was accepted
	deniedAt        time.Time // when SMTP last denied a login
	hurt            []hurt
	broken          int  // faults that struck while the mailbox was read
	cursorHurt      bool // its records of mails that cannot be fetched were lost
	rates           []rateChange
	struck          map[string]bool // effects that a person dropped
	junk            []*junkMessage
	outside         []*outsideReport
	rulings         []*ruling
	refused         map[string]int // deliverables that SMTP refused for good, by marker
	rollbacks       []rollback
	retried         map[string]bool // effects that a person sent after a restore
}

// incomingMail is a mail in the mailbox.
type incomingMail struct {
	marker, kind string
	id           string // Message-ID
	raw          []byte
	at           time.Time
	uids         []uint32 // the current UIDs; each copy has its own
	keys         []string // the ends of all keys that it ever had
	fate         fate
	unmarked     bool     // other mails have the same text: a control, or an option
	read         bool     // a person opened it
	token        string   // the token that may release it
	said         []string // tokens with which the operator answered YES to it
	ill          *illness // the server cannot hand it out for a while; nil: it can
	passed       bool     // the cursor may have moved behind it by mistake: ours, or the server's
	omitted      *link    // the last session with an answer that left it out
	gone         bool     // a person deleted it
	lost         bool     // and it may not have been recorded before
	chances      int      // undisturbed polls since it came
	about        string   // of a bounce: the Message-ID that it names
	real         bool     // the bounce names a mail that we sent
	releases
}

// newMail records a mail that is about to arrive, with the next marker.
func (r *record) newMail(kind string, fate fate) *incomingMail {
	r.mu.Lock()
	defer r.mu.Unlock()
	marker := fmt.Sprintf("M%03d", len(r.incoming))
	l := &incomingMail{marker: marker, kind: kind, id: marker + "@example.com", fate: fate, at: r.world.clock.servers()}
	r.incoming = append(r.incoming, l)
	return l
}

func (l *incomingMail) String() string { return l.marker + " (mail " + l.kind + ")" }

// stamp returns the header fields that name the mail.
func (l *incomingMail) stamp() string {
	return "Date: " + l.at.Format(time.RFC1123Z) + "\nMessage-ID: <" + l.id + ">\n"
}

// excused reports whether the mail need not have come in: a person deleted it before, or had read
// it when the cursor passed it by mistake.
func (l *incomingMail) excused() bool { return l.lost || l.passed && l.read }

// hasKey reports whether a key is or was one of the mail.
func (l *incomingMail) hasKey(key string) bool {
	return slices.ContainsFunc(l.keys, func(end string) bool { return strings.HasSuffix(key, end) })
}

// isAmong reports whether one of the keys of the mail is in a set.
func (l *incomingMail) isAmong(keys map[string]bool) bool {
	return slices.ContainsFunc(sortedKeys(keys), l.hasKey)
}

// fate names the required end of a mail or message.
type fate int

const (
	ignored  fate = iota // it leaves no trace
	kept                 // in quarantine, no turn
	answered             // one turn, one deliverable
	obeyed               // a control: one answer, no turn
	relayed              // a mail to the operator, no turn
	consents             // an answer about another mail, no turn
	settles              // the answer to a question, no turn; without a question as answered
)

// meshMessage is a message that the mesh accepted for us.
type meshMessage struct {
	marker, kind, id, from, correlation string
	fate                                fate
	releases
}

func (p *meshMessage) String() string { return p.marker + " (message " + p.kind + ")" }

// tellCommand is a `tell` from the terminal. Its key is "" if the process died: then it is unknown
// whether the message was accepted.
type tellCommand struct {
	marker, key string
	byMail      bool // the answer is mailed
}

// prompt is the prompt of one attempt.
type prompt struct {
	turn    string
	epoch   uint64
	marker  string // of the message
	owner   string // the same, or the marker of the message that a planned turn is about
	text    string
	session string   // that it continues
	outer   int      // number of the outermost process at that time
	with    []string // the markers of earlier messages of the same sender
}

// outgoing holds the copies sent under one id.
type outgoing struct {
	id, kind string
	copies   int
	sum      [sha256.Size]byte
	to       string
	answers  string // In-Reply-To, or the correlation id
	text     string
	refs     string // References
	at       time.Time
	said     said // of a message to another agent
	backs    int  // rollbacks before the first copy
}

type question struct{ id, peer string }

func newRecord(w *World) *record {
	return &record{
		world: w, mails: map[string]*outgoing{}, reports: map[string]*outgoing{}, conns: map[string]int{}, validity: 1,
		notes: newNotes(w), sessions: map[string]string{}, refused: map[string]int{}, struck: map[string]bool{}, retried: map[string]bool{}, lastTrouble: map[string]time.Time{}, observedOutages: map[string]*observedOutage{},
	}
}

// prompted records an attempt. It reports whether it is the first for its message.
func (r *record) prompted(at turn.Attempt) (first bool) {
	h := r.world.readHistory()
	r.mu.Lock()
	defer r.mu.Unlock()
	p := prompt{turn: at.TurnID, epoch: at.Epoch, text: string(at.Prompt), session: at.Session, outer: r.outer}
	p.marker, p.with = markersOf(p.text)
	p.owner = p.marker
	if owner, _, ok := selfWishOf(p.text); ok {
		p.owner = owner
	}
	if !r.rolledBack() { // the memory and the history are older than what the record has
		r.checkTried(at, h)
		r.checkRecalled(p, h)
		r.checkHears(p, h)
	}
	r.checkRights(p, at.Extra, h)
	first = !slices.ContainsFunc(r.prompts, func(other prompt) bool { return other.marker == p.marker })
	r.prompts = append(r.prompts, p)
	return first
}

// outermost records that a process begins while no other exists. From now on no other process can
// prompt with an older memory.
func (r *record) outermost() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outer++
	for _, of := range r.notes.of {
		of.lately = maps.Clone(of.now)
	}
}

// addNudges records durable nudges by the names of their files.
func (r *record) addNudges(names ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		if !slices.Contains(r.nudgeFiles, name) && !strings.HasSuffix(name, ".message") {
			r.nudgeFiles = append(r.nudgeFiles, name)
		}
	}
}

// mailSent records a mail that the SMTP server accepted.
func (r *record) mailSent(raw []byte) {
	m, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		r.world.violate("2", "a mail of ours cannot be read: %v", err)
		return
	}
	from := m.Body
	if m.Header.Get("Content-Transfer-Encoding") == "quoted-printable" {
		from = quotedprintable.NewReader(from)
	}
	body, _ := io.ReadAll(from)
	id := strings.Trim(m.Header.Get("Message-ID"), "<>")
	kind, _, _ := strings.Cut(id, ".")
	r.checkNotHurt(id, raw)
	r.countCopy(r.world.readHistory(), r.mails, outgoing{
		id: id, kind: kind, sum: sha256.Sum256(raw), to: m.Header.Get("To"),
		answers: strings.Trim(m.Header.Get("In-Reply-To"), "<>"), refs: m.Header.Get("References"), text: string(body), at: r.world.clock.machine(),
	})
}

// countCopy counts a copy. All copies under one id must be equal.
func (r *record) countCopy(h history, sent map[string]*outgoing, o outgoing) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := sent[o.id]
	if known == nil {
		o.copies, o.backs = 1, r.restores()
		sent[o.id] = &o
		r.checkLate(o, h)
		r.checkAckFirst(o, h)
		return
	}
	known.copies++
	r.checkNotSentAgain(known)
	r.world.count.happened("an effect was sent twice")
	if known.sum != o.sum {
		r.world.violate("2", "%s was sent with two contents:\n%s\n---\n%s", o.id, known.text, o.text)
	}
}

// mailed returns the mails of an effect. The caller must hold mu.
func (r *record) mailed(effect string) (sent []*outgoing) {
	for _, id := range sortedKeys(r.mails) {
		if effectOf(id) == effect {
			sent = append(sent, r.mails[id])
		}
	}
	return sent
}

// sent returns the mails and the messages to other agents, by id.
func (r *record) sent() map[string]*outgoing {
	all := maps.Clone(r.mails)
	maps.Copy(all, r.reports)
	return all
}

// words returns the text in one line.
func (o *outgoing) words() string { return strings.Join(strings.Fields(o.text), " ") }

// checkSeenFlag checks that a mail is durable before it is marked \Seen: under one of the keys that
// it ever had, because it may have been accepted before the mailbox was renumbered. words is the
// IMAP command.
func (r *record) checkSeenFlag(words []string) {
	if len(words) < 4 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, uid := range numbers(words[3]) {
		if l := r.mailByUID(uid); l == nil || !slices.ContainsFunc(l.keys, r.world.holds) {
			r.world.violate("1", "mail with UID %d was marked read before it was durable", uid)
		}
	}
}

// addKey records that a mail is in the mailbox under this UID.
func (r *record) addKey(l *incomingMail, uid uint32) {
	l.keys = append(l.keys, fmt.Sprintf(".%d.%d", r.validity, uid))
}

// holds reports whether the state or the history has a key with this end.
func (w *World) holds(end string) bool {
	names, _ := filepath.Glob(filepath.Join(w.stateDir(), "history-*.jsonl"))
	return slices.ContainsFunc(append(names, filepath.Join(w.stateDir(), "state.json")), func(name string) bool {
		data, err := os.ReadFile(name)
		return err == nil && bytes.Contains(data, []byte(end+`"`))
	})
}

var span = regexp.MustCompile(`^(\d+)(?::(\d+))?$`)

// numbers parses an IMAP set like 3,5:7.
func numbers(set string) []uint32 {
	var all []uint32
	for part := range strings.SplitSeq(set, ",") {
		m := span.FindStringSubmatch(part)
		if m == nil {
			continue
		}
		first, _ := strconv.Atoi(m[1])
		last := first
		if m[2] != "" {
			last, _ = strconv.Atoi(m[2])
		}
		for n := first; n <= last; n++ {
			all = append(all, uint32(n))
		}
	}
	return all
}

// connected counts a connection.
func (r *record) connected(channel string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns[channel]++
}

// reading records a command that reads the mailbox.
func (r *record) reading(words []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads = append(r.reads, strings.Join(words[1:], " "))
}

// traffic returns the connections and the commands that read the mailbox, since its last call.
func (r *record) traffic() (conns map[string]int, reads []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	conns, reads = r.conns, r.reads
	r.conns, r.reads = map[string]int{}, nil
	return conns, reads
}
