package simulator

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"mime/quotedprintable"
	"net/http"
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

// record is what went into a world and what came out of it, as outsiders saw
// it.
type record struct {
	world *World

	mu           sync.Mutex
	incoming     []*incomingMail
	meshMessages []*meshMessage
	tells        []*tellCommand
	nudgeFiles   []string // names of the files of nudges
	prompts      []prompt
	mails        map[string]*outgoing // by Message-ID
	reports      map[string]*outgoing // what we posted to the mesh, by id
	questions    []question           // questions that peers got from us
	conns        map[string]int       // by protocol
	validity     uint32

	added           releases // credit
	paid            []string // spendings that were told one by one, and are counted
	notes           notes
	lastTrouble     map[string]time.Time       // when something was in the way of sending, by the way
	observedOutages map[string]*observedOutage // the last outage of each credential
	outer           int                        // which outermost process this is
	underHalt       haltSnapshot
	nudgeBack       bool // a power cut brought a nudge back that was taken
	lateTaken       bool // an agent that came late was not refused
}

// incomingMail is a mail in the mailbox.
type incomingMail struct {
	marker, kind string
	id           string // Message-ID
	raw          []byte
	at           time.Time
	uids         []uint32 // now; a copy has another
	keys         []string // ends of every key it ever had
	fate         fate
	control      string
	read         bool     // a person opened it
	token        string   // which may let it in
	said         []string // tokens with which the operator said YES to it
	releases
}

// fate is what must become of something that went in.
type fate int

const (
	ignored  fate = iota // no trace of it
	kept                 // in quarantine, no turn
	answered             // one turn, one deliverable
	obeyed               // a control: one answer, no turn
	relayed              // a mail to the operator, no turn
	consents             // a word about another mail, no turn of its own
)

// meshMessage is a message that the mesh took for us.
type meshMessage struct {
	marker, kind, id, from, correlation string
	fate                                fate
	releases
}

// tellCommand is a message from the terminal. Its key is "" when the process died
// and nobody knows whether it was taken.
type tellCommand struct{ marker, key string }

// prompt is what the agent was given in one attempt.
type prompt struct {
	turn   string
	epoch  uint64
	marker string // of the message
	text   string
	outer  int // the outermost process of then
}

// outgoing is something that we sent, under one id.
type outgoing struct {
	id, kind string
	copies   int
	sum      [sha256.Size]byte
	to       string
	answers  string // In-Reply-To, or the correlation id
	text     string
	at       time.Time
}

type question struct{ id, peer, correlation string }

func newRecord(w *World) *record {
	return &record{
		world: w, mails: map[string]*outgoing{}, reports: map[string]*outgoing{}, conns: map[string]int{}, validity: 1,
		notes: newNotes(), lastTrouble: map[string]time.Time{}, observedOutages: map[string]*observedOutage{},
	}
}

// prompted notes an attempt. It says whether it is the first with that message.
func (r *record) prompted(at turn.Attempt) (first bool) {
	h, err := r.world.readHistory()
	if err != nil {
		r.world.violate("state", "history: %v", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := prompt{turn: at.TurnID, epoch: at.Epoch, text: string(at.Prompt), outer: r.outer}
	r.checkRecalled(p, h)
	if m := wish.FindStringSubmatch(fenced(p.text)); m != nil {
		p.marker = m[1]
	}
	first = true
	for _, other := range r.prompts {
		first = first && other.marker != p.marker
	}
	r.prompts = append(r.prompts, p)
	return first
}

// outermost notes that a process begins while there is no other.
func (r *record) outermost() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outer++
	r.notes.settle()
}

// addNudges notes nudges that are durable, by the names of their files.
func (r *record) addNudges(names ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		if !slices.Contains(r.nudgeFiles, name) {
			r.nudgeFiles = append(r.nudgeFiles, name)
		}
	}
}

// mailSent notes a mail that the SMTP server accepted.
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
	r.countCopy(r.mails, outgoing{
		id: id, kind: kind, sum: sha256.Sum256(raw), to: m.Header.Get("To"),
		answers: strings.Trim(m.Header.Get("In-Reply-To"), "<>"), text: string(body), at: r.world.clock.machine(),
	})
}

// countCopy counts a copy. All copies under one id must be the same.
func (r *record) countCopy(sent map[string]*outgoing, o outgoing) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := sent[o.id]
	if known == nil {
		o.copies = 1
		sent[o.id] = &o
		return
	}
	known.copies++
	r.world.count.happened("an effect was sent twice")
	if known.sum != o.sum {
		r.world.violate("2", "%s was sent with two contents:\n%s\n---\n%s", o.id, known.text, o.text)
	}
}

// watchMesh stands in front of the mesh.
func (r *record) watchMesh(mesh http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodDelete {
			r.checkAck(req)
		}
		if req.Method != http.MethodPost || req.URL.Path != "/message" {
			mesh.ServeHTTP(w, req)
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		seen := &statusRecorder{ResponseWriter: w}
		mesh.ServeHTTP(seen, req)
		if seen.code == http.StatusOK || seen.code == http.StatusAccepted {
			r.meshSent(body)
		} else {
			r.world.troubled("mesh")
		}
	})
}

// statusRecorder remembers the code of an answer.
type statusRecorder struct {
	http.ResponseWriter
	code int
}

func (w *statusRecorder) WriteHeader(code int) {
	w.code = code
	w.ResponseWriter.WriteHeader(code)
}

// meshSent notes what we sent over the mesh.
func (r *record) meshSent(body []byte) {
	var m struct {
		ID, From, To, Kind string
		Text               string `json:"message"`
		Correlation        string `json:"correlation_id"`
	}
	if err := json.Unmarshal(body, &m); err != nil || m.From != handle {
		r.world.violate("4", "posted to the mesh: %s: %v", body, err)
		return
	}
	r.countCopy(r.reports, outgoing{
		id: m.ID, kind: m.Kind, sum: sha256.Sum256(body), to: m.To, answers: m.Correlation, text: m.Text, at: r.world.clock.machine(),
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.Kind == "ask" && r.reports[m.ID].copies == 1 {
		r.questions = append(r.questions, question{id: m.ID, peer: m.To, correlation: m.ID})
	}
}

// checkAck holds that what is taken from the mesh's mailbox is durable with
// us.
func (r *record) checkAck(req *http.Request) {
	id := filepath.Base(req.URL.Path)
	if !r.world.holds(":" + id + `"`) {
		r.world.violate("1", "mesh message %s was acknowledged before it was durable", id)
	}
}

// checkSeenFlag holds the same of \Seen. words is the command.
func (r *record) checkSeenFlag(words []string) {
	if len(words) < 4 {
		return
	}
	for _, uid := range numbers(words[3]) {
		if !slices.ContainsFunc(r.keysOf(uid), r.world.holds) {
			r.world.violate("1", "mail with UID %d was marked read before it was durable", uid)
		}
	}
}

// keysOf gives the ends of all the keys that a mail has had: it may have been
// taken before the mailbox was renumbered.
func (r *record) keysOf(uid uint32) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.incoming {
		if slices.Contains(l.uids, uid) {
			return l.keys
		}
	}
	return nil
}

// addKey notes that a letter lies in the mailbox under this UID.
func (r *record) addKey(l *incomingMail, uid uint32) {
	l.keys = append(l.keys, fmt.Sprintf(".%d.%d\"", r.validity, uid))
}

// holds says whether the state or the history holds a text.
func (w *World) holds(text string) bool {
	names, _ := filepath.Glob(filepath.Join(w.stateDir(), "history-*.jsonl"))
	for _, name := range append(names, filepath.Join(w.stateDir(), "state.json")) {
		data, err := os.ReadFile(name)
		if err == nil && bytes.Contains(data, []byte(text)) {
			return true
		}
	}
	return false
}

var span = regexp.MustCompile(`^(\d+)(?::(\d+))?$`)

// numbers reads an IMAP set like 3,5:7.
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

// nudgeMayRepeat says whether a nudge may ring twice: to remove its file is not
// worth an fsync.
func (r *record) nudgeMayRepeat() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.nudgeBack
}

// connected counts a connection.
func (r *record) connected(_ *process, protocol string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns[protocol]++
}

// connections gives the counts and begins anew.
func (r *record) connections() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	conns := r.conns
	r.conns = map[string]int{}
	return conns
}
