package simulator

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"

	"agentstateloop/cycle"
	"agentstateloop/internal/osfile"
	"agentstateloop/state"
)

// This file plays backups: the whole state directory is replaced by an earlier one, while the
// mailbox and the mesh stay. check_rollback.go has the checks.

// mostKept is how many of the last commits can be rolled back to.
const mostKept = 50

// The servers of a story with rollbacks keep the mails that we send in one of these ways.
const (
	SentByServer = "server" // it files each mail that it takes, as Gmail does
	SentByUs     = "us"     // [replies] sent
	SentByNobody = ""       // the server marks no folder for sent mail
)

// snapshots are copies of the state directory after each of the last commits.
type snapshots struct {
	root string

	mu   sync.Mutex
	made int
	kept []snapshot // the oldest first
}

type snapshot struct {
	dir string
	at  time.Time // by the machine's clock
}

// take keeps the state directory as it is after a commit.
func (s *snapshots) take(from string, at time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	made := snapshot{dir: filepath.Join(s.root, fmt.Sprint(s.made)), at: at}
	if err := copyState(from, made.dir); err != nil {
		return err
	}
	s.kept = append(s.kept, made)
	if len(s.kept) > mostKept+1 {
		go os.RemoveAll(s.kept[0].dir)
		s.kept = s.kept[1:]
	}
	return nil
}

// snapshot keeps the state directory at the end of a commit.
func (w *World) snapshot(site string) {
	if w.snapshots == nil || site != "done state.json" {
		return
	}
	if err := w.snapshots.take(w.stateDir(), w.clock.machine()); err != nil {
		w.violate("simulator", "take a snapshot: %v", err)
	}
}

// back returns the snapshot of n commits ago. If unmoved is set, it is the newest one before that
// the agent was not moved away from.
func (s *snapshots) back(n int, unmoved bool) (snapshot, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.kept) - 1 - min(n, len(s.kept)-1); i >= 0; i-- {
		now, ok := readState(s.kept[i].dir)
		if ok && (!unmoved || now.Moved == nil) {
			return s.kept[i], true
		}
	}
	return snapshot{}, false
}

// shared are the folders whose files are never written to again under their names, so that copies of
// the directory can share them.
var shared = []string{"messages", "outbox", "sent", "quarantine"}

// copyState copies a state directory. Temporary files are left out, and files that are removed
// meanwhile: another goroutine of the process may be at work.
func copyState(from, to string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		folder, _, _ := strings.Cut(name, string(filepath.Separator))
		switch {
		case e.IsDir():
			return os.MkdirAll(target, 0o700)
		case !e.Type().IsRegular(), strings.HasSuffix(name, ".tmp"):
			return nil
		case slices.Contains(shared, folder):
			err = os.Link(path, target)
		default:
			err = copyFile(path, target)
		}
		if os.IsNotExist(err) {
			return nil
		}
		return err
	})
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

// backup is the name of the archive of a restore.
const backup = "backup.tar.gz"

// rollback is what the servers had at one rollback.
type rollback struct {
	at     time.Time // by the clock of the servers
	unread []string  // markers of the mails that may run again, because nothing shows that they ran
	left   left      // messages that the mesh still had
	final  bool      // a move: the state is the newest one
}

// rollBack replaces the state directory by that of N commits ago. Kind says who does it: "restore"
// marks the state, "copy" is a person who does not know that command, and "move" puts the newest
// state into another place. All processes have ended.
func (w *World) rollBack(s Step) error {
	if w.snapshots == nil || w.depth() > 0 {
		return nil
	}
	n := s.N
	if s.Kind == "move" {
		n = 0
		if err := w.command(Step{Do: s.Do, Faults: s.Faults}, func(ctx context.Context, a *cycle.Agent) error {
			return a.MarkMoved(ctx, "beta", "moved.tar.gz")
		}); err != nil {
			w.logf("  = %v", err)
		}
		w.powerOn()
	}
	// A person repeats a restore that was killed, if a state refuses to work. So that need not be played.
	old, ok := w.snapshots.back(n, s.Kind == "copy" || s.Kind == "restore" && len(s.Faults) > 0)
	if !ok {
		return nil
	}
	w.killAgents()
	if err := w.noteRollback(s.Kind == "move"); err != nil {
		return err
	}
	if err := osfile.RemoveAll(w.stateDir()); err != nil {
		return err
	}
	if err := copyState(old.dir, w.stateDir()); err != nil {
		return err
	}
	w.disk.forget()
	w.restful.Store(false)
	w.count.happened("rolled back by " + s.Kind)
	switch s.Kind {
	case "restore":
		return w.command(s, func(ctx context.Context, a *cycle.Agent) error {
			return a.MarkRestored(ctx, old.at, backup)
		})
	case "move":
		return w.command(Step{Do: s.Do}, func(ctx context.Context, a *cycle.Agent) error { return a.MarkStays(ctx) })
	}
	return nil
}

// noteRollback records what the mailbox and the mesh show now.
func (w *World) noteRollback(final bool) error {
	seen, err := w.flags()
	if err != nil {
		return err
	}
	back := rollback{at: w.clock.servers(), left: w.leftOnMesh(), final: final}
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	answers := replies(w.record.mails, "reply")
	for _, l := range w.record.incoming {
		l.chances, l.omitted = 0, nil
		shown := w.story.Sent == SentByServer && len(answers[l.id]) > 0
		if !shown && slices.ContainsFunc(l.uids, func(uid uint32) bool { return !seen[uid] }) {
			back.unread = append(back.unread, l.marker)
		}
	}
	w.record.rollbacks = append(w.record.rollbacks, back)
	return nil
}

// restores returns how often the state was rolled back, other than by a move.
func (r *record) restores() (n int) {
	for _, b := range r.rollbacks {
		if !b.final {
			n++
		}
	}
	return n
}

// rolledBack reports whether the state was rolled back, other than by a move.
func (r *record) rolledBack() bool { return r.restores() > 0 }

// wasRolledBack is rolledBack for a caller that does not hold mu.
func (w *World) wasRolledBack() bool {
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	return w.record.rolledBack()
}

// thread returns the References of a mail that answers the one in the field In-Reply-To of head.
func (r *record) thread(head string) string {
	_, id, _ := strings.Cut(head, "In-Reply-To: <")
	id, _, _ = strings.Cut(id, ">")
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.mails[id]
	if o == nil {
		return "<" + id + ">"
	}
	earlier := strings.Join(strings.Fields(o.refs), " ")
	if o.answers != "" && !strings.Contains(earlier, o.answers) {
		earlier += " <" + o.answers + ">"
	}
	return strings.TrimSpace(earlier + " <" + id + ">")
}

// answerAsOther plays the other agent that a mail calls: it reads the mail and marks it as answered.
func (w *World) answerAsOther(n int) error {
	w.record.mu.Lock()
	var calls []*incomingMail
	for _, l := range w.record.incoming {
		if l.kind == "several" && len(l.uids) > 0 {
			calls = append(calls, l)
		}
	}
	if len(calls) == 0 {
		w.record.mu.Unlock()
		return nil
	}
	l := calls[n%len(calls)]
	l.read = true
	uid := imap.UID(l.uids[0])
	w.record.mu.Unlock()
	w.count.happened("another agent marked a mail as answered")
	return w.asPerson(func(c *imapclient.Client) error {
		return c.Store(imap.UIDSetNum(uid), &imap.StoreFlags{Op: imap.StoreFlagsAdd, Flags: []imap.Flag{imap.FlagSeen, imap.FlagAnswered}}, nil).Close()
	})
}

// fileSent plays a server that keeps the mails that it takes in the folder for sent mail.
func (w *World) fileSent(raw []byte) {
	if w.story.Sent != SentByServer {
		return
	}
	if _, err := w.mail.AppendTo(sentFolder, raw, w.clock.servers()); err != nil {
		w.violate("simulator", "file a sent mail: %v", err)
	}
}

// heldKeys returns what waits for a person since a restore: rows of the inbox, items of the
// quarantine, and rows of the outbox.
func (w *World) heldKeys() (rows, items, effects []string) {
	s, _ := w.state()
	for _, m := range s.Inbox {
		if m.Held {
			rows = append(rows, m.Key)
		}
	}
	for _, e := range s.HeldEffects() {
		effects = append(effects, e.ID)
	}
	w.run("inbox list", nil, func(_ context.Context, a *cycle.Agent) error {
		found, err := a.View().Quarantined()
		for _, item := range found {
			if item.Gate == restored {
				items = append(items, item.Key)
			}
		}
		return err
	})
	return rows, items, effects
}

// restored is the gate of mail that a restore holds back, and the kind of a Release of everything
// that it holds.
const restored = "restored"

// letIn plays the operator, who lets everything run that a restore holds.
func (w *World) letIn() {
	rows, items, effects := w.heldKeys()
	for _, key := range rows {
		w.person("inbox retry", key, func(ctx context.Context, a *cycle.Agent) error { _, err := a.Retry(ctx, key, ""); return err })
	}
	for _, key := range items {
		w.person("inbox release", key, func(ctx context.Context, a *cycle.Agent) error {
			_, err := a.Release(ctx, key, state.ByHand)
			return err
		})
	}
	for _, id := range effects {
		w.record.mu.Lock()
		w.record.retried[id] = true
		w.record.mu.Unlock()
		err, _ := w.run("outbox retry", nil, func(ctx context.Context, a *cycle.Agent) error {
			_, _, err := a.RetryEffect(ctx, id)
			return err
		})
		if err != nil && w.calmed {
			w.violate("restore", "outbox retry %s: %v", id, err)
		}
		w.count.happened("a person let in what a restore held: outbox retry")
	}
}

// person runs a command that lets a message have its turn.
func (w *World) person(name, key string, do func(context.Context, *cycle.Agent) error) {
	w.logf("     %s %s", name, key)
	w.record.mu.Lock()
	if by := w.record.releasesOf(key); by != nil {
		by.maybe++
	}
	w.record.mu.Unlock()
	err, _ := w.run(name, nil, do)
	if err != nil && w.calmed {
		w.violate("restore", "%s %s: %v", name, key, err)
	}
	w.count.happened("a person let in what a restore held: " + name)
}

// releasesOf returns the releases of the mail or message under a key, or nil. The caller must hold
// mu.
func (r *record) releasesOf(key string) *releases {
	for _, l := range r.incoming {
		if l.hasKey(key) {
			return &l.releases
		}
	}
	for _, m := range r.meshMessages {
		if strings.HasSuffix(key, ":"+m.id) {
			return &m.releases
		}
	}
	return nil
}

// MakeRollbacks returns the story of a seed in which the state is rolled back, with the given number
// of steps. Its deeds are those whose effect the mailbox or the mesh can show.
func MakeRollbacks(seed int64, steps int) Story {
	g := newGenerator(seed, 7)
	s := Story{Seed: seed, Rollbacks: true, Carrier: pickOne(g, "", OverNATS), Sent: pickOne(g, SentByServer, SentByUs, SentByNobody)}
	s.Copies = s.Sent == SentByUs
	for range steps {
		s.Steps = append(s.Steps, g.beforeRollback())
	}
	return s
}

// beforeRollback returns one step of such a story.
func (g generator) beforeRollback() Step {
	do := pickWeighted(g, weighted[Deed]{
		{24, Wait}, {10, Poll}, {3, Turns}, {20, Mail}, {7, Message}, {4, Report}, {3, Read}, {3, Outage}, {1, Tell}, {1, Ring}, {1, Stop}, {2, Release}, {8, Rollback},
	})
	s := Step{Do: do, N: g.IntN(100)}
	switch do {
	case Mail:
		s.Kind = pickWeighted(g, weighted[string]{{14, "new"}, {2, "several"}, {3, "shout"}, {4, "reply"}, {2, "twice"}, {2, "html"}, {1, "other"}, {1, "wide"}})
	case Message:
		s.Kind = pickWeighted(g, weighted[string]{{4, "message"}, {3, "ask"}, {1, "again"}})
	case Outage:
		s.Kind, s.N = pickOne(g, "imap", "smtp", "http", "smtp-451", "imap-password"), g.IntN(4)
	case Read:
		s.Kind = pickOne(g, "", "other")
	case Release:
		s.Kind = restored
	case Rollback:
		s.Kind = pickWeighted(g, weighted[string]{{4, "restore"}, {3, "copy"}, {1, "move"}})
		s.N = 1 + g.IntN(pickOne(g, 3, 10, mostKept))
	default:
		s = g.detail(s)
	}
	s.Wish = ""
	switch do {
	case Mail, Message, Tell:
		s.Wish = pickOne(g, "answer", "answer", "answer", "fail", "partial", "files", "submit", "submit-die", "ask", "ask-two", "send", "linger")
	}
	switch do {
	case Wait, Poll, Turns, Tell, Ring, Rollback:
		s.Faults = g.faults(0)
	}
	return s
}
