package replay

import (
	"slices"
	"sort"
	"time"

	"agentstateloop/mail"
	"agentstateloop/state"
)

// Summary is the end of a replay.
type Summary struct {
	From, To time.Time // of the mails
	Ended    time.Time // when the clock stopped; later than To if there was work

	Mails     int // of that time
	Others    int // not for this agent
	Undecided int // whose sender cannot be proved now, or that cannot be read any more
	Messages  int // that passed the gates
	Controls  int // STOP, HALT, GO or STATUS
	Copies    int
	Aside     []Aside // by gate

	Undated, Future, Unordered int // see Mails
	Unreadable                 int // files that could not be read

	Phase state.Phase // at the end

	Turns, Stopped, Answers int
	Sent                    map[state.EffectKind]int // mails to the operator, besides answers
	Deferred                int                      // messages that had to wait, by a limit or for their sender
	Prompts, PromptsLeft    int                      // scheduled prompts: made, and left out because of their programs
	Polls                   int
	Phases                  map[state.Phase]time.Duration

	Cost       state.Micros
	Days       []Day        // with a cost, in order
	DayBudget  state.Micros // 0: no limit
	Wait       Wait
	Unanswered int // mails that still waited at the end
	Assumed    Assumed
}

// Aside counts the mails that one gate set aside.
type Aside struct {
	Gate  string
	Count int
	Name  string // of the first of them: its file, in an mbox with its number
	File  string // its file
}

// Day is the cost of a local day.
type Day struct {
	Day  string
	Cost state.Micros
}

// Wait is how long senders waited for the answers to their mails. Mails is the number of these mails.
type Wait struct {
	Mails                int
	Median, P90, Longest time.Duration
}

// setAside counts the line of a gate.
func (s *Summary) setAside(l state.Line, m mail.Stored) {
	i := slices.IndexFunc(s.Aside, func(a Aside) bool { return a.Gate == l.Gate })
	if i < 0 {
		i = len(s.Aside)
		s.Aside = append(s.Aside, Aside{Gate: l.Gate, Name: m.Name, File: m.File})
	}
	s.Aside[i].Count += max(1, l.Count)
}

// spend counts a cost.
func (s *Summary) spend(day string, cost state.Micros) {
	s.Cost += cost
	if n := len(s.Days); n == 0 || s.Days[n-1].Day != day {
		s.Days = append(s.Days, Day{Day: day})
	}
	s.Days[len(s.Days)-1].Cost += cost
}

// waitsOf returns the summary of waits.
func waitsOf(waits []time.Duration) Wait {
	if len(waits) == 0 {
		return Wait{}
	}
	sort.Slice(waits, func(i, j int) bool { return waits[i] < waits[j] })
	return Wait{Mails: len(waits), Median: rank(waits, 50), P90: rank(waits, 90), Longest: waits[len(waits)-1]}
}

// rank returns the smallest of the sorted values that percent of them do not exceed.
func rank(sorted []time.Duration, percent int) time.Duration {
	return sorted[(len(sorted)*percent+99)/100-1]
}
