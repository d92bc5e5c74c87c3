package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"agentstateloop/internal/plain"
	"agentstateloop/internal/secret"
)

// Ask sends a request to the servers as the administrator, and returns the body of the answer.
// It may be called concurrently.
type Ask func(ctx context.Context, subject string, body []byte) ([]byte, error)

// Wanted describes the assets that the servers should have.
type Wanted struct {
	Handles []string // each gets a mailbox
	Servers int      // number of servers

	// Check makes Create return the changes without making them.
	Check bool

	Secrets *secret.Known // kept out of crash reports; may be nil
}

// The actions of Create on an asset.
const (
	Same    = "same"    // it was already right
	Made    = "made"    // it was missing
	Mended  = "mended"  // it was different, and was corrected
	Differs = "differs" // it is different, and was left: see Change.Hint
)

// Change is the result of Create for one asset.
type Change struct {
	Asset string   // a stream, or a stream and a mailbox: ASL_BOX goulard3120
	Did   string   // Same, Made, Mended, Differs; with Wanted.Check, Made and Mended are still to do
	What  []string // the settings that are or were different: "max_age 1h0m0s instead of 168h0m0s"
	Hint  string   // how the administrator can change the settings that were left
}

// Create makes missing streams and mailboxes, and corrects wrong settings. It deletes no asset,
// and sets no limit that would delete stored messages. It returns assets that it leaves as
// Differs. After an error, it also returns the changes made so far, and can be called again.
func Create(ctx context.Context, ask Ask, w Wanted) ([]Change, error) {
	c := creation{ask: ask, Wanted: w}
	for _, a := range Assets(w.Servers) {
		err := c.stream(ctx, a.Stream)
		if a.Fleet && noStorage(err) {
			c.changes = append(c.changes, Change{Asset: a.Stream.Name, Did: Differs, What: []string{"missing: the servers have too little space for it"}, Hint: moreStorage()})
			continue
		}
		if err != nil {
			return c.changes, fmt.Errorf("%s: %w", a.Stream.Name, err)
		}
	}
	handles := slices.Clone(w.Handles)
	slices.Sort(handles)
	err := c.mailboxes(ctx, slices.Compact(handles))
	return c.changes, err
}

// atOnce is how many mailboxes are made at the same time. Most of the time for a mailbox goes
// into the servers' choice of its leader.
const atOnce = 8

// mailboxes makes or corrects the mailboxes of some agents. After an error it starts no more.
func (c *creation) mailboxes(ctx context.Context, handles []string) error {
	changes, done := make([]Change, len(handles)), make([]bool, len(handles))
	next, failed := make(chan int), make(chan error, atOnce)
	var working sync.WaitGroup
	for range atOnce {
		working.Go(c.Secrets.Guarded(func() {
			for i := range next {
				change, err := c.mailbox(ctx, handles[i])
				if err != nil {
					failed <- fmt.Errorf("mailbox of %s: %w", handles[i], err)
					return
				}
				changes[i], done[i] = change, true
			}
		}))
	}
	var err error
	for i := 0; i < len(handles) && err == nil; i++ {
		select {
		case next <- i:
		case err = <-failed:
		}
	}
	close(next)
	working.Wait() // mailboxes in progress may succeed, and are changes then
	for i, change := range changes {
		if done[i] {
			c.changes = append(c.changes, change)
		}
	}
	if err == nil && len(failed) > 0 {
		err = <-failed
	}
	return err
}

// creation is one call of Create.
type creation struct {
	Wanted
	ask     Ask
	changes []Change
	unmade  map[string]bool // the streams that a check found missing
}

// Refusal is an error answer of JetStream.
type Refusal struct {
	Code   int    `json:"code"`     // as in HTTP
	Number int    `json:"err_code"` // JetStream's own
	Text   string `json:"description"`
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("%s (%d)", plain.Line(plain.Cut(r.Text, 200)), r.Number)
}

// JetStream's error numbers.
const (
	numberNoStream   = 10059
	numberNoConsumer = 10014
)

func refusedAs(err error, number int) bool {
	r, ok := errors.AsType[*Refusal](err)
	return ok && r.Number == number
}

// noStorage reports whether the servers refused a stream because max_file_store has no room for its
// limit. The configuration of an older fleet plan has no room for the streams of [fleet].
func noStorage(err error) bool {
	const oneServer, cluster = 10047, 10005
	r, ok := errors.AsType[*Refusal](err)
	return ok && (r.Number == oneServer || r.Number == cluster && strings.Contains(r.Text, "insufficient storage"))
}

// moreStorage returns the hint for streams without room.
func moreStorage() string {
	return fmt.Sprintf("only agents with [fleet] use it: set max_file_store to %dGB in the configuration of each server, reload or restart it, and run fleet create again", StoreSize()>>30)
}

// call sends a request to the API of JetStream, and decodes its answer.
func (c *creation) call(ctx context.Context, subject string, request, into any) error {
	var body []byte
	if request != nil {
		var err error
		if body, err = json.Marshal(request); err != nil {
			return err
		}
	}
	data, err := c.ask(ctx, "$JS.API."+subject, body)
	if err != nil {
		return err
	}
	var answer struct {
		Error *Refusal `json:"error"`
	}
	if json.Unmarshal(data, &answer) != nil {
		return errNoJetStream
	}
	if answer.Error != nil {
		return answer.Error
	}
	if json.Unmarshal(data, into) != nil {
		return errNoJetStream
	}
	return nil
}

var errNoJetStream = errors.New("invalid answer: is this a NATS server with JetStream?")

// info asks for the configuration and the state of a stream or a consumer.
func (c *creation) info(ctx context.Context, subject string) (assetInfo, error) {
	var info assetInfo
	if err := c.call(ctx, subject, nil, &info); err != nil {
		return assetInfo{}, err
	}
	if info.Config == nil {
		return assetInfo{}, errNoJetStream
	}
	return info, nil
}

// assetInfo is JetStream's answer about a stream or a consumer.
type assetInfo struct {
	Config map[string]any `json:"config"` // the whole configuration, so that an update keeps settings that we do not know
	Time   time.Time      `json:"ts"`
	State  struct {       // of a stream
		Messages int64     `json:"messages"`
		Bytes    int64     `json:"bytes"`
		First    time.Time `json:"first_ts"`
	} `json:"state"`
}

// stream makes or corrects one stream.
func (c *creation) stream(ctx context.Context, want Stream) error {
	info, err := c.info(ctx, "STREAM.INFO."+want.Name)
	if refusedAs(err, numberNoStream) {
		return c.makeStream(ctx, want)
	}
	if err != nil {
		return err
	}
	found := compare(want, info.Config)
	change := Change{Asset: want.Name, Did: Same}
	mend, left := map[string]any{}, map[string]any{}
	for _, d := range found {
		if reason := info.reasonToLeave(d); reason != "" {
			left[d.field] = d.want
			change.What = append(change.What, d.String()+": "+reason)
			continue
		}
		mend[d.field] = d.want
		change.What = append(change.What, d.String())
	}
	switch {
	case len(found) == 0:
	case len(mend) == 0:
		change.Did = Differs
	default:
		change.Did = Mended
		if err := c.update(ctx, want.Name, info.Config, mend); err != nil {
			return fmt.Errorf("change %s: %w", strings.Join(fields(mend), ", "), err)
		}
	}
	if len(left) > 0 {
		change.Did, change.Hint = Differs, editStream(want.Name, left)
	}
	c.changes = append(c.changes, change)
	return nil
}

func (c *creation) makeStream(ctx context.Context, want Stream) error {
	c.changes = append(c.changes, Change{Asset: want.Name, Did: Made})
	if c.Check {
		if c.unmade == nil {
			c.unmade = map[string]bool{}
		}
		c.unmade[want.Name] = true
		return nil
	}
	if err := c.call(ctx, "STREAM.CREATE."+want.Name, want, &struct{}{}); err != nil {
		c.changes = c.changes[:len(c.changes)-1]
		return err
	}
	return nil
}

// update changes some settings of a stream, and keeps all others.
func (c *creation) update(ctx context.Context, stream string, config, mend map[string]any) error {
	if c.Check {
		return nil
	}
	for field, value := range mend {
		config[field] = value
	}
	return c.call(ctx, "STREAM.UPDATE."+stream, config, &struct{}{})
}

// mailbox makes or corrects the consumer of one agent.
func (c *creation) mailbox(ctx context.Context, handle string) (Change, error) {
	want := Mailbox(handle)
	change := Change{Asset: MailboxStream + " " + handle, Did: Made}
	name := MailboxStream + "." + handle
	info, err := assetInfo{}, error(&Refusal{Number: numberNoConsumer})
	if !c.unmade[MailboxStream] {
		info, err = c.info(ctx, "CONSUMER.INFO."+name)
	}
	switch {
	case refusedAs(err, numberNoConsumer):
		return change, c.setMailbox(ctx, name, "create", want)
	case err != nil:
		return change, err
	}
	found := compare(want, info.Config)
	change.Did = Same
	for _, d := range found {
		change.What = append(change.What, d.String())
		info.Config[d.field] = d.want
	}
	if len(found) > 0 {
		change.Did = Mended
		err := c.setMailbox(ctx, name, "update", info.Config)
		if refused, ok := errors.AsType[*Refusal](err); ok {
			change.Did = Differs
			change.Hint = fmt.Sprintf("JetStream cannot change it: %v; delete the consumer (nats consumer rm %s %s) and run fleet create again: its messages are kept", refused, MailboxStream, handle)
		} else if err != nil {
			return change, err
		}
	}
	return change, nil
}

func (c *creation) setMailbox(ctx context.Context, name, action string, config any) error {
	if c.Check {
		return nil
	}
	request := map[string]any{"stream_name": MailboxStream, "config": config, "action": action}
	return c.call(ctx, "CONSUMER.DURABLE.CREATE."+name, request, &struct{}{})
}

// Servers returns the servers in the url of a mesh, which are separated by commas. The scheme
// of the first server is the default for the others. The default port is 4222.
func Servers(urls string) ([]*url.URL, error) {
	var servers []*url.URL
	for text := range strings.SplitSeq(urls, ",") {
		text = strings.TrimSpace(text)
		if len(servers) > 0 && !strings.Contains(text, "://") {
			text = servers[0].Scheme + "://" + text
		}
		u, err := url.Parse(text)
		switch {
		case err != nil || u.Hostname() == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "":
			return nil, fmt.Errorf("%q is not a server address", text)
		case u.User != nil:
			return nil, errors.New("user names and passwords are not supported: an agent logs in with its key")
		case u.Scheme != "tls" && u.Scheme != "nats":
			return nil, fmt.Errorf("%q must begin with tls:// or nats://", text)
		case len(servers) > 0 && u.Scheme != servers[0].Scheme:
			return nil, fmt.Errorf("all servers must have the same scheme, not both %s and %s", servers[0].Scheme, u.Scheme)
		case u.Scheme == "nats" && !loopback(u.Hostname()):
			return nil, fmt.Errorf("%q would send messages unencrypted: use tls://; nats:// is only for servers on this machine", text)
		}
		if u.Port() == "" {
			u.Host = net.JoinHostPort(u.Hostname(), "4222")
		}
		servers = append(servers, u)
	}
	return servers, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
