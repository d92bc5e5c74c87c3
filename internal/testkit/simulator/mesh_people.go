package simulator

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// This file is what others do on the mesh, whatever carries it.

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

// leftOnMesh returns what waits for us on the mesh.
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

// wire returns the name of the protocol of the mesh.
func (w *World) wire() string {
	if w.nats != nil {
		return "nats"
	}
	return "http"
}
