package simulator_test

import (
	"flag"
	"strings"
	"sync"
	"testing"
	"time"

	sim "agentstateloop/internal/testkit/simulator"
)

var rollbacks = flag.Int64("rollbacks", part(12, 6), "number of stories with rollbacks to play, from -first on")

// TestRollbacks plays stories in which the state is replaced by that of 1 to 50 commits ago.
func TestRollbacks(t *testing.T) {
	if *seed >= 0 {
		out := play(t, sim.MakeRollbacks(*seed, *length))
		t.Log("\n" + strings.Join(out.Log, "\n"))
		if out.Broken != nil {
			t.Error(out.Broken)
		}
		return
	}
	begin := time.Now()
	next := make(chan int64)
	go func() {
		defer close(next)
		for n := range *rollbacks {
			if t.Failed() && !*all {
				return
			}
			next <- *first + n
		}
	}()
	var mu sync.Mutex
	var counts sim.Counts
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for n := range next {
				out := play(t, sim.MakeRollbacks(n, *length))
				mu.Lock()
				counts.Add(out.Counts)
				mu.Unlock()
				if out.Broken != nil {
					report(t, sim.MakeRollbacks(n, *length), out)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d stories with rollbacks in %v", *rollbacks, time.Since(begin))
	logCounts(t, counts)
	for _, what := range []string{
		"rolled back by restore", "rolled back by copy", "rolled back by move", recognised, retried, released, resent,
		"a mail of the operator was held after a restore", "a mail after a rollback was answered", "another agent marked a mail as answered",
	} {
		if *rollbacks >= enough && counts.Sometimes[what] == 0 {
			t.Errorf("in %d stories this never happened: %s", *rollbacks, what)
		}
	}
}

// enough is how many stories reach every rare event.
const enough = 500

// back returns a step that replaces the state by that of n commits ago. 50 is further than any of
// these stories goes.
func back(kind string, n int, faults ...sim.Fault) sim.Step {
	return sim.Step{Do: sim.Rollback, Kind: kind, N: n, Faults: faults}
}

// The events that most of these stories are about.
const (
	recognised = "an answered mail was recognised after a restore"
	retried    = "a person let in what a restore held: inbox retry"
	released   = "a person let in what a restore held: inbox release"
	resent     = "a person let in what a restore held: outbox retry"
)

// rollbackStories are stories of a state that is older than the mailbox, by who keeps sent mail.
var rollbackStories = []struct {
	scenario
	sent string
}{
	{scenario{
		name: "the folder for sent mail shows what was answered",
		must: recognised,
		step: []sim.Step{mail("answer"), poll(), back("restore", 50), poll(), poll()}, // the mail is not marked yet
	}, sim.SentByServer},
	{scenario{
		name: "our own copies show what was answered",
		must: recognised,
		step: []sim.Step{
			mail("answer"), mail("ask"), poll(), {Do: sim.Report, Kind: "answer"}, poll(), wait(11 * time.Minute), back("restore", 50), poll(),
		},
	}, sim.SentByUs},
	{scenario{
		name: "the mark on the mail shows that it was answered",
		must: recognised,
		step: []sim.Step{mail("answer"), poll(), poll(), back("restore", 50), poll()},
	}, sim.SentByNobody},
	{scenario{
		name: "an old copy is found although nobody has marked it",
		must: recognised,
		step: []sim.Step{mail("answer"), poll(), poll(), back("copy", 50), mail("answer"), poll()},
	}, sim.SentByNobody},
	{scenario{
		name: "a restore that is killed before its mark leaves a copy that is found",
		must: recognised,
		step: []sim.Step{mail("answer"), poll(), poll(), back("restore", 50, crash("write state.json.tmp")), poll()},
	}, sim.SentByServer},
	{scenario{
		name: "a mail that came since the backup runs",
		step: []sim.Step{mail("answer"), poll(), mail("answer"), back("restore", 3), wait(2 * time.Minute), mail("answer"), poll()},
		must: "a mail after a rollback was answered",
	}, sim.SentByServer},
	{scenario{
		name: "a mail that was read and not answered waits for a person",
		must: released,
		step: []sim.Step{mail("answer"), poll(crash("agent work")), back("restore", 50), poll(), poll()},
	}, sim.SentByServer},
	{scenario{
		name: "the mark of another agent is not taken for an answer of ours",
		must: released,
		step: []sim.Step{
			{Do: sim.Mail, Kind: "several", Wish: "answer"}, poll(crash("agent work")),
			{Do: sim.Read, Kind: "other"}, back("restore", 50), poll(), poll(),
		},
	}, sim.SentByNobody},
	{scenario{
		name: "an answer to a later mail of the thread is not one to the mail before it",
		was:  "the mail was in its References, and counted as answered",
		must: released,
		step: []sim.Step{
			mail("answer"), poll(crash("agent work")), back("restore", 1), poll(),
			{Do: sim.Mail, Kind: "reply", Wish: "answer"}, poll(), poll(), back("restore", 50), poll(), poll(),
		},
	}, sim.SentByServer},
	{scenario{
		name: "a state in the middle of a turn runs nothing by itself",
		must: retried,
		step: []sim.Step{mail("answer"), poll(crash("agent work")), back("copy", 1), poll(), poll()},
	}, sim.SentByServer},
	{scenario{
		name: "a state in the middle of a turn whose answer has left runs nothing",
		must: recognised,
		step: []sim.Step{mail("answer"), poll(), back("restore", 6), poll(), poll()},
	}, sim.SentByServer},
	{scenario{
		name: "an answer that may have left is sent when a person says so",
		must: resent,
		step: []sim.Step{mail("answer"), poll(nth(1, crashLate("smtp dot"))), back("restore", 1), poll(), poll()},
	}, sim.SentByNobody},
	{scenario{
		name: "two restores in a row and mail that cannot be read in between",
		must: recognised,
		step: []sim.Step{
			mail("answer"), poll(), poll(), mail("answer"), {Do: sim.Outage, Kind: "imap-password", N: 1}, back("restore", 4), poll(),
			back("copy", 20), poll(), {Do: sim.Release, Kind: "restored"}, poll(), back("restore", 2), poll(),
		},
	}, sim.SentByServer},
	{scenario{
		name: "a message that the mesh still has comes again and one that it gave away does not",
		must: retried,
		step: []sim.Step{message("answer"), poll(crash("agent work")), message("answer"), back("restore", 2), poll(), poll()},
	}, sim.SentByServer},
	{scenario{
		name: "after a move nothing waits for a person",
		must: "rolled back by move",
		step: []sim.Step{
			mail("ask"), message("answer"), poll(), back("move", 0), {Do: sim.Report, Kind: "answer"}, poll(),
			mail("answer"), poll(crash("agent work")), back("move", 0), poll(),
		},
	}, sim.SentByNobody},
}

func TestRollbackStories(t *testing.T) {
	for _, s := range rollbackStories {
		t.Run(strings.ReplaceAll(s.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			for seed := range *lives {
				mustPlay(t, sim.Story{Seed: seed, Steps: s.step, Rollbacks: true, Sent: s.sent, Copies: s.sent == sim.SentByUs}, s.must)
			}
		})
	}
}
