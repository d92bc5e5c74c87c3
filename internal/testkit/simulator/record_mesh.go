package simulator

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
)

// watchMesh wraps the mesh and records what we post and acknowledge.
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
		seen := &statusRecorder{ResponseWriter: w}
		mesh.ServeHTTP(seen, req)
		if seen.code == http.StatusOK || seen.code == http.StatusAccepted {
			r.meshSent(body)
		} else {
			r.world.troubled("mesh")
		}
	})
}

// statusRecorder records the status code of an answer.
type statusRecorder struct {
	http.ResponseWriter
	code int
}

func (w *statusRecorder) WriteHeader(code int) {
	w.code = code
	w.ResponseWriter.WriteHeader(code)
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
		r.questions = append(r.questions, question{id: m.ID, peer: m.To, correlation: m.ID})
	}
}

// checkAck checks that a message which we acknowledge on the mesh is durable with
// us.
func (r *record) checkAck(req *http.Request) {
	id := filepath.Base(req.URL.Path)
	if !r.world.holds(":" + id + `"`) {
		r.world.violate("1", "mesh message %s was acknowledged before it was durable", id)
	}
}
