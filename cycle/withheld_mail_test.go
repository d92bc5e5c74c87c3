package cycle_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/state"
)

// newWithholdingFixture returns a fixture whose mailbox is on a scripted server.
func newWithholdingFixture(t *testing.T) (*fixture, *mailtest.Scripted) {
	h := newFixture(t)
	server := mailtest.StartScripted(t)
	h.agent.Mail.Mailbox.Addr = server.Addr
	server.Put(string(letter{subject: "of nobody"}.raw()), h.clock.Now())
	h.poll()
	h.pollAfter(time.Minute) // the sweep after the baseline
	return h, server
}

// TestServerWithholdsMail polls a server that withholds headers and bodies at random, hangs up,
// answers searches with nothing and forgets UIDNEXT. Once it behaves again, each mail gets one
// answer within a day.
func TestServerWithholdsMail(t *testing.T) {
	t.Parallel()
	seeds := uint64(4)
	if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") == "" {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			h, server := newWithholdingFixture(t)
			r, people := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2)) // the server's, and ours
			faults := []string{mailtest.Nothing, mailtest.HangUp, "* 1 FETCH (UID %d RFC822.SIZE 90 BODY[HEADER] {0}\r\n)", "* 1 FETCH (UID %d BODY[] NIL)"}
			server.Do(func(s *mailtest.Scripted) {
				s.Lie = func(_ int, uid uint32, _ bool) string {
					if r.IntN(3) > 0 {
						return ""
					}
					if said := faults[r.IntN(len(faults))]; strings.Contains(said, "%d") {
						return fmt.Sprintf(said, uid)
					} else {
						return said
					}
				}
				s.Answer = func(_ int, command string) string {
					switch n := r.IntN(12); {
					case strings.Contains(command, "STORE") || n > 3:
						return ""
					case n == 0 && strings.Contains(command, "SEARCH"):
						return "* SEARCH\r\nTAG OK done\r\n"
					case n == 1 && strings.Contains(command, "FETCH"):
						return "TAG OK nothing\r\n"
					case n == 2 && strings.Contains(command, "FETCH"):
						return "TAG NO [UNAVAILABLE] later\r\n"
					case n == 3 && strings.Contains(command, "FETCH"):
						return "TAG NO corrupt\r\n"
					}
					return ""
				}
			})
			var want []string
			for i := range 30 {
				if people.IntN(2) == 0 {
					body := fmt.Sprintf("question %d", i)
					want = append(want, "I read: "+body)
					server.Put(string(letter{id: fmt.Sprintf("<%d@example.com>", i), body: body}.raw()), h.clock.Now())
				}
				h.pollAfter(time.Minute)
			}
			server.Do(func(s *mailtest.Scripted) { s.Lie, s.Answer = nil, nil })
			for range 16 {
				h.pollAfter(2 * time.Hour)
			}
			got := h.replyTexts()
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%d replies to %d mails\ngot  %q\nwant %q", len(got), len(want), got, want)
			}
			if s := h.state(); len(s.Cursor.Owed)+len(s.Cursor.Unseen)+len(s.Cursor.Failures) > 0 {
				t.Errorf("at rest: %+v", s.Cursor)
			}
			told := map[string]int{}
			for _, l := range h.lines(state.LineFetch) {
				if told[l.Key+string(l.What)]++; told[l.Key+string(l.What)] > 1 {
					t.Errorf("told twice: %+v", l)
				}
			}
			t.Logf("%d swept, %d told", len(h.lines(state.LineSweep)), len(told))
			server.Do(func(*mailtest.Scripted) {})
			next := fmt.Sprintf("UID FETCH %d:", h.state().Cursor.Next)
			if h.pollAfter(time.Minute); len(server.Commands) != 1 || !strings.HasPrefix(server.Commands[0], next) {
				t.Errorf("an empty poll asks %q", server.Commands)
			}
		})
	}
}

// TestDailySweep checks that the first poll of a local day looks for missed mail and records it,
// that later polls of that day do not, and that a poll after a recovery does.
func TestDailySweep(t *testing.T) {
	t.Parallel()
	h, server := newWithholdingFixture(t)
	h.agent.Policy.Location = time.FixedZone("east", 9*3600)
	h.pollAfter(time.Minute)
	miss := func(id string) {
		server.Put(string(letter{id: id, body: id}.raw()), h.clock.Now())
		server.Do(func(s *mailtest.Scripted) {
			s.Lie = func(int, uint32, bool) string { return mailtest.Nothing }
		})
		h.pollAfter(time.Minute)
		h.pollAfter(time.Minute) // now two sessions agree
		server.Do(func(s *mailtest.Scripted) { s.Lie = nil })
	}
	searches := func() int {
		server.Lock()
		defer server.Unlock()
		return strings.Count(strings.Join(server.Commands, "\n"), "SEARCH")
	}
	miss("<one@example.com>")
	h.pollAfter(time.Minute)
	if len(h.runs()) != 0 || searches() != 0 {
		t.Fatalf("%d turns, %d searches", len(h.runs()), searches())
	}
	tomorrow := h.clock.Now().In(h.agent.Policy.Location).AddDate(0, 0, 1)
	tomorrow = time.Date(tomorrow.Year(), tomorrow.Month(), tomorrow.Day(), 0, 1, 0, 0, h.agent.Policy.Location)
	h.pollAfter(tomorrow.Sub(h.clock.Now()))
	swept := h.lines(state.LineSweep)
	if len(h.runs()) != 1 || len(swept) != 1 || !strings.HasSuffix(swept[0].Key, ".7.2") || searches() != 1 {
		t.Errorf("%d turns, lines %+v, %d searches", len(h.runs()), swept, searches())
	}
	for range 3 {
		h.pollAfter(time.Minute)
	}
	if searches() != 1 {
		t.Errorf("%d searches on one day", searches())
	}

	miss("<two@example.com>")
	check(t, os.WriteFile(h.agent.Store.Path("state.json"), []byte("{"), 0o600))
	h.pollAfter(time.Minute)
	if len(h.runs()) != 2 || searches() != 1 {
		t.Errorf("after a recovery %d turns, %d searches", len(h.runs()), searches())
	}
	if h.pollAfter(time.Minute); searches() != 1 {
		t.Errorf("%d searches after one recovery", searches())
	}
}

// TestSilenceIsNotObservedWhileUIDsWait checks that the agent does not go quiet while the server
// has not shown a mail that may be the operator's.
func TestSilenceIsNotObservedWhileUIDsWait(t *testing.T) {
	h, server := newWithholdingFixture(t)
	server.Put(string(letter{id: "<one@example.com>"}.raw()), h.clock.Now())
	h.pollAfter(time.Minute)
	h.wantPhase(state.PREP)
	server.Put(string(letter{id: "<two@example.com>"}.raw()), h.clock.Now())
	server.Do(func(s *mailtest.Scripted) { s.Lie = func(int, uint32, bool) string { return mailtest.Nothing } })
	h.pollAfter(10 * time.Minute)
	h.wantPhase(state.PREP)
	server.Do(func(s *mailtest.Scripted) { s.Lie = nil })
	h.pollAfter(time.Minute)
	h.wantPhase(state.ACTIVE)
	h.wantSent("ack reply reply")
}
