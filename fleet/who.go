package fleet

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/nats-io/nats.go"
)

// Row is a row of the registry: an agent's description of itself, or the last look for work of
// one of its hosts. Every field except Stored comes from its writer, or from a forger.
type Row struct {
	Handle string
	Host   string    // "" for the agent's description of itself
	At     time.Time // when it was signed
	Stored time.Time // by the server's clock
	Body   []byte

	at, signature string
}

// SignedBy reports whether the key made the signature of the row.
func (r Row) SignedBy(public string) bool {
	return !r.At.IsZero() && verifies(public, r.signature, whoLine(r.name(), r.at), r.Body)
}

// name returns the name in the signature of the row. It includes the host, so that the row of
// an agent cannot pass for the look of a host.
func (r Row) name() string {
	if r.Host == "" {
		return r.Handle
	}
	return r.Handle + "." + r.Host
}

// Register writes our row of the registry, and waits until the server has it.
func (c *Conn) Register(ctx context.Context, body []byte, at time.Time) error {
	m, err := c.row(ctx, whoSubject(c.Handle), c.Handle, body, at)
	if err != nil {
		return err
	}
	_, err = c.store(ctx, WhoStream, m, nil)
	return err
}

// Look records that this host looked for work, and returns the time by the server's clock.
func (c *Conn) Look(ctx context.Context, host string, now time.Time) (time.Time, error) {
	m, err := c.look(ctx, host, now)
	if err != nil {
		return time.Time{}, err
	}
	s, err := c.store(ctx, WhoStream, m, nil)
	if err != nil {
		return time.Time{}, err
	}
	var stored time.Time
	err = c.do(ctx, func(ctx context.Context, l *link) error {
		f, err := l.begin(ctx)
		if err != nil {
			return err
		}
		defer f.end()
		if err := f.ask("look", "$JS.API.DIRECT.GET."+WhoStream+"."+m.Subject, nil, nil); err != nil {
			return err
		}
		a, err := f.next()
		if err != nil {
			return err
		}
		if n, err := strconv.ParseUint(last(a.Header, "Nats-Sequence"), 10, 64); err != nil || n < s.Sequence {
			return lostError(l.server, 503, errNoAnswer) // the server lags
		}
		stored, err = time.Parse(time.RFC3339Nano, last(a.Header, "Nats-Time-Stamp"))
		if err != nil {
			return &Error{Server: l.server, Err: errInvalidAnswer}
		}
		return nil
	})
	return stored, err
}

// look returns the message that records the look of a host, or nil without a host.
func (c *Conn) look(ctx context.Context, host string, now time.Time) (*nats.Msg, error) {
	if host == "" {
		return nil, nil
	}
	body, err := json.Marshal(hostRow{c.Version})
	if err != nil {
		return nil, err
	}
	return c.row(ctx, lookSubject(c.Handle, host), c.Handle+"."+host, body, now)
}

// hostRow is the content of the row of a host.
type hostRow struct {
	Version string `json:"version,omitempty"` // of the agent's program
}

// Version returns the version of the program on the host of a row, or "".
func (r Row) Version() string {
	var h hostRow
	if json.Unmarshal(r.Body, &h) != nil || len(h.Version) > maxVersion || strings.ContainsFunc(h.Version, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		return ""
	}
	return h.Version
}

const maxVersion = 64 // in bytes

// Looked is Look without waiting for the server.
func (c *Conn) Looked(ctx context.Context, host string, now time.Time) error {
	m, err := c.look(ctx, host, now)
	if err != nil {
		return err
	}
	return c.do(ctx, func(_ context.Context, l *link) error {
		if err := l.nc.PublishMsg(m); err != nil {
			return connError(l.server, err)
		}
		return nil
	})
}

func (c *Conn) row(ctx context.Context, subject, name string, body []byte, at time.Time) (*nats.Msg, error) {
	signed := at.UTC().Format(timeLayout)
	sig, err := c.sign(ctx, whoLine(name, signed), body)
	if err != nil {
		return nil, err
	}
	return &nats.Msg{Subject: subject, Header: nats.Header{headerAt: {signed}, headerSignature: {sig}}, Data: body}, nil
}

// The limits of one page of the registry.
const (
	pageRows  = 500
	pageBytes = 1 << 20
)

// Rows returns at most that many rows of the registry, in the order in which they were written.
func (c *Conn) Rows(ctx context.Context, limit int) ([]Row, error) {
	return c.rows(ctx, whoSubject(">"), limit)
}

// Hosts returns the rows of the hosts where an agent with our handle looked for work, one page at
// most.
func (c *Conn) Hosts(ctx context.Context) ([]Row, error) {
	return c.rows(ctx, lookSubject(c.Handle, "*"), pageRows)
}

// rows returns at most limit rows whose subjects match.
func (c *Conn) rows(ctx context.Context, subjects string, limit int) ([]Row, error) {
	var rows []Row
	next := uint64(1)
	err := c.do(ctx, func(ctx context.Context, l *link) error {
		for next > 0 && len(rows) < limit {
			if err := c.page(ctx, l, subjects, &rows, &next); err != nil {
				return err
			}
		}
		return nil
	})
	return rows[:min(len(rows), limit)], err
}

// page reads one page of the matching rows of the registry, from the number *next on. It sets *next to the number of
// the next page, or to 0 after the last page. The registry keeps one message per subject, so
// these rows are the newest.
func (c *Conn) page(ctx context.Context, l *link, subjects string, rows *[]Row, next *uint64) error {
	f, err := l.begin(ctx)
	if err != nil {
		return err
	}
	defer f.end()
	request, err := json.Marshal(map[string]any{"seq": *next, "next_by_subj": subjects, "batch": pageRows, "max_bytes": pageBytes})
	if err != nil {
		return err
	}
	if err := f.ask("row", "$JS.API.DIRECT.GET."+WhoStream, nil, request); err != nil {
		return err
	}
	for {
		a, err := f.next()
		switch {
		case err != nil:
			return err
		case a.status == 404:
			*next = 0
			return nil
		case a.status == 204:
			if last(a.Header, "Nats-Num-Pending") == "0" {
				*next = 0
			}
			return nil
		case a.status != 0:
			return &Error{Server: l.server, Code: a.status, Err: errInvalidAnswer}
		}
		number, err := strconv.ParseUint(last(a.Header, "Nats-Sequence"), 10, 64)
		if err != nil || number < *next {
			return &Error{Server: l.server, Err: errInvalidAnswer}
		}
		*next = number + 1
		if r, ok := rowOf(a.Msg); ok {
			*rows = append(*rows, r)
		}
	}
}

// rowOf parses a row, and reports whether m is a valid one.
func rowOf(m *nats.Msg) (Row, bool) {
	name, ok := strings.CutPrefix(last(m.Header, "Nats-Subject"), whoSubject(""))
	if !ok {
		return Row{}, false
	}
	r := Row{Body: m.Data, at: m.Header.Get(headerAt), signature: m.Header.Get(headerSignature)}
	r.Handle, r.Host, _ = strings.Cut(name, ".")
	var err error
	if r.At, err = time.Parse(timeLayout, r.at); err != nil {
		return Row{}, false
	}
	r.Stored, err = time.Parse(time.RFC3339Nano, last(m.Header, "Nats-Time-Stamp"))
	return r, err == nil && !strings.Contains(r.Host, ".")
}
