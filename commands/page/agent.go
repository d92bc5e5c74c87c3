package page

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"agentstateloop/commands/present"
	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
	"agentstateloop/fleet/seat"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
	"agentstateloop/turn"
)

// The numbers of rows in a document. Their agents say how many are left out.
const (
	maxMessages    = 100
	maxQuarantined = 50
	maxPlanned     = 50

	costDays        = 14
	quarantinedText = 2000 // characters
)

// reader reads one agent again and again.
type reader struct {
	past        view.Past
	headlines   view.Headlines
	recent      recent
	quarantined quarantined
	questions   map[string]string // the whole text of each open question, by id
	steps       steps
}

// agent returns an agent as of now.
func (r *reader) agent(from Source, now time.Time) Agent {
	a := empty(from)
	if err := r.fill(&a, from.Agent, from.WithoutWords, now); err != nil {
		return failed(from, err)
	}
	return a
}

// failed returns an agent that cannot be shown.
func failed(from Source, err error) Agent {
	a, text := empty(from), plain.Line(err.Error())
	a.Error = &text
	return a
}

// empty returns an agent without its parts.
func empty(from Source) Agent {
	return Agent{
		Handle: from.Agent.Handle, MayAct: from.MayAct,
		Trouble: []Row{}, Rows: []Row{}, Messages: []Message{}, Quarantine: []Quarantined{}, Questions: []Question{}, Schedule: []Planned{},
		Bands:   Bands{Day: emptyBand(), Week: emptyBand()},
		Costs:   Costs{Days: []DayCost{}},
		History: []Entry{},
	}
}

func emptyBand() view.Band { return view.Band{Phases: []view.Span{}, Marks: []view.Mark{}} }

// fill reads the parts of an agent.
func (r *reader) fill(a *Agent, from *cycle.Agent, withoutWords bool, now time.Time) error {
	v := from.View()
	v.Headlines = &r.headlines
	rows, s, err := v.Listing()
	if err != nil {
		return err
	}
	st := v.StatusOf(s)
	if withoutWords {
		st = st.WithoutWords()
	}
	a.Status = &st
	if err := from.Acts(); err != nil {
		a.Trouble = append(a.Trouble, seatRow(err))
	}
	unproved := from.Mail != nil && !v.ProvesMail
	for _, row := range present.StatusRows(unfitted{}, st, from.Schedule.Mode, unproved, now) {
		if row.IsTrouble() {
			a.Trouble = append(a.Trouble, Row(row))
		} else {
			a.Rows = append(a.Rows, Row(row))
		}
	}
	a.Schedule, a.More.Schedule = planned(st, now)
	if err := r.addPast(a, from, s, now); err != nil {
		return err
	}
	a.Turn = r.turn(from, s, st, rows, now)
	if withoutWords {
		if a.Turn != nil {
			a.Turn.Message = nil
		}
		for _, marks := range [][]view.Mark{a.Bands.Day.Marks, a.Bands.Week.Marks} {
			for i := range marks {
				marks[i].Text = ""
			}
		}
		return nil
	}
	a.Messages, a.More.Messages = messages(rows, s, from.Policy, now)
	if a.Quarantine, a.More.Quarantine, err = r.quarantined.rows(from, v); err != nil {
		return err
	}
	a.Questions = r.open(v, s, st, now)
	if err := r.recent.read(from, s, now); err != nil {
		return err
	}
	for _, e := range slices.Backward(r.recent.entries) {
		a.History = append(a.History, e)
	}
	return nil
}

// seatRow returns the row of an agent that shows a copy, because another host acts. It stays the
// same while the holder does.
func seatRow(err error) Row {
	if standby, ok := errors.AsType[*seat.StandbyError](err); ok {
		known := *standby
		known.Ago = -1
		err = &known
	}
	return Row{Label: "standby", Text: err.Error()}
}

// unfitted is for rows that a browser wraps.
type unfitted struct{}

func (unfitted) Fit(line string, _ int) string      { return line }
func (unfitted) FitWords(text string, _ int) string { return text }

// addPast adds the bands and the costs.
func (r *reader) addPast(a *Agent, from *cycle.Agent, s state.State, now time.Time) error {
	r.past.Store, r.past.Policy = from.Store, &from.Policy
	if err := r.past.Read(s, now); err != nil {
		return err
	}
	a.Bands = Bands{Day: r.past.Band(now.AddDate(0, 0, -1), now), Week: r.past.Band(now.AddDate(0, 0, -7), now)}
	for _, d := range r.past.Costs(costDays, now) {
		a.Costs.Days = append(a.Costs.Days, DayCost{Day: d.Day, USD: d.Cost.USD(), Turns: d.Turns})
	}
	a.Costs.MonthUSD, a.Costs.CreditUSD = a.Status.Spend.MonthUSD, a.Status.Spend.CreditUSD
	if limit := from.Policy.Budget.Day; limit > 0 {
		usd := limit.USD()
		a.Costs.BudgetDay = &usd
	}
	return nil
}

// messages returns the rows of the inbox, and how many are left out.
func messages(rows []view.InboxRow, s state.State, p state.Policy, now time.Time) ([]Message, int) {
	all := []Message{}
	words := present.InboxStatus{State: s, Policy: p, Now: now}
	for _, row := range rows[:min(len(rows), maxMessages)] {
		m := Message{
			Number: present.InboxNumber(row), Key: row.Key, From: present.InboxSender(row), Subject: present.InboxSubject(row), At: timeOf(row.At),
			State: stateOf(row, s), Why: words.Of(row),
		}
		stored, _ := s.Message(row.Key) // an outage defers a row only for display
		m.MayRetry, m.MayDrop = stored.Held || stored.Status == state.Deferred, m.State != "working"
		all = append(all, m)
	}
	return all, len(rows) - len(all)
}

// stateOf returns the state of a row of the inbox in one word.
func stateOf(row view.InboxRow, s state.State) string {
	switch m := row.Message; {
	case m == nil:
		return row.Status // fetching, failing
	case s.SharesTurn(*m):
		return "working"
	case m.Held:
		return "held"
	case m.Status == state.Deferred:
		return "deferred"
	}
	return "waiting"
}

func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// quarantined keeps the rows of the quarantine, which are costly to read and seldom change.
type quarantined struct {
	keys []string
	rest int
	kept []Quarantined
}

// rows returns the newest items in quarantine, the newest first, and how many are left out.
func (q *quarantined) rows(from *cycle.Agent, v view.Reader) ([]Quarantined, int, error) {
	items, err := v.Quarantined() // the oldest first
	if err != nil {
		return nil, 0, err
	}
	var keys []string
	for _, i := range items {
		keys = append(keys, i.Key)
	}
	if q.kept != nil && slices.Equal(keys, q.keys) {
		return q.kept, q.rest, nil
	}
	q.rest = max(0, len(items)-maxQuarantined)
	rows, err := v.QuarantineRows(items[q.rest:])
	if err != nil {
		return nil, 0, err
	}
	q.keys, q.kept = keys, []Quarantined{}
	byKey := map[string]view.InboxRow{}
	for _, row := range rows {
		byKey[row.Key] = row
	}
	for _, i := range slices.Backward(items[q.rest:]) {
		row := byKey[i.Key]
		q.kept = append(q.kept, Quarantined{
			Number: present.InboxNumber(row), Key: row.Key, From: present.InboxSender(row), Subject: present.InboxSubject(row), At: timeOf(row.At),
			Gate: present.OneLine(row.Gate), Reason: present.OneLine(row.Reason), Field: v.EvidenceField(i), Evidence: present.OneLine(row.Evidence),
			Why: present.WhyQuarantined(row, v.EvidenceField(i)), Text: plain.Shorten(from.TextOfQuarantined(i), quarantinedText),
		})
	}
	return q.kept, q.rest, nil
}

// open returns the open questions to the operator.
func (r *reader) open(v view.Reader, s state.State, st view.Status, now time.Time) []Question {
	all := []Question{}
	texts := map[string]string{}
	for _, w := range s.OperatorWaits(now) {
		text := cmp.Or(r.questions[w.ID], v.QuestionText(s, w))
		texts[w.ID] = text
		_, key, _ := s.OperatorWait(w.ID)
		number := ""
		if m, ok := s.Message(key); ok {
			number = present.InboxNumber(v.InboxRow(m))
		}
		all = append(all, Question{
			ID: w.ID, Number: number, Text: text, Options: append([]string{}, w.Options...), Asked: w.Asked.UTC(), Deadline: view.OrNull(w.By),
			Permission: w.Permit != "" || slices.Equal(w.Options, []string{turn.Allow, turn.Refuse}),
		})
	}
	r.questions = texts
	return all
}
