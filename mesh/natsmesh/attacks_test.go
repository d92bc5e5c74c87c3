package natsmesh_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"agentstateloop/fleet"
	"agentstateloop/internal/testkit/fleettest"
	"agentstateloop/mesh"
)

// serverContents describes the contents of the server, so that two of them can be compared: the
// numbers of all messages except those of one handle, and the state of the mailboxes.
func serverContents(t testing.TB, e *fleettest.Engine, but string) string {
	t.Helper()
	admin := e.Intrude("")
	defer admin.Close()
	var all strings.Builder
	for _, a := range fleet.Assets(1) {
		for next := uint64(1); ; {
			m := admin.Ask(&nats.Msg{Subject: "$JS.API.STREAM.MSG.GET." + a.Stream.Name, Data: fmt.Appendf(nil, `{"seq":%d,"next_by_subj":">"}`, next)})
			var got struct {
				Message *struct {
					Subject  string `json:"subject"`
					Sequence uint64 `json:"seq"`
				} `json:"message"`
			}
			if err := json.Unmarshal(m.Data, &got); err != nil {
				t.Fatal(err)
			}
			if got.Message == nil {
				break
			}
			next = got.Message.Sequence + 1
			if !strings.Contains(got.Message.Subject, but) {
				fmt.Fprintln(&all, got.Message.Subject, got.Message.Sequence)
			}
		}
		m := admin.Ask(&nats.Msg{Subject: "$JS.API.CONSUMER.LIST." + a.Stream.Name})
		var list struct {
			Consumers []struct {
				Name    string          `json:"name"`
				Unacked int             `json:"num_ack_pending"`
				Config  json.RawMessage `json:"config"`
			} `json:"consumers"`
		}
		if err := json.Unmarshal(m.Data, &list); err != nil {
			t.Fatal(err)
		}
		for _, c := range list.Consumers {
			if c.Name != but {
				fmt.Fprintln(&all, a.Stream.Name, c.Name, c.Unacked, string(c.Config))
			}
		}
	}
	return all.String()
}

// wantContents checks that the contents of the server are the same as before.
func wantContents(t testing.TB, e *fleettest.Engine, before string) {
	t.Helper()
	if after := serverContents(t, e, "mallory"); after != before {
		t.Errorf("the server has\n%s\nand before\n%s", after, before)
	}
}

// startExchange starts a server in which alice has sent bob two messages with a file, both are in
// the registry, and both have announced a turn. alice has a head, a block, the same file and a
// wish, and so has mallory. It returns the file.
func startExchange(t testing.TB) (*fleettest.Engine, mesh.File) {
	t.Helper()
	e := fleettest.Start(t, "alice", "bob", "mallory")
	alice, bob := e.Client("alice"), e.Client("bob")
	secret := []byte("secret")
	f := fileOf(secret)
	if err := alice.PutBlob(t.Context(), "bob", f.SHA256, f.Size, bytes.NewReader(secret)); err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		send(t, alice, mesh.Message{ID: fmt.Sprint("honest", n), To: "bob", Text: "honest", Files: []mesh.File{f}})
	}
	for _, c := range []interface {
		Register(context.Context, mesh.Presence) error
		Announce(context.Context, mesh.Task) error
		Go(context.Context) error
	}{alice, bob} {
		for _, err := range []error{c.Register(t.Context(), mesh.Presence{}), c.Announce(t.Context(), mesh.Task{Event: "task.success", At: time.Now()}), c.Go(t.Context())} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, handle := range []string{"alice", "mallory"} {
		c := e.Conn(handle)
		_, err := c.OfferHead(t.Context(), 0, []byte("head of "+handle))
		for _, err := range []error{err, c.PutBlock(t.Context(), 1, []byte("block of "+handle)), c.SetWish(t.Context(), []byte("wish of "+handle)),
			c.PutFile(t.Context(), f.SHA256, f.Size, bytes.NewReader(secret))} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return e, f
}

// wantExchange checks that bob gets the messages of alice with their file, and no proven message of
// others.
func wantExchange(t testing.TB, e *fleettest.Engine, f mesh.File) {
	t.Helper()
	bob := e.Client("bob")
	mailbox := take(t, bob)
	honest := 0
	for _, m := range mailbox.Messages {
		if m.Proven && m.From == "alice" && m.Text == "honest" {
			honest++
		} else if m.Proven && m.From != "mallory" {
			t.Errorf("proven: %+v", m)
		}
	}
	if honest != 2 || mailbox.Halted {
		t.Errorf("bob got %d of 2 honest messages, halted: %v", honest, mailbox.Halted)
	}
	if _, err := fetch(t.Context(), bob, f); err != nil {
		t.Errorf("the file: %v", err)
	}
}

// wantFleet checks that alice finds the head, the block, the file and the wish that she stored.
func wantFleet(t testing.TB, e *fleettest.Engine, f mesh.File) {
	t.Helper()
	alice := e.Conn("alice")
	h, err := alice.LoadHead(t.Context())
	if err != nil || string(h.Body) != "head of alice" || !h.Signed {
		t.Errorf("the head of alice: %+v, %v", h, err)
	}
	wish, _, err := alice.LoadWish(t.Context())
	if err != nil || string(wish) != "wish of alice" {
		t.Errorf("the wish of alice: %s, %v", wish, err)
	}
	err = alice.GetBlocks(t.Context(), 1, 1, func(_ uint64, body []byte) error {
		if string(body) != "block of alice" {
			t.Errorf("the block of alice: %s", body)
		}
		return nil
	})
	if err != nil {
		t.Errorf("the block of alice: %v", err)
	}
	err = alice.GetFile(t.Context(), f.SHA256, f.Size, func(r io.Reader) error {
		_, err := io.ReadAll(r)
		return err
	})
	if err != nil {
		t.Errorf("the file of alice: %v", err)
	}
	if _, err := alice.OfferHead(t.Context(), h.Revision, h.Body); err != nil {
		t.Errorf("the next head of alice: %v", err)
	}
}

// fleetSubjects returns the subjects of an agent on several hosts, by stream.
func fleetSubjects(handle string, f mesh.File) map[string][]string {
	return map[string][]string{
		"KV_asl-head": {"$KV.asl-head." + handle, "$KV.asl-head." + handle + ".wish"},
		"ASL_HIST":    {"asl.hist." + handle + ".1"},
		"ASL_FILE":    {"asl.file." + handle + "." + f.SHA256 + ".0"},
	}
}

// forbiddenRequests are requests that only the administrator or bob may make.
func forbiddenRequests(f mesh.File) []*nats.Msg {
	const api = "$JS.API."
	var all []*nats.Msg
	add := func(body string, subjects ...string) {
		for _, s := range subjects {
			all = append(all, &nats.Msg{Subject: s, Data: []byte(body)})
		}
	}
	chunk := "asl.blob.bob.alice." + f.SHA256 + ".0"
	// Reads.
	add(`{"batch":10,"no_wait":true}`, api+"CONSUMER.MSG.NEXT.ASL_BOX.bob")
	for _, a := range fleet.Assets(1) {
		stream := a.Stream.Name
		add(`{"stream_name":"`+stream+`","config":{"ack_policy":"none","deliver_subject":"_INBOX_mallory.answer"}}`,
			api+"CONSUMER.CREATE."+stream, api+"CONSUMER.CREATE."+stream+".mallory", api+"CONSUMER.DURABLE.CREATE."+stream+".mallory")
		add(`{"seq":1}`, api+"STREAM.MSG.GET."+stream)
		add(`{"name":"`+stream+`"}`, api+"STREAM.CREATE."+stream, api+"STREAM.UPDATE."+stream)
		add(`{"deliver_subject":"_INBOX_mallory.answer"}`, api+"STREAM.SNAPSHOT."+stream)
		add("", api+"STREAM.INFO."+stream, api+"STREAM.PURGE."+stream, api+"STREAM.DELETE."+stream, api+"STREAM.RESTORE."+stream,
			api+"STREAM.LEADER.STEPDOWN."+stream, api+"CONSUMER.NAMES."+stream, api+"CONSUMER.LIST."+stream)
		add(`{"seq":1}`, api+"STREAM.MSG.DELETE."+stream)
	}
	add("", api+"DIRECT.GET.ASL_BOX.asl.box.bob.alice", api+"DIRECT.GET.ASL_BLOB."+chunk, api+"DIRECT.GET.ASL_EVT.evt.agent.alice.task")
	for _, body := range []string{
		`{"seq":1}`, `{"last_by_subj":"asl.box.bob.alice"}`, `{"next_by_subj":"asl.box.bob.alice"}`, `{"multi_last":["asl.>"],"batch":10}`,
		`{"seq":1,"batch":10}`, `{"last_by_subj":"` + chunk + `"}`,
	} {
		add(body, api+"DIRECT.GET.ASL_BOX", api+"DIRECT.GET.ASL_BLOB", api+"DIRECT.GET.KV_asl-mesh", api+"DIRECT.GET.ASL_EVT")
	}
	add("", api+"CONSUMER.INFO.ASL_BOX.bob", api+"CONSUMER.DELETE.ASL_BOX.bob", api+"CONSUMER.PAUSE.ASL_BOX.bob", api+"CONSUMER.UNPIN.ASL_BOX.bob",
		api+"CONSUMER.RESET.ASL_BOX.bob", api+"CONSUMER.LEADER.STEPDOWN.ASL_BOX.bob", api+"CONSUMER.DELETE.ASL_BOX.mallory",
		api+"INFO", api+"STREAM.NAMES", api+"STREAM.LIST", api+"META.LEADER.STEPDOWN", "$SYS.REQ.SERVER.PING", "$SYS.REQ.USER.INFO")
	for stream, subjects := range fleetSubjects("alice", f) {
		for _, subject := range subjects {
			add("", api+"DIRECT.GET."+stream+"."+subject)
			for _, body := range []string{`{"seq":1}`, `{"last_by_subj":"` + subject + `"}`, `{"next_by_subj":"` + subject + `"}`, `{"multi_last":["` + subject + `"],"batch":10}`} {
				add(body, api+"DIRECT.GET."+stream)
			}
		}
	}
	// Takes and removals.
	for _, verdict := range []string{"+ACK", "+TERM", "-NAK", "+WPI", "+NXT", ""} {
		add(verdict, "$JS.ACK.ASL_BOX.bob.1.1.1.1700000000000000000.0", "$JS.ACK.ASL_BOX.bob.1.2.2.1700000000000000000.0")
	}
	// Writes as others.
	add("{}", "asl.box.bob.alice", "asl.box.mallory.alice", chunk, "asl.blob.bob.alice."+f.SHA256+".1", "$KV.asl-who.alice", "$KV.asl-who.bob.alpha", "$KV.asl-mesh.other",
		"evt.agent.alice.task", "_INBOX_bob.x", "_INBOX.x", "_R_.x", "$JS.FC.ASL_BOX.bob.x", "$JS.ACK.ASL_BLOB.mallory.1.1.1.1.0")
	for _, subjects := range fleetSubjects("alice", f) {
		add("{}", subjects...)
	}
	add("{}", "$KV.asl-head.alice.x", "$KV.asl-head.mallory.x", "$KV.asl-head.bob", "$KV.asl-head.bob.wish", "asl.hist.alice.2", "asl.hist.bob.1",
		"asl.file.alice."+f.SHA256+".1", "asl.file.bob."+f.SHA256+".0")
	return all
}

// TestAgentsCannotTouchOthers checks that an agent cannot read, take, remove or write messages, files
// and rows of another one.
func TestAgentsCannotTouchOthers(t *testing.T) {
	t.Parallel()
	e, f := startExchange(t)
	mallory := e.Intrude("mallory")
	before := serverContents(t, e, "mallory")
	for _, m := range forbiddenRequests(f) {
		m.Reply = mallory.Inbox
		if err := mallory.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
		mallory.IsRefused(m.Subject)
	}
	for _, subject := range []string{
		">", "*", "*.>", "asl.>", "asl.box.bob.*", "asl.box.mallory.*", "asl.blob.>", "cmd.agent.bob.wakeup", "cmd.agent.*.wakeup", "evt.agent.>",
		"$KV.>", "$KV.asl-who.>", "_INBOX.>", "_INBOX_bob.>", "_INBOX_*.>", "*.answer", "_R_.>", "asl.hist.>", "asl.hist.alice.*", "asl.file.>", "$KV.asl-head.>", "$KV.asl-head.alice", "$KV.asl-head.alice.wish", "$JS.>", "$JS.ACK.>", "$JS.API.>", "$SYS.>",
	} {
		if _, err := mallory.ChanSubscribe(subject, mallory.Answer); err != nil {
			t.Fatal(err)
		}
		mallory.IsRefused(subject)
	}
	wantContents(t, e, before)
	wantExchange(t, e, f)
	wantFleet(t, e, f)
	mallory.Settle()
	if len(mallory.Answer) > 0 {
		t.Errorf("mallory was answered: %s", (<-mallory.Answer).Data)
	}
}

// TestReplySubjects checks that the reply subject of a request, to which the server writes with its
// own rights, gives an agent no effect on others.
func TestReplySubjects(t *testing.T) {
	t.Parallel()
	e, f := startExchange(t)
	mallory := e.Intrude("mallory")
	replies := []string{"asl.box.bob.alice", "asl.box.bob.carol", "$KV.asl-mesh.other", "$KV.asl-who.alice", "evt.agent.alice.task",
		"$JS.API.CONSUMER.MSG.NEXT.ASL_BOX.bob"}
	for _, m := range forbiddenRequests(f) {
		replies = append(replies, m.Subject)
	}
	before := serverContents(t, e, "mallory")
	for _, reply := range replies {
		// Answers with a body that mallory chooses, without one, and with that of the server.
		for _, body := range []string{"", "+ACK", `{"halted":true}`, `{"stream_name":"ASL_BLOB","config":{"ack_policy":"none","deliver_subject":"_INBOX_mallory.answer"}}`} {
			mallory.Ask(&nats.Msg{Subject: "$KV.asl-who.mallory", Data: []byte(body)})
			for _, m := range []*nats.Msg{
				{Subject: "$JS.API.DIRECT.GET.KV_asl-who.$KV.asl-who.mallory"},
				{Subject: "$JS.API.DIRECT.GET.KV_asl-who", Data: []byte(`{"seq":1,"next_by_subj":"$KV.asl-who.mallory","batch":9}`)},
			} {
				m.Reply = reply
				_ = mallory.PublishMsg(m)
			}
		}
		for _, m := range []*nats.Msg{
			{Subject: "$JS.API.DIRECT.GET.KV_asl-who.$KV.asl-who.nobody"},
			{Subject: "$JS.API.CONSUMER.MSG.NEXT.ASL_BOX.mallory", Data: []byte(`{"batch":1,"no_wait":true}`)},
			{Subject: "$JS.API.CONSUMER.INFO.ASL_BOX.mallory"},
			{Subject: "asl.box.bob.mallory", Data: []byte("not even JSON")},
			{Subject: "asl.box.nobody.mallory", Data: []byte("{}")},
			{Subject: "$JS.ACK.ASL_BOX.mallory.1.1.1.1700000000000000000.0", Data: []byte("+ACK")},
			{Subject: "$JS.API.DIRECT.GET.KV_asl-head.$KV.asl-head.nobody"},
			{Subject: "$KV.asl-head.mallory", Data: []byte("{}")},
			{Subject: "asl.hist.mallory.2", Data: []byte("{}")},
			{Subject: "asl.file.mallory." + f.SHA256 + ".0", Data: []byte("secret")},
			{Subject: "$JS.API.DIRECT.GET.KV_asl-head.$KV.asl-head.mallory"}, // with the body and the headers that mallory has chosen
			{Subject: "$JS.API.DIRECT.GET.KV_asl-head.$KV.asl-head.mallory.wish"},
			{Subject: "$JS.API.DIRECT.GET.ASL_HIST.asl.hist.mallory.1"},
			{Subject: "$JS.API.DIRECT.GET.ASL_FILE.asl.file.mallory." + f.SHA256 + ".0"},
		} {
			m.Reply = reply
			_ = mallory.PublishMsg(m)
		}
		mallory.Settle()
	}
	wantContents(t, e, before)
	wantExchange(t, e, f)
	wantFleet(t, e, f)
	if len(mallory.Answer) > 0 {
		t.Errorf("mallory was answered: %s", (<-mallory.Answer).Data)
	}
}

// TestDangerousHeaders checks that no header makes the server remove, replace or write messages of
// others.
func TestDangerousHeaders(t *testing.T) {
	t.Parallel()
	e, f := startExchange(t)
	mallory := e.Intrude("mallory")
	before := serverContents(t, e, "mallory")
	for _, subject := range []string{"asl.box.bob.mallory", "asl.blob.bob.mallory." + f.SHA256 + ".0", "evt.agent.mallory.task", "$KV.asl-who.mallory",
		"$KV.asl-head.mallory", "$KV.asl-head.mallory.wish", "asl.hist.mallory.2", "asl.file.mallory." + f.SHA256 + ".0"} {
		for _, header := range []nats.Header{
			{"Nats-Rollup": {"all"}}, {"Nats-Rollup": {"sub"}}, {"KV-Operation": {"PURGE"}, "Nats-Rollup": {"sub"}}, {"Nats-TTL": {"1s"}, "Nats-Rollup": {"all"}},
			{"Nats-Schedule": {"@every 1s"}, "Nats-Schedule-Target": {"asl.box.bob.alice"}}, {"Nats-Schedule": {"@at 2026-01-01T00:00:00Z"}, "Nats-Schedule-Target": {"$KV.asl-who.alice"}},
			{"Nats-Incr": {"1"}}, {"Nats-Batch-Id": {"b"}, "Nats-Batch-Sequence": {"1"}, "Nats-Batch-Commit": {"1"}},
			{"Nats-Expected-Stream": {"ASL_EVT"}}, {"Nats-Expected-Last-Sequence": {"0"}}, {"Nats-Stream-Source": {"ASL_BOX 1"}},
			{"Nats-Expected-Last-Subject-Sequence": {"1"}, "Nats-Expected-Last-Subject-Sequence-Subject": {"$KV.asl-head.alice"}},
			{"Nats-Request-Info": {`{"acc":"ASL","svc":"ASL"}`}, "Nats-Rollup": {"all"}},
		} {
			_ = mallory.PublishMsg(&nats.Msg{Subject: subject, Header: header, Data: []byte("{}"), Reply: mallory.Inbox})
		}
	}
	mallory.Settle()
	wantContents(t, e, before)
	wantExchange(t, e, f)
	wantFleet(t, e, f)
}

// TestForgedHalt checks that everybody can halt the mesh, that only a known key can lift HALT, and
// that no value keeps an agent from its mailbox.
func TestForgedHalt(t *testing.T) {
	t.Parallel()
	e, f := startExchange(t)
	alice, bob, mallory := e.Client("alice"), e.Client("bob"), e.Intrude("mallory")
	bob.Keys = map[string]string{"alice": e.Users["alice"].Public}
	const subject = "$KV.asl-mesh.halt"
	stored := func() *nats.Msg {
		return mallory.Ask(&nats.Msg{Subject: "$JS.API.DIRECT.GET.KV_asl-mesh." + subject})
	}
	known := stored() // a GO of alice
	if err := alice.Halt(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantHalted := func(what, want string) {
		t.Helper()
		mailbox := take(t, bob)
		got := fmt.Sprint(mailbox.Halted)
		if mailbox.HaltUnproven {
			got = "unproven"
		}
		if got != want {
			t.Errorf("%s: halted: %s, want %s", what, got, want)
		}
	}
	wantHalted("HALT of alice", "true")
	sequence := func() uint64 {
		n, err := strconv.ParseUint(stored().Header.Get("Nats-Sequence"), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	value := func(by string) []byte {
		return fmt.Appendf(nil, `{"halted":false,"by":%q,"at":%q,"after":%d}`, by, time.Now().UTC().Format(time.RFC3339Nano), sequence())
	}
	for what, m := range map[string]*nats.Msg{
		"nothing":                     {},
		"no JSON":                     {Data: []byte("GO")},
		"no GO":                       {Data: []byte(`{"by":"alice"}`)},
		"no signature":                {Data: value("alice")},
		"the signature of another GO": {Data: value("alice"), Header: nats.Header{"Asl-Sig": known.Header["Asl-Sig"]}},
		"an earlier GO":               {Data: known.Data, Header: nats.Header{"Asl-Sig": known.Header["Asl-Sig"]}},
	} {
		m.Subject = subject
		mallory.Ask(m)
		wantHalted(what, "unproven")
	}
	for _, by := range []string{"mallory", "alice", "bob", "nobody"} {
		body := value(by)
		mallory.Ask(&nats.Msg{Subject: subject, Data: body, Header: nats.Header{"Asl-Sig": {e.Sign("mallory", "asl1 halt\n", body)}}})
		wantHalted("GO of "+by+", signed by mallory", "unproven")
	}
	for _, m := range []*nats.Msg{
		{Subject: "asl.box.mallory.mallory", Data: []byte("{}"), Reply: subject},
		{Subject: "$JS.API.DIRECT.GET.KV_asl-who.$KV.asl-who.alice", Reply: subject},
	} {
		before := sequence()
		if err := mallory.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
		e.Until("the answer is stored as HALT", func(context.Context) error {
			if sequence() == before {
				return errors.New("it is not")
			}
			return nil
		})
		wantHalted("an answer of the server", "unproven")
	}
	if err := alice.Go(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantHalted("GO of alice", "false")
	mallory.Ask(&nats.Msg{Subject: subject, Data: []byte(`{"halted":true}`)})
	wantHalted("HALT without a signature", "true")
	if err := alice.Go(t.Context()); err != nil {
		t.Fatal(err)
	}
	setAckWait(t, e, "bob", time.Millisecond) // it was shown above
	e.Until("the shown messages come again", func(ctx context.Context) error {
		mailbox, err := bob.Mailbox(ctx, 0)
		if err == nil && len(mailbox.Messages) < 2 {
			err = errors.New("it does not")
		}
		return err
	})
	setAckWait(t, e, "bob", time.Minute)
	wantExchange(t, e, f)
	wantFleet(t, e, f)
}
