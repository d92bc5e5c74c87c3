// Package page shows agents to a browser: the page of `listen`, the file of `status --html`, and
// the metrics for Prometheus. It only arranges what cycle/view reads, in the words of
// commands/present. An act on the page calls the method of cycle.Agent that the command calls.
package page

import (
	"sync"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
)

// Document is everything that the page shows, as JSON: times in UTC by RFC 3339. A field is
// null, never absent.
type Document struct {
	Made     time.Time `json:"made"`
	Now      time.Time `json:"now"` // when it was written for this reader
	Version  string    `json:"version"`
	Host     string    `json:"host"`
	Zones    []Zone    `json:"zones"`     // of the listener's clock, the oldest first
	Live     bool      `json:"live"`      // false in a file
	ActToken *string   `json:"act_token"` // of this session; null: the page only shows
	Agents   []Agent   `json:"agents"`
}

// Zone is the distance of the listener's clock from UTC, from a time on.
type Zone struct {
	From    time.Time `json:"from"`
	Minutes int       `json:"minutes"` // east of UTC
}

// Agent is one agent on the page. With an Error, everything after it is empty.
type Agent struct {
	Handle  string  `json:"handle"`
	MayAct  bool    `json:"may_act"` // [listen] page = "act"
	Error   *string `json:"error"`   // the state cannot be read
	Trouble []Row   `json:"trouble"` // the rows of `status` in capitals
	Rows    []Row   `json:"rows"`    // the other rows of `status`

	Status     *view.Status  `json:"status"` // as `status --json` prints it
	Turn       *Turn         `json:"turn"`   // null: no turn runs or waits
	Messages   []Message     `json:"messages"`
	Quarantine []Quarantined `json:"quarantine"`
	More       More          `json:"more"` // that are left out
	Questions  []Question    `json:"questions"`
	Schedule   []Planned     `json:"schedule"` // the next first
	Bands      Bands         `json:"bands"`
	Costs      Costs         `json:"costs"`
	History    []Entry       `json:"history"` // the newest first
}

// More counts the rows that a document leaves out.
type More struct {
	Messages   int `json:"messages"`
	Quarantine int `json:"quarantine"`
	Schedule   int `json:"schedule"`
}

// Row is a row of `status`.
type Row struct {
	Label string `json:"label"`
	Text  string `json:"text"`
}

// Turn is the running or suspended turn, and the activity of its agent.
type Turn struct {
	Words     string       `json:"words"` // one line: "responding for 12s"
	Lifecycle *string      `json:"lifecycle"`
	State     *string      `json:"state"`
	Tool      *string      `json:"tool"`
	Since     *time.Time   `json:"since"`    // of the turn
	StateAt   *time.Time   `json:"state_at"` // when State began; null: unknown
	KillAt    *time.Time   `json:"kill_at"`
	KillFor   *string      `json:"kill_for"`
	Message   *TurnMessage `json:"message"`
	Steps     []Step       `json:"steps"` // the last ones, the newest at the end
}

// TurnMessage is the message that a turn answers.
type TurnMessage struct {
	Number  string `json:"number"`
	From    string `json:"from"`
	Subject string `json:"subject"`
}

// Step is something that the agent did in its turn.
type Step struct {
	At   time.Time `json:"at"`
	Kind string    `json:"kind"` // "text", "thinking", "tool", "result", "other"
	Text string    `json:"text"`
}

// Message is a message in the inbox whose turn has not ended.
type Message struct {
	Number   string    `json:"number"`
	Key      string    `json:"key"`
	From     string    `json:"from"`
	Subject  string    `json:"subject"`
	At       time.Time `json:"at"`
	State    string    `json:"state"` // "waiting", "deferred", "held", "working", "fetching", "failing"
	Why      string    `json:"why"`   // why it waits, as `inbox` says it
	MayRetry bool      `json:"may_retry"`
	MayDrop  bool      `json:"may_drop"`
}

// Quarantined is an item of the quarantine.
type Quarantined struct {
	Number   string    `json:"number"`
	Key      string    `json:"key"`
	From     string    `json:"from"`
	Subject  string    `json:"subject"`
	At       time.Time `json:"at"`
	Gate     string    `json:"gate"`
	Reason   string    `json:"reason"`
	Field    *string   `json:"field"` // the field of the header that decided
	Evidence string    `json:"evidence"`
	Why      string    `json:"why"`  // the words of `explain`
	Text     string    `json:"text"` // the first 2,000 characters
}

// Question is an open question of the agent to its operator, or a permission that it asks for.
type Question struct {
	ID         string     `json:"id"`
	Number     string     `json:"number"`
	Text       string     `json:"text"`
	Options    []string   `json:"options"`
	Asked      time.Time  `json:"asked"`
	Deadline   *time.Time `json:"deadline"`
	Permission bool       `json:"permission"` // its options approve or refuse something
}

// Planned is something that the agent will do by itself.
type Planned struct {
	What string    `json:"what"` // "poll", "phase", "ack", "wakeup", "prompt", "alarm", "retry", "kill", "resume"
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// Bands are the phases of a day and of a week.
type Bands struct {
	Day  view.Band `json:"day"`
	Week view.Band `json:"week"`
}

// Costs are the known costs of turns against the budget, in US dollars.
type Costs struct {
	Days      []DayCost `json:"days"` // the last 14 local days, the oldest first
	MonthUSD  float64   `json:"month_usd"`
	BudgetDay *float64  `json:"budget_day_usd"`
	CreditUSD *float64  `json:"credit_usd"`
}

// DayCost is one local day.
type DayCost struct {
	Day   string  `json:"day"` // 2026-11-28
	USD   float64 `json:"usd"`
	Turns int     `json:"turns"`
}

// Entry is a line of `history`.
type Entry struct {
	ID    string    `json:"id"` // SERIAL.N, as `events` has it
	At    time.Time `json:"at"`
	Kind  string    `json:"kind"` // "message", "answer", "phase", "trouble", "order", "other"
	Text  string    `json:"text"`
	Quote *string   `json:"quote"` // the words of the message
}

// Source is an agent that a page shows.
type Source struct {
	Agent  *cycle.Agent
	MayAct bool // [listen] page = "act"

	// WithoutWords leaves out the words of the operator and of others, for a turn that another agent
	// or a program caused.
	WithoutWords bool
}

// NewDocument returns the document of these agents at a time. The caller sets Version, Host,
// Live and ActToken. An agent whose state cannot be read has an Error. A program that makes documents
// again and again uses a Maker.
func NewDocument(agents []Source, now time.Time) Document { return new(Maker).Document(agents, now) }

// Maker makes documents. It remembers each agent, so that the next document costs only the changes. The zero Maker is ready for use, also by several goroutines.
type Maker struct {
	mu      sync.Mutex
	readers map[string]*reader // by handle and state directory
}

// Document is NewDocument.
func (m *Maker) Document(agents []Source, now time.Time) Document {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := Document{Made: now.UTC(), Agents: []Agent{}}
	known := m.readers
	m.readers = map[string]*reader{}
	for _, a := range agents {
		key := a.Agent.Handle + "\n" + a.Agent.Store.Dir
		r := known[key]
		if r == nil {
			r = &reader{}
		}
		m.readers[key] = r
		d.Agents = append(d.Agents, tame(r.agent(a, now)))
	}
	return d
}
