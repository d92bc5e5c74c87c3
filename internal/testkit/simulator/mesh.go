package simulator

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
)

// This file plays the other agents on the mesh, over HTTP and over NATS.

// post posts a message to our mailbox. It returns the id that the message has with us, and
// whether the mesh took it.
func (w *World) post(m map[string]any, signed bool) (id string, taken bool) {
	if w.nats != nil {
		return w.nats.post(m, signed)
	}
	code, _ := w.callMesh(http.MethodPost, "/message", m)
	return m["id"].(string), code == http.StatusAccepted // or else the rate limit
}

// nudge nudges us.
func (w *World) nudge(from string) {
	if w.nats == nil {
		w.callMesh(http.MethodPost, "/nudge/"+handle, map[string]any{"from": from, "reason": "wake up"})
		return
	}
	w.nats.post(w.nats.nudge(from), true)
}

// setMeshHalt sets or lifts the HALT of the mesh, and reports whether the mesh took that.
func (w *World) setMeshHalt(on bool) (taken bool) {
	if w.nats != nil {
		w.nats.setHalt(on)
		return true
	}
	path := "/resume"
	if on {
		path = "/kill"
	}
	code, _ := w.callMesh(http.MethodPost, path, struct{}{})
	return code != http.StatusTooManyRequests
}

// leftOnMesh returns the messages for us on the mesh.
func (w *World) leftOnMesh() (left []string) {
	if w.nats != nil {
		return w.nats.left()
	}
	_, answer := w.callMesh(http.MethodGet, "/mailbox/"+handle, nil)
	var box struct {
		Messages []struct{ ID, From, Kind string }
	}
	if err := json.Unmarshal(answer, &box); err != nil {
		w.violate("simulator", "read mailbox: %v", err)
	}
	for _, m := range box.Messages {
		left = append(left, fmt.Sprintf("%+v", m))
	}
	return left
}

// watchMesh wraps the mesh and records our posts and acknowledgements.
func (r *record) watchMesh(mesh http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch {
		case req.Method == http.MethodDelete && r.ackJunk(w, req):
			return
		case req.Method == http.MethodDelete:
			r.checkAck(req)
		case req.Method == http.MethodGet && req.URL.Path == "/mailbox/"+handle:
			r.withJunk(w, req, mesh)
			return
		}
		if req.Method != http.MethodPost || req.URL.Path != "/message" {
			mesh.ServeHTTP(w, req)
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		seen := httptest.NewRecorder()
		mesh.ServeHTTP(seen, req)
		pass(w, seen, seen.Body.Bytes())
		if seen.Code == http.StatusOK || seen.Code == http.StatusAccepted {
			r.meshSent(body)
		} else {
			r.world.troubled("mesh")
		}
	})
}

// meshSent records a message that we posted to the mesh.
func (r *record) meshSent(body []byte) {
	var m struct {
		ID, From, To, Kind string
		Text               string `json:"message"`
		Correlation        string `json:"correlation_id"`
		said
	}
	if err := json.Unmarshal(body, &m); err != nil || m.From != handle {
		r.world.violate("4", "posted to the mesh: %s: %v", body, err)
		return
	}
	r.checkMeshNotHurt(m.ID, m.Text)
	r.countCopy(history{}, r.reports, outgoing{
		id: m.ID, kind: m.Kind, sum: sha256.Sum256(body), to: m.To, answers: m.Correlation, text: m.Text, at: r.world.clock.machine(), said: m.said,
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.Kind == "ask" && r.reports[m.ID].copies == 1 {
		r.questions = append(r.questions, question{id: m.ID, peer: m.To})
	}
}

// checkAck checks that a message which we acknowledge on the mesh is durable with
// us.
func (r *record) checkAck(req *http.Request) {
	id := filepath.Base(req.URL.Path)
	if !r.world.holds(":" + id) {
		r.world.violate("1", "mesh message %s was acknowledged before it was durable", id)
	}
}

// junk are the kinds of messages of a foreign mesh that cannot be decoded. %s is the
// id of one that has an id.
var junk = map[string]string{
	"text":   `"hello"`,
	"list":   `[1,2,3]`,
	"null":   `null`,
	"number": `{"id":%s,"from":"dorlange3120","to":"goulard3120","kind":"message","message":"a number"}`,
	"object": `{"id":"%s","from":"dorlange3120","to":"goulard3120","kind":"message","message":{"text":"an object"}}`,
	"hops":   `{"id":"%s","from":"dorlange3120","to":"goulard3120","kind":"ask","message":"hops","hops":"many"}`,
	"time":   `{"id":"%s","from":"dorlange3120","to":"goulard3120","kind":"message","message":"a time","sent_at":"yesterday"}`,
}

// junkMessage is one of them, in our mailbox on the mesh until it is acknowledged.
type junkMessage struct {
	id, text string
	before   int // its place in the mailbox
	acked    bool
}

// postJunk puts a message that cannot be decoded into our mailbox on the mesh.
func (w *World) postJunk(s Step) {
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	j := &junkMessage{text: junk[s.Kind], before: s.N % 3}
	if bytes.Contains([]byte(j.text), []byte("%s")) {
		j.id = fmt.Sprintf("junk-%d", len(w.record.junk))
		if s.Kind == "number" {
			j.id = fmt.Sprint(7000 + len(w.record.junk))
		}
		j.text = fmt.Sprintf(j.text, j.id)
	}
	if w.nats != nil {
		w.nats.postJunk(j.text)
		j.acked = true // a message that stays in the mailbox is left there: see checkSources
	}
	w.record.junk = append(w.record.junk, j)
	w.count.happened("a message that cannot be decoded was on the mesh")
}

// withJunk answers a GET of our mailbox with the messages that cannot be decoded
// among the others.
func (r *record) withJunk(w http.ResponseWriter, req *http.Request, mesh http.Handler) {
	r.mu.Lock()
	left := slices.DeleteFunc(slices.Clone(r.junk), func(j *junkMessage) bool { return j.acked })
	r.mu.Unlock()
	if len(left) == 0 {
		mesh.ServeHTTP(w, req)
		return
	}
	whole := httptest.NewRecorder()
	mesh.ServeHTTP(whole, req)
	var box map[string]json.RawMessage
	var messages []json.RawMessage
	if json.Unmarshal(whole.Body.Bytes(), &box) != nil || json.Unmarshal(box["messages"], &messages) != nil {
		pass(w, whole, whole.Body.Bytes()) // an error
		return
	}
	for _, j := range left {
		messages = slices.Insert(messages, min(j.before, len(messages)), json.RawMessage(j.text))
	}
	box["messages"], _ = json.Marshal(messages)
	data, _ := json.Marshal(box)
	pass(w, whole, data)
}

// pass answers with the status and header of a recorded answer, and a body.
func pass(w http.ResponseWriter, seen *httptest.ResponseRecorder, body []byte) {
	maps.Copy(w.Header(), seen.Header())
	w.Header().Del("Content-Length")
	w.WriteHeader(seen.Code)
	w.Write(body)
}

// ackJunk takes a message out of the mailbox, if it is one that cannot be decoded.
func (r *record) ackJunk(w http.ResponseWriter, req *http.Request) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, j := range r.junk {
		if j.id != "" && j.id == filepath.Base(req.URL.Path) {
			j.acked = true
			w.WriteHeader(http.StatusNoContent)
			return true
		}
	}
	return false
}
