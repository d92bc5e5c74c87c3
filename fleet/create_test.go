package fleet_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"agentstateloop/fleet"
	"agentstateloop/internal/testkit/fleettest"
)

// administrator makes requests to a server as its administrator.
type administrator struct {
	t   *testing.T
	ask fleet.Ask
}

func newAdministrator(t *testing.T) administrator {
	e := fleettest.Start(t, "alice", "bob")
	return administrator{t, fleettest.Asker(e.Conn(""))}
}

// api makes a request that must succeed, and returns its answer.
func (c administrator) api(subject string, request any) map[string]any {
	c.t.Helper()
	var body []byte
	if request != nil {
		var err error
		if body, err = json.Marshal(request); err != nil {
			c.t.Fatal(err)
		}
	}
	data, err := c.ask(c.t.Context(), "$JS.API."+subject, body)
	if err != nil {
		c.t.Fatal(err)
	}
	var answer map[string]any
	if err := json.Unmarshal(data, &answer); err != nil || answer["error"] != nil {
		c.t.Fatalf("%s: %s", subject, data)
	}
	return answer
}

// config returns the configuration of a stream or a consumer.
func (c administrator) config(subject string) map[string]any {
	c.t.Helper()
	return c.api(subject, nil)["config"].(map[string]any)
}

// create returns the changes by Create, by asset.
func (c administrator) create(check bool) map[string]fleet.Change {
	c.t.Helper()
	changes, err := fleet.Create(c.t.Context(), c.ask, fleet.Wanted{Handles: []string{"bob", "alice", "bob"}, Servers: 1, Check: check})
	if err != nil {
		c.t.Fatal(err)
	}
	byAsset := map[string]fleet.Change{}
	for _, change := range changes {
		byAsset[change.Asset] = change
	}
	if len(byAsset) != len(changes) || len(byAsset) != 10 {
		c.t.Errorf("the changes are %+v", changes)
	}
	return byAsset
}

// wantAll runs Create and checks that it does the same with all assets.
func (c administrator) wantAll(check bool, want string) {
	c.t.Helper()
	for asset, change := range c.create(check) {
		if change.Did != want || len(change.What) > 0 || change.Hint != "" {
			c.t.Errorf("%s: %+v, want %s", asset, change, want)
		}
	}
}

// TestCreateMissingAssets checks that Create makes the missing assets, unless it only checks, and that a
// second run changes none.
func TestCreateMissingAssets(t *testing.T) {
	t.Parallel()
	c := newAdministrator(t)
	c.wantAll(false, fleet.Same)
	for _, a := range fleet.Assets(1) {
		c.api("STREAM.DELETE."+a.Stream.Name, nil)
	}
	c.wantAll(true, fleet.Made)
	if names := c.api("STREAM.NAMES", nil)["streams"]; names != nil {
		t.Errorf("a check has made %v", names)
	}
	c.wantAll(false, fleet.Made)
	c.wantAll(false, fleet.Same)
	c.api("CONSUMER.DELETE.ASL_BOX.bob", nil)
	for _, check := range []bool{true, false} {
		changes := c.create(check)
		if changes["ASL_BOX bob"].Did != fleet.Made || changes["ASL_BOX alice"].Did != fleet.Same {
			t.Errorf("after a mailbox was deleted: %+v", changes)
		}
	}
	c.wantAll(false, fleet.Same)
}

// TestCreateMendsSettings checks that changed settings are mended and named, and that the settings stay
// that an administrator may choose.
func TestCreateMendsSettings(t *testing.T) {
	t.Parallel()
	c := newAdministrator(t)
	for stream, changed := range map[string]map[string]any{
		"ASL_BOX":     {"max_msgs_per_subject": 10, "discard_new_per_subject": false, "max_msg_size": 1000, "duplicate_window": 120e9, "description": "ours", "max_bytes": 5 << 20},
		"ASL_BLOB":    {"max_age": 3600e9},
		"ASL_EVT":     {"discard": "new", "max_msgs": 5},
		"KV_asl-who":  {"allow_rollup_hdrs": true, "allow_direct": false, "max_bytes": -1},
		"KV_asl-mesh": {"subjects": []string{"$KV.asl-mesh.>"}},
	} {
		config := c.config("STREAM.INFO." + stream)
		maps.Copy(config, changed)
		c.api("STREAM.UPDATE."+stream, config)
	}
	consumer := c.config("CONSUMER.INFO.ASL_BOX.bob")
	consumer["ack_wait"], consumer["max_ack_pending"] = 5e9, 10
	c.api("CONSUMER.DURABLE.CREATE.ASL_BOX.bob", map[string]any{"stream_name": "ASL_BOX", "config": consumer, "action": "update"})
	for _, check := range []bool{true, false} {
		changes := c.create(check)
		for asset, want := range map[string]string{
			"ASL_BOX":       "discard_new_per_subject not set instead of true; duplicate_window 2m0s instead of 1h0m0s; max_msg_size 1000 instead of 71680; max_msgs_per_subject 10 instead of 100",
			"ASL_BLOB":      "max_age 1h0m0s instead of 168h0m0s",
			"ASL_EVT":       `discard "new" instead of "old"; max_msgs 5 instead of -1`,
			"KV_asl-who":    "allow_direct false instead of true; allow_rollup_hdrs true instead of false; max_bytes -1 instead of 67108864",
			"KV_asl-mesh":   `subjects ["$KV.asl-mesh.>"] instead of ["$KV.asl-mesh.halt"]`,
			"ASL_BOX bob":   "ack_wait 5s instead of 1m0s; max_ack_pending 10 instead of -1",
			"ASL_BOX alice": "",
		} {
			change := changes[asset]
			got := strings.Join(change.What, "; ")
			if got != want || change.Hint != "" || (change.Did == fleet.Mended) != (want != "") {
				t.Errorf("%s: %s: %s %s\nwant %s", asset, change.Did, got, change.Hint, want)
			}
		}
	}
	c.wantAll(false, fleet.Same)
	box := c.config("STREAM.INFO.ASL_BOX")
	if box["description"] != "ours" || box["max_bytes"] != float64(5<<20) {
		t.Errorf("the administrator's choices are now %v, %v", box["description"], box["max_bytes"])
	}
}

// TestCreateLeavesSettings checks that settings are reported, with a hint, that the server cannot change
// or whose change would delete messages.
func TestCreateLeavesSettings(t *testing.T) {
	t.Parallel()
	c := newAdministrator(t)
	who := c.config("STREAM.INFO.KV_asl-who")
	who["max_msgs_per_subject"], who["max_bytes"] = 5, -1
	c.api("STREAM.UPDATE.KV_asl-who", who)
	for range 3 {
		if _, err := c.ask(t.Context(), "$KV.asl-who.alice", []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	c.api("STREAM.DELETE.ASL_BLOB", nil)
	c.api("STREAM.CREATE.ASL_BLOB", map[string]any{"name": "ASL_BLOB", "subjects": []string{"asl.blob.*.*.*.*"}, "retention": "limits", "storage": "memory"})
	c.api("CONSUMER.DELETE.ASL_BOX.bob", nil)
	bob := fleet.Mailbox("bob")
	bob.Push = "asl.pushed"
	c.api("CONSUMER.DURABLE.CREATE.ASL_BOX.bob", map[string]any{"stream_name": "ASL_BOX", "config": bob, "action": "create"})
	for range 2 { // the second run finds the same differences
		changes := c.create(false)
		for asset, want := range map[string][2]string{
			"KV_asl-who":  {"max_msgs_per_subject 5 instead of 1: the new limit could delete messages", "nats stream edit KV_asl-who --max-msgs-per-subject=1"},
			"ASL_BLOB":    {`storage "memory" instead of "file": cannot be changed`, "nats stream backup ASL_BLOB FOLDER), delete it (nats stream rm ASL_BLOB), and run fleet create again"},
			"ASL_BOX bob": {`deliver_subject "asl.pushed" instead of ""`, "delete the consumer (nats consumer rm ASL_BOX bob)"},
		} {
			got := changes[asset]
			if got.Did != fleet.Differs || !strings.Contains(strings.Join(got.What, "; "), want[0]) || !strings.Contains(got.Hint, want[1]) {
				t.Errorf("%s: %+v", asset, got)
			}
		}
		if changes["ASL_BOX"].Did != fleet.Same || changes["ASL_BOX alice"].Did != fleet.Same {
			t.Errorf("the changes are %+v", changes)
		}
	}
	if messages := c.api("STREAM.INFO.KV_asl-who", nil)["state"].(map[string]any)["messages"]; messages != 3.0 {
		t.Errorf("the registry has %v of 3 messages", messages)
	}
	if bytes := c.config("STREAM.INFO.KV_asl-who")["max_bytes"]; bytes != float64(64<<20) {
		t.Errorf("the other setting of the registry is %v", bytes)
	}
}

// TestCreateWithoutRoom checks that servers with the configuration of an older fleet plan, which have
// no room for the streams of [fleet], get the others and the mailboxes, and a hint.
func TestCreateWithoutRoom(t *testing.T) {
	t.Parallel()
	e := fleettest.StartBare(t, 1, "alice", "bob")
	const now, before = "max_file_store: 20GB", "max_file_store: 6GB"
	e.Configure(func(text string) string {
		if !strings.Contains(text, now) {
			t.Fatal(text)
		}
		return strings.Replace(text, now, before, 1)
	})
	c := administrator{t, fleettest.Asker(e.Conn(""))}
	made := map[string]string{"KV_asl-head": fleet.Differs, "ASL_HIST": fleet.Differs, "ASL_FILE": fleet.Differs}
	for asset, change := range c.create(false) {
		want := cmp.Or(made[asset], fleet.Made)
		if change.Did != want || (want == fleet.Differs) != strings.Contains(change.Hint, "set max_file_store to 20GB") {
			t.Errorf("%+v", change)
		}
	}
	e.Configure(func(text string) string { return strings.Replace(text, before, now, 1) })
	for asset, change := range c.create(false) {
		if want := map[bool]string{true: fleet.Made, false: fleet.Same}[made[asset] != ""]; change.Did != want || change.Hint != "" {
			t.Errorf("with room: %+v", change)
		}
	}
}

// TestRefusalsForRoom checks which refusals of a stream mean that the servers have no room for it, and
// that only the streams of [fleet] may be missing.
func TestRefusalsForRoom(t *testing.T) {
	for _, test := range []struct {
		stream string
		number int
		text   string
		left   bool
	}{
		{"ASL_HIST", 10047, "insufficient storage resources available", true},
		{"ASL_HIST", 10005, "no suitable peers for placement, insufficient storage", true},
		{"ASL_HIST", 10005, "no suitable peers for placement, offline", false},
		{"ASL_HIST", 10023, "insufficient resources", false},
		{"ASL_BLOB", 10047, "insufficient storage resources available", false},
	} {
		empty := refusing("STREAM.CREATE."+test.stream, []byte(`{"config":{}}`))
		changes, err := fleet.Create(t.Context(), func(ctx context.Context, subject string, body []byte) ([]byte, error) {
			if subject == "$JS.API.STREAM.CREATE."+test.stream {
				return fmt.Appendf(nil, `{"error":{"code":400,"err_code":%d,"description":%q}}`, test.number, test.text), nil
			}
			return empty(ctx, subject, body)
		}, fleet.Wanted{Handles: []string{"alice"}, Servers: 3})
		left := slices.ContainsFunc(changes, func(c fleet.Change) bool { return c.Asset == test.stream && c.Did == fleet.Differs })
		if left != test.left || (err == nil) != test.left || left && len(changes) != 9 {
			t.Errorf("%+v: %+v, %v", test, changes, err)
		}
	}
}

// TestCreateErrors checks the errors of a server that refuses a request or is not a NATS server, and
// that the changes before the error are returned.
func TestCreateErrors(t *testing.T) {
	created := []byte(`{"config":{}}`)
	for want, ask := range map[string]fleet.Ask{
		"ASL_BOX: it is down":  func(context.Context, string, []byte) ([]byte, error) { return nil, errors.New("it is down") },
		"is this a NATS":       func(context.Context, string, []byte) ([]byte, error) { return []byte("<html>"), nil },
		"ASL_EVT: no (10023)":  refusing("STREAM.CREATE.ASL_EVT", created),
		"mailbox of alice: no": refusing("CONSUMER.DURABLE.CREATE", created),
	} {
		changes, err := fleet.Create(t.Context(), ask, fleet.Wanted{Handles: []string{"alice"}, Servers: 1})
		if err == nil || !strings.Contains(err.Error(), want) || (len(changes) == 2) != strings.Contains(want, "EVT") {
			t.Errorf("%s: %v, after %+v", want, err, changes)
		}
	}
}

// refusing is an empty server that refuses one call.
func refusing(call string, answer []byte) fleet.Ask {
	return func(_ context.Context, subject string, _ []byte) ([]byte, error) {
		number := 0
		switch {
		case strings.Contains(subject, "STREAM.INFO"):
			number = 10059
		case strings.Contains(subject, "CONSUMER.INFO"):
			number = 10014
		case strings.Contains(subject, call):
			number = 10023
		default:
			return answer, nil
		}
		return fmt.Appendf(nil, `{"error":{"code":400,"err_code":%d,"description":"no"}}`, number), nil
	}
}

// TestCreateInvalidAnswers checks that Create returns an error for every invalid answer about a stream
// and about a mailbox.
func TestCreateInvalidAnswers(t *testing.T) {
	for _, answer := range []string{"", "<html>", "null", "[]", "7", "{}", `{"config":null}`, `{"config":[]}`, `{"config":7}`, `{"config":{},"state":[]}`, `{"error":"no"}`} {
		for subject, want := range map[string]string{"STREAM.INFO.ASL_BOX": "ASL_BOX", "CONSUMER.INFO.ASL_BOX.alice": "mailbox of alice"} {
			ask := func(_ context.Context, asked string, _ []byte) ([]byte, error) {
				if asked == "$JS.API."+subject {
					return []byte(answer), nil
				}
				return []byte(`{"config":{}}`), nil
			}
			want += ": invalid answer: is this a NATS server with JetStream?"
			_, err := fleet.Create(t.Context(), ask, fleet.Wanted{Handles: []string{"alice"}, Servers: 1})
			if err == nil || err.Error() != want {
				t.Errorf("%s answers %s: %v, want %s", subject, answer, err, want)
			}
		}
	}
}

// TestCreateManyMailboxes checks that Create creates each mailbox once and returns them in order,
// and that an error names the failed one and keeps the others.
func TestCreateManyMailboxes(t *testing.T) {
	t.Parallel()
	var handles []string
	for n := range 30 {
		handles = append(handles, fmt.Sprintf("agent%02d", n))
	}
	admin := fleettest.Start(t, "alice").Conn("")
	const broken = "agent20"
	breaks := true
	ask := func(ctx context.Context, subject string, body []byte) ([]byte, error) {
		if breaks && strings.HasSuffix(subject, "."+broken) {
			return nil, errors.New("it is broken")
		}
		a, err := admin.Request(ctx, subject, body, nil)
		return a.Data, err
	}
	created := map[string]bool{}
	create := func() error {
		changes, err := fleet.Create(t.Context(), ask, fleet.Wanted{Handles: append(handles, handles[0]), Servers: 1})
		last := ""
		for _, c := range changes {
			handle, isMailbox := strings.CutPrefix(c.Asset, fleet.MailboxStream+" ")
			if !isMailbox {
				continue
			}
			if handle <= last {
				t.Errorf("%s comes after %s", handle, last)
			}
			last = handle
			if want := map[bool]string{true: fleet.Same, false: fleet.Made}[created[handle]]; c.Did != want {
				t.Errorf("%s: %s, want %s", handle, c.Did, want)
			}
			created[handle] = true
		}
		return err
	}
	if err := create(); err == nil || err.Error() != "mailbox of agent20: it is broken" {
		t.Errorf("the error is %v", err)
	}
	if created[broken] || len(created) < 12 {
		t.Errorf("it returned %d mailboxes: %v", len(created), created)
	}
	breaks = false
	if err := create(); err != nil || len(created) != len(handles) {
		t.Errorf("%d mailboxes, %v", len(created), err)
	}
}
