package memory_test

import (
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentstateloop/fleet"
	"agentstateloop/fleet/fleettest"
	"agentstateloop/fleet/fleettest/memory"
)

// exchange is a short dialogue with an engine, and what it shows.
type exchange struct {
	name string
	play func(*dialogue)
	want string // on one server and on three
	ofR3 string // on three, where these answer otherwise
}

// dialogue is an exchange with one engine.
type dialogue struct {
	t      *testing.T
	keys   map[string]fleettest.Key // by handle; "" is the administrator
	dial   func() (net.Conn, error)
	bob    string            // the handle of the agent whom the texts call bob; no other exchange uses it
	base   map[string]uint64 // the last number of each stream when it began
	opened int
	lines  []string
}

// TestConformance plays each exchange with an engine in memory, as one server and as
// three, and with the real nats-server, likewise. What they answer must be the same.
func TestConformance(t *testing.T) {
	exchanges := slices.Concat(publishing, pulling, getting, rights)
	handles := []string{"alice", "carol"}
	for n := range exchanges {
		handles = append(handles, bobOf(n))
	}
	real := func(start func(testing.TB, ...string) *fleettest.Engine) func(*testing.T) (map[string]fleettest.Key, func() (net.Conn, error)) {
		return func(t *testing.T) (map[string]fleettest.Key, func() (net.Conn, error)) {
			e := start(t, handles...)
			keys := e.Users
			keys[""] = e.Admin
			return keys, func() (net.Conn, error) { return net.Dial("tcp", e.Servers[0].Addr) }
		}
	}
	fake := func(replicas int) func(*testing.T) (map[string]fleettest.Key, func() (net.Conn, error)) {
		return func(t *testing.T) (map[string]fleettest.Key, func() (net.Conn, error)) {
			keys := map[string]fleettest.Key{"": fleettest.NewKey(t)}
			users := map[string]string{}
			for _, h := range handles {
				keys[h] = fleettest.NewKey(t)
				users[h] = keys[h].Public
			}
			e := memory.New(memory.Options{Users: users, Admin: keys[""].Public, Replicas: replicas})
			return keys, func() (net.Conn, error) {
				client, server := net.Pipe()
				go e.Serve(server)
				return client, nil
			}
		}
	}
	for _, engine := range []struct {
		name  string
		three bool
		start func(*testing.T) (map[string]fleettest.Key, func() (net.Conn, error))
	}{
		{"one in memory", false, fake(1)},
		{"three in memory", true, fake(3)},
		{"one", false, real(fleettest.Start)},
		{"three", true, real(fleettest.StartCluster)},
	} {
		t.Run(engine.name, func(t *testing.T) {
			t.Parallel()
			keys, dial := engine.start(t)
			for n, x := range exchanges {
				t.Run(x.name, func(t *testing.T) {
					d := &dialogue{t: t, keys: keys, dial: dial, bob: bobOf(n)}
					d.begin()
					x.play(d)
					want := x.want
					if engine.three && x.ofR3 != "" {
						want = x.ofR3
					}
					if got := strings.Join(d.lines, "\n"); got != strings.TrimSpace(want) {
						t.Errorf("the engine answered:\n%s\nwant:\n%s", got, strings.TrimSpace(want))
					}
				})
			}
		})
	}
}

func bobOf(exchange int) string { return fmt.Sprintf("bob%02d", exchange) }

func (d *dialogue) handleOf(public string) string {
	for handle, key := range d.keys {
		if key.Public == public {
			return handle
		}
	}
	return "nobody"
}

// begin notes the last number of each stream. An exchange counts from there.
func (d *dialogue) begin() {
	d.t.Helper()
	admin := d.connect("")
	d.base = map[string]uint64{}
	for _, a := range fleet.Assets(1) {
		text := admin.ask("$JS.API.STREAM.INFO."+a.Stream.Name, "")
		_, data, _ := strings.Cut(text, " ")
		d.base[a.Stream.Name] = lastSequence(d.t, a.Stream.Name, data)
	}
}

func lastSequence(t *testing.T, stream, data string) uint64 {
	t.Helper()
	var info struct {
		State struct {
			Last uint64 `json:"last_seq"`
		} `json:"state"`
	}
	if err := json.Unmarshal([]byte(data), &info); err != nil {
		t.Fatalf("%s: %v: %s", stream, err, data)
	}
	return info.State.Last
}

// say adds what an engine answered to what is compared.
func (d *dialogue) say(text string) {
	for line := range strings.SplitSeq(text, "\n") {
		d.lines = append(d.lines, d.plain(line))
	}
}

var (
	sequences = regexp.MustCompile(`(\{"stream":"([A-Za-z_-]+)","seq":)(\d+)`)
	wrongLast = regexp.MustCompile(`(wrong last sequence: )(\d+)("},"stream":"([A-Za-z_-]+)")`)
	ofStream  = regexp.MustCompile(`Nats-Stream: ([A-Za-z_-]+); `)
	inHeader  = regexp.MustCompile(`(Nats-(?:Last-|Expected-Last-Subject-)?Sequence: )(\d+)`)
	stamp     = regexp.MustCompile(`Nats-Time-Stamp: [0-9TZ:.-]+`)
	inAck     = regexp.MustCompile(`(\$JS\.ACK\.ASL_BOX\.[a-z0-9]+\.\d+\.)(\d+)(\.\d+\.)\d+(\.\d+)`)
	filling   = regexp.MustCompile(`x{100,}`)
	inboxes   = regexp.MustCompile(`_INBOX_[a-z0-9]*\.[a-z0-9]+\.\d+`)
	paging    = regexp.MustCompile(`,"total":0,"offset":0,"limit":0`)
)

// plain returns what an engine answered without what differs between two dialogues: the
// numbers of messages count from the beginning of this one, and times are left out.
func (d *dialogue) plain(text string) string {
	relative := func(stream, number string) string {
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			d.t.Fatal(err)
		}
		if n == 0 {
			return "0"
		}
		return fmt.Sprintf("#%d", int64(n)-int64(d.base[stream]))
	}
	text = sequences.ReplaceAllStringFunc(text, func(s string) string {
		m := sequences.FindStringSubmatch(s)
		return m[1] + relative(m[2], m[3])
	})
	text = wrongLast.ReplaceAllStringFunc(text, func(s string) string {
		m := wrongLast.FindStringSubmatch(s)
		return m[1] + relative(m[4], m[2]) + m[3]
	})
	stream := fleet.WhoStream // of the end of a page
	if m := ofStream.FindStringSubmatch(text); m != nil {
		stream = m[1]
	}
	text = inHeader.ReplaceAllStringFunc(text, func(s string) string {
		m := inHeader.FindStringSubmatch(s)
		return m[1] + relative(stream, m[2])
	})
	text = inAck.ReplaceAllStringFunc(text, func(s string) string {
		m := inAck.FindStringSubmatch(s)
		return m[1] + relative(fleet.BoxStream, m[2]) + m[3] + "T" + m[4]
	})
	text = filling.ReplaceAllString(text, "x...x")
	text = stamp.ReplaceAllString(text, "Nats-Time-Stamp: T")
	text = inboxes.ReplaceAllString(text, "inbox")
	text = paging.ReplaceAllString(text, "") // of a list, in an answer that has none
	return strings.ReplaceAll(text, d.bob, "bob")
}

// until repeats a question until its answer has a text, and says the last answer: servers
// of a cluster lag behind one another.
func (d *dialogue) until(part string, ask func() string) string {
	d.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if got := ask(); strings.Contains(d.plain(got), part) || time.Now().After(end) {
			d.say(got)
			return got
		}
	}
}
