package config

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"agentstateloop/commands/terminal"
	"agentstateloop/cron"
	"agentstateloop/cycle"
	"agentstateloop/state"
	"agentstateloop/turn"

	"github.com/BurntSushi/toml"
)

// wirePolicy returns the policy of the state machine for the parts of an agent. A nil part is not
// configured.
func wirePolicy(c *Config, mail *cycle.Mail, mesh *cycle.Mesh, turns *turn.Config, replies cycle.Replies, budget state.Budget) state.Policy {
	policy := state.Policy{
		Location:        time.Local,
		HasMail:         mail != nil,
		HasMesh:         mesh != nil,
		PacesMesh:       mesh != nil && mesh.Paces,
		Keymaster:       c.File.Mesh.Keymaster,
		Peers:           c.File.Mesh.Peers,
		Ack:             replies.Ack != nil,
		QuietPrep:       replies.QuietPrep != nil,
		QuietActive:     replies.QuietActive != nil,
		Notices:         c.File.Replies.Notices,
		Working:         c.File.Replies.Working,
		NoPeerAck:       !c.File.Replies.AckPeers,
		Copies:          c.File.Replies.Sent != "",
		AckAfter:        time.Duration(c.File.Replies.AckAfter),
		Turns:           turns != nil,
		SelfTurns:       c.File.Turn.SelfTurns,
		MaxAttempts:     c.File.Turn.MaxAttempts,
		Rate:            c.File.Budget.MailsAnHour,
		EventRate:       c.File.Budget.EventsAnHour,
		IdleInterval:    time.Duration(c.File.Timing.IdleInterval),
		EngagedInterval: time.Duration(c.File.Timing.EngagedInterval),
		PrepTimeout:     time.Duration(c.File.Timing.PrepTimeout),
		ActiveTimeout:   time.Duration(c.File.Timing.ActiveTimeout),
		Cooldown:        time.Duration(c.File.Timing.Cooldown),
		ByThread:        c.File.Turn.Conversation == ConversationThread,
		Collect:         time.Duration(c.File.Turn.Collect),
		TurnTimeout:     time.Duration(c.File.Turn.Timeout),
		Budget:          budget,
	}
	if mail != nil {
		policy.Operator, policy.Others = mail.Filter.Operators[0], mail.Filter.Operators[1:]
		policy.Challenge = mail.Filter.Challenges()
	}
	return policy
}

// checkIntervals rejects an interval of [timing] that a crontab line cannot express.
func (c *Config) checkIntervals() error {
	for _, interval := range []struct {
		key   string
		value Duration
	}{
		{"timing.idle_interval", c.File.Timing.IdleInterval},
		{"timing.engaged_interval", c.File.Timing.EngagedInterval},
	} {
		if _, err := cron.Expr(time.Duration(interval.value)); err != nil {
			return c.Wrong(interval.key, "%v", err)
		}
	}
	return nil
}

// wireSchedule wires [schedule]. self is the path of the program for the crontab line or the timer.
func (l *Loader) wireSchedule(c *Config, self string) (cycle.Schedule, error) {
	s := c.File.Schedule
	if err := c.oneOf("schedule.mode", s.Mode, cycle.Modes()...); err != nil {
		return cycle.Schedule{}, err
	}
	home, err := l.Home()
	if err != nil && (s.Mode == cycle.ModeSystemd || s.Mode == cycle.ModeLaunchd) {
		return cycle.Schedule{}, err
	}
	if s.Crontab == "" {
		return cycle.Schedule{}, c.At(splitKey("schedule.crontab"), `remove it for the default, "crontab"`, "is empty")
	}
	return cycle.Schedule{
		Mode: s.Mode,
		Table: cron.Table{
			Command: c.ResolveProgram(s.Crontab),
			Lock:    filepath.Join(c.stateFolder(), "crontab.lock"),
			Backup:  filepath.Join(c.StateDir().Path, "crontab-backups"),
		},
		Binary: self,
		Home:   home,
		Linger: time.Duration(s.Linger),
	}, nil
}

// Limits on the values. A larger value is surely a typing error.
const (
	maxBudget     = 1_000_000 // dollars
	maxPrice      = 10_000    // dollars per million tokens
	maxMultiplier = 100
	maxMails      = 100_000 // an hour
)

// wireBudget returns the limits of [budget].
func wireBudget(c *Config) (state.Budget, error) {
	b := state.Budget{HasCredit: c.Has("budget.credit_usd")}
	s := c.File.Budget
	for _, amount := range []struct {
		key   string
		usd   float64
		into  *state.Micros
		limit bool // a value of 0 would allow no turn
	}{
		{"budget.credit_usd", s.CreditUSD, &b.Credit, false},
		{"budget.day_usd", s.DayUSD, &b.Day, true},
		{"budget.turn_usd", s.TurnUSD, &b.Turn, true},
		{"budget.low_usd", s.LowUSD, &b.Low, false},
		{"budget.critical_usd", s.CriticalUSD, &b.Critical, false},
	} {
		micros, ok := state.Dollars(amount.usd)
		if !ok || amount.usd > maxBudget {
			return b, c.Wrong(amount.key, "%v is out of range (0 to %d dollars)", amount.usd, maxBudget)
		}
		if amount.limit && micros == 0 && c.Has(amount.key) {
			return b, c.At(splitKey(amount.key), "remove it for no limit; to stop all turns, use `agentstateloop halt`", "a limit of 0 would allow no turns")
		}
		*amount.into = micros
	}
	if n := s.MailsAnHour; n < 0 || n > maxMails {
		return b, c.At(splitKey("budget.mails_an_hour"), "0 means no limit", "%d is out of range (0 to %d mails)", n, maxMails)
	}
	if n := s.EventsAnHour; n < 0 || n > maxMails {
		return b, c.At(splitKey("budget.events_an_hour"), "0 means no limit", "%d is out of range (0 to %d messages)", n, maxMails)
	}
	if b.Critical > b.Low {
		key := "budget.critical_usd"
		if !c.Has(key) {
			key = "budget.low_usd"
		}
		return b, c.Wrong(key, "critical_usd (%v) is higher than low_usd (%v)", b.Critical, b.Low)
	}
	return b, nil
}

// wirePrices returns the prices of [prices], and the built-in prices of all other models. It
// multiplies all prices by budget.multiplier.
func wirePrices(c *Config) (turn.Prices, error) {
	multiplier := c.File.Budget.Multiplier
	if !(multiplier > 0 && multiplier <= maxMultiplier) {
		return turn.Prices{}, c.Wrong("budget.multiplier", "%v is out of range (above 0, at most %d)", multiplier, maxMultiplier)
	}
	own := map[string]turn.Price{}
	for model, s := range c.File.Prices {
		price, err := c.price(model, s)
		if err != nil {
			return turn.Prices{}, err
		}
		own[model] = price
	}
	return turn.NewPrices(own, multiplier), nil
}

// price returns the price of one model. A missing cache price equals the input price.
func (c *Config) price(model string, s priceSection) (turn.Price, error) {
	p := turn.Price{Input: s.Input, Output: s.Output, CacheRead: s.CacheRead, CacheWrite: s.CacheWrite}
	key := func(leaf ...string) toml.Key { return slices.Concat(toml.Key{"prices", model}, leaf) }
	for _, part := range []struct {
		leaf   string
		into   *float64
		needed bool
	}{
		{"input", &p.Input, true},
		{"output", &p.Output, true},
		{"cache_read", &p.CacheRead, false},
		{"cache_write", &p.CacheWrite, false},
	} {
		switch set := c.meta.IsDefined(key(part.leaf)...); {
		case !set && part.needed:
			return p, c.At(key(), "set it in dollars per million tokens, such as 2.50", "%s is missing", part.leaf)
		case !set:
			*part.into = p.Input
		case math.IsNaN(*part.into) || *part.into < 0 || *part.into > maxPrice:
			return p, c.At(key(part.leaf), "", "%v is out of range (0 to %d dollars per million tokens)", *part.into, maxPrice)
		}
	}
	return p, nil
}

// Duration is a duration above zero, written "90s", "30m" or "90d".
type Duration time.Duration

// UnmarshalText parses a duration with terminal.ParseDuration.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := terminal.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q %w", text, err)
	}
	*d = Duration(parsed)
	return nil
}

// OptionalDuration is a Duration that may also be "", which is 0 and means off.
type OptionalDuration time.Duration

// UnmarshalText parses a duration or an empty text.
func (d *OptionalDuration) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*d = 0
		return nil
	}
	return (*Duration)(d).UnmarshalText(text)
}

// ZeroDuration is a Duration that may also be "0s", which means off.
type ZeroDuration time.Duration

// UnmarshalText parses a duration or "0s".
func (d *ZeroDuration) UnmarshalText(text []byte) error {
	if string(text) == "0s" {
		*d = 0
		return nil
	}
	return (*Duration)(d).UnmarshalText(text)
}

// MarshalText writes the duration in the format of agent.toml.
func (d ZeroDuration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }
