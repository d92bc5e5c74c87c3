package commands

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"agentstateloop/cycle/hook"
	"agentstateloop/internal/testkit"
	"agentstateloop/state"
)

// posted is a request that a hook has made.
type posted struct {
	path   string
	header http.Header
	body   string
}

// TestHookExamples loads the examples of docs/operating.md as they are, but for the
// addresses, and checks what ntfy, Telegram and a program get.
func TestHookExamples(t *testing.T) {
	t.Parallel()
	got := make(chan posted, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- posted{r.URL.Path, r.Header, string(body)}
	}))
	defer server.Close()
	doc, err := os.ReadFile("../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	text := smallConfig
	for _, example := range regexp.MustCompile("(?s)```toml\n(\\[\\[hook\\]\\].*?)```").FindAllSubmatch(doc, -1) {
		text += string(example[1])
	}
	text = strings.NewReplacer("https://ntfy.sh", server.URL, "https://api.telegram.org", server.URL).Replace(text)
	file := writeConfig(t, text)
	dir := filepath.Dir(file)
	const program = "#!/bin/sh\necho \"$AGENTSTATELOOP_EVENT $AGENTSTATELOOP_HANDLE $PWD\" > heard; cat >> heard\n"
	for name, content := range map[string]string{"telegram-token": "123:abc-def-token\n", "on-event.sh": program} {
		if err := testkit.WriteProgram(filepath.Join(dir, name), content); err != nil {
			t.Fatal(err)
		}
	}
	a, err := testLoader().Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Hooks) != 3 {
		t.Fatalf("docs/operating.md has %d hooks", len(a.Hooks))
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
	heard, err := os.ReadFile(filepath.Join(dir, "heard"))
	first, rest, _ := strings.Cut(string(heard), "\n")
	var again state.Announcement
	if err != nil || first != "blocker "+a.Handle+" "+dir || json.Unmarshal([]byte(rest), &again) != nil || again.Data.Reason != event.Data.Reason {
		t.Errorf("the program heard %q: %v", heard, err)
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

// TestHookRepeatsToken checks that no beginning of a token is left where an answer
// is cut, or where an address is.
func TestHookRepeatsToken(t *testing.T) {
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
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), "token"), []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
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
