package mailtest

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"sync"
)

// Tokens is a token endpoint (RFC 6749 section 6) on loopback. Its fields may
// be changed under Lock.
type Tokens struct {
	URL, CAFile string // https

	sync.Mutex
	Refresh string // the accepted refresh token
	Code    string // is exchanged for the refresh token, with any verifier
	Secret  string // of the client, in the form or by Basic auth; "" requires none
	Rotate  bool   // each answer has another refresh token and revokes the earlier one
	Life    int    // expires_in, in seconds; 0 leaves it out
	Status  int    // if not 0, answered with Body instead of a token
	Body    string
	Asked   int             // the number of requests
	Access  string          // the last access token
	OnToken func(string)    // called with the token before the answer
	Wait    <-chan struct{} // the answer waits until it is closed; nil does not wait
}

// StartTokens starts an endpoint for one test. Every refresh token begins with
// refresh, every access token with access.
func StartTokens(t T, refresh, access string) *Tokens {
	t.Helper()
	s := &Tokens{Refresh: refresh, Life: 3600, CAFile: filepath.Join(t.TempDir(), "tokens.pem")}
	ca, err := NewCA()
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ca.Issue("localhost")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.CAFile, ca.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		Handler:  http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, refresh, access) }),
		ErrorLog: log.New(io.Discard, "", 0),
	}
	go server.Serve(listener) // ends with Close
	t.Cleanup(func() { server.Close() })
	s.URL = "https://" + listener.Addr().String() + "/token"
	return s
}

func (s *Tokens) answer(w http.ResponseWriter, r *http.Request, refresh, access string) {
	s.Lock()
	defer s.Unlock()
	s.Asked++
	if s.Wait != nil {
		<-s.Wait
	}
	w.Header().Set("Content-Type", "application/json")
	if s.Status != 0 {
		w.WriteHeader(s.Status)
		fmt.Fprint(w, s.Body)
		return
	}
	secret := r.FormValue("client_secret")
	if _, basic, ok := r.BasicAuth(); ok {
		secret = basic
	}
	if secret != s.Secret {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error":"invalid_client","error_description":"not %s"}`, secret)
		return
	}
	consent := r.FormValue("grant_type") == "authorization_code"
	if consent && (s.Code == "" || r.FormValue("code") != s.Code || r.FormValue("code_verifier") == "") {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":"invalid_grant","error_description":"not %s"}`, r.FormValue("code"))
		return
	}
	if given := r.FormValue("refresh_token"); !consent && (given != s.Refresh || r.FormValue("grant_type") != "refresh_token") {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":"invalid_grant","error_description":"not %s"}`, given)
		return
	}
	more := ""
	if consent {
		more = fmt.Sprintf(`,"refresh_token":%q`, s.Refresh)
	}
	if s.Rotate {
		s.Refresh = fmt.Sprintf("%s-%d", refresh, s.Asked)
		more = fmt.Sprintf(`,"refresh_token":%q`, s.Refresh)
	}
	if s.Life > 0 {
		more += fmt.Sprintf(`,"expires_in":%d`, s.Life)
	}
	s.Access = fmt.Sprintf("%s-%d", access, s.Asked)
	if s.OnToken != nil {
		s.OnToken(s.Access)
	}
	fmt.Fprintf(w, `{"token_type":"Bearer","access_token":%q%s}`, s.Access, more)
}
