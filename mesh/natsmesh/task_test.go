package natsmesh_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"agentstateloop/internal/testkit/fleettest"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// TestAnnouncedTaskIsStoredOnce checks that the server stores the end of a turn once, in the
// documented JSON and signed by the agent, although it is announced twice.
func TestAnnouncedTaskIsStoredOnce(t *testing.T) {
	t.Parallel()
	e := fleettest.Start(t, "alice")
	began := time.Date(2026, 11, 22, 14, 4, 51, 0, time.UTC)
	task := mesh.Task{
		Event: "task.failed", ID: "1042.3", Agent: "alice", At: began.Add(18 * time.Second), Host: "elsewhere",
		TurnID: "t9097407dbd474be97adb", Epoch: 12, Status: state.Failed, Began: began,
	}
	for range 2 { // each with a connection of its own
		if err := e.Client("alice").Announce(t.Context(), task); err != nil {
			t.Fatal(err)
		}
	}
	task.At = task.At.Add(time.Second)
	task.Event, task.Status, task.Began = "task.success", state.Success, time.Time{}
	if err := e.Client("alice").Announce(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	admin := e.Conn("")
	stored := func(sequence string) (body []byte, header textproto.MIMEHeader) {
		answer, err := admin.Request(t.Context(), "$JS.API.STREAM.MSG.GET.ASL_EVT", []byte(`{"seq":`+sequence+`}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		var m struct {
			Message struct {
				Subject string `json:"subject"`
				Headers []byte `json:"hdrs"`
				Data    []byte `json:"data"`
			} `json:"message"`
		}
		if err := json.Unmarshal(answer.Data, &m); err != nil || m.Message.Subject != "evt.agent.alice.task" {
			t.Fatalf("%s: %v", answer.Data, err)
		}
		_, headers, _ := strings.Cut(string(m.Message.Headers), "\r\n")
		if header, err = textproto.NewReader(bufio.NewReader(strings.NewReader(headers))).ReadMIMEHeader(); err != nil {
			t.Fatal(err)
		}
		return m.Message.Data, header
	}
	key, err := nkeys.FromPublicKey(e.Users["alice"].Public)
	if err != nil {
		t.Fatal(err)
	}
	for sequence, want := range map[string]string{
		"1": `{"event":"task.failed","id":"1042.3","agent":"alice","at":"2026-11-22T14:05:09Z","host":"alpha","turn_id":"t9097407dbd474be97adb","turn_epoch":12,"status":"failed","began":"2026-11-22T14:04:51Z"}`,
		"2": `{"event":"task.success","id":"1042.3","agent":"alice","at":"2026-11-22T14:05:10Z","host":"alpha","turn_id":"t9097407dbd474be97adb","turn_epoch":12,"status":"success"}`,
	} {
		body, header := stored(sequence)
		if string(body) != want {
			t.Errorf("%s\nwant %s", body, want)
		}
		sig, err := base64.RawStdEncoding.DecodeString(header.Get("Asl-Sig"))
		if err == nil {
			err = key.Verify([]byte("asl1 task alice "+header.Get("Asl-At")+"\n"+string(body)), sig)
		}
		if err != nil {
			t.Errorf("signature of %s: %v", body, err)
		}
	}
}
