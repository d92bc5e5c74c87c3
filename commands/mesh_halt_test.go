package commands

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"agentstateloop/mesh"
)

// HALT counts when the agents see it. A service that answers 200 to everything, as a proxy
// or another program on the port may, has halted nobody.
func TestMeshHaltIsShown(t *testing.T) {
	run := func(h http.Handler, args ...string) (code int, said string) {
		web := httptest.NewServer(h)
		defer web.Close()
		path := writeConfig(t, strings.Replace(smallConfig, "[turn]", "state_dir = \"state\"\n[turn]", 1)+"[mesh]\nurl = \""+web.URL+"\"\n")
		var out, errs bytes.Buffer
		code = Run(t.Context(), append([]string{name, "--config", path, "mesh"}, args...), nil, &out, &errs, nil)
		return code, out.String() + errs.String()
	}
	always := func(body string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Write([]byte(body))
		})
	}
	for _, c := range []struct{ body, call, want string }{
		{`{"ok": true}`, "halt", "shows the agents no HALT"},
		{`{"halted": false, "messages": []}`, "halt", "shows the agents no HALT"},
		{`{"halted": true, "messages": []}`, "resume", "shows the agents a HALT nevertheless"},
		{`{"halted": "yes"}`, "halt", "nothing shows that the mesh has done it"},
	} {
		if code, said := run(always(c.body), c.call); code != exitError || !strings.Contains(said, c.want) {
			t.Errorf("%s: mesh %s: exit code %d\n%s", c.body, c.call, code, said)
		}
	}
	ours := mesh.NewServer(mesh.Options{Open: true})
	for _, call := range []string{"halt", "halt", "resume", "resume"} {
		if code, said := run(ours, call); code != exitDone {
			t.Errorf("mesh %s: exit code %d\n%s", call, code, said)
		}
	}
}
