package listen

import (
	"errors"
	"net/http"

	"agentstateloop/cycle"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// report accepts a report that a turn of one of our agents waits for. It answers once the report
// is durable.
func (w *webServer) report(rw http.ResponseWriter, r *http.Request) {
	p := w.admitted(rw, r, "POST /report/HANDLE/ID")
	if p == nil {
		return
	}
	var body struct {
		From    string        `json:"from"`
		Status  state.Outcome `json:"status"`
		Fields  mesh.Fields   `json:"fields"`
		Message string        `json:"message"`
	}
	if !decode(rw, r, maxBody, &body, `{"status": "success", "message": "deployed", "fields": {"commit": "4f2a"}}`) {
		return
	}
	report := cycle.LocalReport{From: body.From, Status: body.Status, Text: body.Message, Fields: body.Fields}
	if report.From == "" {
		report.From = "webhook"
	}
	if err := report.Check(); err != nil {
		refuse(rw, http.StatusBadRequest, err.Error())
		return
	}
	id := r.PathValue("id")
	taken, err := p.TakeReport(r.Context(), id, report)
	switch {
	case errors.Is(err, cycle.ErrUnknownReport), errors.Is(err, cycle.ErrNotTheirs):
		refuse(rw, http.StatusNotFound, err.Error())
	case errors.Is(err, cycle.ErrLateReport):
		refuse(rw, http.StatusGone, err.Error())
	case err != nil:
		refuse(rw, http.StatusInternalServerError, err.Error())
	case taken:
		p.requestPoll()
		answer(rw, http.StatusAccepted, map[string]string{"reported": id})
	default:
		answer(rw, http.StatusOK, map[string]string{"reported": id})
	}
}

// authorized reports whether r carries the token. If not, it refuses the request.
func (w *webServer) authorized(rw http.ResponseWriter, r *http.Request) bool {
	code, why := w.checkToken(r)
	if why == "" {
		return true
	}
	if code == http.StatusUnauthorized {
		rw.Header().Set("WWW-Authenticate", `Bearer realm="agentstateloop"`)
	}
	refuse(rw, code, why)
	return false
}
