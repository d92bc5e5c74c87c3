package page

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentstateloop/commands/present"
	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// MetricsType is the Content-Type of Metrics.
const MetricsType = "text/plain; version=0.0.4; charset=utf-8"

// Metrics writes the metrics of these agents in the text format of Prometheus (docs/metrics.md). It
// reads the state of each agent, and no history. Each counter is a number of the state that only rises.
func Metrics(w io.Writer, agents []Source, version string, now time.Time) error {
	all := measureAll(agents, now)
	e := exposition{}
	e.family("build_info", "gauge", "The version of the program.")
	e.sample("build_info", 1, "version", version)
	for _, f := range families() {
		e.family(f.name, f.kind, f.help)
		for _, m := range all {
			if m.status == nil && f.name != "up" {
				continue
			}
			for _, s := range f.of(m) {
				e.sample(f.name, s.value, append([]string{"agent", m.name}, s.labels...)...)
			}
		}
	}
	_, err := w.Write(e.text.Bytes())
	return err
}

// measured has the values for the metrics of one agent. status is nil if its state cannot be read.
type measured struct {
	name   string // the label: the handle, and the state directory of a second agent with this handle
	state  state.State
	status *view.Status
	rows   []present.StatusRow
	limit  state.Limit
	capped bool // limit is set
}

func measureAll(agents []Source, now time.Time) []measured {
	var all []measured
	seen := map[string]bool{} // names and state directories
	for _, a := range agents {
		dir := a.Agent.Store.Dir
		if seen[dir] {
			continue // the same agent twice
		}
		m := measure(a.Agent, now)
		if seen[m.name] {
			m.name += " " + dir
		}
		seen[m.name], seen[dir] = true, true
		all = append(all, m)
	}
	return all
}

func measure(a *cycle.Agent, now time.Time) measured {
	m := measured{name: a.Handle}
	s, err := a.Store.Read()
	if err != nil {
		return m
	}
	v := a.View()
	st := v.StatusOf(s)
	m.state, m.status = s, &st
	m.limit, m.capped = s.Tightest(a.Policy, now)
	for _, row := range present.StatusRows(unfitted{}, st, a.Schedule.Mode, a.Mail != nil && !v.ProvesMail, now) {
		if row.IsTrouble() {
			m.rows = append(m.rows, row)
		}
	}
	return m
}

// family is a metric with the samples of each agent.
type family struct {
	name, kind, help string
	of               func(measured) []sample
}

// sample is one value. labels are names and values in turn.
type sample struct {
	value  float64
	labels []string
}

// families returns all metrics of agents. Their names and labels do not change between versions. It is a
// function, so that no start-up pays for it.
func families() []family {
	return []family{
		{"up", "gauge", "Whether the state of the agent can be read.", func(m measured) []sample { return yes(m.status != nil) }},
		{"phase", "gauge", "The phase of the agent: 1 for the present one.", func(m measured) []sample {
			return oneOf("phase", string(m.status.Phase), string(state.IDLE), string(state.PREP), string(state.ACTIVE))
		}},
		{"phase_start_timestamp_seconds", "gauge", "When the phase began.", func(m measured) []sample { return moment(m.status.PhaseSince) }},
		{"halted", "gauge", "Whether HALT is on, here or on the mesh.", func(m measured) []sample { return yes(m.status.Halted) }},
		{"state_changed_timestamp_seconds", "gauge", "When the state last changed; every poll changes it.", func(m measured) []sample { return moment(&m.state.LastStep) }},
		{"next_poll_timestamp_seconds", "gauge", "When the next poll is due.", func(m measured) []sample { return moment(m.status.NextDue) }},
		{"mail_read_timestamp_seconds", "gauge", "When the mailbox was last read to its end.", func(m measured) []sample { return moment(m.status.LastLook) }},
		{"operator_mail_timestamp_seconds", "gauge", "When the newest mail of the operator came.", func(m measured) []sample {
			if m.status.LastMail == nil {
				return nil
			}
			return moment(&m.status.LastMail.At)
		}},
		{"trouble", "gauge", "The rows of status in capitals, by their label. Without trouble it has no series.", troubles},
		{"troubles", "gauge", "How many rows of status are in capitals.", func(m measured) []sample { return number(len(m.rows)) }},
		{"inbox_messages", "gauge", "Messages whose turn has not ended, and those in quarantine.", func(m measured) []sample {
			i := m.status.Inbox
			return []sample{{float64(i.Waiting), []string{"state", "waiting"}}, {float64(i.Deferred), []string{"state", "deferred"}}, {float64(i.Held), []string{"state", "held"}}, {float64(i.Quarantined), []string{"state", "quarantined"}}}
		}},
		{"inbox_oldest_timestamp_seconds", "gauge", "When the oldest waiting message came.", func(m measured) []sample { return moment(oldestWaiting(m.state)) }},
		{"outbox_messages", "gauge", "Messages that wait to be sent, and those that were given up.", func(m measured) []sample {
			o := m.status.Outbox
			return []sample{{float64(o.Waiting), []string{"state", "waiting"}}, {float64(o.Undeliverable), []string{"state", "undeliverable"}}}
		}},
		{"questions", "gauge", "Open questions of the agent to its operator.", func(m measured) []sample {
			open := slices.DeleteFunc(slices.Clone(m.status.Questions), func(q view.StatusQuestion) bool { return q.Kind == view.QuestionAsk || q.Kind == view.QuestionReport })
			return number(len(open))
		}},
		{"turn", "gauge", "The status of the turn: 1 for the present one.", func(m measured) []sample {
			return oneOf("status", string(m.status.Turn.Status), string(state.HeadIdle), string(state.HeadDispatched), string(state.HeadRunning), string(state.HeadSuspended))
		}},
		{"turn_start_timestamp_seconds", "gauge", "When the attempt of the present turn began, or its wait.", func(m measured) []sample { return moment(m.status.Turn.Since) }},
		{"tier", "gauge", "The tier of the budget: 1 for the present one.", func(m measured) []sample {
			return oneOf("tier", string(m.status.Tier), string(state.TierNormal), string(state.TierLow), string(state.TierCritical), string(state.TierDead))
		}},
		{"budget_left_dollars", "gauge", "What is left of the tightest limit of the budget.", func(m measured) []sample {
			if !m.capped {
				return nil
			}
			return []sample{{value: m.limit.Left.USD()}}
		}},
		{"cost_today_dollars", "gauge", "The known cost of turns on this local day.", func(m measured) []sample { return []sample{{value: m.status.Spend.DayUSD}} }},
		{"cost_dollars_total", "counter", "The known cost of all turns.", func(m measured) []sample { return []sample{{value: m.state.Purse.Total.USD()}} }},
		{"messages_total", "counter", "Messages that came into the inbox.", func(m measured) []sample { return count(m.state.Arrivals) }},
		{"quarantined_total", "counter", "Messages that a gate rejected and the quarantine kept.", func(m measured) []sample { return count(m.state.Numbers.Quarantined) }},
		{"turn_attempts_total", "counter", "Attempts at turns, including those whose end was noticed late.", func(m measured) []sample { return count(m.state.Epoch) }},
		{"commits_total", "counter", "Changes of the state, one or more for each poll.", func(m measured) []sample { return count(m.state.Serial) }},
	}
}

func yes(is bool) []sample {
	if is {
		return number(1)
	}
	return number(0)
}

func number(n int) []sample { return []sample{{value: float64(n)}} }

func count(n uint64) []sample { return []sample{{value: float64(n)}} }

// moment returns a time in seconds, or no sample for an unknown one.
func moment(t *time.Time) []sample {
	if t == nil || t.IsZero() {
		return nil
	}
	return []sample{{value: float64(t.UnixMilli()) / 1000}}
}

// oneOf returns a state set.
func oneOf(label, present string, all ...string) (set []sample) {
	for _, one := range all {
		s := yes(one == present)[0]
		s.labels = []string{label, one}
		set = append(set, s)
	}
	return set
}

// troubles counts the rows in capitals by their label.
func troubles(m measured) (set []sample) {
	for _, row := range m.rows {
		kind := strings.ToLower(row.Label)
		i := slices.IndexFunc(set, func(s sample) bool { return s.labels[1] == kind })
		if i < 0 {
			set = append(set, sample{labels: []string{"kind", kind}})
			i = len(set) - 1
		}
		set[i].value++
	}
	return set
}

// oldestWaiting returns when the oldest message came that only waits for its turn.
func oldestWaiting(s state.State) *time.Time {
	var oldest time.Time
	for _, m := range s.Inbox {
		if m.Status == state.Deferred || m.Held || s.SharesTurn(m) {
			continue
		}
		if at := m.Observed; oldest.IsZero() || at.Before(oldest) {
			oldest = at
		}
	}
	return view.OrNull(oldest)
}

// exposition is a text in the format of Prometheus.
type exposition struct{ text bytes.Buffer }

const metricPrefix = "agentstateloop_"

func (e *exposition) family(name, kind, help string) {
	fmt.Fprintf(&e.text, "# HELP %s%s %s\n# TYPE %[1]s%[2]s %[4]s\n", metricPrefix, name, help, kind)
}

func (e *exposition) sample(name string, value float64, labels ...string) {
	e.text.WriteString(metricPrefix + name)
	for i := 0; i < len(labels); i += 2 {
		lead := ","
		if i == 0 {
			lead = "{"
		}
		e.text.WriteString(lead + labels[i] + `="` + labelValue(labels[i+1]) + `"`)
	}
	e.text.WriteString("} " + strconv.FormatFloat(value, 'f', -1, 64) + "\n")
}

// labelValue returns a text, which may be foreign, as the value of a label.
func labelValue(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(plain.Line(text), `\`, `\\`), `"`, `\"`)
}
