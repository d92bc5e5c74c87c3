package seat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"agentstateloop/fleet"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// Engine keeps the head, the history and the files of one agent for all its hosts. *fleet.Conn is
// one; the promises are documented there.
type Engine interface {
	LoadHead(ctx context.Context) (fleet.Head, error)
	OfferHead(ctx context.Context, after uint64, body []byte) (revision uint64, err error)
	PutBlock(ctx context.Context, n uint64, body []byte) error
	GetBlocks(ctx context.Context, from, to uint64, take func(n uint64, body []byte) error) error
	PutFile(ctx context.Context, sum string, size int64, content io.Reader) error
	GetFile(ctx context.Context, sum string, size int64, take func(io.Reader) error) error
	SetWish(ctx context.Context, body []byte) error
	LoadWish(ctx context.Context) (body []byte, stored time.Time, err error)

	// Seal encrypts with the key of the agent, and Unseal decrypts.
	Seal(ctx context.Context, plain []byte) (sealed string, err error)
	Unseal(ctx context.Context, sealed string) (plain []byte, err error)
}

// Seat is the seat of one agent, as one of its hosts sees it. It is the store.Arbiter of the
// agent's Store. Its methods may be called concurrently, and by several processes.
type Seat struct {
	Handle  string
	Host    string // the name of this host, unique in the fleet
	Program string // the version of this program
	Lease   time.Duration
	Auto    bool // take the seat of a silent holder
	Store   *store.Store
	Engine  Engine

	// Names returns the files and folders of the state directory that another host needs for s. A
	// name may be missing in the directory.
	Names func(s state.State) []string

	// Evict kills the agent that runs here for the turn of a state, before the state of another host
	// replaces it: later sweeps would look for the turn of that host. nil: no agent runs here.
	Evict func(ctx context.Context, s state.State) error

	// Clock is the clock of the boot with that id: see package boot.
	Clock func() (id string, now time.Duration, err error)

	// Looked records in the servers, for people, that this host looks for work. It does not wait.
	// Look calls it on a standby, whose poll ends there. nil: not recorded.
	Looked func(ctx context.Context) error

	Now   func() time.Time                                 // for people only
	NewID func() string                                    // store.NewID outside the simulator
	Pause func(ctx context.Context, d time.Duration) error // between tries; nil: a timer
}

// StandbyError refuses an act of a host that does not have the seat.
type StandbyError struct {
	Handle string
	Holder string        // the host that acts; "": the seat was released
	To     string        // the host that the seat was released to, or ""
	Term   uint64        // of its seat
	Ago    time.Duration // since this host saw the newest sign of it; negative if unknown
	Reason string        // why the host lost the seat just now, or ""
}

func (e *StandbyError) Error() string {
	if e.Holder == "" {
		return fmt.Sprintf("no host acts for %s: the seat was released to %s", e.Handle, cmp.Or(e.To, "any host"))
	}
	text := fmt.Sprintf("%s acts for %s (term %d", e.Holder, e.Handle, e.Term)
	if e.Ago >= 0 {
		text += ", " + ago(e.Ago) + " ago"
	}
	text += ")"
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// ago formats a short time for people.
func ago(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d h", d/time.Hour)
}

// TroubleError stops the agent on this host until a person decides. Its text begins in capitals.
type TroubleError struct {
	Trouble Trouble
	Text    string
}

func (e *TroubleError) Error() string { return e.Text }

// Trouble is a reason to stop until a person decides.
type Trouble string

// The troubles.
const (
	NotJoined Trouble = "not joined" // this directory is not in the fleet
	OwnLife   Trouble = "own life"   // this directory has changed outside the fleet
	Forgot    Trouble = "forgot"     // the servers have lost heads that they had accepted
	Foreign   Trouble = "foreign"    // the head is not signed by the agent's key
	Left      Trouble = "left"       // the agent has left the fleet
)

// trouble returns the error for a trouble.
func (s *Seat) trouble(why Trouble, detail string) error {
	text := ""
	switch why {
	case NotJoined:
		text = fmt.Sprintf("THIS HOST HAS NOT JOINED: [fleet] is set, and %s is not in the fleet of %s yet. Run `agentstateloop fleet join`", s.Store.Dir, s.Handle)
	case OwnLife:
		text = fmt.Sprintf("THIS DIRECTORY IS NOT IN THE FLEET: %s holds a state of %s that the servers never had (%s). `agentstateloop fleet join --replace` sets it aside and takes the state of the servers", s.Store.Dir, s.Handle, detail)
	case Forgot:
		text = fmt.Sprintf("THE SERVERS HAVE LOST THE STATE OF %s: %s. Nothing is sent or run here any more. First look for the disks of the servers. If they are gone, run `agentstateloop fleet join --replace` on the host that acted last: it stores its state there", s.Handle, detail)
	case Foreign:
		text = fmt.Sprintf("THE STATE OF %s IN THE SERVERS HAS A WRONG SIGNATURE: somebody without the key of the agent wrote it (change %s). Find out who may write to the servers, then run `agentstateloop fleet join --replace` on the host that acted last", s.Handle, detail)
	case Left:
		text = fmt.Sprintf("%s HAS LEFT THE FLEET: it lives on %s alone. Run `agentstateloop uninstall` here, or `agentstateloop fleet join` there", s.Handle, detail)
		if detail == s.Host {
			text = fmt.Sprintf("%s HAS LEFT THE FLEET: it lives on this host alone. Remove the [fleet] table, or run `agentstateloop fleet join`", s.Handle)
		}
	}
	return &TroubleError{Trouble: why, Text: text}
}

// ErrUnsure means that no server has answered in time: a change may or may not be accepted. The next
// poll finds out.
var ErrUnsure = errors.New("the servers did not answer in time: the next poll finds out whether they have accepted the change")

// within bounds the part of a commit that waits for the answer to an offer.
const within = 5 * time.Second

// uploadWithin bounds the upload of the files of a commit. A mail of 64 MiB needs 4.5 Mbit/s.
const uploadWithin = 2 * time.Minute

func (s *Seat) pause(ctx context.Context, d time.Duration) error {
	if s.Pause != nil {
		return s.Pause(ctx, d)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
