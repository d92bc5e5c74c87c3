package commands

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"agentstateloop/cycle/hook"
	"agentstateloop/state"
)

// hookRequest is a request that a hook has made.
type hookRequest struct {
	path   string
	header http.Header
	body   string
}

// TestHookExamplesOfDocs loads the examples of docs/hooks.md with other addresses, and checks
// the requests to ntfy and Telegram and the input of a program.
func TestHookExamplesOfDocs(t *testing.T) {
	t.Parallel()
	got := make(chan hookRequest, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- hookRequest{r.URL.Path, r.Header, string(body)}
	}))
	defer server.Close()
	doc := readFile(t, "../docs/hooks.md")
	text := smallConfig
	for _, example := range regexp.MustCompile("(?s)```toml\n(\\[\\[hook\\]\\].*?)```").FindAllStringSubmatch(doc, -1) {
		text += example[1]
	}
	text = strings.NewReplacer("https://ntfy.sh", server.URL, "https://api.telegram.org", server.URL).Replace(text)
	file := writeConfig(t, text)
	dir := filepath.Dir(file)
	writeFile(t, filepath.Join(dir, "telegram-token"), "123:abc-def-token\n")
	writeScript(t, filepath.Join(dir, "on-event.sh"), "echo \"$AGENTSTATELOOP_EVENT $AGENTSTATELOOP_HANDLE $PWD\" >input; cat >>input")
	a, err := testLoader().Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Hooks) != 3 {
		t.Fatalf("docs/hooks.md has %d hooks", len(a.Hooks))
	}
	event := state.Announcement{Event: "blocker", ID: "7.1", Agent: a.Handle, Data: state.Details{Credential: "smtp", Reason: `535 "no" \ <b>`}}
	const notice = `: blocker, smtp: 535 "no" \ <b>`
	deliver := func(h hook.Hook) {
		t.Helper()
		body, err := h.Render(event)
		if err == nil {
			err = h.Deliver(t.Context(), hook.Call{ID: "hook.1", Event: event, Body: body})
		}
		if err != nil {
			t.Fatalf("%s: %v", h.Name, err)
		}
	}

	deliver(a.Hooks[0])
	input := readFile(t, filepath.Join(dir, "input"))
	first, rest, _ := strings.Cut(input, "\n")
	var decoded state.Announcement
	if first != "blocker "+a.Handle+" "+dir || json.Unmarshal([]byte(rest), &decoded) != nil || decoded.Data.Reason != event.Data.Reason {
		t.Errorf("the input of the program is %q", input)
	}

	deliver(a.Hooks[1])
	ntfy := <-got
	if ntfy.path != "/my-secret-topic" || ntfy.body != "@"+a.Handle+notice || ntfy.header.Get("Title") != a.Handle+": blocker" || ntfy.header.Get("Priority") != "high" ||
		!strings.HasPrefix(ntfy.header.Get("Content-Type"), "text/plain") {
		t.Errorf("ntfy got %+v", ntfy)
	}

	deliver(a.Hooks[2])
	telegram := <-got
	var message struct {
		ChatID int64  `json:"chat_id"`
		Text   string `json:"text"`
	}
	err = json.Unmarshal([]byte(telegram.body), &message)
	if err != nil || telegram.path != "/bot123:abc-def-token/sendMessage" || message.ChatID != 123456789 || message.Text != "@"+a.Handle+notice ||
		telegram.header.Get("Content-Type") != "application/json" || telegram.header.Get("Authorization") != "" {
		t.Errorf("Telegram got %+v: %v", telegram, err)
	}
	if redacted := a.Secrets.Redact(telegram.path); strings.Contains(redacted, "abc-def-token") {
		t.Error("the token is not known as a secret")
	}

	server.Close()
	var failed *hook.Error
	err = a.Hooks[2].Deliver(t.Context(), hook.Call{ID: "hook.2", Event: event})
	if !errors.As(err, &failed) || strings.Contains(failed.Reason, "abc-def-token") {
		t.Errorf("an error with the token: %v", err)
	}
}

// TestHookErrorHidesToken checks that an error has no beginning of a token, also at the place where an
// answer or an address is cut.
func TestHookErrorHidesToken(t *testing.T) {
	t.Parallel()
	const token = "abc:def+ghi&jkl-mnopqrstuvwxyz-0123456789"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(400)
		if !strings.HasPrefix(r.URL.Path, "/"+token) || r.FormValue("t") != token {
			io.WriteString(w, "wrong token")
		}
		io.WriteString(w, strings.Repeat("x", 165)+r.RequestURI)
	}))
	defer server.Close()
	file := writeConfig(t, smallConfig+"[[hook]]\nname = \"x\"\non = [\"halt\"]\nurl = \""+server.URL+"/{token}?t={token}\"\ntoken_file = \"token\"\n"+
		"[[hook]]\nname = \"y\"\non = [\"halt\"]\ncommand = [\"sh\", \"-c\", \"printf %0165d 0 >&2; cat token >&2; exit 1\"]\n")
	writeFile(t, filepath.Join(filepath.Dir(file), "token"), token+"\n")
	a, err := testLoader().Load(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range a.Hooks {
		var failed *hook.Error
		err := h.Deliver(t.Context(), hook.Call{ID: "hook.1", Body: []byte("{}")})
		if !errors.As(err, &failed) {
			t.Fatal(err)
		}
		if reason := a.Secrets.Redact(failed.Reason); strings.Contains(reason, "abc:") || strings.Contains(reason, "abc%3") || strings.Contains(reason, "wrong") || !strings.Contains(reason, "*") {
			t.Errorf("%s: %s", h.Name, reason)
		}
	}
}
