package commands

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/emersion/go-smtp"

	"agentstateloop/internal/testkit/mailtest"
)

// faults makes the servers of a soak misbehave while on is set, and damages files. One in odds
// answers is faulty.
type faults struct {
	on   atomic.Bool
	odds int

	mu      sync.Mutex
	chance  *rand.Rand
	count   map[string]int
	leftOut map[uint32]bool // UIDs whose answer could have been left out
}

func newFaults(seed uint64, odds int) *faults {
	return &faults{odds: odds, chance: rand.New(rand.NewPCG(seed, 20)), count: map[string]int{}, leftOut: map[uint32]bool{}}
}

// happens reports whether a fault happens now, once in n times the odds.
func (f *faults) happens(fault string, n int) bool {
	if !f.on.Load() {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.chance.IntN(n*f.odds) > 0 {
		return false
	}
	f.count[fault]++
	return true
}

// changeIMAP changes an answer of the IMAP server. end reports whether the connection ends.
func (f *faults) changeIMAP(command string, a mailtest.Answer) (changed mailtest.Answer, end bool) {
	if f.happens("imap connection broken", 4) {
		all := a.Bytes()
		return mailtest.Answer{all[:len(all)/2]}, true
	}
	if f.happens("imap answer late", 2) {
		<-time.After(50 * time.Millisecond)
	}
	if command != "FETCH" {
		return a, false
	}
	if refused, tagged := a.Refused("NO"); tagged {
		if f.happens("imap FETCH refused", 4) {
			return refused, false
		}
		return a, false
	}
	switch {
	case a.UID() == 0:
	case f.mayLeaveOut(a) && f.happens("imap mail left out", 2):
		return nil, false
	case f.happens("imap body empty", 3):
		return a.WithBody("{0}\r\n"), false
	case f.happens("imap body NIL", 3):
		return a.WithBody("NIL"), false
	case f.happens("imap body missing", 3):
		return a.WithBody(""), false
	}
	return a, false
}

// mayLeaveOut reports whether an answer may be left out: a header only once, because the program may
// skip a mail that two sessions do not list.
func (f *faults) mayLeaveOut(a mailtest.Answer) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked := f.leftOut[a.UID()]
	f.leftOut[a.UID()] = true
	return a.Part() == "body" || !asked
}

// answerSMTP answers a mail as the submission server.
func (f *faults) answerSMTP(conn net.Conn, _ []byte) error {
	switch {
	case f.happens("smtp 451", 1):
		return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "not now"}
	case f.happens("smtp connection broken before the answer", 2):
		conn.Close()
		return errors.New("broken")
	case f.happens("smtp answer lost", 4):
		conn.Close() // the mail is accepted without an answer
	}
	return nil
}

// damage damages payload files at random moments, until ctx ends.
func (f *faults) damage(ctx context.Context, state string) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
		for _, dir := range []string{"messages", "outbox"} {
			files, _ := filepath.Glob(filepath.Join(state, dir, "*"))
			// A command whose file vanishes while it is written fails, and has not accepted the message.
			files = slices.DeleteFunc(files, func(name string) bool { return strings.HasSuffix(name, ".tmp") })
			if len(files) > 0 && f.happens("payload damaged in "+dir, 3) {
				f.damageFile(files)
			}
		}
	}
}

func (f *faults) damageFile(files []string) {
	f.mu.Lock()
	path, how := files[f.chance.IntN(len(files))], f.chance.IntN(4)
	f.mu.Unlock()
	data, err := os.ReadFile(path)
	if err != nil || len(data) == 0 {
		return
	}
	switch how {
	case 0:
		os.Remove(path)
		return
	case 1:
		clear(data)
	case 2:
		data = data[:len(data)/2]
	case 3:
		data[len(data)/2] ^= 1
	}
	tmp := path + ".hurt"
	if os.WriteFile(tmp, data, 0o600) == nil {
		os.Rename(tmp, path)
	}
}
