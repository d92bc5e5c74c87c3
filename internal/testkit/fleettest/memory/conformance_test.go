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
	"agentstateloop/internal/testkit/fleettest"
	"agentstateloop/internal/testkit/fleettest/memory"
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
	*engine
	t      *testing.T
	bob    string            // the handle of the agent whom the texts call bob; no other exchange uses it
	base   map[string]uint64 // the last number of each stream when it began
	opened int
	lines  []string
}

// engine is one that exchanges are played with.
type engine struct {
	keys map[string]fleettest.Key // by handle; "" is the administrator
	dial func() (net.Conn, error)
	lose func() // takes the leaders away from those whom dial reaches; nil: it has none
}

// TestConformance plays each exchange with an engine in memory, as one server and as
// three, and with the real nats-server, likewise. What they answer must be the same.
func TestConformance(t *testing.T) {
	exchanges := slices.Concat(publishing, pulling, getting, rights)
	for name, start := range map[string]func(*testing.T, []string) *engine{
		"one in memory": inMemory(1), "three in memory": inMemory(3), "one": one, "three": three,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := start(t, slices.Concat([]string{"alice", "carol"}, bobs(len(exchanges)+1)))
			for n, x := range exchanges {
				e.play(t, x, bobOf(n), strings.HasPrefix(name, "three"))
			}
			if e.lose != nil {
				e.play(t, leaderless, bobOf(len(exchanges)), true)
			}
		})
	}
}

// play plays an exchange with an agent whom its texts call bob.
func (e *engine) play(t *testing.T, x exchange, bob string, three bool) {
	t.Run(x.name, func(t *testing.T) {
		d := &dialogue{t: t, engine: e, bob: bob}
		d.begin()
		x.play(d)
		want := x.want
		if three && x.ofR3 != "" {
			want = x.ofR3
		}
		if got := strings.Join(d.lines, "\n"); got != strings.TrimSpace(want) {
			t.Errorf("the engine answered:\n%s\nwant:\n%s", got, strings.TrimSpace(want))
		}
	})
}

func inMemory(replicas int) func(*testing.T, []string) *engine {
	return func(t *testing.T, handles []string) *engine {
		keys := map[string]fleettest.Key{"": fleettest.NewKey(t)}
		users := map[string]string{}
		for _, h := range handles {
			keys[h] = fleettest.NewKey(t)
			users[h] = keys[h].Public
		}
		server := memory.New(memory.Options{Users: users, Admin: keys[""].Public, Replicas: replicas})
		e := &engine{keys: keys}
		e.dial = func() (net.Conn, error) {
			near, far := net.Pipe()
			go server.Serve(far)
			return near, nil
		}
		if replicas > 1 {
			e.lose = func() { server.SetLeaderless(true) }
		}
		return e
	}
}

func one(t *testing.T, handles []string) *engine { return real(fleettest.Start(t, handles...)) }

func three(t *testing.T, handles []string) *engine {
	servers := fleettest.StartCluster(t, handles...)
	e := real(servers)
	bob := handles[len(handles)-1]
	e.lose = func() { e.dial = reach(survivor(t, e, servers, bob)) }
	return e
}

func real(servers *fleettest.Engine) *engine {
	servers.Users[""] = servers.Admin
	return &engine{keys: servers.Users, dial: reach(servers.Servers[0])}
}

func reach(s *fleettest.Server) func() (net.Conn, error) {
	return func() (net.Conn, error) { return net.Dial("tcp", s.Addr) }
}

// survivor kills two servers, and returns the third, which leads neither the mailboxes nor
// the one of bob. A leader that is alone does not answer for some seconds.
func survivor(t *testing.T, e *engine, servers *fleettest.Engine, bob string) *fleettest.Server {
	t.Helper()
	d := &dialogue{t: t, engine: e, bob: bob}
	var info struct {
		Cluster struct {
			Leader string `json:"leader"`
		} `json:"cluster"`
	}
	_, data, _ := strings.Cut(d.connect(bob).ask("$JS.API.CONSUMER.INFO.ASL_BOX."+bob, ""), " ")
	if err := json.Unmarshal([]byte(data), &info); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	leader := servers.Leader(fleet.MailboxStream)
	var left *fleettest.Server
	for _, s := range servers.Servers {
		if left == nil && s != leader && s.Name != info.Cluster.Leader {
			left = s
		} else {
			s.Kill()
		}
	}
	return left
}

// leaderless is played last, since its engine does not recover.
var leaderless = exchange{name: "no leader", play: func(d *dialogue) {
	d.fill(1)
	d.lose()
	alice, bob := d.connect("alice"), d.connect(d.bob)
	d.until("503", func() string { return alice.ask("asl.box."+d.bob+".alice", "hello") })
	d.until("503", func() string {
		return bob.ask("$JS.API.CONSUMER.MSG.NEXT.ASL_BOX."+d.bob, `{"batch":1,"no_wait":true}`)
	})
	d.say(d.connect("").ask("$JS.ACK.ASL_BOX."+d.bob+".1.0.1.1.0", "+ACK"))
	d.say(bob.ask("$JS.API.DIRECT.GET.KV_asl-who.$KV.asl-who.nobody", ""))
	bob.write("SUB cmd.agent." + d.bob + ".wakeup 7\r\n")
	bob.synced()
	alice.publish("cmd.agent."+d.bob+".wakeup", "", "alice")
	d.say(bob.next())
}, want: `
1 pending, 0 unacknowledged
inbox [NATS/1.0 503; Nats-Subject: asl.box.bob.alice]
inbox [NATS/1.0 503; Nats-Subject: $JS.API.CONSUMER.MSG.NEXT.ASL_BOX.bob]
inbox [NATS/1.0 503; Nats-Subject: $JS.ACK.ASL_BOX.bob.1.0.1.T.0]
inbox [NATS/1.0 404 Message Not Found]
cmd.agent.bob.wakeup alice`}

func bobs(n int) (handles []string) {
	for i := range n {
		handles = append(handles, bobOf(i))
	}
	return handles
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
		return m[1] + relative(fleet.MailboxStream, m[2]) + m[3] + "T" + m[4]
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
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) { // and say nothing when they have caught up
		if got := ask(); strings.Contains(d.plain(got), part) || time.Now().After(end) {
			d.say(got)
			return got
		}
	}
}
