package simulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
)

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
	before   int // it stands before so many good ones
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
		j.acked = true // or else it is left: see checkSources
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
	whole := &written{header: http.Header{}}
	mesh.ServeHTTP(whole, req)
	var box map[string]json.RawMessage
	var messages []json.RawMessage
	if json.Unmarshal(whole.body.Bytes(), &box) != nil || json.Unmarshal(box["messages"], &messages) != nil {
		w.WriteHeader(whole.code) // an error
		w.Write(whole.body.Bytes())
		return
	}
	for _, j := range left {
		messages = slices.Insert(messages, min(j.before, len(messages)), json.RawMessage(j.text))
	}
	box["messages"], _ = json.Marshal(messages)
	data, _ := json.Marshal(box)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(whole.code)
	w.Write(data)
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

// checkJunk checks that what could not be decoded is in quarantine, and that what
// has an id was acknowledged.
func (w *World) checkJunk() {
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	for _, j := range w.record.junk {
		if j.id != "" && !j.acked {
			w.violate("1", "the message %s of the mesh, which cannot be decoded, was not acknowledged", j.id)
		}
	}
}
