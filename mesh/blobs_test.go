package mesh

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func fileOf(name, text string) File {
	sum := sha256.Sum256([]byte(text))
	return File{SHA256: hex.EncodeToString(sum[:]), Name: name, Type: "text/plain", Size: int64(len(text))}
}

// upload uploads a file with this text.
func upload(t *testing.T, c *Client, text string) error {
	f := fileOf("", text)
	return c.PutBlob(t.Context(), "", f.SHA256, f.Size, strings.NewReader(text))
}

func putFile(t *testing.T, c *Client, text string) File {
	t.Helper()
	if err := upload(t, c, text); err != nil {
		t.Fatal(err)
	}
	return fileOf("report.txt", text)
}

// getFile returns the text of a file in the mesh, or the code of the refusal.
func getFile(t *testing.T, c *Client, f File) (text string, code int) {
	t.Helper()
	var b bytes.Buffer
	err := c.GetBlob(t.Context(), "", f, func(r io.Reader) error { _, err := io.Copy(&b, r); return err })
	if e, ok := errors.AsType[*Error](err); ok {
		return "", e.Code
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String(), 0
}

func errorCode(t *testing.T, err error) int {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("%v is not an error of the mesh", err)
	}
	return e.Code
}

// TestFileLifetime checks that a file is available to its uploader and to the recipients of messages
// that name it, and expires an hour after the last such message.
func TestFileLifetime(t *testing.T) {
	clock := newTestClock()
	tokens := twoTokens()
	tokens["third"] = "t3"
	s, url := startServer(t, Options{Tokens: tokens, Now: clock.now})
	g, d, third := client(url, "goulard", "tg"), client(url, "dorlange", "td"), client(url, "third", "t3")

	f := fileOf("report.txt", "hello")
	_, err := g.Send(t.Context(), Message{ID: "m", To: "dorlange", Text: "look", Files: []File{f}})
	if errorCode(t, err) != http.StatusConflict || !strings.Contains(err.Error(), "does not have the file report.txt") {
		t.Errorf("a message before its file: %v", err)
	}
	putFile(t, g, "hello")
	putFile(t, g, "hello") // a repeat, as after a lost response
	_, err = third.Send(t.Context(), Message{To: "third", Text: "mine", Files: []File{f}})
	if errorCode(t, err) != http.StatusConflict {
		t.Errorf("a file that another agent uploaded was named: %v", err)
	}
	if _, code := getFile(t, d, f); code != http.StatusNotFound {
		t.Errorf("a file without a message was read: %d", code)
	}
	lied := f
	lied.Missing = "a lie"
	if _, err := g.Send(t.Context(), Message{ID: "m", To: "dorlange", Text: "look", Files: []File{lied}}); err != nil {
		t.Fatal(err)
	}
	mailbox, err := d.Mailbox(t.Context(), 0)
	if err != nil || len(mailbox.Messages) != 1 || len(mailbox.Messages[0].Files) != 1 || mailbox.Messages[0].Files[0] != f {
		t.Fatalf("%+v %v", mailbox, err)
	}
	for name, c := range map[string]*Client{"recipient": d, "uploader": g} {
		if text, code := getFile(t, c, f); text != "hello" {
			t.Errorf("%s: %q %d", name, text, code)
		}
	}
	if _, code := getFile(t, third, f); code != http.StatusNotFound {
		t.Errorf("a third agent read it: %d", code)
	}
	clock.Time = clock.Add(48 * time.Hour)
	if d.Mailbox(t.Context(), 0); len(s.blobs.stored) != 1 {
		t.Error("a file that a waiting message names was removed")
	}
	if err := d.Ack(t.Context(), "m"); err != nil {
		t.Fatal(err)
	}
	if _, code := getFile(t, d, f); code != http.StatusNotFound {
		t.Errorf("after the acknowledgement: %d", code)
	}
	clock.Time = clock.Add(59 * time.Minute)
	if d.Mailbox(t.Context(), 0); len(s.blobs.stored) != 1 {
		t.Error("it was removed before the hour")
	}
	clock.Time = clock.Add(2 * time.Minute)
	if d.Mailbox(t.Context(), 0); len(s.blobs.stored) != 0 {
		t.Error("it was not removed after the hour")
	}
	putFile(t, g, "never named")
	clock.Time = clock.Add(23 * time.Hour)
	if d.Mailbox(t.Context(), 0); len(s.blobs.stored) != 1 {
		t.Error("an upload was removed within a day")
	}
	clock.Time = clock.Add(2 * time.Hour)
	if d.Mailbox(t.Context(), 0); len(s.blobs.stored) != 0 {
		t.Error("an upload that no message names was not removed after a day")
	}
}

// TestUploadsAreChecked checks that an upload is accepted only whole, with its checksum, and within
// the limits.
func TestUploadsAreChecked(t *testing.T) {
	s, url := startServer(t, Options{Tokens: twoTokens()})
	g := client(url, "goulard", "tg")
	f := fileOf("a", "right")
	if err := g.PutBlob(t.Context(), "", f.SHA256, 5, strings.NewReader("wrong")); errorCode(t, err) != http.StatusUnprocessableEntity {
		t.Errorf("other bytes: %v", err)
	}
	putFile(t, g, "right")
	if err := g.PutBlob(t.Context(), "", f.SHA256, 3, strings.NewReader("bad")); errorCode(t, err) != http.StatusUnprocessableEntity {
		t.Errorf("fewer bytes than the stored file: %v", err)
	}
	clear(s.blobs.stored)
	if err := g.PutBlob(t.Context(), "", f.SHA256, MaxFile+1, strings.NewReader("right")); errorCode(t, err) != http.StatusRequestEntityTooLarge {
		t.Errorf("too large: %v", err)
	}
	if err := g.PutBlob(t.Context(), "", "../x", 5, strings.NewReader("right")); err == nil {
		t.Error("a path was accepted as a sum")
	}
	if resp, _ := rawCall(t, "PUT", url+"/blob/"+f.SHA256, "", "right"); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %d", resp.StatusCode)
	}
	req, _ := http.NewRequest("PUT", url+"/blob/"+f.SHA256, io.MultiReader(strings.NewReader("right")))
	req.Header.Set("Authorization", "Bearer tg")
	if resp, _ := send(t, req); resp.StatusCode != http.StatusLengthRequired {
		t.Errorf("without a length: %d", resp.StatusCode)
	}
	if len(s.blobs.stored) != 0 {
		t.Errorf("stored: %v", s.blobs.stored)
	}
	for name, bad := range map[string]File{
		"a slash": {SHA256: f.SHA256, Name: "../etc/passwd"},
		"control": {SHA256: f.SHA256, Name: "a\nb"},
		"dots":    {SHA256: f.SHA256, Name: ".."},
		"no name": {SHA256: f.SHA256},
		"a sum":   {SHA256: strings.ToUpper(f.SHA256), Name: "a"},
		"type":    {SHA256: f.SHA256, Name: "a", Type: "text/plain; x=y"},
		"size":    {SHA256: f.SHA256, Name: "a", Size: -1},
	} {
		if CheckFiles([]File{bad}) == nil {
			t.Errorf("%s: %+v was accepted", name, bad)
		}
	}
}

func TestUploadsAreLimited(t *testing.T) {
	s, url := startServer(t, Options{Tokens: twoTokens(), Open: true})
	g, d, anyone := client(url, "goulard", "tg"), client(url, "dorlange", "td"), client(url, "else", "")
	s.blobs.sender, s.blobs.total = blobQuota{20, 3}, blobQuota{31, 8}
	putFile(t, g, "0123456789")
	if err := upload(t, g, "01234567890"); errorCode(t, err) != http.StatusTooManyRequests {
		t.Errorf("above the bytes of one sender: %v", err)
	}
	putFile(t, g, "a")
	putFile(t, g, "b")
	if err := upload(t, g, "c"); errorCode(t, err) != http.StatusTooManyRequests {
		t.Errorf("above the files of one sender: %v", err)
	}
	if err := upload(t, anyone, "c"); errorCode(t, err) != http.StatusInsufficientStorage {
		t.Errorf("an unproven sender above a quarter of the whole: %v", err)
	}
	putFile(t, d, "0123456789")
	if err := upload(t, d, "0123456780"); errorCode(t, err) != http.StatusInsufficientStorage {
		t.Errorf("above the whole: %v", err)
	}
}

// TestFilesSurviveARestart checks that a file that was answered with 201 survives a restart, and a
// torn file does not.
func TestFilesSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	s := openMesh(t, dir)
	url := serveMesh(t, s)
	g := client(url, "goulard", "tg")
	f := putFile(t, g, "kept")
	if _, err := g.Send(t.Context(), Message{ID: "m", To: "dorlange", Text: "look", Files: []File{f}}); err != nil {
		t.Fatal(err)
	}
	spoiled := putFile(t, g, "spoiled")
	s.Close()

	blobs := filepath.Join(dir, "blobs")
	if err := os.WriteFile(filepath.Join(blobs, "upload-torn"), []byte("to"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(blobs, "goulard", spoiled.SHA256), []byte("SPOILED"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = openMesh(t, dir)
	url = serveMesh(t, s)
	g, d := client(url, "goulard", "tg"), client(url, "dorlange", "td")
	if text, code := getFile(t, d, f); text != "kept" {
		t.Errorf("after the restart: %q %d", text, code)
	}
	if s.blobs.stored[blobKey{"goulard", f.SHA256}].named != 1 {
		t.Error("the message does not keep its file")
	}
	if _, code := getFile(t, g, spoiled); code != http.StatusNotFound {
		t.Errorf("a damaged file: %d", code)
	}
	putFile(t, g, "spoiled") // a new upload repairs it
	if text, _ := getFile(t, g, spoiled); text != "spoiled" {
		t.Error("it was not repaired")
	}
	if _, err := os.Lstat(filepath.Join(blobs, "upload-torn")); !os.IsNotExist(err) {
		t.Errorf("a torn upload was left: %v", err)
	}
}

// TestMeshWithoutFiles checks the error of a mesh of an older version, and that an answer of another
// service does not count as an upload.
func TestMeshWithoutFiles(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /other/", func(w http.ResponseWriter, _ *http.Request) { answerJSON(w, 200, map[string]string{}) })
	mux.HandleFunc("GET /other/", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("something else")) })
	c := serve(t, mux)
	if err := upload(t, c, "hello"); !errors.Is(err, ErrNoFiles) {
		t.Errorf("upload: %v", err)
	}
	c.Paths.Blob = "/other"
	if err := upload(t, c, "hello"); err == nil {
		t.Error("any answer was accepted")
	}
	if text, code := getFile(t, c, fileOf("a", "hello")); text != "" || code == 0 {
		t.Errorf("other bytes were accepted: %q %d", text, code)
	}
}

// TestUnreadableFileStays checks the error of a mesh that lacks a file descriptor or whose disk
// fails, and that the file is there afterwards.
func TestUnreadableFileStays(t *testing.T) {
	s, url := startServer(t, Options{Tokens: twoTokens()})
	g, d := client(url, "goulard", "tg"), client(url, "dorlange", "td")
	f := putFile(t, g, "hello")
	if _, err := g.Send(t.Context(), Message{ID: "m", To: "dorlange", Text: "look", Files: []File{f}}); err != nil {
		t.Fatal(err)
	}
	whole := s.blobs.store
	for _, fault := range []error{syscall.EMFILE, syscall.EIO} {
		s.blobs.store = faultyBlobs{whole, &os.PathError{Op: "open", Path: "/a/secret/place", Err: fault}}
		err := d.GetBlob(t.Context(), "", f, func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err })
		if errorCode(t, err) != http.StatusServiceUnavailable || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v: %v", fault, err)
		}
		s.blobs.store = whole
		if text, code := getFile(t, d, f); text != "hello" {
			t.Errorf("after %v: %q %d", fault, text, code)
		}
	}
}

// faultyBlobs are blobs that cannot be opened.
type faultyBlobs struct {
	blobStore
	err error
}

func (f faultyBlobs) open(blobKey) (io.ReadSeekCloser, error) { return nil, f.err }
