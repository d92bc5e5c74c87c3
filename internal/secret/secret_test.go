package secret_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"

	"agentstateloop/internal/plain"
	"agentstateloop/internal/secret"
)

// awkward is a secret that is different in each kind of quotes.
const awkward = `p"a\s<&>'wörd/+ 42`

// TestRedactsEncodedSecrets checks that a secret is redacted in each encoding of a server.
func TestRedactsEncodedSecrets(t *testing.T) {
	asJSON, err := json.Marshal("x" + awkward + "y")
	if err != nil {
		t.Fatal(err)
	}
	var echoes = map[string]string{
		"plain":     "wrong: " + awkward + ".",
		"go":        fmt.Sprintf("%q", "x"+awkward+"y"),
		"go, ascii": fmt.Sprintf("%+q", awkward),
		"json":      string(asJSON),
		"imap":      strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(awkward),
		"html":      html.EscapeString(awkward),
		"query":     url.Values{"password": {awkward}}.Encode(),
		"path":      url.PathEscape(awkward),
		"lower":     strings.NewReplacer("%5C", "%5c", "%3C", "%3c", "%3E", "%3e", "%C3%B6", "%c3%b6", "%2F", "%2f").Replace(url.PathEscape(awkward)),
		"hex":       fmt.Sprintf("%x", awkward),
		"HEX":       fmt.Sprintf("%X", awkward),
	}
	for _, user := range []string{"", "a", "ab", "abc", "agent@example.org"} {
		echoes["PLAIN of "+user] = base64.StdEncoding.EncodeToString([]byte("\x00" + user + "\x00" + awkward))
		echoes["XOAUTH2 of "+user] = base64.StdEncoding.EncodeToString([]byte("user=" + user + "\x01auth=Bearer " + awkward + "\x01\x01"))
		echoes["Basic of "+user] = base64.URLEncoding.EncodeToString([]byte(user + ":" + awkward))
	}
	secrets := new(secret.Known)
	secrets.Learn("imap", awkward)
	for name, echo := range echoes {
		got := secrets.Redact("before " + echo + " after")
		if !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") || !strings.Contains(got, "***") {
			t.Errorf("%s: %s became %s", name, echo, got)
		}
		for _, form := range secret.Disguises(awkward) {
			if strings.Contains(got, form) {
				t.Errorf("%s: %s still has %s", name, got, form)
			}
		}
	}
}

// TestRedactsSecretsInJSON checks that a secret is redacted whose characters a command escapes in its
// JSON.
func TestRedactsSecretsInJSON(t *testing.T) {
	for _, value := range []string{"del\x7fdel\x7fdel", "tag\U000e0041tag\u00adtag", "\u202e\u200b\u2028\u0085"} {
		secrets := new(secret.Known)
		secrets.Learn("imap", value)
		asJSON, err := json.Marshal("before " + value + " after")
		if err != nil {
			t.Fatal(err)
		}
		if got := secrets.Redact(string(plain.JSON(asJSON))); got != `"before *** after"` {
			t.Errorf("%+q: %s", value, got)
		}
	}
}

// TestKeepsTwoValues checks that the last two values of each secret are redacted, and no value that is
// too short.
func TestKeepsTwoValues(t *testing.T) {
	secrets := new(secret.Known)
	for _, token := range []string{"token-one", "token-two", "token-two", "token-three"} {
		secrets.Learn("access token", token)
	}
	secrets.Learn("imap", "hunter2")
	secrets.Learn("smtp", "hunter2-and-more")
	secrets.Learn("mesh", "and-more")
	const text = "token-one token-two token-three hunter2 hunter2-and-more"
	if got, want := secrets.Redact(text), "token-one *** *** hunter2 ***"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	var none *secret.Known
	none.Learn("imap", "hunter2-and-more")
	if got := none.Redact(text); got != text {
		t.Errorf("a nil Known: %s", got)
	}
}

// TestRedactsStream checks that a secret is redacted in a stream of any pieces, and that the rest stays.
func TestRedactsStream(t *testing.T) {
	secrets := new(secret.Known)
	secrets.Learn("a", "abababac")
	secrets.Learn("b", "babababab-long")
	const text = "abababac xabababababac babababab-long ababab babababab-lon"
	want := secrets.Redact(text)
	for name, r := range map[string]io.Reader{
		"whole": strings.NewReader(text), "by bytes": iotest.OneByteReader(strings.NewReader(text)),
		"by halves": iotest.HalfReader(strings.NewReader(text)), "with its end": iotest.DataErrReader(strings.NewReader(text)),
	} {
		got, err := io.ReadAll(secrets.Reader(r))
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
	broken := iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("ab")))
	if got, err := io.ReadAll(secrets.Reader(broken)); string(got) != "a" || err != iotest.ErrTimeout {
		t.Errorf("a broken stream yields %q, %v", got, err)
	}
}

// TestGuardedPanic checks that the report of a panic, with a text or an error, has its place and no
// secret. The runtime prints only the report.
func TestGuardedPanic(t *testing.T) {
	secrets := new(secret.Known)
	secrets.Learn("imap", awkward)
	for name, value := range map[string]any{
		"a text": "the server said " + awkward, "an error": fmt.Errorf("the server said %q", awkward),
	} {
		report := func() (v any) {
			defer func() { v = recover() }()
			secrets.Guarded(func() { crashing(value) })()
			return "no panic"
		}()
		text, is := report.(string)
		if !is || !strings.HasPrefix(text, "the server said ") || !strings.Contains(text, "***") || !strings.Contains(text, "secret_test.crashing") {
			t.Errorf("%s: %v", name, report)
		}
		for _, form := range secret.Disguises(awkward) {
			if strings.Contains(text, form) {
				t.Errorf("%s: the report has %s", name, form)
			}
		}
	}
	var none *secret.Known
	ran := false
	none.Guarded(func() { ran = true })()
	if !ran {
		t.Error("a nil Known does not run the function")
	}
}

func crashing(value any) { panic(value) }

// FuzzSecrets checks that each form of a secret is redacted, in one piece or in many.
func FuzzSecrets(f *testing.F) {
	f.Add("correct horse", "user", "battery")
	f.Add(awkward, "", "%")
	f.Fuzz(func(t *testing.T, value, before, after string) {
		if len(value) < 8 || strings.Contains(value, "*") {
			return
		}
		secrets := new(secret.Known)
		secrets.Learn("x", value)
		for _, form := range secret.Disguises(value) {
			text := before + form + after
			if got := secrets.Redact(text); strings.Contains(got, value) {
				t.Errorf("%q became %q", text, got)
			}
			got, err := io.ReadAll(secrets.Reader(iotest.HalfReader(strings.NewReader(text))))
			if err != nil || strings.Contains(string(got), value) {
				t.Errorf("%q in pieces became %q, %v", text, got, err)
			}
		}
	})
}
